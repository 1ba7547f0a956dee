"""Sensitivity of effects to unobserved causes: robustness values, benchmarks and E-values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.experiments.observed_share import scale_levels
from attrib_ds.attribution.incremental.omitted_variables import columns_of_covariates, omitted_variables
from attrib_ds.records.frames import TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.attribution.incremental.discrete_hazard import HazardFit

#: Columns of the result, in order; all but ``benchmark`` are numbers.
SENSITIVITY: Final = (
    "robustness_value",
    "robustness_value_interval",
    "e_value",
    "e_value_interval",
    "benchmark",
    "benchmark_strength",
    "benchmark_exposure",
    "benchmark_outcome",
)

_TYPES: Final = {name: TEXT if name == "benchmark" else "float64" for name in SENSITIVITY}


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


def sensitivity_rows(
    fit: HazardFit,
    effects: pd.DataFrame,
    *,
    node_ids: Sequence[str],
    controls: Sequence[str],
    observed_share: tuple[float, float] = (1.0, 0.0),
    confidence: float = 0.95,
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
    observed_share : (float, float)
        Share of users observed, whose error widens the bounds, and this error.
    confidence : float
        Level of the bounds.
    """
    share = observed_share[0]
    scaled = scale_levels(effects, observed_share, [("caused", "low", "high")], confidence=confidence)
    benchmarks = columns_of_covariates(fit)
    benchmarks |= {node: fit.design.columns_of(node_ids.index(node), has_pairs=False) for node in controls}
    variables = omitted_variables(fit, benchmarks)
    currencies = {
        None if currency is None else str(currency): place
        for place, currency in enumerate(fit.histories.currencies)
    }
    rows = []
    for node_id, currency, *amounts in zip(
        effects["node_id"].tolist(),
        effects["currency"].tolist(),
        *((scaled[name] * share).tolist() for name in ("caused", "low", "high")),
        strict=True,
    ):
        place = currencies.get(None if pd.isna(currency) else currency)
        node = node_ids.index(node_id) if node_id in node_ids else None
        variable = None if node is None or place is None else variables.get((node, place))
        rows.append(_row(variable, *amounts))
    return pd.DataFrame(rows, columns=list(SENSITIVITY), index=effects.index).astype(_TYPES)


def empty_sensitivity() -> pd.DataFrame:
    """Return the columns of :data:`SENSITIVITY` without rows."""
    return pd.DataFrame(columns=list(SENSITIVITY)).astype(_TYPES)


def _row(variable: Any, caused: float, low: float, high: float) -> dict[str, Any]:
    if variable is None:
        return {}
    # The bound that is nearer to zero; none is left to explain if the interval holds zero.
    nearest = low if low > 0 else high if high < 0 else 0.0
    strength = abs(caused) / variable.scale
    row: dict[str, Any] = {
        "robustness_value": robustness_value(strength),
        "robustness_value_interval": robustness_value(abs(nearest) / variable.scale),
    }
    if variable.exposed > 0:
        for name, amount in (("e_value", caused), ("e_value_interval", nearest)):
            without = 1 - amount / variable.exposed
            row[name] = e_value(1 / without) if without > 0 else np.inf
    multiples = {name: benchmark_strength(strength, *pair) for name, pair in variable.benchmarks.items()}
    finite = {name: times for name, times in multiples.items() if np.isfinite(times)}
    if finite:
        name = min(finite, key=finite.__getitem__)
        exposure, outcome = variable.benchmarks[name]
        row |= {
            "benchmark": name,
            "benchmark_strength": finite[name],
            "benchmark_exposure": exposure,
            "benchmark_outcome": outcome,
        }
    return row
