"""Raw and computed events (R045 to R057, R205, R233)."""

from datetime import datetime
from uuid import UUID

import pytest
from conformance.shop import (
    NOON,
    ORDER,
    computed,
    declared,
    email,
    event,
    hex_id,
    send_event,
    table,
    trash,
    uuid,
)

DATA = {
    "mail": "  Anna.Karenina@EXAMPLE.com ",
    "phone": "06 12 34 56 78",
    "coupon": "e\u0301té  ",
    "items": "07.50",
    "turnover": 12.50,
    "unknown": {"Nested": [1, None, True, "1", {"z": 0, "a": 1}]},
    "firstName": None,
    "": " ",
}


@pytest.fixture(scope="module")
def records():
    events = [
        {"_id": uuid(1), "userId": hex_id(1), "eventDate": NOON, "eventType": "order"},
        {
            "_id": uuid(2),
            "userId": hex_id(1),
            "eventDate": NOON,
            "eventType": "order",
            "expirationPolicy.expiresAt": "2026-01-31T12:00:00Z",
            "expirationPolicy.retentionDurationInDays": 365,
            "expirationPolicy.piiFields": ["email"],
            "expirationPolicy.anonimizedAt": "2026-02-01T00:00:00Z",
        },
    ]
    return {"events": table(*events)}


def raw(project, id):
    return project.send("get_raw_event", {"id": id}).ok()


def test_r045_the_data_are_as_sent(service):
    body = event(service)
    body["data"] = DATA
    kept = raw(service, service.send("create_event_sync", body=body).ok())["data"]
    assert kept == DATA
    # True and 1 are equal in Python, and no JSON value is.
    assert [type(entry) for entry in kept["unknown"]["Nested"]] == [int, type(None), bool, str, dict]
    assert list(kept) == list(DATA)


def test_r045_also_when_the_event_is_trashed(service):
    body = event(service)
    body["data"] = {"mail": "  no email ", "turnover": "12,5"}
    id = service.send("create_event", body=body).ok()
    assert raw(service, id)["data"] == body["data"]


def test_r046_unknown_keys_stay_in_the_raw_event(service):
    id = send_event(service, data={"colour": "red", "deep": {"er": []}})
    kept = raw(service, id)["data"]
    assert (kept["colour"], kept["deep"]) == ("red", {"er": []})
    shown = computed(service, id)
    assert "colour" not in {**shown["event"], **shown["user"]}


def test_r047_a_raw_event_has_no_computed_values(service):
    body = event(service, trackerId="t-1", nonce="raw-1")
    id = service.send("create_event_sync", body=body).ok()
    record = raw(service, id)
    assert set(record) == {"_id", "projectId", "nonce", "eventType", "trackerId", "createdAt", "data"}
    sent = {name: body[name] for name in ("projectId", "nonce", "eventType", "trackerId", "data")}
    assert {name: record[name] for name in sent} == sent
    assert record["_id"] == id


def test_r048_the_event_type_is_its_reference(service):
    id = send_event(service)
    kind = service.send("get_event_type", {"id": "order"}).ok()
    assert raw(service, id)["eventType"] == computed(service, id)["eventType"] == "order" != kind["_id"]


def test_r049_updates_do_not_change_the_raw_event(service):
    id = send_event(service, data={"turnover": 5})
    before = raw(service, id)
    for operation, key, value in [("state", "confirmed", 1), ("statistic", "turnover", 99)]:
        place = {"id": id, "storageKey": key}
        service.send(f"update_event_{operation}", place, body={"value": value}).ok()
    assert raw(service, id) == before


def test_r049_changes_of_the_event_type_leave_the_raw_event(fresh):
    id = send_event(fresh, data={"size": 42})
    before = raw(fresh, id)
    more = {"fields": [declared("number", "event", "size", optional=True)]}
    changed = fresh.send("update_event_type", {"id": "order"}, body=more).ok()
    assert len(changed["fields"]) == len(ORDER["fields"]) + 1
    assert fresh.send("archive_event_type", {"id": "order"}).ok()["archivedAt"]
    assert raw(fresh, id) == before


