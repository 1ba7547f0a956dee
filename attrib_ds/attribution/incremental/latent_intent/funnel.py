"""Goes through the periods forwards and backwards: how likely what was seen is, and its slopes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from attrib_ds.attribution.incremental.latent_intent.parameters import propensity_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.journeys import Journeys, Period, Singles
    from attrib_ds.attribution.incremental.latent_intent.parameters import Parameters

    Numbers = NDArray[np.float64]

#: Far below what single precision can tell from nothing, and above where products of it vanish.
_LEAST: Final = np.float32(-60)
#: One divided by less would be infinite.
_TINY: Final = np.float32(1e-36)
#: Rates beyond these, in logarithms, are as good as never and always.
_RATES: Final = (-60.0, 6.0)


@dataclass(frozen=True, eq=False)
class Rates:
    """Parameters as rates and chances of intents and classes.

    Touchpoints of a node, and conversions, have a rate in each period; several within a period tell no more
    than one. A step upwards happens with the chance ``1 - exp(-rate)``.

    Attributes
    ----------
    share : float array, shape (n_classes,); start : float array, shape (n_intents, n_classes)
        How users begin.
    climb : float array, shape (n_steps, n_classes); fall : float array, shape (n_steps,)
        Rate upwards, chance downwards.
    touch : float array, shape (n_nodes + 1, n_intents * n_classes)
        Rate of touchpoints and, in the last row, of conversions.
    pattern : float array, shape (n_followers, n_patterns)
        Factor of the rate of touchpoints.
    told : float array, shape (n_nodes + 1, n_kinds)
        The same of what is known of users.
    """

    parameters: Parameters
    classes: Numbers
    journeys: Journeys
    share: Numbers = field(init=False)
    start: Numbers = field(init=False)
    climb: Numbers = field(init=False)
    fall: Numbers = field(init=False)
    touch: Numbers = field(init=False)
    pattern: Numbers = field(init=False)
    told: Numbers = field(init=False)

    def __post_init__(self) -> None:
        given, classes, journeys = self.parameters, self.classes, self.journeys
        loadings = np.concatenate([given.touch, given.buy[None]])
        signs = np.concatenate([given.sign, given.ease[None]])
        touch = (loadings @ classes.T)[:, None, :] + signs[:, :, None]
        # Degrees of activity are the slower ones in the order of classes.
        propensities = propensity_weights(len(classes) // len(given.share))
        found = {
            "share": np.outer(shares(given.share), propensities).ravel(),
            "start": shares(given.start @ classes.T),
            "climb": np.exp(np.clip(given.climb @ classes.T, *_RATES)),
            "fall": 1 / (1 + np.exp(-given.fall)),
            "touch": np.exp(np.clip(touch, *_RATES)).reshape(len(touch), -1),
            "pattern": np.exp(given.recent @ journeys.patterns.T + given.apart),
            "told": np.exp(np.concatenate([given.told_touch, given.told_buy[None]]) @ journeys.told.T),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int]:
        """How many intents and classes."""
        intents, classes = self.start.shape
        return intents, classes

    @cached_property
    def as_single(self) -> dict[str, Any]:
        """The arrays that all users are multiplied with, in the precision of the journeys."""
        given = self.parameters
        arrays = {
            "first": self.share * self.start,
            "climb": self.climb,
            "fall": self.fall,
            "touch": self.touch,
            "seen": np.concatenate([-self.touch, self.touch + np.log(-np.expm1(-self.touch))]).T,
            "pattern": self.pattern,
            "told": self.told,
            "known": self.journeys.told,
            "direct": given.direct,
            "pushed": given.pushed,
            "synergy": self.synergy,
        }
        return {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}

    @cached_property
    def of_seen(self) -> Numbers:
        """Slope of the logarithm of ``expm1(rate)`` by the logarithm of the rate."""
        return np.asarray(self.touch / -np.expm1(-self.touch))

    @cached_property
    def synergy(self) -> Numbers:
        """Effects of pairs as a matrix, each above the diagonal."""
        count = len(self.journeys.causes)
        matrix = np.zeros((count, count))
        matrix[self.journeys.pairs[:, 0], self.journeys.pairs[:, 1]] = self.parameters.together
        return matrix

    def mean_levels(self, levels: NDArray[Any]) -> NDArray[Any]:
        """Return what is at work of each cause, the mean over half-lives."""
        shape = (len(self.journeys.causes), self.journeys.lives, levels.shape[1])
        return np.asarray(levels.reshape(shape).mean(axis=1))

    def growth(self, levels: Singles) -> Singles:
        """Return the factor by which causes raise the rate of conversions."""
        single = self.as_single
        growth = single["direct"] @ levels
        growth += 1
        if len(self.journeys.pairs):
            mean = self.mean_levels(levels)
            growth += ((single["synergy"] @ mean) * mean).sum(axis=0)
        return np.asarray(growth)


@dataclass(eq=False)
class Lived:
    """One period of a block, as it was passed forwards.

    ``up`` and ``push`` are of the branches before it: chance of each step upwards, and the factor of its
    rate. ``told_of`` has the factors of each node's rate, and of that of conversions, then what was seen.
    """

    chance: Singles
    seen: Singles
    scale: Singles
    up: Singles
    push: Singles
    told_of: Singles
    growth: Singles


def forwards(block: list[Period], rates: Rates) -> tuple[list[Lived], float]:
    """Return the periods of a block, and the logarithm of how likely it is.

    ``chance`` is that of each intent and class given what was seen until the period's end.
    """
    intents, classes = rates.shape
    single = rates.as_single
    likely = 0.0
    lived: list[Lived] = []
    for period in block:
        count = len(period.weight)
        told_of, growth, of_factors = _told_of(period, rates)
        seen = single["seen"] @ told_of
        np.exp(np.maximum(seen, _LEAST, out=seen), out=seen)
        seen = seen.reshape(intents, classes, count)
        push = single["pushed"] @ period.before
        push += 1
        up = single["climb"][:, :, None] * -push[:, None, :]
        np.negative(np.expm1(up, out=up), out=up)
        if lived:
            chance = period.branching.spread(_stepped(lived[-1].chance, up, single["fall"]))
            chance = np.multiply(chance, seen, out=chance)
        else:
            chance = single["first"][:, :, None] * seen
        scale = np.maximum(chance.reshape(-1, count).sum(axis=0), _TINY)
        chance *= 1 / scale
        likely += float(np.log(scale).astype(np.float64) @ period.weight) + of_factors
        lived.append(Lived(chance, seen, scale, up, push, told_of, growth))
    return lived, likely


def _told_of(period: Period, rates: Rates) -> tuple[Singles, Singles, float]:
    """Return the factors of rates and what was seen, the growth, and what the factors of the latter add."""
    single, journeys, count = rates.as_single, rates.journeys, len(period.weight)
    nodes = journeys.nodes
    told_of = np.zeros((2 * (nodes + 1), count), np.float32)
    factor = told_of[: nodes + 1]
    factor[:] = single["told"][:, period.told] if journeys.told.shape[1] else 1
    for place, node in enumerate(journeys.followers):
        factor[node] *= single["pattern"][place, period.recent]
    growth = rates.growth(period.after)
    factor[nodes] *= growth
    np.minimum(factor, 1e6, out=factor)
    node, branch = period.touched
    told_of[nodes + 1 + node, branch] = 1
    of_seen = factor[node, branch]
    # log(expm1(r * f)) is log(expm1(r)) + log(f) + r * (f - 1) / 2, but for about r**2 * (f**2 - 1) / 24.
    factor[node, branch] = (of_seen + 1) / 2
    of_factors = np.log(of_seen).astype(np.float64) @ period.weight[branch]
    return told_of, growth, float(of_factors)


def _stepped(chance: Singles, up: Singles, fall: Singles) -> Singles:
    """Return the chances after the steps of one period, before anything is seen of it."""
    after = chance.copy()
    last = len(chance) - 1
    for intent in range(last + 1):
        rest = chance[intent]
        if intent < last:
            rises = rest * up[intent]
            after[intent] -= rises
            after[intent + 1] += rises
            rest = np.subtract(rest, rises, out=rises)
        if intent > 0:
            falls = rest * fall[intent - 1]
            after[intent] -= falls
            after[intent - 1] += falls
    return after


@dataclass(eq=False)
class Slopes:
    """Slopes of the logarithm of the likelihood, and how sharp it would be if nothing were unseen.

    Those of rates and factors are slopes by their logarithms, those of chances by their log-odds.

    Attributes
    ----------
    counts_steps : bool
        Whether ``rises``, ``falls`` and ``pushed_sharp`` are added up too, which takes time.
    likely : float
        The logarithm itself, users weighted.
    start : float array, shape (n_intents, n_classes)
        Expected users.
    climb, rises : float array, shape (n_steps, n_classes)
        Slope, and about how many steps there were.
    fall, falls : float array, shape (n_steps,)
        The same of steps back.
    touch, seen : float array, shape (n_nodes + 1, n_intents * n_classes)
        Slope, and how often.
    pattern, patterns_seen : float array, shape (n_followers, n_patterns)
        The same of patterns.
    told : float array, shape (n_nodes + 1, n_covariates)
    direct, direct_sharp, pushed, pushed_sharp : float array
    together, together_sharp : float array, shape (n_causes, n_causes)
    """

    counts_steps: bool
    likely: float
    start: Numbers
    climb: Numbers
    rises: Numbers
    fall: Numbers
    falls: Numbers
    touch: Numbers
    seen: Numbers
    pattern: Numbers
    patterns_seen: Numbers
    told: Numbers
    direct: Numbers
    direct_sharp: Numbers
    pushed: Numbers
    pushed_sharp: Numbers
    together: Numbers
    together_sharp: Numbers

    @classmethod
    def none(cls, rates: Rates, *, counts_steps: bool) -> Slopes:
        """Return the sums before anything is added."""
        given, told = rates.parameters, (len(rates.touch), rates.journeys.told.shape[1])
        return cls(
            counts_steps=counts_steps,
            likely=0.0,
            start=np.zeros(rates.start.shape),
            climb=np.zeros(rates.climb.shape),
            rises=np.zeros(rates.climb.shape),
            fall=np.zeros(rates.fall.shape),
            falls=np.zeros(rates.fall.shape),
            touch=np.zeros(rates.touch.shape),
            seen=np.zeros(rates.touch.shape),
            pattern=np.zeros(rates.pattern.shape),
            patterns_seen=np.zeros(rates.pattern.shape),
            told=np.zeros(told),
            direct=np.zeros(given.direct.shape),
            direct_sharp=np.zeros(given.direct.shape),
            pushed=np.zeros(given.pushed.shape),
            pushed_sharp=np.zeros(given.pushed.shape),
            together=np.zeros(rates.synergy.shape),
            together_sharp=np.zeros(rates.synergy.shape),
        )


def slopes(rates: Rates, *, counts_steps: bool = False) -> Slopes:
    """Return the likelihood of all journeys, and its slopes."""
    found = Slopes.none(rates, counts_steps=counts_steps)
    for block in rates.journeys.blocks:
        lived, likely = forwards(block, rates)
        found.likely += likely
        _backwards(found, block, rates, lived)
    return found


def _backwards(found: Slopes, block: list[Period], rates: Rates, lived: list[Lived]) -> None:
    fall = rates.as_single["fall"]
    intents = len(fall) + 1
    # How likely what follows is, from each intent and class, as a part of how likely it is at all;
    # times, and added up over, the users who go on so.
    after: Singles = np.zeros((1, 1, 1), np.float32)
    for when in range(len(block) - 1, -1, -1):
        period, now = block[when], lived[when]
        after = after + period.ends
        chance = now.chance * after
        _count_seen(found, period, rates, now, chance.reshape(-1, chance.shape[-1]))
        if when == 0:
            found.start += chance.sum(axis=-1)
            return
        value = np.multiply(now.seen, after, out=now.seen)
        value *= 1 / now.scale
        value = period.branching.collect(value)
        then = lived[when - 1].chance
        after = np.empty_like(value)
        for intent in range(intents):
            stays = value[intent]
            if intent > 0:
                lower = value[intent - 1] - stays
                falls = then[intent] * lower
                if intent < intents - 1:
                    falls *= 1 - now.up[intent]
                chance_of_fall = float(fall[intent - 1])
                of_falls = float(falls.sum(dtype=np.float64))
                found.fall[intent - 1] += of_falls * chance_of_fall * (1 - chance_of_fall)
                lower *= fall[intent - 1]
                stays = stays + lower
            if intent < intents - 1:
                higher = value[intent + 1] - stays
                np.multiply(now.up[intent], higher, out=after[intent])
                after[intent] += stays
                _count_rises(found, rates, period, now, intent, then[intent], higher)
            else:
                after[intent] = stays
            if found.counts_steps:
                _count_steps(found, rates, period, now, intent, then[intent] * after[intent])


def _count_rises(
    found: Slopes, rates: Rates, period: Period, now: Lived, step: int, then: Singles, higher: Singles
) -> None:
    """Add the slopes of one step upwards; ``higher`` is what is gained by it."""
    climb, push, levels = rates.as_single["climb"][step], now.push[step], period.before
    slope = np.multiply(higher, then, out=higher)
    slope *= 1 - now.up[step]
    by_class = slope @ push
    found.climb[step] += rates.climb[step] * by_class
    found.pushed[step] += levels @ (climb @ slope)


def _count_steps(
    found: Slopes, rates: Rates, period: Period, now: Lived, intent: int, there: Singles
) -> None:
    """Add about how many steps are expected from an intent; ``there`` is how many were in it."""
    if intent > 0:
        found.falls[intent - 1] += rates.fall[intent - 1] * there.sum(dtype=np.float64)
    if intent < len(rates.fall):
        push = now.push[intent]
        found.rises[intent] += rates.climb[intent] * (there @ push)
        found.pushed_sharp[intent] += period.before**2 @ ((rates.as_single["climb"][intent] @ there) / push)


def _count_seen(found: Slopes, period: Period, rates: Rates, now: Lived, chance: Singles) -> None:
    journeys, single = rates.journeys, rates.as_single
    nodes = journeys.nodes
    counts = (chance @ now.told_of.T).T
    found.seen += counts[nodes + 1 :]
    found.touch += rates.of_seen * counts[nodes + 1 :] - rates.touch * counts[: nodes + 1]
    node, branch = period.touched
    weight = period.weight
    factor = now.told_of[: nodes + 1].copy()
    # Half of the factor of what was seen: see where the factors are made.
    factor[node, branch] -= 0.5
    rows = np.arange(nodes + 1) if journeys.told.shape[1] else np.append(journeys.followers, nodes)
    surplus = (single["touch"][rows] @ chance) * -factor[rows]
    place_of = np.full(nodes + 1, -1)
    place_of[rows] = np.arange(len(rows))
    counts_here = place_of[node] >= 0
    surplus[place_of[node[counts_here]], branch[counts_here]] += weight[branch[counts_here]]
    if journeys.told.shape[1]:
        found.told += surplus @ single["known"][period.told]
    bought, of_follower = surplus[place_of[nodes]], surplus[place_of[journeys.followers]]
    patterns = found.pattern.shape[1]
    for place, each in enumerate(journeys.followers):
        found.pattern[place] += np.bincount(period.recent, of_follower[place], minlength=patterns)
        is_here = branch[node == each]
        found.patterns_seen[place] += np.bincount(period.recent[is_here], weight[is_here], minlength=patterns)
    levels = period.after
    per_growth = bought / now.growth
    found.direct += levels @ per_growth
    buyers = branch[node == nodes]
    sharp = weight[buyers] / now.growth[buyers] ** 2
    found.direct_sharp += levels[:, buyers] ** 2 @ sharp
    if len(journeys.pairs):
        mean = rates.mean_levels(levels)
        found.together += (mean * per_growth) @ mean.T
        found.together_sharp += (mean[:, buyers] ** 2 * sharp) @ (mean[:, buyers] ** 2).T


def shares(logarithms: Numbers) -> Numbers:
    """Return parts of one whole, along the first axis."""
    parts = np.exp(logarithms - logarithms.max(axis=0))
    return np.asarray(parts / parts.sum(axis=0))
