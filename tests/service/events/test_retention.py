"""Personal values are taken away when their time is over, and nothing else."""

import json
import threading
from datetime import UTC, datetime, timedelta

import pytest
from support.identified_users import checked_service, declare, see, user_of
from support.service_records import hex_id, order, send, table, utc, uuid, visit
from support.user_invariants import rows_of

from attrib_ds.errors import InvalidRequest
from attrib_ds.service import Service
from attrib_ds.service.events.retention import Expirations, anonymise, is_identifying, redact

ANNA = "anna@example.com"
#: The event of `see` is of 31 January 2025 at noon.
LATER = "2025-03-02T12:00:00Z"


@pytest.fixture
def service():
    with checked_service() as opened:
        yield opened


def keep(service, days, *fields):
    send(service, "update_settings", retentionDurationInDays=days, piiFields=list(fields))


def event(service, id):
    (record,) = send(service, "get_event", id=id).read().to_pylist()
    return record


def expire(service, now):
    return send(service, "anonymise_expired", now=now).value


def state_of(service, id):
    """Return raw, current and anonymized of every value of an event, by key, and what was sent."""
    record = event(service, id)
    values = json.loads(record["user"]) | json.loads(record["event"])
    (raw,) = send(service, "get_raw_event", id=id).read().to_pylist()
    current = {key: (value["raw"], value["current"], value["anonymized"]) for key, value in values.items()}
    return current, json.loads(raw["data"])


DATA = {"email": ANNA, "firstName": "Anna", "note": "Call Anna", "product": "shoes"}


def test_r050_an_event_has_the_policy_of_its_project(service):
    assert event(service, see(service, "n0"))["expirationPolicy.expiresAt"] is None
    keep(service, 30, "firstName")
    record = event(service, see(service, "n1"))
    assert record["expirationPolicy.expiresAt"] == utc(2025, 3, 2, 12)
    assert record["expirationPolicy.retentionDurationInDays"] == 30
    assert record["expirationPolicy.piiFields"] == ["firstName"]
    assert record["expirationPolicy.anonimizedAt"] is None


def test_the_fields_declared_personal_are_the_default(service):
    keep(service, 30)
    assert event(service, see(service, "n1"))["expirationPolicy.piiFields"] == ["email", "note"]


def test_an_event_type_has_the_last_word(service):
    keep(service, 30, "firstName")
    policy = {"retentionDurationInDays": 7, "piiFields": ["note"]}
    send(service, "update_event_type", id="view", expirationPolicy=policy)
    record = event(service, see(service, "n1"))
    assert record["expirationPolicy.expiresAt"] == utc(2025, 2, 7, 12)
    assert record["expirationPolicy.piiFields"] == ["note"]
    send(service, "update_event_type", id="view", expirationPolicy={"retentionDurationInDays": 0})
    assert event(service, see(service, "n2"))["expirationPolicy.expiresAt"] is None


def test_g208_values_are_taken_away_when_their_time_is_over(service):
    keep(service, 30)
    id = see(service, "n1", **DATA)
    before = state_of(service, id)
    assert expire(service, "2025-03-02T11:59:59.999Z") == 0
    assert state_of(service, id) == before
    assert expire(service, LATER) == 1
    current, sent = state_of(service, id)
    assert current == {
        "email": (None, None, True),
        "note": (None, None, True),
        "firstName": ("Anna", "Anna", False),
        "product": ("shoes", "shoes", False),
    }
    assert sent == {**DATA, "email": None, "note": None}
    assert event(service, id)["expirationPolicy.anonimizedAt"] == utc(2025, 3, 2, 12)


def trash(service, nonce, *, event_type="view", **data):
    """Send an event that is trashed, and return its id."""
    sent = {"event_type": event_type, "nonce": nonce, "event_date": "2025-01-31T12:00:00Z", "data": data}
    with pytest.raises(InvalidRequest):
        send(service, "create_event_sync", **sent)
    return rows_of(service, f"SELECT _id FROM raw_events WHERE nonce = '{nonce}'")[0][0]


def trashed(service, id):
    """Return what was sent of a trashed event, and the values in its errors."""
    (raw,) = send(service, "get_raw_event", id=id).read().to_pylist()
    records = send(service, "list_trashed_events").read().to_pylist()
    (errors,) = (json.loads(record["errors"]) for record in records if record["_id"] == id)
    return json.loads(raw["data"]), [error["value"] for error in errors]


