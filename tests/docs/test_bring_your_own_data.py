"""The page on bringing data says what is so."""

import re
from pathlib import Path

import pytest

import attrib_ds as at

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "bring-your-own-data.md"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::attrib_ds.errors.RejectedRows")  # one export has such rows
def test_its_python_runs_as_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 6
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {})
    with at.connect("exported", path="exported.duckdb") as shop:
        assert len(at.search_interactions(shop)) == 2


def test_it_names_every_reader():
    first = PAGE.read_text(encoding="utf-8").split("```")[0]
    readers = {name for name in at.__all__ if name.startswith("read_")}
    assert readers == set(re.findall(r"`(read_\w+)`", first))
