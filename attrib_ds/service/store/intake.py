"""Accepts what requests send singly and in haste into the queue, and moves it from there in portions."""

import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar, cast

import duckdb

from attrib_ds.errors import Unavailable
from attrib_ds.service.store.files import is_of_file
from attrib_ds.service.store.queue import Queue, Row, read_moved, set_moved
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.threads import CLOSED, Batches, abandon_after_fork, start_thread

Item = TypeVar("Item")
Result = TypeVar("Result")
Entry = TypeVar("Entry")

#: How long to wait for as many requests as were answered together.
_SECONDS_TO_GROUP: Final = 0.01
#: Total size of requests from which on a flush takes no further one.
_LARGEST_GROUP: Final = 1_000
_SECONDS_TO_IDLE: Final = 1.0
_SECONDS_TO_RETRY: Final = 1.0
#: How long a request waits for the records before it.
_SECONDS_TO_SETTLE: Final = 30.0
_SECONDS_TO_STOP: Final = 10.0
#: Longest time that records gather because the last transaction took as long.
_MOST_SECONDS_TO_GATHER: Final = 5.0
#: How old what a reader finds may be, and how long it waits for it.
_SECONDS_BEHIND: Final = 0.5
_SECONDS_TO_CATCH_UP: Final = 2.0
#: Number of records that cannot be written from which on the fault is not theirs.
_MOST_FAILURES: Final = 10
#: Causes of failures, such as a full disk, that are not the fault of what was written.
_OF_THE_DATABASE: Final = (duckdb.FatalException, duckdb.OutOfMemoryException)
_log: Final = logging.getLogger(__name__)