@pytest.mark.slow
def test_g208_trashed_events_expire_too(service):
    keep(service, 30)
    data = {**DATA, "email": "anna at example.com"}
    id = trash(service, "t1", **data)
    assert expire(service, "2025-03-02T11:59:59.999Z") == 0
    assert trashed(service, id) == (data, ["anna at example.com"])
    assert expire(service, LATER) == 1
    assert trashed(service, id) == ({**data, "email": None, "note": None}, [None])
    assert expire(service, LATER) == 0
    # Its nonce is still known.
    assert trash(service, "t1", **data) == id


def test_g208_trashed_events_of_unknown_types_expire_by_the_project(service):
    keep(service, 30, "nick-name")
    id = trash(service, "t1", event_type="unknown", **{"nick-name": "Anna", "product": "shoes"})
    assert expire(service, LATER) == 1
    assert trashed(service, id)[0] == {"nick-name": None, "product": "shoes"}


def test_without_a_policy_trashed_events_are_kept(service):
    id = trash(service, "t1", **{**DATA, "email": "no email"})
    assert expire(service, "2035-01-01T00:00:00Z") == 0
    assert trashed(service, id)[0]["email"] == "no email"


@pytest.mark.slow
def test_again_changes_nothing(service):
    keep(service, 30)
    id = see(service, "n1", **DATA)
    expire(service, LATER)
    before = event(service, id)
    assert expire(service, "2026-01-01T00:00:00Z") == 0
    assert event(service, id) == before


@pytest.mark.slow
def test_r087_metrics_and_counters_stay(service):
    keep(service, 30)
    see(service, "n1", **DATA, confirmed=1)
    user = user_of(service, see(service, "n2", email=ANNA, date="2025-06-01T00:00:00Z"))
    names = ["eventCount", "eventTypesCount.view", "metrics.confirmed.sum", "firstEventDate"]

    def counters():
        return send(service, "search_users", fields=names).read().to_pylist()

    before, metrics = counters(), send(service, "list_user_metrics", id=user).read()
    assert expire(service, LATER) == 1
    assert counters() == before
    assert send(service, "list_user_metrics", id=user).read().equals(metrics)


@pytest.mark.slow
def test_an_identity_stays_as_long_as_a_record_contains_it(service):
    keep(service, 30)
    first = see(service, "n1", email=ANNA)
    see(service, "n2", email=ANNA, date="2025-02-28T00:00:00Z")
    assert expire(service, LATER) == 1
    assert user_of(service, see(service, "n3", email=ANNA, date="2025-02-28T00:00:00Z")) == user_of(
        service, first
    )
    assert expire(service, "2025-04-01T00:00:00Z") == 2
    assert rows_of(service, "SELECT * FROM identities") == []
    assert user_of(service, see(service, "n4", email=ANNA)) != user_of(service, first)


@pytest.mark.slow
def test_an_interaction_holds_an_identity_too(service):
    keep(service, 30)
    user = user_of(service, see(service, "n1", email=ANNA))
    records = table(visit(1, userId=user, userData=f'{{"email": "{ANNA}"}}'))
    send(service, "load_records", resource="interactions", source=records)
    assert expire(service, LATER) == 1
    assert user_of(service, see(service, "n2", email=ANNA)) == user


@pytest.mark.slow
def test_loaded_events_expire_too(service):
    keep(service, 30, "email")
    own = {
        "expirationPolicy.expiresAt": "2025-02-01T00:00:00Z",
        "expirationPolicy.piiFields": '["firstName"]',
    }
    loaded = [
        order(1, userId=hex_id(1), **{"user.email": ANNA, "user.firstName": "Anna"}),
        order(2, userId=hex_id(1), **own, **{"user.email": ANNA, "user.firstName": "Anna"}),
    ]
    answer = send(service, "load_records", resource="events", source=table(*loaded))
    assert answer.read().num_rows == 0
    assert event(service, uuid(1))["expirationPolicy.expiresAt"] == utc(2025, 3, 2, 12)
    assert event(service, uuid(2))["expirationPolicy.expiresAt"] == utc(2025, 2, 1)
    assert expire(service, LATER) == 2
    values = [json.loads(event(service, uuid(number))["user"]) for number in (1, 2)]
    assert [(value["email"]["current"], value["firstName"]["current"]) for value in values] == [
        (None, "Anna"),
        (ANNA, None),
    ]


