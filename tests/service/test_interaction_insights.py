"""Interaction insights: labels, groups, segments, and sums that fit the search on the same criteria."""

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.law_examples import examples
from support.service_records import hex_id, send, table, visit

from attrib_ds import instants, schema
from attrib_ds.filters import interaction, node
from attrib_ds.service import Service

COUNTERS = ("sessionCount", "hitCount", "durationSum")


def open_with(*visits):
    service = Service.open("shop", ":memory:")
    send(service, "load_records", resource="interactions", source=table(*visits))
    return service


@pytest.fixture(scope="module")
def service():
    opened = open_with(
        visit(1, startDate="2024-12-30T23:30:00Z", geo__city="Oslo", hitCount=1, duration=0.1),
        visit(2, startDate="2025-01-01T00:00:00Z", geo__city="Oslo", hitCount=2, duration=0.2),
        visit(3, startDate="2025-06-30T12:15:00Z", geo__city="Bergen", hitCount=None, duration=0.3),
        visit(4, startDate="2025-07-06T12:45:00Z", geo__city=None, hitCount=4, duration=0.4, nodeId="b"),
        visit(5, startDate="2025-07-07T00:00:00Z", type="offline", nodeId="b"),
        visit(6, startDate="2025-07-07T00:00:00Z", isBot=True, hitCount=100),
        visit(7, startDate="2025-07-07T00:00:00Z", trafficFilterId="office", hitCount=1_000),
    )
    yield opened
    opened.close()


def insights(service, **arguments):
    answer = send(service, "interaction_insights", **arguments)
    assert answer.read().schema == schema.INTERACTION_INSIGHT
    return answer.read().to_pylist()


def by_interval(service, interval, **arguments):
    records = insights(service, interval=interval, **arguments)
    assert all(record["group"] is None for record in records)
    return {record["interval"]: record["sessionCount"] for record in records}


def test_one_record_covers_the_whole_selection(service):
    assert insights(service) == [
        {"group": None, "interval": None, "sessionCount": 5, "hitCount": 7, "durationSum": 1.0}
    ]


def test_an_empty_selection_is_one_record_of_zeros(service):
    nothing = {"since": "2030-01-01T00:00:00Z"}
    zeros = {"group": None, "interval": None, "sessionCount": 0, "hitCount": 0, "durationSum": 0.0}
    assert insights(service, **nothing) == [zeros]
    assert insights(service, group="geo.city", **nothing) == []
    assert insights(service, interval="day", **nothing) == []


# 2024-12-30 is a Monday in week 1 of 2025; 2025-06-30 a Monday; 2025-07-06 a Sunday; 2025-07-07 a Monday.
@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ("year", {"2024": 1, "2025": 4}),
        ("semester", {"2024-S2": 1, "2025-S1": 2, "2025-S2": 2}),
        ("semesterOfYear", {"1": 2, "2": 3}),
        ("quarter", {"2024-Q4": 1, "2025-Q1": 1, "2025-Q2": 1, "2025-Q3": 2}),
        ("quarterOfYear", {"1": 1, "2": 1, "3": 2, "4": 1}),
        ("month", {"2024-12": 1, "2025-01": 1, "2025-06": 1, "2025-07": 2}),
        ("monthOfYear", {"1": 1, "6": 1, "7": 2, "12": 1}),
        ("week", {"2025-W01": 2, "2025-W27": 2, "2025-W28": 1}),
        ("weekOfYear", {"1": 2, "27": 2, "28": 1}),
        (
            "day",
            {"2024-12-30": 1, "2025-01-01": 1, "2025-06-30": 1, "2025-07-06": 1, "2025-07-07": 1},
        ),
        ("dayOfYear", {"1": 1, "181": 1, "187": 1, "188": 1, "365": 1}),
        ("dayOfMonth", {"1": 1, "6": 1, "7": 1, "30": 2}),
        ("dayOfWeek", {"1": 3, "3": 1, "7": 1}),
        ("hourOfDay", {"0": 2, "12": 2, "23": 1}),
    ],
)
def test_labels_of_every_interval_in_order(service, interval, expected):
    found = by_interval(service, interval)
    assert found == expected
    assert list(found) == list(expected)


def test_the_365th_day_of_a_leap_year_is_not_its_last():
    leap = open_with(visit(1, startDate="2024-12-31T00:00:00Z"), visit(2, startDate="2020-12-31T00:00:00Z"))
    assert by_interval(leap, "dayOfYear") == {"366": 2}
    assert by_interval(leap, "week") == {"2020-W53": 1, "2025-W01": 1}
    leap.close()


def test_the_first_days_of_january_may_lie_in_week_52_of_the_year_before():
    # The 1st of January 2023 was a Sunday, the last day of the week that began on the 26th of December.
    opened = open_with(visit(1, startDate="2023-01-01T12:00:00Z"), visit(2, startDate="2023-01-02T12:00:00Z"))
    assert by_interval(opened, "week") == {"2022-W52": 1, "2023-W01": 1}
    opened.close()


