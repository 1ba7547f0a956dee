"""Reads already aggregated paths, the form other libraries use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ibis
import pyarrow as pa

from attrib_ds.attribution.engines.engine import engine
from attrib_ds.attribution.paths.columns import Input
from attrib_ds.attribution.paths.pairing import DIRECT
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pandas as pd


def read_sequences(
    frame: pd.DataFrame,
    *,
    path: str,
    conversions: str,
    value: str | None,
    nulls: str | None,
    separator: str,
) -> tuple[ir.Table, ir.Table]:
    """Return the touches of paths with conversions, and of all paths; for the columns see ``Paths``."""
    if not separator:
        raise InvalidRequest("separator: it is empty; allowed: the text between two nodes", field="separator")
    given = Input.open(engine(), frame, argument="frame")
    columns = {
        "path": given.keys(path, role="path"),
        "conversions": given.numbers(conversions, role="conversions", minimum=0),
        "value": ibis.null("float64") if value is None else given.numbers(value, role="value"),
        "nulls": ibis.literal(0.0) if nulls is None else given.numbers(nulls, role="nulls", minimum=0),
    }
    if value is not None:
        is_nobodys = (columns["conversions"] == 0) & (columns["value"] != 0)
        given.suspect(value, "has no conversion it could belong to", is_nobodys)
    given.check()
    rows = to_pandas(given.table.select(**columns).to_pyarrow())
    texts = rows.pop("path")
    rows["event_id"] = rows.index.astype("str")
    rows["node_id"] = texts.str.split(separator, regex=False)
    rows["length"] = rows["node_id"].str.len()
    touches = rows.explode("node_id", ignore_index=True)
    touches["node_id"] = touches["node_id"].astype("str").str.strip()
    empty = touches["node_id"] == ""
    if empty.any():
        row = int(touches.loc[empty, "event_id"].iloc[0])
        raise InvalidRequest(
            f"frame: the path in row {row} has an empty node ({texts[row]!r}, separated by "
            f"{separator!r}); allowed: at least one node and none of them empty",
            field="frame",
        )
    touches["position"] = touches.groupby("event_id", sort=False).cumcount() + 1
    arrow = pa.Table.from_pandas(touches, preserve_index=False)
    arrow = arrow.set_column(
        arrow.column_names.index("node_id"), "node_id", arrow["node_id"].cast(pa.string())
    )
    nothing = {
        "user_id": pa.string(),
        "type": pa.string(),
        "touch_id": pa.string(),
        "date": pa.timestamp("us"),
        "event_date": pa.timestamp("us"),
        "age_days": pa.float64(),
        "youngest_days": pa.float64(),
        "currency": pa.string(),
    }
    for name, kind in nothing.items():
        arrow = arrow.append_column(name, pa.nulls(arrow.num_rows, kind))
    backend = engine()
    backend.con.register("sequences", arrow)
    points = backend.table("sequences")
    points = points.mutate(is_direct=points.node_id.lower().isin(DIRECT))
    return points.filter(points.conversions > 0).drop("nulls"), points
