"""The page on other engines says what is so."""

import re
from pathlib import Path

import pandas as pd
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "other-engines.md"


@pytest.mark.slow
def test_its_python_runs_as_it_is_written_and_three_ways_agree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 4
    held = {}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), held)
    linear = held["credits"].loc[held["credits"]["model"] == "linear"].set_index("node_id")
    assert linear["conversions"].to_dict() == {"email": 1.5, "search": 0.5}
    assert linear["value"].to_dict() == {"email": 35.0, "search": 15.0}
    pd.testing.assert_frame_equal(held["same"], held["credits"])
    columns = ["model", "node_id", "conversions", "value"]
    pd.testing.assert_frame_equal(held["again"][columns], held["credits"][columns])
    assert held["days"]["sessionCount"].tolist() == [2, 1, 1]
