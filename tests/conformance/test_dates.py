"""The date-time rule (R009 to R014)."""

import re
from datetime import datetime, timedelta, timezone

import pytest
from conformance.shop import (
    VENDOR,
    computed,
    email,
    event,
    found,
    hex_id,
    hit,
    new,
    node,
    predicate,
    search,
    send_event,
    table,
    trash,
    uuid,
    visit,
)

RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
#: The first moment of 2025.
SAME = [
    "2025-01-01T00:00:00",
    "2025-01-01T00:00:00Z",
    "2025-01-01T02:00:00+02:00",
    "2024-12-31T12:30:00-11:30",
]
NO_DATES = ["yesterday", 1735689600000, [], "2025-02-30T00:00:00Z"]


@pytest.fixture(scope="module")
def records():
    visits = [
        visit(1, "2024-12-31T23:59:59.999Z"),
        visit(2, "2025-01-01T00:00:00Z", firstHitId=uuid(1), createdAt="2025-01-01T00:00:00Z", hitCount=1),
        # As text 2025-01-01T09 is later than 2025-01-01T08, as an instant it is earlier.
        visit(3, "2025-01-01T09:00:00+05:00"),
        visit(4, "2025-01-01T08:00:00Z"),
    ]
    return {
        "nodes": table(node("ads")),
        "interactions": table(*visits),
        "hits": table(hit(1, 2, "2025-01-01T00:00:00Z")),
    }


def test_r009_without_an_offset_a_value_is_utc(service):
    assert found(service, until="2025-01-01T00:00:00", sort={"_id": 1}) == [1, 2]
    assert found(service, since="2025-01-01T00:00:00", sort={"_id": 1}) == [2, 3, 4]


FINE = "2025-01-31T12:00:00.1239999Z"
KEPT = "2025-01-31T12:00:00.123Z"


@pytest.mark.slow
def test_r012_a_loaded_instant_is_kept_in_milliseconds(new_project):
    """G-224: truncated when it is kept; a lower bound is rounded up."""
    project = new_project(
        nodes=table(node("ads")),
        interactions=table(
            visit(
                1,
                FINE,
                firstHitId=uuid(1),
                hitCount=1,
                endDate=FINE,
                createdAt=FINE,
                updateDate=FINE,
                ingestedAt=FINE,
            )
        ),
        hits=table(hit(1, 1, FINE)),
    )
    record = project.send("get_interaction", {"id": hex_id(1)}).ok()
    names = ("startDate", "endDate", "createdAt", "updateDate", "ingestedAt")
    assert {record[name] for name in names} == {KEPT}
    (first,) = project.send("list_hits", {"firstHitId": uuid(1)}).ok()
    assert first["serverDate"] == KEPT
    for bounds in ({"since": KEPT}, {"until": FINE}, {"since": KEPT, "until": KEPT}):
        assert found(project, **bounds) == [1]
    assert found(project, since=FINE) == []
    same = {"type": "predicate", "field": "startDate", "operator": "equals", "value": FINE}
    assert found(project, interactionFilter=same) == [1]


def test_r012_an_event_is_kept_in_milliseconds(service):
    body = event(service, eventDate=FINE)
    id = service.send("create_event_sync", body=body).ok()
    record = computed(service, id)
    assert record["eventDate"] == KEPT
    assert all(re.search(r"\.\d{3}Z$", record[name]) for name in ("createdAt", "updatedAt"))
    # Digits that are not kept do not make it another event.
    assert service.send("create_event_sync", body={**body, "eventDate": KEPT}).ok() == id
    assert (
        service.send("create_event_sync", body={**body, "eventDate": "2025-01-31T12:00:00.124Z"}).status
        == 409
    )


def test_r012_an_offline_interaction_is_kept_in_milliseconds(fresh):
    body = {"date": FINE, "userData": {"email": email()}, "nodeData": {"vendorId": VENDOR}}
    record = fresh.send("create_offline_interaction", body=body).ok()
    assert (record["startDate"], record["endDate"]) == (KEPT, KEPT)
    assert re.search(r"\.\d{3}Z$", record["createdAt"])


