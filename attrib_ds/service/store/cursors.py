"""Lends connections to one database, and closes them without interrupting queries of other threads."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import Unavailable
from attrib_ds.service.store.forks import FORKED, abandon_after_fork, leak

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from attrib_ds.service.store.cancellation import Cancellation

#: Message for the use of a closed project.
CLOSED: Final = "the project is closed; connect to it again"

#: Rows per batch of a streamed answer; memory holds one batch at a time.
BATCH_ROWS: Final = 2_048

_SECONDS_AFTER_INTERRUPT: Final = 5.0


@dataclass(frozen=True, eq=False)
class _Open:
    connection: duckdb.DuckDBPyConnection
    thread: threading.Thread
    is_lent: bool


class Connections:
    """The connections of a store, each used by one thread.

    DuckDB crashes when a connection is closed while another thread runs a query on it. So :meth:`close` waits
    for lent connections, and leaves connections kept by other live threads to garbage collection.

    Parameters
    ----------
    root : duckdb.DuckDBPyConnection
        Runs no queries; other connections are created from it.
    """

    def __init__(self, root: duckdb.DuckDBPyConnection) -> None:
        self._root: duckdb.DuckDBPyConnection | None = root
        self._open: list[_Open] = []
        self._changed = threading.Condition()
        self._is_forked = False
        abandon_after_fork(self)

    def abandon(self) -> None:
        """Refuse any further use, in a forked process."""
        self._is_forked = True
        self._changed = threading.Condition()
        for connection in (self._root, *(entry.connection for entry in self._open)):
            leak(connection)
        self._root = None
        self._open = []

    def keep(self) -> duckdb.DuckDBPyConnection:
        """Return a connection for the calling thread, until the store is closed."""
        return self._make(is_lent=False).connection

    @contextmanager
    def lend(self, cancellation: Cancellation) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a connection until the block ends; cancellation interrupts its queries."""
        entry = self._make(is_lent=True)
        try:
            with cancellation.calling(entry.connection.interrupt):
                yield entry.connection
        finally:
            entry.connection.close()
            with self._changed:
                if entry in self._open:
                    self._open.remove(entry)
                self._changed.notify_all()

    def close(self, *, timeout: float) -> None:
        """Close all connections, after waiting for those lent to other threads.

        Parameters
        ----------
        timeout : float
            Seconds after which their queries are interrupted.
        """
        own = threading.current_thread()

        def busy() -> list[_Open]:
            return [entry for entry in self._open if entry.is_lent and entry.thread is not own]

        with self._changed:
            root, self._root = self._root, None
            if root is None:
                return
            if not self._changed.wait_for(lambda: not busy(), timeout):
                for entry in busy():
                    entry.connection.interrupt()
                self._changed.wait_for(lambda: not busy(), _SECONDS_AFTER_INTERRUPT)
            idle = [entry for entry in self._open if entry.thread is own or not entry.thread.is_alive()]
            in_use = [entry for entry in self._open if entry not in idle]
            self._open.clear()
        for entry in idle:
            entry.connection.close()
        if not in_use:
            # Closes all connections created from it.
            root.close()

    def _make(self, *, is_lent: bool) -> _Open:
        with self._changed:
            if self._root is None:
                raise Unavailable(FORKED if self._is_forked else CLOSED)
            entry = _Open(self._root.cursor(), threading.current_thread(), is_lent)
            self._open.append(entry)
            return entry
