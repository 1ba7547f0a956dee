"""Users, who are derived from their events and interactions (R039, R077 to R087, R255)."""

import pytest
from conformance.shop import (
    NOON,
    VENDOR,
    computed,
    declared,
    email,
    event,
    hex_id,
    hit,
    node,
    send_event,
    table,
    uuid,
    visit,
)

ANNA, BEN = hex_id(100), hex_id(101)


@pytest.fixture(scope="module")
def records():
    """Anna has three interactions and three events, which are not in the order of their dates."""
    visits = [
        visit(1, "2025-01-05T00:00:00Z", userId=ANNA, nodeId="letter", type="offline"),
        visit(2, "2025-01-09T00:00:00Z", userId=ANNA, nodeId="direct", hitCount=1, firstHitId=uuid(21)),
        visit(3, "2025-01-01T00:00:00Z", userId=ANNA, hitCount=3, endDate="2025-01-01T00:01:00Z"),
        visit(4, "2025-01-01T00:00:00Z", userId=BEN, nodeId="direct", hitCount=7),
    ]
    usual = {"userId": ANNA, "eventType": "order", "statistics.turnover.currency": "EUR"}
    events = [
        {**usual, "_id": uuid(1), "eventDate": "2025-01-20T00:00:00Z", "statistics.turnover.amount": 30.0},
        {**usual, "_id": uuid(2), "eventDate": "2025-01-10T00:00:00Z", "statistics.turnover.amount": 10.0},
        {"_id": uuid(3), "userId": ANNA, "eventDate": "2025-01-15T00:00:00Z", "eventType": "lead"},
    ]
    nodes = [node("ads"), node("letter"), node("direct", "channel")]
    return {
        "nodes": table(*nodes),
        "interactions": table(*visits),
        "events": table(*events),
        "hits": table(hit(21, 2, "2025-01-09T00:00:00Z")),
    }


def get(project, id=ANNA):
    return project.send("get_user", {"id": id}).ok()


def user_of(project, *bodies):
    """Send events of one new person and return the user."""
    mail = email()
    ids = [send_event(project, mail, **body) for body in bodies]
    (id,) = {computed(project, record)["userId"] for record in ids}
    return get(project, id), ids


def test_r039_the_first_and_last_node_are_those_of_the_interactions(service):
    user = get(service)
    assert (user["firstInteractionNodeId"], user["lastInteractionNodeId"]) == ("ads", "direct")
    assert user["firstInteractionDate"] == "2025-01-01T00:00:00.000Z"
    assert user["lastInteractionDate"] == "2025-01-09T00:00:00.000Z"


def test_r077_fields_are_arrays_of_values(service):
    user, (first, second) = user_of(
        service,
        {"data": {"firstName": " Anna "}},
        {"data": {"firstName": "Anya"}, "eventDate": "2025-02-01T00:00:00Z"},
    )
    assert user["fields"]["firstName"] == [
        {
            "type": "string",
            "current": "Anna",
            "raw": " Anna ",
            "date": "2025-01-31T12:00:00.000Z",
            "invalid": False,
            "anonymized": False,
            "discriminant": False,
            "from": {"type": "event", "id": first},
        },
        {
            "type": "string",
            "current": "Anya",
            "raw": "Anya",
            "date": "2025-02-01T00:00:00.000Z",
            "invalid": False,
            "anonymized": False,
            "discriminant": False,
            "from": {"type": "event", "id": second},
        },
    ]
    (mail,) = user["fields"]["email"]
    assert mail["discriminant"] is True


def test_r078_a_value_of_an_event_names_the_event(service):
    user, (id,) = user_of(service, {"data": {"phone": "0612345678"}})
    for values in user["fields"].values():
        assert [record["from"] for record in values] == [{"type": "event", "id": id}]


def test_r079_events_are_counted_by_type(service):
    user = get(service)
    assert user["eventTypesCount"] == {"order": 2, "lead": 1}
    assert user["eventTypeMeta"] == {
        "order": {
            "count": 2,
            "firstDate": "2025-01-10T00:00:00.000Z",
            "lastDate": "2025-01-20T00:00:00.000Z",
        },
        "lead": {
            "count": 1,
            "firstDate": "2025-01-15T00:00:00.000Z",
            "lastDate": "2025-01-15T00:00:00.000Z",
        },
    }


def test_r080_r081_metrics_are_aggregated(service):
    turnover = get(service)["metrics"]["turnover"]
    named = {name: turnover[name] for name in ("type", "sum", "max", "min", "count", "average")}
    assert named == {"type": "statistic", "sum": 40, "max": 30, "min": 10, "count": 2, "average": 20}


def test_r081_the_average_is_sum_divided_by_count_for_every_metric(service):
    data = [{"turnover": 1.5, "items": 7, "confirmed": 1}, {"turnover": 2, "items": -1}, {"confirmed": 0}]
    user, _ = user_of(service, *({"data": record} for record in data))
    assert {"turnover", "items", "confirmed", "event-count", "state-delay-confirmed"} <= set(user["metrics"])
    for record in user["metrics"].values():
        assert record["average"] == pytest.approx(record["sum"] / record["count"])
        assert record["min"] <= record["average"] <= record["max"]


def test_r082_the_counts_by_type_add_up(service):
    user = get(service)
    assert user["eventCount"] == 3 == sum(user["eventTypesCount"].values())
    assert {key: record["count"] for key, record in user["eventTypeMeta"].items()} == user["eventTypesCount"]


