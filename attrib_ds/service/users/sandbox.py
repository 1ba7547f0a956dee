"""Runs users' SQL over flat views in a sandbox, without write access and with limits on time and memory."""

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection as Connection
from ibis.backends.duckdb import Backend

from attrib_ds import errors, schema, sql_results
from attrib_ds.records.sources import quoted
from attrib_ds.service.sql import admit
from attrib_ds.service.store.connections import BATCH_ROWS, Cancellation
from attrib_ds.service.store.tables import HEX_ID
from attrib_ds.service.users import properties, user_fields

#: Time limit of a query, in seconds, its validation included.
SECONDS: Final = 5.0
#: Maximum number of rows of a query.
MOST_ROWS: Final = 1_000_000
_MEMORY: Final = "256MB"
_SETTINGS: Final = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "memory_limit": _MEMORY,
    # Never spill to disk.
    "temp_directory": "",
    "threads": "1",
}
_LOCKING: Final = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
)
_SECONDS_BETWEEN: Final = 0.1
_COLUMNS: Final = pa.schema([("_id", pa.string())])
#: Errors whose message mentions nothing but the query.
_REPORTED: Final = (
    duckdb.BinderException,
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.OutOfRangeException,
)
_LONGEST_MESSAGE: Final = 300


def user_ids(backend: Backend, sql: str, cancellation: Cancellation | None = None) -> pa.Table:
    """Return the user ids in the first column of a query.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`; must not be used concurrently.
    sql : str
        One SELECT over the views of :data:`attrib_ds.service.users.sandbox.VIEWS`.
    cancellation : Cancellation, optional
        Interrupts the query too.

    Returns
    -------
    pyarrow.Table
        The column ``_id``: distinct ids in no order, merged users replaced by their survivors. Values that
        are not ids are left out; ids that the project does not have may occur.

    Raises
    ------
    InvalidRequest
        If the query is not allowed, fails, or exceeds a limit.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> with store.read() as backend:
    ...     user_ids(backend, "SELECT repeat('x', 1000000000)")
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: sql: the function 'repeat' is not allowed
    >>> store.close()
    """
    until = time.monotonic() + SECONDS
    admitted = admit(sql, VIEWS)
    with ExitStack() as stack:
        readers = [stack.enter_context(closing(backend.con.cursor())) for _ in range(admitted.tables)]
        _begin(readers)
        sandbox = stack.enter_context(closing(duckdb.connect(config=_SETTINGS)))
        free = iter(readers)
        for view, columns in admitted.columns.items():
            query = _view_query(backend.con, view, columns, admitted.keys)
            empty = sql_results.read_arrow(backend.con, f"SELECT * FROM ({query}) LIMIT 0")
            sandbox.register(view, _Scan(query, empty.schema, free))
        for statement in _LOCKING:
            sandbox.execute(statement)
        interrupts = [connection.interrupt for connection in (sandbox, *readers)]
        with (
            (cancellation or Cancellation()).calling(*interrupts),
            _timed([sandbox, *readers], until) as is_over,
        ):
            try:
                ids = _run(sandbox, admitted.text)
            # While rows are fetched, Arrow carries errors of the engine as its own.
            except (duckdb.Error, OSError, pa.ArrowException) as error:
                raise _refusal(error, is_over=is_over.is_set()) from None
    return _resolved(backend, ids)


class _Scan:
    """A view as an Arrow stream; each scan of the query opens a new one on its own connection.

    Parameters
    ----------
    query : str
        Query of the view.
    schema : pyarrow.Schema
        Schema of the view.
    free : iterator of duckdb.DuckDBPyConnection
        Unused connections.
    """

    def __init__(self, query: str, schema: pa.Schema, free: Iterator[Connection]) -> None:
        self._query = query
        self._schema = schema
        self._free = free

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = sql_results.read_batches(next(self._free), self._query, BATCH_ROWS)
        return reader.__arrow_c_stream__(requested_schema)


def _begin(readers: list[Connection]) -> None:
    """Begin transactions of one snapshot on all connections: all read the same number of writes."""
    while True:
        for reader in readers:
            reader.begin()
        writes = {sql_results.read_row(reader, "SELECT writes FROM meta") for reader in readers}
        if len(writes) <= 1:
            return
        for reader in readers:
            reader.rollback()


