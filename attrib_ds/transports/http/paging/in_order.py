"""Reads several parts of a search concurrently and yields their pages in order; few pages wait."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

T = TypeVar("T")

_NO_PAGE: Final = object()
#: Pages of one part that may wait.
_DEPTH: Final = 2
#: Seconds to wait for a page that is no longer wanted.
_SECONDS_TO_END: Final = 10.0
#: How long Ctrl-C may go unnoticed.
_SECONDS_TO_NOTICE: Final = 0.5


def in_order(
    parts: Sequence[Iterator[T]], *, workers: int, stop: threading.Event
) -> Generator[T, None, None]:
    """Yield all pages of the first part, then of the second, while the next ones are read.

    Each page is read in a thread of its own. No thread starts while two pages per worker wait, so that a
    consumer that holds the iterator but stopped reading, such as a traceback, keeps no thread alive.

    Parameters
    ----------
    parts : sequence of iterator
        The pages of each part.
    workers : int
        Number of pages read concurrently.
    stop : threading.Event
        Set when no further pages are wanted.

    Yields
    ------
    object
        The pages.

    Raises
    ------
    BaseException
        The first error of any part, as soon as it occurs.

    Examples
    --------
    >>> list(in_order([iter([1, 2]), iter([]), iter([3])], workers=2, stop=threading.Event()))
    [1, 2, 3]
    """
    work = _Work([_Part(pages) for pages in parts], workers)
    try:
        yield from work.pages()
    finally:
        stop.set()
        work.close()


class _Part(Generic[T]):
    def __init__(self, pages: Iterator[T]) -> None:
        self.pages = pages
        self.waiting: deque[T] = deque()
        self.is_running = False
        self.is_done = False


class _Work(Generic[T]):
    def __init__(self, parts: Sequence[_Part[T]], workers: int) -> None:
        self._parts = parts
        self._workers = workers
        self._changed = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._error: BaseException | None = None
        self._first = 0
        self._is_closed = False

    def pages(self) -> Iterator[T]:
        while self._first < len(self._parts):
            with self._changed:
                page = self._next(self._parts[self._first])
                if page is _NO_PAGE:
                    self._first += 1
                self._start_threads()
            if page is not _NO_PAGE:
                yield page  # type: ignore[misc]

    def close(self) -> None:
        """Start no further threads, and wait for those that run."""
        with self._changed:
            self._is_closed = True
            threads = self._threads - {threading.current_thread()}
        for thread in threads:
            thread.join(_SECONDS_TO_END)

    def _next(self, part: _Part[T]) -> object:
        while True:
            if self._error is not None:
                raise self._error
            if part.waiting:
                return part.waiting.popleft()
            if part.is_done:
                return _NO_PAGE
            self._start_threads()
            # Short waits: a signal just before a wait is seen when the wait ends.
            self._changed.wait(_SECONDS_TO_NOTICE)

    def _start_threads(self) -> None:
        """Start reading in the next parts, as far as their pages may wait."""
        near = self._parts[self._first : self._first + 2 * self._workers]
        held = sum(len(part.waiting) + part.is_running for part in near)
        for number, part in enumerate(near):
            if self._is_closed or self._error is not None or len(self._threads) >= self._workers:
                return
            # The first part may always continue: the others wait for it.
            has_room = held < 2 * self._workers or (number == 0 and not part.waiting)
            if has_room and not part.is_running and not part.is_done and len(part.waiting) < _DEPTH:
                part.is_running = True
                held += 1
                thread = threading.Thread(target=self._read, args=(part,), name="attrib-ds page", daemon=True)
                self._threads.add(thread)
                thread.start()

    def _read(self, part: _Part[T]) -> None:
        page: object = _NO_PAGE
        error = None
        try:
            page = next(part.pages, _NO_PAGE)
        except BaseException as raised:  # noqa: BLE001  (raised again in the consumer's thread)
            error = raised
        with self._changed:
            self._threads.discard(threading.current_thread())
            part.is_running = False
            self._error = self._error or error
            if page is _NO_PAGE:
                part.is_done = True
            else:
                part.waiting.append(page)  # type: ignore[arg-type]
            self._start_threads()
            self._changed.notify_all()
