"""What an experiment and a model together say of each node, over all sizes of the model's error."""

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

#: Sizes that a model's error may have, as a share of a node's size, and how likely each is beforehand of a
#: model of effects: as a rule such a model is either nearly right or confounded.
_ERRORS: Final = np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
_LIKELY: Final = np.array([8.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0])
#: From here on an error is so large that not even a model's level is to be believed.
_CONFOUNDED: Final = 0.8
#: Now and then one node's error is many times that of the others.
_TAILS: Final = ((0.95, 1.0), (0.05, 4.0))
#: Factors that may bring a model to its level: about one in six is beyond a third, or three times, of it.
_FACTORS: Final = np.exp(np.linspace(np.log(0.05), np.log(6.0), 36))
#: How likely it is beforehand that a model of effects needs no factor.
_AS_IT_IS: Final = 0.9
#: Share of an error that a node of any size has; the rest grows with the root of the node's size.
_FLOOR: Final = 0.3
#: Explanations less likely than this, of all, are left out.
_NEGLIGIBLE: Final = 1e-8


@dataclass(frozen=True, eq=False)
class Measurement:
    """What an experiment found; NaN for nodes without one.

    Attributes
    ----------
    effect, error : float array, shape (n_nodes,)
        With standard errors; an error of 0 is a node whose effect is known.
    """

    effect: Numbers
    error: Numbers


@dataclass(frozen=True, eq=False)
class Explanations:
    """All ways in which a model can be wrong, how likely each is, and what each says of the nodes.

    Attributes
    ----------
    weight : float array, shape (n_ways,)
        Logarithm of the prior's and the evidence's product.
    factor : float array of the same shape
        What brings the model to its level.
    mean, spread, part : float array, shape (n_ways, n_nodes, n_tails)
        Normal distributions of each node's effect, and how likely each is within its way.
    """

    weight: Numbers
    factor: Numbers
    mean: Numbers
    spread: Numbers
    part: Numbers

    @property
    def evidence(self) -> float:
        """Logarithm of the likelihood of the experiment under the model."""
        return float(logsumexp(self.weight))


def explain(modelled: Numbers, error: Numbers, measured: Measurement, *, is_scaled: bool) -> Explanations:
    """Go through the ways in which a model can be wrong.

    Parameters
    ----------
    modelled, error : float array, shape (n_nodes,)
        The model's numbers and their sampling errors.
    measured : Measured
        The experiment.
    is_scaled : bool
        Whether only the model's proportions mean anything.
    """
    factor, size, prior = _ways(is_scaled=is_scaled)
    centre = factor[:, None] * modelled
    # Nodes without any effect say nothing of how large effects are.
    typical = factor * np.abs(modelled[measured.error != 0]).mean()
    own = (1 - _FLOOR) * np.sqrt(np.abs(centre) * typical[:, None]) + _FLOOR * typical[:, None]
    # A control stands for any node: by its size, not by that of its credit, it says how wrong a model may be.
    own = np.where(measured.error == 0, typical[:, None], own)
    shares, widths = (np.array(each) for each in zip(*_TAILS, strict=True))
    wrong = (size[:, None] * own)[:, :, None] ** 2 * widths**2
    variance = wrong + (factor[:, None] * error)[:, :, None] ** 2
    # A model that says nothing at all leaves a variance of nothing.
    variance = np.maximum(variance, np.finfo(float).tiny)
    has = np.isfinite(measured.effect)[None, :, None]
    found = np.where(has, measured.effect[None, :, None], centre[:, :, None])
    noise = np.where(has, measured.error[None, :, None], np.inf) ** 2
    surprise = np.where(
        has, norm.logpdf(found, centre[:, :, None], np.sqrt(variance + np.where(has, noise, 1.0))), 0.0
    )
    by_tail = np.log(shares) + surprise
    by_node = logsumexp(by_tail, axis=2)
    trust = variance / (variance + noise)
    mean = centre[:, :, None] + trust * (found - centre[:, :, None])
    spread = np.sqrt(variance * (1 - trust))
    part = np.exp(by_tail - by_node[:, :, None])
    return Explanations(prior + by_node.sum(axis=1), factor, mean, spread, part)


def _ways(*, is_scaled: bool) -> tuple[Numbers, Numbers, Numbers]:
    """Return factor, size of error and the prior's logarithm of each way."""
    level = norm.pdf(np.log(_FACTORS))
    level = level / level.sum()
    is_large = _ERRORS >= _CONFOUNDED
    large = is_large / is_large.sum()
    prior = np.outer(level, large)
    if not is_scaled:
        as_it_is = _AS_IT_IS * _LIKELY / _LIKELY.sum()
        prior = np.vstack([(1 - _AS_IT_IS) * prior, as_it_is])
    factors = _FACTORS if is_scaled else np.append(_FACTORS, 1.0)
    factor, size = np.meshgrid(factors, _ERRORS, indexing="ij")
    possible = prior.ravel() > 0
    return factor.ravel()[possible], size.ravel()[possible], np.log(prior.ravel()[possible])


@dataclass(frozen=True, eq=False)
class Combined:
    """Each node's effect after everything.

    Attributes
    ----------
    effect, low, high : float array, shape (n_nodes,)
        Mean and interval.
    factor : float
        Mean of the factors that bring the model to its level.
    """

    effect: Numbers
    low: Numbers
    high: Numbers
    factor: float


def combined(models: Sequence[Explanations], weights: Sequence[float], *, confidence: float) -> Combined:
    """Average over models, by how likely each is afterwards, and over the ways each can be wrong.

    Parameters
    ----------
    models : sequence of Explanations
        One or more.
    weights : sequence of float
        How likely each model is after the experiment; they add up to 1.
    confidence : float
        Level of the interval.
    """
    weight = np.concatenate(
        [share * np.exp(each.weight - each.evidence) for each, share in zip(models, weights, strict=True)]
    )
    kept = weight > _NEGLIGIBLE
    mean, spread, part = (
        np.concatenate([getattr(each, name) for each in models])[kept] for name in ("mean", "spread", "part")
    )
    part = part * (weight[kept] / weight[kept].sum())[:, None, None]
    # Nodes first, so that each has one long list of normal distributions.
    mean, spread, part = (each.transpose(1, 0, 2).reshape(each.shape[1], -1) for each in (mean, spread, part))
    # A known effect has no spread, and its distribution function a step there.
    spread = np.maximum(spread, 1e-12 * spread.max())
    factor = sum(
        share * float(np.exp(each.weight - each.evidence) @ each.factor)
        for each, share in zip(models, weights, strict=True)
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
