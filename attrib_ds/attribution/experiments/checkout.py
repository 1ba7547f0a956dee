"""Nodes whose touchpoints cluster in the minutes before conversions, such as sites with coupons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd
from scipy.stats import poisson

from attrib_ds.attribution.incremental.observations import conversions_of, preceding, touchpoints_of
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import ConfoundingWarning, warn

if TYPE_CHECKING:
    from attrib_ds.attribution.paths.paths import Paths

#: Days before a conversion that count as its checkout, and days that show the usual rate of touchpoints.
_CHECKOUT: Final = 30 / 1_440
_USUAL: Final = 7.0
#: Touchpoints cluster if conversions after one are this many times as many as the usual rate gives, are a
#: share of at least this of those within a week of one, and are not due to chance.
_TIMES: Final = 10.0
_LEAST_SHARE: Final = 0.1
_SIGNIFICANCE: Final = 0.0001


def checkout_nodes(paths: Paths) -> pd.DataFrame:
    """Compare touchpoints in the last 30 minutes before conversions with those of the week before.

    Returns
    -------
    DataFrame
        One row per node with touchpoints in the week before a conversion, indexed by ``node_id``: ``share``
        (float64, of these conversions, those with a touchpoint in the last 30 minutes; null if most ages are
        whole days, as without times of day) and ``is_at_checkout`` (bool).
    """
    sequences = Sequences.of(paths)
    rows = preceding(touchpoints_of(sequences, "node_id"), conversions_of(sequences))
    rows = rows.filter(rows.age_days <= _USUAL)
    is_last = rows.age_days <= _CHECKOUT
    counted = (
        rows.group_by("node_id")
        .agg(
            conversions=rows.event_id.nunique(),
            last=rows.event_id.nunique(where=is_last),
            before=(~is_last).sum(),
            whole=(rows.age_days == rows.age_days.floor()).sum(),
            touches=rows.count(),
        )
        .order_by("node_id")
        .to_pyarrow()
        .to_pandas()
        .set_index("node_id")
    )
    expected = counted["before"] * _CHECKOUT / (_USUAL - _CHECKOUT)
    share = counted["last"] / counted["conversions"]
    has_times = counted["whole"] <= 0.5 * counted["touches"]
    is_clustered = (counted["last"] >= _TIMES * expected) & (share >= _LEAST_SHARE)
    is_clustered &= poisson.sf(counted["last"] - 1, expected) < _SIGNIFICANCE
    return pd.DataFrame({"share": share.where(has_times), "is_at_checkout": is_clustered & has_times})


def warn_of_checkout_nodes(nodes: pd.DataFrame) -> None:
    """Warn of nodes whose touchpoints cluster at the checkout, if there are any."""
    named = nodes[nodes["is_at_checkout"]]
    if named.empty:
        return
    shown = ", ".join(f"{node} {share:.0%}" for node, share in named["share"].items())
    warn(
        f"touchpoints cluster in the last 30 minutes before conversions: {shown} of the conversions within a "
        "week of a touchpoint. People on their way to the checkout visit such nodes anyway, so paths cannot "
        "tell whether they cause conversions: leave them out of comparisons, or withhold them at random "
        "(plan_holdout, holdout_effects)",
        ConfoundingWarning,
    )
