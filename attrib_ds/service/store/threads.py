"""Threads of a project: group commit in one, locks between many, and their end with the process."""

import atexit
import ctypes
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Generic, TypeVar

from attrib_ds.errors import Unavailable

#: Message for the use of a closed project.
CLOSED: Final = "the project is closed; connect to it again"
#: Message for the use of a project in a forked process.
FORKED: Final = (
    "the project was opened before this process was forked; call connect() in the process that needs it, or "
    "start processes with multiprocessing.get_context('spawn')"
)
_SECONDS_TO_END: Final = 10.0


def is_closed(error: BaseException) -> bool:
    """Return whether an error says that this process cannot use the project any more."""
    return isinstance(error, Unavailable) and error.message in {CLOSED, FORKED}


# The module holds state because hooks of exit and fork belong to the process. The sets keep nothing alive.
_STOPPABLE: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
#: Apart from their owners: a thread may be the one that drops the last reference to its owner.
_THREADS: Final[weakref.WeakSet[threading.Thread]] = weakref.WeakSet()
_FORKABLE: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def start_thread(owner: Any, work: Callable[[], object], *, name: str) -> threading.Thread:
    """Start a thread that is stopped, by the method ``stop`` of its owner, and joined at exit."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    _STOPPABLE.add(owner)
    _THREADS.add(thread)
    thread.start()
    return thread


@atexit.register
def _end_all() -> None:
    for owner in list(_STOPPABLE):
        owner.stop()
    for thread in list(_THREADS):
        thread.join(_SECONDS_TO_END)


def abandon_after_fork(forkable: Any) -> None:
    """Call ``abandon`` in every process that is forked from now on.

    The method refuses any further use, without locks and without touching the database.
    """
    _FORKABLE.add(forkable)


def leak(connection: object) -> None:
    """Keep a connection for good: its destructor would close the database, even at exit."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _abandon_all() -> None:
    for forkable in list(_FORKABLE):
        forkable.abandon()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_abandon_all)


Item = TypeVar("Item")
Result = TypeVar("Result")

#: Time without an item after which the thread ends, and with it its references.
_SECONDS_TO_IDLE: Final = 1.0
#: The thread waits for as many items as the last batch had, at most this many.
_LARGEST_TO_EXPECT: Final = 256


@dataclass(frozen=True, eq=False)
class _Entry(Generic[Item]):
    item: Item
    size: int
    future: Future[Any] = field(default_factory=Future)


