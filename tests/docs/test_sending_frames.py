"""The page on sending frames says what is so."""

import re
from pathlib import Path

import pytest

import attrib_ds as at

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "sending-frames.md"


@pytest.mark.slow
def test_its_python_runs_as_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 5
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {})
    with at.connect("phone-orders", path="phone-orders.duckdb") as shop:
        assert at.list_trashed_events(shop).empty


def test_the_functions_are_those_that_can_only_check():
    named = {name for name in at.__all__ if "dry_run" in getattr(getattr(at, name), "__annotations__", {})}
    first = PAGE.read_text(encoding="utf-8").split("```")[0]
    listed = {name for name in re.findall(r"`(\w+)`", first) if hasattr(at, name)}
    assert listed == named - {"send_conversions"}
