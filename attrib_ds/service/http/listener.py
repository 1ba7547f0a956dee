"""Accept connections while there is room for them (G-229)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from attrib_ds.service.http.client_addresses import is_proxy, network_of
from attrib_ds.service.http.connections import last_response
from attrib_ds.service.http.error_responses import HttpError

try:
    import resource
except ImportError:  # Windows has no limit of descriptors.
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from attrib_ds.service.http.connections import Connection
    from attrib_ds.service.http.server_options import ServerOptions

#: Descriptors left to files of the server; a quarter of all if there are few.
_RESERVED_DESCRIPTORS: Final = 64
#: Connections accepted before other work of the event loop has its turn.
_BURST: Final = 32
#: Seconds without accepting after the system refused.
_SECONDS_TO_PAUSE: Final = 1.0
_SECONDS_BETWEEN_CHECKS: Final = 1.0
_SECONDS_BETWEEN_WARNINGS: Final = 60.0
#: Bytes of a request that are read before its connection is closed.
_FIRST_BYTES: Final = 64 * 1024
_log: Final = logging.getLogger(__name__)


class Listener:
    """Accept connections of a socket until closed.

    asyncio accepts as many connections as come, and retries in a loop when the process is out of descriptors.

    Parameters
    ----------
    listening : socket.socket
        A listening socket; the caller closes it.
    connect : callable
        Takes a callback for the end of a connection; returns the protocol of a new connection.
    options : ServerOptions
        Limits of the server.
    """

    def __init__(
        self,
        listening: socket.socket,
        connect: Callable[[Callable[[], None]], Connection],
        options: ServerOptions,
    ) -> None:
        listening.setblocking(False)
        self._socket = listening
        self._connect = connect
        self._options = options
        self._open: set[Connection] = set()
        self._by_network: Counter[str] = Counter()
        self._starting: set[asyncio.Task[None]] = set()
        self._warned_at = float("-inf")
        self._loop = asyncio.get_running_loop()
        self._accepting = self._loop.create_task(self._accept())
        self._checking = self._loop.create_task(self._check())

    def close(self) -> None:
        """Stop accepting; open connections stay."""
        self._accepting.cancel()

    async def wait_closed(self) -> None:
        """Stop checking connections, once all of them are closed."""
        self._checking.cancel()
        await asyncio.gather(self._accepting, self._checking, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            for _ in range(_BURST):
                try:
                    accepted, address = await self._loop.sock_accept(self._socket)
                except ConnectionAbortedError:
                    continue
                except OSError as error:
                    self._warn(str(error))
                    await asyncio.sleep(_SECONDS_TO_PAUSE)
                    continue
                self._take(accepted, self._network_of(address[0]))
            await asyncio.sleep(0)

    def _network_of(self, peer: str) -> str:
        """Return whose connections are counted together; none of a trusted proxy, which has many clients."""
        return "" if is_proxy(peer, self._options.trusted_proxies) else network_of(peer)

    def _take(self, accepted: socket.socket, network: str) -> None:
        reason = self._refusal(accepted, network)
        if reason:
            self._warn(reason)
            _turn_away(accepted)
            return
        connection = self._connect(lambda: self._forget(connection, network))
        self._open.add(connection)
        self._by_network[network] += 1
        task = self._loop.create_task(self._start(accepted, connection, network))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _refusal(self, accepted: socket.socket, network: str) -> str:
        """Return why there is no room for a connection; empty if there is."""
        if len(self._open) >= self._options.most_connections:
            return "too many connections"
        if network and self._by_network[network] >= self._options.most_connections_per_address:
            return f"too many connections of {network}"
        # The system hands out the lowest free descriptor.
        return "too few file descriptors are left" if accepted.fileno() >= _most_descriptors() else ""

    async def _start(self, accepted: socket.socket, connection: Connection, network: str) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:
            # The client has gone already.
            accepted.close()
            self._forget(connection, network)

    def _forget(self, connection: Connection, network: str) -> None:
        if connection not in self._open:
            return
        self._open.discard(connection)
        self._by_network[network] -= 1
        if not self._by_network[network]:
            del self._by_network[network]

    async def _check(self) -> None:
        """Close slow connections."""
        before = self._loop.time()
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_CHECKS)
            now = self._loop.time()
            # After a delay of the event loop, what has arrived meanwhile is read first.
            if now - before < 2 * _SECONDS_BETWEEN_CHECKS:
                for connection in list(self._open):
                    if connection.transport is not None:
                        connection.check(now, seconds=now - before)
            before = now

    def _warn(self, reason: str) -> None:
        if self._loop.time() - self._warned_at > _SECONDS_BETWEEN_WARNINGS:
            self._warned_at = self._loop.time()
            _log.warning("connections are refused: %s", reason)


def _most_descriptors() -> float:
    if resource is None:
        return float("inf")
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return float("inf")
    return limit - min(_RESERVED_DESCRIPTORS, limit // 4)


def _turn_away(accepted: socket.socket) -> None:
    """Answer 503 without reading the request."""
    with contextlib.suppress(OSError):
        accepted.send(last_response(HttpError(503, headers={"Retry-After": "1"}), []))
        # Unread bytes would reset the connection, and the client would not see the response.
        accepted.recv(_FIRST_BYTES)
    accepted.close()
