"""Local days across clock changes, and labels of calendar intervals."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attrib_ds import errors
from attrib_ds.attribution.calendar import INTERVALS, first_days, labels, local_days, starts_of, zone_of
from attrib_ds.attribution.paths.project_tables import lazy
from attrib_ds.records.frames import TEXT

ZONES = ["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Cairo"]
FIRST, LAST = datetime(2024, 1, 1), datetime(2026, 1, 1)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.datetimes(FIRST, LAST), min_size=1, max_size=20), st.sampled_from(ZONES))
# The seconds around both changes of the clocks in Paris.
@example(
    [datetime(2025, 3, 30, 0, 59, 59), datetime(2025, 3, 30, 1), datetime(2025, 10, 26, 1)], "Europe/Paris"
)
@example(
    [datetime(2025, 3, 29, 22, 59, 59), datetime(2025, 3, 30, 22), datetime(2025, 3, 29, 23)], "Europe/Paris"
)
@example([FIRST, LAST], "America/New_York")
def test_local_days_are_those_of_local_clocks(instants, name):
    zone = ZoneInfo(name)
    table = lazy(pd.DataFrame({"row": range(len(instants)), "at": instants}))
    days = local_days(table["at"], zone, first=min(instants), last=max(instants))
    found = table.mutate(day=days).order_by("row").to_pyarrow()["day"].to_pylist()
    assert found == [each.replace(tzinfo=UTC).astimezone(zone).date() for each in instants]


def test_every_second_around_a_change_of_clocks_is_on_its_day():
    zone = ZoneInfo("Africa/Cairo")
    # Clocks skip from midnight to 1 o'clock: 25 April 2025 begins at 1 o'clock.
    change = datetime(2025, 4, 24, 22)
    instants = [change + timedelta(seconds=seconds) for seconds in range(-3, 4)]
    table = lazy(pd.DataFrame({"at": instants}))
    days = local_days(table["at"], zone, first=FIRST, last=LAST)
    counted = table.group_by(day=days).agg(seconds=table.count()).order_by("day").to_pyarrow()
    assert counted["seconds"].to_pylist() == [3, 4]


def test_days_begin_at_the_first_local_midnight():
    days = pd.Series(pd.to_datetime(["2025-03-30", "2025-03-31", "2025-10-26", "2025-10-27"]))
    begun = starts_of(days, ZoneInfo("Europe/Paris"))
    assert begun.dt.strftime("%m-%d %H").tolist() == ["03-29 23", "03-30 22", "10-25 22", "10-26 23"]
    skipped = starts_of(pd.Series(pd.to_datetime(["2025-04-25"])), ZoneInfo("Africa/Cairo"))
    assert skipped.astype(TEXT).tolist() == ["2025-04-24 22:00:00+00:00"]
    # Midnight occurred twice in Havana: the first one counts.
    twice = starts_of(pd.Series(pd.to_datetime(["2025-11-02"])), ZoneInfo("America/Havana"))
    assert twice.astype(TEXT).tolist() == ["2025-11-02 04:00:00+00:00"]


def test_intervals_have_the_names_and_first_days_of_the_calendar():
    days = pd.Series(pd.to_datetime(["2024-12-30", "2025-08-31"]).astype("datetime64[us]"))
    named = {each: labels(days, each).tolist() for each in INTERVALS}
    assert named == {
        "day": ["2024-12-30", "2025-08-31"],
        "week": ["2025-W01", "2025-W35"],
        "month": ["2024-12", "2025-08"],
        "quarter": ["2024-Q4", "2025-Q3"],
        "semester": ["2024-S2", "2025-S2"],
        "year": ["2024", "2025"],
    }
    begun = {each: first_days(days, each).dt.strftime("%Y-%m-%d").tolist() for each in INTERVALS}
    assert begun == {
        "day": ["2024-12-30", "2025-08-31"],
        "week": ["2024-12-30", "2025-08-25"],
        "month": ["2024-12-01", "2025-08-01"],
        "quarter": ["2024-10-01", "2025-07-01"],
        "semester": ["2024-07-01", "2025-07-01"],
        "year": ["2024-01-01", "2025-01-01"],
    }


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", 3])
def test_unknown_time_zones_are_refused(name):
    with pytest.raises(errors.InvalidRequest, match="timezone: .* is not a time zone"):
        zone_of(name)
