"""What the service does (R001 to R008; R003 is in test_projects.py)."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from conformance.shop import (
    NOON,
    VENDOR,
    computed,
    email,
    event,
    metrics,
    node,
    search,
    send_event,
    table,
    trash,
    visit,
)


@pytest.fixture(scope="module")
def records():
    visits = [visit(1, type="session"), visit(2, type="offline"), visit(3)]
    return {"nodes": table(node("ads")), "interactions": table(*visits)}


def test_r001_the_types_are_session_and_offline(service):
    types = {record["_id"][-1]: record["type"] for record in search(service)["data"]}
    assert types == {"1": "session", "2": "offline", "3": "session"}


def test_r001_filtering_by_another_type_finds_nothing(service):
    """A type that no interaction has is in none."""
    rule = {"type": "predicate", "field": "type", "operator": "notIn", "value": ["session", "offline"]}
    assert search(service, interactionFilter=rule)["total"] == 0


def test_r002_every_interaction_has_its_node(service):
    assert {record["nodeId"] for record in search(service)["data"]} == {"ads"}


def test_r002_a_new_interaction_has_its_node(fresh):
    body = {"date": NOON, "userData": {"email": email()}, "nodeData": {"vendorId": VENDOR}}
    created = fresh.send("create_offline_interaction", body=body).ok()
    assert fresh.send("get_node", {"id": created["nodeId"]}).ok()["_id"] == created["nodeId"]


def test_r004_the_first_event_with_an_email_makes_its_user(service):
    first, second = email(), email()
    users = [computed(service, send_event(service, mail))["userId"] for mail in (first, second)]
    assert users[0] != users[1]
    for mail, id in zip((first, second), users, strict=True):
        fields = service.send("get_user", {"id": id}).ok()["fields"]
        assert [value["current"] for value in fields["email"]] == [mail]


def test_r005_further_events_with_the_email_are_of_the_same_user(service):
    mail = email()
    users = {
        computed(service, send_event(service, record))["userId"] for record in (mail, mail, mail.upper())
    }
    assert len(users) == 1


def test_r005_further_events_enrich_the_user(fresh):
    mail = email()
    for data in ({}, {"firstName": "Anna"}, {"phone": "0612345678"}):
        id = send_event(fresh, mail, data=data)
    (user,) = fresh.send("search_users", body={"fields": []}).ok()["data"]
    assert user["_id"] == computed(fresh, id)["userId"]
    shown = fresh.send("get_user", {"id": user["_id"]}).ok()
    assert shown["eventCount"] == 3
    assert {key: {value["current"] for value in values} for key, values in shown["fields"].items()} == {
        "email": {mail},
        "firstName": {"Anna"},
        "phone": {"+33612345678"},
    }


def test_r006_two_events_at_once_with_a_new_email_make_one_user(service):
    for _ in range(3):
        bodies = [event(service, mail) for mail in [email()] * 4]
        with ThreadPoolExecutor(4) as threads:
            ids = list(threads.map(lambda body: service.send("create_event_sync", body=body).ok(), bodies))
        assert len(set(ids)) == 4
        assert len({computed(service, id)["userId"] for id in ids}) == 1


def test_r007_events_are_checked_against_the_type_that_they_name(service):
    found = trash(service, eventType="refund")
    assert [record["type"] for record in found["errors"]] == ["unknown-event-type"]
    body = {"reference": "visit-of-shop", "name": "Visit", "fields": []}
    service.send("create_event_type", body=body)
    id = service.send("create_event_sync", body=event(service, eventType="visit-of-shop", data={})).ok()
    # The other type has no field for the email, so that it is not read.
    assert computed(service, id)["user"] == {}


def test_r008_an_event_has_a_user_states_and_statistics(service):
    id = send_event(service, data={"turnover": 12.5, "confirmed": 1})
    assert len(computed(service, id)["userId"]) == 24
    kinds = {key: record["type"] for key, record in metrics(service, id).items()}
    assert kinds["turnover"] == "statistic"
    assert kinds["confirmed"] == "state"
