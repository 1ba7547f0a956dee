"""Read the spend of nodes from users' own files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from attrib_ds.errors import NoRows, UnmatchedSpend, closest, warn
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

_MAX_SHOWN: Final = 5


def read_spend(
    file: Path,
    *,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    ignore_case: bool = True,
    sheet: str | None = None,
    touchpoint_node: Named | None = None,
    known_nodes: Collection[str] = (),
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the spend of nodes from a file; return ``node_id``, ``spend``, ``currency``, and rejected rows.

    The role ``spend_node`` names the columns of nodes; the role ``node`` and ``touchpoint_node`` have those
    of the touchpoints' nodes, which are used otherwise if the file has them too. ``known_nodes`` has the ids
    of the touchpoints' nodes, whose spelling counts if ``ignore_case`` is set.

    Warns
    -----
    NoRows
        If the file has none.
    UnmatchedSpend
        If nodes are not among the known ones.
    """
    named = dict(columns or {})
    formats = Formats(decimal=decimal, encoding=encoding, sheet=sheet)
    table = OwnTable(duckdb.connect(), file, "spend", formats)
    if "spend_node" in named:
        named["node"] = named.pop("spend_node")
    elif not table.has(named.get("node", ())):
        del named["node"]
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
    spend_of_nodes = to_pandas(kept.add_column(0, "node_id", pa.array(node_ids, pa.string())))
    if known_nodes:
        _warn_of_unknown(spend_of_nodes, known_nodes, table.name)
    return spend_of_nodes, rejected


def _warn_of_unknown(spend: pd.DataFrame, known_nodes: Collection[str], name: str) -> None:
    """Warn of nodes without a touchpoint; a row with the sum of the others is called a total."""
    amounts = spend.groupby("node_id", sort=False)["spend"].sum()
    unknown = [node for node in amounts.index if node not in known_nodes]
    if not unknown:
        return
    said = []
    for node in unknown[:_MAX_SHOWN]:
        is_total = len(amounts) > 2 and math.isclose(amounts[node], amounts.drop(node).sum(), rel_tol=1e-6)
        hint = " (the sum of the others: a total?)" if is_total else closest(node, known_nodes)
        said.append(f"{node!r} with {amounts[node]:,.2f}{hint}")
    more = f" and {len(unknown) - _MAX_SHOWN:,} others" if len(unknown) > _MAX_SHOWN else ""
    warn(
        f"{name} has spend of nodes without a touchpoint, which get rows of their own: "
        f"{', '.join(said)}{more}. Leave out totals, and write names as in the touchpoints",
        UnmatchedSpend,
    )
