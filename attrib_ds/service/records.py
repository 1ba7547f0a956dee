"""Writes single records into the tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrib_ds.sources import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb


def insert_record(connection: duckdb.DuckDBPyConnection, table: str, values: Mapping[str, Any]) -> None:
    """Insert one record; columns that are not named are null.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    table : str
        One of the store's tables.
    values : mapping of str to object
        Column to value; instants are aware.
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


def changes_of(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked for, not None and different from what is stored.

    Examples
    --------
    >>> changes_of({"name": "Brand", "active": True}, {"name": "Brand", "active": False})
    {'active': False}
    """
    return {name: value for name, value in asked.items() if value is not None and value != stored[name]}


def _stored(value: object) -> object:
    """Return an instant as the store holds it: in UTC, without a zone."""
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value
