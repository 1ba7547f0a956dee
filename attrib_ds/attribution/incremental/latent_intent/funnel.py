"""Goes through the periods forwards and backwards: how likely what was seen is, and what goes on unseen."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.journeys import Block, Codes, Journeys, Singles
    from attrib_ds.attribution.incremental.latent_intent.parameters import Parameters

    Numbers = NDArray[np.float64]

#: A rate of so many a period is as good as certain; more would overflow.
_CERTAIN: Final = 20.0


@dataclass(frozen=True, eq=False)
class Rates:
    """Parameters as rates and chances of classes and intents.

    A touchpoint, a conversion and a step upwards happen in a period with the chance ``1 - exp(-rate)``: one
    trigger of a Poisson number of them is enough. The triggers of a rate that is a sum belong to its parts.

    Attributes
    ----------
    share, start : float array, shape (n_classes,) and (n_classes, n_intents)
        How users begin.
    climb : float array, shape (n_steps, n_classes); fall : float array, shape (n_steps,)
        Rate upwards, chance downwards.
    touch : float array, shape (n_nodes, n_classes * n_intents)
        Rate of touchpoints.
    buy : float array, shape (n_classes * n_intents,)
        Rate of conversions.
    pattern : float array, shape (n_nodes, n_patterns)
        Factor of the rate of touchpoints.
    direct, pushed, together : float array
        Effects.
    """

    parameters: Parameters
    classes: Numbers
    journeys: Journeys
    share: Numbers = field(init=False)
    start: Numbers = field(init=False)
    climb: Numbers = field(init=False)
    fall: Numbers = field(init=False)
    touch: Numbers = field(init=False)
    buy: Numbers = field(init=False)
    pattern: Numbers = field(init=False)
    direct: Numbers = field(init=False)
    pushed: Numbers = field(init=False)
    together: Numbers = field(init=False)

    def __post_init__(self) -> None:
        given, classes = self.parameters, self.classes
        touch = (given.touch @ classes.T)[:, :, None] + given.sign[:, None, :]
        buy = (classes @ given.buy)[:, None] + given.ease
        found = {
            "share": _shares(given.share),
            "start": _shares(given.start),
            "climb": np.exp(given.climb @ classes.T),
            "fall": 1 / (1 + np.exp(-given.fall)),
            "touch": np.exp(touch).reshape(len(touch), -1),
            "buy": np.exp(buy).reshape(-1),
            "pattern": np.exp(given.recent @ self.journeys.patterns.T + given.apart),
            "direct": np.exp(given.direct),
            "pushed": np.exp(given.pushed),
            "together": np.exp(given.together),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int]:
        """How many classes and intents."""
        classes, intents = self.start.shape
        return classes, intents

    @cached_property
    def as_single(self) -> dict[str, Any]:
        """The arrays that all users are multiplied with, in the precision of the journeys."""
        names = ("climb", "fall", "buy", "pattern", "direct", "pushed")
        arrays = {name: getattr(self, name).astype(np.float32) for name in names}
        first = (self.share[:, None] * self.start).astype(np.float32)
        weights = np.concatenate([self.touch, self.buy[None]]).T.astype(np.float32)
        return arrays | {"first": first, "weights": weights, "synergy": self.synergy.astype(np.float32)}

    @cached_property
    def synergy(self) -> Numbers:
        """Effects of pairs as a matrix, each above the diagonal."""
        count = len(self.journeys.causes)
        matrix = np.zeros((count, count))
        matrix[self.journeys.pairs[:, 0], self.journeys.pairs[:, 1]] = self.together
        return matrix

    def mean_levels(self, levels: NDArray[Any]) -> NDArray[Any]:
        """Return what is at work of each cause, the mean over half-lives."""
        shape = (len(self.journeys.causes), self.journeys.lives, levels.shape[1])
        return np.asarray(levels.reshape(shape).mean(axis=1))

    def growth(self, levels: Singles) -> Singles:
        """Return the factor by which causes raise the rate of conversions."""
        single = self.as_single
        growth = 1 + single["direct"] @ levels
        if len(self.journeys.pairs):
            mean = self.mean_levels(levels)
            growth = growth + ((single["synergy"] @ mean) * mean).sum(axis=0)
        return np.asarray(growth)


@dataclass(eq=False)
class Lived:
    """One period of a block, as it was passed forwards."""

    chance: Singles
    seen: Singles
    scale: Singles
    up: Singles
    push: Singles
    touch_factor: Singles
    growth: Singles
    factor: Singles
    triggers: list[tuple[int, Codes, Singles]]


def forwards(block: Block, rates: Rates) -> tuple[list[Lived], Numbers]:
    """Return the periods of a block and the logarithm of how likely the history of each user is.

    ``chance`` is that of each class and intent given what was seen until the period's end.
    """
    given = rates.parameters
    classes, intents = rates.shape
    single = rates.as_single
    told_touch = np.exp(given.told_touch @ block.told).astype(np.float32)
    told_buy = np.exp(given.told_buy @ block.told).astype(np.float32)
    likely = np.zeros(len(block.weight))
    lived: list[Lived] = []
    for period, active in enumerate(block.active):
        touch_factor = single["pattern"][:, block.recent[period]] * told_touch[:, :active]
        growth = rates.growth(block.after[period])
        factor = growth * told_buy[:active]
        seen, triggers = _seen(block, period, single["weights"], touch_factor, factor)
        seen = seen.reshape(classes, intents, active)
        push = 1 + single["pushed"] @ block.before[period]
        up = -np.expm1(-np.minimum(single["climb"][:, :, None] * push[:, None, :], _CERTAIN))
        if not lived:
            chance = single["first"][:, :, None] * seen
        else:
            chance = _stepped(lived[-1].chance[:, :, :active], up, single["fall"])
            chance *= seen
        scale = chance.reshape(-1, active).sum(axis=0)
        chance /= scale
        likely[:active] += np.log(scale)
        lived.append(Lived(chance, seen, scale, up, push, touch_factor, growth, factor, triggers))
    return lived, likely


def _seen(
    block: Block, period: int, weights: Singles, touch_factor: Singles, factor: Singles
) -> tuple[Singles, list[tuple[int, Codes, Singles]]]:
    """Return how likely what was seen in a period is, and the triggers to expect behind each touchpoint."""
    rate = np.concatenate([touch_factor, factor[None]])
    np.minimum(rate, 1e6, out=rate)
    seen = np.negative(weights @ rate)
    # Far below what single precision can tell from nothing, and above where products of it vanish.
    np.exp(np.maximum(seen, -60, out=seen), out=seen)
    triggers = []
    converted = [(len(weights[0]) - 1, block.converted[period])]
    for node, users in [*block.touched[period], *converted]:
        if not len(users):
            continue
        expected = np.minimum(weights[:, node, None] * rate[node, users], np.float32(_CERTAIN))
        happens = np.expm1(expected)
        seen[:, users] *= happens
        expected *= (happens + 1) / np.maximum(happens, 1e-30)
        triggers.append((node, users, expected))
    return seen, triggers


def _stepped(chance: Singles, up: Singles, fall: Singles) -> Singles:
    """Return the chances after the steps of one period, before anything is seen of it."""
    after = chance.copy()
    last = chance.shape[1] - 1
    for intent in range(last + 1):
        rest = chance[:, intent]
        if intent < last:
            rises = rest * up[intent]
            after[:, intent] -= rises
            after[:, intent + 1] += rises
            rest = rest - rises
        if intent > 0:
            falls = rest * fall[intent - 1]
            after[:, intent] -= falls
            after[:, intent - 1] += falls
    return after


@dataclass(eq=False)
class Expected:
    """Expected triggers, and the time at risk of them times everything but the parameter.

    Each ``*_risk`` times its rate is the number of triggers that the rate alone lets expect.

    Attributes
    ----------
    likely : float
        Logarithm of how likely everything is, users weighted.
    start, climb, climb_risk, fall, fall_risk, touch, touch_risk, buy, buy_risk : float array
        Of each class (and intent).
    pattern, pattern_risk : float array, shape (n_nodes, n_patterns)
        The second with the factor of the pattern.
    told_touch, told_buy : float array
        Slopes.
    direct, direct_risk, pushed, pushed_risk, together, together_risk : float array
        Of effects, without the effect itself.
    """

    likely: float
    start: Numbers
    climb: Numbers
    climb_risk: Numbers
    fall: Numbers
    fall_risk: Numbers
    touch: Numbers
    touch_risk: Numbers
    buy: Numbers
    buy_risk: Numbers
    pattern: Numbers
    pattern_risk: Numbers
    told_touch: Numbers
    told_buy: Numbers
    direct: Numbers
    direct_risk: Numbers
    pushed: Numbers
    pushed_risk: Numbers
    together: Numbers
    together_risk: Numbers

    @classmethod
    def nothing(cls, rates: Rates) -> Expected:
        """Return the sums before anything is added."""
        given = rates.parameters
        cells = rates.buy.shape
        return cls(
            0.0,
            *(np.zeros(each) for each in (given.start.shape, rates.climb.shape, rates.climb.shape)),
            *(np.zeros(rates.fall.shape) for _ in range(2)),
            *(np.zeros(each) for each in (rates.touch.shape, rates.touch.shape, cells, cells)),
            *(np.zeros(rates.pattern.shape) for _ in range(2)),
            *(np.zeros(each.shape) for each in (given.told_touch, given.told_buy)),
            *(np.zeros(each.shape) for each in (given.direct,) * 2 + (given.pushed,) * 2),
            *(np.zeros(rates.synergy.shape) for _ in range(2)),
        )


def expect(rates: Rates) -> Expected:
    """Return what is to be expected unseen, given all that was seen."""
    found = Expected.nothing(rates)
    for block in rates.journeys.blocks:
        lived, likely = forwards(block, rates)
        found.likely += float(likely @ block.weight)
        _backwards(found, block, rates, lived)
    return found


def _backwards(found: Expected, block: Block, rates: Rates, lived: list[Lived]) -> None:
    classes, intents = rates.shape
    fall = rates.as_single["fall"]
    # What a user's rates let expect beside what happened; its sum is a slope.
    told_touch, told_buy = np.zeros((rates.journeys.nodes, len(block.weight))), np.zeros(len(block.weight))
    after = np.ones((classes, intents, 0), np.float32)
    for period in range(len(lived) - 1, -1, -1):
        now, active = lived[period], block.active[period]
        if after.shape[2] < active:
            new = np.ones((classes, intents, active - after.shape[2]), np.float32)
            after = np.concatenate([after, new], axis=2)
        chance = (now.chance * after).reshape(-1, active)
        chance *= block.weight[:active] / chance.sum(axis=0)
        _count_seen(found, block, rates, now, chance, period, told_touch, told_buy)
        if period == 0:
            found.start += chance.sum(axis=1).reshape(classes, intents)
            break
        then = lived[period - 1].chance[:, :, :active]
        value = now.seen * after
        value /= now.scale
        after = np.empty_like(value)
        for intent in range(intents):
            stays = value[:, intent]
            if intent > 0:
                stays = stays + fall[intent - 1] * (value[:, intent - 1] - stays)
            after[:, intent] = stays
            if intent < intents - 1:
                after[:, intent] += now.up[intent] * (value[:, intent + 1] - stays)
        _count_steps(found, block, rates, now, then, value, after, period)
    found.told_touch += told_touch @ block.told.T
    found.told_buy += block.told @ told_buy


def _count_seen(
    found: Expected,
    block: Block,
    rates: Rates,
    now: Lived,
    chance: Singles,
    period: int,
    told_touch: Numbers,
    told_buy: Numbers,
) -> None:
    active, nodes = block.active[period], rates.journeys.nodes
    found.touch_risk += (chance @ now.touch_factor.T).T
    found.buy_risk += chance @ now.factor
    # Rows of the rates: those of each node, then that of conversions.
    rate = rates.as_single["weights"].T @ chance
    rate[:nodes] *= now.touch_factor
    rate[nodes] *= now.factor
    pattern, patterns = block.recent[period], found.pattern.shape[1]
    for node in range(nodes):
        found.pattern_risk[node] += np.bincount(pattern, rate[node], minlength=patterns)
    told_touch[:, :active] -= rate[:nodes]
    told_buy[:active] -= rate[nodes]
    levels = block.after[period]
    per_growth = rate[nodes] / now.growth
    found.direct_risk += levels @ per_growth
    has_pairs = len(rates.journeys.pairs) > 0
    mean = rates.mean_levels(levels) if has_pairs else levels
    if has_pairs:
        found.together_risk += (mean * per_growth) @ mean.T
    for node, users, expected in now.triggers:
        triggers = chance[:, users] * expected
        of_user = triggers.sum(axis=0)
        if node < nodes:
            found.touch[node] += triggers.sum(axis=1)
            found.pattern[node] += np.bincount(pattern[users], of_user, minlength=patterns)
            told_touch[node, users] += of_user
            continue
        found.buy += triggers.sum(axis=1)
        told_buy[users] += of_user
        of_user = of_user / now.growth[users]
        found.direct += levels[:, users] @ of_user
        if has_pairs:
            found.together += (mean[:, users] * of_user) @ mean[:, users].T


def _count_steps(
    found: Expected,
    block: Block,
    rates: Rates,
    now: Lived,
    then: Singles,
    value: Singles,
    after: Singles,
    period: int,
) -> None:
    weight, levels = block.weight[: block.active[period]], block.before[period]
    fall = rates.as_single["fall"]
    for step in range(len(fall)):
        climb = rates.as_single["climb"][step]
        push = now.push[step]
        at_risk = then[:, step] * after[:, step]
        rises = then[:, step] * now.up[step] * value[:, step + 1]
        rate = np.minimum(climb[:, None] * push, np.float32(_CERTAIN))
        triggers = rises * (rate / now.up[step]) * weight
        found.climb[step] += triggers.sum(axis=1)
        found.climb_risk[step] += at_risk @ (weight * push)
        found.pushed[step] += levels @ (triggers.sum(axis=0) / push)
        found.pushed_risk[step] += levels @ ((climb @ at_risk) * weight)
        above = then[:, step + 1]
        could_fall = above * after[:, step + 1]
        falls = above * fall[step] * value[:, step]
        if step + 1 < len(fall):
            could_fall = could_fall - above * now.up[step + 1] * value[:, step + 2]
            falls = falls * (1 - now.up[step + 1])
        found.fall[step] += float((falls @ weight).sum())
        found.fall_risk[step] += float((could_fall @ weight).sum())


def _shares(logarithms: Numbers) -> Numbers:
    parts = np.exp(logarithms - logarithms.max(axis=-1, keepdims=True))
    return np.asarray(parts / parts.sum(axis=-1, keepdims=True))
