"""A scripted HTTP service on loopback, and a clock that advances without waiting."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import struct
import threading
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from attrib_ds.transports.http.session import Clock

TOKEN_PATH = "/auth/oidc/token"
#: What a transport must show nowhere.
TOKEN = "canary-token"


@dataclass(frozen=True)
class Reply:
    """One answer; ``cut`` sends only so many bytes of the body, ``after`` says what happens then.

    ``interim`` are statuses of responses that come before it. A body that is a function yields chunks, until the
    client has enough.
    """

    status: int = 200
    body: object = b""
    headers: dict = field(default_factory=dict)
    media: str | None = "application/json"
    cut: int | None = None
    after: str = ""
    interim: tuple = ()

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


#: The connection is reset before a byte comes.
RESET = Reply(after="reset", cut=0, status=0)


def page(*records, **others) -> Reply:
    body = {"offset": 0, "limit": None, "count": len(records), "total": len(records), "data": list(records)}
    return Reply(body=body | others)


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict
    body: bytes

    @property
    def form(self) -> dict:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


class Scripted:
    """Answers requests by a script, one entry each; the last one again and again.

    Token requests have a script of their own; without one they are granted, with a new token each.
    """

    def __init__(self, time: FakeClock) -> None:
        self.time = time
        self.script: list = []
        self.tokens: list = []
        self.asked: list[Asked] = []
        self.asked_tokens: list[Asked] = []
        self.date: float | None = None
        self.token_seconds: object = 3600
        self.before_token = lambda: None
        self.released = threading.Event()
        self._lock = threading.Lock()
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def date_time_string(self, timestamp=None):
                return formatdate(scripted.date or time.seconds + time.ahead, usegmt=True)

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = Asked(self.command, self.path, dict(self.headers.items()), body)
                scripted.play(self, scripted.next(asked))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next(self, asked: Asked) -> Reply:
        if asked.path == TOKEN_PATH:
            self.before_token()
        with self._lock:
            if asked.path == TOKEN_PATH:
                self.asked_tokens.append(asked)
                if self.tokens:
                    return self.tokens.pop(0)
                grant = {"access_token": f"{TOKEN}-{len(self.asked_tokens)}", "token_type": "Bearer"}
                return Reply(body=grant | {"expires_in": self.token_seconds, "scope": "full_access"})
            self.asked.append(asked)
            reply = self.script[0] if len(self.script) == 1 else self.script.pop(0)
        return reply(asked) if callable(reply) else reply

    def play(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        if reply.after == "reset" and not reply.status:
            return reset(handler)
        if callable(reply.body):
            return self.pour(handler, reply)
        content = reply.content
        for status in reply.interim:
            handler.send_response_only(status)
            handler.send_header("Link", "</style.css>")
            handler.end_headers()
        handler.send_response(reply.status)
        if reply.media is not None:
            handler.send_header("Content-Type", reply.media)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        if "Transfer-Encoding" not in reply.headers:
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        with contextlib.suppress(OSError):
            handler.wfile.write(content if reply.cut is None else content[: reply.cut])
            handler.wfile.flush()
        if reply.after == "silence":
            self.released.wait(30)
        if reply.after == "reset":
            reset(handler)
        if reply.cut is not None:
            handler.close_connection = True
        return None

    def pour(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        handler.close_connection = True
        handler.send_response(reply.status)
        handler.send_header("Content-Type", reply.media)
        handler.send_header("Connection", "close")
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        with contextlib.suppress(OSError):
            for chunk in reply.body():
                if self.released.is_set():
                    return
                handler.wfile.write(chunk)


def reset(handler) -> None:
    """Close the connection so that the other side gets ECONNRESET."""
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # The file that is read from holds the socket too.
    handler.rfile.close()
    handler.connection.close()
    handler.rfile, handler.wfile = io.BytesIO(), io.BytesIO()


class FakeClock:
    """Time that passes when somebody sleeps."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self.seconds = 1_000.0
        self.ahead = wall - self.seconds
        self.slept: list[float] = []
        self.lock = threading.Lock()

    def sleep(self, seconds: float) -> None:
        with self.lock:
            self.slept.append(seconds)
            self.seconds += seconds

    def clock(self) -> Clock:
        return Clock(
            monotonic=lambda: self.seconds,
            wall=lambda: self.seconds + self.ahead,
            sleep=self.sleep,
            random=lambda: 1.0,
        )
