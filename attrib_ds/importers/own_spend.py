"""Read the spend of nodes from users' own files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from attrib_ds.errors import NoRows, warn
from attrib_ds.importers.journey_tables import chains_of, checked_currency
from attrib_ds.importers.own_columns import Formats
from attrib_ds.importers.own_table import OwnTable
from attrib_ds.importers.spellings import like_known, merge_case
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    import pandas as pd

    from attrib_ds.importers.own_columns import Named


def read_spend(
    file: Path,
    *,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    ignore_case: bool = True,
    touchpoint_node: Named | None = None,
    known_nodes: Collection[str] = (),
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the spend of nodes from a file; return ``node_id``, ``spend``, ``currency``, and rejected rows.

    ``touchpoint_node`` has the columns of the touchpoints' nodes, which are used if the file has them too,
    and ``known_nodes`` their ids, whose spelling counts if ``ignore_case`` is set.
    """
    named = dict(columns or {})
    formats = Formats(decimal=decimal, encoding=encoding)
    table = OwnTable(duckdb.connect(), file, "spend", formats)
    node = table.find_node_like(touchpoint_node, named)
    table.take_node(node)
    if len(node) > 1:
        table.require_any(node)
    spend = table.find("spend", named)
    table.take_number("spend", spend, minimum=0)
    table.take_currency(table.find_currency(named, spend), checked_currency(currency))
    rows, rejected = table.read(may_be_empty=True)
    if not rows.num_rows:
        warn(f"{table.name} has no rows, so that no spend is known", NoRows)
    if ignore_case:
        rows = merge_case(rows, name=table.name)
    node_ids = [nodes[-1].node_id for nodes in chains_of(rows)]
    if ignore_case:
        node_ids = like_known(node_ids, known_nodes)
    kept = rows.select([name for name in ("spend", "currency") if name in rows.column_names])
    return to_pandas(kept.add_column(0, "node_id", pa.array(node_ids, pa.string()))), rejected
