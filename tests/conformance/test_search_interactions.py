"""Searching interactions (R131 to R159)."""

import pyarrow as pa
import pytest
from conformance.shop import (
    COMMON,
    SESSION_ONLY,
    condition,
    found,
    hex_id,
    node,
    on_node,
    predicate,
    search,
    table,
    uuid,
    visit,
)

#: Everything but what is personal, which comes on request only.
DEFAULT = (COMMON | SESSION_ONLY) - {"userData", "rawUserData", "rawNodeData", "asn"}

OSLO = {
    "countryCode": "NO",
    "state": "Oslo",
    "city": "Oslo",
    "zipcode": "0150",
    "latitude": 59.9,
    "longitude": 10.7,
}


@pytest.fixture(scope="module")
def records():
    """Ten interactions on a tree: ads over brand over shoes (over red) and boots, beside letter."""
    nodes = [
        node("ads", "integration"),
        node("brand", "campaign", "ads"),
        node("shoes", "adset", "brand"),
        node("red", "ad", "shoes"),
        node("boots", "adset", "brand"),
        node("letter", "campaign", "ads"),
    ]
    place = {f"geo__{name}": value for name, value in OSLO.items()}
    visits = [
        visit(1, "2025-01-01T00:00:00Z", nodeId="brand", userAgent__browser__name="Firefox", **place),
        visit(2, "2025-01-02T00:00:00Z", nodeId="shoes", geo__city="Bergen", firstHitId=uuid(2), hitCount=2),
        visit(
            3,
            "2025-01-03T00:00:00Z",
            nodeId="red",
            endDate="2025-01-05T00:00:00Z",
            userData='{"email":"a@b.no"}',
        ),
        visit(4, "2025-01-04T00:00:00Z", nodeId="boots", geo__city="Oslo", geo__countryCode="NO"),
        visit(5, "2025-01-05T00:00:00Z", nodeId="letter", referrer="news", hitCount=7),
        visit(6, "2025-01-06T00:00:00Z", nodeId="ads", type="offline"),
        visit(7, "2025-01-07T00:00:00Z", nodeId="letter", isBot=True),
        visit(8, "2025-01-08T00:00:00Z", nodeId="letter", trafficFilterId="office"),
        visit(9, "2025-01-09T00:00:00Z", nodeId="letter", trafficFilterId="office", isBot=True),
        visit(10, "2025-01-10T00:00:00Z", nodeId="letter", type="offline", trafficFilterId="office"),
    ]
    return {"nodes": table(*nodes), "interactions": table(*visits)}


def ids(project, **body):
    return sorted(found(project, **body))


def status(project, **body):
    return project.send("search_interactions", body=body).status


@pytest.mark.slow
def test_r131_r132_an_empty_body_finds_everything_in_the_default_populations(service):
    for body in [{}, None, b"", b" \n", {"since": None, "limit": None}]:
        page = service.send("search_interactions", body=body).ok()
        assert sorted(int(entry["_id"], 16) for entry in page["data"]) == [1, 2, 3, 4, 5, 6], body


def test_r133_since_is_inclusive(service):
    assert ids(service, since="2025-01-05T00:00:00Z") == [5, 6]
    assert ids(service, since="2025-01-05T00:00:00.001Z") == [6]


def test_r134_until_is_inclusive(service):
    assert ids(service, until="2025-01-02T00:00:00Z") == [1, 2]
    assert ids(service, until="2025-01-01T23:59:59.999Z") == [1]


def test_r135_the_bounds_apply_to_the_start(service):
    """The third lasts over the bound, and has not started after it."""
    assert ids(service, since="2025-01-04T00:00:00Z") == [4, 5, 6]
    assert ids(service, until="2025-01-03T00:00:00Z") == [1, 2, 3]


def test_r136_a_predicate_has_type_field_operator_and_value(service):
    for rule, expected in [
        (predicate("geo.city", "equals", "Oslo"), [1, 4]),
        (predicate("geo.city", "notEquals", "Oslo"), [2, 3, 5, 6]),
        (predicate("nodeId", "in", ["red", "letter"]), [3, 5]),
        (predicate("hitCount", "greaterThan", 2), [5]),
        (predicate("referrer", "contains", "EW"), [5]),
        (predicate("geo.city", "isNotNull"), [1, 2, 4]),
        (predicate("type", "equals", "offline"), [6]),
    ]:
        assert ids(service, interactionFilter=rule) == expected, (rule, expected)


