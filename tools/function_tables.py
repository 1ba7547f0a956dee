"""Writes what each public name is for into the tables of ``docs/reference/functions.md``.

The page says which names stand together: the first column of its tables. The second column is the first line
of each docstring. Without arguments it writes the page; with ``--check`` it fails if the page is out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import attrib_ds

PAGE = Path(__file__).parents[1] / "docs/reference/functions.md"
ROW = re.compile(r"^\| `([\w.]+)` \|.*$", re.MULTILINE)


def purpose(name: str) -> str:
    """Return the first line of a public name's docstring as Markdown."""
    value: object = attrib_ds
    for part in name.split("."):
        value = getattr(value, part)
    line = (value.__doc__ or "").strip().partition("\n")[0].rstrip(":").strip()
    return re.sub(r":\w+:`~?(?:attrib_ds\.)?([^`]+)`", r"`\1`", line).replace("``", "`").replace("|", "\\|")


def written(text: str) -> str:
    """Return the page with the second column of every table as the docstrings have it."""
    return ROW.sub(lambda row: f"| `{row[1]}` | {purpose(row[1])} |", text)


def main() -> int:
    """Write or check the page."""
    text = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        return int(text != written(text))
    PAGE.write_text(written(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
