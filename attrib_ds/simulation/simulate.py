"""Simulate journeys with known causal effects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attrib_ds.errors import InvalidRequest, check_number, check_whole
from attrib_ds.records.frames import TEXT
from attrib_ds.simulation.daily_simulation import Days, Outcomes, Population, node_names
from attrib_ds.simulation.scenarios import Scenario, scenario_named

#: Users who are simulated together; bounds the memory.
_BATCH_SIZE: Final = 100_000
#: Fraction of a day that separates its touchpoints (before) from its conversions (after).
_TOUCHES_UNTIL: Final = 0.9
_MINUTE: Final = 1 / 1_440
_MICROSECONDS: Final = 86_400_000_000
_MEAN_VALUE: Final = 60.0


@dataclass(frozen=True, eq=False)
class Simulation:
    """Journeys of simulated users, from :func:`simulate`.

    Attributes
    ----------
    scenario : Scenario
        The simulated scenario.
    seed : int
        Seed of the random numbers.
    users : DataFrame
        One row per user: ``user_id`` (str), ``trait`` (boolean, observed), ``since`` and ``until``
        (datetime64[us, UTC], the period of observation, which ends with the conversion or the last day).
    touchpoints : DataFrame
        One row per touchpoint: ``user_id``, ``node_id``, ``date``.
    conversions : DataFrame
        One row per conversion, at most one per user: ``event_id``, ``user_id``, ``date``, ``value``,
        ``currency``.
    withheld : DataFrame
        One row per user and channel withheld from the user at random: ``user_id``, ``node_id``.
    opportunities : DataFrame
        One row per touchpoint that was prevented because the channel was withheld: ``user_id``, ``node_id``,
        ``date``. Ad servers with ghost ads log these.
    """

    scenario: Scenario
    seed: int
    users: pd.DataFrame
    touchpoints: pd.DataFrame
    conversions: pd.DataFrame
    withheld: pd.DataFrame
    opportunities: pd.DataFrame

    def truth(self, *, shapley: bool = False, direct: bool = False) -> pd.DataFrame:
        """Count the conversions that each channel caused, by simulating the same days without it.

        Parameters
        ----------
        shapley : bool, default False
            Whether to compute Shapley values too, which simulates every combination of channels: 64 runs
            for six channels instead of seven.
        direct : bool, default False
            Whether to count the conversions lost without the direct effects of each channel, synergies
            included, with the touchpoints of all others and the users' intent unchanged.

        Returns
        -------
        DataFrame
            One row per node, with the unpaid ones, which cause nothing, last: ``node_id`` (str), ``removal``
            (float64, conversions lost without the channel, with all others running) and, with
            ``shapley=True``, ``shapley``, and with ``direct=True``, ``direct``. With synergies, removals add
            up to more than the effect of all channels. No channel is withheld from anybody here.

        Examples
        --------
        >>> truth = simulate("random", users=2_000, seed=1).truth()
        >>> truth["node_id"].tolist()[-2:], truth["removal"].tolist()[-2:]
        (['organic', 'direct'], [0.0, 0.0])
        """
        count = len(self.scenario.channels)
        everything = (True,) * count
        subsets = [everything, *(_without(everything, position) for position in range(count))]
        if shapley:
            subsets = list(itertools.product((True, False), repeat=count))
        conversions = {running: self._conversions(running) for running in subsets}
        names = node_names(self.scenario)
        effects: dict[str, Sequence[float]] = {
            "removal": [
                float(conversions[everything] - conversions[_without(everything, position)])
                for position in range(count)
            ]
        }
        if shapley:
            effects["shapley"] = _shapley(conversions, count)
        if direct:
            effects["direct"] = [self._direct(position) for position in range(count)]
        unpaid = [0.0] * (len(names) - count)
        columns = {name: [*of_channels, *unpaid] for name, of_channels in effects.items()}
        return pd.DataFrame({"node_id": names} | columns).astype({"node_id": TEXT})

    def _direct(self, position: int) -> float:
        """Return the conversions lost if a channel runs without direct effects."""
        channels = list(self.scenario.channels)
        channels[position] = replace(channels[position], direct=0.0)
        node_id = channels[position].node_id
        synergies = tuple(pair for pair in self.scenario.synergies if node_id not in pair[:2])
        without = replace(self.scenario, channels=tuple(channels), synergies=synergies)
        everything = (True,) * len(channels)
        counterfactual = replace(self, scenario=without)
        return float(self._conversions(everything) - counterfactual._conversions(everything))

    @cached_property
    def _conversion_counts(self) -> dict[tuple[bool, ...], int]:
        return {}

    def _conversions(self, running: tuple[bool, ...]) -> int:
        if running not in self._conversion_counts:
            batches = _batches(self.scenario, len(self.users), self.seed, running=running, is_recorded=False)
            converted = [outcomes.conversion_days >= 0 for _, outcomes, _ in batches]
            self._conversion_counts[running] = int(np.concatenate(converted).sum())
        return self._conversion_counts[running]


def simulate(
    scenario: str | Scenario, *, users: int, seed: int, holdout: float = 0.0, start: str = "2025-01-01"
) -> Simulation:
    """Simulate journeys with known causal effects, to evaluate models.

    Every user is simulated for ``scenario.days`` days: intent rises and falls, channels reach users, users
    search and visit directly, and convert at most once, with a hazard that earlier exposures have raised.
    The touchpoints of a day come before its conversions.

    Parameters
    ----------
    scenario : str or Scenario
        ``"random"``: exposure is random, channels have direct effects. ``"intent"``: users who are about to
        buy are reached more often, display and social raise intent. ``"synergy"`` and ``"intent_synergy"``:
        the same with synergies between channels. ``"promotions"``: promotions raise conversions and
        the exposure to some channels, activity has a heavy tail, a popup harms, and a site with coupons is
        visited at the checkout and causes nothing. ``"considered"``: users decide after weeks of
        consideration, brand search causes nothing, and a popup harms. ``"sessions"``: a log of clicks, with
        purchases in sessions only. ``"mediation"``: exposure is random, but display leads to brand searches,
        which have little effect of their own. Or a :class:`Scenario`.
    users : int
        Number of users, 1 or more. A million takes seconds.
    seed : int
        Seed of the random numbers, 0 or more; the same seed gives identical frames.
    holdout : float, default 0
        Share of users, 0 to 0.5, that each channel is withheld from, drawn independently per channel: a
        randomised experiment.
    start : str, default "2025-01-01"
        First day, in UTC.

    Returns
    -------
    Simulation
        Its ``touchpoints``, ``conversions`` and ``users`` are arguments of
        :meth:`attrib_ds.Paths.from_frames`; its ``truth()`` counts the conversions that channels caused.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.

    Examples
    --------
    >>> from attrib_ds import Paths, attribute, simulate
    >>> world = simulate("random", users=5_000, seed=1)
    >>> credits = attribute(Paths.from_frames(world.touchpoints, world.conversions), "linear")
    >>> round(credits["conversions"].sum()) == len(world.conversions)
    True
    """
    simulated = scenario_named(scenario)
    users = check_whole("users", users, minimum=1)
    seed = check_whole("seed", seed, minimum=0)
    holdout = check_number("holdout", holdout, "0 to 0.5", minimum=0, maximum=0.5)
    first_day = _midnight(start)
    users, seed = int(users), int(seed)
    everything = (True,) * len(simulated.channels)
    batches = _batches(simulated, users, seed, running=everything, holdout=holdout)
    parts = [
        _frames(simulated, outcomes, population, withheld, first_day, number=number, seed=seed)
        for number, (population, outcomes, withheld) in enumerate(batches)
    ]
    joined = [pd.concat(frames, ignore_index=True) for frames in zip(*parts, strict=True)]
    return Simulation(simulated, seed, *joined)


def _midnight(start: object) -> pd.Timestamp:
    """Parse the first day; return its start in UTC."""
    try:
        if not isinstance(start, str | date | np.datetime64):
            raise TypeError
        instant = pd.Timestamp(start)
        first = instant.tz_localize("UTC") if instant.tz is None else instant.tz_convert("UTC")
        if not 1700 <= first.year <= 2200:
            raise ValueError
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"start: {start!r} is not allowed; allowed: a day such as '2025-01-31', in the years 1700 to 2200"
        ) from error
    return first.as_unit("us")


def _batches(
    scenario: Scenario,
    users: int,
    seed: int,
    *,
    running: Sequence[bool],
    holdout: float = 0.0,
    is_recorded: bool = True,
) -> Iterator[tuple[Population, Outcomes, NDArray[np.bool_] | None]]:
    """Simulate the users in batches."""
    for number, offset in enumerate(range(0, users, _BATCH_SIZE)):
        count = min(_BATCH_SIZE, users - offset)
        population = Population.draw(_random(seed, number, "population"), count, spread=scenario.activity)
        withheld = None
        if holdout:
            draws = _random(seed, number, "holdout").random((len(scenario.channels), count), np.float32)
            withheld = draws < holdout
        random = _random(seed, number, "days")
        yield (
            population,
            Days(scenario, population, random, running, withheld, is_recorded).outcomes(),
            withheld,
        )


def _random(seed: int, batch: int, purpose: str) -> np.random.Generator:
    # Independent streams, so that a holdout or the time of day does not change other draws.
    purposes = ("population", "days", "holdout", "times", "values", "opportunities")
    seeds = np.random.SeedSequence([seed, batch, purposes.index(purpose)])
    return np.random.Generator(np.random.SFC64(seeds))


def _frames(
    scenario: Scenario,
    outcomes: Outcomes,
    population: Population,
    withheld: NDArray[np.bool_] | None,
    first_day: pd.Timestamp,
    *,
    number: int,
    seed: int,
) -> tuple[pd.DataFrame, ...]:
    count = len(outcomes.conversion_days)
    first_user = number * _BATCH_SIZE
    user_ids = pd.Series([f"u{first_user + user:08d}" for user in range(count)], dtype=TEXT)
    names = pd.Series(node_names(scenario), dtype=TEXT)

    def rows(
        users: NDArray[Any], nodes: NDArray[Any], days: NDArray[np.float64] | None = None
    ) -> pd.DataFrame:
        order = np.arange(len(users), dtype=np.int64) if days is None else np.lexsort((days, users))
        columns = {"user_id": user_ids.take(users[order]), "node_id": names.take(nodes[order])}
        frame = pd.DataFrame({name: texts.reset_index(drop=True) for name, texts in columns.items()})
        return frame if days is None else frame.assign(date=_instants(days[order], first_day))

    times = _random(seed, number, "times")
    touch_times = outcomes.days + _TOUCHES_UNTIL * times.random(len(outcomes.days))
    late = _TOUCHES_UNTIL * _random(seed, number, "opportunities").random(len(outcomes.withheld_days))
    conversion_times = outcomes.conversion_days + _TOUCHES_UNTIL + (1 - _TOUCHES_UNTIL) * times.random(count)
    touch_times, conversion_times = _near_purchases(scenario, outcomes, touch_times, conversion_times, times)
    has_bought = outcomes.conversion_days >= 0
    buyers = np.flatnonzero(has_bought)
    buyer_ids = user_ids.take(buyers).reset_index(drop=True)
    values = _random(seed, number, "values").lognormal(math.log(_MEAN_VALUE) - 0.32, 0.8, len(buyers))
    users = pd.DataFrame(
        {
            "user_id": user_ids,
            "trait": pd.array(population.trait),
            "since": _instants(np.zeros(count), first_day),
            "until": _instants(np.where(has_bought, conversion_times, float(scenario.days)), first_day),
        }
    )
    conversions = pd.DataFrame(
        {
            "event_id": "e" + buyer_ids.str.slice(1),
            "user_id": buyer_ids,
            "date": _instants(conversion_times[buyers], first_day),
            "value": values.round(2),
            "currency": pd.Series(["EUR"] * len(buyers), dtype=TEXT),
        }
    )
    held_out, held_out_users = np.nonzero(withheld) if withheld is not None else np.empty((2, 0), int)
    return (
        users,
        rows(outcomes.users, outcomes.nodes, touch_times),
        conversions,
        rows(held_out_users, held_out),
        rows(outcomes.withheld_users, outcomes.withheld_nodes, outcomes.withheld_days + late),
    )


def _near_purchases(
    scenario: Scenario,
    outcomes: Outcomes,
    touch_times: NDArray[np.float64],
    conversion_times: NDArray[np.float64],
    random: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Move conversions into their sessions, and touchpoints at the checkout to the minutes before it."""
    is_that_day = outcomes.days == outcomes.conversion_days[outcomes.users]
    if scenario.purchase == "in_session":
        conversion_times = conversion_times.copy()
        session_user, session_time = outcomes.users[is_that_day], touch_times[is_that_day]
        minutes = 2 + random.exponential(10, len(session_user))
        conversion_times[session_user] = session_time + _MINUTE * minutes
    nodes = [number for number, each in enumerate(scenario.channels) if each.delivery == "checkout"]
    if nodes:
        at_checkout = np.flatnonzero(is_that_day & np.isin(outcomes.nodes, nodes))
        before = _MINUTE * np.minimum(random.exponential(4, len(at_checkout)), 60)
        touch_times = touch_times.copy()
        touch_times[at_checkout] = conversion_times[outcomes.users[at_checkout]] - before
    return touch_times, conversion_times


def _instants(days: NDArray[np.float64], first_day: pd.Timestamp) -> pd.Series[pd.Timestamp]:
    microseconds = (days * _MICROSECONDS).astype(np.int64) + first_day.value // 1_000
    return pd.Series(microseconds.astype("datetime64[us]")).dt.tz_localize("UTC")


def _without(running: tuple[bool, ...], position: int) -> tuple[bool, ...]:
    return tuple(is_running and index != position for index, is_running in enumerate(running))


def _shapley(conversions: dict[tuple[bool, ...], int], count: int) -> list[float]:
    """Return the Shapley value of each channel: its mean marginal contribution over all orders."""
    values = [0.0] * count
    for running, total in conversions.items():
        size = sum(running)
        for position in range(count):
            if running[position]:
                weight = math.factorial(size - 1) * math.factorial(count - size) / math.factorial(count)
                values[position] += weight * (total - conversions[_without(running, position)])
    return values
