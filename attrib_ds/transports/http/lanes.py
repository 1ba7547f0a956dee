"""Reads several sequences of pages at once and hands them on in their order, few of them held."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

T = TypeVar("T")

_NO_PAGE: Final = object()
#: Pages of one lane that may wait while others are read.
_DEPTH: Final = 2
#: Seconds that are waited for a page which nobody wants any more.
_SECONDS_TO_END: Final = 10.0
#: How long Ctrl-C may go unnoticed.
_SECONDS_TO_NOTICE: Final = 0.5


def in_order(
    lanes: Sequence[Iterator[T]], *, workers: int, stop: threading.Event
) -> Generator[T, None, None]:
    """Go through all pages of the first lane, then of the second, while the next ones are read.

    A thread lives for one page. None is begun while two pages for each worker wait, so that whoever holds the
    iterator and no longer reads it, as a traceback does, keeps no thread.

    Parameters
    ----------
    lanes : sequence of iterator
        Each of pages.
    workers : int
        Pages that are read at one time.
    stop : threading.Event
        Set when nobody wants the pages that are being read.

    Yields
    ------
    object
        The pages.

    Raises
    ------
    BaseException
        What any lane raised, as soon as it did.

    Examples
    --------
    >>> list(in_order([iter([1, 2]), iter([]), iter([3])], workers=2, stop=threading.Event()))
    [1, 2, 3]
    """
    work = _Work([_Lane(each) for each in lanes], workers)
    try:
        yield from work.pages()
    finally:
        stop.set()
        work.close()


class _Lane(Generic[T]):
    def __init__(self, pages: Iterator[T]) -> None:
        self.pages = pages
        self.waiting: deque[T] = deque()
        self.is_running = False
        self.is_done = False


class _Work(Generic[T]):
    def __init__(self, lanes: Sequence[_Lane[T]], workers: int) -> None:
        self._lanes = lanes
        self._workers = workers
        self._changed = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._error: BaseException | None = None
        self._first = 0
        self._is_closed = False

    def pages(self) -> Iterator[T]:
        while self._first < len(self._lanes):
            with self._changed:
                page = self._next(self._lanes[self._first])
                if page is _NO_PAGE:
                    self._first += 1
                self._begin()
            if page is not _NO_PAGE:
                yield page  # type: ignore[misc]

    def close(self) -> None:
        """Begin nothing any more, and wait for what has begun."""
        with self._changed:
            self._is_closed = True
            threads = self._threads - {threading.current_thread()}
        for thread in threads:
            thread.join(_SECONDS_TO_END)

    def _next(self, lane: _Lane[T]) -> object:
        while True:
            if self._error is not None:
                raise self._error
            if lane.waiting:
                return lane.waiting.popleft()
            if lane.is_done:
                return _NO_PAGE
            self._begin()
            # In short waits: a signal that comes just before a wait begins is seen when it ends.
            self._changed.wait(_SECONDS_TO_NOTICE)

    def _begin(self) -> None:
        """Read on in the lanes that come next, as far as their pages may wait."""
        near = self._lanes[self._first : self._first + 2 * self._workers]
        held = sum(len(lane.waiting) + lane.is_running for lane in near)
        for number, lane in enumerate(near):
            if self._is_closed or self._error is not None or len(self._threads) >= self._workers:
                return
            # The first lane may always go on: the others wait for it.
            has_room = held < 2 * self._workers or (number == 0 and not lane.waiting)
            if has_room and not lane.is_running and not lane.is_done and len(lane.waiting) < _DEPTH:
                lane.is_running = True
                held += 1
                thread = threading.Thread(target=self._read, args=(lane,), name="attrib-ds page", daemon=True)
                self._threads.add(thread)
                thread.start()

    def _read(self, lane: _Lane[T]) -> None:
        page: object = _NO_PAGE
        error = None
        try:
            page = next(lane.pages, _NO_PAGE)
        except BaseException as raised:  # noqa: BLE001  (raised again by whoever reads)
            error = raised
        with self._changed:
            self._threads.discard(threading.current_thread())
            lane.is_running = False
            self._error = self._error or error
            if page is _NO_PAGE:
                lane.is_done = True
            else:
                lane.waiting.append(page)  # type: ignore[arg-type]
            self._begin()
            self._changed.notify_all()
