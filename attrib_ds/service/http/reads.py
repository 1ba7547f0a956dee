"""Reads: a few at a time, each until its deadline, and only while the client waits (G-230).

The deadline is that of the first byte of the answer. A streamed answer may be of any length, so from then on
each of its portions has as much time, and the time that the client needs to receive it does not count.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from starlette.requests import ClientDisconnect

from attrib_ds.contract import OPERATIONS
from attrib_ds.contract.operation import DEADLINE_EXCEEDED
from attrib_ds.service.http.error_responses import HttpError
from attrib_ds.service.http.thread_pool import ThreadPool
from attrib_ds.service.store.cancellation import Cancellation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.types import Receive

    from attrib_ds.service.http.server_options import ServerOptions

P = ParamSpec("P")
T = TypeVar("T")

#: Operations that only read. A backup is none of them: it copies the file, however long that takes.
READS: Final = frozenset(
    {
        "event_insights",
        "export_users",
        "interaction_insights",
        "search_interactions",
        "search_users",
        *(name for name, operation in OPERATIONS.items() if operation.method == "GET"),
    }
) - {"back_up_project"}
#: Threads for short steps of reads: parsing a request, producing one chunk of a stream.
_THREADS_FOR_STEPS: Final = 2
#: Lower priority of queries: on a busy machine, events come first.
_NICENESS: Final = 10
_SECONDS_BETWEEN_INTERRUPTS: Final = 0.1


class Read:
    """One request, from its arguments to the last byte of its answer.

    Parameters
    ----------
    receive : callable
        Of the ASGI request, whose body has been read.
    steps : ThreadPool
        Threads that produce the chunks of its answer.
    seconds : float, optional
        Time limit; none by default.

    Attributes
    ----------
    cancellation : Cancellation
        Of its queries.
    steps : ThreadPool
        As above.
    """

    def __init__(self, receive: Receive, *, steps: ThreadPool, seconds: float | None = None) -> None:
        self.cancellation = Cancellation()
        self.steps = steps
        self._receive = receive
        self._seconds = seconds
        self._deadline = self._later()
        self._timeout: asyncio.Timeout | None = None
        self._cause: Exception | None = None

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Cancel the queries of the block when time is over or the client leaves.

        Raises
        ------
        HttpError
            With 503, if time is over.
        ClientDisconnect
            If the client has left.
        """
        watching = asyncio.ensure_future(self._watch())
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            # Queries fail in many ways when they are interrupted.
            if self._cause is not None and self._cause is not error:
                raise self._cause from error
            raise
        finally:
            watching.cancel()

    def check(self) -> None:
        """Raise if time is over or the client has left."""
        if self._cause is not None:
            raise self._cause

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the time of the block not count, and begin the time of the next portion after it."""
        self._set_deadline(None)
        yield
        self._set_deadline(self._later())

    def _later(self) -> float | None:
        return None if self._seconds is None else asyncio.get_running_loop().time() + self._seconds

    def _set_deadline(self, time: float | None) -> None:
        self._deadline = time
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(time)

    async def _watch(self) -> None:
        try:
            async with asyncio.timeout_at(self._deadline) as self._timeout:
                while (await self._receive())["type"] != "http.disconnect":
                    pass
            self._timeout = None
            self._cause = ClientDisconnect()
        except TimeoutError:
            message = (
                f"the request takes longer than {self._seconds:g} seconds, the limit of this server; "
                "ask for less at once"
            )
            # Without Retry-After: the same request would take as long again.
            details = [{"type": DEADLINE_EXCEEDED, "seconds": self._seconds}]
            self._cause = HttpError(503, message, details=details)
        while True:
            self.cancellation.cancel()
            await asyncio.sleep(_SECONDS_BETWEEN_INTERRUPTS)


class Reads:
    """Threads for reads, apart from those for events, which never wait for reads.

    Parameters
    ----------
    options : ServerOptions
        Number of reads at once, waiting reads, and their time limit.

    Attributes
    ----------
    steps : ThreadPool
        Threads for short steps, which do not wait for long queries.
    """

    def __init__(self, options: ServerOptions) -> None:
        self._queries = ThreadPool(
            threads=options.reads, most_waiting=options.most_waiting, niceness=_NICENESS
        )
        self.steps = ThreadPool(threads=_THREADS_FOR_STEPS, most_waiting=options.most_waiting)
        self._seconds = options.seconds_to_read

    def begin(self, receive: Receive, *, is_limited: bool = True) -> Read:
        """Begin a request; the time of a limited one runs from now on, also while it waits for a thread."""
        return Read(receive, steps=self.steps, seconds=self._seconds if is_limited else None)

    async def run(self, read: Read, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run the queries of a read and return their result.

        Raises
        ------
        HttpError
            With 503, if too many reads wait or time is over.
        ClientDisconnect
            If the client has left.
        """
        async with read.watched():
            return await self._queries.run_cancellable(read.cancellation, function, *arguments, **named)

    def close(self) -> None:
        """Finish accepted work, then end the threads."""
        self._queries.close()
        self.steps.close()
