"""Tries a request again where that is safe, and gives up in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from attrib_ds.errors import AttribError, TooManyRequests
from attrib_ds.transports.http.clock import instant_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.transports.http.clock import Clock
    from attrib_ds.transports.http.pace import Pace

T = TypeVar("T")

#: When what failed may be tried again: in any case (it was not begun), if repeating it is safe, or never.
Again = Literal["always", "if safe", "never"]

_UNKNOWN: Final = "; whether it was carried out is not known, so look before you send it again"


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a request is tried.

    Parameters
    ----------
    attempts : int, default 6
        At most so many.
    seconds : float, default 120
        From the first attempt on; no wait is begun that would end later.
    first_wait, longest_wait : float
        Bounds of the wait where the service names none: a random part of the first, doubled each time.
    """

    attempts: int = 6
    seconds: float = 120.0
    first_wait: float = 0.5
    longest_wait: float = 20.0


class Failed(Exception):
    """An attempt failed; how, and whether there may be another.

    Parameters
    ----------
    error : AttribError
        For the user, when there is no other attempt.
    again : str
        See :data:`Again`.
    began : bool, default True
        Whether the service may have begun to carry it out.
    """

    def __init__(self, error: AttribError, again: Again, *, began: bool = True) -> None:
        super().__init__(error)
        self.error = error
        self.again = again
        self.began = began


class Retrying:
    """Carry out requests with patience.

    Parameters
    ----------
    clock : Clock
        Where time comes from.
    pace : Pace
        Shared by all workers.
    patience : Patience
        For each request.
    """

    def __init__(self, *, clock: Clock, pace: Pace, patience: Patience) -> None:
        self._clock = clock
        self._pace = pace
        self._patience = patience

    def run(
        self, attempt: Callable[[], T], *, is_safe: bool, is_wanted: Callable[[], bool] | None = None
    ) -> T:
        """Carry out a request, again where it fails and that is safe.

        Parameters
        ----------
        attempt : callable
            Raises :class:`Failed` for what this is about; anything else is raised as it is.
        is_safe : bool
            Whether repeating it does no harm though it had been carried out before.
        is_wanted : callable, optional
            Whether there should be another attempt; asked during waits too.

        Returns
        -------
        object
            What the attempt that worked returned.

        Raises
        ------
        AttribError
            Of the last attempt.
        """
        end = self._clock.monotonic() + self._patience.seconds
        wait, reason = self._pace.turn(), "other requests were too many for the service"
        error: AttribError = TooManyRequests(
            f"the service asked other requests to wait; try again in {wait:.0f} s", retry_after=wait
        )
        for number in range(1, self._patience.attempts + 1):
            if self._clock.monotonic() + wait > end:
                break
            self._pace.wait(wait, reason, is_wanted)
            if is_wanted is not None and not is_wanted():
                break
            try:
                result = attempt()
            except Failed as failure:
                error = failure.error
                wait = self._wait(error, number)
                if failure.again == "never" or (failure.again == "if safe" and not is_safe):
                    if failure.again == "if safe" and failure.began:
                        error.message += _UNKNOWN
                    break
                if number == self._patience.attempts:
                    break
                wait = max(wait, self._pace.turn())
                reason = error.message.partition("\n")[0][:200]
            else:
                self._pace.succeeded()
                return result
        # Out of the handler, so that the error has no frames and no context but its own.
        raise error

    def _wait(self, error: AttribError, number: int) -> float:
        asked = error.retry_after
        if asked is not None or isinstance(error, TooManyRequests):
            self._pace.refused(asked if asked is not None else self._drawn(number))
            return asked or 0.0
        return self._drawn(number)

    def _drawn(self, number: int) -> float:
        """Draw the wait evenly from nothing to a bound that doubles (full jitter)."""
        patience = self._patience
        bound = min(patience.first_wait * 2.0 ** (number - 1), patience.longest_wait)
        return self._clock.random() * bound


def seconds_asked(retry_after: str | None, *, now: float) -> float | None:
    """Return the seconds that a header Retry-After asks to wait, None where it is none.

    Parameters
    ----------
    retry_after : str, optional
        Whole seconds, or an HTTP date (RFC 9110, section 10.2.3).
    now : float
        Seconds since 1970 by the service's clock.

    Returns
    -------
    float, optional
        0 or more.

    Examples
    --------
    >>> seconds_asked("12", now=0), seconds_asked("Thu, 01 Jan 1970 00:01:00 GMT", now=20)
    (12.0, 40.0)
    >>> seconds_asked("soon", now=0)
    """
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    until = instant_of(text)
    return None if until is None else max(until - now, 0.0)
