"""Connections of a store: those lent to readers, whose queries can be cancelled, and the one that writes."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb

from attrib_ds.errors import Unavailable
from attrib_ds.service.store import files, threads


class Cancellation:
    """A cancellation token: stops the running steps of one request. Thread-safe.

    Attributes
    ----------
    is_cancelled : bool
        Whether :meth:`cancel` was called.

    Examples
    --------
    >>> cancellation = Cancellation()
    >>> with cancellation.calling(lambda: print("interrupted")):
    ...     cancellation.cancel()
    interrupted
    >>> with cancellation.calling(print):
    ...     pass
    Traceback (most recent call last):
        ...
    attrib_ds.errors.Unavailable: the request was cancelled
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Callable[[], object]] = []
        self.is_cancelled = False

    @contextmanager
    def calling(self, *stop: Callable[[], object]) -> Iterator[None]:
        """Call functions on cancellation while the block runs, and never after it.

        Parameters
        ----------
        *stop : callable
            Stops the block from another thread and returns at once.

        Raises
        ------
        Unavailable
            If the request is cancelled already.
        """
        with self._lock:
            if self.is_cancelled:
                raise Unavailable("the request was cancelled")
            self._calls += stop
        try:
            yield
        finally:
            with self._lock:
                for call in stop:
                    self._calls.remove(call)

    def cancel(self) -> None:
        """Stop the running steps and refuse further ones.

        Repeat it until the request has ended: DuckDB forgets an interrupt that arrives just before a query.
        """
        with self._lock:
            self.is_cancelled = True
            for call in self._calls:
                call()


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
        threads.abandon_after_fork(self)

    def abandon(self) -> None:
        """Refuse any further use, in a forked process."""
        self._is_forked = True
        self._changed = threading.Condition()
        for connection in (self._root, *(entry.connection for entry in self._open)):
            threads.leak(connection)
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
                raise Unavailable(threads.FORKED if self._is_forked else threads.CLOSED)
            entry = _Open(self._root.cursor(), threading.current_thread(), is_lent)
            self._open.append(entry)
            return entry


T = TypeVar("T")

_MAX_QUEUED: Final = 1_024
_MAX_GROUP: Final = 256
_SECONDS_TO_QUEUE: Final = 60.0
_SECONDS_TO_RETRY: Final = 60.0
#: Size of the write-ahead log, in bytes, that triggers a checkpoint, and free disk space required per byte.
_LARGEST_LOG: Final = 16 * 2**20
_FREE_SPACE_PER_BYTE: Final = 4


class Writer:
    """Accepts write jobs from any thread and commits queued jobs together.

    DuckDB makes a transaction durable with one flush of the file, however large it is; so jobs submitted
    during a transaction share the next one. DuckDB has no savepoints: if one job of a group fails, the group
    is rolled back and its jobs run one by one, so a job may run twice.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Used by this writer only, and closed by it.
    name : str
        Name of the thread.
    file : Path, optional
        File of the database, for checkpoints.
    counter : WriteCounter, optional
        Counts the transactions; closed by the writer.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        *,
        name: str,
        file: Path | None = None,
        counter: files.WriteCounter | None = None,
    ) -> None:
        self._connection = connection
        self._file = file
        self._counter = counter
        self._batches: threads.Batches[Callable[[duckdb.DuckDBPyConnection], Any], Any] = threads.Batches(
            self._run,
            name=name,
            most_waiting=_MAX_QUEUED,
            largest=_MAX_GROUP,
            patience=_SECONDS_TO_QUEUE,
            afterwards=self._checkpoint_if_due,
        )
        threads.abandon_after_fork(self)

    def abandon(self) -> None:
        """Keep the connection open in a forked process: closing it would write to the parent's file."""
        threads.leak(self._connection)

    def submit(self, job: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run a job in a transaction and return its result after the commit.

        Parameters
        ----------
        job : callable
            Takes the connection; must not begin, commit or roll back, and may run more than once.

        Returns
        -------
        object
            Result of the job.

        Raises
        ------
        Unavailable
            If the writer is closed, or the queue stays full for a minute.
        ServiceFailure
            If the database failed; the job was rolled back.
        """
        if self._batches.is_current:
            raise RuntimeError("a write job cannot wait for another one: it would wait for itself")
        result: T = self._batches.submit(job).result()
        return result

    def close(self, *, timeout: float) -> bool:
        """Run queued jobs, then stop; further jobs are refused.

        Parameters
        ----------
        timeout : float
            Seconds after which the running transaction is interrupted and rolled back.

        Returns
        -------
        bool
            Whether the thread ended, so that the connection was closed.
        """
        has_ended = self._batches.close(timeout=timeout)
        if not has_ended and not self._batches.is_current:
            self._connection.interrupt()
            has_ended = self._batches.close(timeout=_SECONDS_AFTER_INTERRUPT)
        if has_ended:
            # Fails while another writer of this process is active; committed data stays in the log then.
            with suppress(duckdb.Error):
                self._connection.execute("CHECKPOINT")
            self._connection.close()
            if self._counter is not None:
                self._counter.close()
        return has_ended

    def _checkpoint_if_due(self) -> None:
        """Checkpoint when the write-ahead log is large and the disk has room.

        DuckDB would checkpoint inside a commit, which then fails although it is durable, and shuts down the
        database if the disk is full. Hence checkpoints run between commits, and only with enough free space.
        """
        if self._file is None:
            return
        with suppress(OSError, duckdb.Error):
            size = files.log_of(self._file).stat().st_size
            if (
                size > _LARGEST_LOG
                and shutil.disk_usage(self._file.parent).free > _FREE_SPACE_PER_BYTE * size
            ):
                self._connection.execute("CHECKPOINT")

    def _run(self, jobs: Sequence[Callable[[duckdb.DuckDBPyConnection], Any]]) -> list[Any]:
        try:
            writes = self._begin()
            try:
                results = [job(self._connection) for job in jobs]
                self._connection.commit()
            except BaseException:
                self._roll_back()
                raise
        except duckdb.Error as error:
            raise files.failure("the project's file could not be written", error) from error
        if self._counter is not None:
            self._counter.set_writes(writes)
        return results

    def _begin(self) -> int:
        """Begin a transaction that excludes other writers of this file in this process; return its number."""
        if self._file is not None:
            # DuckDB creates a log after each checkpoint, and would let everybody read it.
            with suppress(OSError):
                files.create_private_file(files.log_of(self._file))
        deadline = time.monotonic() + _SECONDS_TO_RETRY
        pause = 0.001
        while True:
            self._connection.begin()
            try:
                # Updates of one row conflict; concurrent appends alone would not.
                counted = "UPDATE meta SET writes = writes + 1 RETURNING writes"
                rows = self._connection.execute(counted).fetchall()
            except duckdb.TransactionException:
                self._roll_back()
                if time.monotonic() > deadline:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 0.1)
            else:
                number: int = rows[0][0]
                return number

    def _roll_back(self) -> None:
        # DuckDB rolls back by itself when a commit fails.
        with suppress(duckdb.Error):
            self._connection.rollback()
