"""Connections to one DuckDB in memory, which the process shares, because starting DuckDB takes 40 ms."""

import atexit
import ctypes
import itertools
import os
import tempfile
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path

import duckdb

_numbers = itertools.count()


def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection whose settings of the session and temporary tables are its own.

    Returns
    -------
    duckdb.DuckDBPyConnection
        Create nothing on it that is not temporary: all connections of the process would share it.

    Examples
    --------
    >>> connection, other = connect(), connect()
    >>> _ = connection.execute("CREATE TEMP TABLE rows AS SELECT 1 AS visits")
    >>> other.execute("SHOW TABLES").fetchall()
    []
    """
    process = os.getpid()
    connection = _database(process).cursor()
    try:
        connection.execute("SELECT 1").fetchall()
    except duckdb.FatalException:
        # An internal error of DuckDB ends a database for good.
        _database.cache_clear()
        connection = _database(process).cursor()
    return connection


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """Open the database of a process; a forked one cannot use that of its parent, whose threads it lacks."""
    connection = start_duckdb()
    # Only the process that opened it may close it, so a forked one must not run its destructor.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    atexit.register(lambda: connection.close() if os.getpid() == process else None)
    return connection


def open_database() -> duckdb.DuckDBPyConnection:
    """Return a connection to a new database in memory, which is dropped with the connection.

    Examples
    --------
    >>> connection, other = open_database(), open_database()
    >>> for each in (connection, other):
    ...     _ = each.execute("CREATE TABLE rows AS SELECT 1 AS visits")
    """
    connection = connect()
    name = f"scratch_{next(_numbers)}"
    connection.execute(f"ATTACH ':memory:' AS {name}; USE {name}")
    weakref.finalize(connection, _drop, name, os.getpid()).atexit = False
    return connection


def _drop(name: str, process: int) -> None:
    # Ended by an internal error, or, in a forked process, the parent's.
    with suppress(duckdb.Error):
        if os.getpid() == process:
            connect().execute(f"DETACH DATABASE IF EXISTS {name}")


def start_duckdb() -> duckdb.DuckDBPyConnection:
    """Start another DuckDB in memory, with settings of its own; it spills to the folder for temporary files.

    Returns
    -------
    duckdb.DuckDBPyConnection
        DuckDB ends with its last connection.
    """
    connection = duckdb.connect()
    # The default is the working directory.
    spill_folder = Path(tempfile.gettempdir()) / f"attrib_ds.{id(connection):x}.tmp"
    connection.execute("SET temp_directory = ?", [str(spill_folder)])
    # In notebooks, DuckDB would draw a bar of its own into the output. Cursors inherit the setting.
    connection.execute("SET enable_progress_bar = false")
    return connection
