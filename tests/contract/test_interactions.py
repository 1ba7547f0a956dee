"""Requests about interactions and nodes."""

from collections.abc import Callable
from datetime import timedelta

from attrib_ds.contract import Request
from attrib_ds.filters import event, interaction, node, user

Ask = Callable[..., Request]
Refusal = Callable[..., str]

PARIS = {"type": "predicate", "field": "geo.city", "operator": "equals", "value": "Paris"}
SEARCH = {"id": "x", "type": "predicate", "filterId": "channel", "operator": "equals", "value": "search"}

#: The projection list of the specification, in its order.
PROPERTIES = [
    "_id",
    "projectId",
    "type",
    "userId",
    "userLifetimeIndex",
    "startDate",
    "endDate",
    "duration",
    "ingestedAt",
    "createdAt",
    "updateDate",
    "userData",
    "integrationId",
    "nodeId",
    "externalId",
    "firstHitId",
    "hitCount",
    "isBot",
    "referrer",
    "referrerType",
    "trafficFilterId",
    "partialResolvedVendorId",
    "vendorUpdateDate",
    "rawUserData",
    "rawNodeData",
    "firstPage",
    "firstPageUrl",
    "firstPageUrl.protocol",
    "firstPageUrl.hostname",
    "firstPageUrl.port",
    "firstPageUrl.origin",
    "firstPageUrl.pathname",
    "firstPageUrl.search",
    "firstPageUrl.hash",
    "userAgent",
    "userAgent.ua",
    "userAgent.browser",
    "userAgent.browser.name",
    "userAgent.browser.version",
    "userAgent.browser.major",
    "userAgent.engine",
    "userAgent.engine.name",
    "userAgent.engine.version",
    "userAgent.os",
    "userAgent.os.name",
    "userAgent.os.version",
    "userAgent.device",
    "userAgent.device.vendor",
    "userAgent.device.model",
    "userAgent.device.type",
    "userAgent.cpu",
    "userAgent.cpu.architecture",
    "asn",
    "asn.asnId",
    "asn.asnName",
    "geo",
    "geo.countryCode",
    "geo.state",
    "geo.city",
    "geo.latitude",
    "geo.longitude",
    "geo.zipcode",
]


def test_an_empty_body_is_valid(receive: Ask) -> None:  # R131
    assert receive("search_interactions", body={}) == receive("search_interactions", body=None)


def test_every_property_can_be_projected(ask: Ask) -> None:
    assert len(PROPERTIES) == 62
    assert ask("search_interactions", columns=PROPERTIES).projection == tuple(PROPERTIES)


def test_other_names_cannot_be_projected(refusal):
    for refused in [
        "userData.email",
        "hits",
        "geo.country",
        "Geo",
        "geo.",
        "userAgent.browser.nme",
        "",
        "_ID",
        5,
        None,
    ]:
        assert refusal("search_interactions", columns=["type", refused]).startswith("columns/1: "), refused


def test_the_closest_property_is_named(refusal: Refusal) -> None:
    message = refusal("search_interactions", columns=["geo.cty"])
    assert message.startswith(
        "columns/0: 'geo.cty' is not allowed (did you mean 'geo.city'?); allowed: _id, "
    )


def test_an_empty_projection_is_refused(refusal: Refusal, bad_request: Refusal) -> None:  # R142
    told = "[] is not allowed; expected a list of 1 to 10,000 items"
    assert refusal("search_interactions", columns=[]) == f"columns: {told}"
    assert bad_request("search_interactions", body={"projection": []}) == f"/projection: {told}"


def test_an_iterator_is_a_list_too(ask: Ask, refusal: Refusal) -> None:
    assert ask("search_interactions", columns=iter(["type"])).projection == ("type",)
    assert refusal("search_interactions", columns=iter([])).startswith("columns: ")


def test_a_projection_is_a_list(refusal: Refusal) -> None:
    assert refusal("search_interactions", columns="geo") == "columns: 'geo' is not allowed; expected a list"


def test_filters_are_predicates_or_their_json(ask: Ask) -> None:  # R136 to R139
    predicate = interaction("geo.city") == "Paris"
    assert ask("search_interactions", where=predicate).interactionFilter == predicate
    assert ask("search_interactions", where=PARIS).interactionFilter == predicate
    tree = {"id": "1", "type": "condition", "condition": "OR", "rules": [PARIS, PARIS]}
    assert ask("search_interactions", where=tree).interactionFilter == predicate | predicate


