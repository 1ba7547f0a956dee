"""Retry requests with backoff if that is safe, within a time budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from attrib_ds.errors import AttribError, TooManyRequests
from attrib_ds.transports.http.clock import parse_http_date

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.transports.http.clock import Clock
    from attrib_ds.transports.http.pace import Pace

T = TypeVar("T")

#: When to retry a failed attempt: always (the service did not start it), if the operation is safe to repeat,
#: or never.
Retry = Literal["always", "if safe", "never"]

_UNKNOWN: Final = "; the request may have been carried out, so check before you send it again"


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Number of attempts and waits between them: exponential backoff with full jitter.

    Parameters
    ----------
    attempts : int, default 6
        Maximum number of attempts.
    seconds : float, default 120
        Time budget, from the first attempt on; a wait that would end later is not started.
    first_wait, longest_wait : float
        Upper bounds in seconds of the first and of any wait, unless the service sends Retry-After.
    """

    attempts: int = 6
    seconds: float = 120.0
    first_wait: float = 0.5
    longest_wait: float = 20.0


class AttemptFailed(Exception):
    """One attempt failed.

    Parameters
    ----------
    error : AttribError
        Raised to the user unless another attempt succeeds.
    retry : str
        See :data:`Retry`.
    reached_service : bool, default True
        Whether the service may have started to carry out the request.
    """

    def __init__(self, error: AttribError, retry: Retry, *, reached_service: bool = True) -> None:
        super().__init__(error)
        self.error = error
        self.retry = retry
        self.reached_service = reached_service


class Retrying:
    """Run requests under a retry policy.

    Parameters
    ----------
    clock : Clock
        Source of time.
    pace : Pace
        Shared by all threads.
    retry_policy : RetryPolicy
        Applied to each request.
    """

    def __init__(self, *, clock: Clock, pace: Pace, retry_policy: RetryPolicy) -> None:
        self._clock = clock
        self._pace = pace
        self._retry_policy = retry_policy

    def run(
        self, attempt: Callable[[], T], *, is_safe: bool, is_wanted: Callable[[], bool] | None = None
    ) -> T:
        """Run a request, and retry it after a failure if that is safe.

        Parameters
        ----------
        attempt : callable
            Raises :class:`AttemptFailed` if it may be retried; other exceptions propagate.
        is_safe : bool
            Whether the request is idempotent.
        is_wanted : callable, optional
            Returns whether to continue; also polled during waits.

        Returns
        -------
        object
            Result of the successful attempt.

        Raises
        ------
        AttribError
            The error of the last attempt.
        """
        deadline = self._clock.monotonic() + self._retry_policy.seconds
        wait = self._pace.turn(within=self._retry_policy.seconds)
        reason = "the service limits the rate of requests"
        error: AttribError = TooManyRequests(
            f"the service limits the rate of requests; try again in {wait:.0f} s", retry_after=wait
        )
        for number in range(1, self._retry_policy.attempts + 1):
            if self._clock.monotonic() + wait > deadline:
                break
            self._pace.wait(wait, reason, is_wanted)
            if is_wanted is not None and not is_wanted():
                break
            try:
                result = attempt()
            except AttemptFailed as failure:
                error = failure.error
                wait = self._wait(error, number)
                if failure.retry == "never" or (failure.retry == "if safe" and not is_safe):
                    if failure.retry == "if safe" and failure.reached_service:
                        error.message += _UNKNOWN
                    break
                if number == self._retry_policy.attempts:
                    break
                left = deadline - self._clock.monotonic()
                if wait > left:
                    if error.retry_after is not None:
                        error.message += f"; the service asks to wait {error.retry_after:,.0f} s"
                    break
                wait = max(wait, self._pace.turn(within=left))
                reason = error.message.partition("\n")[0][:200]
            else:
                self._pace.speed_up()
                return result
        # Outside the handler, so that the error carries no other traceback or context.
        raise error

    def _wait(self, error: AttribError, number: int) -> float:
        retry_after = error.retry_after
        if retry_after is not None or isinstance(error, TooManyRequests):
            self._pace.slow_down(retry_after if retry_after is not None else self._backoff(number))
            return retry_after or 0.0
        return self._backoff(number)

    def _backoff(self, number: int) -> float:
        """Draw a wait uniformly from 0 to a bound that doubles with each attempt (full jitter)."""
        policy = self._retry_policy
        bound = min(policy.first_wait * 2.0 ** (number - 1), policy.longest_wait)
        return self._clock.random() * bound


def parse_retry_after(retry_after: str | None, *, now: float) -> float | None:
    """Return the seconds to wait from a Retry-After header; None if it is missing or invalid.

    Parameters
    ----------
    retry_after : str, optional
        Whole seconds, or an HTTP date (RFC 9110, section 10.2.3).
    now : float
        Unix time by the service's clock.

    Returns
    -------
    float, optional
        0 or more.

    Examples
    --------
    >>> parse_retry_after("12", now=0), parse_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", now=20)
    (12.0, 40.0)
    >>> parse_retry_after("soon", now=0)
    """
    value = (retry_after or "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:12])
    until = parse_http_date(value)
    return None if until is None else max(until - now, 0.0)