class Intake(ABC, Generic[Item, Result, Entry]):
    """Accepts what requests send into a table of the queue, and moves it.

    One thread makes all that wait durable at once, another moves records in order, many at a time. Both end
    when nothing has come for a while.

    Parameters
    ----------
    queue : Queue or None
        The queue; None for a project that is only read.
    table : str
        Table of the queue.
    name : str
        Whose queue it is, for messages.
    most_waiting : int
        Number of records that are not moved from which on requests are refused (503).
    most : int
        Number of records that are moved together.
    enough : int, optional
        Number of records from which on they are moved without further delay; ``most`` by default.
    seconds_to_gather : float
        How long fewer records gather before they are moved, unless somebody waits for them; at least as long
        as the last transaction took.
    """

    def __init__(
        self,
        queue: Queue | None,
        table: str,
        *,
        name: str,
        most_waiting: int,
        most: int,
        enough: int | None = None,
        seconds_to_gather: float,
    ) -> None:
        self._queue = cast("Queue", queue)
        self._table = table
        self._name = name
        self._most_waiting = most_waiting
        self._most = most
        self._enough = enough or most
        self._least_to_gather = self._seconds_to_gather = seconds_to_gather
        self._batches: Batches[Item, Result] = Batches(
            self._accept,
            name=f"{table} of {name}",
            most_waiting=most_waiting,
            largest=_LARGEST_GROUP,
            seconds_to_gather=_SECONDS_TO_GROUP,
        )
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        last = 0 if queue is None else queue.accepted[table]
        self._accepted = self._moved = self._awaited = last
        self._failures = 0
        self._up_to_date_at = -math.inf
        self._is_closing = self._is_stopped = False
        #: Why records could not be moved the last time.
        self.failure: BaseException | None = None
        abandon_after_fork(self)

    @abstractmethod
    def _put(self, items: Sequence[Item]) -> Sequence[Result | BaseException]:
        """Put the records of items into the queue, inside its transaction."""

    @abstractmethod
    def _read(self, contents: Sequence[bytes]) -> Sequence[Entry]:
        """Return what to write for records, outside of the transaction that writes it."""

    @abstractmethod
    def _move(self, rows: Sequence[Row], entries: Sequence[Entry]) -> None:
        """Move records to where they stay; those that were moved before are left out."""

    @property
    def waiting(self) -> int:
        """Number of records that are not yet in the tables."""
        return self._batches.size + self._accepted - self._moved

    def submit(self, item: Item, *, size: int = 1) -> Future[Result]:
        """Accept what a request sends; the future is set once it is durable.

        Raises
        ------
        Unavailable
            If too much waits, or the project is closed.
        """
        if self.waiting >= self._most_waiting:
            raise Unavailable(f"{self.waiting:,} {self._table} wait to be stored; try again later")
        return self._batches.submit(item, size=size)

    def resume(self) -> None:
        """Move what an earlier process accepted."""
        queue = self._queue
        rows = queue.first(self._table, self._most)
        if rows:
            with self._changed:
                self._moved, self._accepted = rows[0].number - 1, queue.accepted[self._table]
                self._awaited = self._accepted
                self._start()

    def settle(self, timeout: float = _SECONDS_TO_SETTLE) -> None:
        """Wait until the tables have all that was accepted before.

        Raises
        ------
        Unavailable
            If that takes too long, or the project is being closed.
        ServiceFailure
            If the database failed.
        """
        if not self.wait(timeout):
            raise Unavailable(f"accepted {self._table} wait to be stored; try again later")

    def wait(self, timeout: float) -> bool:
        """Wait as :meth:`settle` does; return whether the tables have all in time."""
        with self._changed:
            target = self._accepted
            if self._moved < target:
                self._awaited = target
                self.failure = None
                self._changed.notify_all()
                self._changed.wait_for(
                    lambda: self._moved >= target or self.failure is not None or self._is_stopped, timeout
                )
            if self._moved >= target:
                return True
            if self.failure is not None:
                raise self.failure
            if self._is_stopped:
                raise Unavailable(CLOSED)
            return False

    def catch_up(self) -> None:
        """Wait until the tables have what was accepted half a second ago; the mover tells failures."""
        if time.monotonic() - self._up_to_date_at >= _SECONDS_BEHIND:
            with suppress(Exception):
                if not self.wait(_SECONDS_TO_CATCH_UP):
                    # A long transaction holds the tables: other readers need not wait for its end too.
                    self._up_to_date_at = time.monotonic()

    def close(self, *, timeout: float = _SECONDS_TO_STOP) -> None:
        """Accept what waits and move it, for some seconds at most; the next process moves the rest."""
        self._batches.close(timeout=timeout)
        with self._changed:
            # Without time, no transaction begins that has to be waited for.
            self._is_closing = True
            self._is_stopped |= timeout <= 0
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._moved >= self._accepted or self.failure is not None or self._thread is None,
                timeout,
            )
        self.stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_SECONDS_TO_STOP)

    def stop(self) -> None:
        """Tell the threads to end after the current transaction."""
        self._batches.stop()
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Move nothing more, in a forked process: the thread exists in its parent only."""
        self._changed = threading.Condition()
        self._is_stopped = True
        self._thread = None

    def _accept(self, items: Sequence[Item]) -> Sequence[Result | BaseException]:
        queue = self._queue
        with queue.transaction():
            results = self._put(items)
        with self._changed:
            self._accepted = queue.accepted[self._table]
            if self._thread is None:
                self._start()
            elif self._accepted - self._moved >= self._enough:
                self._changed.notify_all()
        return results

    def _start(self) -> None:
        if not self._is_stopped:
            self._thread = start_thread(self, self._work, name=f"mover of {self._table} of {self._name}")

    def _work(self) -> None:
        queue = self._queue
        while self._is_due():
            started_at, accepted, failures = time.monotonic(), self._accepted, self._failures
            try:
                rows = queue.first(self._table, self._most)
                if rows:
                    self._move(rows, self._read([row.content for row in rows]))
                    with self._changed:
                        # The tables have them, even if the queue has no room to drop them.
                        self._moved = max(self._moved, rows[-1].number)
                        self._changed.notify_all()
                    queue.drop(self._table, rows[-1].number)
            except Exception as error:  # noqa: BLE001  (raised to those who wait; the queue keeps the records)
                if self.failure is None and not self._is_stopped:
                    _log.warning("%s of %s wait: %s", self._table, self._name, error)
                with self._changed:
                    self.failure = error
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._is_stopped, _SECONDS_TO_RETRY)
                continue
            with self._changed:
                self.failure = None
                if self._failures == failures:
                    self._failures = 0
                # Without records, another service of this process has moved them.
                self._moved = self._moved if rows else accepted
                took = time.monotonic() - started_at
                self._seconds_to_gather = max(self._least_to_gather, min(took, _MOST_SECONDS_TO_GATHER))
                if self._moved >= accepted:
                    self._up_to_date_at = started_at
                self._changed.notify_all()

    def _is_due(self) -> bool:
        """Wait for records; return False if the thread should end."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._accepted > self._moved or self._is_stopped or self._is_closing, _SECONDS_TO_IDLE
            )
            if self._accepted > self._moved:
                self._changed.wait_for(
                    lambda: (
                        self._accepted - self._moved >= self._enough
                        or self._awaited > self._moved
                        or self._is_closing
                        or self._is_stopped
                    ),
                    self._seconds_to_gather,
                )
            if self._accepted <= self._moved or self._is_stopped:
                self._thread = None
                self._changed.notify_all()
                return False
            return True


