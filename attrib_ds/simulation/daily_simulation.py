"""Simulate a scenario day by day, vectorised over users."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from attrib_ds.simulation.scenarios import UNPAID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.simulation.scenarios import Channel, Scenario

    Numbers = NDArray[np.float32]
    Flags = NDArray[np.bool_]
    #: Users touched, position of the node, and day.
    _Touches = tuple[NDArray[np.intp], int, int]

_NONE, _CATEGORY, _BRAND = 0, 1, 2
#: Share of users by intent on the first day: none, category, brand.
_INTENTS: Final = (0.84, 0.12, 0.04)
#: Daily hazard of conversion by intent, without effects of channels.
_HAZARD: Final = np.array([0.00025, 0.0015, 0.010], np.float32)
#: Daily probability by intent of a category search, a brand search, and (below) a direct visit.
_QUERIES: Final = {
    "category_search": np.array([0.002, 0.07, 0.05], np.float32),
    "brand_search": np.array([0.001, 0.014, 0.18], np.float32),
}
_DIRECT_VISITS: Final = np.array([0.001, 0.005, 0.018], np.float32)
#: Share of searches without an advertisement that end with a click on an organic result.
_UNSERVED_CLICKS: Final = 0.7
#: Daily probability of each unpaid node if exposure is random.
_RANDOM_VISITS: Final = 0.012
_MEMORY_DAYS: Final = 7
#: Daily probability of a session by intent, and hazard of conversion in a session.
_SESSIONS: Final = np.array([0.03, 0.10, 0.25], np.float32)
_SESSION_HAZARD: Final = np.array([0.003, 0.015, 0.05], np.float32)
#: Days of consideration, and the share of users who then buy.
_CONSIDERATION: Final = (7.0, 21.0)
_DECIDING: Final = 0.25
#: Part of the hazard that no channel takes away.
_LEAST_GROWTH: Final = 0.05
_PULL: Final = 0.35


@dataclass(frozen=True)
class Population:
    """Traits of the users, which depend on the seed alone.

    Parameters
    ----------
    trait : ndarray of bool
        Observed covariate.
    latent : ndarray of float32
        Unobserved propensity to buy, standard normal.
    activity : ndarray of float32
        Time online relative to the mean.
    """

    trait: Flags
    latent: Numbers
    activity: Numbers

    @classmethod
    def draw(cls, random: np.random.Generator, count: int, *, spread: float = 0.0) -> Population:
        """Draw the traits of ``count`` users; ``spread`` is that of the logarithm of activity."""
        trait = random.random(count) < 0.3
        latent = random.standard_normal(count, np.float32)
        activity = random.lognormal(-(spread**2) / 2, spread, count) if spread else None
        if activity is None:
            activity = random.standard_gamma(0.7, count) / 0.7
        return cls(trait, latent, activity.astype(np.float32))


@dataclass(frozen=True)
class Outcomes:
    """Simulated touchpoints and conversions.

    Parameters
    ----------
    users, nodes, days : ndarray of int
        One entry per touchpoint: user, node (position among the paid channels, then the unpaid) and day.
    withheld_users, withheld_nodes, withheld_days : ndarray of int
        The same for touchpoints that were prevented because the channel was withheld from the user.
    conversion_days : ndarray of int
        Day of each user's conversion; -1 without one.
    """

    users: NDArray[np.int32]
    nodes: NDArray[np.int8]
    days: NDArray[np.int16]
    withheld_users: NDArray[np.int32]
    withheld_nodes: NDArray[np.int8]
    withheld_days: NDArray[np.int16]
    conversion_days: NDArray[np.int16]


def run_days(
    scenario: Scenario,
    population: Population,
    random: np.random.Generator,
    *,
    running: Sequence[bool],
    withheld: Flags | None = None,
    is_recorded: bool = True,
) -> Outcomes:
    """Simulate all days of a scenario.

    The same random numbers are drawn whichever channels run (common random numbers), so that two runs with
    the same seed differ only by the effects of the channels.

    Parameters
    ----------
    scenario : Scenario
        Channels and their effects.
    population : Population
        Traits of the users.
    random : numpy.random.Generator
        Source of random numbers.
    running : sequence of bool
        Whether each paid channel runs.
    withheld : ndarray of bool, optional
        Channels by users: whether the channel is withheld from the user.
    is_recorded : bool, default True
        Whether to return touchpoints; conversions are always returned.

    Returns
    -------
    Outcomes
        Touchpoints up to and including the day of each user's conversion.
    """
    count = len(population.latent)
    channels = scenario.channels
    retention = [np.float32(2.0 ** (-1.0 / channel.half_life)) for channel in channels]
    reach = [_reach(channel, population, scenario) for channel in channels]
    pull = np.exp(_PULL * population.latent) if scenario.follows_intent else np.ones(count, np.float32)
    propensity = np.exp(0.5 * population.trait + 0.5 * population.latent).astype(np.float32)
    if scenario.follows_intent:
        propensity *= population.activity ** np.float32(0.3)
    elif scenario.activity:
        propensity *= population.activity ** np.float32(0.5)
    random_visits = np.float32(_RANDOM_VISITS) * (population.activity if scenario.activity else np.float32(1))
    decision = np.full(count, -1, np.int16)
    intent = np.searchsorted(np.cumsum(_INTENTS)[:-1], random.random(count)).astype(np.int8)
    adstock = np.zeros((len(channels), count), np.float32)
    # Exposures whose effect is still pending.
    pending = np.zeros_like(adstock) if scenario.adstock == "delayed" else adstock
    since_visit = np.full(count, 127, np.int8)
    conversion_days = np.full(count, -1, np.int16)
    positions = {channel.node_id: position for position, channel in enumerate(channels)}
    mediations = [
        (positions[source], positions[mediator], size) for source, mediator, size in scenario.mediations
    ]
    touches: list[_Touches] = []
    prevented: list[_Touches] = []
    for day in range(scenario.days):
        adstock *= np.array(retention)[:, np.newaxis]
        if pending is not adstock:
            pending *= np.float32(0.5)
            adstock += pending
        intent = _next_intent(intent, pull, _upstream(channels, adstock, scenario), random)
        is_promotion = day in scenario.promotions
        if scenario.purchase == "considered":
            # Whoever considers a purchase stays at it until the decision.
            intent[decision >= day] = _BRAND
            intent[(decision >= 0) & (decision < day)] = _NONE
            decision[decision < day] = -1
            low, high = _CONSIDERATION
            drawn = day + np.ceil(low + (high - low) * random.random(count, np.float32))
            decision = np.where((intent == _BRAND) & (decision < 0), drawn, decision).astype(np.int16)
        queries = _queries(intent, population, random) if scenario.follows_intent else None
        if scenario.purchase == "in_session":
            reached, organic, direct = _sessions(
                channels, population, intent, running, withheld, random, is_promotion=is_promotion
            )
            has_session = np.logical_or.reduce([*reached, organic, direct])
        else:
            promoted = [
                np.minimum(rate * np.float32(channel.promoted), np.float32(0.9)) if is_promotion else rate
                for rate, channel in zip(reach, channels, strict=True)
            ]
            for source, mediator, size in mediations:
                lift = np.float32(1) + np.float32(size) * _saturated(adstock[source], scenario)
                promoted[mediator] = np.minimum(promoted[mediator] * lift, np.float32(0.9))
            reached = _exposures(channels, promoted, queries, since_visit, random)
            organic = _unserved(channels, reached, queries, count, running, withheld, random, random_visits)
            direct = random.random(count, np.float32) < (
                _DIRECT_VISITS[intent] if scenario.follows_intent else random_visits
            )
        is_unconverted = conversion_days < 0
        visits = organic | direct
        for position, exposed in enumerate(reached):
            is_reached = exposed & is_unconverted
            if not running[position]:
                is_reached = np.zeros(count, bool)
            elif withheld is not None:
                if is_recorded:
                    prevented.append((np.flatnonzero(is_reached & withheld[position]), position, day))
                is_reached &= ~withheld[position]
            pending[position] += is_reached
            # Retargeting clicks do not count as visits: they would trigger further retargeting forever.
            if channels[position].delivery in {"category_search", "brand_search", "subscribers"}:
                visits |= is_reached
            if is_recorded:
                touches.append((np.flatnonzero(is_reached), position, day))
        if is_recorded:
            for position, is_visiting in enumerate((organic, direct), start=len(channels)):
                touches.append((np.flatnonzero(is_visiting & is_unconverted), position, day))
        since_visit = np.where(visits, 0, np.minimum(since_visit, 126) + 1).astype(np.int8)
        growth = np.maximum(_growth(scenario, adstock), np.float32(_LEAST_GROWTH))
        hazard = (
            (_HAZARD if scenario.purchase != "in_session" else _SESSION_HAZARD)[intent] * propensity * growth
        )
        if scenario.purchase == "in_session":
            hazard = hazard * has_session
        elif scenario.purchase == "considered":
            hazard = np.where(decision == day, np.float32(_DECIDING) * propensity * growth, np.float32(0))
        if is_promotion:
            hazard = hazard * np.float32(scenario.promotion_lift)
        is_converting = (random.random(count, np.float32) < -np.expm1(-hazard)) & is_unconverted
        conversion_days[is_converting] = day
        for position, channel in enumerate(channels):
            if channel.delivery != "checkout":
                continue
            # As many leave the checkout as buy.
            is_leaving = random.random(count, np.float32) < hazard
            is_reached = random.random(count, np.float32) < np.float32(channel.rate)
            is_reached &= is_converting | (is_leaving & is_unconverted)
            if not running[position]:
                continue
            if withheld is not None:
                if is_recorded:
                    prevented.append((np.flatnonzero(is_reached & withheld[position]), position, day))
                is_reached &= ~withheld[position]
            pending[position] += is_reached
            if is_recorded:
                touches.append((np.flatnonzero(is_reached), position, day))
    return Outcomes(*_concatenate(touches), *_concatenate(prevented), conversion_days)


def _reach(channel: Channel, population: Population, scenario: Scenario) -> Any:
    """Return each user's constant daily probability of being reached."""
    if channel.delivery == "checkout":
        return np.float32(0)
    if not scenario.follows_intent:
        everybody = np.float32(channel.rate)
        return (
            np.minimum(everybody * population.activity, np.float32(0.9)) if scenario.activity else everybody
        )
    spread = {
        "broad": population.activity,
        "lookalikes": population.activity * np.exp(0.6 * population.latent - 0.18).astype(np.float32),
        "subscribers": np.where(population.trait, np.float32(2.2), np.float32(0.5)),
    }.get(channel.delivery, np.float32(1))
    return np.minimum(np.float32(channel.rate) * spread, np.float32(0.9))


