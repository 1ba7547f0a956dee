"""Events and metrics of a user (R263 to R269)."""

import pytest
from conformance.shop import hex_id, node, table, uuid, visit

ANNA = hex_id(100)


@pytest.fixture(scope="module")
def records():
    """Three orders, of which the first came before any interaction; one has a state that came later."""
    usual = {"userId": ANNA, "eventType": "order"}
    events = [
        {**usual, "_id": uuid(3), "eventDate": "2025-01-10T00:00:00Z", "createdAt": "2025-03-03T00:00:00Z",
         "updatedAt": "2025-03-04T00:00:00Z", "statistics.items": 3.0},
        {**usual, "_id": uuid(1), "eventDate": "2025-01-20T00:00:00Z", "createdAt": "2025-03-01T00:00:00Z",
         "updatedAt": "2025-03-05T00:00:00Z", "statistics.items": 1.0, "states.confirmed": 1,
         "states.confirmed.date": "2025-01-25T00:00:00Z"},
        {**usual, "_id": uuid(2), "eventDate": "2025-01-01T00:00:00Z", "createdAt": "2025-03-02T00:00:00Z",
         "updatedAt": "2025-03-03T00:00:00Z", "statistics.items": 2.0},
    ]  # fmt: skip
    visits = table(visit(1, "2025-01-05T00:00:00Z", userId=ANNA))
    return {"nodes": table(node("ads")), "events": table(*events), "interactions": visits}


def events(project, id=ANNA, **query):
    return project.send("list_user_events", {"id": id}, query)


def order_of(project, **query):
    return [int(record["_id"][-1]) for record in events(project, **query).ok()["data"]]


def metrics(project, id=ANNA, **query):
    return project.send("list_user_metrics", {"id": id}, query)


def keys(project, **query):
    return sorted(record["key"] for record in metrics(project, **query).ok()["data"])


def test_r263_attributable_keeps_attributable_events(service):
    """An interaction on the fifth can have led to what came after it alone."""
    assert sorted(order_of(service, attributable="true")) == [1, 3]
    assert sorted(order_of(service)) == sorted(order_of(service, attributable="false")) == [1, 2, 3]
    assert {record["attributable"] for record in events(service, attributable="true").ok()["data"]} == {True}


def test_r264_events_are_sorted_by_four_properties(service):
    for sort, expected in [
        ("eventDate", [2, 3, 1]),
        ("createdAt", [1, 2, 3]),
        ("updatedAt", [2, 3, 1]),
        ("_id", [1, 2, 3]),
    ]:
        assert order_of(service, sort=sort, order="ASC") == expected, (sort, expected)
        assert order_of(service, sort=sort, order="DESC") == expected[::-1], (sort, expected)


def test_r264_other_sorts_are_refused(service):
    for wrong in [{"sort": "eventType"}, {"sort": "_id", "order": "asc"}, {"limit": "-1"}]:
        assert events(service, **wrong).status == 400, wrong


def test_r265_the_page_has_five_members(service):
    page = events(service, offset=1, limit=1, sort="_id").ok()
    assert set(page) == {"count", "total", "offset", "limit", "data"}
    assert (page["count"], page["total"], page["offset"], page["limit"]) == (1, 3, 1, 1)
    assert page["data"] == [service.send("get_event", {"id": uuid(2)}).ok()]


def test_r265_an_unknown_user_has_an_empty_page(service):
    for id in [hex_id(999), "nonsense"]:
        reply = events(service, id)
        assert (reply.status, reply.body["total"], reply.body["data"]) == (200, 0, []), id


def test_r266_metrics_are_states_or_statistics_alone(service):
    assert keys(service, type="state") == ["confirmed"]
    statistics = keys(service, type="statistic")
    assert {"items", "event-count"} <= set(statistics)
    assert "confirmed" not in statistics
    assert keys(service) == sorted(["confirmed", *statistics])
    assert metrics(service, type="metric").status == 400


def test_r267_the_bounds_apply_to_the_date_of_the_metric(service):
    """The state is of an event before the bound; records were made long after both."""
    assert keys(service, since="2025-01-25T00:00:00Z", type="state") == ["confirmed"]
    assert keys(service, until="2025-01-25T00:00:00Z", type="state") == ["confirmed"]
    assert keys(service, since="2025-01-25T00:00:00.001Z", type="state") == []
    assert keys(service, until="2025-01-24T23:59:59.999Z", type="state") == []
    first = metrics(
        service, since="2025-01-01T00:00:00Z", until="2025-01-09T00:00:00Z", type="statistic"
    ).ok()
    assert {record["eventId"] for record in first["data"]} == {uuid(2)}


def test_r268_metrics_are_sorted_by_three_properties(service):
    for sort, name in [("createdAt", "createdAt"), ("updatedAt", "updatedAt"), ("metricDate", "date")]:
        page = metrics(service).ok()["data"]
        values = sorted(record[name] if name in record else record["data"][name] for record in page)
        assert len(set(values)) > 2, (sort, name)
        for order, expected in (("ASC", values), ("DESC", values[::-1])):
            found = metrics(service, sort=sort, order=order).ok()["data"]
            assert [
                record[name] if name in record else record["data"][name] for record in found
            ] == expected, (sort, name)
        assert metrics(service, sort="date").status == 400, (sort, name)


def test_r269_metrics_of_an_unknown_user_are_404(service):
    for id in [hex_id(999), "nonsense"]:
        assert metrics(service, id).status == 404, id
