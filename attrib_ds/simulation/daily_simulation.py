"""Simulate a scenario day by day, vectorised over users."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attrib_ds.simulation.scenarios import UNPAID, Channel, Scenario

Numbers: TypeAlias = NDArray[np.float32]
Flags: TypeAlias = NDArray[np.bool_]
#: Users touched, position of the node, and day.
_Touches: TypeAlias = tuple[NDArray[np.intp], int, int]

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
#: Highest daily probability of being reached by a channel.
_MOST_REACH: Final = np.float32(0.9)
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
    def draw(cls, random: np.random.Generator, count: int, *, spread: float = 0.0) -> Self:
        """Draw the traits of ``count`` users; ``spread`` is that of the logarithm of activity."""
        trait = random.random(count) < 0.3
        latent = random.standard_normal(count, np.float32)
        if spread:
            activity = random.lognormal(-(spread**2) / 2, spread, count)
        else:
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


@dataclass(eq=False)
class Days:
    """The state of all users, from one day to the next.

    The same random numbers are drawn whichever channels run (common random numbers), so that two runs with
    the same seed differ only by the effects of the channels.

    Attributes
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
    """

    scenario: Scenario
    population: Population
    random: np.random.Generator
    running: Sequence[bool]
    withheld: Flags | None = None
    is_recorded: bool = True

    def outcomes(self) -> Outcomes:
        """Simulate all days; touchpoints are up to and including the day of each user's conversion."""
        for day in range(self.scenario.days):
            self.run(day)
        return Outcomes(*_concatenate(self.touches), *_concatenate(self.prevented), self.conversion_days)

    def __post_init__(self) -> None:
        scenario, population, random = self.scenario, self.population, self.random
        self.channels = scenario.channels
        self.positions = {channel.node_id: position for position, channel in enumerate(self.channels)}
        self.count = count = len(population.latent)
        self.retention = np.array([[np.float32(2.0 ** (-1.0 / each.half_life))] for each in self.channels])
        self.reach = [self._reach(channel) for channel in self.channels]
        self.pull = np.ones(count, np.float32)
        self.propensity = np.exp(0.5 * population.trait + 0.5 * population.latent).astype(np.float32)
        self.random_visits: Any = np.float32(_RANDOM_VISITS)
        if scenario.activity:
            self.random_visits = self.random_visits * population.activity
        if scenario.follows_intent:
            self.pull = np.exp(_PULL * population.latent)
            self.propensity *= population.activity ** np.float32(0.3)
        elif scenario.activity:
            self.propensity *= population.activity ** np.float32(0.5)
        self.decision = np.full(count, -1, np.int16)
        self.intent = np.searchsorted(np.cumsum(_INTENTS)[:-1], random.random(count)).astype(np.int8)
        self.adstock = np.zeros((len(self.channels), count), np.float32)
        # Exposures whose effect is still pending.
        self.pending = np.zeros_like(self.adstock) if scenario.adstock == "delayed" else self.adstock
        self.since_visit = np.full(count, 127, np.int8)
        self.conversion_days = np.full(count, -1, np.int16)
        self.touches: list[_Touches] = []
        self.prevented: list[_Touches] = []

    def run(self, day: int) -> None:
        """Simulate a day: the touchpoints, then the conversions."""
        scenario, is_promotion = self.scenario, day in self.scenario.promotions
        self.adstock *= self.retention
        if self.pending is not self.adstock:
            self.pending *= np.float32(0.5)
            self.adstock += self.pending
        self._change_intent()
        if scenario.purchase == "considered":
            self._consider(day)
        queries = self._queries() if scenario.follows_intent else None
        if scenario.purchase == "in_session":
            reached, organic, direct = self._sessions(is_promotion=is_promotion)
        else:
            reached = self._exposures(queries, is_promotion=is_promotion)
            organic = self._unserved(reached, queries)
            direct = self._draw() < (
                _DIRECT_VISITS[self.intent] if scenario.follows_intent else self.random_visits
            )
        is_unconverted = self.conversion_days < 0
        visits = organic | direct
        for position, exposed in enumerate(reached):
            is_reached = self._expose(exposed & is_unconverted, position, day)
            # Retargeting clicks do not count as visits: they would trigger further retargeting forever.
            if self.channels[position].delivery in {"category_search", "brand_search", "subscribers"}:
                visits |= is_reached
        for position, is_visiting in enumerate((organic, direct), start=len(self.channels)):
            self._record(self.touches, is_visiting & is_unconverted, position, day)
        self.since_visit = np.where(visits, 0, np.minimum(self.since_visit, 126) + 1).astype(np.int8)
        hazard = self._hazard(day)
        if scenario.purchase == "in_session":
            hazard = hazard * np.logical_or.reduce([*reached, organic, direct])
        if is_promotion:
            hazard = hazard * np.float32(scenario.promotion_lift)
        is_converting = (self._draw() < -np.expm1(-hazard)) & is_unconverted
        self.conversion_days[is_converting] = day
        for position, channel in enumerate(self.channels):
            if channel.delivery == "checkout":
                # As many leave the checkout as buy.
                is_leaving = self._draw() < hazard
                is_reached = self._draw() < np.float32(channel.rate)
                self._expose(is_reached & (is_converting | (is_leaving & is_unconverted)), position, day)

    def _draw(self) -> Numbers:
        return self.random.random(self.count, np.float32)

    def _record(self, touches: list[_Touches], is_touched: Flags, position: int, day: int) -> None:
        if self.is_recorded:
            touches.append((np.flatnonzero(is_touched), position, day))

    def _expose(self, is_reached: Flags, position: int, day: int) -> Flags:
        """Expose users to a channel, if it runs and is not withheld from them; return who was exposed."""
        if not self.running[position]:
            return np.zeros(self.count, bool)
        if self.withheld is not None:
            self._record(self.prevented, is_reached & self.withheld[position], position, day)
            is_reached = is_reached & ~self.withheld[position]
        self.pending[position] += is_reached
        self._record(self.touches, is_reached, position, day)
        return is_reached

    def _reach(self, channel: Channel) -> Any:
        """Return each user's constant daily probability of being reached."""
        population, everybody = self.population, np.float32(channel.rate)
        if channel.delivery == "checkout":
            return np.float32(0)
        if not self.scenario.follows_intent:
            heavy_tailed = self.scenario.activity
            return np.minimum(everybody * population.activity, _MOST_REACH) if heavy_tailed else everybody
        spread = {
            "broad": population.activity,
            "lookalikes": population.activity * np.exp(0.6 * population.latent - 0.18).astype(np.float32),
            "subscribers": np.where(population.trait, np.float32(2.2), np.float32(0.5)),
        }.get(channel.delivery, np.float32(1))
        return np.minimum(everybody * spread, _MOST_REACH)

    def _change_intent(self) -> None:
        """Let the intent of users rise or fall."""
        effects = [
            np.float32(channel.upstream) * self._saturated(stock)
            for channel, stock in zip(self.channels, self.adstock, strict=True)
            if channel.upstream
        ]
        upstream: Any = sum(effects) if effects else np.float32(0)
        draw = self._draw()
        rise_rate = np.where(
            self.intent == _NONE,
            np.float32(0.006) * self.pull * (1 + 3 * upstream),
            np.float32(0.035) * self.pull * (1 + upstream),
        )
        fall_rate = np.where(self.intent == _CATEGORY, np.float32(0.05), np.float32(0.07))
        rises = (draw < rise_rate) & (self.intent < _BRAND)
        # The other end of the same draw, so that both cannot happen.
        falls = (draw > 1 - fall_rate) & (self.intent > _NONE) & ~rises
        self.intent = (self.intent + rises - falls).astype(np.int8)

    def _consider(self, day: int) -> None:
        """Keep whoever considers a purchase at it until the decision."""
        decision = self.decision
        self.intent[decision >= day] = _BRAND
        self.intent[(decision >= 0) & (decision < day)] = _NONE
        decision[decision < day] = -1
        low, high = _CONSIDERATION
        drawn = day + np.ceil(low + (high - low) * self._draw())
        self.decision = np.where((self.intent == _BRAND) & (decision < 0), drawn, decision).astype(np.int16)

    def _queries(self) -> dict[str, Flags]:
        """Return who searches today, by kind of search."""
        activity = self.population.activity
        return {
            kind: self._draw() < np.minimum(rates[self.intent] * activity, 1)
            for kind, rates in _QUERIES.items()
        }

    def _exposures(self, queries: dict[str, Flags] | None, *, is_promotion: bool) -> list[Flags]:
        """Return whom each channel would reach today; without queries, exposure is random."""
        promoted = list(self.reach)
        if is_promotion:
            promoted = [
                np.minimum(rate * np.float32(channel.promoted), _MOST_REACH)
                for rate, channel in zip(self.reach, self.channels, strict=True)
            ]
        for source, target, size in self.scenario.mediations:
            mediator, stock = self.positions[target], self.adstock[self.positions[source]]
            lift = np.float32(1) + np.float32(size) * self._saturated(stock)
            promoted[mediator] = np.minimum(promoted[mediator] * lift, _MOST_REACH)
        exposures = []
        for channel, probability in zip(self.channels, promoted, strict=True):
            is_reached = self._draw() < probability
            if queries is not None and channel.delivery in queries:
                is_reached &= queries[channel.delivery]
            elif queries is not None and channel.delivery == "visitors":
                is_reached &= self.since_visit < _MEMORY_DAYS
            exposures.append(is_reached)
        return exposures

    def _unserved(self, reached: Sequence[Flags], queries: dict[str, Flags] | None) -> Flags:
        """Return who clicks an organic result after a search without an advertisement."""
        if queries is None:
            return np.asarray(self._draw() < self.random_visits)
        is_visiting = np.zeros(self.count, bool)
        for kind, searched in queries.items():
            clicks = self._draw() < np.float32(_UNSERVED_CLICKS)
            is_served = np.zeros(self.count, bool)
            for position, channel in enumerate(self.channels):
                if channel.delivery == kind and self.running[position]:
                    is_served |= reached[position] & self._may_reach(position)
            is_visiting |= searched & ~is_served & clicks
        return is_visiting

    def _may_reach(self, position: int) -> Any:
        return True if self.withheld is None else ~self.withheld[position]

    def _sessions(self, *, is_promotion: bool) -> tuple[list[Flags], Flags, Flags]:
        """Return who opens a session by way of each channel, an organic result, or directly."""
        has_session = self._draw() < np.minimum(_SESSIONS[self.intent] * self.population.activity, 0.9)
        rates = np.array([each.rate * (each.promoted if is_promotion else 1) for each in self.channels])
        source = self._draw()
        bounds = np.append(0.0, np.cumsum(rates))
        reached = [has_session & (source >= low) & (source < high) for low, high in pairwise(bounds)]
        is_unpaid = has_session & (source >= bounds[-1])
        organic = is_unpaid & (source < (1 + bounds[-1]) / 2)
        direct = is_unpaid & ~organic
        # Without the channel, the session is a direct visit.
        for position, is_reached in enumerate(reached):
            is_lost = ~self._may_reach(position) if self.withheld is not None else False
            direct = direct | (is_reached & (is_lost if self.running[position] else True))
        return reached, organic, direct

    def _saturated(self, adstock: Numbers) -> Numbers:
        speed = np.float32(self.scenario.saturation)
        if not speed:
            return adstock
        if self.scenario.saturates == "hyperbola":
            return adstock / (1 + speed * adstock)
        if self.scenario.saturates == "logarithm":
            return np.asarray(np.log1p(speed * adstock) / speed)
        return np.asarray(-np.expm1(-speed * adstock) / speed)

    def _hazard(self, day: int) -> Any:
        """Return the hazard of conversion, which the channels raise."""
        growth: Any = np.float32(1)
        for channel, stock in zip(self.channels, self.adstock, strict=True):
            if channel.direct:
                growth = growth + np.float32(channel.direct) * self._saturated(stock)
        for first, second, effect in self.scenario.synergies:
            both = [self._saturated(self.adstock[self.positions[name]]) for name in (first, second)]
            growth = growth + np.float32(effect) * both[0] * both[1]
        growth = np.maximum(growth, np.float32(_LEAST_GROWTH))
        if self.scenario.purchase == "considered":
            is_deciding = self.decision == day
            return np.where(is_deciding, np.float32(_DECIDING) * self.propensity * growth, np.float32(0))
        hazard = _SESSION_HAZARD if self.scenario.purchase == "in_session" else _HAZARD
        return hazard[self.intent] * self.propensity * growth


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
