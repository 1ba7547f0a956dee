"""Serve the workbench in a browser with Voilà."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from attrib_ds.errors import NotSupported


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
        If Voilà is not installed.
    """
    if find_spec("voila") is None:
        raise NotSupported("the app needs Voilà: pip install 'attrib-ds[app]'")
    notebook = Path(__file__).with_name("workbench.ipynb")
    command = [sys.executable, "-m", "voila", str(notebook), f"--port={port}", "--Voila.ip=127.0.0.1"]
    if not opens_browser:
        command.append("--no-browser")
    return subprocess.run(command, check=False).returncode  # noqa: S603  (the command has no user input but the port)
