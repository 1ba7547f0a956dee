"""Run the application on uvicorn, in the main thread or in a background thread."""

import asyncio
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from ipaddress import ip_network
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from uvicorn.server import HANDLED_SIGNALS

from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.records.parts import Folder
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.collection.collector import Collector
from attrib_ds.service.http.app import App
from attrib_ds.service.http.limits import RATES, Rate, ServerOptions
from attrib_ds.service.http.pages import tracking_script
from attrib_ds.service.http.projects import Projects

__all__ = ["RATES", "Rate", "ServerOptions", "running", "serve"]

_EVERYWHERE: Final = ("0.0.0.0", "::", "")  # noqa: S104  (refused without a public URL)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_SECONDS_TO_START: Final = 30.0
_SECONDS_TO_STOP: Final = 30
#: Longer than a proxy keeps its connections, so that it never sends a request on one that is being closed.
_SECONDS_IDLE: Final = 75
#: Connections beyond which requests get 503: more than requests that run and wait, and less than the 1,024
#: file descriptors that most systems give to a process.
_MOST_CONNECTIONS: Final = 900
#: What the process may have open, if the system allows it: silent connections are not counted among those.
_MOST_DESCRIPTORS: Final = 65_536
#: A signal that comes just before the loop waits does not wake it.
_SECONDS_OF_TICK: Final = 5.0
#: Connections waiting to be accepted.
_BACKLOG: Final = 1_024
_SECONDS_OF_TURN: Final = 0.001
#: Objects that requests in flight may hold before the garbage collector looks at them.
_ALLOCATIONS_TO_COLLECT: Final = 50_000
#: Takes the address for clients, and the one where the server listens.
_Announce = Callable[[str, str], object]


def serve(
    home: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8_000,
    url: str | None = None,
    options: ServerOptions | None = None,
) -> None:
    """Serve a folder of projects until SIGINT or SIGTERM, then finish accepted requests.

    The server's addresses are printed once it is ready.

    Parameters
    ----------
    home : str or Path
        Folder of embedded projects, one file each, and of the service accounts.
    host : str, default "127.0.0.1"
        Address to listen on; by default the server is reachable only from this machine.
    port : int, default 8000
        Port to listen on; 0 picks a free one.
    url : str, optional
        Public address of the server, such as that of a reverse proxy; clients use it as the audience of
        their assertions. By default the address it listens on.
    options : ServerOptions, optional
        Limits of the server.

    Raises
    ------
    Unavailable
        If the port or the accounts cannot be used.
    InvalidRequest
        If the server listens on all addresses and no ``url`` is given.
    """
    opening = _opened(home)
    _raise_descriptors()
    with _quiet_signals(), _prepared(opening, host, port, url, options, _print) as (server, listening):
        server.run([listening])


def collect(
    project_id: str,
    to: str,
    *,
    journals: Path,
    read: Callable[[], Mapping[str, Any]],
    host: str = "127.0.0.1",
    port: int = 8_000,
    options: ServerOptions | None = None,
) -> None:
    """Serve a collector until SIGINT or SIGTERM, then write what it has accepted.

    Parameters
    ----------
    project_id, journals, read
        As for :class:`~attrib_ds.service.collection.collector.Collector`.
    to : str
        Folder or bucket of the parts.
    host, port, options
        As for :func:`serve`.

    Raises
    ------
    AttribError
        If the settings or the folder cannot be read, or the port cannot be used.
    """

    def announce(_: str, address: str) -> None:
        _write(f"attrib-ds collects at {address}", f"  script {address}/t.js  {tracking_script().integrity}")

    # It has no tokens, whose audience is an address of the server.
    url = _origin(host, port) if host in _EVERYWHERE else None
    collector = Collector(project_id, Folder.open(to, argument="--to"), journals=journals, read=read)
    opening = nullcontext((collector, None))
    with (
        closing(collector),
        _quiet_signals(),
        _prepared(opening, host, port, url, options, announce) as (server, listening),
    ):
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
    home, host, port, url, options
        As for :func:`serve`.

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
    is_ready = threading.Event()
    addresses: list[str] = []

    def announce(address: str, _: str) -> None:
        addresses.append(address)
        is_ready.set()

    with _prepared(_opened(home), host, port, url, options, announce) as (server, listening):
        thread = threading.Thread(target=server.run, args=([listening],), name="attrib-ds http server")
        thread.start()
        try:
            if not is_ready.wait(_SECONDS_TO_START):
                raise Unavailable("the server does not start")
            yield addresses[0]
        finally:
            server.stop()
            thread.join()


@contextmanager
def _opened(home: str | Path) -> Iterator[tuple[Projects, Accounts]]:
    with closing(Accounts.open(home)) as accounts, closing(Projects(home)) as projects:
        yield projects, accounts