class TableIntake(Intake[Item, Result, Entry]):
    """Moves records into the project's tables, in transactions that store the number of the last one.

    A record whose writing fails is set aside, so that it does not hold up the others.

    Parameters
    ----------
    store : Store
        The project.
    table, **sizes
        As for :class:`Intake`.
    """

    def __init__(self, store: Store, table: str, **sizes: Any) -> None:
        self._store = store
        queue = None if store.is_read_only else store.queue
        super().__init__(queue, table, name=store.meta.project_id, **sizes)

    def submit(self, item: Item, *, size: int = 1) -> Future[Result]:
        """Accept what a request sends; raises NotSupported if the project is read-only."""
        self._store.require_writing()
        return super().submit(item, size=size)

    @abstractmethod
    def _write(self, connection: duckdb.DuckDBPyConnection, entries: Sequence[Entry]) -> None:
        """Write records into the tables, inside a transaction; those that are there already are left out."""

    def _prepare(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return what :meth:`_write` takes for each record, outside of the transaction that writes it."""
        return entries

    @abstractmethod
    def _set_aside(self, connection: duckdb.DuckDBPyConnection, entry: Entry) -> None:
        """Keep a record that cannot be written."""

    def _move(self, rows: Sequence[Row], entries: Sequence[Entry]) -> None:
        """Move records in one transaction; one that cannot be written does not hold up the others."""
        try:
            self._write_rows(rows, entries)
            return
        except Unavailable:
            raise
        except Exception as error:
            cause = error.__cause__
            if isinstance(cause, _OF_THE_DATABASE) or is_of_file(cause) or self._failures >= _MOST_FAILURES:
                raise
            failure = error
        if len(rows) > 1:
            middle = len(rows) // 2
            self._move(rows[:middle], entries[:middle])
            self._move(rows[middle:], entries[middle:])
            return
        self._failures += 1
        _log.error("a record of %s cannot be written", self._table, exc_info=failure)
        self._write_rows(rows, entries, are_wrong=True)

    def _write_rows(self, rows: Sequence[Row], entries: Sequence[Entry], *, are_wrong: bool = False) -> None:
        prepared = entries if are_wrong else self._prepare(entries)

        def write(connection: duckdb.DuckDBPyConnection) -> None:
            # Another service of this process may move the same records.
            moved = read_moved(connection)[self._table]
            left = [entry for row, entry in zip(rows, prepared, strict=True) if row.number > moved]
            if not left:
                return
            if are_wrong:
                self._set_aside(connection, left[0])
            else:
                self._write(connection, left)
            set_moved(connection, self._table, rows[-1].number)

        self._store.write(write)