def _queries(
    intent: NDArray[np.int8], population: Population, random: np.random.Generator
) -> dict[str, Flags]:
    """Return who searches today, by kind of search."""
    return {
        kind: random.random(len(intent), np.float32) < np.minimum(rates[intent] * population.activity, 1)
        for kind, rates in _QUERIES.items()
    }


def _exposures(
    channels: Sequence[Channel],
    reach: Sequence[Any],
    queries: dict[str, Flags] | None,
    since_visit: NDArray[np.int8],
    random: np.random.Generator,
) -> list[Flags]:
    """Return whom each channel would reach today; without queries, exposure is random."""
    exposures = []
    for channel, probability in zip(channels, reach, strict=True):
        is_reached = random.random(len(since_visit), np.float32) < probability
        if queries is not None and channel.delivery in queries:
            is_reached &= queries[channel.delivery]
        elif queries is not None and channel.delivery == "visitors":
            is_reached &= since_visit < _MEMORY_DAYS
        exposures.append(is_reached)
    return exposures


def _unserved(
    channels: Sequence[Channel],
    reached: Sequence[Flags],
    queries: dict[str, Flags] | None,
    count: int,
    running: Sequence[bool],
    withheld: Flags | None,
    random: np.random.Generator,
    random_visits: Any,
) -> Flags:
    """Return who clicks an organic result after a search without an advertisement."""
    if queries is None:
        return np.asarray(random.random(count, np.float32) < random_visits)
    is_visiting = np.zeros(count, bool)
    for kind, searched in queries.items():
        clicks = random.random(count, np.float32) < np.float32(_UNSERVED_CLICKS)
        is_served = np.zeros(count, bool)
        for position, channel in enumerate(channels):
            if channel.delivery == kind and running[position]:
                is_served |= (
                    reached[position] if withheld is None else reached[position] & ~withheld[position]
                )
        is_visiting |= searched & ~is_served & clicks
    return is_visiting


