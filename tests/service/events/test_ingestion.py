"""Accepting and processing of events (R004 to R008, R020 to R022, R045 to R077, R113 to R117, R189 to R207)."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from support.order_events import declare_order, declared, order
from support.service_records import order as loaded_order
from support.service_records import send, table, utc

from attrib_ds import instants
from attrib_ds.errors import Conflict, InvalidRequest, NotFound, NotSupported
from attrib_ds.service import Service


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    declare_order(opened)
    yield opened
    opened.close()


def accept(service, nonce, **envelope):
    return send(service, "create_event", **order(nonce, **envelope)).value


def process(service, nonce, **envelope):
    return send(service, "create_event_sync", **order(nonce, **envelope)).value


def get(service, id, operation="get_event"):
    (event,) = send(service, operation, id=id).read().to_pylist()
    for name in {"event", "user", "metrics", "data"} & set(event):
        event[name] = json.loads(event[name])
    return event


def trashed(service):
    rows = send(service, "list_trashed_events").read().to_pylist()
    return [{**row, "errors": json.loads(row["errors"])} for row in rows]


def metrics(event):
    return {metric["key"]: metric["data"]["current"] for metric in event["metrics"]}


def count(service, relation):
    with service._store.cursor() as cursor:
        return cursor.execute(f"SELECT count(*) FROM {relation}").fetchone()[0]


def drain(service):
    """Wait until the tables have all events."""
    service._ingestion.settle()


# -- one event --------------------------------------------------------------------------------------


def test_r008_r051_to_r063_r117_a_computed_event(service):
    data = {
        "mail": " Anna@Example.COM ",
        "phone": "06 12 34 56 78",
        "coupon": " SPRING ",
        "turnover": 90.5,
        "items": "3",
        "confirmed": 1,
        "unheard": [1],
    }
    id = process(service, "n1", data=data)
    event = get(service, id)
    assert UUID(id).version == 7
    assert (event["_id"], event["projectId"], event["eventType"]) == (id, "shop", "order")
    assert event["eventDate"] == utc(2025, 1, 31, 12)
    assert len(event["userId"]) == 24
    assert event["attributable"] is False
    date = "2025-01-31T12:00:00.000Z"
    flags = {"anonymized": False, "invalid": False}
    assert event["user"] == {
        "email": {
            "raw": " Anna@Example.COM ",
            "current": "Anna@example.com",
            "type": "email",
            "date": date,
            **flags,
        },
        "phone": {"raw": "06 12 34 56 78", "current": "+33612345678", "type": "phone", "date": date, **flags},
    }
    assert event["event"] == {
        "coupon": {"raw": " SPRING ", "current": "SPRING", "type": "string", "date": date, **flags}
    }
    assert metrics(event) == {
        "confirmed": 1,
        "event-count": 1,
        "items": 3,
        "state-delay-confirmed": 0,
        "turnover": {"amount": 90.5, "currency": "EUR"},
    }
    kinds = {metric["key"]: (metric["type"], metric["data"]["type"]) for metric in event["metrics"]}
    assert kinds["confirmed"] == ("state", "state")
    assert kinds["turnover"] == ("statistic", "currency")
    assert kinds["state-delay-confirmed"] == ("statistic", "number")
    for record in event["metrics"]:
        assert (record["eventId"], record["projectId"], record["deletedAt"]) == (id, "shop", None)
        assert record["data"]["date"] == date
        assert record["data"]["raw"] == ("3" if record["key"] == "items" else record["data"]["current"])
        assert type(record["data"]["current"]) is not bool


def test_r045_to_r048_the_raw_event_is_stored_as_sent(service):
    data = {"mail": " Anna@Example.COM ", "unheard": [1, None, {"a": 1.0}], "phone": "06 12 34 56 78"}
    raw = get(service, process(service, "n1", data=data, tracker_id="t1"), "get_raw_event")
    assert raw.pop("createdAt") > utc(2025, 1, 1)
    assert UUID(raw.pop("_id"))
    assert raw == {"projectId": "shop", "nonce": "n1", "eventType": "order", "trackerId": "t1", "data": data}


def test_r094_values_are_read_from_the_ingestion_key_and_null_is_never_read(service):
    event = get(service, process(service, "n1", data={"email": "other@example.com", "returned": 1}))
    assert event["user"]["email"]["current"] == "anna@example.com"
    assert "returned" not in metrics(event)


def test_g134_without_a_date_it_is_the_moment_of_reception(service):
    before = instants.now()
    event = get(service, process(service, "n1", event_date=None))
    assert before <= event["eventDate"] == event["createdAt"] <= datetime.now(UTC)


def test_loaded_events_are_read_too(service):
    visit = {"userId": "a" * 24, "nodeId": "ads", "startDate": "2025-01-30T12:00:00Z"}
    send(service, "load_records", resource="interactions", source=table(visit))
    rows = table(loaded_order(1, userId="a" * 24, **{"states.won": 1, "event.coupon": "SPRING"}))
    send(service, "load_records", resource="events", source=rows)
    event = get(service, loaded_order(1)["_id"])
    assert metrics(event) == {"event-count": 1, "state-delay-won": 0, "won": 1}
    assert event["event"]["coupon"]["current"] == "SPRING"
    assert event["attributable"] is True
    with pytest.raises(NotFound, match="there is no raw event"):
        get(service, loaded_order(1)["_id"], "get_raw_event")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("visit", "attributable"),
    [
        ({}, True),
        ({"startDate": "2025-01-31T12:00:00Z"}, True),
        ({"startDate": "2025-01-31T12:00:01Z"}, False),
        ({"startDate": "2025-01-01T12:00:00Z"}, False),
        ({"startDate": "2025-01-01T12:00:01Z"}, True),
        ({"isBot": True}, False),
        ({"trafficFilterId": "office"}, False),
        ({"userId": "b" * 24}, False),
    ],
)
def test_g064_attributable_means_an_eligible_interaction_within_thirty_days(service, visit, attributable):
    id = process(service, "n1")
    user = get(service, id)["userId"]
    usual = {"userId": user, "nodeId": "ads", "startDate": "2025-01-30T12:00:00Z"}
    send(service, "load_records", resource="interactions", source=table({**usual, **visit}))
    assert get(service, id)["attributable"] is attributable


# -- users ------------------------------------------------------------------------------------------


def user_of(service, nonce, **envelope):
    return get(service, process(service, nonce, **envelope))["userId"]


def test_g145_identities_are_tried_in_order_and_learnt(service):
    anna = user_of(service, "n1", data={"phone": "06 12 34 56 78", "vendorUserId": "v1"}, tracker_id="t1")
    new = {"mail": "anna@work.example"}
    assert user_of(service, "n2", data={**new, "phone": "+33612345678"}) == anna
    assert user_of(service, "n3", data=new) == anna
    assert user_of(service, "n4", data={"mail": "anna@home.example", "vendorUserId": "v1"}) == anna


def test_g147_an_identity_stays_with_its_user(service):
    anna = user_of(service, "n1", data={"vendorUserId": "a"})
    ben = user_of(service, "n2", data={"mail": "ben@example.com", "vendorUserId": "b"})
    assert user_of(service, "n3", data={"vendorUserId": "b"}) == anna
    assert user_of(service, "n4", data={"mail": "new@example.com", "vendorUserId": "b"}) == ben


def test_g147_a_browser_belongs_to_its_last_user(service):
    fields = [{"type": "email", "entity": "user", "storageKey": "email", "optional": True}]
    send(service, "create_event_type", reference="view", name="View", fields=fields)

    def viewer(nonce, **data):
        view = {"event_type": "view", "nonce": nonce, "tracker_id": "t1", "data": data}
        return get(service, send(service, "create_event_sync", **view).value)["userId"]

    anonymous = viewer("n1")
    assert viewer("n2") == anonymous
    assert viewer("n3", email="anna@example.com") == anonymous
    ben = viewer("n4", email="ben@example.com")
    assert ben != anonymous
    assert viewer("n5") == ben
    assert viewer("n6", email="anna@example.com") == anonymous
    assert viewer("n7") == anonymous


# -- trash ------------------------------------------------------------------------------------------


def test_r068_to_r076_an_invalid_event_is_trashed_with_every_error(service):
    data = {"mail": None, "items": "three", "turnover": {"amount": 1}, "confirmed": 1}
    id = accept(service, "n1", data=data)
    drain(service)
    (event,) = trashed(service)
    assert event["_id"] == id
    assert event["projectId"] == "shop"
    assert event["eventTypeRef"] == "order"
    assert len(event["eventTypeId"]) == 24
    assert event["rawEventDate"] == utc(2025, 1, 31, 12)
    missing, *invalid = event["errors"]
    assert missing == {
        "type": "missing-field",
        "field": {
            "type": "email",
            "entity": "user",
            "storageKey": "email",
            "ingestionKey": "mail",
            "discriminant": True,
            "isPii": False,
            "isMostProbableLocation": False,
            "optional": False,
        },
        "value": None,
    }
    assert [(record["type"], record["field"]["storageKey"], record["value"]) for record in invalid] == [
        ("invalid-field", "turnover", {"amount": 1}),
        ("invalid-field", "items", "three"),
    ]
    with pytest.raises(NotFound):
        get(service, id)
    assert get(service, id, "get_raw_event")["data"] == data
    for empty in ("events", "metrics", "identities", "pending_events"):
        assert count(service, empty) == 0


@pytest.mark.parametrize("mail", [None, "", "  "])
def test_g054_blank_is_missing(service, mail):
    with pytest.raises(InvalidRequest, match="data/mail: missing; the event type requires it"):
        process(service, "n1", data={"mail": mail})


@pytest.mark.slow
def test_g056_errors_that_concern_no_field(service):
    send(service, "archive_event_type", id="order")
    send(service, "create_event_type", reference="lead", name="Lead")
    late = (datetime.now(UTC) + timedelta(hours=25)).isoformat()
    sent = {
        "unknown-event-type": {"event_type": "nothing"},
        "archived-event-type": {"event_type": "order"},
        "invalid-event-date": {"event_type": "lead", "event_date": "2025-01-31"},
    }
    for kind, envelope in sent.items():
        id = accept(service, kind, **envelope)
        drain(service)
        event = trashed(service)[0]
        assert event["_id"] == id
        (error,) = event["errors"]
        assert (error["type"], error["field"]) == (kind, None)
        assert (event["eventTypeId"] is None) == (kind == "unknown-event-type")
    for number, date in enumerate(("1989-12-31T23:59:59Z", late, 1738324800, {"a": 1})):
        with pytest.raises(InvalidRequest, match="eventDate: .* is not allowed"):
            process(service, f"d{number}", event_type="lead", event_date=date)
    soon = (datetime.now(UTC) + timedelta(hours=23)).isoformat()
    assert get(service, process(service, "soon", event_type="lead", event_date=soon))


def test_g132_a_synchronous_invalid_event_is_refused_the_same_way_each_time(service):
    refusals = []
    for _ in range(2):
        with pytest.raises(InvalidRequest) as refusal:
            process(service, "n1", data={"items": 1.5, "turnover": [0.1], "phone": "1"})
        refusals.append(refusal.value)
    first, second = refusals
    (event,) = trashed(service)
    assert str(first) == str(second)
    assert first.details == second.details
    assert str(first).startswith("data/phone: '1' is not of the type 'phone' (and 1 more)")
    assert [detail["type"] for detail in first.details] == ["invalid-field"] * 2
    assert {record["eventId"] for record in first.details} == {event["_id"]}
    assert first.status == 400


# -- nonces -----------------------------------------------------------------------------------------


def test_r195_r199_a_repeat_is_the_first_event_over_both_operations(service):
    first = accept(service, "n1")
    assert process(service, "n1") == first
    assert accept(service, "n1") == first
    second = process(service, "n2")
    assert accept(service, "n2") == second
    assert count(service, "events") == 2
    assert service._ingestion.nonce_conflicts == 0


def test_g131_content_is_compared_as_canonical_json(service):
    first = process(service, "n1", data={"items": 1, "x": {"a": 1.0, "b": [True]}})
    assert process(service, "n1", data={"x": {"b": [True], "a": 1}, "items": 1}) == first
    for other in ({"data": {"items": 2}}, {"event_date": "2025-01-31T12:00:01Z"}, {"tracker_id": "t1"}):
        with pytest.raises(Conflict, match=f"nonce: 'n1' is the nonce of the event '{first}'"):
            process(service, "n1", **other)
        assert accept(service, "n1", **other) == first
    with pytest.raises(Conflict):
        process(service, "n1", data={"items": 1, "x": {"a": 1, "b": [1]}})
    assert service._ingestion.nonce_conflicts == 3
    assert count(service, "raw_events") == 1


def test_r204_strange_data_is_kept(service):
    data = {"items": 10**300, "deep": json.loads("[" * 50 + "]" * 50), "text": "\0😀"}
    id = accept(service, "n1", data=data)
    drain(service)
    assert get(service, id, "get_raw_event")["data"] == {"mail": "anna@example.com", **data}
    # Written with its exponent, which a JSON parser reads as a float.
    assert metrics(get(service, id))["items"] == 1e300


# -- failures ---------------------------------------------------------------------------------------


def test_a_project_that_is_only_read_accepts_nothing(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    reading = Service.open("shop", tmp_path / "shop.duckdb", read_only=True)
    with pytest.raises(NotSupported, match="read_only=True"):
        accept(reading, "n1")
    reading.close()


@pytest.mark.slow
def test_closing_processes_pending_events(tmp_path):
    opened = Service.open("shop", tmp_path / "shop.duckdb")
    declare_order(opened)
    ids = [accept(opened, f"n{i}") for i in range(20)]
    opened.close()
    reading = Service.open("shop", tmp_path / "shop.duckdb", read_only=True)
    assert [get(reading, id)["_id"] for id in ids] == ids
    reading.close()


# -- many at once, validation, replay ------------------------------------------------------------------


def envelope(nonce, **others):
    sent = {"projectId": "shop", "eventType": "order", "nonce": nonce, "data": {"mail": "anna@example.com"}}
    return {**sent, "eventDate": "2025-01-31T12:00:00Z", **others}


def test_g137_one_wrong_envelope_spoils_no_other(service):
    sent = [envelope("n1"), envelope("n2", data=[]), "text", envelope("n3"), envelope("n1"), {}]
    outcomes = send(service, "create_events", events=sent).value
    assert outcomes[0] == outcomes[4]
    assert len({outcomes[0], outcomes[3]}) == 2
    wrong = [outcomes[place] for place in (1, 2, 5)]
    assert all(isinstance(value, InvalidRequest) for value in wrong)
    assert wrong[0].field == "/data"
    assert wrong[1].message == "event: 'text' is not allowed; expected an object"
    assert "/nonce: is required" in wrong[2].message
    drain(service)
    assert count(service, "events") == count(service, "raw_events") == 2


@pytest.mark.slow
def test_g137_with_wait_every_event_has_its_outcome(service):
    first_id = process(service, "n0", data={"items": 1})
    sent = [
        envelope("n1"),
        envelope("n2", data={"mail": "nobody"}),
        envelope("n0", data={"mail": "anna@example.com", "items": 1}),
        envelope("n0", data={"mail": "anna@example.com", "items": 2}),
    ]
    valid, trash, repeat, other = send(service, "create_events", events=sent, wait=True).value
    assert get(service, valid)["eventType"] == "order"
    assert isinstance(trash, InvalidRequest)
    assert trash.details[0]["eventId"] == trashed(service)[0]["_id"]
    assert repeat == first_id
    assert isinstance(other, Conflict)
    assert service._ingestion.nonce_conflicts == 0


def test_g137_at_most_a_thousand(service):
    assert send(service, "create_events", events=[]).value == []
    outcomes = send(
        service, "create_events", events=[envelope(f"n{number}") for number in range(1_000)]
    ).value
    assert len(set(outcomes)) == 1_000
    with pytest.raises(InvalidRequest, match="events: .* expected a list of 0 to 1,000 items"):
        send(service, "create_events", events=[envelope("n")] * 1_001)


def test_g137_envelopes_without_a_project_are_of_the_one_asked_for(service):
    nameless = {name: value for name, value in envelope("n1").items() if name != "projectId"}
    (id,) = send(service, "create_events", events=[nameless]).value
    assert get(service, id, "get_raw_event")["projectId"] == "shop"


def test_g138_validation_tells_the_errors_of_the_trash_and_stores_nothing(service):
    wrong = order("n1", data={"mail": "nobody", "turnover": "much"})
    outcomes = send(service, "validate_event", **wrong).value
    assert [(record["type"], record["field"]["storageKey"], record["value"]) for record in outcomes] == [
        ("invalid-field", "email", "nobody"),
        ("invalid-field", "turnover", "much"),
    ]
    assert send(service, "validate_event", **order("n1")).value == []
    (unknown,) = send(service, "validate_event", **order("n1", event_type="lead")).value
    assert unknown == {"type": "unknown-event-type", "field": None, "value": "lead"}
    assert count(service, "raw_events") == 0
    accept(service, "n1", data=wrong["data"])
    drain(service)
    assert trashed(service)[0]["errors"] == json.loads(json.dumps(outcomes))


def test_g057_a_replayed_event_keeps_its_id_and_dates(service):
    id = accept(service, "n1", event_type="lead", event_date="2024-05-06T07:08:09Z")
    drain(service)
    raw = get(service, id, "get_raw_event")
    send(service, "create_event_type", reference="lead", name="Lead")
    assert send(service, "replay_event", id=id).value == id
    assert trashed(service) == []
    event = get(service, id)
    assert (event["eventDate"], event["createdAt"]) == (utc(2024, 5, 6, 7, 8, 9), raw["createdAt"])
    assert metrics(event) == {"event-count": 1}
    assert get(service, id, "get_raw_event") == raw
    with pytest.raises(NotFound, match="id: there is no trashed event"):
        send(service, "replay_event", id=id)
    assert count(service, "pending_events") == 0


def test_g057_an_invalid_replay_stays_trashed_with_its_new_errors(service):
    id = accept(service, "n1", event_type="lead")
    drain(service)
    send(
        service, "create_event_type", reference="lead", name="Lead", fields=[declared("number", "event", "n")]
    )
    with pytest.raises(InvalidRequest, match="data/n: missing") as caught:
        send(service, "replay_event", id=id)
    assert caught.value.details[0]["eventId"] == id
    (event,) = trashed(service)
    assert (event["_id"], event["errors"][0]["type"]) == (id, "missing-field")
    assert count(service, "events") == 0


def test_g057_only_trashed_events_are_replayed(service):
    id = process(service, "n1")
    for value in (id, "no-such-event"):
        with pytest.raises(NotFound, match="id: there is no trashed event"):
            send(service, "replay_event", id=value)
    assert count(service, "events") == 1


def test_g057_several_replays_of_one_event_make_one_event(service):
    id = accept(service, "n1", event_type="lead")
    drain(service)
    send(service, "create_event_type", reference="lead", name="Lead")

    def replay(_):
        try:
            return send(service, "replay_event", id=id).value
        except NotFound:
            return id

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(replay, range(8))) == {id}
    assert count(service, f"metrics WHERE eventId = '{id}'") == 1
    assert (count(service, "events"), count(service, "trashed_events")) == (1, 0)


# -- lenient projects ------------------------------------------------------------------------------------


def test_g053_an_invalid_optional_field_is_kept_where_the_project_says_so(service):
    data = {"phone": "none", "turnover": "much", "items": 2}
    with pytest.raises(InvalidRequest, match="data/phone"):
        process(service, "n1", data=data)
    send(service, "update_settings", lenient_optional_fields=True)
    event = get(service, process(service, "n2", data=data))
    phone = event["user"]["phone"]
    assert (phone["raw"], phone["current"], phone["invalid"]) == ("none", None, True)
    assert event["user"]["email"]["invalid"] is False
    by_key = {record["key"]: record["data"] for record in event["metrics"]}
    assert (by_key["turnover"]["current"], by_key["turnover"]["invalid"]) == (None, True)
    assert (by_key["items"]["current"], by_key["items"]["invalid"]) == (2, False)
    other = get(service, process(service, "n5", data={"items": "many"}))
    items = next(record["data"] for record in other["metrics"] if record["key"] == "items")
    assert (items["raw"], items["current"], items["invalid"]) == ("many", None, True)
    with pytest.raises(InvalidRequest, match="data/mail"):
        process(service, "n3", data={"mail": "nobody"})
    with pytest.raises(InvalidRequest, match="data/confirmed"):
        process(service, "n4", data={"confirmed": 2})
    sent = {"id": event["_id"], "storage_key": "turnover", "value": 5}
    (metric,) = send(service, "update_event_statistic", **sent).read().to_pylist()
    assert (json.loads(metric["data.current"])["amount"], metric["data.invalid"]) == (5, False)
