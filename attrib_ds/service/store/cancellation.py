"""Cancels the queries of a request from another thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrib_ds.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Cancellation:
    """A cancellation token: stops the running steps of one request. Thread-safe.

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
        self._is_cancelled = False

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
            if self._is_cancelled:
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
            self._is_cancelled = True
            for call in self._calls:
                call()
