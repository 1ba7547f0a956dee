"""Makes journeys whose causes are known."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.errors import InvalidRequest
from attrib_ds.simulation.days import People, live, names_of
from attrib_ds.simulation.scenarios import Scenario, check_number, check_whole, scenario_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from attrib_ds.simulation.days import Lived

#: Users whose days are lived together; bounds the memory.
_TOGETHER: Final = 100_000
#: Part of a day before which its touchpoints are, and after which its conversions.
_TOUCHES_UNTIL: Final = 0.9
_MICROSECONDS: Final = 86_400_000_000
_MEAN_VALUE: Final = 60.0


@dataclass(frozen=True, eq=False)
class Simulation:
    """Journeys of simulated users, from :func:`simulate`.

    Attributes
    ----------
    scenario : Scenario
        The world.
    seed : int
        Of its random numbers.
    users : DataFrame
        One row per user: ``user_id`` (str), ``trait`` (boolean, observed), ``since`` and ``until``
        (datetime64[us, UTC], the observation, which ends with the conversion or the last day).
    touchpoints : DataFrame
        One row per touchpoint: ``user_id``, ``node_id``, ``date``.
    conversions : DataFrame
        One row per conversion, at most one per user: ``event_id``, ``user_id``, ``date``, ``value``,
        ``currency``.
    withheld : DataFrame
        One row per user and channel that was withheld from them at random: ``user_id``, ``node_id``.
    opportunities : DataFrame
        One row per touchpoint that a withheld user would have had: ``user_id``, ``node_id``, ``date``. A
        server of advertisements knows it if it logs what it would have shown.
    """

    scenario: Scenario
    seed: int
    users: pd.DataFrame
    touchpoints: pd.DataFrame
    conversions: pd.DataFrame
    withheld: pd.DataFrame
    opportunities: pd.DataFrame

    def truth(self, *, shapley: bool = False) -> pd.DataFrame:
        """Count the conversions that each channel caused, by living the same days without it.

        Parameters
        ----------
        shapley : bool, default False
            Whether to divide what the channels cause together too, for which every combination of channels
            is lived: 64 worlds for six channels instead of seven.

        Returns
        -------
        DataFrame
            One row per node, unpaid ones last, which cause nothing: ``node_id`` (str), ``removal`` (float64,
            conversions that would not have happened without the channel, all others running) and, if it was
            asked for, ``shapley``. With synergies the removals add up to more than all channels cause.
            Nobody is withheld from anything here.

        Examples
        --------
        >>> truth = simulate("random", users=2_000, seed=1).truth()
        >>> truth["node_id"].tolist()[-2:], truth["removal"].tolist()[-2:]
        (['organic', 'direct'], [0.0, 0.0])
        """
        count = len(self.scenario.channels)
        everything = (True,) * count
        worlds = [everything, *(_without(everything, position) for position in range(count))]
        if shapley:
            worlds = list(itertools.product((True, False), repeat=count))
        caused = {world: self._conversions(world) for world in worlds}
        removal = [caused[everything] - caused[_without(everything, each)] for each in range(count)]
        unpaid = [0.0] * (len(names_of(self.scenario)) - count)
        columns = {"node_id": names_of(self.scenario), "removal": [*map(float, removal), *unpaid]}
        if shapley:
            columns["shapley"] = [*_shapley(caused, count), *unpaid]
        return pd.DataFrame(columns).astype({"node_id": "str"})

    @cached_property
    def _known(self) -> dict[tuple[bool, ...], int]:
        return {}

    def _conversions(self, running: tuple[bool, ...]) -> int:
        if running not in self._known:
            lived = _parts(self.scenario, len(self.users), self.seed, running=running, is_recorded=False)
            self._known[running] = sum(int((part.converted >= 0).sum()) for _, part, _ in lived)
        return self._known[running]


def simulate(
    scenario: str | Scenario,
    *,
    users: int,
    seed: int,
    holdout: float = 0.0,
    start: str = "2025-01-01",
) -> Simulation:
    """Simulate journeys whose causes are known, to judge models by.

    Every user lives ``scenario.days`` days: interest comes and goes, channels reach people, people search and
    come by themselves, and convert at most once, at a rate that what reached them before has raised. A
    day's touchpoints come before its conversions.

    Parameters
    ----------
    scenario : str or Scenario
        ``"random"``: exposure is random, channels act directly. ``"intent"``: who is about to buy is reached
        more often, display and social make people interested. ``"synergy"`` and ``"intent_synergy"``: the
        same with channels that strengthen each other. Or a :class:`Scenario` of your own.
    users : int
        How many, 1 or more. A million takes seconds.
    seed : int
        Of the random numbers, 0 or more; the same seed gives the same bytes.
    holdout : float, default 0
        Share of users, 0 to 0.5, that each channel is withheld from, drawn anew for every channel: a
        randomised experiment.
    start : str, default "2025-01-01"
        The first day, in UTC.

    Returns
    -------
    Simulation
        Its ``touchpoints``, ``conversions`` and ``users`` are what :meth:`attrib_ds.Paths.from_frames` takes;
        its ``truth()`` is what the channels caused.

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
    known = scenario_named(scenario)
    check_whole("users", users, minimum=1)
    check_whole("seed", seed, minimum=0)
    check_number("holdout", holdout, "0 to 0.5", minimum=0, maximum=0.5)
    first_day = _midnight(start)
    users, seed = int(users), int(seed)
    every = (True,) * len(known.channels)
    parts = [
        _frames(known, part, people, withheld, first_day, beginning=beginning, seed=seed)
        for beginning, (people, part, withheld) in _numbered(
            _parts(known, users, seed, running=every, holdout=holdout)
        )
    ]
    joined = [pd.concat(frames, ignore_index=True) for frames in zip(*parts, strict=True)]
    return Simulation(known, seed, *joined)


