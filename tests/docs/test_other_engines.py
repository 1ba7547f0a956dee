"""The page on other engines says what is so."""

import re
from pathlib import Path

import pandas as pd
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "other-engines.md"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    days = pd.to_datetime(["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-01"], utc=True)
    touchpoints = pd.DataFrame(
        {"user_id": ["u", "u", "v", "w"], "node_id": ["search", "email", "email", "search"], "date": days}
    )
    conversions = pd.DataFrame(
        {
            "event_id": ["a", "b"],
            "user_id": ["u", "v"],
            "value": [30.0, 20.0],
            "date": pd.to_datetime(["2025-01-05", "2025-01-06"], utc=True),
        }
    )
    for name, frame in (("touchpoints", touchpoints), ("conversions", conversions)):
        Path(name).mkdir()
        frame.to_parquet(Path(name) / "0.parquet")


@pytest.mark.slow
def test_its_python_runs_as_it_is_written_and_three_ways_agree(files):
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
