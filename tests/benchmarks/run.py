"""Run the benchmarks, and write their rows as JSON.

``python tests/benchmarks/run.py --quick`` proves within minutes that all of them run. Without ``--quick`` they take
hours. ``--only`` selects programs, ``--out`` adds their rows to a file, where they replace the rows that the same
programs wrote before. ``page.py`` renders the pages of the documentation.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from results import Row, report

HERE = Path(__file__).parent
#: Arguments of each program for a whole and for a quick run; the quick one installs no other attribution package.
PROGRAMS = {
    "imports": ("", "--rounds 3"),
    "attribution": ("--journeys 100000 1000000 --rounds 3", "--journeys 20000 --rounds 1 --peers"),
    "growth": ("--millions 1 10 100", "--millions 0.1 0.4 --models rules all"),
    "bootstrap": ("--journeys 1000000", "--journeys 20000 --rounds 1 --replicates 20"),
    "truth": ("--users 300000 --seeds 5", "--users 10000 --seeds 1 --scenarios random --peers"),
    "coverage": (
        "--worlds 200 --users 4000",
        "--worlds 3 --users 2000 --models linear markov --replicates 20",
    ),
    "json_pages": ("--records 1000000", "--records 20000 --page 5000 --rounds 1"),
    "remote_pull": ("--rows 1000000", "--rows 20000 --rounds 1"),
    "service_events": ("", "--events 400 --seconds 5"),
    "collection": ("", "--hits 400 --rounds 1 --views 3"),
    "collectors": ("", "--hits 400 --rounds 1 --processes 1 2"),
    "sessions": ("--millions 10", "--millions 0.1"),
    "guard": ("", "--hits 20000 --single 20 --rounds 1"),
    "opened_hits": ("--millions 1 10 100 --spark 1 10", "--millions 0.1"),
    "service_reads": ("", "--interactions 50000 --events 20000"),
}
PACKAGES = ("attrib-ds", "duckdb", "numpy", "pandas", "pyarrow")
#: Goals of ``service_events.py`` for the rate relative to the bare handler.
RATES = {"refused": "≥ 0.4", "async": "≥ 0.4", "sync": "≥ 0.15"}


def main() -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few data and one round")
    parser.add_argument("--only", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--arguments", help="arguments of the selected programs, instead of their own")
    parser.add_argument("--out", type=Path, help="file of results to add to")
    options = parser.parse_args()
    for name in options.only:
        start = time.monotonic()
        own = PROGRAMS[name][options.quick]
        arguments = own if options.arguments is None else options.arguments
        measured = {
            "program": name,
            "arguments": arguments,
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "machine": machine(),
            "rows": rows_of(name, shlex.split(arguments)),
        }
        print(f"\n{name}: {time.monotonic() - start:.0f} seconds", flush=True)
        if options.out:
            add(options.out, measured)


def rows_of(name: str, arguments: list[str]) -> list[dict]:
    """Run a program, and return its rows."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "rows.json"
        command = [sys.executable, str(HERE / f"{name}.py"), *arguments]
        if name == "service_events":
            printed = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
            report(rows_of_events(printed), written)
        else:
            subprocess.run([*command, "--json", str(written)], check=True)
        return json.loads(written.read_text())


def rows_of_events(printed: str) -> list[Row]:
    """Return the rows of the table that ``service_events.py`` prints, whose columns are right-aligned."""
    header, *lines = printed.splitlines()
    columns = [(found[0], found.end()) for found in re.finditer(r"\S+(?: \S+)*", header)]
    rows = []
    for line in lines:
        figures, ratios = {}, []
        for (_, start), (title, end) in itertools.pairwise(columns):
            cell = line[12 if start < 12 else start : end].strip()
            if title == "of bare":
                ratios.append(cell)
            elif cell not in ("", "-"):
                figures[title] = float(cell)
        kind, size = line[:12].strip(), f"{figures.pop('events'):,.0f} events"
        peer = "bare" if ratios and ratios[0] else ""
        ratio = float(ratios[0]) if peer else None
        rows.append(
            Row(
                "service_events",
                kind,
                size,
                peer=peer,
                ratio=ratio,
                goal=RATES.get(kind, ""),
                figures=figures,
            )
        )
    return rows


def machine() -> dict[str, object]:
    """Return what the figures depend on, without names or paths."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


def add(to: Path, measured: dict) -> None:
    """Replace the rows of a program in a file of results."""
    held = json.loads(to.read_text()) if to.exists() else []
    kept = [each for each in held if each["program"] != measured["program"]]
    ordered = sorted([*kept, measured], key=lambda each: list(PROGRAMS).index(each["program"]))
    to.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
