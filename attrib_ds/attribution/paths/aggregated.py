"""Reads aggregated paths: one row per distinct path, the input of ChannelAttribution and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ibis
import pyarrow as pa

from attrib_ds.attribution.engines.engine import engine
from attrib_ds.attribution.paths.input_tables import Input
from attrib_ds.attribution.paths.pairing import DIRECT
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.dtypes import TEXT
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from attrib_ds.records.input_frames import Frame


def read_sequences(
    frame: Frame,
    *,
    path: str,
    conversions: str,
    value: str | None,
    currency: str | None,
    nulls: str | None,
    separator: str,
) -> tuple[ir.Table, ir.Table]:
    """Return the touches of converting paths, and those of all paths, with the columns of ``Paths``."""
    if not separator:
        raise InvalidRequest(
            "separator: '' is not allowed; allowed: text between two nodes", field="separator"
        )
    source = Input.open(engine(), frame, argument="frame")
    columns = {
        "path": source.keys(path, role="path"),
        "conversions": source.numbers(conversions, role="conversions", minimum=0),
        "value": ibis.null("float64") if value is None else source.numbers(value, role="value"),
        "currency": ibis.null("string") if value is None else source.currencies(currency),
        "nulls": ibis.literal(0.0) if nulls is None else source.numbers(nulls, role="nulls", minimum=0),
    }
    if value is not None:
        has_no_conversion = (columns["conversions"] == 0) & (columns["value"] != 0)
        source.suspect(value, "is not zero although the path has no conversions", has_no_conversion)
    source.check()
    rows = to_pandas(source.table.select(**columns).to_pyarrow())
    rows["node_id"] = rows["path"].str.split(separator, regex=False)
    nodes = rows["node_id"].explode()
    empty = nodes.str.strip() == ""
    if empty.any():
        row = int(nodes.index[empty][0])
        raise InvalidRequest(
            f"frame: the path in row {row} has an empty node ({rows['path'][row]!r}, separated by "
            f"{separator!r}); allowed: one or more nodes, none of them empty",
            field="frame",
        )
    # Ids by content: sums and the draws of a bootstrap are the same in any order of the rows.
    rows = rows.sort_values(["path", "currency", "conversions", "value", "nulls"], ignore_index=True)
    rows["event_id"] = rows.pop("path").index.astype(TEXT)
    rows["length"] = rows["node_id"].str.len()
    touches = rows.explode("node_id", ignore_index=True)
    touches["node_id"] = touches["node_id"].astype(TEXT).str.strip()
    touches["position"] = touches.groupby("event_id", sort=False).cumcount() + 1
    arrow = pa.Table.from_pandas(touches, preserve_index=False)
    for name in ("node_id", "currency"):
        index = arrow.column_names.index(name)
        arrow = arrow.set_column(index, name, arrow[name].cast(pa.string()))
    empty_columns = {
        "user_id": pa.string(),
        "type": pa.string(),
        "touch_id": pa.string(),
        "date": pa.timestamp("us"),
        "event_date": pa.timestamp("us"),
        "age_days": pa.float64(),
        "youngest_days": pa.float64(),
    }
    for name, kind in empty_columns.items():
        arrow = arrow.append_column(name, pa.nulls(arrow.num_rows, kind))
    backend = engine()
    backend.con.register("sequences", arrow)
    points = backend.table("sequences")
    points = points.mutate(is_direct=points.node_id.lower().isin(DIRECT))
    return points.filter(points.conversions > 0).drop("nulls"), points
