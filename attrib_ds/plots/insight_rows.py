"""Reduce a frame of insights to a table of groups by intervals."""

from __future__ import annotations

from typing import Final

import pandas as pd

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots.arguments import numbers
from attrib_ds.plots.labels import distinct
from attrib_ds.plots.look import count

VALUES: Final = {
    "sessionCount": "interactions",
    "hitCount": "hits",
    "durationSum": "duration (seconds)",
}
OTHER: Final = "other"


def rows_of_events(insights: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return insights of events with the columns of those of interactions, and what each metric is called.

    The identifier is the group where there are several of them.
    """
    metrics = {str(name): str(name).removeprefix("values.") for name in insights.columns}
    metrics = {name: metric for name, metric in metrics.items() if metric != name}
    rows = insights.rename(columns={**metrics, "identifier": "group"})
    if rows["group"].nunique() < 2:
        rows["group"] = pd.Series(None, index=rows.index, dtype="str")
    words = {metric: "events" if metric == "event-count" else metric for metric in metrics.values()}
    return rows, words


def table_of_groups(insights: pd.DataFrame, value: str, *, top: int) -> pd.DataFrame:
    """Return one row per group and one column per interval; an absent record is 0, as the service means it.

    The ``top`` groups by the sum of their magnitudes come first, largest first, then the rest summed.
    The index holds labels; it is ``[""]`` when no row has a group.
    """
    if len(insights) and insights["interval"].isna().all():
        raise InvalidRequest(
            "insights: column 'interval' is null in every row; needed: insights asked for with an interval",
            field="insights",
        )
    rows = insights.loc[insights["interval"].notna(), ["group", "interval"]].assign(
        amount=numbers("insights", insights, value).fillna(0.0)
    )
    grouped = rows["group"].notna().any()
    rows["interval"] = rows["interval"].astype(str)
    # A text of its own for "no group", which no real group can equal, keeps its rows through the pivot.
    rows["group"] = rows["group"].astype("str").fillna("\0") if grouped else "\0"
    table = rows.pivot_table(
        index="group", columns="interval", values="amount", aggfunc="sum", fill_value=0.0
    )
    sizes = table.abs().sum(axis="columns").rename("size").reset_index()
    order = sizes.sort_values(["size", "group"], ascending=[False, True])["group"].tolist()
    kept = table.loc[order[:top]]
    names = distinct({group: group.replace("\0", "no group" if grouped else "") for group in kept.index})
    kept.index = kept.index.map(names).rename(None)
    if len(order) > top:
        kept.loc[f"{OTHER} ({count(len(order) - top, 'group')})"] = table.loc[order[top:]].sum()
    return kept