def test_r136_another_shape_is_refused(service):
    for wrong in [
        {"type": "predicate", "field": "geo.town", "operator": "equals", "value": "Oslo"},
        {"type": "predicate", "field": "geo.city", "operator": "is", "value": "Oslo"},
        {"type": "predicate", "field": "geo.city", "operator": "equals"},
        {"type": "predicate", "operator": "equals", "value": "Oslo"},
        {"type": "rule", "field": "geo.city", "operator": "equals", "value": "Oslo"},
        {"field": "geo.city", "operator": "equals", "value": "Oslo"},
    ]:
        assert status(service, interactionFilter=wrong) == 400, wrong


def test_r137_conditions_contain_predicates_and_conditions(service):
    oslo, hits = predicate("geo.city", "equals", "Oslo"), predicate("hitCount", "greaterThan", 1)
    letter, first = predicate("nodeId", "equals", "letter"), predicate("nodeId", "equals", "brand")
    assert ids(service, interactionFilter=condition(oslo, hits, combinator="OR")) == [1, 2, 4, 5]
    assert ids(service, interactionFilter=condition(oslo, first)) == [1]
    nested = condition(condition(oslo, first), condition(hits, letter), combinator="OR")
    assert ids(service, interactionFilter=nested) == [1, 5]
    for wrong in ({**condition(oslo), "condition": "XOR"}, {**condition(oslo), "rules": oslo}):
        assert status(service, interactionFilter=wrong) == 400


def test_r138_a_filter_is_a_predicate_or_a_condition(service):
    rule = predicate("nodeId", "equals", "letter")
    assert ids(service, interactionFilter=rule) == ids(service, interactionFilter=condition(rule)) == [5]


def test_r139_a_node_filter_is_a_condition(service):
    rule = on_node("nodeId", "equals", "boots")
    assert ids(service, nodeFilter=condition(rule)) == [4]
    # A bare predicate is a condition of one rule (G-232).
    assert ids(service, nodeFilter=rule) == [4]
    assert ids(service, nodeFilter=condition(rule, on_node("nodeId", "equals", "red"), combinator="OR")) == [
        3,
        4,
    ]
    nested = condition(condition(rule), condition(on_node("nodeName", "equals", "Boots")))
    assert ids(service, nodeFilter=nested) == [4]
    for wrong in (
        on_node("nonsense", "equals", "x"),
        predicate("nodeId", "equals", "x"),
        {"type": "predicate"},
    ):
        assert status(service, nodeFilter=condition(wrong)) == 400


def test_r140_a_campaign_selects_its_children(service):
    assert ids(service, nodeFilter=condition(on_node("campaignName", "equals", "Brand"))) == [1, 2, 3, 4]
    assert ids(service, nodeFilter=condition(on_node("campaignName", "equals", "Letter"))) == [5]


@pytest.mark.slow
def test_r141_descendants_match_at_any_depth_but_not_ancestors(service):
    assert ids(service, nodeFilter=condition(on_node("nodeId", "equals", "ads"))) == [1, 2, 3, 4, 5, 6]
    assert ids(service, nodeFilter=condition(on_node("adsetName", "equals", "Shoes"))) == [2, 3]
    assert ids(service, nodeFilter=condition(on_node("nodeId", "equals", "red"))) == [3]


def test_r142_an_empty_projection_is_refused(service):
    assert status(service, projection=[]) == 400


def test_r143_another_property_is_refused(service):
    for name in ["userData.email", "hits", "geo.country", "geo.", 5]:
        assert status(service, projection=["_id", name]) == 400, name


def test_r144_a_nested_property_is_returned_alone(service):
    (record,) = search(service, projection=["geo.city"], until="2025-01-01T00:00:00Z")["data"]
    assert record == {"_id": hex_id(1), "geo": {"city": "Oslo"}}
    names = ["userAgent.browser.name", "startDate"]
    (record,) = search(service, projection=names, until="2025-01-01T00:00:00Z")["data"]
    assert record == {
        "_id": hex_id(1),
        "userAgent": {"browser": {"name": "Firefox"}},
        "startDate": "2025-01-01T00:00:00.000Z",
    }


def test_r145_a_parent_is_returned_whole(service):
    for projection in [["geo"], ["geo", "geo.city"], ["geo.city", "geo"]]:
        (record,) = search(service, projection=projection, until="2025-01-01T00:00:00Z")["data"]
        assert record == {"_id": hex_id(1), "geo": OSLO}, projection


def test_r146_projecting_a_property_of_sessions_keeps_offline_interactions(service):
    page = search(service, projection=["hitCount"], since="2025-01-05T00:00:00Z", sort={"startDate": 1})
    assert page["total"] == 2
    assert page["data"] == [{"_id": hex_id(5), "hitCount": 7}, {"_id": hex_id(6)}]


def test_r147_without_a_projection_the_default_properties_are_returned(service):
    (record,) = search(service, until="2025-01-01T00:00:00Z")["data"]
    assert set(record) - {"asn"} == DEFAULT


