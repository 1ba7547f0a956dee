"""Read aggregated paths, wide journeys and the spend of nodes from users' own files."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import duckdb
import pandas as pd
import pyarrow as pa

from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.errors import InputWarning, closest, warn
from attrib_ds.importers.journeys import chains_of, checked_currency
from attrib_ds.importers.own_columns import Formats, Named
from attrib_ds.importers.own_files import FilePaths
from attrib_ds.importers.own_rows import like_known, merge_case
from attrib_ds.importers.own_table import OwnTable
from attrib_ds.records.frames import to_pandas


def read_sequences(
    file: Path,
    *,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    separator: str = " > ",
    sheet: str | None = None,
) -> FilePaths:
    """Read aggregated paths from a file.

    Parameters
    ----------
    file : Path
        CSV, NDJSON, Parquet or XLSX file: one row per distinct path, or one row per journey with its steps
        in numbered columns (``T_1``, ``T_2``, …) and a flag that says whether it converted.
    columns : mapping of str to str or list of str, optional
        Column by role (``path``, ``conversions``, ``total_value``, ``currency``, ``nulls``; ``path`` may list
        the columns of steps in order, with ``flag``).
    currency : str, optional
        Currency of values that have none.
    decimal, encoding, sheet : str, optional
        As in :func:`attrib_ds.read_journeys`.
    separator : str, default " > "
        Separator between nodes.

    Returns
    -------
    FilePaths
        Paths, counts, the columns used and the rejected rows.

    Raises
    ------
    InvalidRequest
        If the file or a column is missing, or there are no readable rows.
    """
    named = dict(columns or {})
    table = OwnTable(
        duckdb.connect(), file, "paths", Formats(decimal=decimal, encoding=encoding, sheet=sheet)
    )
    steps = table.find_steps(named)
    if steps:
        table.take_steps(steps, separator)
        table.take_outcome(table.find("flag", named))
    else:
        table.take_word("path", table.find("path", named))
        table.take_number("conversions", table.find("conversions", named), minimum=0, is_count=True)
        nulls = table.find("nulls", named, required=False)
        table.take_number("nulls", nulls, minimum=0, is_count=True)
    value = table.find("total_value", named, required=False)
    table.take_value(value)
    table.take_currency(table.find_currency(named, value), checked_currency(currency))
    rows, rejected = table.read()
    paths = Paths.from_sequences(
        to_pandas(rows),
        path="path",
        conversions="conversions",
        value="value" if "value" in rows.column_names else None,
        currency="currency" if "currency" in rows.column_names else None,
        nulls="nulls" if "nulls" in rows.column_names else None,
        separator=separator,
    )
    return FilePaths(paths, {"paths": rows.num_rows}, {"paths": table.columns}, rejected)


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
    InputWarning
        If the file has none.
    InputWarning
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
        warn(f"{table.name} has no rows, so that no spend is known", InputWarning)
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
        InputWarning,
    )
