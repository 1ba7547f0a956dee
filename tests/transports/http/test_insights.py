"""Intervals of insights are labelled and sorted as by an embedded project."""

import pyarrow as pa
import pytest

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.transports.http.insights import conform

#: Labels by the interval, each in the ways in which a service may write it.
LABELS = [
    ("month", ["2025-02", "2025-02-01", "2025-02-01T00:00:00Z", "2025-02-01T01:00:00+01:00", "1738368000"], "2025-02"),
    ("week", ["2025-W06", "2025-02-03T00:00:00.000Z"], "2025-W06"),
    ("quarter", ["2025-Q1", "2025-01-01T00:00:00Z"], "2025-Q1"),
    ("day", ["2025-02-03", "2025-02-03T00:00:00Z"], "2025-02-03"),
    ("year", ["2025", "2025-01-01"], "2025"),
    ("month", ["2025-01-01T00:00:00+01:00", "2024-12-31T23:00:00Z", "2025-01-01T05:00:00Z"], "2025-01"),
    ("year", ["2025-01-01T00:00:00+01:00", "2025-01-01T00:00:00-05:00", "2024-12-31T11:00:00Z"], "2025"),
    ("week", ["2025-02-02T18:30:00Z", "2025-02-03T00:00:00+05:30"], "2025-W06"),
    ("day", ["2025-02-02T18:30:00Z", "2025-02-03T05:00:00Z"], "2025-02-03"),
    ("month", ["2025-01-31T23:59:59.999Z", "2025-01-15T22:30:00Z"], "2025-01"),
    ("dayOfWeek", ["1"], "1"),
    ("year", ["this year"], "this year"),
]  # fmt: skip


def conformed(rows, *, interval, group=None, **more):
    request = build(
        OPERATIONS["interaction_insights"], project_id="shop", group=group, interval=interval, **more
    )
    columns = {"group": [row[0] for row in rows], "interval": [row[1] for row in rows]}
    found = conform(pa.table(columns, pa.schema({"group": "string", "interval": "string"})), "group", request)
    return list(zip(*found.to_pydict().values(), strict=True))


@pytest.mark.parametrize(("interval", "sent", "label"), LABELS)
def test_an_interval_has_one_label(interval, sent, label):
    assert {each for _, each in conformed([(None, text) for text in sent], interval=interval)} == {label}


def test_a_day_is_that_of_the_time_zone():
    rows = [(None, "2025-01-31T23:00:00Z")]
    assert conformed(rows, interval="month", timezone="Europe/Oslo") == [(None, "2025-02")]


def test_parts_of_a_period_are_labelled_by_instants():
    period = {"since": "2025-01-01T00:00:00Z", "until": "2025-01-03T00:00:00Z", "segments": 2}
    rows = [(None, "2025-01-02T01:00:00+01:00"), (None, "2025-01-01T00:00:00+00:00")]
    assert [label for _, label in conformed(rows, interval="custom", **period)] == [
        "2025-01-01T00:00:00.000Z",
        "2025-01-02T00:00:00.000Z",
    ]


def test_numbers_are_sorted_as_numbers_and_missing_groups_last():
    rows = [("10", "12"), (None, "2"), ("10", "2"), ("9", "2")]
    expected = [("9", "2"), ("10", "2"), (None, "2"), ("10", "12")]
    assert conformed(rows, interval="monthOfYear", group="hitCount") == expected


def test_texts_are_sorted_as_texts_and_a_sort_that_was_asked_for_stays():
    rows = [("b", "2025"), ("10", "2025"), ("9", "2025")]
    assert conformed(rows, interval="year", group="geo.city") == [rows[1], rows[2], rows[0]]
    assert conformed(rows, interval="year", group="geo.city", sort={"sessionCount": -1}) == rows
