"""A thread pool with a bounded queue for the blocking work of requests."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from attrib_ds.service.http.error_responses import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """

    def __init__(self, *, threads: int, most_waiting: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="attrib-ds http")
        self._most = threads + most_waiting
        self._accepted = 0

    async def run_or_reject(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a function of a new request and return its result.

        Raises
        ------
        HttpError
            With 503 if the queue is full (G-140).
        """
        if self._accepted >= self._most:
            raise HttpError(503, headers={"Retry-After": "1"})
        self._accepted += 1
        try:
            return await self.run(function, *arguments, **named)
        finally:
            self._accepted -= 1

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a function of an accepted request and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(function, *arguments, **named))

    def close(self) -> None:
        """Finish accepted work, then end the threads."""
        self._pool.shutdown()
