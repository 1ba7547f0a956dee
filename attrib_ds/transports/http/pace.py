"""Slows all workers of a transport together when the service asks for it."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final

from attrib_ds.display import is_watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.transports.http.clock import Clock

#: Seconds between two requests after the first refusal; each further one doubles it.
_FIRST_INTERVAL: Final = 0.05
_LONGEST_INTERVAL: Final = 5.0
#: What is left of the interval after each success, until it is nothing.
_EASING: Final = 0.9
_SHORTEST_INTERVAL: Final = 0.01
#: Refusals that come within so many seconds are one.
_SHORTEST_CLOSED: Final = 0.5
#: Shorter waits are not worth a word.
_SHORTEST_TOLD: Final = 2.0
#: How long somebody sleeps who may no longer be wanted.
_LONGEST_NAP: Final = 0.25


class Pace:
    """When the next request of any worker may begin.

    Parameters
    ----------
    clock : Clock
        Where time comes from.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0.0
        self._interval = 0.0
        self._closed_until = 0.0
        self._told_until = 0.0

    def turn(self) -> float:
        """Take the next turn and return the seconds until it."""
        with self._lock:
            now = self._clock.monotonic()
            begins = max(now, self._next)
            self._next = begins + self._interval
            return begins - now

    def refused(self, seconds: float) -> None:
        """Let nobody begin for so many seconds, and then one after the other."""
        with self._lock:
            now = self._clock.monotonic()
            # Workers that were refused together are one refusal.
            if now >= self._closed_until:
                self._interval = min(max(self._interval * 2, _FIRST_INTERVAL), _LONGEST_INTERVAL)
            self._closed_until = max(self._closed_until, now + max(seconds, _SHORTEST_CLOSED))
            self._next = max(self._next, now + seconds)

    def succeeded(self) -> None:
        """Ease the interval."""
        with self._lock:
            self._interval *= _EASING
            if self._interval < _SHORTEST_INTERVAL:
                self._interval = 0.0

    def wait(self, seconds: float, reason: str, is_wanted: Callable[[], bool] | None = None) -> None:
        """Wait, and say so where a user looks on; workers that wait together say it once.

        Parameters
        ----------
        seconds : float
            How long.
        reason : str
            Why.
        is_wanted : callable, optional
            Asked again and again; the wait ends when it says no.
        """
        with self._lock:
            until = self._clock.monotonic() + seconds
            is_news = seconds >= _SHORTEST_TOLD and until > self._told_until + _SHORTEST_TOLD
            self._told_until = until if is_news else self._told_until
        if is_news and is_watched():
            sys.stderr.write(f"attrib-ds: waiting {seconds:.0f} s: {reason}\n")
            sys.stderr.flush()
        while seconds > 0 and (is_wanted is None or is_wanted()):
            nap = seconds if is_wanted is None else min(seconds, _LONGEST_NAP)
            self._clock.sleep(nap)
            seconds -= nap
