"""Runs SQL that a user wrote, where it can neither write, nor reach anything else, nor go on for long.

What was written is checked first (:mod:`attrib_ds.service.users.sql_check`), and what is run is written anew
from what was checked. It runs in a database of its own in memory, whose settings are locked: no files, no
network, no extensions, little memory and one thread. The project is not in it; the columns that the query
reads flow into it from connections that run no other SQL than that of the views.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.errors import InvalidRequest
from attrib_ds.service.interactions.selection import BATCH_ROWS
from attrib_ds.service.store.ids import HEX_ID
from attrib_ds.service.users.sql_check import admit
from attrib_ds.service.users.sql_views import VIEWS, query_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibis.backends.duckdb import Backend

#: How long a query may run, in seconds (G-096).
SECONDS: Final = 5.0
#: Rows that a query may return (G-096).
MOST_ROWS: Final = 1_000_000
_MEMORY: Final = "256MB"
_SETTINGS: Final = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "memory_limit": _MEMORY,
    # Nothing is written to a disk when memory is short.
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
#: What the engine says of a query in one line, which names nothing but its own columns and functions.
_TOLD: Final = (
    duckdb.BinderException,
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.OutOfRangeException,
)
_LONGEST_MESSAGE: Final = 300


def user_ids(backend: Backend, sql: str) -> pa.Table:
    """Return the ids that a query yields in its first column (R252).

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`; nothing else may run on it meanwhile.
    sql : str
        One SELECT over the views of :data:`attrib_ds.service.users.sql_views.VIEWS`.

    Returns
    -------
    pyarrow.Table
        The column ``_id``: each id once, in no order. Of a user who was merged into another one it is the
        other's. What is no id of a user is left out, and so are ids that the project does not have, as far
        as the caller joins them with its users.

    Raises
    ------
    InvalidRequest
        If the query is not allowed, fails, or takes too long, too much memory or too many rows.

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
    admitted = admit(sql, VIEWS)
    queries = {
        view: query_of(backend, view, columns, limits=admitted.limits.get(view))
        for view, columns in admitted.columns.items()
    }
    with ExitStack() as stack:
        readers = [stack.enter_context(closing(backend.con.cursor())) for _ in range(admitted.tables)]
        _begin(readers)
        sandbox = stack.enter_context(closing(duckdb.connect(config=_SETTINGS)))
        free = iter(readers)
        for view, query in queries.items():
            schema = backend.con.cursor().execute(f"SELECT * FROM ({query}) LIMIT 0").to_arrow_table().schema
            sandbox.register(view, _Scan(query, schema, free))
        for statement in _LOCKING:
            sandbox.execute(statement)
        with _timed([sandbox, *readers]) as is_over:
            try:
                found = _run(sandbox, admitted.text)
            except duckdb.Error as error:
                raise _refusal(error, is_over=is_over.is_set()) from None
    return _resolved(backend, found)


class _Scan:
    """A view as a stream of Arrow, begun anew on a connection of its own by every scan of a query.

    Parameters
    ----------
    query : str
        What to read.
    schema : pyarrow.Schema
        Of its rows.
    free : iterator of duckdb.DuckDBPyConnection
        Connections that no scan uses yet.
    """

    def __init__(self, query: str, schema: pa.Schema, free: Iterator[duckdb.DuckDBPyConnection]) -> None:
        self._query = query
        self._schema = schema
        self._free = free

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = next(self._free).execute(self._query).to_arrow_reader(BATCH_ROWS)
        return reader.__arrow_c_stream__(requested_schema)


def _begin(readers: list[duckdb.DuckDBPyConnection]) -> None:
    """Let all connections see one snapshot: what they read was committed by the same write."""
    while True:
        for reader in readers:
            reader.begin()
        writes = {reader.execute("SELECT writes FROM meta").fetchone() for reader in readers}
        if len(writes) <= 1:
            return
        for reader in readers:
            reader.rollback()


@contextmanager
def _timed(connections: list[duckdb.DuckDBPyConnection]) -> Iterator[threading.Event]:
    """Break off what runs on connections when the time is over, and say so by an event."""
    is_over, is_done = threading.Event(), threading.Event()

    def watch() -> None:
        if is_done.wait(SECONDS):
            return
        is_over.set()
        # Once is not enough: a query that begins just then would go on.
        while not is_done.wait(_SECONDS_BETWEEN):
            for connection in connections:
                connection.interrupt()

    watching = threading.Thread(target=watch, name="attrib-ds sql timer", daemon=True)
    watching.start()
    try:
        yield is_over
    finally:
        is_done.set()
        # A connection must not be closed while it is interrupted.
        watching.join()


def _run(sandbox: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """Return the ids of the first column, whatever it is called."""
    first = f"SELECT CAST(value AS VARCHAR) AS _id FROM ({query}) AS found(value)"
    rows, batches = 0, []
    for batch in sandbox.execute(first).to_arrow_reader(BATCH_ROWS):
        rows += batch.num_rows
        if rows > MOST_ROWS:
            raise _invalid(f"it returns more than {MOST_ROWS:,} rows")
        batches.append(batch.filter(pc.match_substring_regex(batch["_id"], f"^{HEX_ID}$")).cast(_COLUMNS))
    return pa.table({"_id": pa.Table.from_batches(batches, _COLUMNS)["_id"].unique()}, _COLUMNS)


def _resolved(backend: Backend, ids: pa.Table) -> pa.Table:
    """Put those whom users were merged into in their place (G-148)."""
    merged = dict(backend.con.execute("SELECT _id, userId FROM merged_users").fetchall())
    if not merged:
        return ids
    survivors = {merged.get(each, each) for each in ids["_id"].to_pylist()}
    return pa.table({"_id": sorted(survivors)}, _COLUMNS)


def _refusal(error: duckdb.Error, *, is_over: bool) -> InvalidRequest:
    """Say what went wrong without a word of what stands behind the views."""
    if is_over or isinstance(error, duckdb.InterruptException):
        return _invalid(f"it takes longer than {SECONDS:g} seconds")
    if isinstance(error, duckdb.OutOfMemoryException):
        return _invalid(f"it needs more memory than {_MEMORY}")
    if isinstance(error, _TOLD):
        line = str(error).partition("\n")[0].partition(" Error: ")[2]
        return _invalid(f"it fails: {line[:_LONGEST_MESSAGE]}" if line else "it fails")
    return _invalid("it fails")


def _invalid(problem: str) -> InvalidRequest:
    return InvalidRequest(f"sql: {problem}", field="sql")
