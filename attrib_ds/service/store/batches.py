"""Moves many records between Python and the tables at once."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds.records.sources import quoted
from attrib_ds.service.store.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

#: Records up to which lists are quicker than Arrow.
_FEW: Final = 64
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
    columns = ", ".join(quoted(name) for name in records[0])
    into = f"INSERT INTO {quoted(table)} ({columns})"
    if len(records) > _FEW:
        with lent(connection, as_arrow(table, records)) as view:
            connection.execute(f"{into} SELECT {columns} FROM {view}")
        return
    lists = ", ".join(f"unnest(?::{_kind(table, name)}[])" for name in records[0])
    connection.execute(
        f"{into} SELECT {lists}", [[_exact(each[name]) for each in records] for name in records[0]]
    )


def _kind(table: str, column: str) -> str:
    return TABLES[table][column].partition(" ")[0]


def _exact(value: Any) -> Any:
    # Decimals of several lengths in one list would become binary fractions.
    return f"{value:f}" if isinstance(value, Decimal) else value


def as_arrow(table: str, records: Sequence[dict[str, Any]]) -> pa.Table:
    """Return one or more records in the types of the columns of a table; see :func:`insert_records`."""
    return pa.table(
        {name: pa.array([each[name] for each in records], _TYPES[_kind(table, name)]) for name in records[0]}
    )


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
    """Return an instant as the store holds it: in UTC, without a zone.

    Examples
    --------
    >>> naive(datetime.fromisoformat("2025-01-31T12:00:00+02:00"))
    datetime.datetime(2025, 1, 31, 10, 0)
    >>> naive(datetime(2025, 1, 31, 10))
    datetime.datetime(2025, 1, 31, 10, 0)
    """
    # What has no zone is in UTC already; Python itself would take it for the time of this machine.
    return instant if instant.tzinfo is None else instant.astimezone(UTC).replace(tzinfo=None)
