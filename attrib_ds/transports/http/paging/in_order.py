"""Read parts of a search concurrently and yield their pages in order, with a bounded buffer."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

T = TypeVar("T")

_NO_PAGE: Final = object()
#: Maximum number of buffered pages per part.
_DEPTH: Final = 2
#: Seconds to wait for the threads to end.
_SECONDS_TO_END: Final = 10.0
#: Seconds after which Ctrl-C is noticed at the latest.
_SECONDS_TO_NOTICE: Final = 0.5


def in_order(
    parts: Sequence[Iterator[T]], *, workers: int, stop: threading.Event
) -> Generator[T, None, None]:
    """Yield all pages of the first part, then of the second, and so on, while prefetching the next ones.

    Each page is read in its own thread. No thread starts while two pages per worker are buffered, so that
    an abandoned iterator, such as one held by a traceback, keeps no thread alive.

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
        The first error of any part, at once.

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
        """Start no further threads, and wait for the running ones."""
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
            # Short waits: a signal that arrives just before a wait is handled after it.
            self._changed.wait(_SECONDS_TO_NOTICE)

    def _start_threads(self) -> None:
        """Start reading the next parts while the buffer has room."""
        near = self._parts[self._first : self._first + 2 * self._workers]
        buffered = sum(len(part.waiting) + part.is_running for part in near)
        for number, part in enumerate(near):
            if self._is_closed or self._error is not None or len(self._threads) >= self._workers:
                return
            # The first part may always continue: all others wait for it.
            has_room = buffered < 2 * self._workers or (number == 0 and not part.waiting)
            if has_room and not part.is_running and not part.is_done and len(part.waiting) < _DEPTH:
                part.is_running = True
                buffered += 1
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
