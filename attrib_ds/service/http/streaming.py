"""A response that is produced while it is sent."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.types import Message, Receive, Scope, Send

    from attrib_ds.service.http.reads import Read


class StreamedResponse(Response):
    """A response whose chunks are produced one at a time, at the speed of the client.

    If producing a chunk fails or time is over, the connection is aborted, so that an incomplete body cannot
    pass for a complete one (G-126).

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
        # Held while a chunk is produced: its source must not be closed meanwhile.
        self._source_lock = threading.Lock()

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Send the response until its time is over or the client disconnects."""
        try:
            async with self._read.watched():
                await self._send(scope, send)
        finally:
            # Shielded: a transaction left open would keep its snapshot forever.
            await asyncio.shield(self._read.steps.run(self._release))

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
        # A client that reads nothing is disconnected: see Connection.check.
        with self._read.paused():
            await send(message)
        self._read.check()

    def _next(self) -> bytes | None:
        with self._source_lock:
            return next(self._chunks, None)

    def _release(self) -> None:
        with self._source_lock:
            self._close()
