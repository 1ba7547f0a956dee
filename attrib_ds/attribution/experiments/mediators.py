"""Total effects of nodes that lead to touchpoints of other nodes, their mediators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.experiments.negative_controls import jackknife_error
from attrib_ds.attribution.incremental.mediation import lost_in_total
from attrib_ds.attribution.intervals import GROUPS, Bounds
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.discrete_hazard import HazardFit, HazardSample

    Numbers = NDArray[np.float64]

#: Columns of the result.
MEDIATED: Final = ("mediated", "mediated_low", "mediated_high", "total", "total_low", "total_high")


def check_mediators(mediators: Any, node_ids: set[str]) -> dict[str, list[str]]:
    """Return the mediators of each node.

    Raises
    ------
    InvalidRequest
        If it is not a mapping from nodes to lists of other nodes.
    """
    is_mapping = isinstance(mediators, Mapping) and all(
        isinstance(several, Sequence) and not isinstance(several, str) and len(several)
        for several in mediators.values()
    )
    if not is_mapping:
        raise InvalidRequest(
            f"mediators: {mediators!r} is not allowed; allowed: a mapping from nodes to lists of nodes, as "
            "in {'display': ['brand_search']}",
            field="mediators",
        )
    for node, several in mediators.items():
        for named in (node, *several):
            if named not in node_ids:
                raise InvalidRequest.choice("mediators", named, node_ids)
        if node in several:
            raise InvalidRequest(
                f"mediators: {node!r} is not allowed as its own mediator; allowed: other nodes",
                field="mediators",
            )
    return {node: list(dict.fromkeys(several)) for node, several in mediators.items()}


def total_effects(
    sample: HazardSample, fit: HazardFit, mediators: Mapping[str, Sequence[str]], *, confidence: float
) -> pd.DataFrame:
    """Estimate the effect of nodes through mediators, and in total.

    Parameters
    ----------
    sample, fit : HazardSample, HazardFit
        The hazard of conversions, fitted with a jackknife.
    mediators : mapping
        Mediators of each node.
    confidence : float
        Level of the bounds.

    Returns
    -------
    DataFrame
        One row per node and currency: ``node_id``, ``currency`` and :data:`MEDIATED`.
    """
    codes = {node_id: code for code, node_id in enumerate(sample.node_ids)}
    of_nodes = {codes[node]: [codes[each] for each in several] for node, several in mediators.items()}
    in_total = lost_in_total(sample, fit, of_nodes)
    direct = fit.lost()
    form = Bounds(confidence, GROUPS - 1)
    rows = []
    for code, lost in in_total.items():
        through = [whole - part[:, code] for whole, part in zip(lost, direct, strict=True)]
        for place, currency in enumerate(fit.histories.currencies):
            row: dict[str, Any] = {"node_id": sample.node_ids[code], "currency": currency}
            for name, shares in (("mediated", through), ("total", lost)):
                sums = _sums(fit, shares, place)
                low, high = form.around(sums[:1], jackknife_error(sums[1:]) ** 2)
                row |= {name: sums[0], f"{name}_low": low.item(), f"{name}_high": high.item()}
            rows.append(row)
    columns = ["node_id", "currency"]
    return pd.DataFrame(rows, columns=[*columns, *MEDIATED]).astype(dict.fromkeys(columns, TEXT))


def _sums(fit: HazardFit, shares: list[Numbers], currency: int) -> Numbers:
    """Sum the shares of conversions: of all users, then without each fold."""
    histories = fit.histories
    amount = histories.conversions * (histories.event_currency == currency)
    fold = histories.fold[histories.event_user]
    # The first sample is all users; sample n leaves out fold n - 1.
    return np.array([(amount * share)[fold != number - 1].sum() for number, share in enumerate(shares)])
