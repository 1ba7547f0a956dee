"""Metrics of events in time (R105, R208 to R219, R231; G-108 to G-118)."""

import json
from contextlib import contextmanager

import pytest
from support.order_events import declare_order, order
from support.service_records import hex_id, send, table, utc

from attrib_ds import event
from attrib_ds.errors import InvalidRequest
from attrib_ds.service import Service


def loaded(number, date, kind="order", **metrics):
    usual = {"_id": f"00000000-0000-7000-8000-{number:012x}", "userId": hex_id(1)}
    return {**usual, "eventDate": date, "eventType": kind, **metrics}


def money(amount, currency="EUR"):
    return {"statistics.turnover.amount": amount, "statistics.turnover.currency": currency}


@pytest.fixture(scope="module")
def service():
    """Read by all tests but those that open one of their own."""
    with opened() as project:
        yield project


@contextmanager
def opened():
    project = Service.open("shop", ":memory:")
    declare_order(project)
    rows = table(
        loaded(
            1,
            "2025-01-30T23:30:00Z",
            **money(10.1),
            **{"states.won": 1, "states.won.date": "2025-01-30T23:30:10Z"},
        ),
        loaded(
            2,
            "2025-02-01T12:00:00Z",
            **money(20.2),
            **{"states.won": 1, "states.won.date": "2025-02-01T12:00:20Z"},
        ),
        loaded(3, "2025-02-01T13:00:00Z", **money(5, "NOK"), **{"states.won": 0, "statistics.items": 2}),
        loaded(4, "2025-02-02T00:00:00Z", kind="lead", **{"statistics.items": 3}),
        loaded(5, "2024-12-30T00:00:00Z", kind="lead"),
    )
    answer = send(project, "load_records", resource="events", source=rows)
    assert answer.value["events"] == 5
    yield project
    project.close()


def insights(service, **asked):
    usual = {
        "metrics": ["event-count"],
        "since": "2025-01-30T00:00:00Z",
        "until": "2025-02-02T00:00:00Z",
        "group_by": "project",
        "interval": "day",
    }
    rows = send(service, "event_insights", **{**usual, **asked}).read().to_pylist()
    return [(row["identifier"], row["interval"], json.loads(row["values"])) for row in rows]


def counts(service, **asked):
    return {interval: values["event-count"] for _, interval, values in insights(service, **asked)}


def test_r105_r214_g111_days_of_the_project_are_zero_filled(service):
    assert insights(service) == [
        ("shop", "2025-01-30", {"event-count": 1}),
        ("shop", "2025-01-31", {"event-count": 0}),
        ("shop", "2025-02-01", {"event-count": 2}),
        ("shop", "2025-02-02", {"event-count": 1}),
    ]


def test_g116_values(service):
    metrics = ["turnover", "won", "items", "state-delay-won", "event-count"]
    assert insights(service, metrics=metrics, interval="year") == [
        (
            "shop",
            "2025",
            {"turnover": 30.3, "won": 2, "items": 5, "state-delay-won": 15, "event-count": 4},
        )
    ]


@pytest.mark.slow
def test_g065_g116_amounts_are_converted_at_the_date_of_their_metric():
    with opened() as service:
        rates = [
            {"currency": "NOK", "date": "2025-02-01T13:00:00Z", "rate": 0.1},
            {"currency": "NOK", "date": "2025-02-01T13:00:00.001Z", "rate": 7},
            {"currency": "NOK", "date": "2025-01-01", "rate": 5},
            {"currency": "USD", "date": "2025-01-01", "rate": 9},
        ]
        send(service, "set_rates", rates=rates)
        asked = {"metrics": ["turnover"], "interval": "year"}
        # 10.1 + 20.2 EUR and 5 NOK at 0.1.
        assert insights(service, **asked) == [("shop", "2025", {"turnover": 30.8})]
        by_type = insights(service, **asked, group_by="event-type")
        assert {identifier: values["turnover"] for identifier, _, values in by_type} == {
            "lead": 0,
            "order": 30.8,
        }


def test_r209_r210_r218_every_metric_asked_for_is_there(service):
    for _, _, values in insights(service, metrics=["no such key", "turnover", "turnover"]):
        assert list(values) == ["no such key", "turnover"]
        assert values["no such key"] == 0
    assert all(values == {} for _, _, values in insights(service, metrics=[]))


def test_g115_bounds_are_inclusive(service):
    exact = {"since": "2025-01-30T23:30:00Z", "until": "2025-02-01T12:00:00Z"}
    assert counts(service, **exact) == {"2025-01-30": 1, "2025-01-31": 0, "2025-02-01": 1}
    assert counts(service, since="2025-02-02T00:00:00.001Z", until="2025-02-02T01:00:00Z") == {
        "2025-02-02": 0
    }
    assert counts(service, since="2025-02-02T00:00:00Z", until="2025-01-01T00:00:00Z") == {}


