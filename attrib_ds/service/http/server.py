"""Run the application on uvicorn, in the main thread or in a background thread."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import uvicorn

from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.http.app import make_app
from attrib_ds.service.http.connections import Connection
from attrib_ds.service.http.listener import Listener
from attrib_ds.service.http.projects import Projects
from attrib_ds.service.http.server_options import ServerOptions
from attrib_ds.service.http.tracker import tracking_script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_EVERYWHERE: Final = ("0.0.0.0", "::", "")  # noqa: S104  (refused without a public URL)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_SECONDS_TO_START: Final = 30.0
_SECONDS_OF_TURN: Final = 0.001
#: Objects that requests in flight may hold before the garbage collector looks at them.
_ALLOCATIONS_TO_COLLECT: Final = 50_000
#: Listen backlog: connections waiting to be accepted.
_BACKLOG: Final = 1_024


def run(
    home: str | Path,
    *,
    host: str,
    port: int,
    url: str | None,
    options: ServerOptions,
    announce: Callable[[str], None],
) -> None:
    """Serve a folder of projects until SIGINT or SIGTERM; see :func:`serve`."""
    with _prepared(home, host=host, port=port, url=url, options=options) as (config, listening, address):
        server = _Server(config, options, ready=lambda: announce(_addresses(address)))
        with _quiet_signals():
            server.run([listening])


@contextmanager
def running(
    home: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    url: str | None = None,
    options: ServerOptions | None = None,
) -> Iterator[str]:
    """Serve a folder of projects in a background thread while the block runs.

    Parameters
    ----------
    home : str or Path
        Folder of embedded projects.
    host : str, default "127.0.0.1"
        Address to listen on.
    port : int, default 0
        Port to listen on; 0 picks a free one.
    url : str, optional
        Public address of the server.
    options : ServerOptions, optional
        Limits of the server.

    Yields
    ------
    str
        Address of the server, once it is ready.

    Raises
    ------
    Unavailable
        If the port is taken or the server does not start.

    Examples
    --------
    >>> import tempfile
    >>> import requests
    >>> with tempfile.TemporaryDirectory() as home, running(home) as url:
    ...     requests.get(f"{url}/health/live", timeout=10).json()
    {'status': 'live'}
    """
    options = options or ServerOptions()
    with _prepared(home, host=host, port=port, url=url, options=options) as (config, listening, address):
        is_ready = threading.Event()
        server = _Server(config, options, ready=is_ready.set)
        thread = threading.Thread(target=server.run, args=([listening],), name="attrib-ds http server")
        thread.start()
        try:
            if not is_ready.wait(_SECONDS_TO_START):
                raise Unavailable("the server does not start")
            yield address
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _prepared(
    home: str | Path, *, host: str, port: int, url: str | None, options: ServerOptions
) -> Iterator[tuple[uvicorn.Config, socket.socket, str]]:
    """Open the socket, the accounts and the projects of a server; close them at the end."""
    if url is None and host in _EVERYWHERE:
        raise InvalidRequest(
            f"url: is required to listen on all addresses ({host!r}); pass the address that clients use, "
            "such as url='https://attribution.example'",
            field="url",
        )
    with _listen(host, port) as listening, _short_turns(), _rare_collections():
        actual_port = listening.getsockname()[1]
        address = (url or _origin(host, actual_port)).rstrip("/")
        # Clients may use any name of this machine.
        names = _LOOPBACK if url is None and host in _LOOPBACK else ()
        origins = {address, *(_origin(name, actual_port) for name in names)}
        with closing(Accounts.open(home)) as accounts, closing(Projects(home)) as projects:
            app = make_app(projects, accounts, token_urls=_token_urls(origins), options=options)
            config = uvicorn.Config(
                app,
                http=Connection,
                loop="asyncio",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                # A client could forge its address; see client_addresses.
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=options.seconds_to_stop,
            )
            yield config, listening, address


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take turns more often.

    The event loop gives the interpreter away with every system call, and gets it back only at the end of the
    turn of a thread that computes: by default 5 ms, several times per request.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SECONDS_OF_TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often, and leave out what the process holds already.

    Reference counting frees what requests leave behind. A full collection goes through all imported libraries
    and stops every thread for a tenth of a second.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_TO_COLLECT, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _Server(uvicorn.Server):
    """A uvicorn server with limits on its connections, and a callback for readiness."""

    def __init__(self, config: uvicorn.Config, options: ServerOptions, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._options = options
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn would accept connections without a limit.
        await super().startup(sockets=[])
        listeners = [Listener(listening, self._connect, self._options) for listening in sockets or ()]
        self.servers = listeners  # type: ignore[assignment]  # of a server, close and wait_closed are called

    def _connect(self, on_lost: Callable[[], None]) -> Connection:
        return Connection(
            self.config, self.server_state, self.lifespan.state, options=self._options, on_lost=on_lost
        )

    async def main_loop(self) -> None:
        self._ready()
        await super().main_loop()


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again after it has stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only with an explicit protocol; otherwise small responses wait 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            # Frees the port at once after a restart; on other systems it would let two servers share it.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise Unavailable(f"port: cannot listen on {host} port {port}: {error}", field="port") from error
    return listening


def _origin(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _token_urls(origins: Iterable[str]) -> list[str]:
    return sorted(f"{origin}{BASES['auth']}{OPERATIONS['exchange_token'].path}" for origin in origins)


def _addresses(address: str) -> str:
    return (
        f"attrib-ds serves {address}\n"
        f"  v1     {address}/api/v1\n"
        f"  v2     {address}/api/v2\n"
        f"  auth   {address}/auth\n"
        f"  pages  {address}/api/docs\n"
        f"  script {address}/t.js  {tracking_script().integrity}"
    )
