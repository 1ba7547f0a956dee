"""Dates in the frames of users: dates, timestamps and ISO 8601 text, and nothing with two readings."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

#: What errors say about a value that is no date.
ALLOWED = "dates, timestamps or ISO 8601 text such as '2025-01-31'"

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}")
_ISO_8601 = re.compile(rf"(?:{_DAY.pattern})(?:[Tt ].+)?")


def read_dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the instants of a column in UTC, missing where the value is no date.

    Parameters
    ----------
    column : Series
        Dates, timestamps or ISO 8601 text with a day; UTC unless they have an offset. Other text, such as
        ``"01.02.2025"``, has two readings, and so have numbers: days, seconds or milliseconds.

    Examples
    --------
    >>> read_dates(pd.Series(["2025-02-01", "01.02.2025", 45658])).dt.strftime("%d %B").tolist()
    ['01 February', nan, nan]
    """
    if not _holds_instants(column):
        column = pd.Series([_date(value) for value in column], index=column.index, dtype=object)
    return pd.to_datetime(column, utc=True, errors="coerce", format="ISO8601")


def local_days_of(column: pd.Series[Any], zone: ZoneInfo) -> pd.Series[Any]:
    """Return the local day of each date of a column, without a zone; missing where the value is no date.

    A date without a time is that day in any zone, and so is each of a column of midnights without a zone, as
    pandas holds days.

    Examples
    --------
    >>> from zoneinfo import ZoneInfo
    >>> dates = pd.Series(["2025-02-01", "2025-02-01T00:00:00Z"])
    >>> local_days_of(dates, ZoneInfo("America/New_York")).dt.day.tolist()
    [1, 31]
    """
    instants = pd.DatetimeIndex(read_dates(column))
    local = instants.tz_convert(zone).tz_localize(None).normalize()
    days = local.where(~_are_days(column), instants.tz_localize(None).normalize())
    return pd.Series(days, index=column.index)


def _holds_instants(column: pd.Series[Any]) -> bool:
    dtype = column.dtype
    holds_days = isinstance(dtype, pd.ArrowDtype) and pa.types.is_date(dtype.pyarrow_dtype)
    return dtype.kind == "M" and not holds_days


def _date(value: object) -> object:
    """Return a value that pandas reads as a date in one way only, or None."""
    if isinstance(value, str):
        text = value.strip()
        return text if _ISO_8601.fullmatch(text) else None
    return value if isinstance(value, date | np.datetime64) else None


def _are_days(column: pd.Series[Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if _holds_instants(column):
        is_midnight = column.dt.tz is None and bool((column.dropna().dt.time == time(0)).all())
        return np.full(len(column), is_midnight)
    return np.array([_is_day(value) for value in column], dtype=bool)


def _is_day(value: object) -> bool:
    if isinstance(value, str):
        return _DAY.fullmatch(value.strip()) is not None
    return isinstance(value, date) and not isinstance(value, datetime)
