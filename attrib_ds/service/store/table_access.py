"""Reads and writes records of the store's tables in SQL, one at a time, by page or in bulk."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds.contract import Answer
from attrib_ds.instants import naive
from attrib_ds.records.sources import quoted
from attrib_ds.service.store.table_definitions import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    from ibis.backends.duckdb import Backend

#: Number of records up to which parameters are faster than Arrow.
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


def insert_record(connection: duckdb.DuckDBPyConnection, table: str, values: Mapping[str, Any]) -> None:
    """Insert one record; missing columns are null.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    table : str
        One of the store's tables.
    values : mapping of str to object
        Values by column; instants are aware, or naive and in UTC.
    """
    columns = ", ".join(quoted(name) for name in values)
    places = ", ".join("?" for _ in values)
    stored = [_stored(value) for value in values.values()]
    connection.execute(f"INSERT INTO {quoted(table)} ({columns}) VALUES ({places})", stored)


def insert_records(
    connection: duckdb.DuckDBPyConnection, table: str, records: Sequence[dict[str, Any]]
) -> None:
    """Insert records with one statement; columns missing from the first record are null.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    table : str
        One of the store's tables.
    records : sequence of dict
        Values by column, the same columns in each; instants are naive, in UTC.
    """
    if not records:
        return
    columns = ", ".join(quoted(name) for name in records[0])
    into = f"INSERT INTO {quoted(table)} ({columns})"
    if len(records) > _FEW:
        with arrow_view(connection, as_arrow(table, records)) as view:
            connection.execute(f"{into} SELECT {columns} FROM {view}")
        return
    lists = ", ".join(f"unnest(?::{_column_type(table, name)}[])" for name in records[0])
    connection.execute(
        f"{into} SELECT {lists}", [[_exact(record[name]) for record in records] for name in records[0]]
    )


def _column_type(table: str, column: str) -> str:
    return TABLES[table][column].partition(" ")[0]


def _exact(value: Any) -> Any:
    # DuckDB turns a list of decimals with different scales into doubles.
    return f"{value:f}" if isinstance(value, Decimal) else value


def as_arrow(table: str, records: Sequence[dict[str, Any]]) -> pa.Table:
    """Return at least one record as an Arrow table in the types of a table; see :func:`insert_records`."""
    return pa.table(
        {
            name: pa.array([record[name] for record in records], _TYPES[_column_type(table, name)])
            for name in records[0]
        }
    )


@contextmanager
def arrow_view(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> Iterator[str]:
    """Register an Arrow table as a view for the length of the block; yields the view's name."""
    view = "arrow_rows"
    connection.register(view, rows)
    try:
        yield view
    finally:
        connection.unregister(view)


def update_record(
    connection: duckdb.DuckDBPyConnection, table: str, key: str, id: str, values: Mapping[str, Any]
) -> None:
    """Update columns of the record whose ``key`` is ``id``; for the parameters see :func:`insert_record`."""
    assigned = ", ".join(f"{quoted(name)} = ?" for name in values)
    stored = [_stored(value) for value in values.values()]
    connection.execute(f"UPDATE {quoted(table)} SET {assigned} WHERE {quoted(key)} = ?", [*stored, id])


def read_record(connection: duckdb.DuckDBPyConnection, query: str, *values: object) -> dict[str, Any] | None:
    """Return the first row of a query, instants aware; None without rows."""
    result = connection.execute(query, list(values))
    names = [column[0] for column in result.description]
    row = result.fetchone()
    if row is None:
        return None
    return {
        name: value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
        for name, value in zip(names, row, strict=True)
    }


def read_table(
    connection: duckdb.DuckDBPyConnection, relation: str, values: Sequence[object], columns: pa.Schema
) -> pa.Table:
    """Return records in the Arrow schema of their resource.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.
    relation : str
        FROM clause in SQL, without the keyword.
    values : sequence of object
        Parameters of the clause; instants are aware, or naive and in UTC.
    columns : pyarrow.Schema
        Columns to read.

    Returns
    -------
    pyarrow.Table
        Possibly without rows.
    """
    names = ", ".join(quoted(name) for name in columns.names)
    result = connection.execute(f"SELECT {names} FROM {relation}", [_stored(value) for value in values])
    return result.to_arrow_table().cast(columns)


def read_page(
    backend: Backend,
    relation: str,
    values: Sequence[object],
    columns: pa.Schema,
    *,
    sort: str,
    descending: bool,
    ties: str,
    offset: int,
    limit: int | None,
) -> Answer:
    """Return a page of records with the total count; for the other parameters see :func:`read_table`.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`, so that rows and total come from one snapshot.
    sort : str
        Column to order by, nulls last.
    descending : bool
        Sort in descending order.
    ties : str
        Column that breaks ties, ascending.
    offset, limit : int
        As in the request.
    """
    connection = backend.con
    stored = [_stored(value) for value in values]
    ((total,),) = connection.execute(f"SELECT count(*) FROM {relation}", stored).fetchall()
    order = f"{quoted(sort)} {'DESC' if descending else 'ASC'} NULLS LAST, {quoted(ties)}"
    most = "" if limit is None else f"LIMIT {limit}"
    page = read_table(connection, f"{relation} ORDER BY {order} {most} OFFSET {offset}", values, columns)
    return Answer.of(page, total=total, offset=offset, limit=limit)


def changes_of(stored: Mapping[str, Any], requested: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requested values that are not None and differ from the stored ones.

    Examples
    --------
    >>> changes_of({"name": "Brand", "active": True}, {"name": "Brand", "active": False})
    {'active': False}
    """
    return {name: value for name, value in requested.items() if value is not None and value != stored[name]}


def _stored(value: object) -> object:
    return naive(value) if isinstance(value, datetime) else value
