"""What the model of latent intent estimates, and where the estimate starts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.journeys import Journeys

    Numbers = NDArray[np.float64]

#: Periods before a conversion in which nodes that go with the wish to buy are frequent.
_SHORTLY_BEFORE: Final = 7
#: How far activity (in logarithms; few are very active, many hardly) and propensity reach.
_ACTIVITY: Final = (-2.6, 1.4)
_PROPENSITY: Final = (-1.3, 1.3)
_FIRST_EFFECT: Final = 0.1


@dataclass(frozen=True, eq=False)
class Parameters:
    """What is estimated, each without bounds; rates and effects are logarithms, chances log-odds.

    A class of users is a point on a grid of activity and propensity.

    Attributes
    ----------
    share : float array, shape (n_classes,)
        How many users each class has.
    start : float array, shape (n_classes, n_intents)
        In which intent its observation finds a user.
    climb : float array, shape (n_intents - 1, 3)
        Rate of the step to the next intent: a constant, and how it grows with activity and propensity.
    fall : float array, shape (n_intents - 1,)
        Chance of the step back.
    touch : float array, shape (n_nodes, 3)
        Rate of each node's touchpoints.
    sign : float array, shape (n_nodes, n_intents)
        Factor of that rate in each intent: what a touchpoint tells of the wish to buy.
    recent : float array, shape (n_nodes, n_flags)
        The same of recent touchpoints of other nodes and of its own.
    apart : float array, shape (n_nodes, n_patterns)
        What a pattern of recent touchpoints has beyond the product of its factors.
    told_touch : float array, shape (n_nodes, n_covariates)
        What is known of users, in those rates.
    buy : float array, shape (3,); ease : float array, shape (n_intents,)
        Rate of conversions, and its factor in each intent.
    told_buy : float array, shape (n_covariates,)
        What is known of users, in it.
    direct : float array, shape (n_causes * n_half_lives,)
        By what part of itself a cause raises the rate of conversions.
    pushed : float array, shape (n_intents - 1, n_causes * n_half_lives)
        By what part a cause raises the rate of each step upwards.
    together : float array, shape (n_pairs,)
        By what part two causes raise the rate of conversions together, beyond each.
    """

    share: Numbers
    start: Numbers
    climb: Numbers
    fall: Numbers
    touch: Numbers
    sign: Numbers
    recent: Numbers
    apart: Numbers
    told_touch: Numbers
    buy: Numbers
    ease: Numbers
    told_buy: Numbers
    direct: Numbers
    pushed: Numbers
    together: Numbers

    def flat(self) -> Numbers:
        """Return all of them in one row."""
        return np.concatenate([np.ravel(getattr(self, each.name)) for each in fields(self)])

    def like(self, row: Numbers) -> Parameters:
        """Return the parameters that such a row stands for."""
        sizes = [getattr(self, each.name).size for each in fields(self)]
        parts = np.split(row, np.cumsum(sizes)[:-1])
        return replace(
            self,
            **{
                each.name: part.reshape(getattr(self, each.name).shape)
                for each, part in zip(fields(self), parts, strict=True)
            },
        )


def grid(activities: int, propensities: int) -> Numbers:
    """Return the classes: a constant, activity and propensity of each."""
    activity = np.linspace(*_ACTIVITY, activities) if activities > 1 else np.zeros(1)
    propensity = np.linspace(*_PROPENSITY, propensities) if propensities > 1 else np.zeros(1)
    columns = np.meshgrid(activity, propensity, indexing="ij")
    return np.stack([np.ones(activities * propensities), *map(np.ravel, columns)], axis=1)


def first_guess(journeys: Journeys, classes: Numbers, *, intents: int) -> Parameters:
    """Return where the estimate starts: intent shows in what is frequent shortly before conversions."""
    days, bought, touches, shortly = _counted(journeys)
    base = np.maximum(touches, 0.5) / days
    lift = np.clip((shortly + 1) / (shortly.sum() / max(touches.sum(), 1) * touches + 1), 0.2, 50)
    power = np.linspace(-0.25, 0.9, intents) if intents > 1 else np.zeros(1)
    sign = lift[:, None] ** power
    start = _funnel(intents)
    sign /= (sign * start).sum(axis=1, keepdims=True)
    weight = np.exp(-0.5 * ((classes[:, 1] + 0.2) / 1.1) ** 2 - 0.5 * classes[:, 2] ** 2)
    mean = (weight * np.exp(0.7 * classes[:, 1])).sum() / weight.sum()
    ease = 0.25 * 32.0 ** np.linspace(0, 1, intents) if intents > 1 else np.ones(1)
    steps, effects = intents - 1, len(journeys.causes) * journeys.lives
    covariates = journeys.blocks[0].told.shape[0]
    climb = np.zeros((steps, 3))
    climb[:, 0] = np.log(0.01) + np.log(4) * np.arange(steps)
    climb[:, 2] = 0.3
    effect = np.log(_FIRST_EFFECT / journeys.lives)
    return Parameters(
        share=np.log(weight / weight.sum()),
        start=np.tile(np.log(start), (len(classes), 1)),
        climb=climb,
        fall=np.full(steps, np.log(0.06 / 0.94)),
        touch=np.stack([np.log(base / mean), np.full(len(base), 0.7), np.zeros(len(base))], axis=1),
        sign=np.log(sign),
        recent=np.zeros((len(base), journeys.patterns.shape[1])),
        apart=np.zeros((len(base), len(journeys.patterns))),
        told_touch=np.zeros((len(base), covariates)),
        buy=np.array([np.log(bought / days), 0.2, 0.5]),
        ease=np.log(ease),
        told_buy=np.zeros(covariates),
        direct=np.full(effects, effect),
        pushed=np.full((steps, effects), effect),
        together=np.full(len(journeys.pairs), np.log(_FIRST_EFFECT / 2)),
    )


def _funnel(intents: int) -> Numbers:
    share = 0.2 ** np.arange(intents, dtype=np.float64)
    return np.asarray(share / share.sum())


def _counted(journeys: Journeys) -> tuple[float, float, Numbers, Numbers]:
    """Count periods, conversions, touchpoints, and those shortly before a conversion."""
    days = bought = 0.0
    touches, shortly = np.zeros(journeys.nodes), np.zeros(journeys.nodes)
    for block in journeys.blocks:
        until = np.full(len(block.weight), -1)
        for period, users in enumerate(block.converted):
            until[users] = period
            bought += float(block.weight[users].sum())
        for period, active in enumerate(block.active):
            days += float(block.weight[:active].sum())
            for node, users in block.touched[period]:
                touches[node] += block.weight[users].sum()
                is_near = (until[users] >= period) & (until[users] < period + _SHORTLY_BEFORE)
                shortly[node] += block.weight[users[is_near]].sum()
    return days, bought, touches, shortly
