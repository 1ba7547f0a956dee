"""Operations: requests built from arguments and from the wire, and orders."""

import json
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pydantic
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.json_values import json_values

from attrib_ds.contract import OPERATIONS, Request, build, from_wire, to_wire, wire_order
from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Predicate, event, interaction, node, user
from attrib_ds.schema import INTERACTION, properties

Ask = Callable[..., Request]
Refusal = Callable[..., str]

SEARCH = OPERATIONS["search_interactions"]
TOKEN = OPERATIONS["exchange_token"]
SECRET = "eyJhbGciOiJSUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def test_arguments_have_either_name() -> None:
    by_argument = build(SEARCH, project_id="shop", columns=["type"], bots=None)
    by_attribute = build(SEARCH, projectId="shop", projection=["type"], isBot=None)
    assert by_argument == by_attribute
    assert by_argument.isBot is None


def test_an_unknown_argument_is_a_mistake_of_the_program() -> None:
    with pytest.raises(TypeError, match="search_interactions: there is no argument 'colums'"):
        build(SEARCH, project_id="shop", colums=["type"])


def test_requests_are_frozen(ask: Ask) -> None:
    request = ask("search_interactions", limit=5)
    with pytest.raises(pydantic.ValidationError):
        request.limit = 6


def test_all_violations_are_in_one_message() -> None:
    with pytest.raises(InvalidRequest) as caught:
        build(SEARCH, project_id="Shop", limit=-1, bots="no", columns=["type", "nonsense"])
    parts = caught.value.message.split("; ")
    assert [part.partition(":")[0] for part in parts if not part.startswith(("allowed", "expected"))] == [
        "project_id",
        "bots",
        "limit",
        "columns/1",
    ]
    assert caught.value.field == "project_id"


def test_details_are_for_machines() -> None:
    with pytest.raises(InvalidRequest) as caught:
        from_wire(SEARCH, path={"projectId": "shop"}, body={"limit": -1, "sort": {"geo": 1}})
    assert [(record["field"], record["attribute"], record["got"]) for record in caught.value.details] == [
        ("/limit", "limit", "-1"),
        ("/sort", "sort", "{'geo': 1}"),
    ]
    assert caught.value.details[0]["problem"] == (
        "-1 is not allowed; expected a whole number, 0 or more (no limit if left out)"
    )


def test_python_names_and_json_names_differ() -> None:
    with pytest.raises(InvalidRequest, match=r"^columns/0: "):
        build(SEARCH, project_id="shop", columns=["nonsense"])
    with pytest.raises(InvalidRequest, match=r"^/projection/0: "):
        from_wire(SEARCH, path={"projectId": "shop"}, body={"projection": ["nonsense"]})
    with pytest.raises(InvalidRequest, match=r"^projectId: "):
        from_wire(SEARCH, path={"projectId": "Shop"}, body={})


@pytest.mark.parametrize("assertion", [SECRET.encode(), [SECRET], {"jwt": SECRET}, SECRET + "\ud800"])
def test_an_assertion_is_in_no_message(assertion: object) -> None:
    for call in (
        lambda: build(TOKEN, grant_type="password", client_id=5, assertion=assertion),
        lambda: from_wire(TOKEN, body={"grant_type": "password", "client_id": 5, "assertion": assertion}),
    ):
        with pytest.raises(InvalidRequest) as caught:
            call()
        told = "".join(traceback.format_exception(caught.value)) + repr(caught.value.details)
        assert "assertion: the value is not allowed" in told
        assert "c2VjcmV0" not in told
        assert caught.value.__cause__ is None


def test_an_assertion_is_in_no_repr() -> None:
    request = build(TOKEN, grant_type=JWT_BEARER, client_id="c", assertion=SECRET)
    assert request.assertion == SECRET
    assert "c2VjcmV0" not in repr(request) + str(request)


def test_a_body_that_is_no_object_does_not_show_itself() -> None:
    with pytest.raises(InvalidRequest) as caught:
        from_wire(TOKEN, body=f"assertion={SECRET}")
    assert caught.value.message == "body: str is not allowed; expected an object"


