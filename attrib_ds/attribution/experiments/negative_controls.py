"""Negative controls: detect confounded models by the credit of nodes known to have no effect."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import f as fisher

from attrib_ds.attribution.intervals.tally import GROUPS
from attrib_ds.errors import ConfoundingWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

#: Credit of controls, relative to the other nodes, above which a model may count as confounded.
_MIN_SHARE: Final = 0.03
#: Significance level of the test.
_SIGNIFICANCE: Final = 0.001


def is_confounded(credited: Numbers, error: Numbers, is_control: NDArray[np.bool_], *, total: float) -> bool:
    """Return whether controls earn more credit than sampling error explains, and a relevant share.

    Parameters
    ----------
    credited, error : float array, shape (n_nodes,)
        Credits under a model of effects, and their jackknife standard errors.
    is_control : bool array, shape (n_nodes,)
        Nodes known to have no effect.
    total : float
        Number of conversions, which bounds the credit of the other nodes: a failed fit may exceed it.
    """
    controls, spread = credited[is_control], error[is_control]
    others = min(float(np.abs(credited[~is_control]).sum()), total)
    if np.abs(controls).sum() <= _MIN_SHARE * others:
        return False
    # Joint F test of all controls.
    squares = np.divide(controls, spread, out=np.full(len(controls), np.inf), where=spread > 0) ** 2
    statistic = float(squares[controls != 0].sum()) / len(controls)
    return bool(statistic > fisher.ppf(1 - _SIGNIFICANCE, len(controls), GROUPS - 1))


def warn_of_confounding(
    label: str,
    node_ids: list[str],
    credited: Numbers,
    error: Numbers,
    is_control: NDArray[np.bool_],
    *,
    total: float,
) -> bool:
    """Warn if a model is confounded, and return whether it is."""
    if not is_control.any() or not is_confounded(credited, error, is_control, total=total):
        return False
    shown = [
        f"{node} {amount:,.0f}"
        for node, amount, is_shown in zip(node_ids, credited, is_control, strict=True)
        if is_shown
    ]
    warnings.warn(
        f"{label} estimates effects of nodes known to have none: {', '.join(shown)} conversions, against "
        f"{credited[~is_control].sum():,.0f} for all other nodes. Exposure and conversions have a common "
        "cause that the model does not include, such as the intent to buy, so its estimates for the other "
        "nodes may be biased as much or more, whatever their intervals. Run a randomised holdout "
        "(plan_holdout, holdout_effects) or use a model of intent (LatentIntent); until then, treat these "
        "numbers as credit, not as effects",
        ConfoundingWarning,
        stacklevel=4,
    )
    return True
