"""Startup file of a notebook's kernel (``PYTHONSTARTUP``): it has what a reader has, and runs in an empty folder."""

import os
import runpy
import tempfile
from pathlib import Path

_folder = tempfile.TemporaryDirectory()  # deleted when the kernel ends
os.environ["ATTRIB_DS_HOME"] = str(Path(_folder.name) / "home")
os.chdir(_folder.name)
_hide_others = runpy.run_path(str(Path(os.environ["PYTHONSTARTUP"]).with_name("bare_environment.py")))[
    "hide_others"
]
_hide_others(os.environ["NOTEBOOK_EXTRAS"].split(), tools=["ipykernel"])
