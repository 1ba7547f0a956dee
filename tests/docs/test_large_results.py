"""The page on large results says what is so."""

import re
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "large-results.md"
ADDRESS = 'url="https://attribution.example"'


def visits(count):
    return pd.DataFrame(
        {
            "userId": [f"{number % 7:024x}" for number in range(count)],
            "nodeId": "letter",
            "startDate": "2025-01-05T10:00:00Z",
        }
    )


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def url(tmp_path, monkeypatch):
    """A service with more interactions than a page holds, and its key where the page has it."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "there"
    home.mkdir()
    with at.connect("my-shop", path=home / "my-shop.duckdb") as shop:
        assert at.load(shop, interactions=visits(10_001)).rejected.empty
    create_key(home, tmp_path / "key.json", projects=None)
    with ExitStack() as stack:
        yield stack.enter_context(running(home, options=ServerOptions(rate_limits=None)))


@pytest.mark.slow
def test_its_python_runs_as_it_is_written(url, tmp_path, capsys):
    (code,) = blocks(PAGE.read_text(encoding="utf-8"), "python")
    assert code.count(ADDRESS) == 1
    names = {}
    exec(compile(code.replace(ADDRESS, f"url={url!r}"), str(PAGE), "exec"), names)
    told = [tuple(map(int, line.split())) for line in capsys.readouterr().out.splitlines()]
    assert sum(rows for rows, _ in told) == 10_001
    assert {total for _, total in told} == {10_001}
    assert list(names["visits"].columns) == ["_id", "userId", "startDate"]
    assert names["file"] == Path("visits.parquet")
    stored = pd.read_parquet(tmp_path / "visits.parquet")
    assert len(stored) == 10_001
    with at.connect("my-shop", url=url, key="key.json") as shop:
        assert list(stored.columns) == list(at.search_interactions(shop, limit=0).columns)


def test_the_functions_are_those_that_give_chunks():
    taking = {name for name in at.__all__ if "chunks" in getattr(getattr(at, name), "__annotations__", {})}
    first = PAGE.read_text(encoding="utf-8").split("```")[0]
    assert set(re.findall(r"`(\w+)`", first)) == taking
