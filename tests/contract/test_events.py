"""Requests about events and event types."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from attrib_ds.contract import OPERATIONS, Request, to_wire
from attrib_ds.filters import event

Ask = Callable[..., Request]
Refusal = Callable[..., str]

EVENT = {"projectId": "shop", "eventType": "order", "nonce": "n1", "data": {"email": "ada@example.org"}}
CREATIONS = ["create_event", "create_event_sync"]


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_an_envelope_needs_four_parts(receive, bad_request):
    for name in CREATIONS:
        request = receive(name, body=EVENT)
        assert (request.eventDate, request.trackerId) == (None, None), name
        for missing in EVENT:
            rest = {key: value for key, value in EVENT.items() if key != missing}
            assert bad_request(name, body=rest) == f"/{missing}: is required", name


@pytest.mark.parametrize(
    ("changed", "label"),
    [
        ({"projectId": "Shop"}, "/projectId"),  # R190
        ({"projectId": 5}, "/projectId"),
        ({"eventType": 5}, "/eventType"),
        ({"nonce": ""}, "/nonce"),
        ({"nonce": "n" * 257}, "/nonce"),
        ({"nonce": 5}, "/nonce"),
        ({"data": []}, "/data"),  # R191
        ({"data": "text"}, "/data"),
        ({"data": None}, "/data"),
        ({"data": 5}, "/data"),
        ({"data": {"a": float("nan")}}, "/data"),  # R204
        ({"data": {"a": "\ud800"}}, "/data"),
        ({"data": {"\ud800": 1}}, "/data"),
        pytest.param({"data": {"a": 10**4_001}}, "/data", id="huge"),
        ({"trackerId": 5}, "/trackerId"),
        ({"eventDate": float("inf")}, "/eventDate"),
    ],
)
@pytest.mark.parametrize("name", CREATIONS)
def test_envelopes_refused(
    bad_request: Refusal, name: str, changed: dict[str, object], label: str
) -> None:  # G-127
    assert bad_request(name, body=EVENT | changed).startswith(f"{label}: ")


def test_what_data_holds_is_not_checked(receive):
    for data in [{}, {"anything": [1, {"b": None}]}, {"a": 1e308}, {"a": 10**300}, {"": ""}, {"_id": "x"}]:
        assert receive("create_event", body=EVENT | {"data": data}).data == data, data


def test_nonces_have_up_to_256_characters(receive: Ask) -> None:  # G-129
    assert receive("create_event", body=EVENT | {"nonce": "é" * 256}).nonce == "é" * 256


def test_an_id_in_the_body_is_ignored(receive: Ask) -> None:  # R021, G-043
    assert receive("create_event", body=EVENT | {"_id": "x", "id": "y"}) == receive(
        "create_event", body=EVENT
    )


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ("2025-01-01T01:00:00+01:00", datetime(2025, 1, 1, tzinfo=UTC)),
        ("2025-01-01", "2025-01-01"),
        ("yesterday", "yesterday"),
        (1735689600, 1735689600),
        ("1970-01-20T00:00:00Z", datetime(1970, 1, 20, tzinfo=UTC)),
        ({"a": 1}, {"a": 1}),
        (None, None),
    ],
)
def test_an_unreadable_date_is_left_to_the_processing(receive: Ask, given: object, held: object) -> None:
    assert receive("create_event", body=EVENT | {"eventDate": given}).eventDate == held


def test_a_date_that_json_cannot_hold_is_refused(refusal: Refusal) -> None:
    message = refusal("create_event", **(EVENT | {"eventDate": date(2025, 1, 1)}))
    assert message.startswith("event_date: ")


def test_data_has_up_to_one_mebibyte(receive: Ask, bad_request: Refusal) -> None:  # G-136
    # {"a":"…"} is eight bytes and the text; é is two bytes.
    largest = {"a": "é" * ((2**20 - 8) // 2)}
    assert receive("create_event", body=EVENT | {"data": largest}).data == largest
    assert bad_request("create_event", body=EVENT | {"data": {"a": largest["a"] + "x"}}) == (
        "/data: has 1,048,577 bytes as JSON; expected at most 1,048,576"
    )


def test_bodies_have_up_to_64_levels(receive: Ask, bad_request: Refusal, refusal: Refusal) -> None:  # G-188
    assert receive("create_event", body=EVENT | {"data": _nested(63)}).data == _nested(63)
    told = "is nested too deeply; expected at most 64 levels"
    assert bad_request("create_event", body=EVENT | {"data": _nested(64)}) == f"body: {told}"
    assert bad_request("create_event", body=EVENT | {"data": _nested(10_000)}) == f"body: {told}"
    assert refusal("create_event", **(EVENT | {"data": _nested(64)})) == f"data: {told}"


INSIGHTS = {
    "since": "2025-01-01T00:00:00Z",
    "until": "2025-01-31T00:00:00Z",
    "metrics": ["event-count", "nonsense"],
    "groupBy": "project",
    "interval": "day",
}


def test_insights_accepted(receive: Ask) -> None:  # R209, R210
    request = receive("event_insights", body=INSIGHTS)
    assert request.metrics == ("event-count", "nonsense")
    assert request.filter is None


def test_insights_need_five_parts(bad_request):
    for missing in INSIGHTS:
        rest = {name: value for name, value in INSIGHTS.items() if name != missing}
        assert bad_request("event_insights", body=rest) == f"/{missing}: is required", missing


def test_groupings_refused(bad_request):
    for refused in ["user", "projects", "event_type", "eventType", "", None, ["project"]]:
        assert bad_request("event_insights", body=INSIGHTS | {"groupBy": refused}).startswith("/groupBy: "), (
            refused
        )


def test_intervals_accepted(receive):
    for accepted in [
        "day",
        "week",
        "month",
        "quarter",
        "semester",
        "year",
        "dayOfWeek",
        "dayOfMonth",
        "dayOfYear",
        "weekOfYear",
        "monthOfYear",
        "quarterOfYear",
        "semesterOfYear",
    ]:
        assert receive("event_insights", body=INSIGHTS | {"interval": accepted}).interval == accepted, (
            accepted
        )


def test_intervals_refused(bad_request):
    for refused in ["hourOfDay", "custom", "hour", "Day", ""]:
        assert bad_request("event_insights", body=INSIGHTS | {"interval": refused}).startswith(
            "/interval: "
        ), refused


def test_metrics_refused(bad_request):
    for refused in ["event-count", {"a": 1}, [5], [None]]:
        assert bad_request("event_insights", body=INSIGHTS | {"metrics": refused}).startswith("/metrics"), (
            refused
        )


@pytest.mark.parametrize(
    ("given", "held"),
    [
        (["order", "lead"], ("order", "lead")),
        ({"eventTypes": ["order"]}, ("order",)),
        (
            {"type": "predicate", "field": "eventType", "operator": "equals", "value": "order"},
            event("eventType") == "order",
        ),
        (event("eventType").isin(["order"]), event("eventType").isin(["order"])),
    ],
)
def test_event_types_accepted(ask: Ask, given: object, held: object) -> None:  # G-118
    assert ask("event_insights", event_type=given, **INSIGHTS).filter == held


def test_event_types_refused(refusal):
    for refused in [
        "order",
        5,
        [5],
        {"eventTypes": "order"},
        {"types": ["order"]},
        {"type": "predicate", "field": "userId", "operator": "equals", "value": "x"},
        event("userId") == "x",
        (event("eventType") == "order") | (event("eventType") == "lead"),
        {"type": "condition", "condition": "AND", "rules": []},
    ]:
        assert refusal("event_insights", event_type=refused, **INSIGHTS).startswith("event_type"), refused


def test_an_update_may_be_dated(ask: Ask) -> None:  # R221
    dated = ask("update_event_state", value=1, date="2025-01-01T00:00:00Z")
    assert dated.date == datetime(2025, 1, 1, tzinfo=UTC)
    assert ask("update_event_statistic", value=12.5).date is None


def test_an_update_with_a_wrong_date_is_refused(refusal):
    for name in ["update_event_state", "update_event_statistic"]:
        assert refusal(name, value=1, date="2025-01-01").startswith("date: "), name


def test_g137_a_batch_holds_what_is_an_event_and_why_the_rest_is_none(receive: Ask) -> None:
    deep = {**EVENT, "data": _nested(70)}
    request = receive(
        "create_events", body=[EVENT, {**EVENT, "nonce": 1}, deep, None], query={"wait": "true"}
    )
    first, second, third, fourth = request.events
    assert first == receive("create_event", body=EVENT)
    assert (second.given["nonce"], second.error.field) == (1, "/nonce")
    assert third.error.message.startswith("/data: is nested too deeply")
    assert fourth.error.message == "event: None is not allowed; expected an object"
    assert request.wait is True
    assert request.project_ids == ["shop"]


def test_g137_a_project_is_given_to_those_that_name_none(receive: Ask) -> None:
    nameless = {name: value for name, value in EVENT.items() if name != "projectId"}
    body = [nameless, {**EVENT, "projectId": "other"}, {**nameless, "projectId": None}]
    request = receive("create_events", body=body, query={"projectId": "shop"})
    assert [item.projectId for item in request.events] == ["shop", "other", "shop"]
    assert request.project_ids == ["shop", "other"]
    part = request.of_project("other")
    assert ([item.projectId for item in part.events], part.projectId) == (["other"], "other")


EMAIL = {
    "type": "email",
    "entity": "user",
    "storageKey": "email",
    "ingestionKey": "mail",
    "discriminant": True,
    "isPii": True,
    "isMostProbableLocation": False,
    "optional": False,
}
ORDER = {"reference": "order", "name": "Order", "fields": [EMAIL], "metadata": {}}


def _with_field(**members: Any) -> dict[str, Any]:
    return ORDER | {"fields": [EMAIL | members]}


def test_requests_of_event_types_accepted(receive: Ask) -> None:
    request = receive("create_event_type", body=ORDER)
    assert request.fields[0].model_dump() == EMAIL


@pytest.mark.parametrize(
    ("given", "held"),
    [({"ingestionKey": "mail"}, "mail"), ({"ingestionKey": None}, None), ({}, "email")],
)
def test_a_field_is_read_from_its_storage_key_unless_told(
    receive: Ask, given: dict[str, Any], held: str | None
) -> None:  # R094, G-156
    field = {"type": "email", "entity": "user", "storageKey": "email"} | given
    assert receive("create_event_type", body=ORDER | {"fields": [field]}).fields[0].ingestionKey == held


def test_flags_of_a_field_are_false_unless_told(receive: Ask) -> None:
    field = {"type": "state", "entity": "event", "storageKey": "converted"}
    held = receive("create_event_type", body=ORDER | {"fields": [field]}).fields[0]
    assert (held.discriminant, held.isPii, held.isMostProbableLocation, held.optional) == (False,) * 4


def test_types_of_event_fields(receive):
    for accepted in ["string", "message", "phone", "location", "number", "state", "currency"]:
        body = _with_field(type=accepted, entity="event")
        assert receive("create_event_type", body=body).fields[0].type == accepted, accepted


def test_requests_of_event_types_refused(bad_request):
    for body, label in [
        (_with_field(entity="session"), "/fields/0/entity"),  # R092
        (_with_field(entity="User"), "/fields/0/entity"),
        (_with_field(entity=""), "/fields/0/entity"),
        (_with_field(entity=1), "/fields/0/entity"),
        (_with_field(entity=None), "/fields/0/entity"),
        (_with_field(type="text"), "/fields/0/type"),
        (_with_field(type="state"), "/fields/0/type"),
        (_with_field(type="currency"), "/fields/0/type"),
        (_with_field(storageKey="1st"), "/fields/0/storageKey"),
        (_with_field(storageKey="e mail"), "/fields/0/storageKey"),
        (_with_field(storageKey="a" * 65), "/fields/0/storageKey"),
        (_with_field(storageKey="event-count"), "/fields/0/storageKey"),  # G-155
        (_with_field(storageKey="state-delay-paid"), "/fields/0/storageKey"),
        (_with_field(discriminant="yes"), "/fields/0/discriminant"),
        (_with_field(ingestionKey=5), "/fields/0/ingestionKey"),
        (ORDER | {"fields": [EMAIL, EMAIL]}, "/fields/1/storageKey"),
        (ORDER | {"fields": [5]}, "/fields/0"),
        (ORDER | {"fields": {"email": "email"}}, "/fields"),
        (ORDER | {"name": " "}, "/name"),
        (ORDER | {"metadata": []}, "/metadata"),
        (
            ORDER | {"phoneParsingConfig": [{"order": 1, "countryCode": "fr"}]},
            "/phoneParsingConfig/0/countryCode",
        ),
        (ORDER | {"phoneParsingConfig": [{"countryCode": "FR"}]}, "/phoneParsingConfig/0/order"),
    ]:
        assert bad_request("create_event_type", body=body).startswith(f"{label}: "), (body, label)


def test_a_repeated_key_is_told(refusal: Refusal) -> None:
    message = refusal("create_event_type", **(ORDER | {"fields": [EMAIL, EMAIL]}))
    assert message == "fields/1/storageKey: 'email' is used twice; expected a different key for each field"


def test_sorts_are_read_from_text(receive):
    for written, held in [
        ("-createdAt,name", {"createdAt": -1, "name": 1}),
        ("reference", {"reference": 1}),
        ("", {}),
    ]:
        order = receive("list_event_types", query={"sort": written}).sort
        assert list(order.items()) == list(held.items()), (written, held)


def test_sorts_refused(bad_request):
    for refused in ["colour", "-", "name,", "createdAt:desc", "+name", "fields", "name, name"]:
        assert bad_request("list_event_types", query={"sort": refused}).startswith("sort: "), refused


def test_sorts_are_written_as_text(ask: Ask) -> None:
    request = ask("list_event_types", sort={"createdAt": -1, "name": 1}, archived=True)
    assert to_wire(OPERATIONS["list_event_types"], request).query == {
        "archived": "true",
        "sort": "-createdAt,name",
    }
