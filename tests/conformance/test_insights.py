"""Insights of interactions (R102 to R104, R170 to R183)."""

from collections import Counter

import pytest
from conformance.shop import condition, node, on_node, predicate, table, visit

INTERVALS = [
    "year",
    "semester",
    "semesterOfYear",
    "quarter",
    "quarterOfYear",
    "month",
    "monthOfYear",
    "week",
    "weekOfYear",
    "day",
    "dayOfYear",
    "dayOfMonth",
    "dayOfWeek",
    "hourOfDay",
    "custom",
]
ALL = {"since": "2024-01-01T00:00:00Z", "until": "2025-12-31T00:00:00Z"}


@pytest.fixture(scope="module")
def records():
    visits = [
        visit(1, "2024-12-31T23:00:00Z", hitCount=2, geo__countryCode="NO", endDate="2024-12-31T23:00:10Z"),
        visit(2, "2025-01-01T00:00:00Z", hitCount=3, geo__countryCode="NO", nodeId="boots"),
        visit(3, "2025-01-01T12:00:00Z", hitCount=1, geo__countryCode="SE", endDate="2025-01-01T12:00:00.5Z"),
        visit(4, "2025-04-01T00:00:00Z", hitCount=4, nodeId="boots", userAgent__os__name="Linux"),
        visit(5, "2025-07-06T06:00:00Z", type="offline", geo__countryCode="DE", hitCount=9),
        visit(6, "2025-01-01T00:00:00Z", isBot=True, hitCount=10),
        visit(7, "2025-01-01T00:00:00Z", trafficFilterId="office", hitCount=20),
    ]
    return {"nodes": table(node("ads"), node("boots", "adset", "ads")), "interactions": table(*visits)}


def ask(project, **body):
    return project.send("interaction_insights", body=body)


def rows(project, **body):
    """Return the records as (group, interval, sessionCount)."""
    return [(entry["group"], entry["interval"], entry["sessionCount"]) for entry in ask(project, **body).ok()]


def counts(project, **body):
    (record,) = ask(project, **body).ok()
    return record["sessionCount"], record["hitCount"], record["durationSum"]


@pytest.mark.slow
def test_r102_r180_sessions_and_offline_interactions_are_counted(service):
    assert counts(service)[0] == 5
    assert counts(service, interactionFilter=predicate("type", "equals", "offline"))[0] == 1


def test_r103_offline_interactions_add_no_hit(service):
    assert counts(service)[1] == 2 + 3 + 1 + 4
    assert counts(service, interactionFilter=predicate("type", "equals", "offline"))[1] == 0


def test_r104_counts_are_whole_numbers_and_the_duration_is_a_number(service):
    (record,) = ask(service).ok()
    assert (type(record["sessionCount"]), type(record["hitCount"])) == (int, int)
    assert record["durationSum"] == 10.5


def test_r170_the_bounds_are_inclusive_and_optional(service):
    assert counts(service, since="2025-01-01T12:00:00Z")[0] == 3
    assert counts(service, since="2025-01-01T12:00:00.001Z")[0] == 2
    assert counts(service, until="2025-01-01T00:00:00Z")[0] == 2
    assert counts(service, until="2024-12-31T23:59:59.999Z")[0] == 1


def test_r171_without_group_and_interval_there_is_one_record(service):
    (record,) = ask(service).ok()
    assert set(record) == {"group", "interval", "sessionCount", "hitCount", "durationSum"}
    assert (record["group"], record["interval"]) == (None, None)


def test_r172_the_record_has_zeros_when_nothing_matches(service):
    assert counts(service, since="2030-01-01T00:00:00Z") == (0, 0, 0)
    assert counts(service, interactionFilter=predicate("nodeId", "equals", "gone")) == (0, 0, 0)


def test_r173_there_is_one_record_per_combination(service):
    assert sorted(rows(service, group="nodeId", interval="year")) == [
        ("ads", "2024", 1),
        ("ads", "2025", 2),
        ("boots", "2025", 2),
    ]


def test_r174_more_than_one_column_is_refused(service):
    for group in ["geo", "userAgent.browser", "startDate"]:
        assert ask(service, group=group).status == 400, group


def test_r174_one_column_is_accepted(service):
    for group in ["geo.countryCode", "userAgent.os.name", "nodeId", "type", "referrerType"]:
        assert ask(service, group=group).status == 200, group


def test_r175_another_group_is_refused(service):
    for group in [["nodeId", "type"], "nodeId,type", 5]:
        assert ask(service, group=group).status == 400, group


