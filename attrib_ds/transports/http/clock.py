"""The transport's clock, and the service's clock as estimated from its Date headers."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Smaller differences come from network latency and from the header's whole seconds.
_SMALLEST_DIFFERENCE: Final = 5.0


@dataclass(frozen=True)
class Clock:
    """Source of time and randomness; tests replace it.

    Parameters
    ----------
    monotonic : callable
        Returns seconds of a monotonic clock.
    wall : callable
        Returns the Unix time.
    sleep : callable
        Waits for a number of seconds.
    random : callable
        Returns a random number from 0 to 1, for jitter.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


class ServiceTime:
    """Estimate the service's clock from the Date headers of its responses.

    Parameters
    ----------
    clock : Clock
        The local clock.

    Examples
    --------
    >>> service_time = ServiceTime(Clock(wall=lambda: 1_000_000_000.0))
    >>> service_time.note("Sun, 09 Sep 2001 01:56:40 GMT")
    True
    >>> round(service_time.now() - 1_000_000_000)
    600
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._offset = 0.0

    def now(self) -> float:
        """Return the Unix time by the service's clock; by the local one before the first response."""
        with self._lock:
            return self._clock.wall() + self._offset

    def note(self, date: str | None) -> bool:
        """Update the clock from the Date header of a new response; return whether it changed."""
        service_time = parse_http_date(date)
        if service_time is None:
            return False
        # Half a second: the header is truncated to whole seconds.
        offset = service_time + 0.5 - self._clock.wall()
        offset = offset if abs(offset) >= _SMALLEST_DIFFERENCE else 0.0
        with self._lock:
            has_changed = abs(offset - self._offset) >= _SMALLEST_DIFFERENCE
            if has_changed:
                self._offset = offset
        return has_changed


def parse_http_date(date: str | None) -> float | None:
    """Return the Unix time of an HTTP date; None if it is missing or invalid.

    Examples
    --------
    >>> parse_http_date("Thu, 01 Jan 1970 00:01:00 GMT"), parse_http_date("soon")
    (60.0, None)
    """
    if not date:
        return None
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
