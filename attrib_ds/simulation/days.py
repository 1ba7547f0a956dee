"""Lives through a scenario day by day, for many users at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from attrib_ds.simulation.scenarios import UNPAID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.simulation.scenarios import Channel, Scenario

    Numbers = NDArray[np.float32]
    Flags = NDArray[np.bool_]
    #: Users, the node and the day.
    _Contact = tuple[NDArray[np.intp], int, int]

_NONE, _CATEGORY, _BRAND = 0, 1, 2
#: Share of people who want nothing, something of the kind, or the brand, on the first day.
_INTENTS: Final = (0.84, 0.12, 0.04)
#: Chance a day to convert by intent, before any effect.
_HAZARD: Final = np.array([0.00025, 0.0015, 0.010], np.float32)
#: Chance a day to search the category or the brand, and to come by oneself, by intent.
_QUERIES: Final = {
    "category_search": np.array([0.002, 0.07, 0.05], np.float32),
    "brand_search": np.array([0.001, 0.014, 0.18], np.float32),
}
_DIRECT_VISITS: Final = np.array([0.001, 0.005, 0.018], np.float32)
#: Share of searches that no advertisement is served for, and that end with a click all the same.
_UNSERVED_CLICKS: Final = 0.7
#: Chance a day of each unpaid node where exposure is random.
_RANDOM_VISITS: Final = 0.012
_MEMORY_DAYS: Final = 7
_PULL: Final = 0.35


@dataclass(frozen=True)
class People:
    """Who there is, the same in every world with one seed.

    Parameters
    ----------
    trait : ndarray of bool
        Observed.
    latent : ndarray of float32
        Propensity that nobody observes, standard normal.
    activity : ndarray of float32
        How much people are online, with mean 1.
    """

    trait: Flags
    latent: Numbers
    activity: Numbers

    @classmethod
    def draw(cls, random: np.random.Generator, count: int) -> People:
        """Draw people."""
        return cls(
            random.random(count) < 0.3,
            random.standard_normal(count, np.float32),
            (random.standard_gamma(0.7, count) / 0.7).astype(np.float32),
        )


@dataclass(frozen=True)
class Lived:
    """What happened.

    Parameters
    ----------
    users, nodes, days : ndarray of int
        One entry per touchpoint: whose, by which node (position among the paid channels, then the unpaid),
        on which day.
    missed_users, missed_nodes, missed_days : ndarray of int
        The same of the touchpoints that there would have been, had the channel not been withheld.
    converted : ndarray of int
        Day on which each user converted, -1 where none did.
    """

    users: NDArray[np.int32]
    nodes: NDArray[np.int8]
    days: NDArray[np.int16]
    missed_users: NDArray[np.int32]
    missed_nodes: NDArray[np.int8]
    missed_days: NDArray[np.int16]
    converted: NDArray[np.int16]


def live(
    scenario: Scenario,
    people: People,
    random: np.random.Generator,
    *,
    running: Sequence[bool],
    withheld: Flags | None = None,
    is_recorded: bool = True,
) -> Lived:
    """Let a scenario happen.

    The same random numbers are drawn whatever runs, so that two worlds with one seed differ only by what the
    channels did.

    Parameters
    ----------
    scenario : Scenario
        The world.
    people : People
        Who lives in it.
    random : numpy.random.Generator
        Chance.
    running : sequence of bool
        Which paid channels run.
    withheld : ndarray of bool, optional
        Channels by users: who is not reached although the channel runs.
    is_recorded : bool, default True
        Whether touchpoints are returned; conversions always are.

    Returns
    -------
    Lived
        Touchpoints until each user's conversion, that day's included.
    """
    count = len(people.latent)
    channels = scenario.channels
    kept = [np.float32(2.0 ** (-1.0 / each.half_life)) for each in channels]
    reach = [_reach(each, people, follows_intent=scenario.follows_intent) for each in channels]
    pull = np.exp(_PULL * people.latent) if scenario.follows_intent else np.ones(count, np.float32)
    lean = np.exp(0.5 * people.trait + 0.5 * people.latent).astype(np.float32)
    if scenario.follows_intent:
        lean *= people.activity ** np.float32(0.3)
    intent = np.searchsorted(np.cumsum(_INTENTS)[:-1], random.random(count)).astype(np.int8)
    adstock = np.zeros((len(channels), count), np.float32)
    # What was seen and is still to have its effect.
    coming = np.zeros_like(adstock) if scenario.adstock == "delayed" else adstock
    since_visit = np.full(count, 127, np.int8)
    converted = np.full(count, -1, np.int16)
    touches: list[_Contact] = []
    missed: list[_Contact] = []
    for day in range(scenario.days):
        for each, factor in zip(adstock, kept, strict=True):
            each *= factor
        if coming is not adstock:
            coming *= np.float32(0.5)
            adstock += coming
        intent = _next_intent(intent, pull, _upstream(channels, adstock, scenario), random)
        queries = _queries(intent, people, random) if scenario.follows_intent else None
        reached = _exposures(channels, reach, queries, since_visit, random)
        organic = _unserved(channels, reached, queries, count, running, withheld, random)
        direct = random.random(count, np.float32) < (
            _DIRECT_VISITS[intent] if scenario.follows_intent else np.float32(_RANDOM_VISITS)
        )
        is_here = converted < 0
        visits = organic | direct
        for position, exposed in enumerate(reached):
            is_reached = exposed & is_here
            if not running[position]:
                is_reached = np.zeros(count, bool)
            elif withheld is not None:
                if is_recorded:
                    missed.append((np.flatnonzero(is_reached & withheld[position]), position, day))
                is_reached &= ~withheld[position]
            coming[position] += is_reached
            # What follows visitors must not make visitors, or it would feed itself for ever.
            if channels[position].delivery in {"category_search", "brand_search", "subscribers"}:
                visits |= is_reached
            if is_recorded:
                touches.append((np.flatnonzero(is_reached), position, day))
        if is_recorded:
            for position, came in enumerate((organic, direct), start=len(channels)):
                touches.append((np.flatnonzero(came & is_here), position, day))
        since_visit = np.where(visits, 0, np.minimum(since_visit, 126) + 1).astype(np.int8)
        hazard = _HAZARD[intent] * lean * _growth(scenario, adstock)
        is_buying = (random.random(count, np.float32) < -np.expm1(-hazard)) & is_here
        converted[is_buying] = day
    return Lived(*_joined(touches), *_joined(missed), converted)


def _reach(channel: Channel, people: People, *, follows_intent: bool) -> Any:
    """Return a user's chance a day to be reached, as far as it does not change from day to day."""
    if not follows_intent:
        return np.float32(channel.rate)
    spread = {
        "broad": people.activity,
        "lookalikes": people.activity * np.exp(0.6 * people.latent - 0.18).astype(np.float32),
        "subscribers": np.where(people.trait, np.float32(2.2), np.float32(0.5)),
    }.get(channel.delivery, np.float32(1))
    return np.minimum(np.float32(channel.rate) * spread, np.float32(0.9))


