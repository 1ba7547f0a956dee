"""Custom campaigns (R095 to R097, R118, R119, R278 to R289)."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from conformance.shop import NOON, VENDOR, email, new, node, table
from conformance.transports import carry_out, load
from support.campaign_texts import APART

from attrib_ds.contract.identifiers import slug_of

PLACE = {"vendorId": VENDOR}


def create(project, slug=None, vendor=VENDOR, **parts):
    body = {"campaignSlug": slug or new("slug"), "name": "Summer", **parts}
    return project.send("create_campaign", {"vendorId": vendor}, body=body)


def get(project, id, vendor=VENDOR):
    return project.send("get_campaign", {"vendorId": vendor, "id": id})


def implicit(project, slug):
    """Let traffic make a campaign that nobody created, and return its id."""
    node_data = {"vendorId": VENDOR, "campaignSlug": slug}
    body = {"date": NOON, "userData": {"email": email()}, "nodeData": node_data}
    project.send("create_offline_interaction", body=body).ok()
    (campaign,) = project.send("list_campaigns", PLACE, {"campaignSlug": slug}).ok()["data"]
    return campaign["id"]


@pytest.fixture(scope="module")
def listed(new_project):
    """A project with four campaigns, one of them inactive and one implicit, and a second integration."""

    def prepare(opened):
        carry_out(opened, opened._store.meta.project_id, "create_integration", vendorId="posters", name="P")

    project = new_project(prepare=prepare)
    names = {"a": "Summer_100%", "b": "summer sale", "c": "Winter.*"}
    for slug, name in names.items():
        create(project, slug, name=name, active=slug != "b").ok()
    implicit(project, "zzz")
    return project


def slugs(project, **query):
    return [entry["campaignSlug"] for entry in project.send("list_campaigns", PLACE, query).ok()["data"]]


def test_r095_a_campaign_has_an_id_that_is_not_its_slug(service):
    slug = new("slug")
    record = get(service, create(service, slug).ok()["id"]).ok()
    assert "_id" not in record
    assert record["id"] != slug == record["campaignSlug"]


def test_r096_a_slug_is_unique_within_its_integration(listed, fresh):
    assert create(listed, "a").status == 409
    assert create(listed, "a", "posters").status == 200
    assert create(fresh, "a").status == 200
    # Both have the same slug (G-246).
    assert create(fresh, "A").status == 409
    assert create(fresh, "B").ok()["campaignSlug"] == "b"


@pytest.mark.few(2)
@pytest.mark.parametrize("pair", APART, ids=ascii)
def test_r096_texts_that_differ_in_more_than_case_and_blanks_are_two_campaigns(fresh, pair):
    """G-246: created or found by offline interactions, the slug depends on the text alone."""
    first, other = pair
    made = create(fresh, first).ok()
    slug = made.get("campaignSlug", first)
    assert slug == slug_of(first)
    assert implicit(fresh, first) == made["id"] != implicit(fresh, other)
    assert create(fresh, other).status == create(fresh, slug).status == 409
    assert slugs(fresh, campaignSlug=first) == slugs(fresh, campaignSlug=slug) == [slug]
    assert slugs(fresh, campaignSlug=other) == [slug_of(other)]


def test_r097_campaigns_of_people_are_explicit_and_those_of_traffic_are_not(service):
    assert get(service, create(service).ok()["id"]).ok()["explicit"] is True
    assert get(service, implicit(service, new("seen"))).ok()["explicit"] is False


def loaded_campaigns(opened):
    """Load a tree of an ad platform: two campaigns, one of them without a slug, and an ad set."""
    tree = [
        node("tv", "integration", vendorId="tv-ads", integrationId="tv-integration"),
        node("tv/derby", parent="tv", campaignSlug="derby"),
        node("tv/news", parent="tv", active=False),
        node("tv/derby/evening", "adset", parent="tv/derby"),
    ]
    spend = {
        "campaignId": "tv/derby",
        "amount.amount": "10.00",
        "amount.currency": "EUR",
        "startDate": "2025-01-01T00:00:00Z",
        "endDate": "2025-01-02T00:00:00Z",
    }
    load(opened, opened._store.meta.project_id, nodes=table(*tree), spend=table(spend))


@pytest.fixture(scope="module")
def loaded(new_project):
    return new_project(prepare=loaded_campaigns)


def test_r097_loaded_campaigns_are_listed_and_explicit(loaded):
    page = loaded.send("list_campaigns", {"vendorId": "tv-ads"}).ok()["data"]
    assert [(each["id"], each["campaignSlug"], each["active"], each["explicit"]) for each in page] == [
        ("tv/derby", "derby", True, True),
        ("tv/news", None, False, True),
    ]
    assert {each["integrationId"] for each in page} == {"tv-integration"}


def test_r284_the_slug_of_a_loaded_campaign_is_taken(new_project):
    project = new_project(prepare=loaded_campaigns)
    assert create(project, "derby", "tv-ads").status == 409
    assert create(project, new("slug"), "tv-ads").status == 200


def test_r286_a_loaded_campaign_is_read_and_renamed(new_project):
    project = new_project(prepare=loaded_campaigns)
    path = {"vendorId": "tv-ads", "id": "tv/derby"}
    assert project.send("update_campaign", path, body={"name": "Final"}).ok() == {"modifiedCount": 1}
    assert get(project, "tv/derby", "tv-ads").ok()["name"] == "Final"
    assert project.send("get_node", {"id": "tv/derby"}).ok()["name"] == "Final"


def test_r286_outlays_are_made_for_a_loaded_campaign(loaded):
    place = {"vendorId": "tv-ads", "parentCampaignId": "tv/derby"}
    assert loaded.send("list_outlays", place).ok()["data"][0]["amount"]["amount"] == 10
    period = {"startDate": "2025-02-01T00:00:00Z", "endDate": "2025-02-02T00:00:00Z"}
    id = loaded.send("create_outlay", place, body={"amount": 5, **period}).ok()["id"]
    record = loaded.send("get_outlay", {**place, "outlayId": id}).ok()
    assert record["amount"] == {"amount": 5, "currency": "EUR"}


def test_r097_a_campaign_that_traffic_named_by_its_id_is_listed(service):
    id = new("platform")
    node_data = {"vendorId": VENDOR, "campaignId": id}
    body = {"date": NOON, "userData": {"email": email()}, "nodeData": node_data}
    service.send("create_offline_interaction", body=body).ok()
    # The text is that of a slug; ids are the service's (G-246).
    assert service.send("list_campaigns", PLACE, {"campaignId": id}).ok()["data"] == []
    (record,) = service.send("list_campaigns", PLACE, {"campaignSlug": id}).ok()["data"]
    assert (record["explicit"], record["active"], record["name"]) == (False, True, id)
    id = record["id"]
    assert service.send("update_campaign", {**PLACE, "id": id}, body={"name": "Mine"}).ok() == {
        "modifiedCount": 1
    }
    assert get(service, id).ok()["name"] == "Mine"


def test_r284_the_slug_of_an_implicit_campaign_is_taken(service):
    slug = new("seen")
    implicit(service, slug)
    assert create(service, slug).status == 409


def test_r118_a_campaign_can_be_deactivated_and_activated(service):
    id = create(service).ok()["id"]
    for active in (False, True, False):
        body = {"active": active}
        assert service.send("update_campaign", {**PLACE, "id": id}, body=body).ok() == {"modifiedCount": 1}
        assert get(service, id).ok()["active"] is active


def test_r119_a_campaign_is_active_by_default(service):
    assert get(service, create(service).ok()["id"]).ok()["active"] is True
    assert get(service, create(service, active=False).ok()["id"]).ok()["active"] is False


def test_r278_names_are_found_ignoring_case(listed):
    for text, expected in [("summer", ["a", "b"]), ("SUMMER", ["a", "b"]), ("mer s", ["b"]), ("x", [])]:
        assert sorted(slugs(listed, nameLike=text)) == expected, (text, expected)


def test_r279_wildcards_are_literal_characters(listed):
    for text, expected in [
        ("%", ["a"]),
        ("_", ["a"]),
        ("*", ["c"]),
        (".", ["c"]),
        ("r.*", ["c"]),
        ("s%", []),
        (".*", ["c"]),
        ("\\", []),
    ]:
        assert slugs(listed, nameLike=text) == expected, (text, expected)


def test_r280_campaigns_are_filtered(listed):
    assert slugs(listed, active="false") == ["b"]
    assert slugs(listed, explicit="false") == ["zzz"]
    assert slugs(listed, campaignSlug="c") == ["c"]
    (record,) = listed.send("list_campaigns", PLACE, {"campaignSlug": "c"}).ok()["data"]
    assert slugs(listed, campaignId=record["id"]) == ["c"]
    assert slugs(listed, campaignId="c") == []
    assert "b" not in slugs(listed, active="true")


def test_r280_campaigns_are_sorted(listed):
    page = listed.send("list_campaigns", PLACE).ok()["data"]
    for sort, key in [("name", "name"), ("campaignId", "id"), ("active", "active")]:
        for order in ("ASC", "DESC"):
            data = listed.send("list_campaigns", PLACE, {"sort": sort, "order": order}).ok()["data"]
            values = [entry[key] for entry in data]
            assert values == sorted((entry[key] for entry in page), reverse=order == "DESC")
    assert listed.send("list_campaigns", PLACE, {"sort": "createdAt"}).status == 400
    assert listed.send("list_campaigns", PLACE, {"sort": "name", "order": "asc"}).status == 400


def test_r281_the_page_has_five_members(listed):
    whole = listed.send("list_campaigns", PLACE, {"sort": "name"}).ok()["data"]
    page = listed.send("list_campaigns", PLACE, {"sort": "name", "offset": 1, "limit": 2}).ok()
    assert (page["total"], page["data"]) == (len(whole), whole[1:3])
    assert set(page) == {"data", "count", "total", "offset", "limit"}
    assert (page["offset"], page["limit"], page["count"], len(page["data"])) == (1, 2, 2, 2)


def test_r282_slug_and_name_are_required(service):
    for missing in ["campaignSlug", "name"]:
        body = {"campaignSlug": new("slug"), "name": "Summer"}
        del body[missing]
        assert service.send("create_campaign", PLACE, body=body).status == 400, missing


def test_r282_the_campaign_is_active_and_explicit(service):
    record = get(service, create(service).ok()["id"]).ok()
    assert (record["active"], record["explicit"]) == (True, True)


def test_r283_creating_answers_200_with_the_id_alone(service):
    reply = create(service)
    assert reply.status == 200
    assert set(reply.body) == {"id"}
    assert isinstance(reply.body["id"], str)


def test_r284_an_existing_slug_is_409(service):
    slug = new("slug")
    create(service, slug).ok()
    reply = create(service, slug, name="Another")
    assert (reply.status, f"'{slug}' is taken" in reply.body["message"]) == (409, True)
    assert len(service.send("list_campaigns", PLACE, {"campaignSlug": slug}).ok()["data"]) == 1


def test_r285_one_of_many_concurrent_creations_succeeds(service):
    slug = new("slug")
    with ThreadPoolExecutor(6) as threads:
        statuses = list(threads.map(lambda _: create(service, slug).status, range(6)))
    assert sorted(statuses) == [200, 409, 409, 409, 409, 409]


def test_r286_a_campaign_is_read_by_its_id(service):
    slug = new("slug")
    id = create(service, slug).ok()["id"]
    assert get(service, id).ok()["campaignSlug"] == slug
    assert get(service, slug).status == 404
    assert get(service, "nonsense").status == 404
    seen = implicit(service, new("seen"))
    assert get(service, seen).ok()["id"] == seen


def test_r287_updating_answers_the_number_of_modified_records(service):
    id = create(service).ok()["id"]
    place = {**PLACE, "id": id}
    assert service.send("update_campaign", place, body={"name": "Autumn"}).ok() == {"modifiedCount": 1}
    assert service.send("update_campaign", place, body={"name": "Autumn"}).ok() == {"modifiedCount": 0}
    assert service.send("update_campaign", place, body={}).ok() == {"modifiedCount": 0}
    record = get(service, id).ok()
    assert (record["name"], record["active"]) == ("Autumn", True)


def test_r288_an_unknown_id_modifies_nothing(service):
    for vendor in [VENDOR, "no-such-vendor"]:
        reply = service.send("update_campaign", {"vendorId": vendor, "id": "nonsense"}, body={"name": "x"})
        assert (reply.status, reply.body) == (200, {"modifiedCount": 0}), vendor


def test_r289_the_slug_does_not_change(service):
    slug = new("slug")
    id = create(service, slug).ok()["id"]
    service.send("update_campaign", {**PLACE, "id": id}, body={"campaignSlug": "other", "name": "New"})
    assert get(service, id).ok()["campaignSlug"] == slug