@contextmanager
def _timed(connections: list[Connection], until: float) -> Iterator[threading.Event]:
    """Interrupt queries on connections at a monotonic time; yields an event that is set then."""
    is_over, is_done = threading.Event(), threading.Event()

    def watch() -> None:
        if is_done.wait(until - time.monotonic()):
            return
        is_over.set()
        # Repeatedly: a query that starts at the same time misses a single interrupt.
        while not is_done.wait(_SECONDS_BETWEEN):
            for connection in connections:
                connection.interrupt()

    watching = threading.Thread(target=watch, name="attrib-ds sql timer", daemon=True)
    watching.start()
    try:
        yield is_over
    finally:
        is_done.set()
        # A connection must not be closed during an interrupt.
        watching.join()


def _run(sandbox: Connection, query: str) -> pa.Table:
    """Run the query; return the ids in its first column."""
    first = f"SELECT CAST(value AS VARCHAR) AS _id FROM ({query}) AS found(value)"
    rows, batches = 0, []
    for batch in sql_results.read_batches(sandbox, first, BATCH_ROWS):
        rows += batch.num_rows
        if rows > MOST_ROWS:
            raise _invalid(f"it returns more than {MOST_ROWS:,} rows")
        batches.append(batch.filter(pc.match_substring_regex(batch["_id"], f"^{HEX_ID}$")).cast(_COLUMNS))
    return pa.table({"_id": pa.Table.from_batches(batches, _COLUMNS)["_id"].unique()}, _COLUMNS)


def _resolved(backend: Backend, ids: pa.Table) -> pa.Table:
    """Replace merged users by their survivors."""
    merged = dict(backend.con.execute("SELECT _id, userId FROM merged_users").fetchall())
    if not merged:
        return ids
    survivors = {merged.get(id, id) for id in ids["_id"].to_pylist()}
    return pa.table({"_id": sorted(survivors)}, _COLUMNS)


def _refusal(error: Exception, *, is_over: bool) -> errors.InvalidRequest:
    """Translate an error without revealing the tables behind the views."""
    if is_over or isinstance(error, duckdb.InterruptException) or str(error).startswith("INTERRUPT"):
        return _invalid(f"it takes longer than {SECONDS:g} seconds")
    if isinstance(error, duckdb.OutOfMemoryException) or str(error).startswith("Out of Memory"):
        return _invalid(f"it needs more memory than {_MEMORY}")
    if isinstance(error, _REPORTED):
        line = str(error).partition("\n")[0].partition(" Error: ")[2]
        return _invalid(f"it fails: {line[:_LONGEST_MESSAGE]}" if line else "it fails")
    return _invalid("it fails")


def _invalid(problem: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(f"sql: {problem}")


#: Columns by view, its key first. Documented in docs/how-to/users-by-sql.md.
VIEWS: Final[dict[str, tuple[str, ...]]] = {
    "users": (
        "_id", "createdAt", "updatedAt", "eventCount", "firstEventDate", "lastEventDate", "interactionCount",
        "hitCount", "averageHitCount", "interactionDuration", "averageInteractionDuration",
        "firstInteractionDate", "lastInteractionDate", "firstInteractionNodeId", "lastInteractionNodeId",
    ),
    "user_fields": ("userId", "key", "type", "value", "date", "source", "sourceId"),
    "events": ("_id", "userId", "eventType", "eventDate", "createdAt", "updatedAt", "event"),
    "metrics": (
        "_id", "eventId", "userId", "eventType", "key", "type", "date", "number", "amount", "currency",
        "createdAt", "updatedAt",
    ),
    # Personal columns are in the view of user fields.
    "interactions": tuple(name for name in schema.INTERACTION.names if name not in schema.ON_REQUEST),
}  # fmt: skip


def _view_query(connection: Connection, view: str, columns: Sequence[str], keys: Iterable[str] | None) -> str:
    """Return the query of a view that computes only the requested columns, and user fields of the keys."""
    source = f"SELECT * FROM {view}"
    if view == "users":
        source = properties.properties_query(user_fields.ProjectKeys(connection), "users", columns)
    elif view == "user_fields":
        known = None if keys is None else [key for key in keys if re.fullmatch(user_fields.KEY, key)]
        values = user_fields.field_values(user_fields.ProjectKeys(connection), "users", keys=known)
        source = f"SELECT *, {user_fields.text_of('current')} AS value FROM ({values}) AS field_values"
    elif view == "metrics":
        of_event = (
            "JOIN (SELECT _id AS event, userId, eventType FROM events) AS own_events ON eventId = event"
            if {"userId", "eventType"} & set(columns)
            else ""
        )
        source = f"SELECT * FROM metrics {of_event} WHERE deletedAt IS NULL"
    return f"SELECT {', '.join(map(quoted, columns))} FROM ({source}) AS {view}"
