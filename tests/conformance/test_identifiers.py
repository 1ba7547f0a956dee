"""The formats of identifiers (R015 to R022)."""

import re
from uuid import UUID

import pytest
from conformance.shop import (
    NOON,
    VENDOR,
    computed,
    email,
    event,
    hex_id,
    hit,
    node,
    search,
    send_event,
    table,
    trash,
    uuid,
    visit,
)

HEX_ID = re.compile("[a-f0-9]{24}")
BAD_PROJECTS = ["-shop", "shop-", "sh--op", "sh_op", "sh op", "sh.op", "Shop", "shöp", ""]


@pytest.fixture(scope="module")
def records():
    visits = table(visit(1, firstHitId=uuid(1), hitCount=1))
    return {"nodes": table(node("ads")), "interactions": visits, "hits": table(hit(1, 1, NOON))}


def envelope(project_id):
    return {"projectId": project_id, "eventType": "order", "nonce": "n", "data": {}}


@pytest.mark.slow
@pytest.mark.parametrize("project_id", ["abc", "a1b", "123", "a-b-c", "0-9", "shop-2025-eu"])
def test_r015_a_project_id_is_lower_case_words_with_hyphens(new_project, project_id):
    made = new_project(project_id)
    assert made.send("create_event", body=envelope(project_id)).status == 200
    assert search(made)["total"] == 0


@pytest.mark.parametrize(("length", "is_allowed"), [(2, False), (3, True), (64, True), (65, False)])
def test_r016_a_project_id_has_3_to_64_characters(new_project, service, length, is_allowed):
    project_id = "q" * length
    if is_allowed:
        made = new_project(project_id)
        assert made.send("create_event", body=envelope(project_id)).status == 200
    else:
        assert service.send("create_event", body=envelope(project_id)).status == 400
        assert service.send("search_interactions", {"projectId": project_id}, body={}).status == 400


def test_r017_another_project_id_is_refused(service):
    for project_id in BAD_PROJECTS:
        assert service.send("create_event", body=envelope(project_id)).status == 400, project_id
        assert service.send("create_event_sync", body=envelope(project_id)).status == 400, project_id
        if project_id:
            assert service.send("search_interactions", {"projectId": project_id}, body={}).status == 400, (
                project_id
            )


def test_r018_a_project_id_has_no_trailing_characters(service):
    for ending in ["\n", "\r\n", "\u2028", "\x00"]:
        assert service.send("create_event", body=envelope(service.id + ending)).status == 400, ending
        assert (
            service.send("search_interactions", {"projectId": service.id + ending}, body={}).status == 400
        ), ending


def test_r019_interactions_and_users_have_24_hexadecimal_digits(service):
    body = {"date": NOON, "userData": {"email": email()}, "nodeData": {"vendorId": VENDOR}}
    created = service.send("create_offline_interaction", body=body).ok()
    of_event = computed(service, send_event(service, email()))
    for id in (created["_id"], created["userId"], of_event["userId"]):
        assert HEX_ID.fullmatch(id)


def test_r019_capitals_and_other_lengths_are_refused(service):
    for id in [hex_id(0xABC).upper(), "g" * 24, "a" * 23, "a" * 25, "a" * 24 + "\n"]:
        assert service.send("get_interaction", {"id": id}).status == 400, id
        assert service.send("get_user", {"id": id}).status == 400, id


def test_r020_events_and_hits_have_uuids(service):
    id = send_event(service)
    assert str(UUID(id)) == id
    assert computed(service, id)["_id"] == id
    for record in service.send("list_hits", {"firstHitId": uuid(1)}).ok():
        assert str(UUID(record["id"])) == record["id"]


def test_r021_an_id_in_the_request_is_ignored(service):
    for name in ["_id", "id", "eventId"]:
        asked = uuid(0xFFFF)
        body = event(service, **{name: asked}, data={name: asked})
        id = service.send("create_event_sync", body=body).ok()
        assert id != asked, name
        assert service.send("get_event", {"id": asked}).status == 404, name


@pytest.mark.slow
def test_r022_ids_of_events_are_unique_across_projects(new_project):
    projects = [new_project(), new_project()]
    ids = [send_event(project, nonce=f"same-{number}") for project in projects for number in range(5)]
    ids += [trash(project, eventType="unknown")["_id"] for project in projects]
    assert len(set(ids)) == 12
