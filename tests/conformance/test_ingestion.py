"""Sending events (R113 to R117, R189 to R204)."""

import json
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from conformance.shop import (
    computed,
    email,
    event,
    eventually,
    hex_id,
    new,
    node,
    search,
    send_event,
    table,
    trashed,
    uuid,
    visit,
)

OPERATIONS = ["create_event", "create_event_sync"]


def events_of(project):
    """Return how many events a project has, by its own count."""
    body = {"since": "1990-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z", "metrics": ["event-count", "turnover"],
            "groupBy": "project", "interval": "monthOfYear"}  # fmt: skip
    records = project.send("event_insights", body=body).ok()
    return tuple(sum(record["values"][key] for record in records) for key in body["metrics"])


def settled(project, id):
    """Say what became of an event, once something did."""

    def look():
        if project.send("get_event", {"id": id}).status == 200:
            return "computed"
        listed = project.send("list_trashed_events").ok()["data"]
        return "trashed" if id in [record["_id"] for record in listed] else None

    return eventually(look)


def test_r113_r193_r320_every_accepted_event_is_answered_200(service):
    for parts in [{}, {"data": {"mail": None}}, {"eventType": "x"}, {"eventDate": "no date"}]:
        reply = service.send("create_event", body=event(service, **parts))
        assert reply.status == 200, parts
        assert str(UUID(reply.body)) == reply.body, parts


def test_r114_a_valid_event_is_computed(service):
    id = service.send("create_event", body=event(service)).ok()
    assert settled(service, id) == "computed"


def test_r115_an_invalid_event_is_trashed(service):
    id = service.send("create_event", body=event(service, data={"mail": None})).ok()
    assert trashed(service, id)["_id"] == id


def test_r116_every_accepted_event_is_processed(service):
    bodies = [event(service, email(), data={"items": "x" if number % 3 == 0 else 1}) for number in range(12)]
    with ThreadPoolExecutor(4) as threads:
        ids = list(threads.map(lambda body: service.send("create_event", body=body).ok(), bodies))
    ends = [settled(service, id) for id in ids]
    assert ends == ["trashed" if number % 3 == 0 else "computed" for number in range(12)]


def test_r117_after_a_synchronous_200_the_event_can_be_read(service):
    for _ in range(5):
        id = service.send("create_event_sync", body=event(service)).ok()
        assert service.send("get_event", {"id": id}).status == 200


def test_r189_four_members_are_required(service):
    for missing in ["projectId", "eventType", "nonce", "data"]:
        for operation in OPERATIONS:
            body = event(service)
            del body[missing]
            reply = service.send(operation, body=body)
            assert reply.status == 400, (operation, missing)
            assert missing in reply.body["message"], (operation, missing)


def test_r189_the_date_and_the_tracker_are_optional(service):
    for operation in OPERATIONS:
        body = event(service)
        del body["eventDate"]
        assert service.send(operation, body=body).status == 200, operation
        assert service.send(operation, body=event(service, trackerId="t")).status == 200, operation


def test_r190_the_project_is_named_in_the_body(service):
    for project_id in ["SHOP", "no_shop", "ab", 5, None, "no-such-project-here"]:
        for operation in OPERATIONS:
            assert service.send(operation, body=event(service, projectId=project_id)).status == 400, (
                operation,
                project_id,
            )


def test_r191_data_is_an_object(service):
    for data in [[], "{}", None, 5, True, [{"mail": "a@example.com"}]]:
        for operation in OPERATIONS:
            body = event(service)
            body["data"] = data
            assert service.send(operation, body=body).status == 400, (operation, data)


def test_r192_r201_the_answer_is_a_text_that_is_a_uuid(service):
    for operation in OPERATIONS:
        reply = service.send(operation, body=event(service))
        assert (reply.status, type(reply.body)) == (200, str), operation
        assert str(UUID(reply.body)) == reply.body, operation


def test_r194_without_a_tracker_id_no_tracker_is_involved(service):
    """With one, anonymous events of one browser are of one user."""
    bound = [computed(service, service.send("create_event_sync", body=event(service, email(), trackerId=tracker)).ok())
             for tracker in (None, None)]  # fmt: skip
    assert bound[0]["userId"] != bound[1]["userId"]
    kind = {"reference": new("anonymous"), "name": "Anonymous", "fields": []}
    service.send("create_event_type", body=kind).ok()
    tracker = new("tracker")
    users = []
    for id in (tracker, tracker, None, None):
        body = event(service, eventType=kind["reference"], data={}, trackerId=id)
        users.append(computed(service, service.send("create_event_sync", body=body).ok())["userId"])
    assert users[0] == users[1]
    assert len(set(users)) == 3


