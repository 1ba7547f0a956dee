"""Maximum a posteriori fit of the hidden Markov model, and posterior draws by a Laplace approximation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import Bounds, minimize
from scipy.special import ndtr, ndtri

from attrib_ds.attribution.incremental.latent_intent.forward_backward import (
    Gradient,
    Rates,
    likelihood_gradient,
    softmax,
)
from attrib_ds.attribution.incremental.latent_intent.parameters import (
    EFFECTS,
    PATTERN_PARAMETERS,
    Parameters,
    initial_parameters,
)
from attrib_ds.display import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.prefix_tree import PrefixTree

    Numbers = NDArray[np.float64]

#: Corrections that L-BFGS-B keeps to approximate the Hessian.
_CORRECTIONS: Final = 100
#: Precision of the normal priors around the initial parameters.
_PRECISION: Final = {
    "start": 2.0,
    "upward": 2.0,
    "downward": 0.5,
    "touch": 2.0,
    "emission": 0.5,
    "recent": 0.5,
    "pattern": 5.0,
    "touch_covariates": 1.0,
    "conversion": 2.0,
    "conversion_intent": 0.5,
    "conversion_covariates": 1.0,
}
#: Pseudo-users per degree of activity, a Dirichlet prior of the shares.
_SHARE_PRIOR: Final = 2.0
#: Least curvature relative to the complete-data information; less is noise of single precision.
_LEAST_CURVATURE: Final = 1e-4
#: Gibbs sweeps before the first draw, and between draws.
_BURN_IN: Final = 200
_THINNING: Final = 30
#: Largest deviation of a log-parameter from the estimate, beyond which the approximation is poor.
_LARGEST_CHANGE: Final = 1.0
#: Standard deviations beyond which the tail of the normal distribution is as good as exponential.
_TAIL: Final = 5.0


@dataclass(frozen=True, eq=False)
class Fit:
    """Maximum a posteriori estimate.

    Attributes
    ----------
    parameters : Parameters
        The estimate.
    value : float
        Log-posterior there, up to a constant.
    evaluations : int
        Number of forward-backward passes.
    """

    parameters: Parameters
    value: float
    evaluations: int


def fit(
    rounds: Iterable[tuple[PrefixTree, int]],
    classes: Numbers,
    *,
    intents: int,
    shrinkage: float,
    tolerance: float,
    advance: Callable[[int], None],
) -> Fit:
    """Fit the model in rounds of growing samples, each starting where the last one ended.

    Parameters
    ----------
    rounds : iterable of (PrefixTree, int)
        Sample of each round, and its maximum number of evaluations; all have the same nodes.
    classes : float array, shape (n_classes, 3)
        From :func:`~attrib_ds.attribution.incremental.latent_intent.parameters.class_grid`.
    intents : int
        Number of intents.
    shrinkage : float
        Rate of the exponential prior of effects, in conversions (or transitions).
    tolerance : float
        A round ends when a step improves the objective by less than this part.
    advance : callable
        Called with the number of evaluations made since the last call.

    Returns
    -------
    Fit
        Result of the last round.
    """
    found: Fit | None = None
    for tree, evaluations in rounds:
        centre = initial_parameters(tree, classes, intents=intents)
        objective = Objective(tree, classes, centre, shrinkage)
        begin = centre if found is None else found.parameters
        found = maximise(objective, begin, evaluations=evaluations, tolerance=tolerance, advance=advance)
    if found is None:
        raise ValueError("rounds is empty")
    return found


def maximise(
    objective: Objective,
    begin: Parameters,
    *,
    evaluations: int,
    tolerance: float,
    advance: Callable[[int], None] = lambda _: None,
) -> Fit:
    """Maximise the objective by L-BFGS-B in scaled parameters."""
    _, _, information = objective.with_information(begin)
    scale = np.sqrt(information)
    lowest = np.where(begin.mask(EFFECTS), 0.0, -np.inf)

    def loss(scaled: Numbers) -> tuple[float, Numbers]:
        value, slope = objective(begin.unflatten(scaled / scale))
        advance(1)
        return -value, -slope / scale

    best = minimize(
        loss,
        begin.flatten() * scale,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(lowest),
        options={
            "maxfun": evaluations,
            "maxiter": evaluations,
            "maxcor": _CORRECTIONS,
            "ftol": tolerance,
            "gtol": 0.0,
        },
    )
    return Fit(begin.unflatten(best.x / scale), -float(best.fun), int(best.nfev))


@dataclass(frozen=True, eq=False)
class Objective:
    """Log-posterior of the parameters, and its gradient."""

    tree: PrefixTree
    classes: Numbers
    centre: Parameters
    shrinkage: float

    def __call__(self, given: Parameters) -> tuple[float, Numbers]:
        """Return value and gradient."""
        _, _, value, slope = self._at(given)
        return value, slope

    def with_information(self, given: Parameters) -> tuple[float, Numbers, Numbers]:
        """Return value, gradient and the diagonal of the complete-data information."""
        rates, gradient, value, slope = self._at(given, has_information=True)
        return value, slope, self._information(rates, gradient).flatten()

    def _at(
        self, given: Parameters, *, has_information: bool = False
    ) -> tuple[Rates, Gradient, float, Numbers]:
        rates = Rates(given, self.classes, self.tree)
        gradient = likelihood_gradient(rates, has_information=has_information)
        prior, prior_gradient = self._prior(given)
        slope = self._parameter_gradient(rates, gradient).flatten() + prior_gradient.flatten()
        return rates, gradient, gradient.log_likelihood + prior, slope

    def _of_pairs(self, matrix: Numbers) -> Numbers:
        pairs = self.tree.pairs
        return np.asarray(matrix[pairs[:, 0], pairs[:, 1]])

    def _parameter_gradient(self, rates: Rates, gradient: Gradient) -> Parameters:
        intents, classes = rates.shape
        given, users = rates.parameters, gradient.start.sum()
        touch = gradient.touch.reshape(-1, intents, classes)
        activities = gradient.start.sum(axis=0).reshape(len(given.share), -1).sum(axis=1)
        return Parameters(
            share=activities - users * softmax(given.share),
            start=(gradient.start - gradient.start.sum(axis=0) * rates.start) @ self.classes,
            upward=gradient.upward @ self.classes,
            downward=gradient.downward,
            touch=touch[:-1].sum(axis=1) @ self.classes,
            emission=touch[:-1].sum(axis=2),
            recent=gradient.pattern @ self.tree.patterns,
            pattern=gradient.pattern,
            touch_covariates=gradient.covariates[:-1],
            conversion=touch[-1].sum(axis=0) @ self.classes,
            conversion_intent=touch[-1].sum(axis=1),
            conversion_covariates=gradient.covariates[-1],
            direct=gradient.direct,
            transition=gradient.transition,
            interaction=self._of_pairs(gradient.interaction),
        )

    def _information(self, rates: Rates, gradient: Gradient) -> Parameters:
        intents, classes = rates.shape
        squares, given = self.classes**2, rates.parameters
        activity, counts = softmax(given.share), gradient.counts.reshape(-1, intents, classes)
        often = counts.sum(axis=(1, 2))
        information = {
            "share": gradient.start.sum() * activity * (1 - activity),
            "start": (gradient.start.sum(axis=0) * rates.start * (1 - rates.start)) @ squares,
            "upward": gradient.upward_steps @ squares,
            "downward": gradient.downward_steps,
            "touch": counts[:-1].sum(axis=1) @ squares,
            "emission": counts[:-1].sum(axis=2),
            "recent": gradient.pattern_counts @ self.tree.patterns**2,
            "pattern": gradient.pattern_counts,
            "touch_covariates": np.ones(given.touch_covariates.shape) * often[:-1, None],
            "conversion": counts[-1].sum(axis=0) @ squares,
            "conversion_intent": counts[-1].sum(axis=1),
            "conversion_covariates": np.full(given.conversion_covariates.shape, often[-1]),
            "direct": gradient.direct_information,
            "transition": gradient.transition_information,
            "interaction": self._of_pairs(gradient.interaction_information),
        }
        return Parameters(**{name: value + 3.0 for name, value in information.items()})

    def _prior(self, given: Parameters) -> tuple[float, Parameters]:
        """Return the log-prior and its gradient: exponential for effects, normal for most others."""
        share = softmax(given.share)
        value = _SHARE_PRIOR * np.log(share).sum()
        found = {"share": _SHARE_PRIOR * (1 - share.size * share)}
        for name, precision in _PRECISION.items():
            deviation = getattr(given, name) - getattr(self.centre, name)
            value -= precision / 2 * (deviation**2).sum()
            found[name] = -precision * deviation
        for name in EFFECTS:
            effects = getattr(given, name)
            value -= self.shrinkage * effects.sum()
            found[name] = np.full(effects.shape, -self.shrinkage)
        return float(value), Parameters(**found)


def draw_posterior(objective: Objective, best: Parameters, *, draws: int, seed: int) -> Iterator[Parameters]:
    """Draw parameters from a Laplace approximation of the posterior, with effects truncated at zero.

    All other parameters take their conditional mode given the effects.

    Parameters
    ----------
    objective : Objective
        Log-posterior; its Hessian, by differences of gradients, gives the precision. Parameters of patterns
        of recent touchpoints stay fixed.
    best : Parameters
        Mode of the posterior.
    draws : int
        Number of draws.
    seed : int
        Seed of the draws.
    """
    row, effects = best.flatten(), best.mask(EFFECTS)
    varying = np.flatnonzero(~best.mask(PATTERN_PARAMETERS))
    precision, slope = _hessian(objective, best, varying)
    is_effect = effects[varying]
    # Away from its bound a parameter's gradient is zero at the mode, up to the tolerance of the search.
    slope = np.where(is_effect & (row[varying] <= 0), np.minimum(slope, 0.0), 0.0)[is_effect]
    others = precision[np.ix_(~is_effect, ~is_effect)]
    across = np.linalg.solve(others, precision[np.ix_(~is_effect, is_effect)])
    marginal = precision[np.ix_(is_effect, is_effect)] - precision[np.ix_(is_effect, ~is_effect)] @ across
    marginal = _positive_definite(marginal, np.sqrt(np.diag(precision)[is_effect]))
    random = np.random.default_rng(seed)
    at = row[varying][is_effect]
    for deviation in truncated_normals(at, slope, marginal, draws=draws, random=random):
        moved = row.copy()
        moved[varying[is_effect]] = at + deviation
        moved[varying[~is_effect]] -= np.clip(across @ deviation, -_LARGEST_CHANGE, _LARGEST_CHANGE)
        yield best.unflatten(moved)


def _positive_definite(precision: Numbers, scale: Numbers) -> Numbers:
    """Return a precision matrix whose curvature, which differences of large numbers may lose, is positive."""
    scales = np.outer(scale, scale)
    values, vectors = np.linalg.eigh((precision + precision.T) / 2 / scales)
    if not len(values) or values[0] >= _LEAST_CURVATURE:
        return precision
    return np.asarray((vectors * np.maximum(values, _LEAST_CURVATURE)) @ vectors.T * scales)


def truncated_normals(
    at: Numbers, slope: Numbers, precision: Numbers, *, draws: int, random: np.random.Generator
) -> Iterator[Numbers]:
    """Draw from a multivariate normal distribution truncated to values of at least zero, by Gibbs sampling.

    Parameters
    ----------
    at : float array, shape (n,)
        Point at which ``slope`` is given.
    slope : float array, shape (n,)
        Gradient of the log-density at that point.
    precision : float array, shape (n, n)
        Precision matrix.
    draws : int
        Number of draws.
    random : Generator
        Source of randomness.

    Yields
    ------
    float array, shape (n,)
        Difference of a draw to ``at``.
    """
    deviation = np.zeros(len(at))
    for draw in range(draws):
        for _ in range(_THINNING if draw else _BURN_IN):
            # One dimension at a time given the others, where truncation is simple.
            for place, uniform in enumerate(random.random(len(at))):
                curvature = precision[place, place]
                mean = deviation[place] + (slope[place] - precision[place] @ deviation) / curvature
                spread = 1 / np.sqrt(curvature)
                lowest = (-at[place] - mean) / spread
                if lowest > _TAIL:
                    drawn = lowest - np.log1p(-uniform) / lowest
                else:
                    drawn = -ndtri((1 - uniform) * ndtr(-lowest))
                deviation[place] = max(mean + spread * drawn, -at[place])
        yield deviation.copy()


def _hessian(objective: Objective, best: Parameters, varying: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """Return the negative Hessian and the gradient with respect to the parameters that vary."""
    row = best.flatten()
    _, slope, information = objective.with_information(best)
    scale = np.sqrt(information[varying])
    found = np.zeros((len(varying), len(varying)))
    with progress("parameters", len(varying), name="latent intent, curvature") as advance:
        for place, position in enumerate(varying):
            ends = []
            for sign in (1, -1):
                moved = row.copy()
                moved[position] += sign / scale[place]
                ends.append(objective(best.unflatten(moved))[1][varying])
            found[place] = (ends[1] - ends[0]) / 2 / scale
            advance(1)
    values, vectors = np.linalg.eigh((found + found.T) / 2)
    curvature = (vectors * np.maximum(values, _LEAST_CURVATURE)) @ vectors.T
    return curvature * np.outer(scale, scale), slope[varying]
