"""Startup file of a notebook's kernel (``PYTHONSTARTUP``): it has what a reader has, in a folder of its own."""

import os
import runpy
from pathlib import Path

if __name__ == "__main__":
    os.chdir(os.environ["NOTEBOOK_FOLDER"])
    os.environ["ATTRIB_DS_HOME"] = str(Path.cwd() / "home")
    _script = Path(os.environ["PYTHONSTARTUP"]).with_name("bare_environment.py")
    runpy.run_path(str(_script))["hide_others"](os.environ["NOTEBOOK_EXTRAS"].split(), tools=["ipykernel"])
    # Cells share these names, and would miss no import of their own.
    del os, runpy, Path
