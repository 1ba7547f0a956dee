"""Reads something again and again without blocking the kernel: when to read, and in which thread."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import math
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: The time between two reads is at least ten times the time that a read took.
_LEAST_RATIO: Final = 10
#: Longest wait after failures, in seconds, unless a service asks for more.
_LONGEST_WAIT: Final = 60.0
#: Longest wait for a read when the process ends, in seconds.
_SECONDS_TO_END: Final = 5.0


class Polling(Generic[T]):
    """Reads at each tick of a page, unless it is too early.

    Parameters
    ----------
    read : callable
        Takes no arguments; called in a thread of its own, so that a slow service does not block the kernel.
    show : callable
        Takes the result or the exception, in the kernel's thread, which may change widgets.
    seconds : float
        Time between two ticks. A read that takes long is repeated less often, and so is one that fails.
    clock : callable
        Returns seconds that only increase.
    """

    def __init__(
        self,
        read: Callable[[], T],
        show: Callable[[T | Exception], None],
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._show, self._seconds, self._clock = read, show, seconds, clock
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._due = -math.inf

    def tick(self) -> None:
        """Read now, unless the last read is still under way or was too short a time ago."""
        if self._thread is not None or self._clock() < self._due:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel, so there is nothing to block
            self._show(self._attempt())
            return
        # What the kernel sends names the message that it answers: the page's tick.
        context = contextvars.copy_context()

        def work() -> None:
            outcome = self._attempt()
            with suppress(RuntimeError):  # the kernel has ended meanwhile
                loop.call_soon_threadsafe(self._finish, outcome, context=context)

        # A daemon, since a read of a service that is away takes long. But a thread that comes back from
        # DuckDB to an interpreter that has gone aborts the process.
        self._thread = threading.Thread(target=work, name="attrib-ds live page", daemon=True)
        atexit.register(self._thread.join, _SECONDS_TO_END)
        self._thread.start()

    def _finish(self, outcome: T | Exception) -> None:
        if self._thread is not None:
            atexit.unregister(self._thread.join)
        self._thread = None
        self._show(outcome)

    def _attempt(self) -> T | Exception:
        started = self._clock()
        try:
            outcome: T | Exception = self._read()
        except Exception as error:  # noqa: BLE001  (shown in the page)
            outcome = error
        took = self._clock() - started
        # Ticks come at about the same times, so the wait ends half a period early.
        self._due = started + self._seconds_to_wait(outcome, took) - self._seconds / 2
        return outcome

    def _seconds_to_wait(self, outcome: T | Exception, took: float) -> float:
        if not isinstance(outcome, Exception):
            self._failures = 0
            return max(self._seconds, _LEAST_RATIO * took)
        self._failures = min(self._failures + 1, 10)
        backoff = min(self._seconds * 2.0**self._failures, max(_LONGEST_WAIT, self._seconds))
        return took + max(backoff, getattr(outcome, "retry_after", None) or 0.0)
