"""Time: as it passes, as the service counts it, and as the user waits."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Smaller differences are those of the way and of a header without fractions.
_SMALLEST_DIFFERENCE: Final = 5.0


@dataclass(frozen=True)
class Clock:
    """Where a transport has its time from; tests bring their own.

    Parameters
    ----------
    monotonic : callable
        Returns seconds that never go back.
    wall : callable
        Returns seconds since 1970.
    sleep : callable
        Waits so many seconds.
    random : callable
        Returns a number from 0 to 1, for waits that differ.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


class ServiceTime:
    """Tell the time as the service does, by the Date of its answers.

    Parameters
    ----------
    clock : Clock
        This machine's.

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
        self._ahead = 0.0

    def now(self) -> float:
        """Return the seconds since 1970 by the service's clock, as far as it is known."""
        with self._lock:
            return self._clock.wall() + self._ahead

    def note(self, date: str | None) -> bool:
        """Take in the Date of an answer that has just come; true if it changes what was known."""
        told = instant_of(date)
        if told is None:
            return False
        # Half a second: the header has cut the fraction off.
        ahead = told + 0.5 - self._clock.wall()
        ahead = ahead if abs(ahead) >= _SMALLEST_DIFFERENCE else 0.0
        with self._lock:
            has_changed = abs(ahead - self._ahead) >= _SMALLEST_DIFFERENCE
            if has_changed:
                self._ahead = ahead
        return has_changed


def instant_of(date: str | None) -> float | None:
    """Return the seconds since 1970 that an HTTP date stands for, None where it is none.

    Examples
    --------
    >>> instant_of("Thu, 01 Jan 1970 00:01:00 GMT"), instant_of("soon")
    (60.0, None)
    """
    if not date:
        return None
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
