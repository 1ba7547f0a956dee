"""Threads for the blocking work of requests, and reads, which end at a deadline or when their client leaves.

The deadline is that of the first byte of the answer. A streamed answer may be of any length, so from then on
each of its portions has as much time, and the time that the client needs to receive it does not count.
"""

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import ClassVar, Final, ParamSpec, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from attrib_ds.contract import OPERATIONS
from attrib_ds.contract.operation import DEADLINE_EXCEEDED
from attrib_ds.service.http.errors import HttpError, busy
from attrib_ds.service.store.connections import Cancellation

P = ParamSpec("P")
T = TypeVar("T")

#: Operations that only read. A backup is none of them: it copies the file, however long that takes.
READS: Final = frozenset(
    {
        "event_insights",
        "search_events",
        "export_users",
        "funnel",
        "interaction_insights",
        "page_conversions",
        "page_insights",
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


class ThreadPool:
    """Threads for the blocking work of one event loop, with a bounded queue.

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
        """Run a function of a new request and return its result; raises 503 if the queue is full."""
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
        """Count a new request while the block runs, as a place in the queue; raises 503 if it is full."""
        if self._accepted >= self._most:
            raise busy()
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


class Arrivals:
    """Hands results of other threads to the event loop, all that have arrived at once."""

    def __init__(self) -> None:
        self._arrived: deque[asyncio.Future[None]] = deque()
        self._is_awake = False

    async def wait(self, future: Future[T]) -> T:
        """Return the result of a future."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        future.add_done_callback(lambda _: self._put(loop, waiter))
        await waiter
        return future.result()

    def _put(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> None:
        self._arrived.append(waiter)
        if not self._is_awake:
            self._is_awake = True
            # The loop may have been closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # Before the first is taken, so that a later one wakes the loop again.
        self._is_awake = False
        while self._arrived:
            waiter = self._arrived.popleft()
            if not waiter.done():
                waiter.set_result(None)


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
    threads : int
        Maximum number of reads at once.
    most_waiting : int
        Maximum number of reads waiting for a thread.
    seconds : float
        Time limit of a read.

    Attributes
    ----------
    steps : ThreadPool
        Threads for short steps, which do not wait for long queries.
    """

    def __init__(self, *, threads: int, most_waiting: int, seconds: float) -> None:
        self._queries = ThreadPool(threads=threads, most_waiting=most_waiting, niceness=_NICENESS)
        self.steps = ThreadPool(threads=_THREADS_FOR_STEPS, most_waiting=most_waiting)
        self._seconds = seconds

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


class StreamedResponse(Response):
    """A response whose chunks are produced one at a time, at the speed of the client.

    If producing a chunk fails or time is over, the connection is aborted, so that an incomplete body cannot
    pass for a complete one.

    Parameters
    ----------
    first : bytes
        The first chunk, produced before anything is sent, so that its failure is an error response.
    chunks : iterator of bytes
        The other chunks.
    read : Read
        The request, whose threads produce the chunks.
    close : callable
        Releases the source of the chunks.
    headers : mapping
        Response headers.
    """

    #: Time for the client to take one portion; the source would stay open forever otherwise.
    seconds_to_receive: ClassVar[float] = 300

    def __init__(
        self,
        first: bytes,
        chunks: Iterator[bytes],
        *,
        read: Read,
        close: Callable[[], None],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._first = first
        self._chunks = chunks
        self._read = read
        self._close = close
        #: Closed after the response.
        self.resources = AsyncExitStack()
        # Held while a chunk is produced: its source must not be closed meanwhile.
        self._source_lock = threading.Lock()

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Send the response until its time is over or the client disconnects."""
        try:
            async with self._read.watched():
                await self._send(scope, send)
        finally:
            # Shielded: a transaction left open would keep its snapshot forever.
            try:
                await asyncio.shield(self._read.steps.run(self._release))
            finally:
                await self.resources.aclose()

    async def _send(self, scope: Scope, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await self._deliver(start, send)
        chunk: bytes | None = None if scope["method"] == "HEAD" else self._first
        while chunk is not None:
            await self._deliver({"type": "http.response.body", "body": chunk, "more_body": True}, send)
            chunk = await self._read.steps.run(self._next)
            self._read.check()
        await self._deliver({"type": "http.response.body", "body": b"", "more_body": False}, send)

    async def _deliver(self, message: Message, send: Send) -> None:
        with self._read.paused():
            try:
                async with asyncio.timeout(self.seconds_to_receive):
                    await send(message)
            except TimeoutError:
                raise ClientDisconnect from None
        self._read.check()

    def _next(self) -> bytes | None:
        with self._source_lock:
            return next(self._chunks, None)

    def _release(self) -> None:
        with self._source_lock:
            self._close()
