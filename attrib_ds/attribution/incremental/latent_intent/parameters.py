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
#: How far activity reaches, in logarithms: few are very active, many hardly.
_ACTIVITY: Final = (-3.0, 1.5)
_FIRST_EFFECT: Final = 0.1
#: Parameters that are effects: none is below zero.
EFFECTS: Final = ("direct", "pushed", "together")
#: Those of patterns of recent touchpoints.
PATTERNED: Final = ("recent", "apart")


@dataclass(frozen=True, eq=False)
class Parameters:
    """What is estimated; rates and factors are logarithms, chances log-odds, effects themselves.

    A class of users is a point on a grid of activity and propensity; loadings are a constant, and what
    activity and propensity add.

    Attributes
    ----------
    share : float array, shape (n_activities,)
        How many users have each degree of activity; how many of them each propensity has is given.
    start : float array, shape (n_intents, 3)
        Loadings of the intent in which its observation finds a user.
    climb : float array, shape (n_intents - 1, 3)
        Loadings of the rate of the step to the next intent.
    fall : float array, shape (n_intents - 1,)
        Chance of the step back.
    touch : float array, shape (n_nodes, 3)
        Loadings of the rate of each node's touchpoints.
    sign : float array, shape (n_nodes, n_intents)
        Factor of that rate in each intent: what a touchpoint tells of the wish to buy.
    recent : float array, shape (n_followers, n_flags)
        The same, for nodes that follow users, of recent touchpoints of other nodes and of its own.
    apart : float array, shape (n_followers, n_patterns)
        What a pattern of recent touchpoints has beyond the product of its factors.
    told_touch : float array, shape (n_nodes, n_covariates)
        What is known of users, in those rates.
    buy : float array, shape (3,); ease : float array, shape (n_intents,)
        Loadings of the rate of conversions, and its factor in each intent.
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

    def are(self, names: tuple[str, ...]) -> NDArray[np.bool_]:
        """Return for each place of the row whether it belongs to parameters of such names."""
        return np.concatenate(
            [np.full(getattr(self, each.name).size, each.name in names) for each in fields(self)]
        )


def grid(activities: int, propensities: int) -> Numbers:
    """Return the classes: a constant, activity and propensity of each.

    Propensity is normal and goes with nothing else that is not observed: were its distribution estimated in
    each degree of activity, it would stand for what the degrees do not tell of activity. A normal
    distribution is in the places, and the weights, of Gauss and Hermite.
    """
    activity = np.linspace(*_ACTIVITY, activities) if activities > 1 else np.zeros(1)
    propensity, _ = np.polynomial.hermite_e.hermegauss(propensities)
    columns = np.meshgrid(activity, propensity, indexing="ij")
    return np.stack([np.ones(activities * propensities), *map(np.ravel, columns)], axis=1)


def propensity_weights(propensities: int) -> Numbers:
    """Return what part of all users each propensity has."""
    _, weights = np.polynomial.hermite_e.hermegauss(propensities)
    return np.asarray(weights / weights.sum())


def first_guess(journeys: Journeys, classes: Numbers, *, intents: int) -> Parameters:
    """Return where the estimate starts: intent shows in what is frequent shortly before conversions."""
    days, bought, touches, shortly = _counted(journeys)
    base = np.maximum(touches, 0.5) / days
    lift = np.clip((shortly + 1) / (shortly.sum() / max(touches.sum(), 1) * touches + 1), 0.2, 50)
    power = np.linspace(-0.25, 0.9, intents) if intents > 1 else np.zeros(1)
    sign = lift[:, None] ** power
    funnel = _funnel(intents)
    sign /= (sign * funnel).sum(axis=1, keepdims=True)
    activity = np.unique(classes[:, 1])
    weight = np.exp(-0.5 * ((activity + 0.2) / 1.1) ** 2)
    mean = (weight * np.exp(0.7 * activity)).sum() / weight.sum()
    ease = 0.25 * 32.0 ** np.linspace(0, 1, intents) if intents > 1 else np.ones(1)
    steps, effects = intents - 1, len(journeys.causes) * journeys.lives
    covariates = journeys.told.shape[1]
    climb = np.zeros((steps, 3))
    climb[:, 0] = np.log(0.01) + np.log(4) * np.arange(steps)
    climb[:, 2] = 0.3
    start = np.zeros((intents, 3))
    start[:, 0] = np.log(funnel)
    effect = _FIRST_EFFECT / journeys.lives
    return Parameters(
        share=np.log(weight / weight.sum()),
        start=start,
        climb=climb,
        fall=np.full(steps, np.log(0.06 / 0.94)),
        touch=np.stack([np.log(base / mean), np.full(len(base), 0.7), np.zeros(len(base))], axis=1),
        sign=np.log(sign),
        recent=np.zeros((len(journeys.followers), journeys.patterns.shape[1])),
        apart=np.zeros((len(journeys.followers), len(journeys.patterns))),
        told_touch=np.zeros((len(base), covariates)),
        buy=np.array([np.log(bought / days), 0.2, 0.5]),
        ease=np.log(ease),
        told_buy=np.zeros(covariates),
        direct=np.full(effects, effect),
        pushed=np.full((steps, effects), effect),
        together=np.full(len(journeys.pairs), _FIRST_EFFECT / 2),
    )


def _funnel(intents: int) -> Numbers:
    share = 0.2 ** np.arange(intents, dtype=np.float64)
    return np.asarray(share / share.sum())


def _counted(journeys: Journeys) -> tuple[float, float, Numbers, Numbers]:
    """Count periods, conversions, touchpoints, and those shortly before a conversion."""
    days = 0.0
    touches, shortly = np.zeros(journeys.nodes + 1), np.zeros(journeys.nodes + 1)
    for block in journeys.blocks:
        # Who converts soon, as far as one goes on from the other, counted from the end.
        near = [np.zeros(len(period.weight)) for period in block]
        for when, period in enumerate(block):
            node, branch = period.touched
            near[when][branch[node == journeys.nodes]] = period.weight[branch[node == journeys.nodes]]
        for when, period in enumerate(block):
            days += float(period.weight.sum())
            node, branch = period.touched
            touches += np.bincount(node, period.weight[branch], minlength=journeys.nodes + 1)
            soon: Numbers = np.zeros(0)
            for ahead in range(min(when + _SHORTLY_BEFORE, len(block)) - 1, when - 1, -1):
                soon = near[ahead] + (soon if len(soon) else 0.0)
                if ahead > when:
                    branching = block[ahead].branching
                    soon = np.bincount(branching.parent, soon, branching.before).astype(np.float64)
            shortly += np.bincount(node, soon[branch], minlength=journeys.nodes + 1)
    return days, float(touches[-1]), touches[:-1], shortly[:-1]
