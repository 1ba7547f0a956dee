"""Serves a folder of projects over HTTP."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import NotSupported
from attrib_ds.service.http.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: What the extra brings.
_EXTRA: Final = ("starlette", "uvicorn")


def serve(
    home: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8_000,
    url: str | None = None,
    settings: Settings | None = None,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serve a folder of projects until SIGINT or SIGTERM, then finish what was accepted.

    Parameters
    ----------
    home : str or Path
        Folder of embedded projects, one file each; accounts are beside them.
    host : str, default "127.0.0.1"
        Address to listen on; by default only this machine can call.
    port : int, default 8000
        Port to listen on; 0 takes a free one.
    url : str, optional
        Address under which clients know the server, such as that of the proxy before it; clients sign
        their requests for a token for it. By default what it listens on.
    settings : Settings, optional
        What the operator chose.
    announce : callable, optional
        Takes the lines that name the addresses, once the server is ready; by default they go to standard
        output.

    Raises
    ------
    NotSupported
        If the extra ``[serve]`` is not installed.
    Unavailable
        If the port or the accounts cannot be used.
    InvalidRequest
        If the server listens everywhere and no ``url`` is given.
    """
    try:
        from attrib_ds.service.http.server import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        raise NotSupported(
            f"serving over HTTP needs {error.name}, which is not installed; it comes with the extra: "
            "pip install 'attrib-ds[serve]'"
        ) from error
    run(
        home,
        host=host,
        port=port,
        url=url,
        settings=settings or Settings(),
        announce=announce or _print,
    )


def _print(lines: str) -> None:
    sys.stdout.write(f"{lines}\n")
    # Also where the output is no terminal, someone waits for it.
    sys.stdout.flush()
