"""Runs the application on uvicorn, which stops gracefully inside a process of others."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import uvicorn

from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.http.app import make_app
from attrib_ds.service.http.projects import Projects
from attrib_ds.service.http.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_EVERYWHERE: Final = ("0.0.0.0", "::", "")  # noqa: S104  (refused without an address of its own)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_SECONDS_TO_START: Final = 30.0
_SECONDS_IDLE: Final = 30
#: Connections that may wait to be taken on.
_WAITING: Final = 1_024


def run(
    home: str | Path,
    *,
    host: str,
    port: int,
    url: str | None,
    settings: Settings,
    announce: Callable[[str], None],
) -> None:
    """Serve a folder of projects until the process is asked to stop; see :func:`serve`."""
    with _served(home, host=host, port=port, url=url, settings=settings) as (config, listening, address):
        server = _Server(config, ready=lambda: announce(_addresses(address)))
        with _quiet_signals():
            server.run([listening])


@contextmanager
def running(
    home: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    url: str | None = None,
    settings: Settings | None = None,
) -> Iterator[str]:
    """Serve a folder of projects in a thread, for as long as the block runs.

    Parameters
    ----------
    home : str or Path
        Folder of embedded projects.
    host : str, default "127.0.0.1"
        Address to listen on.
    port : int, default 0
        Port to listen on; 0 takes a free one.
    url : str, optional
        Address under which clients know the server.
    settings : Settings, optional
        What the operator chose.

    Yields
    ------
    str
        The address, ready to be called.

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
    chosen = settings or Settings()
    with _served(home, host=host, port=port, url=url, settings=chosen) as (config, listening, address):
        is_ready = threading.Event()
        server = _Server(config, ready=is_ready.set)
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
def _served(
    home: str | Path, *, host: str, port: int, url: str | None, settings: Settings
) -> Iterator[tuple[uvicorn.Config, socket.socket, str]]:
    """Give what a server needs; what it has opened is closed after it."""
    if url is None and host in _EVERYWHERE:
        raise InvalidRequest(
            f"url: a server on every address ({host!r}) cannot know which one its clients use; give it, "
            "such as url='https://attribution.example'",
            field="url",
        )
    with _listen(host, port) as listening:
        taken = listening.getsockname()[1]
        address = (url or _origin(host, taken)).rstrip("/")
        # Who listens on one of the names of this machine is called by any of them.
        names = _LOOPBACK if url is None and host in _LOOPBACK else ()
        origins = {address, *(_origin(name, taken) for name in names)}
        with closing(Accounts.open(home)) as accounts, closing(Projects(home)) as projects:
            app = make_app(projects, accounts, token_urls=_token_urls(origins), settings=settings)
            config = uvicorn.Config(
                app,
                # Bounds the size of headers, which its faster alternative does not.
                http="h11",
                loop="asyncio",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                # Who sends X-Forwarded-For could pretend to be any address.
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_SECONDS_IDLE,
                timeout_graceful_shutdown=settings.seconds_to_stop,
            )
            yield config, listening, address


class _Server(uvicorn.Server):
    """Tells when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def main_loop(self) -> None:
        self._ready()
        await super().main_loop()


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """Let a signal that stopped the server end there: uvicorn raises it once more when it has stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, lambda *_: None) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small answers at once; otherwise each waits 40 ms for more.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            # After a restart the port is free at once; elsewhere this option lets two servers share it.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_WAITING)
    except (OSError, OverflowError) as error:
        listening.close()
        raise Unavailable(f"port: {host} port {port} cannot be listened on: {error}", field="port") from error
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
        f"  pages  {address}/api/docs"
    )