def test_a_node_filter_becomes_a_condition(ask: Ask) -> None:  # R139
    predicate = node("channel") == "search"
    wrapped = {"type": "condition", "condition": "AND", "rules": [SEARCH]}
    expected = ask("search_interactions", nodes=wrapped).nodeFilter
    assert expected.rules == (predicate,)
    assert ask("search_interactions", nodes=predicate).nodeFilter == expected
    assert ask("search_interactions", nodes=SEARCH).nodeFilter == expected


def test_a_filter_of_another_kind_is_refused(refusal):
    for other in [user("eventCount") > 1, event("eventType") == "order", node("adId") == "1"]:
        message = refusal("search_interactions", where=other)
        assert message.startswith("where: filters "), other
        assert message.endswith("expected a predicate that starts with interaction(...)"), other


def test_what_is_no_filter_is_refused(refusal):
    for refused in ["geo.city = 'Paris'", 5, [PARIS], True]:
        assert refusal("search_interactions", where=refused).startswith("where: "), refused


def test_a_misspelled_field_in_a_filter_is_found_by_its_pointer(
    refusal: Refusal, bad_request: Refusal
) -> None:  # G-043
    tree = {"type": "condition", "condition": "AND", "rules": [PARIS, PARIS | {"field": "geo.cty"}]}
    assert refusal("search_interactions", where=tree).startswith("where/rules/1/field: 'geo.cty'")
    message = bad_request("search_interactions", body={"interactionFilter": tree})
    assert message.startswith("/interactionFilter/rules/1/field: 'geo.cty'")


def test_groups_accepted(ask):
    for accepted in [
        "geo.countryCode",
        "type",
        "isBot",
        "nodeId",
        "hitCount",
        "userLifetimeIndex",
        "firstPageUrl.hash",
    ]:
        assert ask("interaction_insights", group_by=accepted).group == accepted, accepted


def test_groups_refused(refusal):
    for refused in [
        "geo",
        "userAgent",
        "userAgent.browser",
        "firstPageUrl",
        "asn",
        "_id",
        "firstHitId",
        "startDate",
        "endDate",
        "createdAt",
        "vendorUpdateDate",
        "duration",
        "geo.latitude",
        "geo.longitude",
        "userData",
        "rawNodeData",
        "geo.city,geo.state",
        "nonsense",
        "",
        ["geo.city"],
        ["geo.city", "geo.state"],
        {"geo.city": 1},
    ]:
        assert refusal("interaction_insights", group_by=refused).startswith("group_by: "), refused


def test_intervals_refused(refusal):
    for refused in ["hour", "Day", "decade", "fortnight", "", "day ", 1]:
        assert refusal("interaction_insights", interval=refused).startswith("interval: "), refused


def test_windows_of_funnels(ask, refusal):
    accepted = ["session", "1s", "90min", "36h", "30D", "366D"]
    for window in accepted:
        assert ask("funnel", steps=["/", "/till"], window=window).window == window
    assert ask("funnel", steps=["/", "/till"], window=timedelta(minutes=2)).window == "120s"
    for window in [
        "",
        "0s",
        "01h",
        "1",
        "h",
        "1.5h",
        "-1h",
        "1w",
        "367D",
        "31622401s",
        5,
        timedelta(0),
        timedelta(seconds=0.5),
    ]:
        assert refusal("funnel", steps=["/", "/till"], window=window).startswith("window: "), window


PERIOD = {"since": "2025-01-01T00:00:00Z", "until": "2025-01-31T00:00:00Z"}


def test_custom_segments_accepted(ask):
    for accepted in [1, 1_000]:
        request = ask("interaction_insights", interval="custom", segments=accepted, **PERIOD)
        assert (request.interval, request.segmentCount) == ("custom", accepted), accepted


def test_custom_segments_refused(refusal):
    for refused in [0, -1, 1_001, 1.5, "3", True]:
        message = refusal("interaction_insights", interval="custom", segments=refused, **PERIOD)
        assert message.startswith("segments: "), refused
        assert message.endswith("1 to 1000"), refused


