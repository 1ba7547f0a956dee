"""Trashed events (R068 to R076, R206, R207, R326)."""

from uuid import UUID

import pytest
from conformance.shop import NOON, email, event, eventually, send_event, trash

FIELD_KEYS = {
    "discriminant",
    "entity",
    "storageKey",
    "isPii",
    "isMostProbableLocation",
    "type",
    "ingestionKey",
    "optional",
}


def problems(record):
    """Return the errors as (type, storage key, value)."""
    return [
        (entry["type"], entry["field"] and entry["field"]["storageKey"], entry["value"])
        for entry in record["errors"]
    ]


def test_r068_a_missing_mandatory_field_trashes_the_event(service):
    for value in [None, "", "   "]:
        assert [kind for kind, *_ in problems(trash(service, data={"mail": value}))] == ["missing-field"], (
            value
        )


def test_r068_an_absent_mandatory_field_trashes_the_event(service):
    body = event(service)
    del body["data"]["mail"]
    body["data"]["email"] = "anna@example.com"  # the storage key is not where it is read from
    id = service.send("create_event", body=body).ok()
    record = eventually(lambda: {entry["_id"]: entry for entry in listed(service)}.get(id))
    assert problems(record) == [("missing-field", "email", None)]


def test_r069_r070_r072_a_value_of_another_type_trashes_the_event(service):
    for key, storage_key, value in [
        ("mail", "email", "no email"),
        ("mail", "email", 5),
        ("phone", "phone", "12"),
        ("turnover", "turnover", "much"),
        ("turnover", "turnover", {"amount": 5}),
        ("items", "items", "three"),
        ("items", "items", True),
        ("confirmed", "confirmed", 2),
        ("confirmed", "confirmed", True),
        ("firstName", "firstName", ["Anna"]),
        ("address", "address", "Oslo"),
    ]:
        assert problems(trash(service, data={key: value})) == [("invalid-field", storage_key, value)], (
            key,
            storage_key,
        )


def test_r071_r326_the_field_of_an_error_is_an_object(service):
    (error,) = trash(service, data={"mail": "no email"})["errors"]
    assert set(error) == {"type", "field", "value"}
    assert error["field"] == {
        "type": "email",
        "entity": "user",
        "storageKey": "email",
        "ingestionKey": "mail",
        "discriminant": True,
        "isPii": True,
        "isMostProbableLocation": False,
        "optional": False,
    }
    assert set(error["field"]) == FIELD_KEYS


@pytest.mark.http_only
def test_r326_the_field_is_text_on_request(project):
    """G-212: over HTTP only, since it is chosen by a header."""
    id = trash(project, data={"mail": "no email"})["_id"]
    headers = {"X-Trashed-Field": "string"}
    listed = project.send("list_trashed_events", headers=headers).ok()["data"]
    (record,) = [record for record in listed if record["_id"] == id]
    assert problems_as_text(record) == [("invalid-field", "email", "no email")]
    body = event(project, data={"mail": "no email"})
    refused = project.send("create_event_sync", body=body, headers=headers)
    assert (refused.status, problems_as_text(refused.body)) == (400, [("invalid-field", "email", "no email")])
    checked = project.send("validate_event", body=body, headers=headers).ok()
    assert problems_as_text(checked) == [("invalid-field", "email", "no email")]


def problems_as_text(record):
    return [(entry["type"], entry["field"], entry["value"]) for entry in record["errors"]]


def test_r069_a_currency_that_iso_4217_does_not_list_trashes_the_event(service):
    """G-226: withdrawn ones count as known."""
    send_event(service, data={"turnover": {"amount": 5, "currency": "DEM"}})
    money = {"amount": 5, "currency": "ZZZ"}
    assert problems(trash(service, data={"turnover": money})) == [("invalid-field", "turnover", money)]


def test_r073_a_trashed_event_has_seven_keys(service):
    before = service.send("get_event_type", {"id": "order"}).ok()
    record = trash(service, data={"mail": None}, eventDate="2025-01-31T13:00:00+01:00")
    assert set(record) == {
        "_id",
        "projectId",
        "errors",
        "eventTypeId",
        "eventTypeRef",
        "processingDate",
        "rawEventDate",
    }
    assert str(UUID(record["_id"])) == record["_id"]
    assert (record["projectId"], record["eventTypeRef"]) == (service.id, "order")
    assert record["eventTypeId"] == before["_id"]
    assert record["rawEventDate"] == "2025-01-31T12:00:00.000Z"


def test_r074_a_trashed_event_is_not_counted(fresh):
    mail = email()
    id = trash(fresh, mail=mail, data={"turnover": "much"})["_id"]
    assert fresh.send("get_event", {"id": id}).status == 404
    insights = {
        "since": "2025-01-01T00:00:00Z",
        "until": "2025-12-31T00:00:00Z",
        "metrics": ["event-count", "turnover"],
        "groupBy": "project",
        "interval": "year",
    }
    (record,) = fresh.send("event_insights", body=insights).ok()
    assert record["values"] == {"event-count": 0, "turnover": 0}


def test_r074_a_trashed_event_creates_no_user(fresh):
    trash(fresh, data={"turnover": "much"})
    assert fresh.send("search_users", body={"fields": []}).ok()["total"] == 0


def test_r074_a_trashed_event_changes_no_counter_of_its_user(fresh):
    mail = email()
    place = {"id": fresh.send("get_event", {"id": send_event(fresh, mail)}).ok()["userId"]}
    before = fresh.send("get_user", place).ok()
    trash(fresh, mail=mail, data={"turnover": "much", "confirmed": 1, "firstName": "Anna"})
    assert fresh.send("get_user", place).ok() == before


def test_r075_the_answered_id_is_that_of_the_trashed_event(service):
    id = service.send("create_event", body=event(service, eventType="nonsense")).ok()
    assert eventually(lambda: [entry for entry in listed(service) if entry["_id"] == id])


def test_r076_all_errors_are_reported_at_once(service):
    data = {"mail": None, "phone": "12", "turnover": "much", "items": 1, "confirmed": 7}
    assert sorted(problems(trash(service, data=data)), key=str) == [
        ("invalid-field", "confirmed", 7),
        ("invalid-field", "phone", "12"),
        ("invalid-field", "turnover", "much"),
        ("missing-field", "email", None),
    ]


def listed(project, **query):
    return project.send("list_trashed_events", query=query).ok()["data"]


def test_r206_trashed_events_come_in_pages(fresh):
    ids = {trash(fresh, eventType="unknown")["_id"] for _ in range(3)}
    pages = [fresh.send("list_trashed_events", query={"offset": entry, "limit": 2}).ok() for entry in (0, 2)]
    assert [set(page) for page in pages] == [{"count", "total", "data"}] * 2
    assert [(page["count"], page["total"]) for page in pages] == [(2, 3), (1, 3)]
    assert {entry["_id"] for page in pages for entry in page["data"]} == ids


def test_r206_trashed_events_are_bounded_by_their_processing(fresh):
    record = trash(fresh, eventType="unknown")
    date = record["processingDate"]
    assert listed(fresh, since=date, until=date) == [record]
    assert listed(fresh, until=NOON) == []
    assert listed(fresh, since="2100-01-01T00:00:00Z") == []


def test_r207_without_parameters_all_are_listed(fresh):
    send_event(fresh)
    ids = {trash(fresh, eventType="unknown")["_id"] for _ in range(3)}
    page = fresh.send("list_trashed_events").ok()
    assert {entry["_id"] for entry in page["data"]} == ids
    assert page["count"] == page["total"] == 3
