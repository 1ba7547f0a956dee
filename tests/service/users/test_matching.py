"""Filters on users, of every family of keys."""

from __future__ import annotations

import pytest
from service.users.test_search import EVERYONE

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import from_json, user


@pytest.mark.few(12)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (user("fields.email") == "ANNA@x.org ", [1]),
        (user("fields.email").contains("@X.ORG"), [1, 2]),
        (user("fields.email").not_contains("@x.org"), [3, 4, 5, 6, 7, 8]),
        (user("fields.email") != "anna@x.org", [2, 3, 4, 5, 6, 7, 8]),
        (user("fields.email").is_null(), [3, 4, 5, 6, 7, 8]),
        (user("fields.email").is_not_null(), [1, 2]),
        (user("fields.first_name") == "anna", [1]),
        (user("fields.first_name").isin(["Ben", "ben"]), [2, 4]),
        (user("fields.first_name").starts_with("É"), [3]),
        (user("fields.phone") == "+33612345678", [6]),
        (user("fields.age") > 30, [1, 3]),
        (user("fields.age").between(7, 30), [1, 2]),
        (user("fields.age").is_null(), [4, 5, 6, 7, 8]),
        (user("fields.member") == True, [1]),  # noqa: E712
        (user("fields.member") != True, [2, 3, 4, 5, 6, 7, 8]),  # noqa: E712
        (user("fields.birthday", operator_type="date") < "1985-01-01T00:00:00Z", [5]),
        (user("fields.birthday") > "1985-01-01T00:00:00+05:00", [1]),
        (user("eventTypesCount.order") >= 1, [1, 2, 3, 5]),
        (user("eventTypesCount.order") == 0, [4, 6, 7, 8]),
        (user("metrics.turnover.sum") == 30, [1]),
        (user("metrics.turnover.count") == 0, [2, 3, 4, 5, 6, 7, 8]),
        (user("metrics.turnover.average").is_null(), [2, 3, 4, 5, 6, 7, 8]),
        (user("metrics.state-delay-converted.max") == 0, [4]),
        (user("metrics.confirmed.min") < 1, [1]),
        (user("eventCount") > 1, [1]),
        (user("interactionCount") == 0, [2, 3, 4, 5, 7]),
        (user("firstEventDate") > "2025-01-04T00:00:00Z", [5]),
        (user("lastInteractionNodeId") == "letter", [8]),
        (user("vendorUserIds").contains("v"), [8]),
        (user("vendorUserIds").not_contains("v"), [1, 2, 3, 4, 5, 6, 7]),
        (user("mostProbableLocation").is_null(), EVERYONE),
        (user("_id") > "000000000000000000000006", [7, 8]),
    ],
    ids=repr,
)
def test_r243_g084_g091_filters(find_numbers, where, expected):
    assert find_numbers(where=where) == expected
    # A complement is exact, and a filter is the same from its JSON.
    assert find_numbers(where=~where) == [value for value in EVERYONE if value not in expected]


@pytest.mark.slow
def test_r243_operations_group_and_nest(find_numbers):
    old, orders = user("fields.age") > 20, user("eventTypesCount.order") > 1
    nobody = user("eventCount") == 0
    assert find_numbers(where=(old & ~orders) | nobody) == [3, 6, 7, 8]
    nested = {
        "type": "operation",
        "operator": "OR",
        "operands": [
            {"type": "fields", "field": "age", "operatorType": "number", "operator": "equals", "value": 7},
            {
                "type": "condition",
                "condition": "AND",
                "rules": [
                    {"type": "counters", "field": "hitCount", "operator": "equals", "value": 4},
                    {"type": "metrics", "field": "turnover.max", "operator": "equals", "value": 20},
                ],
            },
        ],
    }
    assert find_numbers(where=from_json(nested)) == find_numbers(where=nested) == [1, 2]


def test_g095_criteria_hold_together(find_numbers):
    where = user("fields.first_name").is_not_null()
    audience = {"type": "event", "eventType": "order", "operator": "greaterThan", "value": 0}
    assert find_numbers(where=where, audience=audience, id_after="000000000000000000000001") == [2, 3]
    sql = "SELECT _id FROM users WHERE eventCount > 1"
    assert find_numbers(where=where, audience=audience, sql=sql) == [1]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (user("fields.nonsense") == "x", "did you mean|allowed: fields"),
        (user("eventTypesCount.ordr") > 1, "did you mean 'eventTypesCount.order'"),
        (user("metrics.turnovr.sum") > 1, "did you mean 'metrics.turnover.sum'"),
        (user("fields.age") == "seven", "a finite number"),
        (user("fields.age") == True, "compared as 'boolean'; allowed: 'number'"),  # noqa: E712
        (user("fields.email") > 5, "compared as 'number'; allowed: 'string'"),
        (user("fields.birthday").contains("1990"), "contains"),
    ],
)
def test_g093_unknown_keys_and_other_types_are_refused(find_numbers, where, message):
    with pytest.raises(InvalidRequest, match=message) as error:
        find_numbers(where=where)
    assert error.value.field == "where"
