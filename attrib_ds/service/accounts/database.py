"""The SQLite file of the accounts.

SQLite because DuckDB allows only one process to open a file, but keys are created and revoked on the command
line while a server runs.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.errors import Unavailable
from attrib_ds.service.store.private_files import create_private_file, create_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VERSION: Final = 1
_SECONDS_TO_WAIT: Final = 10.0

_TABLES: Final = (
    """CREATE TABLE accounts (
        client_id TEXT PRIMARY KEY, email TEXT NOT NULL UNIQUE, scopes TEXT NOT NULL,
        all_projects INTEGER NOT NULL, created_at REAL NOT NULL, revoked_at REAL
    )""",
    """CREATE TABLE grants (
        client_id TEXT NOT NULL REFERENCES accounts, project_id TEXT NOT NULL,
        PRIMARY KEY (client_id, project_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE keys (
        key_id TEXT PRIMARY KEY, client_id TEXT NOT NULL REFERENCES accounts, public_key TEXT NOT NULL,
        created_at REAL NOT NULL, expires_at REAL, revoked_at REAL
    )""",
    """CREATE TABLE tokens (
        hash BLOB PRIMARY KEY, key_id TEXT NOT NULL REFERENCES keys, scopes TEXT NOT NULL,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX tokens_by_expiry ON tokens (expires_at)",
    # Assertions that may be used only once.
    """CREATE TABLE assertions (
        client_id TEXT NOT NULL REFERENCES accounts, hash BLOB NOT NULL, expires_at REAL NOT NULL,
        PRIMARY KEY (client_id, hash)
    ) WITHOUT ROWID""",
    "CREATE INDEX assertions_by_expiry ON assertions (expires_at)",
    # One row, written by the readiness check.
    "CREATE TABLE pulse (id INTEGER PRIMARY KEY CHECK (id = 1), beat REAL NOT NULL)",
)


class Database:
    """One file with a read and a write connection, each used by one thread at a time.

    Parameters
    ----------
    path : Path
        The file; created if it does not exist, readable only by its owner.

    Raises
    ------
    Unavailable
        If the file cannot be opened, is not such a database or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading, self._writing = threading.Lock(), threading.Lock()
        with self._translated():
            create_private_folder(path.parent)
            create_private_file(path)
            self._writer = _connect(path)
            self._reader = _connect(path)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Yield the read connection; each query sees the data committed before it."""
        with self._reading, self._translated():
            yield self._reader

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Yield the write connection in a transaction that commits unless the block raises."""
        with self._writing, self._translated():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._reading, self._writing:
            self._reader.close()
            self._writer.close()

    def _prepare(self) -> None:
        with self.write() as connection:
            version = _only(connection.execute("PRAGMA user_version"))
            if version == 0:
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
        if version > _VERSION:
            raise Unavailable(f"{str(self._path)!r} was written by a newer version; upgrade attrib-ds")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"the accounts in {str(self._path)!r} cannot be used: {error}") from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False
    )
    try:
        # With a write-ahead log, readers and the writer never block each other, also across processes.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _only(cursor: sqlite3.Cursor) -> Any:
    return cursor.fetchone()[0]
