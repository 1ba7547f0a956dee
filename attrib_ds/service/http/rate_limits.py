"""Limits how often each may ask, by token buckets (G-185)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Buckets kept before full ones, which say nothing, are forgotten.
_MOST_BUCKETS: Final = 10_000


@dataclass(frozen=True)
class Rate:
    """So many requests at once, coming back evenly over so many seconds.

    Parameters
    ----------
    name : str
        Name in the headers.
    amount : int
        Size of the bucket.
    seconds : float
        Time in which an empty bucket fills.
    """

    name: str
    amount: int
    seconds: float

    @property
    def policy(self) -> str:
        """Its item in the header RateLimit-Policy.

        Examples
        --------
        >>> Rate("requests", 600, 60).policy
        '"requests";q=600;w=60'
        """
        return f'"{self.name}";q={self.amount};w={math.ceil(self.seconds)}'


@dataclass(frozen=True)
class Standing:
    """Where a caller stands after a request.

    Parameters
    ----------
    rate : Rate
        Which rate.
    remaining : int
        Requests left in the bucket.
    seconds_to_full : float
        Time until the bucket is full again.
    seconds_to_wait : float
        Time until the next request is let through; 0 when this one was.
    """

    rate: Rate
    remaining: int
    seconds_to_full: float
    seconds_to_wait: float

    @property
    def item(self) -> str:
        """Its item in the header RateLimit."""
        return f'"{self.rate.name}";r={self.remaining};t={_whole(self.seconds_to_full)}'


class Buckets:
    """A bucket for each rate and caller; used by one thread.

    Parameters
    ----------
    clock : callable, optional
        Returns seconds that never go back.

    Examples
    --------
    >>> buckets = Buckets(clock=lambda: 0.0)
    >>> [buckets.take(Rate("two", 2, 10), "anna").seconds_to_wait for _ in range(3)]
    [0.0, 0.0, 5.0]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # What was in each bucket, when, and when it will be full.
        self._levels: dict[tuple[str, str], tuple[float, float, float]] = {}

    def take(self, rate: Rate, caller: str, *, amount: int = 1) -> Standing:
        """Take requests out of a bucket, if one is left; those that are not left are taken in advance."""
        now = self._clock()
        level, before, _ = self._levels.get((rate.name, caller), (float(rate.amount), now, now))
        per_second = rate.amount / rate.seconds
        level = min(rate.amount, level + (now - before) * per_second)
        is_let_through = level >= 1
        level -= amount * is_let_through
        to_full = (rate.amount - level) / per_second
        if len(self._levels) >= _MOST_BUCKETS:
            self._levels = {each: state for each, state in self._levels.items() if state[2] > now}
        self._levels[rate.name, caller] = (level, now, now + to_full)
        return Standing(
            rate, max(int(level), 0), to_full, 0.0 if is_let_through else (1 - level) / per_second
        )


def headers(standings: Iterable[Standing]) -> dict[str, str]:
    """Return the headers that tell a caller where it stands (G-186)."""
    told = list(standings)
    if not told:
        return {}
    fields = {
        "RateLimit-Policy": ", ".join(each.rate.policy for each in told),
        "RateLimit": ", ".join(each.item for each in told),
    }
    wait = max(each.seconds_to_wait for each in told)
    return {**fields, "Retry-After": str(max(_whole(wait), 1))} if wait else fields


def _whole(seconds: float) -> int:
    """Round up, but not for what binary fractions leave over."""
    return math.ceil(round(seconds, 6))
