"""Prints text, which may come from a service or a file, so that it cannot steer the terminal."""

from __future__ import annotations

import sys

from attrib_ds.display import printable


def show(text: str) -> None:
    """Print text to standard output."""
    print(printable(text))


def show_row(*cells: str) -> None:
    """Print cells as one line, separated by tabs; tabs and line feeds in cells are escaped."""
    show("\t".join(cell.replace("\t", "\\t").replace("\n", "\\n") for cell in cells))


def show_error(text: str) -> None:
    """Print a message as one line to standard error."""
    print(f"attrib-ds: {printable(' '.join(text.split()))}", file=sys.stderr)
