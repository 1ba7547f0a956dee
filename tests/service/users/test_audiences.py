"""Audiences: every kind of condition, and membership that is never stale."""

from __future__ import annotations

import json

import pytest
from support.service_records import hex_id, send, table, visit

from attrib_ds.errors import Conflict, InvalidRequest, NotFound
from attrib_ds.filters import event, to_json, user
from attrib_ds.service import Service
from attrib_ds.service.users import audiences

BUYERS = {"type": "event", "eventType": "order", "operator": "greaterThanOrEquals", "value": 1}
FRENCH = {"type": "predicate", "field": "geo.countryCode", "operator": "equals", "value": "FR"}
VISITORS = {"type": "interaction", "operator": "greaterThan", "value": 0}


def condition(combinator, *rules, **others):
    return {"type": "condition", "condition": combinator, "rules": list(rules), **others}


@pytest.mark.parametrize(
    ("audience", "expected"),
    [
        (BUYERS, [1, 2, 3, 5]),
        (BUYERS | {"value": 2}, [1]),
        (BUYERS | {"operator": "equals", "value": 0}, [4, 6, 7, 8]),
        (BUYERS | {"operator": "notEquals", "value": 1}, [1, 4, 6, 7, 8]),
        (BUYERS | {"operator": "lessThan", "value": 2}, [2, 3, 4, 5, 6, 7, 8]),
        (BUYERS | {"operator": "lessThanOrEquals", "value": 0}, [4, 6, 7, 8]),
        (BUYERS | {"since": "2025-01-04T00:00:00Z"}, [1, 3, 5]),
        (BUYERS | {"until": "2025-01-03T00:00:00Z"}, [1, 2]),
        (BUYERS | {"since": "2025-01-03T00:00:00Z", "until": "2025-01-03T00:00:00Z"}, [2]),
        (BUYERS | {"filter": to_json(event("statistics.turnover") > 8)}, [1]),
        (BUYERS | {"filter": to_json(event("statistics.turnover") > 15), "value": 2}, []),
        (
            BUYERS
            | {"filter": to_json((event("statistics.items") == 2) | (event("statistics.turnover") < 6))},
            [2, 3],
        ),
        (BUYERS | {"filter": to_json(event("statistics.turnover").is_null())}, [2, 5]),
        (BUYERS | {"filter": to_json(event("eventDate") > "2025-01-04T12:00:00Z")}, [1, 5]),
        (VISITORS, [1, 6, 8]),
        (VISITORS | {"filter": FRENCH}, [1]),
        (VISITORS | {"filter": FRENCH, "operator": "equals", "value": 0}, [2, 3, 4, 5, 6, 7, 8]),
        (user("fields.age") > 30, [1, 3]),
        ({"type": "counters", "field": "hitCount", "operator": "greaterThan", "value": 3}, [1]),
        (condition("AND", BUYERS, VISITORS), [1]),
        (condition("OR", BUYERS, VISITORS), [1, 2, 3, 5, 6, 8]),
        (condition("OR", BUYERS, VISITORS, **{"not": True}), [4, 7]),
        (condition("AND"), [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"type": "operation", "operator": "AND", "operands": [BUYERS, condition("OR", VISITORS)]}, [1]),
    ],
)
def test_g094_conditions_of_every_kind(find_numbers, audience, expected):
    assert find_numbers(audience=audience) == expected


def test_g094_audiences_by_id(crowd, find_numbers):
    buyers = create(crowd, name="Buyers", condition=BUYERS)
    visitors = create(crowd, name="Visitors", condition=VISITORS)
    either = {"type": "audience", "operator": "in", "value": [buyers["_id"], visitors["_id"]]}
    assert find_numbers(audience=either) == [1, 2, 3, 5, 6, 8]
    assert find_numbers(audience=either | {"operator": "notIn"}) == [4, 7]
    assert find_numbers(audience=condition("AND", either, VISITORS)) == [1, 6, 8]
    members = send(crowd, "search_users", fields=["audienceIds"]).read()["audienceIds"].to_pylist()
    assert members[0] == [buyers["_id"], visitors["_id"]]
    assert members[5] == [visitors["_id"]]
    assert members[3] == []
    assert find_numbers(where=user("audienceIds") == buyers["_id"]) == [1, 2, 3, 5]
    record = send(crowd, "get_user", id=hex_id(2)).read().to_pylist()[0]
    assert record["audienceIds"] == [buyers["_id"]]


