"""Insights of events (R105, R208 to R219)."""

import pytest
from conformance.shop import email, event, trash

LINEAR = ["day", "week", "month", "quarter", "semester", "year"]
SEASONAL = [
    "dayOfWeek",
    "dayOfMonth",
    "dayOfYear",
    "weekOfYear",
    "monthOfYear",
    "quarterOfYear",
    "semesterOfYear",
]
USUAL = {
    "since": "2025-01-01T00:00:00Z",
    "until": "2025-02-28T23:59:59Z",
    "metrics": ["event-count"],
    "groupBy": "project",
    "interval": "month",
}
SENT = [
    ("order", "2025-01-01T00:00:00Z", {"turnover": 10, "confirmed": 1, "items": 1}),
    ("order", "2025-01-31T23:59:59Z", {"turnover": 0.5, "confirmed": 0}),
    ("order", "2025-02-28T23:59:59Z", {"turnover": 4, "confirmed": 1}),
    ("lead", "2025-02-01T00:00:00Z", {"items": 5}),
    ("order", "2025-03-01T00:00:00Z", {"turnover": 100}),
]


@pytest.fixture(scope="module")
def service(new_project):
    """A project with four orders, of which one is outside the usual bounds, and a lead; and some trash."""
    project = new_project()
    fields = [{"type": "number", "entity": "event", "storageKey": "items", "optional": True}]
    project.send("create_event_type", body={"reference": "lead", "name": "Lead", "fields": fields}).ok()
    project.send("create_event_type", body={"reference": "never", "name": "Never", "fields": fields}).ok()
    for reference, date, data in SENT:
        body = event(project, email(), eventType=reference, eventDate=date, data=data)
        project.send("create_event_sync", body=body).ok()
    trash(project, data={"mail": None, "turnover": 50})
    return project


def ask(project, **parts):
    body = {name: value for name, value in {**USUAL, **parts}.items() if value is not ...}
    return project.send("event_insights", body=body)


def rows(project, **parts):
    """Return the values by (identifier, interval)."""
    return {
        (record["identifier"], record["interval"]): record["values"] for record in ask(project, **parts).ok()
    }


@pytest.mark.slow
def test_r105_a_record_has_identifier_interval_and_values(service):
    for record in ask(service, metrics=["event-count", "turnover"]).ok():
        assert set(record) == {"identifier", "interval", "values"}
        assert (type(record["identifier"]), type(record["interval"])) == (str, str)
        assert all(type(value) in (int, float) for value in record["values"].values())


@pytest.mark.slow
def test_r208_five_members_are_required(service):
    for missing in ["since", "until", "metrics", "groupBy", "interval"]:
        assert ask(service, **{missing: ...}).status == 400, missing
        assert ask(service, **{missing: None}).status == 400, missing


def test_r209_metrics_are_states_statistics_or_the_count(service):
    keys = ["event-count", "turnover", "confirmed", "items", "state-delay-confirmed"]
    assert rows(service, metrics=keys) == {
        (service.id, "2025-01"): {
            "event-count": 2,
            "turnover": 10.5,
            "confirmed": 1,
            "items": 1,
            "state-delay-confirmed": 0,
        },
        (service.id, "2025-02"): {
            "event-count": 2,
            "turnover": 4,
            "confirmed": 1,
            "items": 5,
            "state-delay-confirmed": 0,
        },
    }


def test_r210_r320_an_unknown_metric_counts_0(service):
    for key in ["nonsense", "coupon", "email", "", " ", "state-delay-nonsense", "é"]:
        for values in rows(service, metrics=[key, "event-count"]).values():
            assert values == {key: 0, "event-count": 2}, key


def test_r211_another_group_is_refused(service):
    for group in ["user", None, ["project"]]:
        assert ask(service, groupBy="project").status == ask(service, groupBy="event-type").status == 200, (
            group
        )
        assert ask(service, groupBy=group).status == 400, group


