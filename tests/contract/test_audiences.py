from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from attrib_ds.contract import Request
from attrib_ds.filters import interaction, user

Ask = Callable[..., Request]
Refusal = Callable[..., str]

BUYERS = {"type": "event", "eventType": "order", "operator": "greaterThanOrEquals", "value": 2}
VISITORS = {
    "type": "interaction",
    "filter": {"type": "predicate", "field": "geo.countryCode", "operator": "equals", "value": "FR"},
    "operator": "equals",
    "value": 0,
}
MEMBERS = {"type": "audience", "operator": "in", "value": ["a1", "a2"]}
COUNTED = {"type": "counters", "field": "eventCount", "operator": "greaterThan", "value": 3}


def _all_of(*rules: Any) -> dict[str, Any]:
    return {"type": "condition", "condition": "AND", "rules": list(rules)}


@pytest.mark.parametrize(
    "accepted",
    [
        BUYERS,
        BUYERS | {"since": "2025-01-01T00:00:00Z", "until": None},
        VISITORS,
        {"type": "interaction", "operator": "greaterThan", "value": 0},
        MEMBERS,
        MEMBERS | {"operator": "notIn"},
        COUNTED,
        _all_of(),
        _all_of(BUYERS, _all_of(VISITORS, MEMBERS, COUNTED)) | {"not": True},
        {"type": "operation", "operator": "OR", "operands": [BUYERS, COUNTED]},
    ],
)
def test_conditions_accepted(ask: Ask, accepted: dict[str, Any]) -> None:  # G-094
    assert ask("search_users", fields=[], audience=accepted).audienceCondition == accepted


@pytest.mark.parametrize(
    "refused",
    [
        "a1",
        5,
        [BUYERS],
        {},
        {"type": "events"},
        BUYERS | {"eventType": None},
        BUYERS | {"operator": "contains"},
        BUYERS | {"value": -1},
        BUYERS | {"value": 1.5},
        BUYERS | {"value": "2"},
        BUYERS | {"value": True},
        BUYERS | {"since": "2025-01-01"},
        VISITORS | {"filter": {"type": "predicate", "field": "geo.cty", "operator": "equals", "value": "x"}},
        VISITORS | {"value": None},
        MEMBERS | {"value": []},
        MEMBERS | {"value": "a1"},
        MEMBERS | {"value": [5]},
        MEMBERS | {"value": ["a"] * 10_001},
        MEMBERS | {"operator": "equals"},
        COUNTED | {"field": "eventCnt"},
        _all_of(BUYERS, 5),
        _all_of(BUYERS) | {"condition": "XOR"},
        _all_of(BUYERS) | {"not": "yes"},
        {"type": "condition", "condition": "AND", "rules": BUYERS},
        {"type": "condition", "condition": "AND"},
        _all_of(*[MEMBERS] * 200),
    ],
)
def test_conditions_refused(refusal: Refusal, refused: object) -> None:
    assert refusal("search_users", fields=[], audience=refused).startswith("audience")


def test_conditions_have_up_to_ten_levels(ask: Ask, refusal: Refusal) -> None:
    tree = MEMBERS
    for _ in range(9):
        tree = _all_of(tree)
    assert ask("search_users", fields=[], audience=tree).audienceCondition == tree
    told = "audience: is nested too deeply; expected at most 10 levels"
    assert refusal("search_users", fields=[], audience=_all_of(tree)) == told


def test_predicates_of_users_are_conditions(ask: Ask, refusal: Refusal) -> None:
    request = ask("search_users", fields=[], audience=user("eventCount") > 3)
    assert request.audienceCondition == COUNTED | {"operatorType": "number"}
    other = interaction("type") == "session"
    assert refusal("search_users", fields=[], audience=other).startswith("audience: filters interactions")


def test_the_values_of_a_condition_have_limits_together(ask: Ask, refusal: Refusal) -> None:
    rules = [
        {"type": "fields", "field": "note", "operatorType": "string", "operator": "contains", "value": "a"}
    ]
    searched = VISITORS | {
        "filter": {"type": "predicate", "field": "geo.city", "operator": "matches", "value": "a"}
    }
    allowed = _all_of(_all_of(*rules * 30), *[searched] * 20)
    assert ask("search_users", fields=[], audience=allowed).audienceCondition == allowed
    for excessive in (_all_of(*rules * 51), _all_of(allowed, *rules)):
        message = refusal("search_users", fields=[], audience=excessive)
        assert "at most 50 patterns and substrings, this one has 51" in message
