"""Entry point of the server, importable without the optional dependencies of ``[serve]``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import NotSupported
from attrib_ds.service.http.server_options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Packages of the extra ``[serve]``.
_EXTRA: Final = ("httptools", "starlette", "uvicorn")


def serve(
    home: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8_000,
    url: str | None = None,
    options: ServerOptions | None = None,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serve a folder of projects until SIGINT or SIGTERM, then finish accepted requests.

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
    announce : callable, optional
        Called with the server's addresses once it is ready; by default they are printed.

    Raises
    ------
    NotSupported
        If the extra ``[serve]`` is not installed.
    Unavailable
        If the port or the accounts cannot be used.
    InvalidRequest
        If the server listens on all addresses and no ``url`` is given.
    """
    try:
        from attrib_ds.service.http.server import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        raise NotSupported(
            f"serving over HTTP requires {error.name}, which is not installed; install the extra: "
            "pip install 'attrib-ds[serve]'"
        ) from error
    run(
        home,
        host=host,
        port=port,
        url=url,
        options=options or ServerOptions(),
        announce=announce or _print,
    )


def _print(lines: str) -> None:
    sys.stdout.write(f"{lines}\n")
    # A pipe is buffered, and its reader waits for the addresses.
    sys.stdout.flush()