@pytest.mark.slow
def test_events_from_before_the_project_chose_get_its_policy(service):
    id = see(service, "n1", email=ANNA)
    keep(service, 30)
    assert expire(service, LATER) == 1
    assert event(service, id)["expirationPolicy.expiresAt"] == utc(2025, 3, 2, 12)


@pytest.mark.slow
def test_more_than_one_batch(service, monkeypatch):
    monkeypatch.setattr("attrib_ds.service.events.retention._EVENTS_AT_ONCE", 2)
    keep(service, 30)
    for number in range(5):
        see(service, f"n{number}", email=ANNA)
    assert anonymise(service._store, datetime(2026, 1, 1, tzinfo=UTC)) == 5


@pytest.mark.slow
def test_it_happens_when_a_project_is_opened_and_ends_with_it(tmp_path):
    opened = Service.open("shop", tmp_path / "shop.duckdb")
    declare(opened)
    keep(opened, 1)
    id = see(opened, "n1", email=ANNA)
    opened.close()
    opened = Service.open("shop", tmp_path / "shop.duckdb")
    deadline = datetime.now(UTC) + timedelta(seconds=20)
    while event(opened, id)["expirationPolicy.anonimizedAt"] is None and datetime.now(UTC) < deadline:
        threading.Event().wait(0.01)
    assert event(opened, id)["expirationPolicy.anonimizedAt"] is not None
    thread = opened._expirations._thread
    opened.close()
    assert not thread.is_alive()


def test_it_happens_again_after_a_while(service):
    keep(service, 1)
    often = Expirations(service._store, seconds=0.01)
    often.start()
    try:
        id = see(service, "n1", email=ANNA)
        deadline = datetime.now(UTC) + timedelta(seconds=20)
        while event(service, id)["expirationPolicy.anonimizedAt"] is None and datetime.now(UTC) < deadline:
            threading.Event().wait(0.01)
        assert event(service, id)["expirationPolicy.anonimizedAt"] is not None
    finally:
        often.close()


def test_a_number_as_it_was_sent_is_taken_away(service):
    """It may be any text where a project keeps invalid values; the number itself stays."""
    send(service, "update_settings", lenient_optional_fields=True)
    keep(service, 30)
    fields = [{"type": "email", "entity": "user", "storageKey": "email"}]
    fields += [
        {"type": "number", "entity": "event", "storageKey": key, "optional": True} for key in ("age", "items")
    ]
    send(service, "create_event_type", reference="visit", name="Visit", fields=fields)
    visited = {"event_type": "visit", "nonce": "n1", "event_date": "2025-01-31T12:00:00Z"}
    send(service, "create_event_sync", **visited, data={"email": ANNA, "age": "ask Anna", "items": " 3 "})
    sent = "SELECT key, number, raw FROM metrics WHERE key <> 'event-count' ORDER BY key"
    assert rows_of(service, sent) == [("age", None, '"ask Anna"'), ("items", 3.0, '" 3 "')]
    assert expire(service, LATER) == 1
    assert rows_of(service, sent) == [("age", None, None), ("items", 3.0, None)]


def test_the_type_of_a_value_decides_whether_it_is_personal(service):
    """A message of an event may name somebody, although no field says that it is personal."""
    fields = [{"type": "email", "entity": "user", "storageKey": "email"}]
    fields += [
        {"type": kind, "entity": "event", "storageKey": key, "optional": True}
        for key, kind in {"note": "message", "product": "string"}.items()
    ]
    send(service, "create_event_type", reference="visit", name="Visit", fields=fields)
    visited = {"event_type": "visit", "nonce": "n1", "event_date": "2025-01-31T12:00:00Z"}
    id = send(
        service, "create_event_sync", **visited, data={"email": ANNA, "note": "Call", "product": "shoes"}
    ).value
    now = datetime(2025, 3, 1)
    service._store.write(lambda connection: redact(connection, [id], now, is_personal=is_identifying))
    current, sent = state_of(service, id)
    assert {key: value[1] for key, value in current.items()} == {
        "email": None,
        "note": None,
        "product": "shoes",
    }
    assert sent == {"email": None, "note": None, "product": "shoes"}
