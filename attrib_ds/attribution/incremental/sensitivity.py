"""Sensitivity to unobserved causes: omitted-variable bias, robustness values, benchmarks and E-values."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.arrays import Codes, Numbers
from attrib_ds.attribution.incremental import discrete_hazard, person_periods
from attrib_ds.records.frames import TEXT

#: Partial R2 of observed variables, with exposure and with conversions.
Benchmarks = dict[str, tuple[float, float]]
#: An effect on the log-odds below this is linear to double precision.
_LINEAR: Final = 1e-6
#: Columns of the result, in order; all but ``benchmark`` are numbers.
SENSITIVITY: Final = (
    "robustness_value", "robustness_value_interval", "e_value", "e_value_interval", "benchmark",
    "benchmark_strength", "benchmark_exposure", "benchmark_outcome",
)  # fmt: skip

_TYPES: Final = {name: TEXT if name == "benchmark" else "float64" for name in SENSITIVITY}


def sensitivity_rows(
    fit: discrete_hazard.HazardFit, effects: pd.DataFrame, *, node_ids: Sequence[str], controls: Sequence[str]
) -> pd.DataFrame:
    """Return the columns of :data:`SENSITIVITY` for the effects of a fitted hazard.

    Parameters
    ----------
    fit : HazardFit
        The fitted hazard.
    effects : DataFrame
        Its effects: ``node_id``, ``currency``, ``caused``, ``low``, ``high``.
    node_ids : sequence of str
        Id of each node of the fit.
    controls : sequence of str
        Negative controls, which are benchmarks beside the covariates.
    """
    benchmarks = columns_of_covariates(fit)
    benchmarks |= {node: fit.design.columns_of(node_ids.index(node), has_pairs=False) for node in controls}
    variables = omitted_variables(fit, benchmarks)
    rows = []
    for node_id, currency, *amounts in effects[["node_id", "currency", "caused", "low", "high"]].itertuples(
        index=False
    ):
        place = fit.histories.currencies.index(None if pd.isna(currency) else currency)
        variable = variables.get((node_ids.index(node_id), place))
        rows.append({} if variable is None else _row(*variable, *amounts))
    return pd.DataFrame(rows, columns=list(SENSITIVITY), index=effects.index).astype(_TYPES)


def _row(
    scale: float, exposed: float, observed: Benchmarks, caused: float, low: float, high: float
) -> dict[str, Any]:
    # The bound that is nearer to zero; none is left to explain if the interval holds zero.
    nearest = low if low > 0 else high if high < 0 else 0.0
    strength = abs(caused) / scale
    row: dict[str, Any] = {
        "robustness_value": robustness_value(strength),
        "robustness_value_interval": robustness_value(abs(nearest) / scale),
    }
    if exposed > 0:
        for name, amount in (("e_value", caused), ("e_value_interval", nearest)):
            without = 1 - amount / exposed
            row[name] = e_value(1 / without) if without > 0 else np.inf
    multiples = {name: benchmark_strength(strength, *pair) for name, pair in observed.items()}
    finite = {name: times for name, times in multiples.items() if np.isfinite(times)}
    if finite:
        name = min(finite, key=finite.__getitem__)
        exposure, outcome = observed[name]
        row |= {
            "benchmark": name,
            "benchmark_strength": finite[name],
            "benchmark_exposure": exposure,
            "benchmark_outcome": outcome,
        }
    return row


def robustness_value(strength: float) -> float:
    """Return the partial R2, with exposure and with the outcome alike, that explains an effect away.

    Parameters
    ----------
    strength : float
        Size of the effect relative to the scale of omitted-variable bias: ``|t| / sqrt(df)`` in a linear
        regression, Cohen's partial f of exposure with the outcome.

    References
    ----------
    Cinelli and Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, JRSS-B 82(1),
    39-67, section 4.2.
    """
    square = strength**2
    return float((np.sqrt(square**2 + 4 * square) - square) / 2)


def confounder_r2(times: float, exposure: float, outcome: float) -> tuple[float, float]:
    """Return the largest partial R2 of an unobserved cause some times as strong as an observed variable.

    Parameters
    ----------
    times : float
        How much more of the exposure, and of the outcome, the unobserved cause explains.
    exposure, outcome : float
        Partial R2 of the observed variable with exposure, given the other variables, and with the outcome,
        given exposure too.

    Returns
    -------
    tuple of float
        Partial R2 with exposure and with the outcome, at most 1.

    References
    ----------
    Cinelli and Hazlett (2020), section 4.4, with the exact bound of the package sensemakr.
    """
    of_exposure = times * exposure / (1 - exposure) if exposure < 1 else np.inf
    if of_exposure >= 1 or outcome >= 1:
        return 1.0, 1.0 if outcome > 0 else 0.0
    shared = times * exposure**2 / ((1 - times * exposure) * (1 - exposure))
    if shared >= 1:
        return float(of_exposure), 1.0 if outcome > 0 else 0.0
    factor = (np.sqrt(times) + np.sqrt(shared)) / np.sqrt(1 - shared)
    return float(of_exposure), float(min(1.0, factor**2 * outcome / (1 - outcome)))


def relative_bias(exposure: float, outcome: float) -> float:
    """Return the bias of an omitted variable with these partial R2, in units of the scale of bias."""
    if outcome <= 0 or exposure <= 0:
        return 0.0
    return float(np.sqrt(outcome * exposure / (1 - exposure))) if exposure < 1 else np.inf


def benchmark_strength(strength: float, exposure: float, outcome: float) -> float:
    """Return how many times as strong as an observed variable a cause must be to explain an effect away.

    Infinite if the variable explains nothing of the exposure or nothing of the outcome.
    """
    if exposure <= 0 or outcome <= 0:
        return np.inf
    # At the upper end the cause explains all of the exposure, and bias has no limit.
    low, high = 0.0, (1 - exposure) / exposure
    for _ in range(200):
        middle = (low + high) / 2
        is_enough = relative_bias(*confounder_r2(middle, exposure, outcome)) >= strength
        low, high = (low, middle) if is_enough else (middle, high)
    return high


def e_value(risk_ratio: float) -> float:
    """Return the risk ratio with exposure and with the outcome that explains a risk ratio away.

    References
    ----------
    VanderWeele and Ding (2017), Sensitivity analysis in observational research: introducing the E-value,
    Annals of Internal Medicine 167(4), 268-274.
    """
    above = risk_ratio if risk_ratio >= 1 else 1 / risk_ratio if risk_ratio > 0 else np.inf
    return float(above + np.sqrt(above * (above - 1))) if np.isfinite(above) else np.inf


def columns_of_covariates(fit: discrete_hazard.HazardFit) -> dict[str, Codes]:
    """Return the columns of the design of each covariate that differs between users."""
    columns: dict[str, list[int]] = {}
    # The intercept comes first. A covariate may be constant in a segment of users.
    for place, name in enumerate(fit.histories.covariate_names, start=1):
        if fit.design.plain[:, place].any():
            columns.setdefault(name, []).append(place)
    return {name: np.array(places, np.int64) for name, places in columns.items()}


def omitted_variables(
    fit: discrete_hazard.HazardFit, benchmarks: Mapping[str, Codes]
) -> dict[tuple[int, int], tuple[float, float, Benchmarks]]:
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

    Returns
    -------
    dict
        By node and currency: the scale of bias, conversions after a touchpoint of the node, and the partial
        R2 of the benchmarks. Bias in conversions is at most the scale times the square root of
        ``outcome * exposure / (1 - exposure)``, the partial R2 of the cause with conversions and exposure
        (Cinelli and Hazlett, 2020, equation 7).
    """
    coefficients = fit.coefficients[0]
    information = fit.hessian - np.diag(fit.penalty)
    inverse = discrete_hazard.solved(fit.hessian, np.eye(len(fit.hessian)))
    outcome = {
        name: _outcome_r2(coefficients[columns], inverse[np.ix_(columns, columns)], fit.weight.sum())
        for name, columns in benchmarks.items()
    }
    lost = discrete_hazard.lost_without(fit.cases, coefficients)
    parts = fit.cases.parts(coefficients)
    baseline = 1 - discrete_hazard.probabilities(fit.cases.log_odds(coefficients))
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
            variables[node, currency] = (
                float(np.sqrt(variance * fit.weight.sum())),
                float(amount @ is_touched),
                {
                    name: (_exposure_r2(fit.hessian, columns, direction[columns], others), outcome[name])
                    for name, others in benchmarks.items()
                },
            )
    return variables