def test_labels_follow_the_local_calendar_of_a_time_zone(service):
    # Oslo is one hour ahead in winter and two in summer.
    assert by_interval(service, "day", timezone="Europe/Oslo")["2024-12-31"] == 1
    assert by_interval(service, "hourOfDay", timezone="Europe/Oslo") == {"0": 1, "1": 1, "2": 1, "14": 2}
    assert by_interval(service, "day", timezone="UTC") == by_interval(service, "day")


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["Europe/Oslo", "America/New_York", "Asia/Kolkata", "Pacific/Apia"])
def test_local_days_hold_over_the_changes_of_the_clock(zone):
    starts = [datetime(2025, 3, 30, tzinfo=UTC) + timedelta(minutes=30 * i) for i in range(96)]
    starts += [datetime(2025, 10, 26, tzinfo=UTC) + timedelta(minutes=30 * i) for i in range(96)]
    clocks = open_with(*(visit(i, startDate=start.isoformat()) for i, start in enumerate(starts)))
    expected = {}
    for start in starts:
        local = start.astimezone(ZoneInfo(zone))
        expected[f"{local:%Y-%m-%d}"] = expected.get(f"{local:%Y-%m-%d}", 0) + 1
    assert by_interval(clocks, "day", timezone=zone) == expected
    clocks.close()


def test_groups_keep_those_without_the_property(service):
    assert insights(service, group="geo.city") == [
        {"group": "Bergen", "interval": None, "sessionCount": 1, "hitCount": 0, "durationSum": 0.3},
        {"group": "Oslo", "interval": None, "sessionCount": 2, "hitCount": 3, "durationSum": 0.3},
        {"group": None, "interval": None, "sessionCount": 2, "hitCount": 4, "durationSum": 0.4},
    ]


def test_groups_of_counts_and_flags_are_text_in_their_own_order():
    many = open_with(*(visit(i, startDate=f"2025-01-{i:02}T00:00:00Z") for i in range(1, 12)))
    groups = [record["group"] for record in insights(many, group="userLifetimeIndex")]
    assert groups == [str(i) for i in range(1, 12)]
    assert [record["group"] for record in insights(many, group="isBot")] == ["false"]
    many.close()


def test_groups_and_intervals_together(service):
    found = insights(service, group="nodeId", interval="semester")
    assert [(record["interval"], record["group"], record["sessionCount"]) for record in found] == [
        ("2024-S2", "ads", 1),
        ("2025-S1", "ads", 2),
        ("2025-S2", "b", 2),
    ]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ({"sessionCount": -1}, ["Oslo", None, "Bergen"]),
        ({"sessionCount": 1}, ["Bergen", "Oslo", None]),
        ({"hitCount": -1}, [None, "Oslo", "Bergen"]),
        ({"durationSum": -1, "group": -1}, [None, "Oslo", "Bergen"]),
        ({"group": -1}, ["Oslo", "Bergen", None]),
        ({"interval": -1}, ["Bergen", "Oslo", None]),
    ],
)
def test_records_are_sorted_by_response_fields(service, sort, expected):
    assert [record["group"] for record in insights(service, group="geo.city", sort=sort)] == expected


def test_numbers_behind_labels_are_sorted_as_numbers(service):
    labels = [record["interval"] for record in insights(service, interval="dayOfYear", sort={"interval": -1})]
    assert labels == ["365", "188", "187", "181", "1"]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"filtered": None, "bots": None}, 7),
        ({"filtered": True}, 1),
        ({"bots": True}, 1),
        ({"since": "2025-01-01T00:00:00Z", "until": "2025-07-06T12:45:00Z"}, 3),
        ({"where": interaction("geo.city") == "Oslo"}, 2),
        ({"nodes": node("nodeId") == "b"}, 2),
    ],
)
def test_the_same_criteria_as_in_a_search(service, arguments, count):
    (record,) = insights(service, **arguments)
    assert record["sessionCount"] == count == send(service, "search_interactions", **arguments).total


# -- segments ---------------------------------------------------------------------------------------


def test_segments_split_the_range_evenly_and_the_last_one_is_closed():
    starts = ["00:00", "00:59", "01:00", "02:59", "04:00"]
    day = open_with(*(visit(i, startDate=f"2025-01-01T{start}:00Z") for i, start in enumerate(starts)))
    found = by_interval(day, "custom", segments=4, since="2025-01-01T00:00:00Z", until="2025-01-01T04:00:00Z")
    assert found == {
        "2025-01-01T00:00:00.000Z": 2,
        "2025-01-01T01:00:00.000Z": 1,
        "2025-01-01T02:00:00.000Z": 1,
        "2025-01-01T03:00:00.000Z": 1,
    }
    day.close()