@pytest.mark.parametrize("missing", ["grant_type", "client_id", "assertion"])
def test_a_token_needs_three_parts(missing: str) -> None:  # R308
    body = {"grant_type": JWT_BEARER, "client_id": "c", "assertion": SECRET}
    del body[missing]
    with pytest.raises(InvalidRequest, match=f"^/{missing}: is required$"):
        from_wire(TOKEN, body=body)


@pytest.mark.parametrize("body", [[], "text", 5, True])
def test_a_body_is_an_object(body: object) -> None:  # R321
    with pytest.raises(InvalidRequest, match=r"^body: .* is not allowed; expected an object$"):
        from_wire(SEARCH, path={"projectId": "shop"}, body=body)


@pytest.mark.parametrize("body", [{}, "text", 5, True])
def test_a_body_is_an_array_where_that_is_taken(body: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^body: .* is not allowed; expected an array$"):
        from_wire(OPERATIONS["set_rates"], path={"projectId": "shop"}, body=body)


def test_items_of_an_array_are_named_by_their_place() -> None:
    with pytest.raises(InvalidRequest, match="^/0/rate: is required; /1: 5 is not allowed"):
        from_wire(
            OPERATIONS["set_rates"],
            path={"projectId": "shop"},
            body=[{"currency": "NOK", "date": "2025-01-01"}, 5],
        )
    with pytest.raises(InvalidRequest, match="^body: is required$"):
        from_wire(OPERATIONS["set_rates"], path={"projectId": "shop"})


def test_unknown_properties_are_ignored() -> None:  # G-043
    path = {"projectId": "shop"}
    assert from_wire(SEARCH, path=path, body={"colour": 1}) == from_wire(SEARCH, path=path, body={})
    listing = OPERATIONS["list_nodes"]
    assert from_wire(listing, path=path, query={"colour": "1"}) == from_wire(listing, path=path)


def test_each_attribute_is_read_from_its_own_place() -> None:
    body = {"projectId": "other", "limit": 5}
    request = from_wire(SEARCH, path={"projectId": "shop"}, query={"offset": "3"}, body=body)
    assert (request.projectId, request.limit, request.offset) == ("shop", 5, 0)


def test_null_is_not_given_except_where_it_is_a_value() -> None:  # R153
    path = {"projectId": "shop"}
    nulls = from_wire(SEARCH, path=path, body={"offset": None, "limit": None, "sort": None, "isBot": None})
    assert (nulls.offset, nulls.limit, nulls.sort, nulls.isBot) == (0, None, None, None)


def test_messages_stay_short_and_on_one_line(refusal):
    for argument in ["since", "where", "columns", "sort", "limit", "bots", "filtered"]:
        for value in [
            pd.DataFrame({"a": [1, 2]}),
            np.arange(100_000),
            "x" * 10_000_000,
            list(range(100_000)),
            {"a": "x" * 1_000_000},
            10**5_000,
            object(),
            build,
        ]:
            message = refusal("search_interactions", **{argument: value})
            assert message.startswith(argument), (value, argument)
            assert len(message) < 50_000, (value, argument)
            assert "\n" not in message, (value, argument)


def test_a_long_list_of_violations_is_cut() -> None:
    with pytest.raises(InvalidRequest) as caught:
        build(SEARCH, project_id="shop", columns=["nonsense"] * 100)
    assert caught.value.message.endswith("; and 80 more")
    assert len(caught.value.details) == 20


def test_a_list_is_bounded(refusal: Refusal) -> None:
    message = refusal("search_interactions", columns=[5] * 1_000_000)
    assert message == "columns: [5, 5, 5, 5, 5, 5, ...] is not allowed; expected a list of 1 to 10,000 items"


def test_a_pointer_is_escaped() -> None:
    operation = OPERATIONS["create_event_type"]
    body = {"reference": "order", "name": "Order", "fields": [{"type": "a/b"}]}
    with pytest.raises(InvalidRequest, match="^/fields/0/type: 'a/b' is not allowed"):
        from_wire(operation, path={"projectId": "shop"}, body=body)


@pytest.mark.slow
def test_the_contract_imports_no_engine() -> None:
    script = (
        "import sys, attrib_ds.contract, attrib_ds.contract.openapi; "
        "print(sorted({'ibis', 'duckdb', 'pandas', 'matplotlib', 'requests'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=20, deadline=2_000)
@given(data=st.data())
def test_any_body_is_read_or_refused(name: str, data: st.DataObject) -> None:
    operation = OPERATIONS[name]
    attributes = sorted(operation.request.model_fields)
    values = json_values(attributes)
    members = st.fixed_dictionaries({}, optional=dict.fromkeys(attributes, values))
    texts = st.dictionaries(st.sampled_from(attributes), st.text(max_size=20), max_size=4)
    path = dict.fromkeys(re.findall(r"{(\w+)}", operation.path), "5f0c0ffee0ddba11ad0be123")
    with suppress(InvalidRequest):
        from_wire(operation, path=path, query=data.draw(texts), body=data.draw(members | values))


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


def test_other_requests_come_back_equal():
    for name, arguments in [
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
    ]:
        request = build(OPERATIONS[name], project_id="shop", **arguments)
        assert _sent_and_read(request, name) == request, (name, arguments)


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


def test_what_is_not_given_is_left_out():
    for arguments, body in [
        ({}, {}),
        ({"limit": None, "since": None}, {}),
        ({"bots": None}, {"isBot": None}),
        ({"bots": False, "offset": 0}, {"isBot": False, "offset": 0}),
    ]:
        operation = OPERATIONS["search_interactions"]
        assert to_wire(operation, build(operation, project_id="shop", **arguments)).body == body, (
            arguments,
            body,
        )


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


def test_names_become_directions():
    for sort, attributes in [
        (None, {"sort": None}),
        ([], {"sort": None}),
        ("startDate", {"sort": {"startDate": 1}}),
        ("-startDate", {"sort": {"startDate": -1}}),
        (["geo.city", "-startDate", "_id"], {"sort": {"geo.city": 1, "startDate": -1, "_id": 1}}),
        (("-_id",), {"sort": {"_id": -1}}),
    ]:
        translated = wire_order(OPERATIONS["search_interactions"], sort)
        assert translated == attributes, (sort, attributes)
        # The first name counts most.
        assert list(translated["sort"] or {}) == list(attributes["sort"] or {}), (sort, attributes)


def test_one_name_becomes_a_name_and_an_order():
    for sort, attributes in [
        (None, {"sort": None}),
        ("amount", {"sort": "amount", "order": "ASC"}),
        ("-amount", {"sort": "amount", "order": "DESC"}),
        (["-amount"], {"sort": "amount", "order": "DESC"}),
    ]:
        assert wire_order(OPERATIONS["list_outlays"], sort) == attributes, (sort, attributes)


@pytest.mark.parametrize(
    ("operation", "sort", "message"),
    [
        (
            "search_interactions",
            {"startDate": -1},
            "sort: {'startDate': -1} is not allowed; allowed: a column name or a list of names, with '-' in front "
            "for descending",
        ),
        (
            "search_interactions",
            [("startDate", -1)],
            "sort: [('startDate', -1)] is not allowed; allowed: a column name or a list of names, with '-' in "
            "front for descending",
        ),
        (
            "search_interactions",
            ["_id", "-_id"],
            "sort: ['_id', '-_id'] is not allowed; allowed: each column once",
        ),
        (
            "search_users",
            ["_id", "eventCount"],
            "sort: ['_id', 'eventCount'] is not allowed; allowed: one column name, with '-' in front for "
            "descending",
        ),
    ],
)
def test_other_forms_are_refused(operation, sort, message):
    with pytest.raises(InvalidRequest) as caught:
        wire_order(OPERATIONS[operation], sort)
    assert (caught.value.message, caught.value.field) == (message, "sort")