def _sessions(
    channels: Sequence[Channel],
    population: Population,
    intent: NDArray[np.int8],
    running: Sequence[bool],
    withheld: Flags | None,
    random: np.random.Generator,
    *,
    is_promotion: bool,
) -> tuple[list[Flags], Flags, Flags]:
    """Return who opens a session by way of each channel, an organic result, or directly."""
    count = len(intent)
    has_session = random.random(count, np.float32) < np.minimum(_SESSIONS[intent] * population.activity, 0.9)
    rates = np.array([channel.rate * (channel.promoted if is_promotion else 1) for channel in channels])
    source = random.random(count, np.float32)
    bounds = np.append(0.0, np.cumsum(rates))
    reached = [has_session & (source >= low) & (source < high) for low, high in pairwise(bounds)]
    is_unpaid = has_session & (source >= bounds[-1])
    organic = is_unpaid & (source < (1 + bounds[-1]) / 2)
    direct = is_unpaid & ~organic
    # Without the channel, the session is a direct visit.
    for position, is_reached in enumerate(reached):
        if not running[position]:
            direct = direct | is_reached
        elif withheld is not None:
            direct = direct | (is_reached & withheld[position])
    return reached, organic, direct


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
        np.float32(channel.upstream) * _saturated(stock, scenario)
        for channel, stock in zip(channels, adstock, strict=True)
        if channel.upstream
    ]
    return sum(effects) if effects else np.float32(0)


