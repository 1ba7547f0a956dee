"""Runs every write of a store in one thread, many of them in one transaction."""

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
from attrib_ds.service.store.file_errors import explained

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

_MOST_WAITING: Final = 1_024
_LARGEST_GROUP: Final = 256
_SECONDS_TO_QUEUE: Final = 60.0
_SECONDS_TO_RETRY: Final = 60.0
_SECONDS_AFTER_INTERRUPT: Final = 5.0
#: Bytes of the log from which on it is moved into the file, and the room for each that this may take.
_LARGEST_LOG: Final = 16 * 2**20
_ROOM_PER_BYTE: Final = 4


def log_of(file: Path) -> Path:
    """Return where DuckDB keeps what is committed and not yet in a file."""
    return file.with_name(f"{file.name}.wal")


def logs_of(file: Path) -> list[Path]:
    """Return every place where DuckDB keeps such, those for a while within a checkpoint or a recovery too."""
    log = log_of(file)
    return [log, *(log.with_name(f"{log.name}.{step}") for step in ("checkpoint", "recovery"))]


@dataclass(frozen=True, eq=False)
class _Entry:
    job: Callable[[duckdb.DuckDBPyConnection], Any]
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """Take write jobs from any thread and commit those that wait together.

    DuckDB makes a transaction durable with one flush of the file, whatever it holds; so jobs that arrive
    while one transaction is written share the next (group commit). DuckDB has no savepoints: when one
    job of a group fails, the group is rolled back and its jobs run one by one, so a job may run twice
    and must not keep what it did the first time.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Used by this writer alone, and closed by it.
    name : str
        Of the thread.
    file : Path, optional
        Of the database, whose log is moved into it from time to time.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, name: str, file: Path | None = None) -> None:
        self._connection = connection
        self._file = file
        self._waiting: deque[_Entry] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        # A daemon, since the interpreter joins other threads before it runs what closes this one.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run a job in a transaction and return its result once that is committed.

        Parameters
        ----------
        job : callable
            Takes the connection; must not begin, commit or roll back, and must bear being run again.

        Returns
        -------
        object
            What the job returned.

        Raises
        ------
        Unavailable
            If the writer is closed, or the queue stays full for a minute.
        ServiceFailure
            If the database failed; nothing of the job is stored.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a write job cannot wait for another one: it would wait for itself")
        entry = _Entry(job)
        with self._changed:
            has_room = self._changed.wait_for(
                lambda: self._is_closed or len(self._waiting) < _MOST_WAITING, timeout=_SECONDS_TO_QUEUE
            )
            if self._is_closed:
                raise Unavailable(CLOSED)
            if not has_room:
                raise Unavailable(f"{_MOST_WAITING} writes are waiting already; try again later")
            self._waiting.append(entry)
            self._changed.notify_all()
        result: T = entry.future.result()
        return result

    def close(self, *, timeout: float) -> bool:
        """Write what waits, then stop; further jobs are refused.

        Parameters
        ----------
        timeout : float
            Seconds after which what still runs is broken off, which stores nothing of it.

        Returns
        -------
        bool
            Whether the thread ended, and its connection with it.
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
            self._shorten_log()
        # It fails while another writer of this process is at work; what is committed is in the log then.
        with suppress(duckdb.Error):
            self._connection.execute("CHECKPOINT")
        self._connection.close()

    def _shorten_log(self) -> None:
        """Move what is committed from the log into the file, once that is worth it.

        DuckDB would do so inside a commit, which then fails although it is durable; and where there is no
        room it ends the whole database. So it is done between commits, and not without room.
        """
        if self._file is None:
            return
        with suppress(OSError, duckdb.Error):
            size = log_of(self._file).stat().st_size
            if size > _LARGEST_LOG and shutil.disk_usage(self._file.parent).free > _ROOM_PER_BYTE * size:
                self._connection.execute("CHECKPOINT")

    def _next_group(self) -> list[_Entry]:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._waiting)
            size = min(len(self._waiting), _LARGEST_GROUP)
            group = [self._waiting.popleft() for _ in range(size)]
            self._changed.notify_all()
            return group

    def _commit(self, group: list[_Entry]) -> None:
        try:
            results = self._run(group)
        except BaseException as error:  # noqa: BLE001  (whoever waits for the job gets it)
            if len(group) > 1:
                for entry in group:
                    self._commit([entry])
            else:
                group[0].future.set_exception(_translated(error))
        else:
            for entry, result in zip(group, results, strict=True):
                entry.future.set_result(result)

    def _run(self, group: list[_Entry]) -> list[Any]:
        self._begin()
        try:
            results = [entry.job(self._connection) for entry in group]
            self._connection.commit()
        except BaseException:
            self._roll_back()
            raise
        return results

    def _begin(self) -> None:
        """Begin a transaction that excludes those of other writers of this file in this process."""
        last_try = time.monotonic() + _SECONDS_TO_RETRY
        pause = 0.001
        while True:
            self._connection.begin()
            try:
                # Two transactions that change one row conflict; appends alone would slip past each other.
                self._connection.execute("UPDATE meta SET writes = writes + 1")
            except duckdb.TransactionException:
                self._roll_back()
                if time.monotonic() > last_try:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 0.1)
            else:
                return

    def _roll_back(self) -> None:
        # DuckDB ends a transaction by itself when its commit fails.
        with suppress(duckdb.Error):
            self._connection.rollback()


def _translated(error: BaseException) -> BaseException:
    if not isinstance(error, duckdb.Error):
        return error
    failure: AttribError = ServiceFailure(f"the project's file could not be written: {explained(error)}")
    failure.__cause__ = error
    return failure
