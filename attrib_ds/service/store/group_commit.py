"""Lets one thread do the work of all that arrive with some at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from attrib_ds.errors import AttribError, ServiceFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Work = TypeVar("Work")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class _Arrival(Generic[Work, Result]):
    work: Work
    #: Holds None when it is this one's turn to work for those that wait.
    future: Future[tuple[Result | Exception] | None] = field(default_factory=Future)


class Gathering(Generic[Work, Result]):
    """Gathers what threads bring at the same time, so that it is done with few statements.

    The first thread works for itself at once. Those that arrive meanwhile wait, and one of them works for
    all of them next.

    Parameters
    ----------
    carry_out : callable
        Takes what was brought, in the order of arrival; returns one result or exception for each. It runs
        in one thread at a time.

    Examples
    --------
    >>> gathering = Gathering(lambda numbers: [number + 1 for number in numbers])
    >>> gathering.bring(1)
    2
    """

    def __init__(self, carry_out: Callable[[Sequence[Work]], Sequence[Result | Exception]]) -> None:
        self._carry_out = carry_out
        self._lock = threading.Lock()
        self._arrivals: list[_Arrival[Work, Result]] = []
        self._is_led = False

    def bring(self, work: Work) -> Result:
        """Have a piece of work done and return its result, or raise its exception."""
        arrival: _Arrival[Work, Result] = _Arrival(work)
        with self._lock:
            self._arrivals.append(arrival)
            is_first, self._is_led = not self._is_led, True
        told = None if is_first else arrival.future.result()
        result = self._lead(arrival) if told is None else told[0]
        if isinstance(result, Exception):
            raise result
        return result

    def _lead(self, own: _Arrival[Work, Result]) -> Result | Exception:
        """Work for all that wait, and hand over to one of those that arrived meanwhile."""
        with self._lock:
            group, self._arrivals = self._arrivals, []
        try:
            results = self._results([each.work for each in group])
        except BaseException as error:
            for each in group:
                if each is not own:
                    each.future.set_exception(error)
            raise
        else:
            for each, result in zip(group, results, strict=True):
                if each is not own:
                    each.future.set_result((result,))
            return results[group.index(own)]
        finally:
            with self._lock:
                if self._arrivals:
                    self._arrivals[0].future.set_result(None)
                else:
                    self._is_led = False

    def _results(self, group: Sequence[Work]) -> Sequence[Result | Exception]:
        try:
            return self._carry_out(group)
        except Exception as error:
            is_about_all = isinstance(error, AttribError) and not isinstance(error, ServiceFailure)
            if is_about_all or len(group) == 1:
                raise
            # One of them may be what cannot be done; the others are not to suffer from it.
            return [self._alone(each) for each in group]

    def _alone(self, work: Work) -> Result | Exception:
        try:
            (result,) = self._carry_out([work])
        except Exception as error:  # noqa: BLE001  (who brought it gets it)
            return error
        return result