def test_r254_an_unknown_audience_is_not_found(find_numbers):
    with pytest.raises(NotFound, match="audience: there is no audience 'a1'") as error:
        find_numbers(audience={"type": "audience", "operator": "notIn", "value": ["a1"]})
    assert error.value.field == "audience"


@pytest.mark.parametrize(
    "audience",
    [
        BUYERS | {"eventType": "ordr"},
        {"type": "fields", "field": "emial", "operator": "isNull"},
    ],
)
def test_unknown_names_in_conditions_are_refused(find_numbers, audience):
    with pytest.raises(InvalidRequest, match="did you mean"):
        find_numbers(audience=audience)


# -- the records ------------------------------------------------------------------------------------


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    send(opened, "load_records", resource="interactions", source=table(visit(1, userId=hex_id(1))))
    yield opened
    opened.close()


def create(service, **arguments):
    return send(service, "create_audience", **arguments).read().to_pylist()[0]


def test_g048_an_audience_is_a_name_a_condition_and_its_present_size(service):
    created = create(service, name="Visitors", condition=VISITORS)
    assert set(created) == {"_id", "projectId", "name", "condition", "size", "computedAt"}
    assert (created["projectId"], created["name"], created["size"]) == ("shop", "Visitors", 1)
    assert json.loads(created["condition"]) == VISITORS


def test_g067_membership_is_that_of_the_moment_it_is_read(service):
    id = create(service, name="Visitors", condition=VISITORS)["_id"]
    send(service, "load_records", resource="interactions", source=table(visit(2, userId=hex_id(2))))
    assert send(service, "get_audience", id=id).read()["size"].to_pylist() == [2]
    assert send(service, "search_users", fields=["audienceIds"]).read()["audienceIds"].to_pylist() == [
        [id],
        [id],
    ]


@pytest.mark.slow
def test_queries_of_conditions_are_compiled_once_and_few_are_kept(service, monkeypatch):
    monkeypatch.setattr(audiences, "_MOST_QUERIES", 2)
    compiled = service._store.query_cache
    for name, kept in (("a", 1), ("b", 2), ("c", 1)):
        create(service, name=name, condition=VISITORS)
        for _ in range(2):
            (user,) = send(service, "get_user", id=hex_id(1)).read().to_pylist()
            assert len(compiled) == kept
    assert len(user["audienceIds"]) == 3


def test_audiences_are_listed_by_name_in_pages(service):
    for name in ("b", "c", "a"):
        create(service, name=name, condition=VISITORS)
    assert send(service, "list_audiences").read()["name"].to_pylist() == ["a", "b", "c"]
    page = send(service, "list_audiences", offset=1, limit=1)
    assert (page.read()["name"].to_pylist(), page.total, page.offset, page.limit) == (["b"], 3, 1, 1)
    assert send(service, "list_audiences", limit=0).read().num_rows == 0


def test_an_audience_named_by_another_one_cannot_be_deleted(service):
    inner = create(service, name="Inner", condition=VISITORS)["_id"]
    member = {"type": "audience", "operator": "in", "value": [inner]}
    outer = create(service, name="Outer", condition=condition("AND", member))["_id"]
    assert send(service, "get_audience", id=outer).read()["size"].to_pylist() == [1]
    with pytest.raises(Conflict, match="audience 'Outer' names"):
        send(service, "delete_audience", id=inner)
    assert send(service, "delete_audience", id=outer).value == 1
    assert send(service, "delete_audience", id=inner).value == 1
    assert send(service, "list_audiences").total == 0
    for operation in ("get_audience", "delete_audience"):
        with pytest.raises(NotFound, match="id: there is no audience"):
            send(service, operation, id=inner)


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (user("audienceIds").contains("a"), InvalidRequest),
        (BUYERS, InvalidRequest),
        ({"type": "audience", "operator": "in", "value": ["a1"]}, NotFound),
    ],
)
def test_conditions_that_cannot_be_kept_are_refused(service, refused, error):
    with pytest.raises(error) as raised:
        create(service, name="x", condition=refused)
    assert raised.value.field == "condition"
    assert send(service, "list_audiences").total == 0
