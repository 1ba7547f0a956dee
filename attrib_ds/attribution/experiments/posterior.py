"""Posterior of each node's effect, given a model and an experiment, over hypotheses of the model's error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import norm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

#: Relative errors of a model, and their prior for a model of effects, which usually is either nearly right or
#: confounded.
_ERRORS: Final = np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
_LIKELY: Final = np.array([8.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0])
#: Relative error from which on the level of a model is unreliable too.
_CONFOUNDED: Final = 0.8
#: Mixture of error sizes, as (share, multiple): some nodes have much larger errors than the others.
_TAILS: Final = ((0.95, 1.0), (0.05, 4.0))
#: Factors between a model's level and the true one: about one in six is outside 1/3 to 3 under the prior.
_FACTORS: Final = np.exp(np.linspace(np.log(0.05), np.log(6.0), 36))
#: Prior probability that a model of effects needs no factor.
_NO_FACTOR: Final = 0.9
#: Share of the error that does not depend on the node's size; the rest grows with the root of the size.
_FLOOR: Final = 0.3
#: Hypotheses with a lower posterior probability are dropped.
_NEGLIGIBLE: Final = 1e-8


@dataclass(frozen=True, eq=False)
class Measurement:
    """Effects measured by an experiment; NaN for nodes without one.

    Attributes
    ----------
    effect, error : float array, shape (n_nodes,)
        Effects and their standard errors; an error of 0 marks a known effect.
    """

    effect: Numbers
    error: Numbers


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Hypotheses about a model's error, their posterior, and the effects of nodes under each.

    Attributes
    ----------
    weight : float array, shape (n_hypotheses,)
        Log of the prior times the likelihood of the experiment.
    factor : float array, shape (n_hypotheses,)
        Factor between the model's level and the true one.
    mean, spread, part : float array, shape (n_hypotheses, n_nodes, n_tails)
        Mixture of normal distributions of each node's effect: means, standard deviations, weights.
    """

    weight: Numbers
    factor: Numbers
    mean: Numbers
    spread: Numbers
    part: Numbers

    @property
    def evidence(self) -> float:
        """Log-likelihood of the experiment under the model."""
        return float(logsumexp(self.weight))


def weigh_hypotheses(
    modelled: Numbers, error: Numbers, measured: Measurement, *, is_scaled: bool
) -> Hypotheses:
    """Weigh hypotheses about a model's error by how well they explain the experiment.

    Parameters
    ----------
    modelled, error : float array, shape (n_nodes,)
        The model's estimates and their standard errors.
    measured : Measurement
        The experiment.
    is_scaled : bool
        Whether only the model's proportions are meaningful.
    """
    factor, size, prior = _hypotheses(is_scaled=is_scaled)
    centre = factor[:, None] * modelled
    # The typical effect is that of nodes that may have one.
    typical = factor * np.abs(modelled[measured.error != 0]).mean()
    own = (1 - _FLOOR) * np.sqrt(np.abs(centre) * typical[:, None]) + _FLOOR * typical[:, None]
    # The error of a control is relative to the typical effect, not to its own credit.
    own = np.where(measured.error == 0, typical[:, None], own)
    shares, widths = (np.array(column) for column in zip(*_TAILS, strict=True))
    wrong = (size[:, None] * own)[:, :, None] ** 2 * widths**2
    variance = wrong + (factor[:, None] * error)[:, :, None] ** 2
    # A model that credits nothing at all has no variance.
    variance = np.maximum(variance, np.finfo(float).tiny)
    has = np.isfinite(measured.effect)[None, :, None]
    effect = np.where(has, measured.effect[None, :, None], centre[:, :, None])
    noise = np.where(has, measured.error[None, :, None], np.inf) ** 2
    likelihood = np.where(
        has, norm.logpdf(effect, centre[:, :, None], np.sqrt(variance + np.where(has, noise, 1.0))), 0.0
    )
    by_tail = np.log(shares) + likelihood
    by_node = logsumexp(by_tail, axis=2)
    trust = variance / (variance + noise)
    mean = centre[:, :, None] + trust * (effect - centre[:, :, None])
    spread = np.sqrt(variance * (1 - trust))
    part = np.exp(by_tail - by_node[:, :, None])
    return Hypotheses(prior + by_node.sum(axis=1), factor, mean, spread, part)


def _hypotheses(*, is_scaled: bool) -> tuple[Numbers, Numbers, Numbers]:
    """Return factor, relative error and log-prior of each hypothesis."""
    level = norm.pdf(np.log(_FACTORS))
    level = level / level.sum()
    is_large = _ERRORS >= _CONFOUNDED
    large = is_large / is_large.sum()
    prior = np.outer(level, large)
    if not is_scaled:
        unscaled = _NO_FACTOR * _LIKELY / _LIKELY.sum()
        prior = np.vstack([(1 - _NO_FACTOR) * prior, unscaled])
    factors = _FACTORS if is_scaled else np.append(_FACTORS, 1.0)
    factor, size = np.meshgrid(factors, _ERRORS, indexing="ij")
    possible = prior.ravel() > 0
    return factor.ravel()[possible], size.ravel()[possible], np.log(prior.ravel()[possible])


@dataclass(frozen=True, eq=False)
class Combined:
    """Posterior of each node's effect.

    Attributes
    ----------
    effect, low, high : float array, shape (n_nodes,)
        Mean and interval.
    factor : float
        Mean factor between the model's level and the true one.
    """

    effect: Numbers
    low: Numbers
    high: Numbers
    factor: float


def combine(models: Sequence[Hypotheses], weights: Sequence[float], *, confidence: float) -> Combined:
    """Average over models and the hypotheses about their errors, by posterior probability.

    Parameters
    ----------
    models : sequence of Hypotheses
        One or more models.
    weights : sequence of float
        Posterior probability of each model; they sum to 1.
    confidence : float
        Level of the interval.
    """
    weight = np.concatenate(
        [share * np.exp(model.weight - model.evidence) for model, share in zip(models, weights, strict=True)]
    )
    kept = weight > _NEGLIGIBLE
    mean, spread, part = (
        np.concatenate([getattr(model, name) for model in models])[kept]
        for name in ("mean", "spread", "part")
    )
    part = part * (weight[kept] / weight[kept].sum())[:, None, None]
    # One row of mixture components per node.
    mean, spread, part = (
        array.transpose(1, 0, 2).reshape(array.shape[1], -1) for array in (mean, spread, part)
    )
    # A known effect has a spread of 0, where the normal distribution function is undefined.
    spread = np.maximum(spread, 1e-12 * spread.max())
    factor = sum(
        share * float(np.exp(model.weight - model.evidence) @ model.factor)
        for model, share in zip(models, weights, strict=True)
    )
    low, high = (_quantile(mean, spread, part, 0.5 + side * confidence / 2) for side in (-1, 1))
    return Combined((part * mean).sum(axis=1), low, high, factor)


def _quantile(mean: Numbers, spread: Numbers, part: Numbers, level: float) -> Numbers:
    """Return a quantile of each row's mixture of normal distributions."""
    below, above = (mean - 9 * spread).min(axis=1), (mean + 9 * spread).max(axis=1)
    for _ in range(60):
        middle = (below + above) / 2
        is_low = (part * ndtr((middle[:, None] - mean) / spread)).sum(axis=1) < level
        below, above = np.where(is_low, middle, below), np.where(is_low, above, middle)
    return np.asarray((below + above) / 2)