LINEAR = {
    "week": {"2025-W01": 1, "2025-W02": 0, "2025-W03": 0, "2025-W04": 0, "2025-W05": 4},
    "month": {"2024-12": 1, "2025-01": 1, "2025-02": 3},
    "quarter": {"2024-Q4": 1, "2025-Q1": 4},
    "semester": {"2024-S2": 1, "2025-S1": 4},
    "year": {"2024": 1, "2025": 4},
}


@pytest.mark.parametrize("interval", LINEAR)
def test_r212_linear_intervals(service, interval):
    assert counts(service, interval=interval, since="2024-12-30T00:00:00Z") == LINEAR[interval]


SEASONAL = {
    "dayOfWeek": {"4": 1, "5": 0, "6": 2, "7": 1},
    "dayOfMonth": {"1": 2, "2": 1, "30": 1, "31": 0},
    "dayOfYear": {"30": 1, "31": 0, "32": 2, "33": 1},
    "weekOfYear": {"5": 4},
    "monthOfYear": {"1": 1, "2": 3},
    "quarterOfYear": {"1": 4},
    "semesterOfYear": {"1": 4},
}


@pytest.mark.parametrize("interval", SEASONAL)
def test_r212_seasonal_intervals_have_each_label_that_occurs(service, interval):
    assert counts(service, interval=interval) == SEASONAL[interval]
    assert list(counts(service, interval=interval)) == list(SEASONAL[interval])


def test_a_season_of_ten_thousand_years_has_each_label_once(service):
    ever = {"since": "0001-01-01T00:00:00Z", "until": "9999-12-31T23:59:59Z"}
    assert list(counts(service, interval="dayOfYear", **ever)) == [str(day) for day in range(1, 367)]
    assert list(counts(service, interval="weekOfYear", **ever)) == [str(week) for week in range(1, 54)]


@pytest.mark.slow
def test_r213_g111_g117_event_types():
    with opened() as service:
        send(service, "create_event_type", reference="call", name="Call")
        send(service, "create_event_type", reference="gone", name="Gone")
        send(service, "archive_event_type", id="gone")
        rows = insights(service, group_by="event-type", interval="month")
    assert [(identifier, interval, values["event-count"]) for identifier, interval, values in rows] == [
        ("call", "2025-01", 0),
        ("lead", "2025-01", 0),
        ("order", "2025-01", 1),
        ("call", "2025-02", 0),
        ("lead", "2025-02", 1),
        ("order", "2025-02", 2),
    ]


def test_r217_event_types_add_up_to_the_project(service):
    metrics = ["event-count", "turnover", "won", "items"]
    totals: dict = {}
    for _, interval, values in insights(service, group_by="event-type", metrics=metrics):
        for key in metrics:
            totals[interval, key] = totals.get((interval, key), 0) + values[key]
    whole = {
        (interval, key): values[key]
        for _, interval, values in insights(service, metrics=metrics)
        for key in metrics
    }
    assert totals == pytest.approx(whole)


@pytest.mark.slow
def test_r215_g118_the_filter_restricts_event_types_only(service):
    for condition in (["lead", "unheard"], {"eventTypes": ["lead"]}, event("eventType") == "lead"):
        rows = insights(service, group_by="event-type", interval="year", event_type=condition)
        assert rows == [("lead", "2025", {"event-count": 1})]
        assert insights(service, event_type=condition) == insights(service)
    assert insights(service, group_by="event-type", event_type=[]) == []


def test_g108_days_of_a_time_zone(service):
    assert counts(service, timezone="Europe/Paris") == {
        "2025-01-30": 0,
        "2025-01-31": 1,
        "2025-02-01": 2,
        "2025-02-02": 1,
    }


def test_g111_too_many_records(service):
    with pytest.raises(InvalidRequest, match="interval: 'day' makes more than 100,000 records"):
        insights(service, since="1700-01-01T00:00:00Z")


@pytest.mark.slow
def test_r219_r231_trashed_events_do_not_count_and_updates_do():
    with opened() as service:

        def year():
            metrics = ["event-count", "confirmed", "turnover", "state-delay-confirmed"]
            ((_, _, values),) = insights(service, metrics=metrics, interval="year")
            return values

        before = year()
        data = {"confirmed": 0, "turnover": 1}
        id = send(service, "create_event_sync", **order("n1", data=data)).value
        with pytest.raises(InvalidRequest):
            send(service, "create_event_sync", **order("n2", data={"mail": "nobody"}))
        assert year() == {**before, "event-count": 5, "turnover": 31.3}
        date = utc(2025, 1, 31, 12, 0, 30)
        send(service, "update_event_state", id=id, storage_key="confirmed", value=1, date=date)
        send(service, "update_event_statistic", id=id, storage_key="turnover", value=2)
        assert year() == {"event-count": 5, "confirmed": 1, "turnover": 32.3, "state-delay-confirmed": 30}
        send(service, "update_event_state", id=id, storage_key="confirmed", value=0)
        assert year() == {"event-count": 5, "confirmed": 0, "turnover": 32.3, "state-delay-confirmed": 0}
