"""A readers–writer lock: requests share a project, a restoration has it exclusively."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrib_ds.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
    def shared(self) -> Iterator[None]:
        """Hold the lock for shared use until the block ends."""
        release = self.acquire_shared()
        try:
            yield
        finally:
            release()

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
