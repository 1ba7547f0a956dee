"""Sends an answer that is written while it is sent."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.types import Receive, Scope, Send

    from attrib_ds.service.http.workers import Workers

#: A client that takes nothing for so long is taken for gone.
_SECONDS_TO_TAKE: Final = 300


class Streamed(Response):
    """An answer whose pieces are made one at a time, when the client has taken the one before.

    When a piece cannot be made the connection is broken off, so that what has arrived cannot pass for the
    whole (G-126).

    Parameters
    ----------
    first : bytes
        The first piece, made before anything is sent: until then a failure is still told as one.
    pieces : iterator of bytes
        The other ones.
    workers : Workers
        Where the pieces are made.
    close : callable
        Lets go of what the pieces are made from.
    headers : mapping
        Headers.
    """

    def __init__(
        self,
        first: bytes,
        pieces: Iterator[bytes],
        *,
        workers: Workers,
        close: Callable[[], None],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._first = first
        self._pieces = pieces
        self._workers = workers
        self._close = close
        # Held while a piece is made: what it is read from must not be closed meanwhile.
        self._making = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, until the client is gone."""
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)
            piece: bytes | None = None if scope["method"] == "HEAD" else self._first
            while piece is not None and not gone.done():
                message = {"type": "http.response.body", "body": piece, "more_body": True}
                await asyncio.wait_for(send(message), _SECONDS_TO_TAKE)
                piece = await self._workers.run(self._next)
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            # Shielded: a transaction left open would hold its snapshot for ever.
            await asyncio.shield(self._workers.run(self._end))

    def _next(self) -> bytes | None:
        with self._making:
            return next(self._pieces, None)

    def _end(self) -> None:
        with self._making:
            self._close()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
