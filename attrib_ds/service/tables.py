"""The tables of a project's file, derived from the schemas of the resources."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.sources import quoted

#: Raised with every change of the tables; a file of a greater version is not opened.
VERSION: Final = 1

_METRIC: Final = {
    "_id": "VARCHAR",
    "projectId": "VARCHAR",
    "eventId": "VARCHAR",
    "key": "VARCHAR",
    "type": "VARCHAR",
    "dataType": "VARCHAR",
    "date": "TIMESTAMP",
    "number": "DOUBLE",
    "amount": "DECIMAL(24,6)",
    "currency": "VARCHAR",
    "anonymized": "BOOLEAN",
    "invalid": "BOOLEAN",
    "createdAt": "TIMESTAMP",
    "updatedAt": "TIMESTAMP",
    "deletedAt": "TIMESTAMP",
}
_META: Final = {
    "schema_version": "INTEGER",
    "project_id": "VARCHAR",
    "currency": "VARCHAR",
    "timezone": "VARCHAR",
    "created_at": "TIMESTAMP",
    "writes": "BIGINT",
}


def kind(column: pa.DataType) -> str:
    """Return the DuckDB type that holds an Arrow type; instants are UTC without a zone.

    Examples
    --------
    >>> kind(schema.INSTANT), kind(schema.AMOUNT), kind(pa.list_(pa.string()))
    ('TIMESTAMP', 'DECIMAL(24,6)', 'VARCHAR[]')
    """
    if pa.types.is_list(column):
        return f"{kind(column.value_type)}[]"
    if pa.types.is_timestamp(column):
        return "TIMESTAMP"
    if pa.types.is_decimal(column):
        return f"DECIMAL({column.precision},{column.scale})"
    return {"string": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN"}[str(column)]


def _columns(resource: pa.Schema, *, without: frozenset[str] = frozenset()) -> dict[str, str]:
    return {each.name: kind(each.type) for each in resource if each.name not in without}


#: Columns and their types, by table.
TABLES: Final[dict[str, dict[str, str]]] = {
    "interactions": _columns(schema.INTERACTION),
    "hits": _columns(schema.HIT),
    # Metrics have a table of their own; whether an event is attributable follows from the interactions.
    "events": _columns(schema.EVENT, without=frozenset({"attributable", "metrics"})),
    "metrics": _METRIC,
    # A node is implicit when only a record that names it is known.
    "nodes": {**_columns(schema.NODE), "implicit": "BOOLEAN"},
    "outlays": _columns(schema.OUTLAY),
    "meta": _META,
}


def create_statements() -> list[str]:
    """Return the SQL that makes the tables of a new file, one statement per table.

    Examples
    --------
    >>> create_statements()[-1]  # doctest: +ELLIPSIS
    'CREATE TABLE meta ("schema_version" INTEGER, "project_id" VARCHAR, "currency" VARCHAR, ...
    """
    return [
        f"CREATE TABLE {table} ({', '.join(f'{quoted(name)} {kind}' for name, kind in columns.items())})"
        for table, columns in TABLES.items()
    ]