def _queries(intent: NDArray[np.int8], people: People, random: np.random.Generator) -> dict[str, Flags]:
    """Return who searches today, by what is searched."""
    return {
        kind: random.random(len(intent), np.float32) < np.minimum(rates[intent] * people.activity, 1)
        for kind, rates in _QUERIES.items()
    }


def _exposures(
    channels: Sequence[Channel],
    reach: Sequence[Any],
    queries: dict[str, Flags] | None,
    since_visit: NDArray[np.int8],
    random: np.random.Generator,
) -> list[Flags]:
    """Return whom each channel would reach today; without queries exposure is random."""
    found = []
    for channel, chance in zip(channels, reach, strict=True):
        is_reached = random.random(len(since_visit), np.float32) < chance
        if queries is not None and channel.delivery in queries:
            is_reached &= queries[channel.delivery]
        elif queries is not None and channel.delivery == "visitors":
            is_reached &= since_visit < _MEMORY_DAYS
        found.append(is_reached)
    return found


def _unserved(
    channels: Sequence[Channel],
    reached: Sequence[Flags],
    queries: dict[str, Flags] | None,
    count: int,
    running: Sequence[bool],
    withheld: Flags | None,
    random: np.random.Generator,
) -> Flags:
    """Return who clicks an organic result: those whose search no advertisement was served for."""
    if queries is None:
        return random.random(count, np.float32) < np.float32(_RANDOM_VISITS)
    came = np.zeros(count, bool)
    for kind, searched in queries.items():
        clicks = random.random(count, np.float32) < np.float32(_UNSERVED_CLICKS)
        is_served = np.zeros(count, bool)
        for position, channel in enumerate(channels):
            if channel.delivery == kind and running[position]:
                is_served |= (
                    reached[position] if withheld is None else reached[position] & ~withheld[position]
                )
        came |= searched & ~is_served & clicks
    return came