def test_a_range_of_one_instant_lies_in_the_last_segment():
    moment = "2025-01-01T00:00:00Z"
    one = open_with(visit(1, startDate=moment))
    found = by_interval(one, "custom", segments=3, since=moment, until=moment)
    assert found == {"2025-01-01T00:00:00.000Z": 1}
    backwards = by_interval(one, "custom", segments=3, since="2026-01-01T00:00:00Z", until=moment)
    assert backwards == {}
    one.close()


EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


def test_segments_of_all_of_time_hold_every_interaction(service):
    found = by_interval(
        service,
        "custom",
        segments=1_000,
        since="0001-01-01T00:00:00Z",
        until="9999-12-31T23:59:59.999Z",
    )
    # Part 202 of a thousand parts of 9,999 years.
    assert found == {"2020-10-18T22:01:55.200Z": 5}


@pytest.fixture(scope="module")
def moments():
    """Milliseconds after the epoch of one interaction each, small ones and around thirds of 10^13."""
    passed = [*range(60), *(10**13 * part // 3 + step for part in (1, 2, 3) for step in (-1, 0, 1, 2))]
    passed += [7**power for power in range(3, 16)]
    starts = [(EPOCH + timedelta(milliseconds=value)).isoformat() for value in passed]
    opened = open_with(*(visit(i, startDate=start) for i, start in enumerate(starts)))
    yield opened, passed
    opened.close()


@pytest.mark.slow
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(span=st.one_of(st.integers(1, 60), st.integers(1, 10**13)), count=st.integers(1, 1_000))
@example(span=7, count=3)
@example(span=10**13, count=3)
@example(span=10**13 + 1, count=999)
@example(span=1, count=1_000)
def test_segments_are_exact_to_the_millisecond(moments, span, count):
    service, passed = moments
    expected = {}
    for value in passed:
        if value <= span:
            # Whole numbers only: segment i holds what is in [i * span / count, (i + 1) * span / count).
            segment = min(value * count // span, count - 1)
            start = instants.format(EPOCH + timedelta(milliseconds=-(-segment * span // count)))
            expected[start] = expected.get(start, 0) + 1
    found = by_interval(
        service, "custom", segments=count, since=EPOCH, until=EPOCH + timedelta(milliseconds=span)
    )
    assert found == expected


# -- laws and refusals ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd():
    """Two hundred random interactions of all populations over three years."""
    chance = random.Random(20250131)
    visits = []
    for number in range(200):
        kind = chance.choice(["session", "session", "offline"])
        visits.append(
            visit(
                number,
                userId=hex_id(chance.randrange(12)),
                nodeId=chance.choice(["ads", "letter", "direct"]),
                startDate=(EPOCH + timedelta(seconds=chance.randrange(10**8))).isoformat(),
                duration=chance.choice([None, 0.0, chance.randrange(10**7) / 1_000]),
                hitCount=chance.choice([None, chance.randrange(20)]),
                geo__city=chance.choice([None, "Oslo", "", "Å"]),
                type=kind,
                isBot=kind == "session" and chance.random() < 0.3,
                trafficFilterId=chance.choice([None, None, "office"]),
            )
        )
    opened = open_with(*visits)
    yield opened
    opened.close()


@pytest.mark.slow
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    group=st.sampled_from([None, "geo.city", "type", "nodeId", "userLifetimeIndex", "isBot", "userId"]),
    interval=st.sampled_from([None, "day", "week", "dayOfWeek", "hourOfDay", "custom"]),
    populations=st.tuples(*(st.sampled_from([True, False, None]) for _ in range(2))),
    seconds=st.tuples(st.integers(-1, 10**8), st.integers(0, 10**8)),
)
@example(group="type", interval="day", populations=(False, False), seconds=(10**8, 0))
@example(group="geo.city", interval="custom", populations=(None, None), seconds=(0, 10**8))
def test_sums_over_any_breakdown_are_those_of_the_search(crowd, group, interval, populations, seconds):
    since, until = (EPOCH + timedelta(seconds=second) for second in seconds)
    criteria = {"filtered": populations[0], "bots": populations[1], "since": since, "until": until}
    broken_down = insights(crowd, group=group, interval=interval, segments=7, **criteria)
    (whole,) = insights(crowd, **criteria)
    found = send(crowd, "search_interactions", **criteria)
    sums = {name: sum(record[name] for record in broken_down) for name in COUNTERS}
    assert sums["sessionCount"] == whole["sessionCount"] == found.total
    hits = sum(value or 0 for value in found.read()["hitCount"].to_pylist())
    assert sums["hitCount"] == whole["hitCount"] == hits
    # Sums of milliseconds that are held in binary fractions agree to the last digits only.
    assert sums["durationSum"] == pytest.approx(whole["durationSum"])
    assert whole["durationSum"] == pytest.approx(sum(found.read()["duration"].to_pylist()))
    assert len({(row["group"], row["interval"]) for row in broken_down}) == len(broken_down)