def _rows_of(cases: person_periods.Design, columns: Codes) -> Numbers:
    """Return some of the columns of effects, at all cases."""
    begin = cases.plain.shape[1] + cases.stretches
    return np.asarray(cases.columns()[:, columns - begin] / cases.scale[columns - begin])


def _outcome_r2(coefficients: Numbers, covariance: Numbers, periods: float) -> float:
    """Return the partial R2 of columns with the outcome, given all others, from their Wald statistic."""
    if not coefficients.any():
        return 0.0
    statistic = float(coefficients @ discrete_hazard.solved(covariance, coefficients))
    return max(statistic, 0.0) / (max(statistic, 0.0) + periods)


def _exposure_r2(products: Numbers, columns: Codes, direction: Numbers, benchmark: Codes) -> float:
    """Return the partial R2 of columns with exposure in a direction, given all columns of other nodes.

    It is 0 if they are columns of the node itself.
    """
    others = np.setdiff1d(np.arange(len(products), dtype=np.int64), columns)
    without, with_benchmark = (
        _residual(products, columns, direction, given) for given in (np.setdiff1d(others, benchmark), others)
    )
    return float(np.clip(1 - with_benchmark / without, 0.0, 1.0)) if without > 0 else 0.0


def _residual(products: Numbers, columns: Codes, direction: Numbers, given: Codes) -> float:
    """Return the sum of squares of exposure that other columns leave."""
    across = products[np.ix_(given, columns)] @ direction
    total = direction @ products[np.ix_(columns, columns)] @ direction
    return float(total - across @ discrete_hazard.solved(products[np.ix_(given, given)], across))
