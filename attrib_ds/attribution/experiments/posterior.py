"""Posterior of each node's effect, given models and an experiment.

A model of effects is about right, or has no vote: then effects vary around a common mean, whatever it says,
or around its proportions if its controls have shown that its level is wrong.
"""

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

#: Errors of a model that is about right, relative to its mean effect; their prior is half-Cauchy.
_ERRORS: Final = 0.8 * 2.0 ** np.arange(-5.0, 1.0)
_HALF_CAUCHY: Final = 0.05
#: Relative errors of a model without a vote, and of proportions; one is as likely as another.
_WIDE: Final = np.array([0.8, 1.6, 3.2])
#: Relative errors of the proportions of a model that is confounded; one is as likely as another.
_CONFOUNDED: Final = np.array([0.4, 0.8, 1.6])
#: Relative spreads of effects around their common mean; one is as likely as another.
_SPREADS: Final = np.array([0.4, 0.8, 1.6, 3.2])
#: Factors between a model's level and the true one: about one in six is outside 1/3 to 3 under the prior.
_FACTORS: Final = np.exp(np.linspace(np.log(0.05), np.log(6.0), 36))
_LEVEL: Final = norm.pdf(np.log(_FACTORS)) / norm.pdf(np.log(_FACTORS)).sum()
#: Prior probability that a model of effects that is about right needs no factor.
_NO_FACTOR: Final = 0.9
#: The mean effect without a model is sought up to this multiple of the model's.
_REACH: Final = 10.0
#: Hypotheses with a lower posterior probability are dropped.
_NEGLIGIBLE: Final = 1e-8
#: Least standard deviation: that of a model that credits nothing at all.
_TINY: Final = float(np.sqrt(np.finfo(float).tiny))


@dataclass(frozen=True, eq=False)
class Measurement:
    """Effects measured by an experiment; NaN for nodes without one.

    Attributes
    ----------
    effect, error : float array, shape (n_nodes,)
        Effects and their standard errors.
    """

    effect: Numbers
    error: Numbers