@pytest.mark.slow
def test_r194_a_tracker_id_ties_an_event_to_the_interactions_of_its_tracker(new_project):
    """An anonymous visit of a browser: the event that names the browser is of its user, the other is not."""
    seen = visit(1, "2025-01-10T00:00:00Z", userId=hex_id(77), userData='{"trackerId":"browser-1"}')
    project = new_project(nodes=table(node("ads")), interactions=table(seen))
    tied, untied = (
        computed(project, send_event(project, email(), **parts)) for parts in ({"trackerId": "browser-1"}, {})
    )
    rule = {"type": "predicate", "field": "_id", "operator": "equals", "value": hex_id(1)}
    (owner,) = (record["userId"] for record in search(project, interactionFilter=rule)["data"])
    assert (tied["userId"], tied["attributable"]) == (owner, True)
    assert untied["userId"] != owner
    assert untied["attributable"] is False
    counts = [
        project.send("get_user", {"id": shown["userId"]}).ok()["interactionCount"] for shown in (tied, untied)
    ]
    assert counts == [1, 0]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_r195_a_repeated_nonce_creates_one_event(fresh, operation):
    body = event(fresh, data={"turnover": 5})
    ids = {fresh.send(operation, body=body).ok() for _ in range(3)}
    assert len(ids) == 1
    assert settled(fresh, ids.pop()) == "computed"
    assert events_of(fresh) == (1, 5)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_r196_concurrent_sends_create_one_event(fresh, operation):
    body = event(fresh, data={"turnover": 5, "confirmed": 1})
    with ThreadPoolExecutor(6) as threads:
        ids = set(threads.map(lambda _: fresh.send(operation, body=body).ok(), range(6)))
    (id,) = ids
    assert settled(fresh, id) == "computed"
    assert events_of(fresh) == (1, 5)
    keys = [record["key"] for record in computed(fresh, id)["metrics"]]
    assert sorted(keys) == ["confirmed", "event-count", "state-delay-confirmed", "turnover"]


def test_r198_one_nonce_in_two_projects_creates_two_events(service, fresh):
    nonce = new("shared")
    ids = [
        record.send("create_event_sync", body=event(record, nonce=nonce)).ok() for record in (service, fresh)
    ]
    assert ids[0] != ids[1]
    assert computed(service, ids[0])["_id"] == ids[0]
    assert computed(fresh, ids[1])["_id"] == ids[1]
    assert service.send("get_event", {"id": ids[1]}).status == 404


@pytest.mark.parametrize("first", OPERATIONS)
def test_r199_a_nonce_is_shared_by_both_operations(fresh, first):
    body = event(fresh)
    second = next(record for record in OPERATIONS if record != first)
    assert fresh.send(first, body=body).ok() == fresh.send(second, body=body).ok()
    assert events_of(fresh)[0] == 1


def test_r200_the_statuses_of_the_asynchronous_operation(service):
    body = event(service)
    assert service.send("create_event", body=body).status == 200
    assert service.send("create_event", body={**body, "data": {"mail": "other@example.com"}}).status == 200
    assert service.send("create_event", body={}).status == 400


def test_r202_the_statuses_of_the_synchronous_operation(service):
    body = event(service)
    assert service.send("create_event_sync", body=body).status == 200
    assert (
        service.send("create_event_sync", body={**body, "data": {"mail": "other@example.com"}}).status == 409
    )
    assert service.send("create_event_sync", body={}).status == 400
    invalid = service.send("create_event_sync", body=event(service, data={"mail": None}))
    assert invalid.status == 400
    assert trashed(service, invalid.body["eventId"])


ODD = {
    "deep": b'{"a":' * 60 + b"1" + b"}" * 60,
    "deeper": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "large": b'{"items": 1e400, "mail": 1}',
    "endless": b'{"items": 1e999999999, "turnover": -1e999999999, "mail": "a@example.com"}',
    "endless zero": b'{"items": 0e999999999, "turnover": 0e-999999999, "mail": "a@example.com"}',
    "huge": b'{"items": ' + b"9" * 5_000 + b"}",
    "surrogate": b'{"mail": "\\ud800@example.com"}',
    "surrogate in an optional field": b'{"mail": "a@example.com", "coupon": "\\udfff"}',
    "surrogate key": b'{"mail": "a@example.com", "\\ud800": 1}',
    "NaN": b'{"mail": "a@example.com", "items": NaN}',
    "Infinity": b'{"mail": "a@example.com", "turnover": -Infinity}',
    "null byte": b'{"mail": "a@example.com", "coupon": "a\\u0000b"}',
    "not UTF-8": b'{"mail": "\xff"}',
}


def test_r204_unusual_data_never_cause_a_500(service):
    for name in ODD:
        for operation in OPERATIONS:
            head = json.dumps({"projectId": service.id, "eventType": "order", "nonce": new("odd")})[
                :-1
            ].encode()
            reply = service.send(operation, body=head + b', "data": ' + ODD[name] + b"}")
            assert reply.status in (200, 400), (operation, name)
            if reply.status == 200:
                assert settled(service, reply.body), (operation, name)


def test_r204_an_unknown_event_id_is_not_a_failure(service):
    assert service.send("get_raw_event", {"id": uuid(0)}).status == 404
