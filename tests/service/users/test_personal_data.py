"""A person is forgotten for good, and told beforehand what is known."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from support.identified_users import declare, see, user_of, users
from support.service_records import hex_id, order, send, table, uuid, visit
from support.user_invariants import assert_users_agree, rows_of

from attrib_ds import instants
from attrib_ds.errors import Conflict, InvalidRequest, NotFound
from attrib_ds.service import Service
from attrib_ds.service.store.tables import TABLES
from attrib_ds.service.users import personal_data

ANNA = "Anna.Secret@example.com"
NAMES = ("anna.secret", "browser-of-anna", "vendor-anna", "Annabel", "nonce-of-anna")


def typed(current, kind):
    date = "2025-01-31T12:00:00.000Z"
    return {
        "raw": current, "current": current, "type": kind, "date": date, "anonymized": False, "invalid": False,
    }  # fmt: skip


MODES = pytest.mark.parametrize("mode", ["anonymise", "delete"])


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    declare(opened)
    send(opened, "create_integration", vendorId="shops", name="Shops")
    yield opened
    assert_users_agree(opened)
    opened.close()


@pytest.fixture
def anna(service):
    """A user of whom there is something in every table, merged from two; and another user."""
    data = {"email": ANNA, "vendorUserId": "vendor-anna", "firstName": "Annabel", "note": "for Annabel"}
    see(service, "nonce-of-anna-0", "browser-of-anna")
    user_id = user_of(service, see(service, "nonce-of-anna-1", vendorUserId="vendor-anna"))
    event = see(
        service, "nonce-of-anna-2", "browser-of-anna", **data, product="shoes", confirmed=1, other="Annabel"
    )
    send(service, "update_event_state", id=event, storageKey="confirmed", value=0)
    with pytest.raises(InvalidRequest):
        send(service, "create_event_sync", event_type="nothing", nonce="nonce-of-anna-3", data={"a": [ANNA]})
    seen = visit(
        1,
        userId=user_id,
        userData=json.dumps({"email": ANNA}),
        rawUserData=json.dumps({"email": ANNA}),
        firstHitId=uuid(70),
        hitCount=1,
        referrer="https://mail.example/?u=anna.secret",
        firstPageUrl__search="?mail=anna.secret@example.com",
    )
    hit = {
        "id": uuid(70),
        "sessionId": hex_id(1),
        "serverDate": "2025-01-31T12:00:00Z",
        "pageUrl.search": "?u=anna.secret",
    }
    assert send(service, "load_records", resource="interactions", source=table(seen)).read().num_rows == 0
    assert send(service, "load_records", resource="hits", source=table(hit)).read().num_rows == 0
    offline(service)
    see(service, "n-ben", "browser-of-ben", email="ben@example.com", firstName="Ben")
    return user_id


def ben_of(service):
    ((user,),) = rows_of(service, "SELECT userId FROM identities WHERE value = 'ben@example.com'")
    return user


def offline(service, date="2025-01-31T12:00:00Z"):
    node = {"vendorId": "shops"}
    return send(service, "create_offline_interaction", date=date, userData={"email": ANNA}, nodeData=node)


def everything(service):
    return {
        name: rows_of(service, f"SELECT * FROM {name}") for name in TABLES if name not in ("meta", "settings")
    }


@pytest.mark.slow
@MODES
def test_g209_nothing_names_the_person_afterwards(service, anna, mode):
    stored = str(everything(service)).lower()
    assert all(name.lower() in stored for name in NAMES)
    assert send(service, "delete_user", id=anna, mode=mode).value["modifiedCount"] == 1
    left = str(everything(service)).lower()
    assert [name for name in NAMES if name.lower() in left] == []
    assert "ben@example.com" in left


@pytest.mark.slow
def test_anonymising_keeps_counts(service, anna):
    names = ["eventCount", "interactionCount", "hitCount", "metrics.confirmed.sum", "eventTypesCount.view"]

    def counted():
        found = send(service, "search_users", fields=names).read().to_pylist()
        return next(record for record in found if record["_id"] == anna)

    before = counted()
    assert (before["eventCount"], before["interactionCount"], before["hitCount"]) == (3, 2, 1)
    send(service, "delete_user", id=anna)
    assert counted() == before
    listed = send(service, "list_user_events", id=anna).read().to_pylist()
    products = [json.loads(row["event"]).get("product") for row in listed]
    assert [product["current"] for product in products if product] == ["shoes"]
    fields = [entry for record in listed for entry in json.loads(record["user"]).values()]
    assert {(field["raw"], field["current"], field["anonymized"]) for field in fields} == {(None, None, True)}


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        ("Annabel rang", False),
        (typed("https://shop.example/?name=Annabel", "url"), False),
        (typed("Annabel", "state"), False),
        (typed("1980-01-02", "date"), False),
        (["Annabel"], False),
        ({"name": "Annabel"}, False),
        (typed(4711, "number"), True),
        (typed(True, "boolean"), True),
    ],
)
def test_anonymising_removes_what_no_event_type_declares_but_numbers(service, value, is_kept):
    bought = order(1, userId=hex_id(5), event=json.dumps({"comment": value}))
    assert send(service, "load_records", resource="events", source=table(bought)).value["events"] == 1
    send(service, "delete_user", id=hex_id(5))
    assert "Annabel" not in str(everything(service))
    ((user, event),) = rows_of(service, "SELECT userId, event FROM events")
    assert user == hex_id(5)
    assert (json.loads(event)["comment"]["current"] is not None) == is_kept


@pytest.mark.slow
def test_deleting_keeps_nothing(service, anna):
    send(service, "delete_user", id=anna, mode="delete")
    assert anna not in users(service)
    for operation in ("get_user", "list_user_metrics", "delete_user", "export_user_data"):
        with pytest.raises(NotFound):
            send(service, operation, id=anna)
    left = {name: len(rows) for name, rows in everything(service).items()}
    assert {
        name: left[name] for name in ("events", "raw_events", "interactions", "hits", "metric_history")
    } == {
        "events": 1,
        "raw_events": 1,
        "interactions": 0,
        "hits": 0,
        "metric_history": 0,
    }
    assert (left["users"], left["merged_users"], left["trashed_events"], left["identities"]) == (1, 0, 0, 2)


@pytest.mark.slow
@MODES
def test_g210_a_repeat_of_an_erased_nonce_stores_nothing(service, anna, mode):
    send(service, "delete_user", id=anna, mode=mode)
    before = everything(service)
    ids = [
        see(service, "nonce-of-anna-2", "browser-of-anna", email=ANNA, firstName="Annabel") for _ in range(2)
    ]
    send(service, "create_event", event_type="view", nonce="nonce-of-anna-1", data={"email": ANNA})
    assert ids[0] == ids[1]
    assert everything(service) == before


@pytest.mark.slow
def test_a_repeat_returns_the_id_of_the_anonymised_event(service, anna):
    (id,) = rows_of(service, "SELECT _id FROM raw_events WHERE nonce = 'nonce-of-anna-2'")[0]
    send(service, "delete_user", id=anna)
    assert see(service, "nonce-of-anna-2", email=ANNA) == id


@pytest.mark.few(2)
@pytest.mark.slow
@MODES
@pytest.mark.parametrize(
    ("tracker", "data"),
    [(None, {"email": ANNA}), (None, {"vendorUserId": "vendor-anna"}), ("browser-of-anna", {})],
)
def test_g209_an_earlier_event_does_not_restore_an_erased_user(service, anna, mode, tracker, data):
    send(service, "delete_user", id=anna, mode=mode)
    before = {name: rows for name, rows in everything(service).items() if name != "tombstones"}
    id = see(service, "another-nonce", tracker, **data)
    with pytest.raises(NotFound):
        send(service, "get_event", id=id)
    assert {name: rows for name, rows in everything(service).items() if name != "tombstones"} == before
    # Nor does a repeat of that.
    see(service, "another-nonce", tracker, **data)
    assert {name: rows for name, rows in everything(service).items() if name != "tombstones"} == before


@pytest.mark.slow
def test_who_comes_back_later_is_somebody_new(service, anna):
    send(service, "delete_user", id=anna, mode="delete")
    id = see(service, "later", "browser-of-anna", date=None, email=ANNA)
    assert user_of(service, id) not in {anna, ben_of(service)}


def test_what_comes_after_the_answer_is_later_than_the_erasure(service, anna, monkeypatch):
    """Also by a clock that advances every 16 ms, as that of Windows before Python 3.13."""
    begin, told = instants.now(), []

    def now():
        told.append(begin + timedelta(milliseconds=16 * (len(told) // 40)))
        return told[-1]

    monkeypatch.setattr(instants, "now", now)
    monkeypatch.setattr(personal_data.time, "sleep", lambda _: None)
    send(service, "delete_user", id=anna)
    ((erased,),) = rows_of(service, "SELECT max(date) FROM tombstones")
    assert instants.naive(told[-1]) > erased


@pytest.mark.slow
@MODES
def test_g209_nor_does_a_backup_that_is_loaded(service, anna, mode):
    send(service, "delete_user", id=anna, mode=mode)
    before = everything(service)
    rows = {
        "interactions": [
            visit(11, userId=anna),
            visit(12, userId=hex_id(12), userData=json.dumps({"email": ANNA})),
            visit(13, userId=hex_id(13), userData=json.dumps({"trackerId": "browser-of-anna"})),
        ],
        "events": [order(11, userId=anna), order(12, userId=hex_id(12), **{"user.email": ANNA})],
    }
    for resource, records in rows.items():
        answer = send(service, "load_records", resource=resource, source=table(*records))
        assert answer.value[resource] == 0
        reasons = set(answer.read()["reason"].to_pylist())
        assert reasons == {"userId: belongs to a person who was erased after this date"}
    with pytest.raises(InvalidRequest, match="user_data: belongs to a person who was erased after"):
        offline(service)
    after = everything(service)
    assert {name for name in before if before[name] != after[name]} <= {"nodes"}


@pytest.mark.slow
def test_records_with_a_later_date_are_loaded(service, anna):
    send(service, "delete_user", id=anna)
    answer = send(
        service,
        "load_records",
        resource="interactions",
        source=table(visit(11, userId=anna, startDate="2099-01-01T00:00:00Z")),
    )
    assert answer.value["interactions"] == 1


@pytest.mark.slow
def test_pending_events_of_an_erased_user_are_dropped(service, anna):
    """An event that was accepted before the erasure and is processed after it."""
    insert = (
        "INSERT INTO raw_events (_id, projectId, nonce, eventType, createdAt, data, eventDate) "
        f"VALUES ('{uuid(99)}', 'shop', 'waiting', 'view', TIMESTAMP '2025-01-31', ?, NULL)"
    )
    service._store.write(
        lambda connection: connection.execute(insert, [json.dumps({"email": ANNA})]).fetchall()
    )
    pending = f"INSERT INTO pending_events VALUES ('{uuid(99)}')"
    service._store.write(lambda connection: connection.execute(pending).fetchall())
    send(service, "delete_user", id=anna, mode="delete")
    assert rows_of(service, "SELECT * FROM pending_events") == []
    assert rows_of(service, "SELECT * FROM raw_events WHERE nonce = 'waiting'") == []


@pytest.mark.slow
def test_a_merged_id_is_erased_with_its_survivor(service, anna):
    ((merged,),) = rows_of(service, "SELECT _id FROM merged_users")
    send(service, "delete_user", id=merged, mode="delete")
    assert anna not in users(service)
    answer = send(service, "load_records", resource="interactions", source=table(visit(11, userId=merged)))
    assert answer.value["interactions"] == 0


@pytest.mark.slow
def test_an_anonymised_user_cannot_be_split(service, anna):
    ((merged,),) = rows_of(service, "SELECT _id FROM merged_users")
    send(service, "delete_user", id=anna)
    assert send(service, "get_user", id=merged).read()["_id"].to_pylist() == [anna]
    with pytest.raises(Conflict, match="none of its records from before the merge exist"):
        send(service, "split_user", id=anna, userId=merged)


@pytest.mark.slow
def test_g211_the_audit_log_tells_of_it_without_naming(service, anna):
    send(service, "export_user_data", id=anna)
    send(service, "delete_user", id=anna, mode="delete")
    stored = rows_of(service, "SELECT operation, subject, details, account FROM audit ORDER BY _id")
    assert stored == [
        ("export_user_data", anna, "{}", None),
        ("delete_user", anna, '{"mode":"delete"}', None),
    ]


@pytest.mark.slow
def test_the_salt_is_kept_and_hashes_are_no_values(service, anna):
    send(service, "delete_user", id=anna)
    marks = rows_of(service, "SELECT kind, hash FROM tombstones ORDER BY kind")
    assert {kind for kind, _ in marks} >= {"userId", "nonce", "identity:email", "identity:trackerId"}
    assert all(len(digest) == 64 for _, digest in marks)
    salt = rows_of(service, "SELECT value FROM settings WHERE name = 'tombstoneSalt'")
    send(service, "delete_user", id=ben_of(service))
    assert rows_of(service, "SELECT value FROM settings WHERE name = 'tombstoneSalt'") == salt


@pytest.mark.slow
def test_g209_an_export_contains_all_data(service, anna):
    exported = send(service, "export_user_data", id=anna).value
    assert set(exported) == {
        *("user", "identities", "mergedUserIds", "interactions", "hits", "events", "rawEvents"),
        "earlierMetrics",
    }
    text = json.dumps(exported, default=str).lower()
    assert all(name.lower() in text for name in NAMES)
    assert "ben@example.com" not in text
    sizes = {name: len(exported[name]) for name in exported if name != "user"}
    assert sizes == {
        "identities": 3,
        "mergedUserIds": 1,
        "interactions": 2,
        "hits": 1,
        "events": 3,
        "rawEvents": 3,
        "earlierMetrics": 2,
    }
    assert exported["user"]["_id"] == anna
    assert exported["user"]["fields"]["firstName"][0]["current"] == "Annabel"
    assert {"email": ANNA} in [interaction["userData"] for interaction in exported["interactions"]]


@pytest.mark.slow
@pytest.mark.parametrize("names", ["project", "event type"])
def test_g209_fields_that_are_named_personal_are_taken_away_too(service, anna, names):
    """Text of an event that no field's own type or flag tells to be personal."""
    if names == "project":
        send(service, "update_settings", piiFields=["product"])
    else:
        send(service, "update_event_type", id="view", expirationPolicy={"piiFields": ["product"]})
    assert "shoes" in str(everything(service))
    send(service, "delete_user", id=anna)
    assert "shoes" not in str(everything(service))


@pytest.mark.slow
def test_erasing_again_changes_nothing(service, anna):
    send(service, "delete_user", id=anna)
    nonces = rows_of(service, "SELECT _id, nonce FROM raw_events ORDER BY ALL")
    marks = rows_of(service, "SELECT DISTINCT kind, hash FROM tombstones ORDER BY ALL")
    send(service, "delete_user", id=anna)
    assert rows_of(service, "SELECT _id, nonce FROM raw_events ORDER BY ALL") == nonces
    assert rows_of(service, "SELECT DISTINCT kind, hash FROM tombstones ORDER BY ALL") == marks