def _midnight(start: object) -> pd.Timestamp:
    """Read the first day, whose midnight in UTC everything is counted from."""
    try:
        if not isinstance(start, str | date | np.datetime64):
            raise TypeError
        moment = pd.Timestamp(start)
        first = moment.tz_localize("UTC") if moment.tz is None else moment.tz_convert("UTC")
        if not 1700 <= first.year <= 2200:
            raise ValueError
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"start: {start!r} is not allowed; allowed: a day such as '2025-01-31', of the years 1700 to "
            "2200",
            field="start",
        ) from error
    return first.as_unit("us")


def _parts(
    scenario: Scenario,
    users: int,
    seed: int,
    *,
    running: Sequence[bool],
    holdout: float = 0.0,
    is_recorded: bool = True,
) -> Iterator[tuple[People, Lived, NDArray[np.bool_] | None]]:
    """Live the days of all users, some of them at a time."""
    for number, beginning in enumerate(range(0, users, _TOGETHER)):
        count = min(_TOGETHER, users - beginning)
        people = People.draw(_random(seed, number, "people"), count)
        withheld = None
        if holdout:
            draws = _random(seed, number, "holdout").random((len(scenario.channels), count), np.float32)
            withheld = draws < holdout
        lived = live(
            scenario,
            people,
            _random(seed, number, "days"),
            running=running,
            withheld=withheld,
            is_recorded=is_recorded,
        )
        yield people, lived, withheld


def _numbered(parts: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    return ((number * _TOGETHER, part) for number, part in enumerate(parts))


def _random(seed: int, part: int, purpose: str) -> np.random.Generator:
    # Streams of their own, so that an experiment or a time of day does not change what happens.
    purposes = ("people", "days", "holdout", "times", "values", "opportunities")
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, part, purposes.index(purpose)])))


def _frames(
    scenario: Scenario,
    lived: Lived,
    people: People,
    withheld: NDArray[np.bool_] | None,
    first_day: pd.Timestamp,
    *,
    beginning: int,
    seed: int,
) -> tuple[pd.DataFrame, ...]:
    count = len(lived.converted)
    number = beginning // _TOGETHER
    user_ids = pd.Series([f"u{beginning + each:08d}" for each in range(count)], dtype="str")
    names = pd.Series(names_of(scenario), dtype="str")
    times = _random(seed, number, "times")
    touched = lived.days + _TOUCHES_UNTIL * times.random(len(lived.days))
    chances = _random(seed, number, "opportunities").random(len(lived.missed_days))
    missed = lived.missed_days + _TOUCHES_UNTIL * chances
    bought = lived.converted + _TOUCHES_UNTIL + (1 - _TOUCHES_UNTIL) * times.random(count)
    buyers = np.flatnonzero(lived.converted >= 0)
    until = np.where(lived.converted >= 0, bought, float(scenario.days))
    values = _random(seed, number, "values").lognormal(math.log(_MEAN_VALUE) - 0.32, 0.8, len(buyers))
    order = np.lexsort((touched, lived.users))
    missed_order = np.lexsort((missed, lived.missed_users))
    held = np.nonzero(withheld) if withheld is not None else (np.empty(0, int), np.empty(0, int))
    return (
        pd.DataFrame(
            {
                "user_id": user_ids,
                "trait": pd.array(people.trait),
                "since": _instants(np.zeros(count), first_day),
                "until": _instants(until, first_day),
            }
        ),
        pd.DataFrame(
            {
                "user_id": user_ids.take(lived.users[order]).reset_index(drop=True),
                "node_id": names.take(lived.nodes[order]).reset_index(drop=True),
                "date": _instants(touched[order], first_day),
            }
        ),
        pd.DataFrame(
            {
                "event_id": "e" + user_ids.take(buyers).str.slice(1).reset_index(drop=True),
                "user_id": user_ids.take(buyers).reset_index(drop=True),
                "date": _instants(bought[buyers], first_day),
                "value": values.round(2),
                "currency": pd.Series(["EUR"] * len(buyers), dtype="str"),
            }
        ),
        pd.DataFrame(
            {
                "user_id": user_ids.take(held[1]).reset_index(drop=True),
                "node_id": names.take(held[0]).reset_index(drop=True),
            }
        ),
        pd.DataFrame(
            {
                "user_id": user_ids.take(lived.missed_users[missed_order]).reset_index(drop=True),
                "node_id": names.take(lived.missed_nodes[missed_order]).reset_index(drop=True),
                "date": _instants(missed[missed_order], first_day),
            }
        ),
    )


def _instants(days: NDArray[np.float64], first_day: pd.Timestamp) -> pd.Series[pd.Timestamp]:
    microseconds = (days * _MICROSECONDS).astype(np.int64) + first_day.value // 1_000
    return pd.Series(microseconds.astype("datetime64[us]")).dt.tz_localize("UTC")


def _without(running: tuple[bool, ...], position: int) -> tuple[bool, ...]:
    return tuple(runs and each != position for each, runs in enumerate(running))


def _shapley(caused: dict[tuple[bool, ...], int], count: int) -> list[float]:
    """Return each channel's mean contribution over all orders in which channels can begin to run."""
    values = [0.0] * count
    for world, conversions in caused.items():
        size = sum(world)
        for position in range(count):
            if world[position]:
                weight = math.factorial(size - 1) * math.factorial(count - size) / math.factorial(count)
                values[position] += weight * (conversions - caused[_without(world, position)])
    return values
