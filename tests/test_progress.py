"""The bar of a long run: seen by people, in nobody's way."""

import io
import sys
import threading

import pytest

from attrib_ds import progress as module
from attrib_ds.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS_UNSEEN", 0)


def test_a_terminal_sees_how_far_it_is(monkeypatch, at_once):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    before = threading.enumerate()
    with progress("rows", 300, done=100) as advance:
        advance(150)
        assert threading.enumerate() == before
    last = terminal.getvalue().split("\r")[-1]
    assert "250/300" in last
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