def test_r083_event_dates_are_bounds_in_any_order_of_arrival(service):
    user = get(service)
    assert (user["firstEventDate"], user["lastEventDate"]) == (
        "2025-01-10T00:00:00.000Z",
        "2025-01-20T00:00:00.000Z",
    )
    late, _ = user_of(service, {}, {"eventDate": "2024-12-01T00:00:00Z"})
    assert (late["firstEventDate"], late["lastEventDate"]) == (
        "2024-12-01T00:00:00.000Z",
        "2025-01-31T12:00:00.000Z",
    )


def test_r084_sessions_and_offline_interactions_are_counted(service):
    user = get(service)
    assert user["interactionCount"] == 3
    # A session of three hits and a minute, one of one hit, and a contact without any.
    assert (user["hitCount"], user["interactionDuration"]) == (4, 60)
    assert user["averageHitCount"] == pytest.approx(4 / 3)
    assert user["averageInteractionDuration"] == 20


def test_r084_a_new_interaction_is_counted(service):
    mail = email()
    for _ in range(2):
        body = {"date": NOON, "userData": {"email": mail}, "nodeData": {"vendorId": VENDOR}}
        created = service.send("create_offline_interaction", body=body).ok()
    assert get(service, created["userId"])["interactionCount"] == 2


def test_r085_the_most_probable_location_has_a_point(service):
    place = {"address": "1 Main Street, Oslo", "longitude": 10.75, "latitude": 59.91}
    user, _ = user_of(service, {"data": {"address": place}})
    assert user["mostProbableLocation"] == {
        "source": "event-based",
        "confidence": 0,
        "location": {"type": "Point", "coordinates": [10.75, 59.91]},
    }


def test_r086_vendor_ids_and_audiences_are_arrays_of_text(service):
    user, _ = user_of(service, {"data": {"vendorUserId": "v-86"}})
    assert user["vendorUserIds"] == ["v-86"]
    assert user["audienceIds"] == []
    condition = {
        "type": "fields",
        "field": "email",
        "operator": "equals",
        "value": user["fields"]["email"][0]["current"],
    }
    made = service.send("create_audience", body={"name": "One", "condition": condition}).ok()
    assert get(service, user["_id"])["audienceIds"] == [made["_id"]]
    assert get(service)["audienceIds"] == []


def test_r087_counters_equal_a_recount(service):
    user, _ = user_of(service, *({"data": {"turnover": record}} for record in (1, 2, 4)))
    place = {"id": user["_id"]}
    events = service.send("list_user_events", place).ok()["data"]
    amounts = [
        record["data"]["current"]["amount"]
        for event in events
        for record in event["metrics"]
        if record["key"] == "turnover"
    ]
    assert user["eventCount"] == len(events) == 3
    assert user["metrics"]["turnover"]["sum"] == sum(amounts) == 7
    rule = {"type": "predicate", "field": "userId", "operator": "equals", "value": ANNA}
    page = service.send("search_interactions", body={"interactionFilter": rule}).ok()
    assert get(service)["interactionCount"] == page["total"] == 3


def test_r087_counters_count_what_a_default_search_returns(new_project):
    """G-222: neither bots nor filtered traffic; userLifetimeIndex numbers all interactions."""
    own = {"userId": ANNA, "nodeId": "ads"}
    visits = [
        visit(1, "2025-01-01T00:00:00Z", isBot=True, hitCount=5, **own),
        visit(2, "2025-01-02T00:00:00Z", hitCount=2, **own),
        visit(3, "2025-01-03T00:00:00Z", hitCount=4, **own),
        visit(4, "2025-01-04T00:00:00Z", trafficFilterId="office", hitCount=7, **own | {"nodeId": "letter"}),
    ]
    nodes = table(node("ads"), node("letter"))
    project = new_project(nodes=nodes, interactions=table(*visits))
    user = get(project)
    assert (user["interactionCount"], user["hitCount"]) == (2, 6)
    assert (user["firstInteractionDate"], user["lastInteractionDate"]) == (
        "2025-01-02T00:00:00.000Z",
        "2025-01-03T00:00:00.000Z",
    )
    assert user["lastInteractionNodeId"] == "ads"
    page = project.send("search_interactions", body={"sort": {"startDate": 1}}).ok()["data"]
    assert [record["userLifetimeIndex"] for record in page] == [2, 3]


def test_r255_the_user_is_returned_whole(service):
    kind = {"reference": "lead", "name": "Lead", "fields": [declared("string", "user", "email")]}
    assert service.send("create_event_type", body=kind).status == 201
    user, _ = user_of(service, {"data": {"address": {"longitude": 1, "latitude": 2}}})
    assert set(user) - {"mostProbableLocation"} == {
        "_id",
        "projectId",
        "fields",
        "vendorUserIds",
        "audienceIds",
        "eventCount",
        "eventTypesCount",
        "eventTypeMeta",
        "metrics",
        "firstEventDate",
        "lastEventDate",
        "interactionCount",
        "hitCount",
        "averageHitCount",
        "interactionDuration",
        "averageInteractionDuration",
        "firstInteractionDate",
        "lastInteractionDate",
        "firstInteractionNodeId",
        "lastInteractionNodeId",
        "createdAt",
        "updatedAt",
    }
    assert user["projectId"] == service.id


def test_r255_a_malformed_id_is_400_and_an_unknown_one_404(service):
    for id, status in [
        (hex_id(999), 404),
        ("nonsense", 400),
        ("A" * 24, 400),
        ("a" * 23, 400),
        (uuid(1), 400),
    ]:
        assert service.send("get_user", {"id": id}).status == status, (id, status)


def test_r255_a_user_of_another_project_is_unknown(service, fresh):
    other = fresh.send("create_event_sync", body=event(fresh, email())).ok()
    assert service.send("get_user", {"id": computed(fresh, other)["userId"]}).status == 404
