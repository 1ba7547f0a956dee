"""The tables of a project's file: their definitions, the ids of their records, and access in SQL and Ibis."""

import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any, Final

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
from ibis.backends.duckdb import Backend

from attrib_ds import schema, sql_results
from attrib_ds.contract import Answer, json_values
from attrib_ds.errors import NotFound
from attrib_ds.instants import naive
from attrib_ds.records.sources import quoted

#: Version of the file format, raised with every change of the tables; no number is used twice.
VERSION: Final = 8

_METRIC: Final = {
    **dict.fromkeys(("_id", "projectId", "eventId", "key", "type", "dataType"), "VARCHAR"),
    "date": "TIMESTAMP",
    "number": "DOUBLE",
    "amount": "DECIMAL(24,6)",
    # JSON text of a number as it was sent, null where that is the number itself.
    **dict.fromkeys(("currency", "raw"), "VARCHAR"),
    "anonymized": "BOOLEAN",
    "invalid": "BOOLEAN",
    **dict.fromkeys(("createdAt", "updatedAt", "deletedAt"), "TIMESTAMP"),
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
    # Hits with a tracker were collected, and their sessions are computed.
    "hits": {
        **_columns(schema.HIT),
        **dict.fromkeys(("trackerId", "referrer", "nodeId", "trafficFilterId"), "VARCHAR"),
        # Whether it opens a session if the session's node is another one, and whether it ever was the first
        # of one.
        **dict.fromkeys(("isCampaign", "isOpening"), "BOOLEAN"),
        "ingestedAt": "TIMESTAMP",
        # Whether a text was longer than is kept.
        "truncated": "BOOLEAN",
    },
    # Accepted hits that are not in a session yet; one that was sent again may be here twice.
    "pending_hits": {
        "id": "VARCHAR",
        "trackerId": "VARCHAR",
        **dict.fromkeys(("serverDate", "ingestedAt"), "TIMESTAMP"),
        "timezoneOffset": "DOUBLE",
        **dict.fromkeys(("isBot", "truncated"), "BOOLEAN"),
        # The address only where a traffic filter captures it.
        **dict.fromkeys(("userAgent", "pageUrl", "referrer", "hitType", "address"), "VARCHAR"),
        # Of the address, looked up at receipt.
        **{
            name: kind(schema.HIT.field(name).type)
            for group in ("asn", "geo")
            for name in schema.leaves(schema.HIT, group)
        },
    },
    # Accepted hits that could not be read, and are not tried again.
    "trashed_hits": {
        **dict.fromkeys(("id", "trackerId", "userAgent", "pageUrl", "referrer", "reason"), "VARCHAR"),
        **dict.fromkeys(("serverDate", "trashedAt"), "TIMESTAMP"),
    },
    # Parts of raw hits that were read; the answer is that of a portion that a client sent, for a day.
    "loaded_parts": {"name": "VARCHAR", "size": "BIGINT", "answer": "VARCHAR", "date": "TIMESTAMP"},
    # Metrics are in their own table; ``attributable`` is computed from interactions.
    "events": {
        **_columns(schema.EVENT, without=frozenset({"attributable", "metrics"})),
        # Version of the event type at validation; null for loaded events.
        "eventTypeVersion": "INTEGER",
        # Whether it came without a token; null for loaded events.
        "isAnonymous": "BOOLEAN",
    },
    "metrics": _METRIC,
    # Values replaced by updates.
    "metric_history": _METRIC,
    # The primary key makes nonces unique and fast to look up. The date is JSON text, as sent.
    "raw_events": {
        **_columns(schema.RAW_EVENT),
        "nonce": "VARCHAR PRIMARY KEY",
        **dict.fromkeys(("eventDate", "fingerprint"), "VARCHAR"),
        "isAnonymous": "BOOLEAN",
    },
    # Accepted raw events that are not yet processed.
    "pending_events": {"_id": "VARCHAR"},
    "trashed_events": _columns(schema.TRASHED_EVENT),
    "event_types": {
        **_columns(
            schema.EVENT_TYPE, without=frozenset(schema.leaves(schema.EVENT_TYPE, "expirationPolicy"))
        ),
        "version": "INTEGER",
        # Retention period of personal values; null for the default of the project.
        "retentionDurationInDays": "BIGINT",
        "piiFields": "VARCHAR[]",
    },
    # All versions of the fields of event types.
    "event_type_versions": {
        **dict.fromkeys(("eventTypeId", "reference"), "VARCHAR"),
        "version": "INTEGER",
        "fields": "VARCHAR",
        "createdAt": "TIMESTAMP",
    },
    # Implicit nodes are known only from records that refer to them.
    "nodes": {**_columns(schema.NODE), "implicit": "BOOLEAN"},
    "outlays": _columns(schema.OUTLAY),
    # The node of an integration is the root of its campaigns.
    "integrations": {**_columns(schema.INTEGRATION), "nodeId": "VARCHAR"},
    # The slug that the campaign's text has by today's rule, if its own is another one.
    "campaigns": {**_columns(schema.CAMPAIGN), "textSlug": "VARCHAR"},
    # User by identity, such as an email, and whether only anonymous data have shown it.
    "identities": {**dict.fromkeys(("kind", "value", "userId"), "VARCHAR"), "isAnonymous": "BOOLEAN"},
    # Users with at least one event or interaction; their properties are derived.
    "users": {"_id": "VARCHAR", "createdAt": "TIMESTAMP"},
    # Surviving user by id of a merged user, with the data to split them again.
    "merged_users": {"_id": "VARCHAR", "userId": "VARCHAR", "mergedAt": "TIMESTAMP", "undo": "VARCHAR"},
    "audiences": {
        **dict.fromkeys(("_id", "projectId", "name", "condition"), "VARCHAR"),
        **dict.fromkeys(("createdAt", "updatedAt"), "TIMESTAMP"),
    },
    # Settings of the project; values are JSON text.
    "settings": {"name": "VARCHAR", "value": "VARCHAR"},
    # Exchange rates to the project's currency, by start date.
    "rates": {"currency": "VARCHAR", "date": "TIMESTAMP", "rate": "DOUBLE"},
    # Audit log, append-only.
    "audit": {
        "_id": "VARCHAR",
        "date": "TIMESTAMP",
        **dict.fromkeys(("account", "operation", "subject", "details"), "VARCHAR"),
    },
    # Salted hashes of erased data, which must not return by a repeat or a replay.
    "tombstones": {"kind": "VARCHAR", "hash": "VARCHAR", "date": "TIMESTAMP"},
    "meta": {
        "schema_version": "INTEGER",
        **dict.fromkeys(("project_id", "currency", "timezone"), "VARCHAR"),
        "created_at": "TIMESTAMP",
        "writes": "BIGINT",
    },
}