@dataclass(frozen=True, eq=False)
class Controls:
    """Credits of negative controls under a model; none for a model that makes no statement about them.

    Attributes
    ----------
    credited, error : float array, shape (n_controls,)
        Credits and their standard errors.
    """

    credited: Numbers
    error: Numbers

    def likelihood(self, spread: Numbers) -> Numbers:
        """Return the log-likelihood of the credits for each standard deviation of the model's errors."""
        total = np.sqrt(spread[:, None] ** 2 + self.error**2)
        return np.asarray(norm.logpdf(self.credited, 0.0, np.maximum(total, _TINY)).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Hypotheses about errors, their posterior, and the effects of nodes under each.

    Attributes
    ----------
    weight : float array, shape (n_hypotheses,)
        Log of the prior times the likelihood of the experiment and of the controls.
    factor : float array, shape (n_hypotheses,)
        Factor between the model's level and the true one.
    mean, spread : float array, shape (n_hypotheses, n_nodes)
        Mean and standard deviation of each node's effect.
    """

    weight: Numbers
    factor: Numbers
    mean: Numbers
    spread: Numbers

    @property
    def evidence(self) -> float:
        """Log-likelihood of the experiment, and of the controls relative to a model without a vote."""
        return float(logsumexp(self.weight))


def weigh_model(
    modelled: Numbers, error: Numbers, measured: Measurement, controls: Controls | None = None
) -> Hypotheses:
    """Weigh the errors of a model of effects that is about right.

    Parameters
    ----------
    modelled, error : float array, shape (n_nodes,)
        The model's estimates and their standard errors, without controls.
    measured : Measurement
        The experiment.
    controls : Controls, optional
        What the model credits controls with.
    """
    likely = (_ERRORS / _HALF_CAUCHY) / (1 + (_ERRORS / _HALF_CAUCHY) ** 2)
    factors = np.append(_FACTORS, 1.0)
    prior = np.outer(np.append((1 - _NO_FACTOR) * _LEVEL, _NO_FACTOR), likely / likely.sum())
    found = _weigh(modelled, error, measured, factors, _ERRORS, prior)
    if controls is None or not len(controls.credited):
        return found
    typical = float(np.abs(modelled).mean())
    # Relative to the same credits under a model without a vote, whose errors are wide.
    without = logsumexp(controls.likelihood(_WIDE * typical)) - np.log(len(_WIDE))
    gain = np.tile(controls.likelihood(_ERRORS * typical) - without, len(factors))
    return Hypotheses(found.weight + gain, found.factor, found.mean, found.spread)


def weigh_proportions(
    modelled: Numbers, error: Numbers, measured: Measurement, *, is_confounded: bool = False
) -> Hypotheses:
    """Weigh levels and errors of a model of which only the proportions may be meaningful."""
    return _weigh_levels(modelled, error, measured, _CONFOUNDED if is_confounded else _WIDE)


def weigh_common_mean(typical: float, measured: Measurement) -> Hypotheses:
    """Weigh means and spreads of effects without a model: the nodes are exchangeable.

    Parameters
    ----------
    typical : float
        Order of magnitude of effects, such as a model's mean.
    measured : Measurement
        The experiment.
    """
    # Models may be silent, or too small by orders of magnitude.
    found = np.abs(measured.effect[np.isfinite(measured.effect)])
    if len(found):
        typical = max(typical, float(found.mean()) / _REACH)
    equal = np.full(len(measured.effect), typical)
    return _weigh_levels(equal, np.zeros(len(equal)), measured, _SPREADS)


def _weigh_levels(modelled: Numbers, error: Numbers, measured: Measurement, errors: Numbers) -> Hypotheses:
    """Weigh every level with every relative error."""
    prior = np.outer(_LEVEL, np.full(len(errors), 1 / len(errors)))
    return _weigh(modelled, error, measured, _FACTORS, errors, prior)


def _weigh(
    modelled: Numbers,
    error: Numbers,
    measured: Measurement,
    factors: Numbers,
    errors: Numbers,
    prior: Numbers,
) -> Hypotheses:
    """Weigh every pair of a factor and a relative error."""
    factor, size = (array.ravel() for array in np.meshgrid(factors, errors, indexing="ij"))
    centre = factor[:, None] * modelled
    wrong = factor * size * np.abs(modelled).mean()
    variance = wrong[:, None] ** 2 + (factor[:, None] * error) ** 2
    variance = np.maximum(variance, _TINY**2)
    has = np.isfinite(measured.effect)
    effect = np.where(has, measured.effect, 0.0)
    noise = np.where(has, measured.error, 1.0) ** 2
    likelihood = np.where(has, norm.logpdf(effect, centre, np.sqrt(variance + noise)), 0.0)
    trust = np.where(has, variance / (variance + noise), 0.0)
    mean = centre + trust * (effect - centre)
    spread = np.sqrt(variance * (1 - trust))
    return Hypotheses(np.log(prior.ravel()) + likelihood.sum(axis=1), factor, mean, spread)


@dataclass(frozen=True, eq=False)
class Combined:
    """Posterior of each node's effect.

    Attributes
    ----------
    effect, low, high : float array, shape (n_nodes,)
        Mean and interval.
    """

    effect: Numbers
    low: Numbers
    high: Numbers


def posterior_shares(alternatives: Sequence[Hypotheses], odds: Sequence[float]) -> Numbers:
    """Return the posterior probabilities of alternatives with the given prior odds."""
    weight = np.log(np.asarray(odds)) + [found.evidence for found in alternatives]
    return np.asarray(np.exp(weight - logsumexp(weight)))


def combine(
    alternatives: Sequence[Hypotheses], shares: Sequence[float] | Numbers, *, confidence: float
) -> Combined:
    """Average over alternatives and the hypotheses about their errors, by posterior probability.

    Parameters
    ----------
    alternatives : sequence of Hypotheses
        One or more models, or none.
    shares : sequence of float
        Posterior probability of each; they sum to 1.
    confidence : float
        Level of the interval.
    """
    weight = np.concatenate(
        [
            share * np.exp(found.weight - found.evidence)
            for found, share in zip(alternatives, shares, strict=True)
        ]
    )
    kept = weight > _NEGLIGIBLE
    mean, spread = (
        np.concatenate([getattr(found, name) for found in alternatives])[kept].T
        for name in ("mean", "spread")
    )
    weight = weight[kept] / weight[kept].sum()
    low, high = (_quantile(mean, spread, weight, 0.5 + side * confidence / 2) for side in (-1, 1))
    return Combined(mean @ weight, low, high)


def mean_factor(found: Hypotheses) -> float:
    """Return the posterior mean of the factor between a model's level and the true one."""
    return float(np.exp(found.weight - found.evidence) @ found.factor)


def _quantile(mean: Numbers, spread: Numbers, weight: Numbers, level: float) -> Numbers:
    """Return a quantile of each node's mixture of normal distributions."""
    below, above = (mean - 9 * spread).min(axis=1), (mean + 9 * spread).max(axis=1)
    for _ in range(60):
        middle = (below + above) / 2
        is_low = ndtr((middle[:, None] - mean) / spread) @ weight < level
        below, above = np.where(is_low, middle, below), np.where(is_low, above, middle)
    return np.asarray((below + above) / 2)
