"""Parameters of the hidden Markov model of intent, and their initial values."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.prefix_tree import PrefixTree

    Numbers = NDArray[np.float64]

#: Periods before a conversion in which touchpoints count as signs of intent.
_PERIODS_BEFORE: Final = 7
#: Range of log-activity.
_ACTIVITY: Final = (-3.0, 1.5)
_INITIAL_EFFECT: Final = 0.1
#: Names of the parameters that are effects, bounded at zero.
EFFECTS: Final = ("direct", "transition", "interaction")
#: Names of the parameters of patterns of recent touchpoints.
PATTERN_PARAMETERS: Final = ("recent", "pattern")


@dataclass(frozen=True, eq=False)
class Parameters:
    """Parameters of the model: logarithms of rates and factors, log-odds of probabilities, and effects.

    A latent class of users is a point on a grid of activity and propensity. Loadings have three columns:
    intercept, activity and propensity.

    Attributes
    ----------
    share : float array, shape (n_activities,)
        Share of users by degree of activity; the distribution of propensity is fixed.
    start : float array, shape (n_intents, 3)
        Loadings of the initial distribution of intents.
    upward : float array, shape (n_intents - 1, 3)
        Loadings of the rate of the transition to the next intent.
    downward : float array, shape (n_intents - 1,)
        Probability of the transition to the intent before.
    touch : float array, shape (n_nodes, 3)
        Loadings of the rate of each node's touchpoints.
    emission : float array, shape (n_nodes, n_intents)
        Factor of that rate by intent.
    recent : float array, shape (n_followers, n_flags)
        Factor of the rate of a follower's touchpoints by recent touchpoint of each node.
    pattern : float array, shape (n_followers, n_patterns)
        Factor of a pattern of recent touchpoints beyond the product of ``recent``.
    touch_covariates : float array, shape (n_nodes, n_covariates)
        Coefficients of covariates in the rates of touchpoints.
    conversion : float array, shape (3,)
        Loadings of the conversion rate.
    conversion_intent : float array, shape (n_intents,)
        Factor of that rate by intent.
    conversion_covariates : float array, shape (n_covariates,)
        Coefficients of covariates in that rate.
    direct : float array, shape (n_causes * n_half_lives,)
        Direct effects: relative increase of the conversion rate per unit of saturated adstock.
    transition : float array, shape (n_intents - 1, n_causes * n_half_lives)
        Effects on transitions: relative increase of the rate of each transition upwards.
    interaction : float array, shape (n_pairs,)
        Relative increase of the conversion rate by two causes beyond their direct effects.
    """

    share: Numbers
    start: Numbers
    upward: Numbers
    downward: Numbers
    touch: Numbers
    emission: Numbers
    recent: Numbers
    pattern: Numbers
    touch_covariates: Numbers
    conversion: Numbers
    conversion_intent: Numbers
    conversion_covariates: Numbers
    direct: Numbers
    transition: Numbers
    interaction: Numbers

    def flatten(self) -> Numbers:
        """Return all parameters as one vector."""
        return np.concatenate([np.ravel(getattr(self, each.name)) for each in fields(self)])

    def unflatten(self, row: Numbers) -> Parameters:
        """Return the parameters of such a vector."""
        sizes = [getattr(self, each.name).size for each in fields(self)]
        parts = np.split(row, np.cumsum(sizes)[:-1])
        return replace(
            self,
            **{
                each.name: part.reshape(getattr(self, each.name).shape)
                for each, part in zip(fields(self), parts, strict=True)
            },
        )

    def mask(self, names: tuple[str, ...]) -> NDArray[np.bool_]:
        """Return for each element of the vector whether it belongs to one of the named parameters."""
        return np.concatenate(
            [np.full(getattr(self, each.name).size, each.name in names) for each in fields(self)]
        )


def class_grid(activities: int, propensities: int) -> Numbers:
    """Return intercept, activity and propensity of each latent class.

    Propensity is normal and independent of activity, at the nodes of Gauss-Hermite quadrature. If its
    distribution were estimated for each degree of activity, it would absorb what is left of activity.
    """
    activity = np.linspace(*_ACTIVITY, activities) if activities > 1 else np.zeros(1)
    propensity, _ = np.polynomial.hermite_e.hermegauss(propensities)
    columns = np.meshgrid(activity, propensity, indexing="ij")
    return np.stack([np.ones(activities * propensities), *map(np.ravel, columns)], axis=1)


def propensity_weights(propensities: int) -> Numbers:
    """Return the share of users by propensity: the weights of Gauss-Hermite quadrature."""
    _, weights = np.polynomial.hermite_e.hermegauss(propensities)
    return np.asarray(weights / weights.sum())


def initial_parameters(tree: PrefixTree, classes: Numbers, *, intents: int) -> Parameters:
    """Return initial parameters, in which nodes that are frequent before conversions are signs of intent."""
    periods, converted, touches, before_conversion = _counts(tree)
    base = np.maximum(touches, 0.5) / periods
    lift = np.clip(
        (before_conversion + 1) / (before_conversion.sum() / max(touches.sum(), 1) * touches + 1), 0.2, 50
    )
    power = np.linspace(-0.25, 0.9, intents) if intents > 1 else np.zeros(1)
    emission = lift[:, None] ** power
    funnel = _funnel(intents)
    emission /= (emission * funnel).sum(axis=1, keepdims=True)
    activity = np.unique(classes[:, 1])
    weight = np.exp(-0.5 * ((activity + 0.2) / 1.1) ** 2)
    mean = (weight * np.exp(0.7 * activity)).sum() / weight.sum()
    conversion_intent = 0.25 * 32.0 ** np.linspace(0, 1, intents) if intents > 1 else np.ones(1)
    steps, effects = intents - 1, len(tree.causes) * tree.half_lives
    covariates = tree.covariates.shape[1]
    upward = np.zeros((steps, 3))
    upward[:, 0] = np.log(0.01) + np.log(4) * np.arange(steps)
    upward[:, 2] = 0.3
    start = np.zeros((intents, 3))
    start[:, 0] = np.log(funnel)
    effect = _INITIAL_EFFECT / tree.half_lives
    return Parameters(
        share=np.log(weight / weight.sum()),
        start=start,
        upward=upward,
        downward=np.full(steps, np.log(0.06 / 0.94)),
        touch=np.stack([np.log(base / mean), np.full(len(base), 0.7), np.zeros(len(base))], axis=1),
        emission=np.log(emission),
        recent=np.zeros((len(tree.followers), tree.patterns.shape[1])),
        pattern=np.zeros((len(tree.followers), len(tree.patterns))),
        touch_covariates=np.zeros((len(base), covariates)),
        conversion=np.array([np.log(converted / periods), 0.2, 0.5]),
        conversion_intent=np.log(conversion_intent),
        conversion_covariates=np.zeros(covariates),
        direct=np.full(effects, effect),
        transition=np.full((steps, effects), effect),
        interaction=np.full(len(tree.pairs), _INITIAL_EFFECT / 2),
    )


def _funnel(intents: int) -> Numbers:
    share = 0.2 ** np.arange(intents, dtype=np.float64)
    return np.asarray(share / share.sum())


def _counts(tree: PrefixTree) -> tuple[float, float, Numbers, Numbers]:
    """Count person-periods, conversions, touchpoints, and touchpoints shortly before a conversion."""
    periods = converted = 0.0
    touches, before_conversion = np.zeros(tree.nodes), np.zeros(tree.nodes)
    for block in tree.blocks:
        # Converting users by period and branch, carried back along the tree from the last period.
        converting = [np.zeros(len(period.weight)) for period in block]
        for number, period in enumerate(block):
            converting[number][period.buyers] = period.weight[period.buyers]
        for number, period in enumerate(block):
            periods += float(period.weight.sum())
            converted += float(converting[number].sum())
            branch, kind = period.touches
            node = tree.touch_kinds[0, kind]
            touches += np.bincount(node, period.weight[branch], minlength=tree.nodes)
            soon: Numbers = np.zeros(0)
            for ahead in range(min(number + _PERIODS_BEFORE, len(block)) - 1, number - 1, -1):
                soon = converting[ahead] + (soon if len(soon) else 0.0)
                if ahead > number:
                    branching = block[ahead].branching
                    soon = np.bincount(branching.parent, soon, branching.before).astype(np.float64)
            before_conversion += np.bincount(node, soon[branch], minlength=tree.nodes)
    return periods, converted, touches, before_conversion
