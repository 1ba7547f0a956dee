"""A thread pool with a bounded queue for the blocking work of requests."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from attrib_ds.service.http.error_responses import HttpError
from attrib_ds.service.store.cancellation import Cancellation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool:
    """Threads for the blocking work of one event loop.

    Parameters
    ----------
    threads : int
        Number of threads.
    most_waiting : int
        Maximum number of requests waiting for a thread.
    niceness : int, default 0
        Number by which the priority of the threads is lowered, on Linux; elsewhere priority belongs to the
        whole process.
    """

    def __init__(self, *, threads: int, most_waiting: int, niceness: int = 0) -> None:
        self._pool = ThreadPoolExecutor(
            threads, "attrib-ds http", initializer=_lower_priority, initargs=(niceness,)
        )
        self._most = threads + most_waiting
        self._accepted = 0

    async def run_or_reject(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a function of a new request and return its result.

        Raises
        ------
        HttpError
            With 503 if the queue is full (G-140).
        """
        return await self.run_cancellable(Cancellation(), function, *arguments, **named)

    async def run_cancellable(
        self, cancellation: Cancellation, function: Callable[P, T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Run a function as :meth:`run_or_reject`; on cancellation it leaves the queue.

        Raises
        ------
        asyncio.CancelledError
            If it was cancelled before it began.
        """
        with self.admission():
            work = self._pool.submit(function, *arguments, **named)
            with cancellation.calling(work.cancel):
                return await asyncio.wrap_future(work)

    @contextmanager
    def admission(self) -> Iterator[None]:
        """Count a new request while the block runs, so that it takes a place in the queue.

        Raises
        ------
        HttpError
            With 503 if the queue is full (G-140).
        """
        if self._accepted >= self._most:
            raise HttpError(503, headers={"Retry-After": "1"})
        self._accepted += 1
        try:
            yield
        finally:
            self._accepted -= 1

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a function of an accepted request and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(function, *arguments, **named))

    def close(self) -> None:
        """Finish accepted work, then end the threads."""
        self._pool.shutdown()


def _lower_priority(niceness: int) -> None:
    if sys.platform == "linux" and niceness:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
