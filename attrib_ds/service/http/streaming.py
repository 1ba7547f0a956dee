"""A response that is produced while it is sent."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.types import Receive, Scope, Send

    from attrib_ds.service.http.thread_pool import ThreadPool


class StreamedResponse(Response):
    """A response whose chunks are produced one at a time, at the speed of the client.

    If producing a chunk fails, the connection is aborted, so that an incomplete body cannot pass for a
    complete one (G-126).

    Parameters
    ----------
    first : bytes
        The first chunk, produced before anything is sent, so that its failure is an error response.
    chunks : iterator of bytes
        The other chunks.
    pool : ThreadPool
        Threads that produce the chunks.
    close : callable
        Releases the source of the chunks.
    headers : mapping
        Response headers.
    """

    def __init__(
        self,
        first: bytes,
        chunks: Iterator[bytes],
        *,
        pool: ThreadPool,
        close: Callable[[], None],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._first = first
        self._chunks = chunks
        self._pool = pool
        self._close = close
        # Held while a chunk is produced: its source must not be closed meanwhile.
        self._source_lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response until the client disconnects."""
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)
            chunk: bytes | None = None if scope["method"] == "HEAD" else self._first
            while chunk is not None and not disconnected.done():
                message = {"type": "http.response.body", "body": chunk, "more_body": True}
                # A client that reads nothing is disconnected: see Connection.check.
                await send(message)
                chunk = await self._pool.run(self._next)
            if not disconnected.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            disconnected.cancel()
            # Shielded: a transaction left open would keep its snapshot forever.
            await asyncio.shield(self._pool.run(self._release))

    def _next(self) -> bytes | None:
        with self._source_lock:
            return next(self._chunks, None)

    def _release(self) -> None:
        with self._source_lock:
            self._close()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