@pytest.mark.slow
def test_r176_intervals_are_labelled(service):
    for interval, expected in [
        ("year", {"2024": 1, "2025": 4}),
        ("semester", {"2024-S2": 1, "2025-S1": 3, "2025-S2": 1}),
        ("semesterOfYear", {"1": 3, "2": 2}),
        ("quarter", {"2024-Q4": 1, "2025-Q1": 2, "2025-Q2": 1, "2025-Q3": 1}),
        ("quarterOfYear", {"1": 2, "2": 1, "3": 1, "4": 1}),
        ("month", {"2024-12": 1, "2025-01": 2, "2025-04": 1, "2025-07": 1}),
        ("monthOfYear", {"1": 2, "4": 1, "7": 1, "12": 1}),
        # The 31st of December 2024 was a Tuesday; its week is the first one of 2025.
        ("week", {"2025-W01": 3, "2025-W14": 1, "2025-W27": 1}),
        ("weekOfYear", {"1": 3, "14": 1, "27": 1}),
        ("day", {"2024-12-31": 1, "2025-01-01": 2, "2025-04-01": 1, "2025-07-06": 1}),
        ("dayOfYear", {"366": 1, "1": 2, "91": 1, "187": 1}),
        ("dayOfMonth", {"31": 1, "1": 3, "6": 1}),
        ("dayOfWeek", {"2": 2, "3": 2, "7": 1}),
        ("hourOfDay", {"23": 1, "0": 2, "12": 1, "6": 1}),
    ]:
        assert {label: count for _, label, count in rows(service, interval=interval)} == expected, (
            interval,
            expected,
        )


@pytest.mark.slow
def test_r176_there_are_fifteen_intervals(service):
    for interval in INTERVALS:
        assert ask(service, interval=interval, segmentCount=2, **ALL).status == 200, interval
    for wrong in ("hour", "decade", "Day", "", "days", 5, ["day"]):
        assert ask(service, interval=wrong).status == 400, wrong


def test_r177_segment_count_splits_the_range(service):
    span = {"since": "2024-12-31T00:00:00Z", "until": "2025-01-02T00:00:00Z"}
    assert rows(service, interval="custom", segmentCount=2, **span) == [
        (None, "2024-12-31T00:00:00.000Z", 1),
        (None, "2025-01-01T00:00:00.000Z", 2),
    ]
    assert rows(service, interval="custom", segmentCount=1, **span) == [(None, "2024-12-31T00:00:00.000Z", 3)]
    for wrong in (0, -1, 1.5, "2", None, 10_000):
        assert ask(service, interval="custom", segmentCount=wrong, **span).status == 400, wrong


def test_r178_records_are_sorted_by_their_members(service):
    by_count = rows(service, group="nodeId", sort={"sessionCount": -1})
    assert by_count == [("ads", None, 3), ("boots", None, 2)]
    assert rows(service, group="nodeId", sort={"sessionCount": 1}) == by_count[::-1]
    assert rows(service, group="nodeId", sort={"hitCount": -1})[0][0] == "boots"
    assert rows(service, group="nodeId", sort={"durationSum": -1})[0][0] == "ads"
    assert rows(service, group="nodeId", sort={"group": -1})[0][0] == "boots"
    assert [label for _, label, _ in rows(service, interval="year", sort={"interval": -1})] == [
        "2025",
        "2024",
    ]
    for wrong in ({"startDate": 1}, {"sessionCount": "desc"}, "sessionCount"):
        assert ask(service, sort=wrong).status == 400


def test_r179_the_populations_are_those_of_searches(service):
    for population, expected in [
        ({}, 5),
        ({"isBot": False, "filtered": False}, 5),
        ({"isBot": True}, 1),
        ({"isBot": None}, 6),
        ({"filtered": True}, 1),
        ({"filtered": None}, 6),
        ({"isBot": None, "filtered": None}, 7),
        ({"isBot": True, "filtered": True}, 0),
    ]:
        assert counts(service, **population)[0] == expected, (population, expected)


def test_r181_counters_add_up(service):
    for interval in ["week", "hourOfDay", None]:
        for group in [None, "geo.countryCode", "nodeId"]:
            total = Counter()
            for record in ask(service, group=group, interval=interval).ok():
                total.update({name: record[name] for name in ("sessionCount", "hitCount", "durationSum")})
            assert (total["sessionCount"], total["hitCount"], total["durationSum"]) == (5, 10, 10.5), (
                group,
                interval,
            )


def test_r182_interactions_without_the_group_are_counted_under_null(service):
    """One session without a country, and one offline interaction, which has none."""
    shown = {group: count for group, _, count in rows(service, group="geo.countryCode")}
    assert shown == {"NO": 2, "SE": 1, None: 2}


@pytest.mark.slow
def test_r183_the_answer_is_a_bare_array(service):
    for body in ({}, {"interval": "day"}, {"since": "2030-01-01T00:00:00Z", "interval": "day"}):
        reply = ask(service, **body)
        assert (reply.status, type(reply.body)) == (200, list)
    assert ask(service, nodeFilter=condition(on_node("nodeId", "equals", "ads"))).status == 200
    assert ask(service, since="never").status == 400
