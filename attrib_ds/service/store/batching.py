"""Combines work items that threads submit concurrently into batches."""

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
class _Entry(Generic[Work, Result]):
    work: Work
    #: Its result; None makes the waiting thread the next leader.
    future: Future[tuple[Result | Exception] | None] = field(default_factory=Future)


class Batcher(Generic[Work, Result]):
    """Runs the work items of many threads in batches, so that a batch costs few statements.

    The first thread runs its own item at once. Items submitted meanwhile wait in a queue, and one of the
    waiting threads, the next leader, runs all of them as one batch.

    Parameters
    ----------
    run_batch : callable
        Takes the work items in order of submission; returns one result or exception for each. It runs in
        one thread at a time.

    Examples
    --------
    >>> batcher = Batcher(lambda numbers: [number + 1 for number in numbers])
    >>> batcher.submit(1)
    2
    """

    def __init__(self, run_batch: Callable[[Sequence[Work]], Sequence[Result | Exception]]) -> None:
        self._run_batch = run_batch
        self._lock = threading.Lock()
        self._queue: list[_Entry[Work, Result]] = []
        self._has_leader = False

    def submit(self, work: Work) -> Result:
        """Run a work item, in a batch with concurrent ones, and return its result or raise its exception."""
        entry: _Entry[Work, Result] = _Entry(work)
        with self._lock:
            self._queue.append(entry)
            is_first, self._has_leader = not self._has_leader, True
        outcome = None if is_first else entry.future.result()
        result = self._lead(entry) if outcome is None else outcome[0]
        if isinstance(result, Exception):
            raise result
        return result

    def _lead(self, own: _Entry[Work, Result]) -> Result | Exception:
        """Run all queued items as one batch, then pass leadership to an item queued meanwhile."""
        with self._lock:
            batch, self._queue = self._queue, []
        try:
            results = self._results([entry.work for entry in batch])
        except BaseException as error:
            for entry in batch:
                if entry is not own:
                    entry.future.set_exception(error)
            raise
        else:
            for entry, result in zip(batch, results, strict=True):
                if entry is not own:
                    entry.future.set_result((result,))
            return results[batch.index(own)]
        finally:
            with self._lock:
                if self._queue:
                    self._queue[0].future.set_result(None)
                else:
                    self._has_leader = False

    def _results(self, batch: Sequence[Work]) -> Sequence[Result | Exception]:
        try:
            return self._run_batch(batch)
        except Exception as error:
            is_shared = isinstance(error, AttribError) and not isinstance(error, ServiceFailure)
            if is_shared or len(batch) == 1:
                raise
            # One item may have failed the batch; run each alone, so that the others succeed.
            return [self._run_alone(work) for work in batch]

    def _run_alone(self, work: Work) -> Result | Exception:
        try:
            (result,) = self._run_batch([work])
        except Exception as error:  # noqa: BLE001  (raised to the submitter)
            return error
        return result