@cache
def create_statement(table: str) -> str:
    """Return the CREATE TABLE statement of a table.

    Examples
    --------
    >>> create_statement("settings")
    'CREATE TABLE settings ("name" VARCHAR, "value" VARCHAR)'
    """
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in TABLES[table].items())
    return f"CREATE TABLE {table} ({columns})"


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
    >>> for table in TABLES.keys() - {"interactions"}:
    ...     _ = connection.execute(create_statement(table))
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
        for table in TABLES:
            fresh.execute(create_statement(table))
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
    rows = connection.execute(f"{columns} UNION ALL {constraints}").fetchall()
    # The order of columns does not matter.
    for name, *definition in sorted(rows, key=str):
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


#: Pattern of the ids of interactions and users.
HEX_ID: Final = "[a-f0-9]{24}"
#: Pattern of the ids of events and hits.
UUID: Final = "[a-fA-F0-9]{8}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{12}"

_COUNTER_BITS: Final = 24


class HexIds:
    """Generates ids of 4 bytes of time, 5 random bytes and a 3-byte counter.

    Ids of one generator are strictly increasing, even if the clock steps back or more than 16 million are
    generated in a second.

    Examples
    --------
    >>> ids = HexIds()
    >>> first, second = ids.new(), ids.new()
    >>> len(first), first < second
    (24, True)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._random = secrets.token_hex(5)
        # Seconds and counter as one number, so that a full counter carries over into the seconds.
        self._last = -1

    def new(self) -> str:
        """Return a new id."""
        number = self._take(1)
        counter = number & ((1 << _COUNTER_BITS) - 1)
        return f"{number >> _COUNTER_BITS:08x}{self._random}{counter:06x}"

    def many(self, position: str, *, count: int) -> str:
        """Return a SQL expression that generates one id per row.

        Parameters
        ----------
        position : str
            SQL expression that numbers the rows, from 0.
        count : int
            Number of ids to reserve; ``position`` must be below it.

        Returns
        -------
        str
            SQL expression of type VARCHAR.

        Examples
        --------
        >>> import duckdb
        >>> query = f"SELECT {HexIds().many('range', count=3)} AS id FROM range(3)"
        >>> ids = [id for (id,) in duckdb.connect().execute(query).fetchall()]
        >>> ids == sorted(set(ids))
        True
        """
        number = f"({self._take(count)} + {position})"
        counter = f"{number} & {(1 << _COUNTER_BITS) - 1}"
        return f"format('{{:08x}}{self._random}{{:06x}}', {number} >> {_COUNTER_BITS}, {counter})"

    def _take(self, count: int) -> int:
        with self._lock:
            first = max(int(time.time()) << _COUNTER_BITS, self._last + 1)
            self._last = first + count - 1
            return first


class Uuids:
    """Generates UUIDs of version 7, sortable by creation to the millisecond (RFC 9562).

    The operating system is asked for randomness once: each of its calls hands the interpreter to another
    thread, which costs a busy server more than the id.

    Examples
    --------
    >>> Uuids().new()[14]  # the digit of the version
    '7'
    """

    def __init__(self) -> None:
        self._random = Random(secrets.randbits(256))  # noqa: S311  (ids are not secret)

    def new(self) -> str:
        """Return a new UUID."""
        bits = self._random.getrandbits(74)
        number = (time.time_ns() // 1_000_000 << 80) | (0x7 << 76) | (bits >> 62 << 64) | (0b10 << 62)
        digits = f"{number | bits & ((1 << 62) - 1):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_uuid() -> str:
    """Return a UUID of version 7 from a generator of its own.

    Examples
    --------
    >>> len(new_uuid())
    36
    """
    return Uuids().new()


#: Number of records up to which parameters are faster than Arrow.
_FEW: Final = 64
_COLUMN_TYPES: Final = (
    *(pa.string(), pa.list_(pa.string()), pa.timestamp("us"), pa.float64(), pa.bool_(), pa.int64()),
    pa.decimal128(24, 6),
)
_TYPES: Final = {kind(column): column for column in _COLUMN_TYPES} | {"INTEGER": pa.int32()}


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
def arrow_view(
    connection: duckdb.DuckDBPyConnection, rows: pa.Table, view: str = "arrow_rows"
) -> Iterator[str]:
    """Register an Arrow table as a view for the length of the block; yields the view's name."""
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
    row = next(iter(result.fetchall()), None)
    if row is None:
        return None
    return {
        name: value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
        for name, value in zip(names, row, strict=True)
    }