@pytest.mark.slow
def test_r212_thirteen_intervals_are_known(service):
    for interval in LINEAR + SEASONAL:
        records = ask(service, interval=interval).ok()
        assert sum(record["values"]["event-count"] for record in records) == 4, interval


@pytest.mark.slow
def test_r212_intervals_are_labelled(service):
    for interval, expected in [
        # Two Fridays (the 31st of January and the 28th of February), a Wednesday and a Saturday.
        ("dayOfWeek", {"3": 1, "5": 2, "6": 1}),
        ("dayOfMonth", {"1": 2, "28": 1, "31": 1}),
        ("dayOfYear", {"1": 1, "31": 1, "32": 1, "59": 1}),
        ("weekOfYear", {"1": 1, "5": 2, "9": 1}),
        ("monthOfYear", {"1": 2, "2": 2}),
        ("quarterOfYear", {"1": 4}),
        ("semesterOfYear", {"1": 4}),
        ("week", {"2025-W01": 1, "2025-W05": 2, "2025-W09": 1}),
        ("quarter", {"2025-Q1": 4}),
        ("semester", {"2025-S1": 4}),
        ("year", {"2025": 4}),
        ("month", {"2025-01": 2, "2025-02": 2}),
        ("day", {"2025-01-01": 1, "2025-01-31": 1, "2025-02-01": 1, "2025-02-28": 1}),
    ]:
        counts = {
            label: values["event-count"] for (_, label), values in rows(service, interval=interval).items()
        }
        assert {label: count for label, count in counts.items() if count} == expected, (interval, expected)


def test_r212_other_intervals_are_refused(service):
    for interval in ["hourOfDay", "custom", 5]:
        assert ask(service, interval=interval, segmentCount=2).status == 400, interval


def test_r213_by_event_type_there_is_one_record_per_interval_and_type(service):
    assert rows(service, groupBy="event-type") == {
        ("lead", "2025-01"): {"event-count": 0},
        ("lead", "2025-02"): {"event-count": 1},
        ("never", "2025-01"): {"event-count": 0},
        ("never", "2025-02"): {"event-count": 0},
        ("order", "2025-01"): {"event-count": 2},
        ("order", "2025-02"): {"event-count": 1},
    }


def test_r214_by_project_the_identifier_is_the_project(service):
    assert {identifier for identifier, _ in rows(service)} == {service.id}


@pytest.mark.slow
def test_r215_a_filter_applies_by_event_type_only(service):
    for kept in [["lead"], {"eventTypes": ["lead"]}]:
        assert rows(service, filter=kept) == rows(service), kept
        assert {identifier for identifier, _ in rows(service, groupBy="event-type", filter=kept)} == {
            "lead"
        }, kept


def test_r216_the_answer_is_the_whole_array(service):
    reply = ask(service, interval="day", limit=1, offset=5)
    assert (reply.status, type(reply.body)) == (200, list)
    # January and February of 2025 have 59 days.
    assert len(reply.body) == 59


@pytest.mark.slow
def test_r217_sums_over_types_equal_the_project(service):
    for interval in LINEAR:
        keys = ["event-count", "turnover", "confirmed", "items"]
        whole = rows(service, metrics=keys, interval=interval)
        parts = rows(service, metrics=keys, interval=interval, groupBy="event-type")
        for (_, label), values in whole.items():
            of_types = [record for (_, other), record in parts.items() if other == label]
            assert {key: sum(record[key] for record in of_types) for key in keys} == values, label


@pytest.mark.slow
def test_r218_every_metric_is_in_every_record(service):
    keys = ["items", "event-count", "nonsense", "confirmed"]
    for interval in ("day", "dayOfWeek"):
        for group in ("project", "event-type"):
            for values in rows(service, metrics=keys, interval=interval, groupBy=group).values():
                assert set(values) == set(keys)


def test_r219_trashed_events_are_not_counted(service):
    assert service.send("list_trashed_events").ok()["total"] == 1
    records = ask(service, interval="year", metrics=["event-count", "turnover"]).ok()
    assert [record["values"] for record in records] == [{"event-count": 4, "turnover": 14.5}]
