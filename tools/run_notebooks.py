"""Runs notebooks and stores what they print, which the tests compare: all of them, or those that are named.

python tools/run_notebooks.py [NOTEBOOK ...]
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


def run(path: Path) -> None:
    """Run a notebook in its folder. Metadata stays as it was, and so do outputs of Spark where it is not."""
    notebook = nbformat.read(path, as_version=4)
    metadata = dict(notebook.metadata)
    stored = {cell.id: cell.outputs for cell in notebook.cells if "spark" in cell.metadata.get("tags", ())}
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        store_widget_state=False,
    )
    client.execute()
    notebook.metadata = nbformat.from_dict(metadata)
    has_spark = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if not _is_bar(output)]
        for output in cell.get("outputs", ()):
            # Of a form, its text is stored, which the tests compare; the widget lives with the kernel.
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
        if cell.id in stored and not has_spark:
            cell.outputs = stored[cell.id]
    nbformat.write(notebook, path)


def _is_bar(output: nbformat.NotebookNode) -> bool:
    """Tell whether an output is DuckDB's progress bar, which shows on slow machines only."""
    return "FloatProgress(" in output.get("data", {}).get("text/plain", "")


def main() -> None:
    """Run the notebooks that the command line names."""
    # A bar shows where a cell takes more than a second: on some machines, and not on others.
    os.environ["TQDM_DISABLE"] = "1"
    for path in [Path(name).resolve() for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        print(path.name)
        run(path)


if __name__ == "__main__":
    main()