def read_setting(connection: duckdb.DuckDBPyConnection, name: str) -> Any:
    """Return a stored setting; None if there is none of the name."""
    row = sql_results.read_row(connection, "SELECT value FROM settings WHERE name = ?", [name])
    return None if row is None else json.loads(row[0])


def write_setting(connection: duckdb.DuckDBPyConnection, name: str, value: object) -> None:
    """Store a setting in place of the one of its name; None removes it."""
    connection.execute("DELETE FROM settings WHERE name = ?", [name])
    if value is not None:
        connection.execute("INSERT INTO settings VALUES (?, ?)", [name, json_values.encode(value)])


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
    query = f"SELECT {names} FROM {relation}"
    return sql_results.read_arrow(connection, query, [_stored(value) for value in values]).cast(columns)


def read_one(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    values: Sequence[object],
    columns: pa.Schema,
    missing: str,
) -> Answer:
    """Return the one record of a relation, as :func:`read_table` does.

    Raises
    ------
    NotFound
        With the text ``missing``, if there is none.
    """
    table = read_table(connection, relation, values, columns)
    if not table.num_rows:
        raise NotFound(missing)
    return Answer.of(table)


def read_page(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    conditions: Mapping[str, object],
    columns: pa.Schema,
    request: Any,
    *,
    sort: Mapping[str, int],
    ties: str = "_id",
) -> Answer:
    """Return a page of the records that meet conditions, and how many do.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction, so that rows and total come from one snapshot.
    table : str
        Name of a table, or a query in parentheses.
    conditions : mapping of str to object
        SQL with one parameter each, and the parameter, or a function of the connection that returns it; those
        with None do not count.
    columns : pyarrow.Schema
        Columns to read.
    request : Request
        With ``offset`` and ``limit``.
    sort : mapping of str to int
        Columns to order by, 1 ascending or -1 descending; nulls last.
    ties : str
        Column that breaks ties, ascending.
    """
    where, values = filtered(connection, conditions)
    relation = f"{table} WHERE {where}"
    ((total,),) = connection.execute(f"SELECT count(*) FROM {relation}", values).fetchall()
    keys = {**sort, ties: sort.get(ties, 1)}.items()
    order = ", ".join(f"{quoted(name)} {'ASC' if way == 1 else 'DESC'} NULLS LAST" for name, way in keys)
    most = "" if request.limit is None else f"LIMIT {request.limit}"
    ordered = f"{relation} ORDER BY {order} {most} OFFSET {request.offset}"
    page = read_table(connection, ordered, values, columns)
    return Answer.of(page, total=total, offset=request.offset, limit=request.limit)


def filtered(
    connection: duckdb.DuckDBPyConnection, conditions: Mapping[str, object]
) -> tuple[str, list[object]]:
    """Return the SQL and the parameters of conditions; see :func:`read_page`."""
    given = {condition: value for condition, value in conditions.items() if value is not None}
    values = [_stored(value(connection) if callable(value) else value) for value in given.values()]
    return " AND ".join(given) or "true", values


def sorting(request: Any, default: str, columns: Mapping[str, str]) -> dict[str, int]:
    """Return the column that a request sorts by, and 1 or -1; some names are those of other columns."""
    name = request.sort or default
    return {columns.get(name, name): -1 if request.order == "DESC" else 1}


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


def sql_table(backend: Backend, query: str) -> ir.Table:
    """Return the rows of a SQL query as an Ibis table.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    query : str
        SQL.

    Returns
    -------
    ibis.Table
        The rows of the query.
    """
    # Without a schema, `sql` of Ibis 12 reads the columns by a call that DuckDB 1.5 deprecates.
    columns = sql_results.read_arrow(backend.con, f"SELECT * FROM ({query}) AS query LIMIT 0").schema
    return backend.sql(query, schema=ibis.Schema.from_pyarrow(columns))