def _growth(scenario: Scenario, adstock: Numbers) -> Any:
    """Return the factor by which the channels raise the hazard."""
    growth: Any = np.float32(1)
    for channel, stock in zip(scenario.channels, adstock, strict=True):
        if channel.direct:
            growth = growth + np.float32(channel.direct) * _saturated(stock, scenario)
    positions = {channel.node_id: position for position, channel in enumerate(scenario.channels)}
    for first, second, effect in scenario.synergies:
        both = [_saturated(adstock[positions[name]], scenario) for name in (first, second)]
        growth = growth + np.float32(effect) * both[0] * both[1]
    return growth


def _next_intent(
    intent: NDArray[np.int8], pull: Numbers, upstream: Any, random: np.random.Generator
) -> NDArray[np.int8]:
    draw = random.random(len(intent), np.float32)
    rise_rate = np.where(
        intent == _NONE,
        np.float32(0.006) * pull * (1 + 3 * upstream),
        np.float32(0.035) * pull * (1 + upstream),
    )
    fall_rate = np.where(intent == _CATEGORY, np.float32(0.05), np.float32(0.07))
    rises = (draw < rise_rate) & (intent < _BRAND)
    # The other end of the same draw, so that both cannot happen.
    falls = (draw > 1 - fall_rate) & (intent > _NONE) & ~rises
    next_intent: NDArray[np.int8] = (intent + rises - falls).astype(np.int8)
    return next_intent


def _concatenate(touches: Sequence[_Touches]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return users, nodes and days, one entry per touchpoint."""
    lengths = [len(users) for users, _, _ in touches]
    return (
        np.concatenate([np.empty(0, np.intp), *(users for users, _, _ in touches)]).astype(np.int32),
        np.repeat(np.array([node for _, node, _ in touches], np.int8), lengths),
        np.repeat(np.array([day for _, _, day in touches], np.int16), lengths),
    )


def node_names(scenario: Scenario) -> list[str]:
    """Return the names of the nodes by position."""
    return [*(channel.node_id for channel in scenario.channels), *UNPAID]
