"""Renders the tables of the documentation from ``docs/reference/performance.json``, which ``run.py`` writes.

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->``; the text around it is written by hand. ``--check``
changes nothing and fails if a page differs.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from results import markdown

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parents[2] / "docs"
MEASURED = DOCS / "reference" / "performance.json"
PAGES = (DOCS / "reference" / "performance.md", DOCS / "explanation" / "evidence.md")
TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
UNMEASURED = "\nNot measured yet.\n\n"
#: Rules that differ little from others, left out of the tables of truth.
SIMILAR = {"linear ramp", "j shaped", "inverse j"}
#: Share of right decisions below which a model is no help, shown in bold.
GOAL = 0.8


def main() -> None:
    """Render the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    tables = tables_of(json.loads(MEASURED.read_text()))
    written = {page: page.read_text() for page in PAGES}
    marked = {name for text in written.values() for _, name, _ in TABLE.findall(text)}
    if unplaced := set(tables) - marked:
        raise SystemExit(f"the pages have no place for {sorted(unplaced)}")
    for page, text in written.items():
        rendered = TABLE.sub(lambda found: f"{found[1]}{tables.get(found[2], UNMEASURED)}{found[3]}", text)
        if options.check and rendered != text:
            raise SystemExit(f"{page.name} differs from {MEASURED.name}; run python tests/benchmarks/page.py")
        page.write_text(rendered)


def tables_of(measured: list[dict]) -> dict[str, str]:
    """Return the tables of the measured rows by name."""
    tables: dict[str, str] = {}
    for run in measured:
        for name in dict.fromkeys(row["table"] for row in run["rows"]):
            rows = [row for row in run["rows"] if row["table"] == name]
            shown = truth_tables(rows) if name == "truth" else {name: markdown(rows)}
            for title, table in shown.items():
                tables[title] = f"{tables.get(title, '')}\n{table}\n\n{caption(run)}\n\n"
    return tables


def truth_tables(rows: list[dict]) -> dict[str, str]:
    """Return the tables of models by scenario."""
    rows = [row for row in rows if row["what"] not in SIMILAR]
    return {
        "truth": crossed(rows, lambda figures: f"{figures['Share error']:.1f} [{figures['Level']:.2f}]"),
        "decisions": crossed(rows, _decisions),
        "verdicts": verdicts(rows),
    }


def crossed(rows: list[dict], cell: Callable[[dict], str]) -> str:
    """Return a table with a line per model and a column per scenario."""
    scenarios = list(dict.fromkeys(row["size"] for row in rows))
    cells = {(row["what"], row["size"]): cell(row["figures"]) for row in rows}
    lines = [
        ["", *scenarios],
        *(
            [model, *(cells.get((model, scenario), "–") for scenario in scenarios)]
            for model in dict.fromkeys(row["what"] for row in rows)
        ),
    ]
    return _table(lines)


def _decisions(figures: dict) -> str:
    shown = f"{100 * figures['Right decisions']:.0f} %"
    return shown if figures["Right decisions"] >= GOAL else f"**{shown}**"


def verdicts(rows: list[dict]) -> str:
    """Return a table of what the controls say about the discrete hazard, and how far that is true."""
    header = ["", "clear", "cannot tell", "confounded", "effect size", "share error", "right decisions"]
    lines = [header]
    for row in rows:
        figures = row["figures"]
        if "Confounded" in figures and row["what"] == "discrete hazard":
            counts = [f"{figures[verdict]:.0f}" for verdict in ("Clear", "Cannot tell", "Confounded")]
            level = f"{figures['Lowest level']:.2f} to {figures['Highest level']:.2f}"
            lines.append([row["size"], *counts, level, f"{figures['Share error']:.1f}", _decisions(figures)])
    return _table(lines)


def _table(lines: list[list[str]]) -> str:
    shown = [f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines]
    return "\n".join([shown[0], "|" + "---|" * len(lines[0]), *shown[1:]])


def caption(run: dict) -> str:
    """Return when and how rows were measured."""
    command = f"`python tests/benchmarks/{run['program']}.py {run['arguments']}`".replace(" `", "`")
    if run["date"] is None:
        return f"{command}, of an earlier version; not repeated since."
    facts = run["machine"]
    versions = ", ".join(f"{name} {facts[name]}" for name in ("duckdb", "pandas", "pyarrow", "numpy"))
    return f"{command} on {run['date']}; {facts['cores']} cores, Python {facts['python']}, {versions}."


if __name__ == "__main__":
    main()
