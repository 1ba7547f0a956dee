"""Separate environments for the packages that benchmarks compare with."""

from __future__ import annotations

import subprocess
import venv
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Requirements of each environment; some packages fail with newer versions of pandas.
PEERS = {
    "channel_attribution": ["ChannelAttribution==2.2.5", "matplotlib", "pandas<3", "pyarrow"],
    "marketing_attribution_models": ["marketing-attribution-models==2.1.1", "pandas<3", "pyarrow", "seaborn"],
}


def environment(folder: Path, peer: str) -> str:
    """Return the Python of a package's environment, and create the environment if necessary."""
    home = folder / f"venv-{peer}"
    python, marker = home / "bin" / "python", home / "installed"
    if not marker.exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PEERS[peer]], check=True)
        marker.touch()
    return str(python)
