"""Definitions of the tables of a project's file, derived from the schemas of the resources."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import duckdb
import pyarrow as pa

from attrib_ds import schema
from attrib_ds.records.sources import quoted

#: Version of the file format, raised with every change of the tables. Files of other versions are refused.
VERSION: Final = 3

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
    return {field.name: kind(field.type) for field in resource if field.name not in without}


#: Columns and their types, by table.
TABLES: Final[dict[str, dict[str, str]]] = {
    "interactions": _columns(schema.INTERACTION),
    # Hits with a tracker were collected, and their sessions are computed (G-190).
    "hits": {
        **_columns(schema.HIT),
        "trackerId": "VARCHAR",
        "referrer": "VARCHAR",
        "nodeId": "VARCHAR",
        "trafficFilterId": "VARCHAR",
        # Whether it opens a session if the session's node is another one.
        "isCampaign": "BOOLEAN",
    },
    # Accepted hits that are not in a session yet; one that was sent again may be here twice.
    "pending_hits": {
        "id": "VARCHAR",
        "trackerId": "VARCHAR",
        "serverDate": "TIMESTAMP",
        "timezoneOffset": "DOUBLE",
        "isBot": "BOOLEAN",
        "userAgent": "VARCHAR",
        "pageUrl": "VARCHAR",
        "referrer": "VARCHAR",
        "hitType": "VARCHAR",
        # Only where a traffic filter captures it.
        "address": "VARCHAR",
        # Of the address, looked up at receipt (G-199).
        **{
            name: kind(schema.HIT.field(name).type)
            for group in ("asn", "geo")
            for name in schema.leaves(schema.HIT, group)
        },
    },
    # Metrics are in their own table; ``attributable`` is computed from interactions.
    "events": {
        **_columns(schema.EVENT, without=frozenset({"attributable", "metrics"})),
        # Version of the event type at validation; null for loaded events (G-076).
        "eventTypeVersion": "INTEGER",
    },
    "metrics": _METRIC,
    # Values replaced by updates (G-068).
    "metric_history": _METRIC,
    # The primary key makes nonces unique and fast to look up. The date is JSON text, as sent.
    "raw_events": {
        **_columns(schema.RAW_EVENT),
        "nonce": "VARCHAR PRIMARY KEY",
        "eventDate": "VARCHAR",
        "fingerprint": "VARCHAR",
    },
    # Accepted raw events that are not yet processed.
    "pending_events": {"_id": "VARCHAR"},
    "trashed_events": _columns(schema.TRASHED_EVENT),
    "event_types": {
        **_columns(
            schema.EVENT_TYPE, without=frozenset(schema.leaves(schema.EVENT_TYPE, "expirationPolicy"))
        ),
        "version": "INTEGER",
        # Retention period of personal values; null for the default of the project (G-208).
        "retentionDurationInDays": "BIGINT",
        "piiFields": "VARCHAR[]",
    },
    # All versions of the fields of event types.
    "event_type_versions": {
        "eventTypeId": "VARCHAR",
        "reference": "VARCHAR",
        "version": "INTEGER",
        "fields": "VARCHAR",
        "createdAt": "TIMESTAMP",
    },
    # Implicit nodes are known only from records that refer to them.
    "nodes": {**_columns(schema.NODE), "implicit": "BOOLEAN"},
    "outlays": _columns(schema.OUTLAY),
    # The node of an integration is the root of its campaigns (G-218).
    "integrations": {**_columns(schema.INTEGRATION), "nodeId": "VARCHAR"},
    "campaigns": _columns(schema.CAMPAIGN),
    # User by identity, such as an email.
    "identities": {"kind": "VARCHAR", "value": "VARCHAR", "userId": "VARCHAR"},
    # Users with at least one event or interaction; their properties are derived.
    "users": {"_id": "VARCHAR", "createdAt": "TIMESTAMP"},
    # Surviving user by id of a merged user, with the data to split them again (G-148, G-149).
    "merged_users": {"_id": "VARCHAR", "userId": "VARCHAR", "mergedAt": "TIMESTAMP", "undo": "VARCHAR"},
    "audiences": {
        "_id": "VARCHAR",
        "projectId": "VARCHAR",
        "name": "VARCHAR",
        "condition": "VARCHAR",
        "createdAt": "TIMESTAMP",
        "updatedAt": "TIMESTAMP",
    },
    # Settings of the project; values are JSON text.
    "settings": {"name": "VARCHAR", "value": "VARCHAR"},
    # Exchange rates to the project's currency, by start date (G-065).
    "rates": {"currency": "VARCHAR", "date": "TIMESTAMP", "rate": "DOUBLE"},
    # Audit log, append-only (G-211).
    "audit": {
        "_id": "VARCHAR",
        "date": "TIMESTAMP",
        "account": "VARCHAR",
        "operation": "VARCHAR",
        "subject": "VARCHAR",
        "details": "VARCHAR",
    },
    # Salted hashes of erased data, which must not return by a repeat or a replay (G-209, G-210).
    "tombstones": {"kind": "VARCHAR", "hash": "VARCHAR", "date": "TIMESTAMP"},
    "meta": _META,
}


def create_statements() -> list[str]:
    """Return the CREATE TABLE statements of a new file.

    Examples
    --------
    >>> create_statements()[-1]  # doctest: +ELLIPSIS
    'CREATE TABLE meta ("schema_version" INTEGER, "project_id" VARCHAR, "currency" VARCHAR, ...
    """
    return [
        f"CREATE TABLE {table} ({', '.join(f'{quoted(name)} {kind}' for name, kind in columns.items())})"
        for table, columns in TABLES.items()
    ]


def differences(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the names of tables that are missing, unexpected, or defined differently from a new file.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Its current database is the file.

    Returns
    -------
    list of str
        Sorted names of tables and views; empty if the definitions match.

    Examples
    --------
    >>> import duckdb
    >>> connection = duckdb.connect()
    >>> for statement in create_statements()[1:]:
    ...     _ = connection.execute(statement)
    >>> differences(connection)
    ['interactions']
    """
    expected = _definitions_of_this_release()
    actual = _definitions(connection)
    return sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))


