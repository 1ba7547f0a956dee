"""The tables of the performance page are those of the results, and every row can be judged."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "performance.md").read_text(encoding="utf-8")
PROGRAMS = sorted({"run.py", *re.findall(r"^\| `(\w+\.py)", PAGE, re.MULTILINE)})
MEASURED = json.loads((ROOT / "docs" / "reference" / "performance.json").read_text())
ROWS = [row for run in MEASURED for row in run["rows"]]


def test_the_page_shows_the_results():
    page = ROOT / "tests" / "benchmarks" / "page.py"
    done = subprocess.run([sys.executable, str(page), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.few(4)
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_starts_by_the_documented_command(program):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, f"tests/benchmarks/{program}", "--help"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:6]) == (0, "usage:"), done.stderr


def test_every_row_has_a_peer_or_is_one():
    for table in sorted({row["table"] for row in ROWS}):
        rows = [row for row in ROWS if row["table"] == table]
        peers = {row["peer"] for row in rows}
        alone = [row["what"] for row in rows if not row["peer"] and row["what"] not in peers]
        assert not alone, table
        assert all(row["size"] or table == "imports" for row in rows), table


def test_the_results_name_no_machine_and_no_path():
    facts = {name for run in MEASURED for name in run["machine"] or {}}
    assert facts <= {
        *("cores", "memory_gb", "system", "python", "attrib-ds", "duckdb", "numpy", "pandas", "pyarrow")
    }
    assert not any("/" in run["arguments"] for run in MEASURED)