def test_r148_minus_one_is_descending(service):
    assert found(service, sort={"startDate": -1}) == [6, 5, 4, 3, 2, 1]
    assert found(service, sort={"startDate": 1}) == [1, 2, 3, 4, 5, 6]
    # Those without a city come last; the second key decides between equals.
    assert found(service, sort={"geo.city": 1, "startDate": -1}) == [2, 4, 1, 6, 5, 3]
    assert found(service, sort={"geo.city": -1, "startDate": 1}) == [1, 4, 2, 3, 5, 6]
    for wrong in ({"geo": 1}, {"userData": 1}):
        assert status(service, sort=wrong) == 400  # G-097: an object has no order
    for wrong in ({"startDate": 2}, {"startDate": "desc"}, {"nonsense": 1}, ["startDate"], "startDate"):
        assert status(service, sort=wrong) == 400


def test_r149_without_a_sort_the_same_interactions_are_returned(service):
    assert sorted(found(service)) == sorted(found(service, sort={"nodeId": 1}))


@pytest.mark.slow
def test_r150_without_a_limit_everything_is_returned(new_project):
    """More than any usual size of a page: 100,001 interactions, each of a user of its own."""
    count = 100_001
    many = pa.table(
        {
            "_id": [hex_id(number) for number in range(count)],
            "userId": [hex_id(number) for number in range(count)],
            "nodeId": ["ads"] * count,
            "startDate": ["2025-01-01T00:00:00Z"] * count,
        }
    )
    project = new_project(nodes=table(node("ads")), interactions=many)
    interactions = search(project, projection=["_id"])
    users = project.send("search_users", body={"fields": []}).ok()
    for page in (interactions, users):
        assert (page["limit"], page["count"], page["total"]) == (None, count, count)
        assert len({record["_id"] for record in page["data"]}) == count


def test_r151_filtered_selects_captured_traffic(service):
    for filtered, expected in [
        (True, [8, 10]),
        (False, [1, 2, 3, 4, 5, 6]),
        (None, [1, 2, 3, 4, 5, 6, 8, 10]),
    ]:
        assert ids(service, filtered=filtered) == expected, (filtered, expected)


def test_r152_is_bot_selects_bots(service):
    for is_bot, expected in [(True, [7]), (False, [1, 2, 3, 4, 5, 6]), (None, [1, 2, 3, 4, 5, 6, 7])]:
        assert ids(service, isBot=is_bot) == expected, (is_bot, expected)


def test_r153_absent_means_false_and_null_means_both(service):
    assert ids(service) == ids(service, isBot=False, filtered=False) == [1, 2, 3, 4, 5, 6]
    assert ids(service, isBot=None, filtered=None) == list(range(1, 11))
    for wrong in ("true", 1, "null", []):
        assert status(service, isBot=wrong) == status(service, filtered=wrong) == 400


def test_r154_offline_interactions_are_not_bots(service):
    assert not {6, 10} & set(ids(service, isBot=True, filtered=None))
    for is_bot in (False, None):
        assert {6, 10} <= set(ids(service, isBot=is_bot, filtered=None))


def test_r155_offline_interactions_are_found_by_default(service):
    assert 6 in ids(service)
    assert 10 not in ids(service)


def test_r156_an_answer_has_five_members(service):
    page = search(service, offset=1, limit=2, sort={"startDate": 1})
    assert list(page) == ["offset", "limit", "count", "total", "data"]
    assert [page[name] for name in ("offset", "limit", "count", "total")] == [1, 2, 2, 6]
    assert [int(entry["_id"], 16) for entry in page["data"]] == [2, 3]


def test_r157_a_search_and_an_insight_agree(service):
    for body in [
        {},
        {"isBot": None, "filtered": None},
        {"isBot": True, "filtered": None},
        {"since": "2025-01-03T00:00:00Z", "until": "2025-01-08T00:00:00Z", "filtered": None},
        {"interactionFilter": predicate("geo.city", "notEquals", "Oslo")},
        {"nodeFilter": condition(on_node("campaignName", "equals", "Brand"))},
        {"since": "2026-01-01T00:00:00Z"},
    ]:
        (record,) = service.send("interaction_insights", body=body).ok()
        assert record["sessionCount"] == search(service, **body)["total"], body


def test_r158_the_statuses_of_a_search(service):
    assert status(service) == 200
    assert status(service, limit="all") == 400
    # A page beyond the end, a node that is not there: nothing is found, and nothing is missing.
    assert status(service, offset=10**6) == 200
    assert status(service, nodeFilter=condition(on_node("nodeId", "equals", "gone"))) == 200


def test_r159_since_after_until_finds_nothing(service):
    page = search(service, since="2025-01-05T00:00:00Z", until="2025-01-04T00:00:00Z")
    assert (page["total"], page["data"]) == (0, [])
