"""Every rule has a test, every test names existing rules, and docs/conformance.md is up to date."""

import re
from pathlib import Path

import pytest
from conformance_table import TARGET, checks, package_rules, page, sections


def test_the_rules_are_numbered_without_a_gap():
    ids = [id for rules in sections().values() for id in rules]
    assert ids == [f"R{number:03}" for number in range(1, 327)]


def test_every_rule_has_a_test():
    rules = {id for section in sections().values() for id in section}
    assert rules - set(checks()) == set()


def test_every_test_names_existing_rules():
    rules = {id for section in sections().values() for id in section}
    assert set(checks()) - rules == set()


def test_every_rule_of_the_package_names_a_test():
    for file, name, _ in package_rules():
        text = Path(__file__).parents[2].joinpath(file).read_text(encoding="utf-8")
        assert re.search(rf"^ *def {name}\(", text, re.MULTILINE), name


@pytest.mark.slow
def test_the_table_is_up_to_date():
    """Run ``python tools/conformance_table.py`` to update it."""
    assert TARGET.read_text(encoding="utf-8") == page()
