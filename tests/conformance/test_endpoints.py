"""What the operations have in common (R120 to R130, R324, R325)."""

import pytest
from conformance.shop import (
    NOON,
    VENDOR,
    hex_id,
    node,
    predicate,
    search,
    send_event,
    table,
    trash,
    uuid,
    visit,
)

PAGED = {
    "search_interactions": {},
    "search_users": {"fields": []},
    "list_trashed_events": None,
    "list_user_events": None,
    "list_user_metrics": None,
    "list_event_types": None,
    "list_campaigns": None,
    "list_outlays": None,
}
#: A sort for each list that can be sorted, with many records alike in it; the others have an order of their own.
SORTED = [
    ("search_users", {"sort": "interactionCount"}),
    ("list_trashed_events", {}),
    ("list_user_events", {"sort": "eventDate", "order": "DESC"}),
    ("list_user_metrics", {"sort": "createdAt"}),
    ("list_event_types", {"sort": "projectId"}),
    ("list_campaigns", {"sort": "active"}),
    ("list_outlays", {"sort": "campaignId"}),
]


@pytest.fixture(scope="module")
def records():
    """Seven interactions of two users, on three days, so that days do not decide their order."""
    visits = [
        visit(number, f"2025-01-0{number % 3 + 1}T00:00:00Z", userId=hex_id(900 + number % 2))
        for number in range(1, 8)
    ]
    events = [
        {"_id": uuid(number), "userId": hex_id(900), "eventType": "order", "eventDate": f"2025-01-0{number}T00:00:00Z"}
        for number in range(1, 5)
    ]  # fmt: skip
    events += [{**events[0], "_id": uuid(10 + number), "userId": hex_id(910 + number)} for number in range(3)]
    return {"nodes": table(node("ads")), "interactions": table(*visits), "events": table(*events)}


@pytest.fixture(scope="module")
def service(new_project, records):
    """A project with several records of every kind that is listed in pages."""
    project = new_project(**records)
    for number in range(4):
        kind = {"reference": f"kind-{number}", "name": f"Kind {number}", "fields": []}
        project.send("create_event_type", body=kind).ok()
        campaign = {"campaignSlug": f"slug-{number}", "name": f"Campaign {number}"}
        id = project.send("create_campaign", {"vendorId": VENDOR}, body=campaign).ok()["id"]
        trash(project, eventType="unknown")
    for number in range(4):
        outlay = {"amount": number, "startDate": NOON, "endDate": "2025-02-28T00:00:00Z"}
        project.send("create_outlay", {"vendorId": VENDOR, "parentCampaignId": id}, body=outlay).ok()
    return project


def listed(project, name, **page):
    campaigns = project.send("list_campaigns", {"vendorId": VENDOR}, {"campaignSlug": "slug-3"}).ok()["data"]
    path = {"vendorId": VENDOR, "parentCampaignId": campaigns[0]["id"], "id": hex_id(900)}
    if PAGED[name] is None:
        return project.send(name, path, page)
    return project.send(name, path, body=PAGED[name] | page)


@pytest.mark.slow
@pytest.mark.http_only
def test_r120_the_computed_event_has_its_path(http, project):
    id = send_event(project)
    reply = http.request("GET", f"/api/v1/projects/{project.id}/events/{id}")
    assert (reply.status, reply.body["_id"]) == (200, id)
    assert "metrics" in reply.body


@pytest.mark.http_only
def test_r121_r325_users_are_searched_under_v2_alone(http, project):
    path = f"projects/{project.id}/users/search"
    assert http.request("POST", f"/api/v2/{path}", body={"fields": []}).status == 200
    assert http.request("POST", f"/api/v1/{path}", body={"fields": []}).status in (404, 405)


@pytest.mark.http_only
def test_r122_events_of_a_user_have_their_path(http, project):
    reply = http.request("GET", f"/api/v1/projects/{project.id}/users/{hex_id(1)}/events")
    assert (reply.status, reply.body["data"]) == (200, [])


@pytest.mark.http_only
def test_r123_search_and_insights_have_their_paths(http, project):
    for ending in ["search", "insights"]:
        assert (
            http.request("POST", f"/api/v1/projects/{project.id}/interactions/{ending}", body={}).status
            == 200
        ), ending


