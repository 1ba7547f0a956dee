"""Renders the tables of ``docs/reference/performance.md`` from ``performance.json``, which ``run.py`` writes.

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->``; the text around it is written by hand. ``--check``
changes nothing and fails if the page differs.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from results import markdown

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

#: Tables that another page explains.
ELSEWHERE = {"truth"}
UNMEASURED = "\nNot measured yet.\n\n"


def main() -> None:
    """Render the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    page = REFERENCE / "performance.md"
    written, measured = page.read_text(), json.loads((REFERENCE / "performance.json").read_text())
    rendered = render(written, measured)
    if options.check and rendered != written:
        raise SystemExit("performance.md differs from performance.json; run python tests/benchmarks/page.py")
    page.write_text(rendered)


def render(page: str, measured: list[dict]) -> str:
    """Return the page with the tables of the measured rows."""
    tables: dict[str, list[str]] = {}
    for run in measured:
        for name in dict.fromkeys(row["table"] for row in run["rows"]):
            rows = [row for row in run["rows"] if row["table"] == name]
            tables.setdefault(name, []).append(f"\n{markdown(rows)}\n\n{caption(run)}\n\n")
    marked = {name for _, name, _ in TABLE.findall(page)}
    if unplaced := set(tables) - marked - ELSEWHERE:
        raise SystemExit(f"the page has no place for {sorted(unplaced)}")
    return TABLE.sub(lambda found: f"{found[1]}{''.join(tables.get(found[2], [UNMEASURED]))}{found[3]}", page)


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
