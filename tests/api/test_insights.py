"""Insights mark the intervals that are counted in part only."""

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds import instants


@pytest.fixture(scope="module")
def shop():
    """A project with one interaction a day from Monday 2 June to Tuesday 10 June 2025."""
    days = pd.date_range("2025-06-02T12:00Z", "2025-06-10T12:00Z", freq="D")
    interactions = pd.DataFrame(
        {
            "_id": [f"{number:024x}" for number in range(1, len(days) + 1)],
            "type": "session",
            "userId": f"{99:024x}",
            "nodeId": "search",
            "startDate": days,
            "endDate": days,
        }
    )
    nodes = pd.DataFrame({"_id": ["search"], "name": "Search", "type": "channel", "channel": "Search"})
    with at.connect("weeks", path=":memory:") as project:
        assert at.load(project, nodes=nodes, interactions=interactions).rejected.empty
        yield project


def partial(frame):
    assert frame["is_partial"].dtype == "boolean"
    return frame.loc[frame["is_partial"], "interval"].tolist()


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, ["2025-W24"]),  # the last interaction was on a Tuesday
        ({"until": "2025-06-08"}, []),
        ({"until": "2025-06-07"}, ["2025-W23"]),
        ({"since": "2025-06-03", "until": "2025-06-15"}, ["2025-W23"]),
        ({"since": "2025-06-02", "until": "2025-06-14T23:00:00Z"}, ["2025-W24"]),
    ],
)
def test_weeks_that_bounds_cut_are_partial(shop, bounds, expected):
    assert partial(at.interaction_insights(shop, interval="week", **bounds)) == expected


def test_the_time_zone_determines_where_a_day_ends(shop):
    bounds = {"since": "2025-06-01T22:00:00Z", "until": "2025-06-08T21:59:59.999Z"}
    assert partial(at.interaction_insights(shop, interval="week", timezone="Europe/Paris", **bounds)) == []
    assert partial(at.interaction_insights(shop, interval="week", **bounds)) == ["2025-W23"]


def test_an_interval_that_is_not_over_is_partial(shop):
    today = instants.now().date()
    rows = at.event_insights(
        shop, metrics=["event-count"], since="2025-06-02", until=f"{today.year + 1}-12-31", interval="year"
    )
    # 2025 is cut by since, the present year is not over, and the next has not begun.
    assert partial(rows) == list(dict.fromkeys(["2025", str(today.year), str(today.year + 1)]))


def test_only_calendar_intervals_can_be_partial(shop):
    assert "is_partial" not in at.interaction_insights(shop).columns
    assert "is_partial" not in at.interaction_insights(shop, interval="dayOfWeek").columns
