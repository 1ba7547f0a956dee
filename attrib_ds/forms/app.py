"""Serve the workbench in a browser with Voilà."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from attrib_ds.errors import NotSupported

#: Bytes of the largest file that can be uploaded.
_MAX_UPLOAD: Final = 1 << 30
#: Release of ipywidgets whose widgets Voilà shows.
_WIDGETS: Final = (8, 1)


def run_app(*, port: int, opens_browser: bool) -> int:
    """Serve the workbench on this machine until it is interrupted.

    Parameters
    ----------
    port : int
        TCP port, on the loopback address only.
    opens_browser : bool
        Whether to open the page in a browser.

    Returns
    -------
    int
        Exit code of Voilà.

    Raises
    ------
    NotSupported
        If Voilà is not installed, or ipywidgets is too old for it.
    """
    _check_packages({name: _installed(name) for name in ("voila", "ipywidgets")})
    folder = Path(__file__).parent
    command = [
        *(sys.executable, "-m", "voila", str(folder / "workbench.ipynb")),
        *(f"--port={port}", "--Voila.ip=127.0.0.1", "--template=attrib_ds"),
        # An uploaded file is one message; the default allows 10 MiB.
        f"--Voila.tornado_settings={{'websocket_max_message_size': {_MAX_UPLOAD}}}",
    ]
    if not opens_browser:
        command.append("--no-browser")
    # Voilà looks for the template there.
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("JUPYTER_PATH"))))
    environment = {**os.environ, "JUPYTER_PATH": paths}
    return subprocess.run(command, check=False, env=environment).returncode  # noqa: S603  (no user input but the port)


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _check_packages(installed: Mapping[str, str | None]) -> None:
    """Refuse packages with which the page would stay empty."""
    if installed["voila"] is None:
        raise NotSupported("the app needs Voilà: pip install 'attrib-ds[app]'")
    found = installed["ipywidgets"] or "none"
    if [int(part) for part in re.findall(r"\d+", found)[:2]] < [*_WIDGETS]:
        needed = ".".join(map(str, _WIDGETS))
        raise NotSupported(
            f"the app needs ipywidgets {needed} or later, because Voilà shows no widgets of older ones; "
            f"installed: {found}. Upgrade with pip install 'attrib-ds[app]', or use the forms in a notebook: "
            "attrib_ds.forms works with ipywidgets 7.7.1 too"
        )