def test_r009_also_where_it_is_stored(service):
    id = service.send("create_event_sync", body=event(service, eventDate="2025-01-31T12:00:00")).ok()
    assert computed(service, id)["eventDate"] == "2025-01-31T12:00:00.000Z"


def test_r010_any_offset_is_accepted_in_a_body(service):
    for offset in ["+02:00", "-11:30", "Z", "+14:00", "-00:00"]:
        assert (
            service.send("search_interactions", body={"since": f"2025-01-01T00:00:00{offset}"}).status == 200
        ), offset


def test_r010_any_offset_is_accepted_in_a_query(service):
    for offset in ["+02:00", "-11:30", "Z"]:
        query = {"since": f"2025-01-01T00:00:00{offset}", "until": f"2030-01-01T00:00:00{offset}"}
        assert service.send("list_trashed_events", query=query).status == 200, offset
        assert (
            service.send("list_outlays", {"vendorId": VENDOR, "parentCampaignId": "x"}, query).status == 200
        ), offset


def test_r010_r011_the_offset_of_a_query_counts(fresh):
    """Half an hour before and after, told by clocks two hours ahead and eleven and a half behind."""
    record = trash(fresh, data={"mail": None})
    moment = datetime.fromisoformat(record["processingDate"])
    for hours in (2, -11.5):
        zone = timezone(timedelta(hours=hours))
        before, after = ((moment + timedelta(minutes=minutes)).astimezone(zone) for minutes in (-30, 30))
        for query, expected in [
            ({"since": before, "until": after}, [record]),
            ({"until": before}, []),
            ({"since": after}, []),
        ]:
            bounds = {name: bound.isoformat() for name, bound in query.items()}
            assert fresh.send("list_trashed_events", query=bounds).ok()["data"] == expected


def test_r011_one_instant_in_any_offset_selects_the_same(service):
    for bound in SAME:
        assert found(service, since=bound, until=bound) == [2], bound
        rule = predicate("startDate", "equals", bound)
        assert found(service, interactionFilter=rule) == [2], bound


def test_r011_one_instant_in_any_offset_is_stored_as_the_same(service):
    for date in SAME:
        id = service.send("create_event_sync", body=event(service, eventDate=date)).ok()
        assert computed(service, id)["eventDate"] == "2025-01-01T00:00:00.000Z", date


def dates(record):
    """Return every member named for a date, at any depth."""
    if isinstance(record, list):
        return [element for item in record for element in dates(item)]
    if not isinstance(record, dict):
        return []
    own = [
        value
        for name, value in record.items()
        if re.search(r"(Date|At|^date)$", name) and value is not None and not isinstance(value, dict)
    ]
    return own + [element for value in record.values() for element in dates(value)]


def test_r012_every_date_in_an_answer_is_rfc_3339(service):
    id = service.send("create_event_sync", body=event(service, data={"confirmed": 1})).ok()
    trash(service, data={"mail": None})
    campaign = {"campaignSlug": "dates", "name": "Dates"}
    place = {
        "vendorId": VENDOR,
        "id": service.send("create_campaign", {"vendorId": VENDOR}, body=campaign).ok()["id"],
    }
    outlay = {"amount": 5, "startDate": SAME[2], "endDate": "2025-02-01T00:00:00+02:00"}
    spent = {"vendorId": VENDOR, "parentCampaignId": place["id"]}
    service.send("create_outlay", spent, body=outlay).ok()
    user = {"id": computed(service, id)["userId"]}
    answers = {
        "user": service.send("get_user", user).ok(),
        "users": service.send("search_users", body={"fields": ["firstEventDate", "createdAt"]}).ok(),
        "user's events": service.send("list_user_events", user).ok(),
        "user's metrics": service.send("list_user_metrics", user).ok(),
        "outlays": service.send("list_outlays", spent).ok(),
        "interactions": search(service),
        "hits": service.send("list_hits", {"firstHitId": uuid(1)}).ok(),
        "event": computed(service, id),
        "raw": service.send("get_raw_event", {"id": id}).ok(),
        "trash": service.send("list_trashed_events").ok(),
        "types": service.send("list_event_types").ok(),
        "campaign": service.send("get_campaign", place).ok(),
    }
    for name, answer in answers.items():
        told = dates(answer)
        assert told, name
        assert [element for element in told if not RFC_3339.fullmatch(element)] == [], name


