"""Moves many records between Python and the tables at once."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds.service.tables import TABLES
from attrib_ds.sources import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    import duckdb

_TYPES: Final = {
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
    "TIMESTAMP": pa.timestamp("us"),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "DECIMAL(24,6)": pa.decimal128(24, 6),
}


def insert_records(
    connection: duckdb.DuckDBPyConnection, table: str, records: Sequence[dict[str, Any]]
) -> None:
    """Insert records with one statement; columns that the first one does not name are null.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    table : str
        One of the store's tables.
    records : sequence of dict
        Column to value, the same columns in each; instants are naive, in UTC.
    """
    if not records:
        return
    kinds = TABLES[table]
    rows = pa.table(
        {
            name: pa.array([each[name] for each in records], _TYPES[kinds[name].partition(" ")[0]])
            for name in records[0]
        }
    )
    columns = ", ".join(quoted(name) for name in rows.column_names)
    with lent(connection, rows) as view:
        connection.execute(f"INSERT INTO {quoted(table)} ({columns}) SELECT {columns} FROM {view}")


@contextmanager
def lent(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> Iterator[str]:
    """Let the queries of a block read an Arrow table, under the name that is given."""
    view = "lent_rows"
    connection.register(view, rows)
    try:
        yield view
    finally:
        connection.unregister(view)


def naive(instant: datetime) -> datetime:
    """Return an aware instant in UTC as the store holds it: without a zone."""
    return instant.replace(tzinfo=None)
