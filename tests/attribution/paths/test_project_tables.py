"""Outlays spread over their days, computed by hand."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attrib_ds.attribution.paths.project_tables import daily_spend, lazy


def outlays(*rows, deleted=None):
    columns = ["campaignId", "startDate", "endDate", "amount.amount"]
    frame = pd.DataFrame(rows, columns=columns)
    for name in ("startDate", "endDate"):
        frame[name] = pd.to_datetime(frame[name], format="ISO8601").astype("datetime64[us]")
    frame["amount.currency"] = "EUR"
    frame["deletedAt"] = pd.Series(deleted, index=frame.index, dtype="datetime64[us]")
    return lazy(frame)


def spread(table, zone="UTC", since=None, until=None):
    spent = daily_spend(table, ZoneInfo(zone), since=since, until=until)
    days = spent["date"].dt.strftime("%m-%d %H:%M")
    return dict(zip(days, spent["spend"].round(9), strict=True))


def test_an_outlay_is_spread_evenly_over_its_seconds():
    # 60 hours at 1 an hour: half a day, two days, nothing on the day that begins at its end.
    table = outlays(("brand", "2025-01-01T12:00", "2025-01-04T00:00", 60.0))
    assert spread(table) == {"01-01 12:00": 12.0, "01-02 00:00": 24.0, "01-03 00:00": 24.0}


def test_days_are_those_of_the_time_zone():
    table = outlays(("brand", "2025-01-01T12:00", "2025-01-03T12:00", 48.0))
    assert spread(table, "Europe/Paris") == {"01-01 12:00": 11.0, "01-01 23:00": 24.0, "01-02 23:00": 13.0}


def test_a_day_on_which_clocks_change_has_23_or_25_hours_of_it():
    table = outlays(("brand", "2025-03-29T23:00", "2025-03-31T22:00", 47.0))
    assert spread(table, "Europe/Paris") == {"03-29 23:00": 23.0, "03-30 22:00": 24.0}
    table = outlays(("brand", "2025-10-25T22:00", "2025-10-26T23:00", 25.0))
    assert spread(table, "Europe/Paris") == {"10-25 22:00": 25.0}


def test_only_spend_inside_the_period_counts():
    table = outlays(("brand", "2025-01-01", "2025-01-11", 10.0), ("old", "2024-01-01", "2024-01-02", 5.0))
    period = {"since": datetime(2025, 1, 2, 6), "until": datetime(2025, 1, 3, 12)}
    assert spread(table, **period) == {"01-02 06:00": 0.75, "01-03 00:00": 0.5}
    assert spread(table, until=datetime(2023, 1, 1)) == {}


def test_deleted_outlays_cost_nothing():
    assert spread(outlays(("brand", "2025-01-01", "2025-01-02", 5.0), deleted="2025-02-01")) == {}


instants = st.datetimes(datetime(2025, 1, 1), datetime(2025, 12, 31))


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(instants, st.timedeltas(pd.Timedelta("1s"), pd.Timedelta("90D")), st.integers(0, 999))
    ),
    st.sampled_from(["UTC", "Europe/Paris", "Australia/Lord_Howe"]),
)
@example([(datetime(2025, 3, 30, 0, 30), pd.Timedelta("1h"), 7)], "Europe/Paris")
@example([], "UTC")
def test_total_spend_is_conserved(rows, zone):
    table = outlays(*(("brand", begin, begin + length, float(amount)) for begin, length, amount in rows))
    spent = daily_spend(table, ZoneInfo(zone), since=None, until=None)
    assert spent["spend"].sum() == pytest.approx(sum(amount for *_, amount in rows))
    days = spent["date"].dt.tz_convert(zone)
    assert spent["spend"].ge(0).all()
    # No row spans midnight.
    assert (days.dt.normalize() <= days).all()
