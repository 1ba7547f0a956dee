"""Rate limiting by token buckets (G-185)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Operations that always count as heavy (G-185).
HEAVY: Final = frozenset(
    {"back_up_project", "check_project", "interaction_insights", "event_insights", "export_users"}
)
#: Operations that count as heavy without a limit.
HEAVY_UNLIMITED: Final = frozenset({"search_interactions", "search_users"})
#: Number of buckets from which on full ones are dropped.
_MOST_BUCKETS: Final = 10_000


@dataclass(frozen=True)
class RateLimit:
    """A number of requests per period, with a burst of the same size.

    Parameters
    ----------
    name : str
        Name in the headers.
    amount : int
        Size of the bucket.
    seconds : float
        Time to refill an empty bucket.
    """

    name: str
    amount: int
    seconds: float

    @property
    def policy(self) -> str:
        """Item of the RateLimit-Policy header.

        Examples
        --------
        >>> RateLimit("requests", 600, 60).policy
        '"requests";q=600;w=60'
        """
        return f'"{self.name}";q={self.amount};w={math.ceil(self.seconds)}'


@dataclass(frozen=True)
class Quota:
    """State of a caller's bucket after a request.

    Parameters
    ----------
    limit : RateLimit
        The rate limit.
    remaining : int
        Requests left in the bucket.
    seconds_to_full : float
        Time until the bucket is full again.
    seconds_to_wait : float
        Time until the next request is allowed; 0 if this one was.
    """

    limit: RateLimit
    remaining: int
    seconds_to_full: float
    seconds_to_wait: float

    @property
    def item(self) -> str:
        """Item of the RateLimit header."""
        return f'"{self.limit.name}";r={self.remaining};t={_round_up(self.seconds_to_full)}'


@dataclass(frozen=True)
class Claim:
    """Requests or events to take out of one bucket.

    Parameters
    ----------
    limit : RateLimit
        The rate limit.
    caller : str
        Whose bucket it is.
    amount : int, default 1
        Number of requests or events.
    may_borrow : bool, default False
        Whether one that is left in the bucket is enough for all; the caller then waits until the others have
        come back. Only for a bucket that no other caller shares.
    """

    limit: RateLimit
    caller: str
    amount: int = 1
    may_borrow: bool = False


class Buckets:
    """Token buckets, one per rate limit and caller; not thread-safe.

    Parameters
    ----------
    clock : callable, optional
        Returns seconds of a monotonic clock.

    Examples
    --------
    >>> buckets, limit = Buckets(clock=lambda: 0.0), RateLimit("two", 2, 10)
    >>> [buckets.take([Claim(limit, "anna")])[0].seconds_to_wait for _ in range(3)]
    [0.0, 0.0, 5.0]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Level of each bucket, time of that level, and time when it will be full.
        self._levels: dict[tuple[str, str], tuple[float, float, float]] = {}

    def take(self, claims: Sequence[Claim]) -> list[Quota]:
        """Take all claims, or none if one of them has to wait.

        Parameters
        ----------
        claims : sequence of Claim
            At most one per bucket.

        Returns
        -------
        list of Quota
            One per claim, or only that of the first claim that has to wait.
        """
        now = self._clock()
        if len(self._levels) >= _MOST_BUCKETS:
            self._levels = {key: state for key, state in self._levels.items() if state[2] > now}
        levels = [self._level(claim, now) for claim in claims]
        for claim, level in zip(claims, levels, strict=True):
            needed = min(claim.amount, 1) if claim.may_borrow else claim.amount
            if level < needed:
                return [_quota(claim.limit, level, needed)]
        taken = [level - claim.amount for claim, level in zip(claims, levels, strict=True)]
        quotas = [_quota(claim.limit, level) for claim, level in zip(claims, taken, strict=True)]
        for claim, level, quota in zip(claims, taken, quotas, strict=True):
            self._levels[claim.limit.name, claim.caller] = (level, now, now + quota.seconds_to_full)
        return quotas

    def _level(self, claim: Claim, now: float) -> float:
        limit = claim.limit
        level, before, _ = self._levels.get((limit.name, claim.caller), (float(limit.amount), now, now))
        return min(limit.amount, level + (now - before) * limit.amount / limit.seconds)


def _quota(limit: RateLimit, level: float, needed: int = 0) -> Quota:
    per_second = limit.amount / limit.seconds
    to_full = (limit.amount - level) / per_second
    return Quota(limit, max(int(level), 0), to_full, max(needed - level, 0.0) / per_second if needed else 0.0)


def headers(quotas: Iterable[Quota]) -> dict[str, str]:
    """Return the rate limit headers of a response (G-186)."""
    quotas = list(quotas)
    if not quotas:
        return {}
    fields = {
        "RateLimit-Policy": ", ".join(quota.limit.policy for quota in quotas),
        "RateLimit": ", ".join(quota.item for quota in quotas),
    }
    wait = max(quota.seconds_to_wait for quota in quotas)
    return {**fields, "Retry-After": str(max(_round_up(wait), 1))} if wait else fields


def _round_up(seconds: float) -> int:
    """Round up to whole seconds, ignoring floating-point error."""
    return math.ceil(round(seconds, 6))
