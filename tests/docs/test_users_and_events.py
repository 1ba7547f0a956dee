"""The page on users and their events says what is so."""

import re
from pathlib import Path

import pytest
from support.dtype_names import dtype_names

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "users-and-events.md"


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the blocks of the page define."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(block, names)
    yield names
    names["shop"].close()


def test_the_blocks_run_and_the_table_names_the_columns(names):
    types = dtype_names(names["events"])
    assert {name: types[name] for name in types if name.startswith(("event.", "user.", "stat"))} == {
        "event.delivery": "datetime64[us, UTC]",
        "user.email": "str",
        "user.age": "float64",
        "statistics.turnover.amount": "float64",
        "statistics.turnover.currency": "str",
        "states.confirmed": "Int64",
        "states.confirmed.date": "datetime64[us, UTC]",
    }
