"""The tables of the performance page are those of the results, and every row can be judged."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MEASURED = json.loads((ROOT / "docs" / "reference" / "performance.json").read_text())
ROWS = [row for run in MEASURED for row in run["rows"]]


def test_the_page_shows_the_results():
    page = ROOT / "tests" / "benchmarks" / "page.py"
    done = subprocess.run([sys.executable, str(page), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