def test_r013_other_values_than_dates_are_refused_in_a_body(service):
    for value in NO_DATES:
        assert service.send("search_interactions", body={"since": value}).status == 400, value
        assert service.send("interaction_insights", body={"until": value}).status == 400, value
        insights = {"until": "2025-02-01T00:00:00Z", "metrics": [], "groupBy": "project", "interval": "day"}
        assert service.send("event_insights", body={**insights, "since": value}).status == 400, value
        offline = {"userData": {"email": email()}, "nodeData": {"vendorId": VENDOR}}
        assert service.send("create_offline_interaction", body={**offline, "date": value}).status == 400, (
            value
        )
        state = {"id": send_event(service), "storageKey": "confirmed"}
        assert service.send("update_event_state", state, body={"value": 1, "date": value}).status == 400, (
            value
        )
        campaign = {"campaignSlug": new("dated"), "name": "Dated"}
        id = service.send("create_campaign", {"vendorId": VENDOR}, body=campaign).ok()["id"]
        outlay = {"amount": 5, "startDate": value, "endDate": "2025-02-01T00:00:00Z"}
        place = {"vendorId": VENDOR, "parentCampaignId": id}
        assert service.send("create_outlay", place, body=outlay).status == 400, value


def test_r013_other_values_than_dates_are_refused_in_a_query(service):
    for value in ["yesterday", "5", "2025-02-30T00:00:00Z"]:
        assert service.send("list_trashed_events", query={"since": value}).status == 400, value
        place = {"vendorId": VENDOR, "parentCampaignId": "x"}
        assert service.send("list_outlays", place, {"until": value}).status == 400, value


def test_r014_dates_are_filtered_as_instants(service):
    rule = predicate("startDate", "lessThan", "2025-01-01T03:00:00-01:00")
    assert found(service, interactionFilter=rule, sort={"_id": 1}) == [1, 2]
    rule = predicate("startDate", "lessThanOrEquals", "2025-01-01T03:00:00-01:00")
    assert found(service, interactionFilter=rule, sort={"_id": 1}) == [1, 2, 3]
    # Not all have been created at a known moment.
    rule = predicate("createdAt", "in", ["2025-01-01T05:30:00+05:30"])
    assert found(service, interactionFilter=rule) == [2]


def test_r014_a_bound_within_a_millisecond_is_compared_as_it_is(service):
    """G-224: lower bounds are rounded up, upper ones down; 2 is a visit of the first millisecond of 2025."""
    within = "2025-01-01T00:00:00.000500Z"
    assert found(service, since=within, sort={"_id": 1}) == [3, 4]
    assert found(service, since="2024-12-31T23:59:59.999001Z", sort={"_id": 1}) == [2, 3, 4]
    assert found(service, until=within, sort={"_id": 1}) == [1, 2]
    assert found(service, since="9999-12-31T23:59:59.999999Z") == []
    expected = {
        "greaterThan": [3, 4], "greaterThanOrEquals": [3, 4], "lessThan": [1, 2], "lessThanOrEquals": [1, 2],
    }  # fmt: skip
    for operator, ids in expected.items():
        rule = predicate("startDate", operator, within)
        assert found(service, interactionFilter=rule, sort={"_id": 1}) == ids, operator
    for pair, ids in (
        ((within, "2025-01-01T04:00:00.000500Z"), [3]),
        (("2024-12-31T23:59:59Z", within), [1, 2]),
    ):
        rule = predicate("startDate", "between", list(pair))
        assert found(service, interactionFilter=rule, sort={"_id": 1}) == ids, pair


def test_r014_dates_are_sorted_as_instants(service):
    assert found(service, sort={"startDate": 1}) == [1, 2, 3, 4]
    assert found(service, sort={"startDate": -1}) == [4, 3, 2, 1]