@dataclass(eq=False, repr=False)
class Batches(Generic[Item, Result]):
    """Runs submitted items in batches, one batch at a time, in a thread that ends when none has come.

    If a batch fails, its items are run one by one, so that one cannot fail the others; an item may run twice.

    Parameters
    ----------
    run : callable
        Takes the items in order of submission; returns the result or the exception of each.
    name : str
        Name of the thread.
    most_waiting : int
        Total size of waiting items from which on further ones are refused.
    largest : int
        Total size from which on a batch takes no further item.
    patience : float, default 0
        Seconds that :meth:`submit` waits for room before it refuses.
    seconds_to_gather : float, default 0
        How long a batch waits for as many items as the last one had: clients that were answered together
        send their next requests together.
    afterwards : callable, optional
        Called after each batch, once its results are set.

    Examples
    --------
    >>> batches = Batches(lambda numbers: [number + 1 for number in numbers], name="sums")
    >>> batches.submit(1).result()
    2
    """

    run: Callable[[Sequence[Item]], Sequence[Result | BaseException]]
    _: KW_ONLY
    name: str
    most_waiting: int = 1_024
    largest: int = 256
    patience: float = 0
    seconds_to_gather: float = 0
    afterwards: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: deque[_Entry[Item]] = deque()
        self._size = 0
        #: Number of waiting items from which on the thread goes on without further delay.
        self._enough = 1
        self._is_closed = self._is_forked = False
        abandon_after_fork(self)

    @property
    def size(self) -> int:
        """Total size of the waiting items."""
        return self._size

    def submit(self, item: Item, *, size: int = 1) -> Future[Result]:
        """Queue an item; the future is set, and its callbacks run, in the thread of the batches.

        Raises
        ------
        Unavailable
            If too much waits, or this was closed.
        """
        entry = _Entry(item, size)
        with self._changed:
            if self._size >= self.most_waiting and self.patience:
                self._changed.wait_for(
                    lambda: self._is_closed or self._size < self.most_waiting, self.patience
                )
            if self._is_closed:
                raise Unavailable(FORKED if self._is_forked else CLOSED)
            if self._size >= self.most_waiting:
                raise Unavailable(f"{self._size:,} requests wait to be stored; try again later")
            self._waiting.append(entry)
            self._size += size
            if self._thread is None:
                self._thread = start_thread(self, self._work, name=self.name)
            elif len(self._waiting) == self._enough:
                # Once per batch: to wake a thread takes longer than to queue an item.
                self._changed.notify_all()
        return entry.future

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is the one that runs the batches."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Refuse further items; those that wait are still run."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def close(self, *, timeout: float) -> bool:
        """Run the items that wait, refuse further ones; return whether the thread ended in time."""
        self.stop()
        thread = self._thread
        if thread is None:
            return True
        if thread is not threading.current_thread():
            thread.join(timeout)
        return not thread.is_alive()

    def abandon(self) -> None:
        """Refuse any further item, in a forked process: the thread exists in its parent only."""
        self._changed = threading.Condition()
        self._is_forked = self._is_closed = True
        self._waiting = deque()
        self._thread = None

    def _work(self) -> None:
        while batch := self._next():
            self._run_all(batch)
            self.afterwards()

    def _next(self) -> list[_Entry[Item]]:
        with self._changed:
            if self._enough > 1:
                self._changed.wait_for(
                    lambda: len(self._waiting) >= self._enough or self._is_closed, self.seconds_to_gather
                )
            if not self._waiting:
                self._enough = 1
                self._changed.wait_for(lambda: self._waiting or self._is_closed, _SECONDS_TO_IDLE)
            batch: list[_Entry[Item]] = []
            size = 0
            while self._waiting and size < self.largest:
                batch.append(self._waiting.popleft())
                size += batch[-1].size
            self._size -= size
            if not batch:
                self._thread = None
            elif self.seconds_to_gather:
                self._enough = min(len(batch), _LARGEST_TO_EXPECT)
            self._changed.notify_all()
            return batch

    def _run_all(self, batch: Sequence[_Entry[Item]]) -> None:
        try:
            results = self.run([entry.item for entry in batch])
        except BaseException as error:  # noqa: BLE001  (raised to the submitter)
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            for entry in batch:
                self._run_all([entry])
            return
        for entry, result in zip(batch, results, strict=True):
            if isinstance(result, BaseException):
                entry.future.set_exception(result)
            else:
                entry.future.set_result(result)


class ReadersWriterLock:
    """A lock with many shared holders or one exclusive holder, who takes precedence over new shared ones.

    It is not reentrant: a thread that holds it must not acquire it exclusively.

    Examples
    --------
    >>> lock = ReadersWriterLock()
    >>> release = lock.acquire_shared()
    >>> with lock.exclusive(timeout=0.01):
    ...     pass
    Traceback (most recent call last):
        ...
    attrib_ds.errors.Unavailable: requests are still running; try again later
    >>> release()
    >>> with lock.exclusive(timeout=0.01):
    ...     pass
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shared_count = 0
        self._is_exclusive = False

    def acquire_shared(self) -> Callable[[], None]:
        """Acquire the lock for shared use, after any exclusive holder; return the idempotent release."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_exclusive)
            self._shared_count += 1
        return self._release_once()

    def try_acquire_shared(self) -> Callable[[], None] | None:
        """Acquire the lock for shared use without waiting; None if it is held exclusively."""
        with self._changed:
            if self._is_exclusive:
                return None
            self._shared_count += 1
        return self._release_once()

    def _release_once(self) -> Callable[[], None]:
        is_held = True

        def release() -> None:
            nonlocal is_held
            with self._changed:
                self._shared_count -= is_held
                is_held = False
                self._changed.notify_all()

        return release

    @contextmanager
    def exclusive(self, *, timeout: float) -> Iterator[None]:
        """Hold the lock exclusively until the block ends; new shared acquisitions wait at once.

        Parameters
        ----------
        timeout : float
            Seconds to wait for the present holders.

        Raises
        ------
        Unavailable
            If they do not release the lock in time.
        """
        deadline = time.monotonic() + timeout
        busy = Unavailable("requests are still running; try again later")
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_exclusive, timeout):
                raise busy
            self._is_exclusive = True
        try:
            with self._changed:
                if not self._changed.wait_for(
                    lambda: not self._shared_count, max(deadline - time.monotonic(), 0)
                ):
                    raise busy
            yield
        finally:
            with self._changed:
                self._is_exclusive = False
                self._changed.notify_all()
