"""Instants as literals of a query, sort keys, and results of a query as Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import ibis.expr.types as ir


def timestamp(instant: datetime) -> ir.TimestampScalar:
    """Return an aware instant as a literal, in UTC without a time zone, as tables store it."""
    return ibis.literal(instant.replace(tzinfo=None), type="timestamp(6)")


def fetch(query: ir.Table, columns: pa.Schema) -> pa.Table:
    """Run a query and cast its result to an Arrow schema.

    Parameters
    ----------
    query : ibis.Table
        The query.
    columns : pyarrow.Schema
        Types of the query's columns; further columns are ignored.

    Returns
    -------
    pyarrow.Table
        Columns in the order of the query.
    """
    return query.to_pyarrow().cast(pa.schema([columns.field(name) for name in query.columns]))


def ordering(table: ir.Table, sort: Mapping[str, int]) -> list[Any]:
    """Return sort keys: nulls last in both directions, ties broken by ``_id`` if there is one (G-099)."""
    keys = [
        table[name].asc() if direction == 1 else ibis.desc(table[name], nulls_first=False)
        for name, direction in sort.items()
    ]
    return [*keys, table["_id"]] if "_id" in table.columns and "_id" not in sort else keys
