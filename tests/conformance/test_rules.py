"""Every rule has a test, every test names rules that there are, and the table tells of all of them."""

from __future__ import annotations

from conformance_table import TARGET, checks, page, sections


def test_the_rules_are_numbered_without_a_gap():
    ids = [id for rules in sections().values() for id in rules]
    assert ids == [f"R{number:03}" for number in range(1, 327)]


def test_every_rule_has_a_test():
    rules = {id for each in sections().values() for id in each}
    assert rules - set(checks()) == set()


def test_every_test_names_rules_that_there_are():
    rules = {id for each in sections().values() for id in each}
    assert set(checks()) - rules == set()


def test_the_table_is_up_to_date():
    """Written anew by ``python tools/conformance_table.py``."""
    assert TARGET.read_text(encoding="utf-8") == page()