@pytest.mark.http_only
def test_r124_tokens_have_their_path(http):
    assert http.request("POST", "/auth/oidc/token", token=None).body["error"] == "invalid_request"
    assert http.request("GET", "/auth/oidc/token", token=None).status == 405


@pytest.mark.http_only
def test_r125_answers_and_errors_are_json(http, project):
    path = f"/api/v1/projects/{project.id}"
    for target, body in [("interactions/search", {}), ("interactions/search", {"limit": -1})]:
        reply = http.request("POST", f"{path}/{target}", body=body)
        assert reply.headers["Content-Type"].partition(";")[0] == "application/json"
    assert http.request("GET", f"{path}/nowhere").headers["Content-Type"] == "application/json"


@pytest.mark.http_only
def test_r325_operations_are_under_v1(http, project):
    assert http.request("GET", f"/api/v1/projects/{project.id}/event-types").status == 200
    for version in ("/api/v2", "/api/v3", "/api", ""):
        assert http.request("GET", f"{version}/projects/{project.id}/event-types").status == 404


@pytest.mark.slow
def test_r126_count_is_the_page_and_total_all_matches(service):
    page = search(service, limit=3)
    assert (page["count"], page["total"]) == (3, 7)
    page = search(service, limit=3, interactionFilter=predicate("userId", "equals", hex_id(901)))
    assert (page["count"], page["total"]) == (3, 4)


@pytest.mark.slow
def test_r127_the_total_does_not_depend_on_the_page(service):
    for name in PAGED:
        whole = listed(service, name).ok()
        assert whole["total"] > 1, name
        assert whole["count"] == whole["total"] == len(whole["data"]), name
        for offset, limit in [(0, 0), (1, 1), (5, 3)]:
            page = listed(service, name, offset=offset, limit=limit).ok()
            assert page["total"] == whole["total"], name
            assert page["count"] == len(page["data"]) == max(0, min(limit, whole["total"] - offset)), name


@pytest.mark.slow
def test_r128_a_page_beyond_the_end_is_empty(service):
    for name in PAGED:
        total = listed(service, name).ok()["total"]
        page = listed(service, name, offset=1_000, limit=5).ok()
        assert (page["count"], page["data"], page["total"]) == (0, [], total), name


@pytest.mark.slow
def test_r129_pages_are_disjoint_and_complete(service):
    for sort in ({"userId": 1, "startDate": -1}, {"geo.city": 1}):
        whole = [record["_id"] for record in search(service, sort=sort)["data"]]
        pages = [search(service, sort=sort, offset=offset, limit=2)["data"] for offset in (0, 2, 4, 6)]
        assert [record["_id"] for page in pages for record in page] == whole
        assert len(set(whole)) == 7


@pytest.mark.slow
def test_r129_pages_of_every_list_are_disjoint_and_complete(service):
    for name, sort in SORTED:
        whole = [id_of(record) for record in listed(service, name, **sort).ok()["data"]]
        pages = [
            listed(service, name, offset=offset, limit=2, **sort).ok() for offset in range(0, len(whole), 2)
        ]
        assert [id_of(record) for page in pages for record in page["data"]] == whole, (name, sort)
        assert len(set(whole)) == len(whole) > 2, (name, sort)


def id_of(record):
    return record.get("_id") or record["id"]


def test_r130_negative_pages_are_refused(service):
    for page in [{"offset": -1}, {"limit": -1}]:
        for name in PAGED:
            assert listed(service, name, **page).status == 400, (name, page)


@pytest.mark.slow
def test_r324_a_search_without_a_limit_returns_everything(service):
    assert search(service)["count"] == search(service)["total"] == 7
    body = {
        "since": "2000-01-01T00:00:00Z",
        "until": "2009-12-31T00:00:00Z",
        "metrics": [],
        "groupBy": "project",
    }
    # Ten years with the leap days of 2000, 2004 and 2008.
    assert len(service.send("event_insights", body={**body, "interval": "day"}).ok()) == 3_653


def test_r324_a_state_is_0_or_1(service):
    place = {"id": send_event(service), "storageKey": "confirmed"}
    statuses = [
        service.send("update_event_state", place, body={"value": record}).status for record in (0, 1, 2)
    ]
    assert statuses == [200, 200, 400]
