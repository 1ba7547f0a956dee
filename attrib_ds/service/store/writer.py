"""Runs all writes of a store in one thread, with group commit."""

from __future__ import annotations

import shutil
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import duckdb

from attrib_ds.errors import AttribError, ServiceFailure, Unavailable
from attrib_ds.service.store.cursors import CLOSED
from attrib_ds.service.store.file_errors import with_advice
from attrib_ds.service.store.forks import FORKED, abandon_after_fork, leak
from attrib_ds.service.store.private_files import create_private_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from attrib_ds.service.store.write_counter import WriteCounter

T = TypeVar("T")

_MAX_QUEUED: Final = 1_024
_MAX_GROUP: Final = 256
_SECONDS_TO_QUEUE: Final = 60.0
_SECONDS_TO_RETRY: Final = 60.0
_SECONDS_AFTER_INTERRUPT: Final = 5.0
#: Size of the write-ahead log, in bytes, that triggers a checkpoint, and free disk space required per byte.
_LARGEST_LOG: Final = 16 * 2**20
_FREE_SPACE_PER_BYTE: Final = 4


def log_of(file: Path) -> Path:
    """Return the path of DuckDB's write-ahead log of a file."""
    return file.with_name(f"{file.name}.wal")


def logs_of(file: Path) -> list[Path]:
    """Return all paths of write-ahead logs, including those during a checkpoint or a recovery."""
    log = log_of(file)
    return [log, *(log.with_name(f"{log.name}.{step}") for step in ("checkpoint", "recovery"))]


@dataclass(frozen=True, eq=False)
class _Entry:
    job: Callable[[duckdb.DuckDBPyConnection], Any]
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """Accepts write jobs from any thread and commits queued jobs together.

    DuckDB makes a transaction durable with one flush of the file, however large it is; so jobs submitted
    during a transaction share the next one (group commit). DuckDB has no savepoints: if one job of a group
    fails, the group is rolled back and its jobs run one by one, so a job may run twice.

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
        counter: WriteCounter | None = None,
    ) -> None:
        self._connection = connection
        self._file = file
        self._counter = counter
        self._queue: deque[_Entry] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        # A daemon, since the interpreter joins other threads before it runs finalizers.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        self._is_forked = False
        abandon_after_fork(self)

    def abandon(self) -> None:
        """Refuse any further job, in a forked process: the thread exists in its parent only."""
        self._is_forked = self._is_closed = True
        self._changed = threading.Condition()
        self._queue.clear()
        leak(self._connection)

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
        if threading.current_thread() is self._thread:
            raise RuntimeError("a write job cannot wait for another one: it would wait for itself")
        entry = _Entry(job)
        with self._changed:
            has_room = self._changed.wait_for(
                lambda: self._is_closed or len(self._queue) < _MAX_QUEUED, timeout=_SECONDS_TO_QUEUE
            )
            if self._is_closed:
                raise Unavailable(FORKED if self._is_forked else CLOSED)
            if not has_room:
                raise Unavailable(f"{_MAX_QUEUED} writes are queued; try again later")
            self._queue.append(entry)
            self._changed.notify_all()
        result: T = entry.future.result()
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
            Whether the thread ended and closed its connection.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if threading.current_thread() is self._thread:
            return False
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._connection.interrupt()
            self._thread.join(_SECONDS_AFTER_INTERRUPT)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while group := self._next_group():
            self._commit(group)
            self._checkpoint_if_due()
        # Fails while another writer of this process is active; committed data stays in the log then.
        with suppress(duckdb.Error):
            self._connection.execute("CHECKPOINT")
        self._connection.close()
        if self._counter is not None:
            self._counter.close()

    def _checkpoint_if_due(self) -> None:
        """Checkpoint when the write-ahead log is large and the disk has room.

        DuckDB would checkpoint inside a commit, which then fails although it is durable, and shuts down the
        database if the disk is full. Hence checkpoints run between commits, and only with enough free space.
        """
        if self._file is None:
            return
        with suppress(OSError, duckdb.Error):
            size = log_of(self._file).stat().st_size
            if (
                size > _LARGEST_LOG
                and shutil.disk_usage(self._file.parent).free > _FREE_SPACE_PER_BYTE * size
            ):
                self._connection.execute("CHECKPOINT")

    def _next_group(self) -> list[_Entry]:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._queue)
            size = min(len(self._queue), _MAX_GROUP)
            group = [self._queue.popleft() for _ in range(size)]
            self._changed.notify_all()
            return group

    def _commit(self, group: list[_Entry]) -> None:
        try:
            results = self._run(group)
        except BaseException as error:  # noqa: BLE001  (raised to the submitter)
            if len(group) > 1:
                for entry in group:
                    self._commit([entry])
            else:
                group[0].future.set_exception(_translate(error))
        else:
            for entry, result in zip(group, results, strict=True):
                entry.future.set_result(result)

    def _run(self, group: list[_Entry]) -> list[Any]:
        writes = self._begin()
        try:
            results = [entry.job(self._connection) for entry in group]
            self._connection.commit()
        except BaseException:
            self._roll_back()
            raise
        if self._counter is not None:
            self._counter.set_writes(writes)
        return results

    def _begin(self) -> int:
        """Begin a transaction that excludes other writers of this file in this process; return its number."""
        if self._file is not None:
            # DuckDB creates a log after each checkpoint, and would let everybody read it.
            with suppress(OSError):
                create_private_file(log_of(self._file))
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


def _translate(error: BaseException) -> BaseException:
    if not isinstance(error, duckdb.Error):
        return error
    failure: AttribError = ServiceFailure(f"the project's file could not be written: {with_advice(error)}")
    failure.__cause__ = error
    return failure