@contextmanager
def _prepared(
    opening: AbstractContextManager[tuple[Projects, Accounts] | tuple[Collector, None]],
    host: str,
    port: int,
    url: str | None,
    options: ServerOptions | None,
    announce: _Announce,
) -> Iterator[tuple["_Server", socket.socket]]:
    """Open the socket of a server and what it serves; close them at the end."""
    if url is None and host in _EVERYWHERE:
        raise InvalidRequest(
            f"url: is required to listen on all addresses ({host!r}); pass the address that clients use, "
            "such as url='https://attribution.example'",
            field="url",
        )
    options = options or ServerOptions()
    with (
        _listen(host, port) as listening,
        _interpreter_of_server(),
        opening as (projects, accounts),
        ExitStack() as stack,
    ):
        count = None
        if options.metrics is not None:
            from attrib_ds.service.http.metrics import Metrics, served  # only where they are asked for

            metrics = Metrics(projects)
            stack.enter_context(served(metrics, *options.metrics))
            count = metrics.count
        actual_port = listening.getsockname()[1]
        own = _origin(host, actual_port)
        address = (url or own).rstrip("/")
        # Clients may use any name of this machine.
        names = _LOOPBACK if url is None and host in _LOOPBACK else ()
        token_path = f"{BASES['auth']}{OPERATIONS['exchange_token'].path}"
        origins = {address, *(_origin(name, actual_port) for name in names)}
        app = App(
            projects,
            accounts,
            token_urls={f"{origin}{token_path}" for origin in origins},
            options=options,
            ready=lambda: announce(address, own),
            count=count,
            crowd=lambda: len(server.server_state.connections) / _MOST_CONNECTIONS,
        )
        config = uvicorn.Config(
            app,
            http="httptools",
            loop="asyncio",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            # From the application: uvicorn would wake up each second to write it.
            date_header=False,
            # All others could forge their address.
            forwarded_allow_ips=list(_in_both_families(options.behind_proxy)),
            timeout_keep_alive=_SECONDS_IDLE,
            timeout_graceful_shutdown=_SECONDS_TO_STOP,
            backlog=_BACKLOG,
        )
        server = _Server(config)
        yield server, listening


class _Server(uvicorn.Server):
    """Sleeps until it is stopped; uvicorn looks ten times a second, for as much as a few requests cost."""

    _loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Finish accepted requests and end; for any thread and for the handlers of signals."""
        self.should_exit = True
        if self._loop is not None:
            # The loop may have been closed.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._is_stopped.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.stop()

    async def main_loop(self) -> None:
        self._is_stopped = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        while not self.should_exit:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_stopped.wait(), _SECONDS_OF_TICK)


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again after it has stopped."""
    # On Windows, Ctrl+Break is among them.
    before = {number: signal.signal(number, lambda *_: None) for number in HANDLED_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_descriptors() -> None:
    """Allow this process as many descriptors as the system allows it: most begin with 1,024."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, _MOST_DESCRIPTORS)
        while 0 <= now < wanted:
            # macOS says that there is no limit, and has one.
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
                break
            wanted //= 2


@contextmanager
def _interpreter_of_server() -> Iterator[None]:
    """Set the interpreter for a process with one busy thread and many short requests.

    Threads take turns more often: the event loop gives the interpreter away with every system call, and gets
    it back only at the end of the turn of a thread that computes, 5 ms by default. Garbage is collected less
    often, and what the process holds already is left out: reference counting frees what requests leave
    behind, and a full collection stops every thread for a tenth of a second.
    """
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(min(interval, _SECONDS_OF_TURN))
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_TO_COLLECT, *thresholds[1:])
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only with an explicit protocol; otherwise small responses wait 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # On POSIX, the port is free at once after a restart. On Windows, the same option would let another
        # server take it over, and the exclusive one keeps others from that.
        option = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        listening.setsockopt(socket.SOL_SOCKET, option, 1)
        if host == "::":
            # By default, Linux and macOS answer both families, and Windows only one.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise Unavailable(f"port: cannot listen on {host} port {port}: {error}", field="port") from error
    return listening


def _in_both_families(proxies: Iterable[str]) -> Iterator[str]:
    """Add the form in which the addresses of IPv4 reach a socket of IPv6."""
    for proxy in proxies:
        yield proxy
        network = ip_network(proxy)
        if network.version == 4:
            yield f"::ffff:{network.network_address}/{96 + network.prefixlen}"


def _origin(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _print(address: str, own: str) -> None:
    listens = [f"  listens on {own}"] if own != address else []
    _write(
        f"attrib-ds serves {address}",
        f"  v1     {address}/api/v1",
        f"  v2     {address}/api/v2",
        f"  auth   {address}/auth",
        f"  script {address}/t.js  {tracking_script().integrity}",
        *listens,
    )


def _write(*lines: str) -> None:
    # A pipe is buffered, and its reader waits for the addresses.
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()
