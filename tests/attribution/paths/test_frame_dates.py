"""Dates of frames have one reading, whatever the rows beside them."""

from datetime import date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from attrib_ds.attribution.paths.money import local_days_of, read_dates


@pytest.mark.parametrize(
    "value",
    [
        *("01.02.2025", "1/2/2025", "2025/02/01", "25-02-01", "2025-02-30", "2025-2-1"),
        *("2025", "2025-02", "202502", "45689", "now", "today", "soon", "", None, True),
        *(45689, 45689.0, 1_738_368_000_000, np.int64(20250201), np.nan, pd.Period("2025-02")),
    ],
)
@pytest.mark.parametrize("beside", [[], ["13.02.2025"], ["2025-02-13"], [date(2025, 2, 13)]])
def test_what_is_no_date_is_missing(value, beside):
    for values in ([value, *beside], [*beside, value]):
        read = read_dates(pd.Series(values, dtype=object))
        assert pd.isna(read.iloc[values.index(value)])


def test_columns_of_numbers_are_no_dates():
    for column in (pd.Series([45689]), pd.Series([45689.0]), pd.Series([45689], dtype="Int64")):
        assert read_dates(column).isna().all()


def test_dates_and_timestamps_of_all_kinds_are_read_together():
    values = [
        *(" 2025-02-01 ", "20250201", "2025-02-01T00:00:00Z", "2025-02-01 02:00+02:00"),
        *(date(2025, 2, 1), datetime(2025, 2, 1), pd.Timestamp("2025-02-01T01:00", tz="Europe/Paris")),
        np.datetime64("2025-02-01"),
    ]
    assert set(read_dates(pd.Series(values, dtype=object))) == {pd.Timestamp("2025-02-01", tz="UTC")}


@pytest.mark.parametrize(
    ("values", "day"),
    [
        (["2025-02-01"], 1),
        (["20250201"], 1),
        ([date(2025, 2, 1)], 1),
        (["2025-02-01T00:00:00"], 31),
        (["2025-02-01T06:00:00Z"], 1),
        (pd.to_datetime(["2025-02-01"]), 1),
        (pd.to_datetime(["2025-02-01", "2025-02-01T10:00"], format="ISO8601"), 31),
        (pd.to_datetime(["2025-02-01"], utc=True), 31),
        (pd.array([date(2025, 2, 1)], dtype=pd.ArrowDtype(pa.date32())), 1),
        (pd.array([datetime(2025, 2, 1)], dtype=pd.ArrowDtype(pa.timestamp("us"))), 1),
        (pd.array([datetime(2025, 2, 1)], dtype=pd.ArrowDtype(pa.timestamp("us", "UTC"))), 31),
    ],
)
def test_a_date_without_a_time_is_a_local_day(values, day):
    # In New York the day begins at 05:00 UTC.
    days = local_days_of(pd.Series(values), ZoneInfo("America/New_York"))
    assert days[0].day == day
    assert days.dt.tz is None
