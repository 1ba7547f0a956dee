from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attrib_ds.errors import InvalidRequest
from attrib_ds.plots.over_time import complete, season_of


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["2025", "2023"], ["2023", "2024", "2025"]),
        (["2025-S1", "2023-S2"], ["2023-S2", "2024-S1", "2024-S2", "2025-S1"]),
        (["2025-Q1", "2024-Q3"], ["2024-Q3", "2024-Q4", "2025-Q1"]),
        (["2025-02", "2024-11"], ["2024-11", "2024-12", "2025-01", "2025-02"]),
        # 2020 has 53 ISO weeks.
        (["2021-W01", "2020-W52"], ["2020-W52", "2020-W53", "2021-W01"]),
        (["2024-03-01", "2024-02-28"], ["2024-02-28", "2024-02-29", "2024-03-01"]),
        (["10", "9", "7"], ["7", "8", "9", "10"]),
        (["0"], ["0"]),
        ([], []),
    ],
)
def test_labels_are_ordered_and_gaps_filled(labels, expected):
    assert complete(labels) == expected


@pytest.mark.parametrize(
    "labels",
    [
        ["2025-01-01T06:00:00.000Z", "2025-01-01T00:00:00.000Z"],
        ["2025-13", "2025-01"],
        ["2025-02-30", "2025-02-01"],
        ["2025-01", "2024-12-31"],
        ["2025-W60", "2025-W01"],
    ],
)
def test_other_labels_are_only_sorted(labels):
    assert complete(labels) == sorted(labels)


def test_numbers_with_leading_zeros_are_ordered_as_numbers():
    assert complete(["10", "09", "1"]) == ["1", "09", "10"]


def test_a_stray_date_does_not_fill_centuries():
    assert complete(["2025-01-01", "1900-01-01"]) == ["1900-01-01", "2025-01-01"]


@given(start=st.dates(date(1990, 1, 1), date(2090, 1, 1)), days=st.integers(0, 800))
def test_days_and_weeks_follow_the_calendar(start, days):
    every = [start + timedelta(days=i) for i in range(days + 1)]
    assert complete([every[-1].isoformat(), every[0].isoformat()]) == [day.isoformat() for day in every]
    weeks = list(dict.fromkeys(day.strftime("%G-W%V") for day in every))
    assert complete([weeks[-1], weeks[0]]) == weeks


def test_seasons_have_their_full_range_and_names():
    assert season_of(["7", "2"], "dayOfWeek")[1] == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    assert season_of(["3"], "monthOfYear") == (
        [str(month) for month in range(1, 13)],
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
    )
    every, names = season_of(["3"], "hourOfDay")
    assert every == names == [str(hour) for hour in range(24)]


def test_without_an_interval_only_one_to_seven_are_weekdays():
    assert season_of(list("7654321"), None)[1][0] == "Mon"
    assert season_of(["2", "5"], None) == (["2", "3", "4", "5"], ["2", "3", "4", "5"])


def test_labels_outside_the_interval_are_refused():
    with pytest.raises(
        InvalidRequest, match="interval: 'dayOfWeek' is not allowed .* label '8'; its labels are 1 to 7"
    ):
        season_of(["8", "1"], "dayOfWeek")
    with pytest.raises(InvalidRequest, match="insights: interval '2025-01' is not seasonal"):
        season_of(["2025-01"], None)
