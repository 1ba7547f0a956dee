"""Rows of a benchmark's table: how they are printed, and written as JSON.

It needs the standard library only, because some programs measure the memory of processes that start from theirs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Titles of the columns of a table, in their order; a column without values is left out.
TITLES = {
    "size": "Size",
    "what": "What",
    "seconds": "Seconds",
    "processor": "Processor seconds",
    "peak_mb": "Peak MB",
    "peer": "Compared with",
    "ratio": "Ratio",
    "goal": "Goal",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A measured row.

    Parameters
    ----------
    table : str
        Name of the table.
    what : str
        What was measured.
    size : str, default ""
        Amount of data.
    seconds, processor, peak_mb : float, optional
        Elapsed seconds, processor seconds over all threads, and peak memory of the process.
    peer : str, default ""
        What the row is compared with: another row of the same run, or a target.
    ratio : float, optional
        Relative to the peer.
    goal : str, default ""
        What the ratio should be, such as ``≤ 1.4``.
    figures : dict of str to float
        Other figures by title.
    """

    table: str
    what: str
    size: str = ""
    seconds: float | None = None
    processor: float | None = None
    peak_mb: float | None = None
    peer: str = ""
    ratio: float | None = None
    goal: str = ""
    figures: dict[str, float] = dataclasses.field(default_factory=dict)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option that every benchmark has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", type=Path, help="file to write the rows to")
    return made


def compared(rows: Sequence[Row], peer: str, *, by: str = "processor", goal: str = "") -> list[Row]:
    """Return rows with their ratio to the row of the same size whose ``what`` is the peer."""
    bases = {row.size: getattr(row, by) for row in rows if row.what == peer}
    return [
        row
        if row.what == peer or not bases.get(row.size)
        else dataclasses.replace(row, peer=peer, ratio=getattr(row, by) / bases[row.size], goal=goal)
        for row in rows
    ]


def report(rows: Iterable[Row], to: Path | None) -> None:
    """Print the tables, and write the rows to a file."""
    written = [dataclasses.asdict(row) for row in rows]
    for name in dict.fromkeys(row["table"] for row in written):
        print(f"\n{name}\n\n{markdown([row for row in written if row['table'] == name])}", flush=True)
    if to is not None:
        to.write_text(json.dumps(written))


def markdown(rows: Sequence[dict]) -> str:
    """Return a table of rows as Markdown."""
    used = [name for name in TITLES if any(row[name] not in (None, "") for row in rows)]
    extra = list(dict.fromkeys(title for row in rows for title in row["figures"]))
    position = used.index("what") + 1
    cells = [[TITLES[name] for name in used[:position]] + extra + [TITLES[name] for name in used[position:]]]
    for row in rows:
        own = {name: _shown(name, row[name]) for name in used}
        others = [_shown(title, row["figures"].get(title)) for title in extra]
        cells.append(
            [own[name] for name in used[:position]] + others + [own[name] for name in used[position:]]
        )
    lines = [f"| {' | '.join(line)} |" for line in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def _shown(name: str, value: object) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or abs(value) >= 100 or name == "peak_mb":
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
