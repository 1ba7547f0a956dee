"""Runs blocking work in threads, as much of it as was agreed."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from attrib_ds.service.http.failures import Failed

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """Threads that work for one event loop.

    Parameters
    ----------
    threads : int
        How many.
    most_waiting : int
        Pieces of work that may wait for them.
    """

    def __init__(self, *, threads: int, most_waiting: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="attrib-ds http")
        self._most = threads + most_waiting
        self._taken = 0

    async def begin(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a function of a request that is not worked on yet, and return its result.

        Raises
        ------
        Failed
            With 503 if too much waits already (G-140).
        """
        if self._taken >= self._most:
            raise Failed(503, headers={"Retry-After": "1"})
        self._taken += 1
        try:
            return await self.run(function, *arguments, **named)
        finally:
            self._taken -= 1

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a function of a request that was taken on, and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(function, *arguments, **named))

    def close(self) -> None:
        """Finish what was taken on, then end the threads."""
        self._pool.shutdown()
