"""Judges a model of effects by nodes that are known to have none."""

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

#: Credit of controls, as a share of that of the other nodes, from which on it matters: controls of few
#: touchpoints earn little even where the other nodes are far off.
_MATTERS: Final = 0.03
#: How often chance alone may make controls look credited.
_BY_CHANCE: Final = 0.001


def is_confounded(credited: Numbers, error: Numbers, is_control: NDArray[np.bool_], *, total: float) -> bool:
    """Say whether controls earn more credit than sampling error explains, and enough of it to matter.

    Parameters
    ----------
    credited, error : float array, shape (n_nodes,)
        Of a model of effects, with sampling errors by a jackknife over groups of users.
    is_control : bool array of the same shape
        The nodes known to have no effect.
    total : float
        All conversions. A model that went astray may find more for the other nodes, whatever it finds for
        controls.
    """
    known, spread = credited[is_control], error[is_control]
    others = min(float(np.abs(credited[~is_control]).sum()), total)
    if np.abs(known).sum() <= _MATTERS * others:
        return False
    # All controls together: two that are a little off are as telling as one that is far off.
    squares = np.divide(known, spread, out=np.full(len(known), np.inf), where=spread > 0) ** 2
    statistic = float(squares[known != 0].sum()) / len(known)
    return bool(statistic > fisher.ppf(1 - _BY_CHANCE, len(known), GROUPS - 1))


def warn_of_confounding(
    label: str,
    node_ids: list[str],
    credited: Numbers,
    error: Numbers,
    is_control: NDArray[np.bool_],
    *,
    total: float,
) -> bool:
    """Warn where a model is confounded, and say whether it is."""
    if not is_control.any() or not is_confounded(credited, error, is_control, total=total):
        return False
    found = [
        f"{node} {amount:,.0f}"
        for node, amount, known in zip(node_ids, credited, is_control, strict=True)
        if known
    ]
    warnings.warn(
        f"{label} finds effects of nodes that are known to have none: {', '.join(found)} conversions, beside "
        f"{credited[~is_control].sum():,.0f} of all others. So exposure and conversions have a common cause "
        "that it does not see, such as the wish to buy, and its numbers for the other nodes may be off by as "
        "much or more, whatever their intervals. Withhold nodes at random from some users (plan_holdout, "
        "holdout_effects), or use a model of intent; until then take these numbers as credit, not as effects",
        ConfoundingWarning,
        stacklevel=4,
    )
    return True