@cache
def _definitions_of_this_release() -> dict[str, list[Any]]:
    """Return the definitions of a new file, made once in a process; callers must not change them."""
    with duckdb.connect() as fresh:
        for statement in create_statements():
            fresh.execute(statement)
        return _definitions(fresh)


def _definitions(connection: duckdb.DuckDBPyConnection) -> dict[str, list[Any]]:
    """Return the columns and constraints of tables and views."""
    here = "database_name = current_database() AND NOT internal"
    columns = (
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM duckdb_columns() "
        f"WHERE {here}"
    )
    constraints = (
        "SELECT table_name, constraint_text, '', false, '' FROM duckdb_constraints() "
        "WHERE database_name = current_database()"
    )
    definitions: dict[str, list[Any]] = {}
    # The order of columns does not matter.
    for name, *definition in sorted(
        connection.execute(f"{columns} UNION ALL {constraints}").fetchall(), key=str
    ):
        definitions.setdefault(name, []).append(tuple(definition))
    for name in foreign(connection):
        definitions.setdefault(name, []).append("no table")
    return definitions


def foreign(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the names of objects that are not tables: views, macros, indexes, sequences, types, schemas.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Its current database is the file.

    Returns
    -------
    list of str
        Empty for the file of a project.

    Examples
    --------
    >>> import duckdb
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE VIEW users AS SELECT 1 AS _id")
    >>> foreign(connection)
    ['users']
    """
    kinds = {
        "view_name": "duckdb_views() WHERE NOT internal",
        "function_name": "duckdb_functions() WHERE NOT internal",
        "index_name": "duckdb_indexes() WHERE true",
        "sequence_name": "duckdb_sequences() WHERE true",
        "type_name": "duckdb_types() WHERE NOT internal",
        "schema_name": "duckdb_schemas() WHERE NOT internal AND schema_name <> 'main'",
    }
    queries = (
        f"SELECT {name} FROM {kind} AND database_name = current_database()" for name, kind in kinds.items()
    )
    return sorted(name for (name,) in connection.execute(" UNION ALL ".join(queries)).fetchall())