def test_a_custom_interval_needs_bounds_and_a_count(refusal: Refusal, bad_request: Refusal) -> None:
    assert refusal("interaction_insights", interval="custom") == (
        "segments: is required when interval is 'custom'; since: is required when interval is 'custom'; "
        "until: is required when interval is 'custom'"
    )
    assert bad_request("interaction_insights", body=PERIOD | {"interval": "custom"}) == (
        "/segmentCount: is required when /interval is 'custom'"
    )


def test_a_count_of_segments_is_ignored_without_a_custom_interval(ask: Ask) -> None:
    assert ask("interaction_insights", interval="day", segments=5_000).segmentCount == 5_000


def test_insights_are_sorted_by_what_they_answer(ask):
    for accepted in ["sessionCount", "hitCount", "durationSum", "group", "interval"]:
        assert ask("interaction_insights", sort={accepted: -1}).sort == {accepted: -1}, accepted


def test_an_object_has_no_order(refusal: Refusal) -> None:  # G-097
    message = refusal("search_interactions", sort={"asn": 1})
    assert (
        message
        == "sort: cannot sort by 'asn', an object, which has no order; name a member: asn.asnId, asn.asnName"
    )
    assert refusal("search_interactions", sort={"userData": 1}).startswith("sort: cannot sort by 'userData'")


def test_insights_are_not_sorted_by_properties(refusal: Refusal) -> None:
    assert refusal("interaction_insights", sort={"startDate": -1}).startswith("sort: ")


OFFLINE = {
    "date": "2025-01-01T10:00:00Z",
    "userData": {"email": "ada@example.org"},
    "nodeData": {"vendorId": "my-ads", "campaignId": 7},
}


def test_offline_interactions_accepted(ask: Ask) -> None:
    request = ask("create_offline_interaction", **OFFLINE)
    assert request.nodeData == {"vendorId": "my-ads", "campaignId": 7}  # R029: unchanged
    assert request.externalId is None


def test_offline_interactions_need_everything(refusal):
    for missing in OFFLINE:
        rest = {name: value for name, value in OFFLINE.items() if name != missing}
        assert "is required" in refusal("create_offline_interaction", **rest), missing


def test_offline_interactions_refused(bad_request):
    for changed, label in [
        ({"nodeData": {"campaignId": 7}}, "/nodeData"),  # R184
        ({"nodeData": {"vendorId": None}}, "/nodeData"),
        ({"nodeData": {"vendorId": 5}}, "/nodeData"),
        ({"nodeData": []}, "/nodeData"),
        ({"userData": {}}, "/userData"),
        ({"userData": {"email": None, "phone": " "}}, "/userData"),
        ({"userData": "ada@example.org"}, "/userData"),
        ({"date": "2025-01-01"}, "/date"),
        ({"date": "1970-01-20T00:00:00Z"}, "/date"),  # G-041
        ({"externalId": ""}, "/externalId"),
        ({"externalId": 5}, "/externalId"),
    ]:
        message = bad_request("create_offline_interaction", body=OFFLINE | changed)
        assert message.startswith(f"{label}: "), (changed, label)
        assert "; /" not in message, (changed, label)


def test_a_missing_vendor_is_told(refusal: Refusal) -> None:
    assert refusal("create_offline_interaction", **(OFFLINE | {"nodeData": {}})) == (
        "node_data: has no vendorId; expected an object with the vendorId (text) of an integration"
    )


def test_types_accepted(receive):
    for accepted in ["channel", "integration", "campaign", "adset", "ad", "keyword", "referrer"]:
        assert receive("list_nodes", query={"type": accepted, "limit": "5"}).type == accepted, accepted


def test_types_refused(bad_request: Refusal) -> None:
    assert "(did you mean 'campaign'?)" in bad_request("list_nodes", query={"type": "campagne"})


def test_ids_are_free_texts(ask):
    for accepted in ["123", "ads:7/9", "n" * 128]:
        assert ask("get_node", id=accepted).id == accepted, accepted


def test_records_to_load(ask):
    for accepted in ["interactions", "hits", "events", "nodes", "spend"]:
        source = object()
        request = ask("load_records", project_id="shop", resource=accepted, source=source)
        assert (request.resource, request.source) == (accepted, source), accepted


def test_records_not_to_load(refusal: Refusal) -> None:
    assert refusal("load_records", project_id="shop", resource="users", source=[]).startswith("resource: ")
