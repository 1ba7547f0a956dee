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
    export, use = blocks(PAGE.read_text(encoding="utf-8"), "python")
    assert export.count(ADDRESS) == 1
    names = {}
    exec(compile(export.replace(ADDRESS, f"url={url!r}") + use, str(PAGE), "exec"), names)
    assert sum(map(int, capsys.readouterr().out.split())) == 10_001
    assert (names["visits"], names["users"]) == (Path("visits.parquet"), Path("users.parquet"))
    stored = pd.read_parquet(tmp_path / "visits.parquet")
    assert (len(stored), list(stored.columns)) == (10_001, ["_id", "userId", "startDate"])
    assert pd.read_parquet(tmp_path / "users.parquet")["interactionCount"].sum() == 10_001


def test_the_functions_are_those_that_have_an_export():
    first = PAGE.read_text(encoding="utf-8").split("```")[0]
    searches = {name.replace("export_", "search_") for name in at.__all__ if name.startswith("export_")}
    assert set(re.findall(r"`(\w+)`", first)) == searches
