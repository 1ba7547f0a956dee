"""The names in inline code that the documentation links to the reference."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("sphinx")

FILE = Path(__file__).parents[2] / "docs" / "linked_names.py"
SPEC = importlib.util.spec_from_file_location("linked_names", FILE)
linked_names = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(linked_names)


def test_public_names_and_their_methods_are_found():
    for code, name in [
        ("search_interactions", "search_interactions"),
        ("at.sync(shop, 'mirror.duckdb')", "sync"),
        ("attrib_ds.errors.UnknownFields", "errors.UnknownFields"),
        ("models.Markov(order=2)", "models.Markov"),
        ("Paths.from_frames", "Paths.from_frames"),
        ("at.event", "event"),
        ('event("eventType")', "event"),
    ]:
        assert linked_names.find_name(code) == name, (code, name)


def test_other_code_is_left_alone():
    for code in [
        "event",
        "node",
        "user_id",
        "errors",
        "credits.attrs",
        "attribute(paths).columns",
        "--chunks",
        "",
    ]:
        assert linked_names.find_name(code) is None, code
