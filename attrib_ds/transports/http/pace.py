"""Client-side rate limiting: all threads of a transport slow down together after a 429 or 503."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final

from attrib_ds.display import is_watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.transports.http.clock import Clock

#: Seconds between two requests after the first 429; each further one doubles it.
_FIRST_INTERVAL: Final = 0.05
_LONGEST_INTERVAL: Final = 5.0
#: Factor of the interval after each success; below the shortest interval it becomes 0.
_RECOVERY: Final = 0.9
_SHORTEST_INTERVAL: Final = 0.01
#: Longest pause after a rejection, in seconds; a service that asks for more is asked again after it.
_LONGEST_PAUSE: Final = 300.0
#: Rejections within this many seconds count as one.
_SHORTEST_PAUSE: Final = 0.5
#: Shorter waits are not reported, in seconds.
_SHORTEST_REPORTED: Final = 2.0
#: Seconds between two checks whether a waiting thread should continue.
_POLL_INTERVAL: Final = 0.25


class Pace:
    """Schedule of the requests of all threads.

    Parameters
    ----------
    clock : Clock
        Source of time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0.0
        self._interval = 0.0
        self._paused_until = 0.0
        self._reported_until = 0.0

    def turn(self, *, within: float) -> float:
        """Reserve the next slot and return the seconds until it; none beyond ``within`` is reserved.

        Otherwise calls that fail at once would take slots, each further in the future than the last.
        """
        with self._lock:
            now = self._clock.monotonic()
            start = max(now, self._next)
            if start - now <= within:
                self._next = start + self._interval
            return start - now

    def slow_down(self, seconds: float) -> None:
        """Pause all requests for a number of seconds, five minutes at most, and space them out afterwards."""
        seconds = min(seconds, _LONGEST_PAUSE)
        with self._lock:
            now = self._clock.monotonic()
            # Concurrent requests that were rejected together count once.
            if now >= self._paused_until:
                self._interval = min(max(self._interval * 2, _FIRST_INTERVAL), _LONGEST_INTERVAL)
            self._paused_until = max(self._paused_until, now + max(seconds, _SHORTEST_PAUSE))
            self._next = max(self._next, now + seconds)

    def speed_up(self) -> None:
        """Shorten the interval after a success."""
        with self._lock:
            self._interval *= _RECOVERY
            if self._interval < _SHORTEST_INTERVAL:
                self._interval = 0.0

    def wait(self, seconds: float, reason: str, is_wanted: Callable[[], bool] | None = None) -> None:
        """Wait, and report long waits to an interactive user, once for all threads.

        Parameters
        ----------
        seconds : float
            Duration of the wait.
        reason : str
            Reason to report.
        is_wanted : callable, optional
            Polled during the wait, which ends when it returns False.
        """
        with self._lock:
            until = self._clock.monotonic() + seconds
            is_long = seconds >= _SHORTEST_REPORTED
            is_new = is_long and until > self._reported_until + _SHORTEST_REPORTED
            self._reported_until = until if is_new else self._reported_until
        if is_new and is_watched():
            sys.stderr.write(f"attrib-ds: waiting {seconds:.0f} s: {reason}\n")
            sys.stderr.flush()
        while seconds > 0 and (is_wanted is None or is_wanted()):
            pause = seconds if is_wanted is None else min(seconds, _POLL_INTERVAL)
            self._clock.sleep(pause)
            seconds -= pause
