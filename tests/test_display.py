"""Progress bars of long runs, and how projects, paths and models look in a notebook."""

import io
import sys
import threading

import pandas as pd
import pytest

from attrib_ds import Paths, connect, interaction
from attrib_ds import display as module
from attrib_ds.attribution.models import TimeDecay
from attrib_ds.display import card, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(module, "_DELAY_SECONDS", 0)


def test_a_terminal_sees_how_far_it_is(monkeypatch, at_once):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    before = set(threading.enumerate())
    with progress("rows", 300) as advance:
        advance(150)
        # Those of other tests may end meanwhile.
        assert not set(threading.enumerate()) - before
    last = terminal.getvalue().split("\r")[-1]
    assert "150/300" in last
    assert "rows" in last


def test_a_total_that_comes_with_the_first_page_is_shown(monkeypatch, at_once):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    known = []
    with progress("records", lambda: known[0] if known else None, name="search_users") as advance:
        known.append(20)
        advance(5)
    assert "search_users" in terminal.getvalue()
    assert "5/20" in terminal.getvalue()


def test_a_file_sees_nothing(monkeypatch, at_once):
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with progress("rows", 300) as advance:
        advance(300)
    assert file.getvalue() == ""


def test_what_is_over_soon_is_not_shown(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress("rows", 2) as advance:
        advance(2)
    assert terminal.getvalue().strip() == ""


def test_everything_is_escaped():
    assert card("<b>", {"<i>": "a & b"}, note="<u>") == (
        "<div><b>&lt;b&gt;</b><table><tr>"
        '<th style="text-align: left">&lt;i&gt;</th><td>a &amp; b</td></tr></table><div>&lt;u&gt;</div></div>'
    )


def test_a_project_says_where_it_is():
    with connect("my-shop", path=":memory:") as shop:
        assert "<td>my-shop</td>" in shop._repr_html_()
        assert "<td>:memory:</td>" in shop._repr_html_()


def test_paths_say_how_they_were_made_without_computing_them():
    touchpoints = pd.DataFrame(
        {"user_id": ["u"], "node_id": ["n"], "date": pd.to_datetime(["2025-01-01"], utc=True)}
    )
    conversions = pd.DataFrame(
        {"event_id": ["e"], "user_id": ["u"], "date": pd.to_datetime(["2025-01-02"], utc=True)}
    )
    shown = Paths.from_frames(touchpoints, conversions, lookback="7D")._repr_html_()
    assert ">lookback</th><td>7D</td>" in shown


def test_models_and_predicates_say_what_they_are():
    for value, told in [
        (TimeDecay("3D"), (">half_life</th><td>&#x27;3D&#x27;</td>", "Halve a touchpoint")),
        (interaction("geo.city") == "Lyon", ("geo.city equals &quot;Lyon&quot;",)),
    ]:
        for each in told:
            assert each in value._repr_html_(), (value, told)
