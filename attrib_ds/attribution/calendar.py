"""Calendar periods and durations, in words and in time zones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd

from attrib_ds import errors, instants
from attrib_ds.records.frames import TEXT

#: Label of the interval that each day belongs to, by interval.
_LABELS: dict[str, Callable[[pd.Series[Any]], pd.Series[Any]]] = {
    "day": lambda days: days.dt.strftime("%Y-%m-%d"),
    "week": lambda days: days.dt.strftime("%G-W%V"),
    "month": lambda days: days.dt.strftime("%Y-%m"),
    "quarter": lambda days: days.dt.strftime("%Y-Q") + days.dt.quarter.astype(TEXT),
    "semester": lambda days: days.dt.strftime("%Y-S") + ((days.dt.month - 1) // 6 + 1).astype(TEXT),
    "year": lambda days: days.dt.strftime("%Y"),
}
INTERVALS = tuple(_LABELS)


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name.

    Raises
    ------
    InvalidRequest
        If there is no such time zone.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise errors.InvalidRequest(
            f"timezone: {name!r} is not a time zone; allowed: an IANA name such as 'Europe/Paris'"
        ) from error


def local_days(instants: Any, zone: ZoneInfo, *, first: datetime, last: datetime) -> ir.DateValue:
    """Return the local date of instants in a time zone, as an expression for any engine.

    Parameters
    ----------
    instants : ibis timestamp
        UTC, without a zone.
    zone : ZoneInfo
        Time zone of the dates.
    first, last : datetime
        Bounds of the instants; UTC, without a zone.
    """
    *changes, (_, latest) = _offsets(zone, first, last)
    # Two branches per year, because time zone functions differ between engines or do not exist.
    local = instants + _interval(latest)
    if changes:
        branches = (
            (instants < ibis.literal(until), instants + _interval(offset)) for until, offset in changes
        )
        local = ibis.cases(*branches, else_=local)
    return local.date()


def starts_of(days: pd.Series[Any], zone: ZoneInfo) -> pd.Series[Any]:
    """Return the instants at which local days begin."""
    midnights = pd.DatetimeIndex(days)
    # If midnight occurs twice the first one counts; if clocks skip it, the day begins later.
    local = midnights.tz_localize(
        zone, nonexistent="shift_forward", ambiguous=np.ones(len(midnights), dtype=bool)
    )
    return pd.Series(local.tz_convert("UTC").as_unit("us"), index=days.index)


def labels(days: pd.Series[Any], interval: str) -> pd.Series[Any]:
    """Return the label of the interval of each day, as in insights.

    Raises
    ------
    InvalidRequest
        If there is no such interval.

    Examples
    --------
    >>> import pandas as pd
    >>> days = pd.Series(pd.to_datetime(["2025-02-03"]))
    >>> [labels(days, interval)[0] for interval in INTERVALS]
    ['2025-02-03', '2025-W06', '2025-02', '2025-Q1', '2025-S1', '2025']
    """
    errors.check_choice("interval", interval, _LABELS)
    return _LABELS[interval](days).astype(TEXT)


def first_days(days: pd.Series[Any], interval: str) -> pd.Series[Any]:
    """Return the first day of the interval of each day."""
    if interval == "day":
        return days
    if interval == "week":
        return pd.Series(days - pd.to_timedelta(days.dt.day_of_week, unit="D"))
    months = {"month": 1, "quarter": 3, "semester": 6, "year": 12}[interval]
    month = (days.dt.month - 1) // months * months + 1
    first = days.dt.year.astype(TEXT) + "-" + month.astype(TEXT).str.zfill(2) + "-01"
    return pd.Series(pd.to_datetime(first, format="%Y-%m-%d").astype("datetime64[us]"))


def _offsets(zone: ZoneInfo, first: datetime, last: datetime) -> list[tuple[datetime, timedelta]]:
    """Return the offsets from UTC between two instants, each with its end."""
    instant, offsets = first, []
    offset = _offset(zone, instant)
    while instant < last:
        later = min(instant + timedelta(days=1), last)
        if _offset(zone, later) != offset:
            low, high = instant, later
            # Clocks change at whole seconds.
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
                low, high = (middle, high) if _offset(zone, middle) == offset else (low, middle)
            offsets.append((high.replace(microsecond=0), offset))
            offset = _offset(zone, later)
        instant = later
    return [*offsets, (last, offset)]


def _offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    return instant.replace(tzinfo=UTC).astimezone(zone).utcoffset() or timedelta(0)


def _interval(length: timedelta) -> Any:
    return ibis.interval(seconds=length // timedelta(seconds=1))


def counted_in_part(
    intervals: pd.Series[Any],
    interval: str,
    zone: ZoneInfo,
    *,
    first: datetime | None = None,
    last: datetime | None = None,
) -> pd.Series[Any]:
    """Return whether each interval is counted in part only.

    Parameters
    ----------
    intervals : Series of str
        Labels of intervals.
    interval : str
        Length of the intervals.
    zone : ZoneInfo
        Time zone in which intervals begin.
    first, last : datetime, optional
        Bounds of what is counted, both inclusive. What is in the future is not counted yet.

    Returns
    -------
    Series of boolean
        With the index of ``intervals``. Intervals before the first bound, or after the last one, are partial.
    """
    present, step = instants.now(), timedelta(milliseconds=1)

    def label(instant: datetime) -> str:
        day = datetime.combine(instant.astimezone(zone).date(), time())
        return str(labels(pd.Series([day]), interval)[0])

    last = present if last is None else min(last, present)
    ends_inside = label(last) == label(last + step)
    # Labels sort by time.
    is_partial = (intervals >= label(last)) if ends_inside else (intervals > label(last))
    if first is not None:
        begins_inside = label(first) == label(first - step)
        is_partial |= (intervals <= label(first)) if begins_inside else (intervals < label(first))
    return is_partial.astype("boolean")


_ALLOWED = "allowed: a positive length of time such as '30D', '36h' or a timedelta"


def parse_duration(value: str | timedelta | np.timedelta64, *, argument: str) -> timedelta:
    """Read a positive length of time.

    Parameters
    ----------
    value : str, timedelta or numpy.timedelta64
        Text as pandas reads it (``"7D"``, ``"36h"``), or a length of time.
    argument : str
        Name of the argument, for the error.

    Returns
    -------
    timedelta
        To the microsecond.

    Raises
    ------
    InvalidRequest
        If the value is not a length of time, is not finite or is not positive.

    Examples
    --------
    >>> parse_duration("36h", argument="lookback")
    datetime.timedelta(days=1, seconds=43200)
    """
    try:
        # pandas reads numbers as nanoseconds, and empty text as NaT.
        if not isinstance(value, str | timedelta | np.timedelta64) or (
            isinstance(value, str) and value.strip().isdigit()
        ):
            raise ValueError(value)
        length = pd.Timedelta(value).to_pytimedelta()
    except (AttributeError, ValueError, OverflowError) as error:
        raise errors.InvalidRequest(f"{argument}: {value!r} is not a length of time; {_ALLOWED}") from error
    if length <= timedelta(0):
        raise errors.InvalidRequest(f"{argument}: {value!r} is not positive; {_ALLOWED}")
    return length


def as_days(value: str | timedelta, *, argument: str) -> float:
    """Return a positive length of time in days."""
    return parse_duration(value, argument=argument) / timedelta(days=1)
