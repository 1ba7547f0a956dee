"""Omitted-variable bias of the effects of a discrete hazard, in the regression of its linear predictor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.incremental.discrete_hazard import lost_without
from attrib_ds.attribution.incremental.logistic import probabilities, solved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.design import Design
    from attrib_ds.attribution.incremental.discrete_hazard import HazardFit

    Numbers = NDArray[np.float64]
    Codes = NDArray[np.int64]

#: An effect on the log-odds below this is linear to double precision.
_LINEAR = 1e-6


@dataclass(frozen=True, eq=False)
class OmittedVariable:
    """How an unobserved cause of exposure to a node and of conversions biases the effect of the node.

    Attributes
    ----------
    scale : float
        Bias in conversions is at most this, times the square root of ``outcome * exposure / (1 - exposure)``,
        where these are the partial R2 of the cause with conversions and with exposure (Cinelli and Hazlett,
        2020, equation 7).
    exposed : float
        Conversions after a touchpoint of the node.
    benchmarks : dict
        Partial R2 of observed variables, with exposure and with conversions.
    """

    scale: float
    exposed: float
    benchmarks: dict[str, tuple[float, float]]


def columns_of_covariates(fit: HazardFit) -> dict[str, Codes]:
    """Return the columns of the design of each covariate that differs between users."""
    columns: dict[str, list[int]] = {}
    # The intercept comes first. A covariate may be constant in a segment of users.
    for place, name in enumerate(fit.histories.covariate_names, start=1):
        if fit.design.plain[:, place].any():
            columns.setdefault(name, []).append(place)
    return {name: np.array(places, np.int64) for name, places in columns.items()}


def omitted_variables(
    fit: HazardFit, benchmarks: Mapping[str, Codes]
) -> dict[tuple[int, int], OmittedVariable]:
    """Return the bias of an omitted variable for each node and currency with an effect.

    At the maximum of the likelihood, a logistic regression is a least-squares regression of a working
    response, with weights and residuals of variance 1 (iteratively reweighted least squares). Its formulas of
    omitted-variable bias hold as far as an omitted variable leaves weights and response unchanged: if
    conversions in a period are rare, and its effect is moderate. The effect of a node is the sum, over
    conversions, of the share that is lost without it: a weighted sum of its parts of the linear predictor,
    with weights that are held fixed. So it is a linear combination of the node's coefficients.

    Parameters
    ----------
    fit : HazardFit
        The fitted hazard.
    benchmarks : mapping
        Columns of the design of each observed variable.
    """
    coefficients = fit.coefficients[0]
    information = fit.hessian - np.diag(fit.penalty)
    inverse = solved(fit.hessian, np.eye(len(fit.hessian)))
    outcome = {
        name: _outcome_r2(coefficients[columns], inverse[np.ix_(columns, columns)], fit.weight.sum())
        for name, columns in benchmarks.items()
    }
    lost = lost_without(fit.cases, coefficients)
    parts = fit.cases.parts(coefficients)
    baseline = 1 - probabilities(fit.cases.log_odds(coefficients))
    variables = {}
    for node in range(lost.shape[1]):
        columns = fit.design.columns_of(node)
        is_touched = (fit.cases.effects[:, node] > 0).any(axis=1)
        is_linear = np.abs(parts[:, node]) < _LINEAR
        per_log_odds = np.where(is_linear, baseline, lost[:, node] / np.where(is_linear, 1.0, parts[:, node]))
        rows = _rows_of(fit.cases, columns)
        for currency in range(len(fit.histories.currencies)):
            amount = fit.histories.conversions * (fit.histories.event_currency == currency)
            functional = (amount * per_log_odds) @ rows
            direction = inverse[:, columns] @ functional
            variance = float(direction @ information @ direction)
            if variance <= 0:
                continue
            variables[node, currency] = OmittedVariable(
                float(np.sqrt(variance * fit.weight.sum())),
                float(amount @ is_touched),
                {
                    name: (_exposure_r2(fit.hessian, columns, direction[columns], others), outcome[name])
                    for name, others in benchmarks.items()
                },
            )
    return variables


def _rows_of(cases: Design, columns: Codes) -> Numbers:
    """Return some of the columns of effects, at all cases."""
    begin = cases.plain.shape[1] + cases.stretches
    return np.asarray(cases.columns()[:, columns - begin] / cases.scale[columns - begin])


def _outcome_r2(coefficients: Numbers, covariance: Numbers, periods: float) -> float:
    """Return the partial R2 of columns with the outcome, given all others, from their Wald statistic."""
    if not coefficients.any():
        return 0.0
    statistic = float(coefficients @ solved(covariance, coefficients))
    return max(statistic, 0.0) / (max(statistic, 0.0) + periods)


def _exposure_r2(products: Numbers, columns: Codes, direction: Numbers, benchmark: Codes) -> float:
    """Return the partial R2 of columns with exposure in a direction, given all columns of other nodes.

    It is 0 if they are columns of the node itself.
    """
    others = np.setdiff1d(np.arange(len(products)), columns)
    without, with_benchmark = (
        _residual(products, columns, direction, given) for given in (np.setdiff1d(others, benchmark), others)
    )
    return float(np.clip(1 - with_benchmark / without, 0.0, 1.0)) if without > 0 else 0.0


def _residual(products: Numbers, columns: Codes, direction: Numbers, given: Codes) -> float:
    """Return the sum of squares of exposure that other columns leave."""
    across = products[np.ix_(given, columns)] @ direction
    total = direction @ products[np.ix_(columns, columns)] @ direction
    return float(total - across @ solved(products[np.ix_(given, given)], across))
