"""Connections that bound the time for the headers of a response.

The timeouts of urllib3 are those between two bytes, so that headers may arrive byte by byte for days.
"""

from __future__ import annotations

import http.client
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    import socket

    from urllib3 import ProxyManager


class Adapter(HTTPAdapter):
    """Sends requests over connections whose headers arrive within the read timeout, or raises it."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the connections to services."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> ProxyManager:
        """Return the connections through a proxy."""
        manager: ProxyManager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager


class _Response(http.client.HTTPResponse):
    """A response that begins within the timeout of its connection."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self._seconds = sock.gettimeout()

    def begin(self) -> None:
        file = self.fp
        if self._seconds is not None:
            self.fp = _Lines(file, time.monotonic() + self._seconds)  # type: ignore[assignment]
        try:
            super().begin()
        finally:
            # Closed already, if the response is invalid.
            self.fp = file if self.fp is not None else self.fp


class _Lines:
    """The lines of a file until a deadline."""

    def __init__(self, file: BinaryIO, deadline: float) -> None:
        self._file = file
        self._deadline = deadline
        self.close = file.close
        self.flush = file.flush

    def readline(self, limit: int) -> bytes:
        line = bytearray()
        while len(line) < limit and not line.endswith(b"\n"):
            if time.monotonic() > self._deadline:
                raise TimeoutError("the headers did not arrive in time")
            # Receives at most once; readline() would wait for the end of the line.
            arrived = self._file.peek()  # type: ignore[attr-defined]
            if not arrived:
                break
            end = arrived.find(b"\n") + 1 or len(arrived)
            line += self._file.read(min(end, limit - len(line)))
        return bytes(line)


class _HttpConnection(HTTPConnection):
    response_class = _Response


class _HttpsConnection(HTTPSConnection):
    response_class = _Response


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


_POOLS: Final = {"http": _HttpPool, "https": _HttpsPool}
