"""What comes without a token never reaches a person whom an event with one has identified (G-236)."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager

import pytest
from support.identified_users import FIELDS, declare, load, user_of, users
from support.service_records import hex_id, send, visit
from support.user_invariants import assert_users_agree, rows_of

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.contract.interactions import CollectHit
from attrib_ds.service import Service
from attrib_ds.service.collection.hits import pending_hit

EMAIL = "anna@example.com"


@contextmanager
def served_project(path=":memory:"):
    """Open a project as a server does: who sends has an account or is anonymous."""
    with closing(Service.open("shop", path, is_served=True)) as opened:
        declare(opened)
        yield opened
        assert_users_agree(opened)


@pytest.fixture
def service():
    with served_project() as opened:
        yield opened


def sent(service, nonce, tracker=None, *, account="crm", **data):
    """Send an event, and return its user."""
    operation = OPERATIONS["create_event_sync"]
    request = build(
        operation,
        project_id="shop",
        event_type="view",
        nonce=nonce,
        event_date=f"2025-01-31T12:00:{len(nonce):02}Z",
        tracker_id=tracker,
        data=data,
    )
    return user_of(service, service.send(operation, request, account).value)


def anonymous(service, nonce, tracker=None, **data):
    return sent(service, nonce, tracker, account=None, **data)


def hit(service, tracker):
    view = CollectHit(projectId="shop", trackerId=tracker, pageUrl="https://shop.example/")
    id = f"00000000-0000-7000-8000-{abs(hash(tracker)) % 10**12:012}"
    service.start_hit(pending_hit(view, id=id, tracker_id=tracker, user_agent="Firefox")).result()
    service._hits.settle()


def first_names(service, user):
    found = send(service, "search_users", columns=["_id", "fields.firstName"]).read().to_pylist()
    texts = next(row["fields.firstName"] for row in found if row["_id"] == user)
    return [value["current"] for value in json.loads(texts)]


def test_the_email_of_an_identified_person_opens_nothing(service):
    anna = sent(service, "a", email=EMAIL, firstName="Anna")
    hit(service, "mine")
    stranger = anonymous(service, "bb", "mine", email=EMAIL, firstName="Mallory")
    assert stranger != anna
    assert first_names(service, anna) == ["Anna"]
    # The visit is of the pending person.
    assert rows_of(service, "SELECT userId FROM interactions") == [(stranger,)]


def test_who_was_loaded_is_identified_too(service):
    load(service, "interactions", visit(1, userId=hex_id(7), userData=f'{{"email": "{EMAIL}"}}'))
    assert anonymous(service, "a", "t1", email=EMAIL) != hex_id(7)
    assert sent(service, "bb", email=EMAIL) == hex_id(7)


@pytest.mark.parametrize("name", ["email", "vendorUserId"])
def test_a_pending_person_joins_by_an_event_with_a_token(service, name):
    named = {name: EMAIL}
    anna = sent(service, "a", **named)
    pending = anonymous(service, "bb", "t1", **named)
    assert pending != anna
    assert sent(service, "ccc", **named) == anna
    assert pending in users(service)  # An event with the email alone tells nothing about the browser.
    assert sent(service, "dddd", "t1", **named) == anna
    assert users(service) == {anna}
    assert anonymous(service, "eeeee", "t1", **named) == anna


def test_an_administrator_joins_a_pending_person(service):
    anna = sent(service, "a", email=EMAIL)
    pending = anonymous(service, "bb", email=EMAIL)
    send(service, "merge_users", id=anna, user_id=pending)
    assert users(service) == {anna}
    again = anonymous(service, "ccc", email=EMAIL)
    assert again != anna
    assert anonymous(service, "dddd", email=EMAIL) == again


def test_claims_without_a_browser_share_one_pending_person(service):
    anna = sent(service, "a", email=EMAIL)
    first = anonymous(service, "bb", email=EMAIL)
    assert first == anonymous(service, "ccc", email=EMAIL) != anna
    # Of a browser it is another one, since a false claim must not join what a true one brings in.
    assert anonymous(service, "dddd", "t1", email=EMAIL) not in {first, anna}
    assert anonymous(service, "eeeee", "t2", email=EMAIL) not in {
        first,
        anna,
        anonymous(service, "ffffff", "t1", email=EMAIL),
    }


def test_anonymous_events_alone_identify_each_other_until_one_with_a_token_confirms(service):
    pending = anonymous(service, "a", "t1", email=EMAIL, firstName="Anna")
    assert anonymous(service, "bb", "t2", email=EMAIL) == pending
    assert sent(service, "ccc", email=EMAIL) == pending
    assert anonymous(service, "dddd", "t3", email=EMAIL) != pending
    assert anonymous(service, "eeeee", "t1", email=EMAIL) == pending


def test_an_event_with_a_token_takes_an_identity_from_whoever_claimed_it_first(service):
    anna = sent(service, "a", vendorUserId="v1")
    claimed = anonymous(service, "bb", "t1", email=EMAIL)
    assert sent(service, "ccc", email=EMAIL, vendorUserId="v1") == anna
    assert claimed not in users(service)
    assert anonymous(service, "dddd", "t9", email=EMAIL) != anna


def test_a_browser_of_an_identified_person_stays_theirs(service):
    anna = sent(service, "a", "t1", email=EMAIL, firstName="Anna")
    assert anonymous(service, "bb", "t1", firstName="Mallory") == anna
    assert first_names(service, anna) == ["Anna"]
    other = anonymous(service, "ccc", "t1", email="ben@example.com")
    assert other != anna
    assert anonymous(service, "dddd", "t1") == anna
    # Nor does their browser reach another identified person.
    ben = sent(service, "eeeee", email="carl@example.com")
    assert anonymous(service, "ffffff", "t1", email="carl@example.com") not in {anna, ben}
    assert anonymous(service, "ggggggg", "t1") == anna


def test_a_value_without_a_token_fills_an_empty_field_alone(service):
    anna = sent(service, "a", "t1", email=EMAIL)
    anonymous(service, "bb", "t1", firstName="Anna")
    assert first_names(service, anna) == ["Anna"]
    sent(service, "ccc", email=EMAIL, firstName="Annabel")
    anonymous(service, "dddd", "t1", firstName="Mallory")
    assert first_names(service, anna) == ["Annabel"]


def test_trashed_events_stay_anonymous_when_they_are_replayed(service):
    anna = sent(service, "a", email=EMAIL)
    operation = OPERATIONS["create_event"]
    request = build(
        operation, project_id="shop", event_type="late", nonce="bb", tracker_id="t1", data={"email": EMAIL}
    )
    id = service.send(operation, request).value
    send(service, "create_event_type", reference="late", name="Late", fields=FIELDS)
    service.send(
        OPERATIONS["replay_event"], build(OPERATIONS["replay_event"], project_id="shop", id=id), "crm"
    )
    assert user_of(service, id) != anna


def test_the_setting_restores_the_former_rule(service):
    send(service, "update_settings", anonymous_identification=True)
    anna = sent(service, "a", email=EMAIL, firstName="Anna")
    assert anonymous(service, "bb", "t1", email=EMAIL, firstName="Anne") == anna
    assert first_names(service, anna) == ["Anne"]


def test_anonymity_survives_a_crash_between_queue_and_tables(tmp_path):
    file = tmp_path / "shop.duckdb"
    with closing(Service.open("shop", file, is_served=True)) as opened:
        declare(opened)
        anna = sent(opened, "a", email=EMAIL)
        # Accepted, and not moved yet.
        opened._ingestion.intake._is_stopped = True
        operation = OPERATIONS["create_event"]
        request = build(
            operation,
            project_id="shop",
            event_type="view",
            nonce="bb",
            tracker_id="t1",
            data={"email": EMAIL},
        )
        id = opened.send(operation, request).value
    with closing(Service.open("shop", file, is_served=True)) as opened:
        assert user_of(opened, id) != anna


def test_an_embedded_project_trusts_its_owner():
    with closing(Service.open("shop", ":memory:")) as opened:
        declare(opened)
        anna = sent(opened, "a", account=None, email=EMAIL)
        assert sent(opened, "bb", "t1", account=None, email=EMAIL) == anna
