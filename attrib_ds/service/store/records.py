"""Reads and writes the records of small tables, where SQL is quicker than an expression of Ibis."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrib_ds.contract import Answer
from attrib_ds.records.sources import quoted
from attrib_ds.service.store.batches import naive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    import pyarrow as pa
    from ibis.backends.duckdb import Backend


def insert_record(connection: duckdb.DuckDBPyConnection, table: str, values: Mapping[str, Any]) -> None:
    """Insert one record; columns that are not named are null.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    table : str
        One of the store's tables.
    values : mapping of str to object
        Column to value; instants are aware, or naive and in UTC.
    """
    columns = ", ".join(quoted(name) for name in values)
    places = ", ".join("?" for _ in values)
    stored = [_stored(value) for value in values.values()]
    connection.execute(f"INSERT INTO {quoted(table)} ({columns}) VALUES ({places})", stored)


def update_record(
    connection: duckdb.DuckDBPyConnection, table: str, key: str, id: str, values: Mapping[str, Any]
) -> None:
    """Change columns of the record whose ``key`` is ``id``; for the parameters see :func:`insert_record`."""
    assigned = ", ".join(f"{quoted(name)} = ?" for name in values)
    stored = [_stored(value) for value in values.values()]
    connection.execute(f"UPDATE {quoted(table)} SET {assigned} WHERE {quoted(key)} = ?", [*stored, id])


def read_record(connection: duckdb.DuckDBPyConnection, query: str, *values: object) -> dict[str, Any] | None:
    """Return the first row of a query, instants aware; None without rows."""
    found = connection.execute(query, list(values))
    names = [column[0] for column in found.description]
    row = found.fetchone()
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
        Where they are.
    relation : str
        What follows FROM in SQL.
    values : sequence of object
        Of the places ``?`` in it; instants are aware, or naive and in UTC.
    columns : pyarrow.Schema
        What to read.

    Returns
    -------
    pyarrow.Table
        Possibly without rows.
    """
    names = ", ".join(quoted(name) for name in columns.names)
    found = connection.execute(f"SELECT {names} FROM {relation}", [_stored(value) for value in values])
    return found.to_arrow_table().cast(columns)


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
    """Return a page of records with the total of all; for the other parameters see :func:`read_table`.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`: rows and total are from one snapshot.
    sort : str
        Column to order by, nulls last.
    descending : bool
        Whether the greatest come first.
    ties : str
        Column that orders what is equal, ascending.
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


def changes_of(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked for, not None and different from what is stored.

    Examples
    --------
    >>> changes_of({"name": "Brand", "active": True}, {"name": "Brand", "active": False})
    {'active': False}
    """
    return {name: value for name, value in asked.items() if value is not None and value != stored[name]}


def _stored(value: object) -> object:
    return naive(value) if isinstance(value, datetime) else value
