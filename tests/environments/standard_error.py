"""Shows what examples print to standard error: messages that no reader of a page or notebook expects.

Run as ``python tests/environments/standard_error.py [01-first-look weekly-report …]``, by default all notebooks and the
how-to pages that need no service and no files of the reader. Each runs as a plain script, in a folder of its own.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Pages whose Python blocks run as they are written, one after the other.
_PAGES = ("crm-conversions", "money-and-time", "questions", "segments", "weekly-report")


def script(name: str, folder: Path) -> str:
    """Return the Python of a notebook or a page, and write the file that a page shows."""
    notebook = ROOT / "notebooks" / f"{name}.ipynb"
    if notebook.exists():
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        return "\n".join(["from IPython.display import display", *code])
    text = (ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8")
    for content in re.findall(r"```text\n(.*?)```", text, re.DOTALL):
        (folder / "deals.csv").write_text(content, encoding="utf-8")
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


def main(names: list[str]) -> int:
    """Run examples, and return 1 if one fails."""
    names = names or [*sorted(each.stem for each in ROOT.glob("notebooks/*.ipynb")), *_PAGES]
    status = 0
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, "example.py")
            file.write_text(script(name, file.parent), encoding="utf-8")
            environment = {"ATTRIB_DS_HOME": f"{place}/home", "MPLBACKEND": "agg", "TQDM_DISABLE": "1"}
            done = subprocess.run(
                [sys.executable, file],
                cwd=place,
                env=os.environ | environment,
                capture_output=True,
                text=True,
            )
        print(
            f"{name}: {'ends well' if done.returncode == 0 else f'ended with {done.returncode}'}\n{done.stderr}"
        )
        status |= done.returncode != 0
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
