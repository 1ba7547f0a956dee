"""HTTP connections with limits of size and time, parsed by httptools (G-229)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from attrib_ds.contract.json_values import encode
from attrib_ds.service.http import error_responses
from attrib_ds.service.http.error_responses import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable

    import uvicorn
    from uvicorn.server import ServerState

    from attrib_ds.service.http.server_options import ServerOptions

#: Maximum size of the request line and the headers, and their maximum number.
MOST_HEAD_BYTES: Final = 32 * 1024
_MOST_HEADERS: Final = 100
#: Requests that may wait behind the one being answered.
_MOST_PIPELINED: Final = 16
#: A body has one more second for each of these portions, so that a large upload may take its time.
_BYTES_PER_SECOND: Final = 64 * 1024
#: Bytes of a body that are read and discarded after its request has been answered.
_MOST_DISCARDED: Final = 32 * 2**20
#: Seconds for a client to close its side after the last response.
_SECONDS_TO_CLOSE: Final = 5
#: Seconds without progress after which a client that does not read its response is disconnected.
_SECONDS_STALLED: Final = 300


class _Phase(enum.Enum):
    NEW = enum.auto()
    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    RESPONSE = enum.auto()
    CLOSING = enum.auto()


class Connection(HttpToolsProtocol):
    """One connection of a client.

    uvicorn bounds neither headers nor the time for them, and its timer for idle connections stops at the
    first byte of a request. :meth:`check`, called about once a second, closes connections that are too slow.

    Parameters
    ----------
    config : uvicorn.Config
        Configuration of the server.
    server_state : uvicorn.server.ServerState
        State of the server.
    app_state : dict
        State of the application.
    options : ServerOptions
        Limits of the server.
    on_lost : callable
        Called when the connection is closed.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        options: ServerOptions,
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._options = options
        self._on_lost = on_lost
        self._phase = _Phase.NEW
        self._since = self.loop.time()
        self._head_bytes = 0
        self._body_bytes = 0
        self._discarded_bytes = 0
        # Bytes that the parser holds without having reported them.
        self._held_bytes = 0
        self._ignores_data = False
        # Unsent bytes at the last check, and the time since when their number has not changed.
        self._unsent_bytes = 0
        self._unsent_since = self._since

    # -- events of the transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection."""
        super().connection_lost(exc)
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        """Parse data; a request that cannot be parsed is refused."""
        if self._ignores_data:
            return
        self._held_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The request is answered as if it asked for no other protocol. What follows it is unknown.
            self._close_after_response()
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(
                cause if isinstance(cause, HttpError) else HttpError(400, "request: is not valid HTTP")
            )
        else:
            if self._held_bytes > MOST_HEAD_BYTES:
                self._refuse(_too_large())

    # -- events of the parser

    def on_message_begin(self) -> None:
        """Start a request."""
        super().on_message_begin()
        # The time of the first request runs from the start of the connection.
        self._since = self._since if self._phase is _Phase.NEW else self.loop.time()
        self._phase = _Phase.HEAD
        self._head_bytes = self._body_bytes = self._discarded_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Add a part of the request target."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; one after the body is ignored."""
        self._count_head(len(name) + len(value))
        if self._phase is _Phase.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the headers and start the application."""
        self._check_headers()
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise HttpError(503, headers={"Retry-After": "1"})
        super().on_headers_complete()
        if self.expect_100_continue:
            # After an error the client may leave the body out, and the next request would be taken for it.
            self.cycle.keep_alive = False
        self._held_bytes = 0
        self._enter(_Phase.BODY)

    def on_body(self, body: bytes) -> None:
        """Add a part of the body, or discard it if the request has been answered."""
        self._held_bytes = 0
        self._body_bytes += len(body)
        if self.cycle.response_complete:
            self._discarded_bytes += len(body)
            if self._discarded_bytes > _MOST_DISCARDED:
                raise HttpError(413)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        super().on_message_complete()
        self._held_bytes = 0
        self._enter(_Phase.IDLE if self.cycle.response_complete else _Phase.RESPONSE)

    def on_response_complete(self) -> None:
        """End a response."""
        super().on_response_complete()
        # uvicorn's timer does not know whether the body, or the next request, has begun.
        self._unset_keepalive_if_required()
        if self._phase is _Phase.RESPONSE and self.cycle.response_complete:
            self._enter(_Phase.IDLE)

    # -- limits

    def check(self, now: float, *, seconds: float) -> None:
        """Close the connection if it is too slow.

        Parameters
        ----------
        now : float
            Time of the event loop.
        seconds : float
            Time since the last check.
        """
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent_bytes:
            self._unsent_bytes, self._unsent_since = unsent, now
        if self.transport.is_closing() and self._phase is not _Phase.CLOSING:
            self._enter(_Phase.CLOSING)
        if self._phase in (_Phase.HEAD, _Phase.BODY) and self._is_ours_to_wait_for():
            self._since += seconds
        elapsed = now - max(self._since, self._unsent_since)
        if unsent:
            # A slow client may take long to read what the system has already taken over.
            if elapsed > _SECONDS_STALLED:
                self.transport.abort()
        elif elapsed > self._allowed_seconds():
            if self._phase in (_Phase.HEAD, _Phase.BODY):
                part = "headers" if self._phase is _Phase.HEAD else "body"
                self._refuse(HttpError(408, f"{part}: did not arrive in time"))
            else:
                self.transport.close()

    def _allowed_seconds(self) -> float:
        """Return how long the client may take in this phase."""
        match self._phase:
            case _Phase.NEW | _Phase.HEAD:
                return self._options.seconds_for_headers
            case _Phase.BODY:
                return self._options.seconds_for_body + self._body_bytes / _BYTES_PER_SECOND
            case _Phase.IDLE:
                return self._options.seconds_idle
            case _Phase.CLOSING:
                return _SECONDS_TO_CLOSE
            case _Phase.RESPONSE:
                return float("inf")

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._since = self.loop.time()

    def _is_ours_to_wait_for(self) -> bool:
        """Return whether the client cannot go on before the server does."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        return self.flow.read_paused or bool(self.pipeline) or (self._phase is _Phase.HEAD and is_answering)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES:
            raise _too_large()

    def _check_headers(self) -> None:
        """Check what the parser does not (RFC 9112, sections 3.2 and 6.1)."""
        version = self.parser.get_http_version()
        names = [name for name, _ in self.headers]
        if len(names) > _MOST_HEADERS:
            raise HttpError(431, f"headers: at most {_MOST_HEADERS} are allowed")
        if version not in ("1.0", "1.1"):
            raise HttpError(400, "request: the version is not HTTP/1.0 or HTTP/1.1")
        if names.count(b"host") > 1 or (version == "1.1" and b"host" not in names):
            raise HttpError(400, "headers: exactly one Host is required")
        if b"transfer-encoding" in names and version == "1.0":
            raise HttpError(400, "headers: Transfer-Encoding is not allowed in HTTP/1.0")
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings not in ([], [b"chunked"]):
            # The parser removes the coding `chunked` alone; others would remain in the body.
            raise HttpError(400, "headers: Transfer-Encoding is not allowed; expected chunked")

    def _refuse(self, failure: HttpError) -> None:
        """Refuse a request that cannot be read, and close the connection."""
        cycle = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        if is_answering and (self._phase is _Phase.HEAD or not cycle.more_body):
            # The requests before it are still answered.
            self._close_after_response()
            return
        is_discarding = self._phase is _Phase.BODY and not is_answering
        if is_discarding or (is_answering and (cycle.response_started or self.pipeline)):
            self.transport.close()
        else:
            self._send_last(failure)
        if is_answering:
            # For the application, the client has left.
            cycle.disconnected = cycle.response_complete = True
            cycle.message_event.set()
        self._ignores_data = True
        self._enter(_Phase.CLOSING)

    def _close_after_response(self) -> None:
        self._ignores_data = True
        self.cycle.keep_alive = False
        self._enter(_Phase.RESPONSE)

    def _send_last(self, failure: HttpError) -> None:
        """Send an error and no more; the client has a few seconds to read it."""
        self.transport.write(last_response(failure, self.server_state.default_headers))
        if self.transport.can_write_eof():
            # To close now would reset the connection while the client sends, and it would not see the error.
            self.transport.write_eof()
            self.flow.resume_reading()
        else:
            self.transport.close()


def last_response(failure: HttpError, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return an error response after which the connection is closed.

    Examples
    --------
    >>> last_response(HttpError(408), []).splitlines()[0]
    b'HTTP/1.1 408 Request Timeout'
    """
    content = encode(error_responses.body(failure)).encode()
    fields = {
        "content-type": "application/json",
        "content-length": str(len(content)),
        "connection": "close",
        **failure.headers,
    }
    lines = [f"HTTP/1.1 {failure.status} {error_responses.PHRASES[failure.status]}".encode()]
    lines += [b"%s: %s" % header for header in headers]
    lines += [f"{name}: {value}".encode() for name, value in fields.items()]
    return b"\r\n".join([*lines, b"", content])


def _too_large() -> HttpError:
    return HttpError(431, f"headers: are larger than {MOST_HEAD_BYTES:,} bytes")