def test_r050_an_expiration_policy_is_null_or_an_object(service):
    assert computed(service, uuid(1))["expirationPolicy"] is None
    assert computed(service, send_event(service))["expirationPolicy"] is None
    assert computed(service, uuid(2))["expirationPolicy"] == {
        "expiresAt": "2026-01-31T12:00:00.000Z",
        "retentionDurationInDays": 365,
        "piiFields": ["email"],
        "anonimizedAt": "2026-02-01T00:00:00.000Z",
    }


def test_r051_a_user_is_a_map_of_field_values(service):
    id = send_event(service, "anna@example.com", data={"firstName": "Anna"})
    user = computed(service, id)["user"]
    assert user == {
        "email": {
            "raw": "anna@example.com",
            "current": "anna@example.com",
            "type": "email",
            "date": "2025-01-31T12:00:00.000Z",
            "anonymized": False,
            "invalid": False,
        },
        "firstName": {
            "raw": "Anna",
            "current": "Anna",
            "type": "string",
            "date": "2025-01-31T12:00:00.000Z",
            "anonymized": False,
            "invalid": False,
        },
    }


def test_r052_raw_is_as_sent_and_current_is_normalised(service):
    data = {"phone": "06 12 34 56 78", "firstName": "  Anna "}
    user = computed(service, send_event(service, " Anna@EXAMPLE.com ", data=data))["user"]
    assert {key: (entry["raw"], entry["current"]) for key, entry in user.items()} == {
        "email": (" Anna@EXAMPLE.com ", "Anna@example.com"),
        "phone": ("06 12 34 56 78", "+33612345678"),
        "firstName": ("  Anna ", "Anna"),
    }


def address(project):
    sent = {"address": "1 Main Street, Oslo", "longitude": 10.75, "latitude": 59.91, "countryCode": "NO"}
    return computed(project, send_event(project, email(), data={"address": sent}))["user"]["address"]


def test_r053_a_location_has_its_members(service):
    place = address(service)
    assert place["type"] == "location"
    assert set(place["current"]) == {
        "formattedAddress",
        "location",
        "extra",
        "administrativeLevels",
        "city",
        "zipcode",
        "streetName",
        "streetNumber",
        "country",
        "countryCode",
    }
    assert place["current"]["formattedAddress"] == "1 Main Street, Oslo"
    assert place["current"]["countryCode"] == "NO"
    assert type(place["current"]["administrativeLevels"]) is dict


def test_r054_longitude_comes_first(service):
    assert address(service)["current"]["location"] == {"type": "Point", "coordinates": [10.75, 59.91]}


def test_r055_metrics_are_an_array(service):
    shown = computed(service, send_event(service, data={"turnover": 5}))["metrics"]
    assert isinstance(shown, list)
    assert {entry["key"] for entry in shown} == {"event-count", "turnover"}


def test_r056_attributable_is_true_or_false(service):
    for id in (uuid(1), send_event(service)):
        assert type(computed(service, id)["attributable"]) is bool


def test_r057_an_event_has_its_ids_type_and_dates(service):
    id = send_event(service)
    record = computed(service, id)
    assert set(record) == {
        "_id",
        "projectId",
        "userId",
        "eventDate",
        "eventType",
        "attributable",
        "expirationPolicy",
        "event",
        "user",
        "metrics",
        "createdAt",
        "updatedAt",
    }
    assert (record["_id"], record["projectId"], record["eventType"]) == (str(UUID(id)), service.id, "order")
    for name in ("eventDate", "createdAt", "updatedAt"):
        assert datetime.fromisoformat(record[name]).tzinfo is not None
    assert type(record["event"]) is dict


def test_r205_r233_an_unknown_event_is_404(service):
    for operation, noun in (("get_event", "event"), ("get_raw_event", "raw event")):
        for id in (uuid(999), "nonsense", hex_id(1), "0" * 32):
            reply = service.send(operation, {"id": id})
            assert reply.status == 404, (operation, id)
            assert f"id: there is no {noun} '{id}'" in reply.body["message"]


def test_r205_the_raw_event_is_available_before_the_computed_one(service):
    id = trash(service, data={"mail": None})["_id"]
    assert service.send("get_raw_event", {"id": id}).status == 200


def test_r233_a_trashed_event_is_not_computed(service):
    id = trash(service, data={"mail": None})["_id"]
    assert service.send("get_event", {"id": id}).status == 404
