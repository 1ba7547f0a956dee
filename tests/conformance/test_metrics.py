"""Metrics of events (R058 to R067)."""

import pytest
from conformance.shop import computed, email, metrics, send_event


@pytest.fixture(scope="module")
def sent(service):
    """One event with a state, a number and an amount."""
    return send_event(service, data={"turnover": 12.5, "items": 3, "confirmed": 1, "returned": 0})


def test_r058_the_types_are_state_and_statistic(service, sent):
    assert {key: entry["type"] for key, entry in metrics(service, sent).items()} == {
        "confirmed": "state",
        "returned": "state",
        "turnover": "statistic",
        "items": "statistic",
        "event-count": "statistic",
        "state-delay-confirmed": "statistic",
    }


def test_r059_the_types_of_data_are_state_number_and_currency(service, sent):
    assert {key: entry["data"]["type"] for key, entry in metrics(service, sent).items()} == {
        "confirmed": "state",
        "returned": "state",
        "turnover": "currency",
        "items": "number",
        "event-count": "number",
        "state-delay-confirmed": "number",
    }


@pytest.mark.parametrize(("key", "value"), [("confirmed", 1), ("returned", 0)])
def test_r060_a_state_is_the_number_0_or_1(service, sent, key, value):
    data = metrics(service, sent)[key]["data"]
    assert (data["raw"], data["current"]) == (value, value)
    assert bool not in {type(data["raw"]), type(data["current"])}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (12.5, {"amount": 12.5, "currency": "EUR"}),
        ({"amount": 7, "currency": "USD"}, {"amount": 7, "currency": "USD"}),
        (0.1, {"amount": 0.1, "currency": "EUR"}),
    ],
)
def test_r061_money_is_an_amount_and_a_currency(service, given, expected):
    data = metrics(service, send_event(service, data={"turnover": given}))["turnover"]["data"]
    assert data["raw"] == data["current"] == expected


def test_r062_deleted_at_is_null_or_a_date(service, sent):
    assert [entry["deletedAt"] for entry in computed(service, sent)["metrics"]] == [None] * 6
    id = send_event(service, data={"confirmed": 1})
    place = {"id": id, "storageKey": "confirmed"}
    service.send("update_event_state", place, body={"value": 0}).ok()
    deleted = {entry["key"]: entry["deletedAt"] for entry in computed(service, id)["metrics"]}
    assert deleted["confirmed"] is None
    assert deleted["state-delay-confirmed"].endswith("Z")


def test_r063_a_metric_names_its_key_and_event(service, sent):
    for entry in metrics(service, sent).values():
        assert (entry["eventId"], entry["projectId"]) == (sent, service.id)
    assert set(metrics(service, sent)["items"]) == {
        "_id",
        "projectId",
        "eventId",
        "key",
        "type",
        "data",
        "createdAt",
        "updatedAt",
        "deletedAt",
    }


def test_r064_event_count_counts_events(fresh):
    for _ in range(3):
        id = send_event(fresh, email())
        assert metrics(fresh, id)["event-count"]["data"]["current"] == 1
    body = {
        "since": "2025-01-01T00:00:00Z",
        "until": "2025-12-31T00:00:00Z",
        "metrics": ["event-count"],
        "groupBy": "project",
        "interval": "year",
    }
    (record,) = fresh.send("event_insights", body=body).ok()
    assert record["values"] == {"event-count": 3}


def test_r065_each_state_has_a_delay(service):
    id = send_event(service)
    assert not [key for key in metrics(service, id) if key.startswith("state-delay-")]
    for key in ("confirmed", "returned"):
        place = {"id": id, "storageKey": key}
        service.send("update_event_state", place, body={"value": 1}).ok()
        shown = metrics(service, id)[f"state-delay-{key}"]
        assert (shown["type"], shown["data"]["type"]) == ("statistic", "number")


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("2025-02-01T12:00:00Z", 86_400),
        ("2025-01-31T12:00:01.5Z", 1.5),
        ("2025-01-31T14:00:00+02:00", 0),
        ("2025-01-31T11:59:00Z", -60),
    ],
)
def test_r066_a_delay_is_the_seconds_from_event_to_state(service, date, seconds):
    id = send_event(service)
    place = {"id": id, "storageKey": "confirmed"}
    service.send("update_event_state", place, body={"value": 1, "date": date}).ok()
    assert metrics(service, id)["state-delay-confirmed"]["data"]["current"] == seconds


def test_r066_a_state_given_at_creation_has_no_delay(service, sent):
    """It is dated with the event."""
    assert metrics(service, sent)["state-delay-confirmed"]["data"]["current"] == 0


def test_r067_a_new_date_changes_the_delay(service):
    id = send_event(service)
    place = {"id": id, "storageKey": "confirmed"}
    for date, seconds in [("2025-02-01T12:00:00Z", 86_400), ("2025-01-31T13:00:00Z", 3_600)]:
        service.send("update_event_state", place, body={"value": 1, "date": date}).ok()
        assert metrics(service, id)["state-delay-confirmed"]["data"]["current"] == seconds


@pytest.mark.parametrize(("given", "current"), [(" 12.50 ", 12.5), (3, 3), (0.1, 0.1)])
def test_the_raw_value_of_a_number_is_the_one_that_was_sent(service, given, current):
    """As that of a user's field (R052); an update sends a number."""
    id = send_event(service, data={"items": given})
    data = metrics(service, id)["items"]["data"]
    assert (data["raw"], data["current"], data["invalid"]) == (given, current, False)
    update = {"id": id, "storageKey": "items"}
    updated = service.send("update_event_statistic", update, body={"value": 7}).ok()["data"]
    assert updated["raw"] == updated["current"] == metrics(service, id)["items"]["data"]["raw"] == 7
