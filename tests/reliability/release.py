"""Runs before a release what is too slow for every change, and notes the results in the documentation.

    PYTHONPATH=tests python -m reliability.release [--only NAME …]

It takes hours. What ``.ci/run`` does has a small form of each of these checks.
"""

import argparse
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "large-checks.md"
#: Arguments of Python for each check.
CHECKS = {
    "laws": "-m pytest -n auto -q -m hypothesis --hypothesis-profile=thorough attrib_ds tests",
    "unseen examples": "-m pytest -n auto -q -m hypothesis --hypothesis-profile=exploring tests",
    "long tests": "-m pytest -n auto -q -m large tests",
    "random order": "-m reliability.random_order --rounds 10",
    "deliberate bugs": "tools/mutants.py",
    "extras of engines": "tests/environments/extras.py spark postgres clickhouse",
    "killed servers": "-m reliability.kill_rounds",
    "stopped servers": "-m reliability.stopping",
    "killed collectors": "-m reliability.collector_kills",
    "network faults": "-m reliability.network_faults",
    "outage": "-m reliability.outage",
    "browser engines": "-m reliability.browser_engines",
    "landing orders": "-m reliability.landing_orders --pages 500 --minutes 5",
    "random browsers": "-m reliability.random_browsers --examples 200",
    "mixed load": "-m reliability.mixed_load",
    "damaged files": "-m reliability.damaged_files",
    "clock set back": "-m reliability.clock_back",
    "costs": "-m reliability.costs",
    "benchmarks": "tests/benchmarks/run.py --quick",
}
ROW = re.compile(r"^\| (?P<name>[\w ]+) \| `python .*` \| .* \|$", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(CHECKS), default=list(CHECKS))
    options = parser.parse_args()
    codes = [_run(name) for name in options.only]
    return int(any(codes))


def _run(name: str) -> int:
    print(f"== {name}", flush=True)
    began, lines = time.monotonic(), []
    with subprocess.Popen(
        [sys.executable, *CHECKS[name].split()],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.strip())
    minutes = (time.monotonic() - began) / 60
    last = next((line for line in reversed(lines) if re.search(r"\d", line)), "").replace("|", "/")
    result = f"{'passed' if process.returncode == 0 else '**failed**'}: {last[:120]}"
    text = PAGE.read_text(encoding="utf-8")
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    PAGE.write_text(
        ROW.sub(
            lambda row: row_of(name, day, f"{minutes:.0f}", result) if row["name"] == name else row[0], text
        ),
        encoding="utf-8",
    )
    return process.returncode


def row_of(name: str, day: str = "not yet", minutes: str = "", result: str = "") -> str:
    """Return the row of a check in the table of the page."""
    return f"| {name} | `python {CHECKS[name]}` | {day} | {minutes} | {result} |"


if __name__ == "__main__":
    sys.exit(main())