def _saturated(adstock: Numbers, scenario: Scenario) -> Numbers:
    speed = np.float32(scenario.saturation)
    if not speed:
        return adstock
    if scenario.saturates == "hyperbola":
        return adstock / (1 + speed * adstock)
    if scenario.saturates == "logarithm":
        return np.asarray(np.log1p(speed * adstock) / speed)
    return np.asarray(-np.expm1(-speed * adstock) / speed)


def _upstream(channels: Sequence[Channel], adstock: Numbers, scenario: Scenario) -> Any:
    effects = [
        np.float32(each.upstream) * _saturated(stock, scenario)
        for each, stock in zip(channels, adstock, strict=True)
        if each.upstream
    ]
    return sum(effects) if effects else np.float32(0)


def _growth(scenario: Scenario, adstock: Numbers) -> Any:
    """Return by how much the channels raise the hazard."""
    growth: Any = np.float32(1)
    for channel, stock in zip(scenario.channels, adstock, strict=True):
        if channel.direct:
            growth = growth + np.float32(channel.direct) * _saturated(stock, scenario)
    positions = {each.node_id: position for position, each in enumerate(scenario.channels)}
    for first, second, effect in scenario.synergies:
        both = [_saturated(adstock[positions[name]], scenario) for name in (first, second)]
        growth = growth + np.float32(effect) * both[0] * both[1]
    return growth


def _next_intent(
    intent: NDArray[np.int8], pull: Numbers, upstream: Any, random: np.random.Generator
) -> NDArray[np.int8]:
    draw = random.random(len(intent), np.float32)
    grows = np.where(
        intent == _NONE,
        np.float32(0.006) * pull * (1 + 3 * upstream),
        np.float32(0.035) * pull * (1 + upstream),
    )
    fades = np.where(intent == _CATEGORY, np.float32(0.05), np.float32(0.07))
    rises = (draw < grows) & (intent < _BRAND)
    # The other end of the same draw, so that both cannot happen.
    falls = (draw > 1 - fades) & (intent > _NONE) & ~rises
    moved: NDArray[np.int8] = (intent + rises - falls).astype(np.int8)
    return moved


def _joined(contacts: Sequence[_Contact]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return users, nodes and days, one entry per contact."""
    lengths = [len(users) for users, _, _ in contacts]
    return (
        np.concatenate([np.empty(0, np.intp), *(users for users, _, _ in contacts)]).astype(np.int32),
        np.repeat(np.array([node for _, node, _ in contacts], np.int8), lengths),
        np.repeat(np.array([day for _, _, day in contacts], np.int16), lengths),
    )


def names_of(scenario: Scenario) -> list[str]:
    """Return the names of the nodes by their position."""
    return [*(each.node_id for each in scenario.channels), *UNPAID]
