"""Requests written for HTTP and read back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attrib_ds.contract import OPERATIONS, Request, build, from_wire, to_wire
from attrib_ds.filters import Predicate, event, interaction, node, user
from attrib_ds.schema import INTERACTION, properties

_INSTANTS = st.datetimes(timezones=st.just(UTC))
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_COUNTS = st.integers(0, 2**63 - 1)
_IDS = st.text("0123456789abcdef", min_size=24, max_size=24)
_FLAGS = st.sampled_from([True, False, None])
_INTERACTIONS = st.one_of(
    st.builds(lambda value: interaction("geo.city") == value, _TEXTS),
    st.builds(lambda value: interaction("hitCount") > value, st.integers(0, 100)),
    st.builds(lambda value: interaction("startDate") < value, _INSTANTS),
    st.builds(lambda value: interaction("geo.latitude") <= value, st.floats(-90, 90)),
    st.just(interaction("userData").is_null()),
)
_NODES = st.builds(lambda value: node("campaignName").contains(value), _TEXTS.filter(len))
_USERS = st.one_of(
    st.builds(lambda value: user("eventCount") >= value, st.integers(0, 100)),
    st.builds(lambda value: user("fields.email") == value, _TEXTS),
)


def _trees(leaves: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    def extend(rules: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        return st.one_of(
            st.builds(lambda left, right: left & right, rules, rules),
            st.builds(lambda left, right: left | right, rules, rules),
            st.builds(lambda rule: ~rule, rules),
        )

    return st.recursive(leaves, extend, max_leaves=5)


def _optional(**arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=arguments)


SEARCHES = _optional(
    since=_INSTANTS,
    until=_INSTANTS,
    where=_trees(_INTERACTIONS),
    nodes=_trees(_NODES),
    columns=st.lists(st.sampled_from(properties(INTERACTION)), min_size=1),
    sort=st.dictionaries(st.sampled_from(["startDate", "_id", "geo.city"]), st.sampled_from([1, -1])),
    offset=_COUNTS,
    limit=_COUNTS,
    filtered=_FLAGS,
    bots=_FLAGS,
)
INSIGHTS = _optional(
    since=_INSTANTS,
    where=_trees(_INTERACTIONS),
    group=st.sampled_from(["geo.city", "isBot", "hitCount"]),
    interval=st.sampled_from(["day", "hourOfDay", "semester"]),
    segments=_COUNTS,
    sort=st.dictionaries(st.sampled_from(["sessionCount", "group"]), st.sampled_from([1, -1])),
    bots=_FLAGS,
    timezone=st.sampled_from(["UTC", "Europe/Paris"]),
)
USERS = _optional(
    where=_trees(_USERS),
    audience=_trees(_USERS),
    sql=_TEXTS.filter(len),
    sort=st.sampled_from(["_id", "fields.email", "metrics.state-delay-paid.average"]),
    order=st.sampled_from(["ASC", "DESC"]),
    id_after=_IDS,
    id_from=_IDS,
    id_to=_IDS,
    multi_field_mode=st.sampled_from(["latest", "earliest", "alphabetical"]),
    offset=_COUNTS,
    limit=_COUNTS,
)
LISTS = {
    "list_user_events": _optional(
        attributable=st.booleans(),
        since=_INSTANTS,
        until=_INSTANTS,
        sort=st.sampled_from(["eventDate", "_id"]),
        order=st.sampled_from(["ASC", "DESC"]),
        offset=_COUNTS,
        limit=_COUNTS,
    ),
    "list_event_types": _optional(
        search=_TEXTS,
        archived=st.booleans(),
        storage_key=_TEXTS,
        sort=st.dictionaries(st.sampled_from(["name", "createdAt"]), st.sampled_from([1, -1]), min_size=1),
        limit=_COUNTS,
    ),
}


def _sent_and_read(request: Request, name: str) -> Request:
    """Pass a request through JSON text, and its path through the parameters of the template."""
    operation = OPERATIONS[name]
    wire = to_wire(operation, request)
    path = {
        key: getattr(request, key)
        for key in operation.request.model_fields
        if operation.location(key) == "path"
    }
    content = wire.content()
    body = None if content is None else json.loads(content, parse_float=Decimal)
    return from_wire(operation, path=path, query=wire.query, body=body)


@given(arguments=SEARCHES)
@example(arguments={"bots": None, "filtered": None})
@example(arguments={"since": datetime(2025, 1, 1, 0, 0, 0, 1, tzinfo=UTC)})
@example(arguments={"nodes": node("channel") == "search"})
def test_searches_come_back_equal(arguments: dict[str, Any]) -> None:
    request = build(OPERATIONS["search_interactions"], project_id="shop", **arguments)
    assert _sent_and_read(request, "search_interactions") == request


@given(arguments=INSIGHTS)
def test_insights_come_back_equal(arguments: dict[str, Any]) -> None:
    request = build(OPERATIONS["interaction_insights"], project_id="shop", **arguments)
    assert _sent_and_read(request, "interaction_insights") == request


@given(arguments=USERS, fields=st.lists(st.sampled_from(["_id", "fields.email", "metrics"])))
def test_user_searches_come_back_equal(arguments: dict[str, Any], fields: list[str]) -> None:
    request = build(OPERATIONS["search_users"], project_id="shop", fields=fields, **arguments)
    assert _sent_and_read(request, "search_users") == request


@pytest.mark.parametrize("name", LISTS)
@given(data=st.data())
def test_lists_come_back_equal(name: str, data: st.DataObject) -> None:
    arguments = data.draw(LISTS[name])
    path = {"id": "0" * 24} if name == "list_user_events" else {}
    request = build(OPERATIONS[name], project_id="shop", **path, **arguments)
    assert _sent_and_read(request, name) == request


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("create_event", {"event_type": "order", "nonce": "n", "data": {"a": [1, None, "é"]}}),
        ("create_event", {"event_type": "order", "nonce": "n", "data": {}, "event_date": "yesterday"}),
        (
            "event_insights",
            {
                "since": "2025-01-01T00:00:00Z",
                "until": "2025-01-02T00:00:00Z",
                "metrics": ["event-count"],
                "group_by": "project",
                "interval": "day",
                "event_type": event("eventType") == "order",
            },
        ),
        (
            "export_users",
            {
                "path": "users",
                "columns": ["_id"],
                "where": user("eventCount") > 1,
                "format": "xlsx",
                "transformers": [{"type": "number", "key": "_id", "level": 2}],
            },
        ),
        (
            "create_event_type",
            {
                "reference": "order",
                "name": "Order",
                "fields": [
                    {"type": "state", "entity": "event", "storageKey": "paid", "ingestionKey": None},
                    {"type": "email", "entity": "user", "storageKey": "email"},
                ],
            },
        ),
        (
            "create_outlay",
            {
                "vendor_id": "my-ads",
                "campaign_id": "c1",
                "amount": Decimal("999999999999999999.999999"),
                "start_date": "2025-01-01T00:00:00Z",
                "end_date": "2025-01-02T00:00:00Z",
            },
        ),
    ],
)
def test_other_requests_come_back_equal(name: str, arguments: dict[str, Any]) -> None:
    request = build(OPERATIONS[name], project_id="shop", **arguments)
    assert _sent_and_read(request, name) == request


def test_decimals_are_written_digit_by_digit() -> None:
    operation = OPERATIONS["create_outlay"]
    request = build(
        operation,
        project_id="shop",
        vendor_id="my-ads",
        campaign_id="c 1/2",
        amount=Decimal("123456789012345678.100000"),
        start_date="2025-01-01T01:00:00+01:00",
        end_date="2025-01-02T00:00:00Z",
    )
    wire = to_wire(operation, request)
    assert wire.path == "/projects/shop/custom-ads/my-ads/campaigns/c%201%2F2/outlays"
    assert wire.query == {}
    assert wire.content() == (
        b'{"amount":123456789012345678.1,"startDate":"2025-01-01T00:00:00.000Z",'
        b'"endDate":"2025-01-02T00:00:00.000Z"}'
    )


def test_queries_are_texts() -> None:
    operation = OPERATIONS["list_user_events"]
    request = build(
        operation,
        project_id="shop",
        id="0" * 24,
        attributable=False,
        since=datetime(2025, 1, 1, tzinfo=UTC),
        limit=5,
    )
    wire = to_wire(operation, request)
    assert wire.query == {"attributable": "false", "since": "2025-01-01T00:00:00.000Z", "limit": "5"}
    assert wire.content() is None


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ({}, {}),
        ({"limit": None, "since": None}, {}),
        ({"bots": None}, {"isBot": None}),
        ({"bots": False, "offset": 0}, {"isBot": False, "offset": 0}),
    ],
)
def test_what_is_not_given_is_left_out(arguments: dict[str, Any], body: dict[str, Any]) -> None:
    operation = OPERATIONS["search_interactions"]
    assert to_wire(operation, build(operation, project_id="shop", **arguments)).body == body


def test_a_page_further_on_is_a_copy() -> None:
    operation = OPERATIONS["search_interactions"]
    request = build(operation, project_id="shop", limit=5).model_copy(update={"offset": 5})
    assert to_wire(operation, request).body == {"limit": 5, "offset": 5}


def test_an_array_is_the_whole_body_and_the_rest_is_in_the_query() -> None:
    operation = OPERATIONS["create_events"]
    sent = {"projectId": "shop", "eventType": "order", "nonce": "n1", "data": {"a": 0.1}}
    request = build(operation, project_id="shop", events=[sent, {"nonce": 5}], wait=True)
    wire = to_wire(operation, request)
    assert wire.query == {"projectId": "shop", "wait": "true"}
    assert json.loads(wire.content() or b"") == [sent, {"nonce": 5, "projectId": "shop"}]
    again = from_wire(operation, query=wire.query, body=json.loads(wire.content() or b""))
    assert again.events[0] == request.events[0]
    assert [item.error.field for item in (again.events[1], request.events[1])] == ["/eventType"] * 2


def test_rates_are_an_array_under_a_path() -> None:
    operation = OPERATIONS["set_rates"]
    rate = {"currency": "NOK", "date": "2025-01-01", "rate": 0.085}
    wire = to_wire(operation, build(operation, project_id="shop", rates=[rate]))
    assert (wire.path, wire.query) == ("/projects/shop/rates", {})
    assert wire.body == ({**rate, "date": "2025-01-01T00:00:00.000Z"},)


def test_a_deletion_has_no_body() -> None:
    operation = OPERATIONS["delete_outlay"]
    request = build(operation, project_id="shop", vendor_id="ads", campaign_id="c", outlay_id="o")
    wire = to_wire(operation, request)
    assert (wire.path, wire.content()) == ("/projects/shop/custom-ads/ads/campaigns/c/outlays/o", None)
    assert not operation.has_body
