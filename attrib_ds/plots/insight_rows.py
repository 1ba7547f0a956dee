"""Reshape insights to a table with one row per group and one column per interval."""

from __future__ import annotations

from typing import Final

import pandas as pd

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots.arguments import numbers
from attrib_ds.plots.labels import distinct
from attrib_ds.plots.style import format_count
from attrib_ds.records.dtypes import TEXT

VALUES: Final = {
    "sessionCount": "interactions",
    "hitCount": "hits",
    "durationSum": "duration (seconds)",
}
OTHER: Final = "other"


def rows_of_events(insights: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Rename the columns of event insights to those of interaction insights; return a label per metric too.

    The identifier becomes the group if there are several.
    """
    metrics = {str(name): str(name).removeprefix("values.") for name in insights.columns}
    metrics = {name: metric for name, metric in metrics.items() if metric != name}
    rows = insights.rename(columns={**metrics, "identifier": "group"})
    if rows["group"].nunique() < 2:
        rows["group"] = pd.Series(None, index=rows.index, dtype=TEXT)
    labels = {metric: "events" if metric == "event-count" else metric for metric in metrics.values()}
    return rows, labels


def table_of_groups(insights: pd.DataFrame, value: str, *, top: int) -> pd.DataFrame:
    """Return one row per group and one column per interval; missing records count as 0.

    The ``top`` groups by sum of magnitudes come first, in descending order, then the sum of the rest. The
    index holds labels; it is ``[""]`` when no row has a group.
    """
    if len(insights) and insights["interval"].isna().all():
        raise InvalidRequest(
            "insights: column 'interval' is null in every row; request the insights with an interval",
            field="insights",
        )
    rows = insights.loc[insights["interval"].notna(), ["group", "interval"]].assign(
        amount=numbers("insights", insights, value).fillna(0.0)
    )
    has_groups = rows["group"].notna().any()
    rows["interval"] = rows["interval"].astype(TEXT)
    # pivot_table drops null groups, so they get a key that no real group has.
    rows["group"] = rows["group"].astype(TEXT).fillna("\0") if has_groups else "\0"
    table = rows.pivot_table(
        index="group", columns="interval", values="amount", aggfunc="sum", fill_value=0.0
    )
    sizes = table.abs().sum(axis="columns").rename("size").reset_index()
    order = sizes.sort_values(["size", "group"], ascending=[False, True])["group"].tolist()
    kept = table.loc[order[:top]]
    names = distinct({group: group.replace("\0", "no group" if has_groups else "") for group in kept.index})
    kept.index = kept.index.map(names).rename(None)
    if len(order) > top:
        kept.loc[f"{OTHER} ({format_count(len(order) - top, 'group')})"] = table.loc[order[top:]].sum()
    return kept
