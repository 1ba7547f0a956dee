"""Read RFC 3339 instants and calendar days, and write instants in one canonical form, in UTC."""

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from attrib_ds.errors import InvalidRequest

_RFC_3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_ONLY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}")
#: Precision of instants in Python, and in tables of other engines.
RESOLUTION: Final = timedelta(microseconds=1)
#: Precision of the instants that the service keeps.
KEPT_RESOLUTION: Final = timedelta(milliseconds=1)
_EXAMPLE: Final = "2025-01-31T12:00:00Z"
#: Longest time for which a message of a page that knows the difference of the clocks is under way.
_LONGEST_WAY: Final = timedelta(minutes=1)


def difference_of_clocks(sent_at: datetime, *, told: int | None, now: datetime) -> timedelta:
    """Return how far the service's clock is ahead of that of a page.

    All that a page sends has the same difference, the one that it was told first, so that its events and page
    views keep their order however long each is under way.

    Parameters
    ----------
    sent_at : datetime
        When the page has sent a message, by its own clock.
    told : int or None
        Milliseconds that the service has told the page; ignored if its clock was set since.
    now : datetime
        When the message arrived.

    Examples
    --------
    >>> noon = datetime(2025, 1, 31, 12)
    >>> for told in (None, 900, 3_600_000):
    ...     difference_of_clocks(noon, told=told, now=noon + timedelta(seconds=1)).total_seconds()
    1.0
    0.9
    1.0
    """
    seen = now - sent_at
    difference = seen if told is None else timedelta(milliseconds=told)
    return difference if abs(seen - difference) <= _LONGEST_WAY else seen


def parse(value: object, *, argument: str) -> datetime:
    """Read an instant and return it in UTC, truncated to milliseconds.

    Parameters
    ----------
    value : str, datetime, pandas.Timestamp or numpy.datetime64
        Text follows RFC 3339; lower-case ``t`` and ``z``, and a space for ``T``, are accepted. A value
        without an offset is UTC. Digits beyond milliseconds are cut off, and the leap second ``:60`` is
        read as ``:59.999``.
    argument : str
        What the value is called in an error message.

    Returns
    -------
    datetime
        Aware, in UTC.

    Raises
    ------
    InvalidRequest
        If the value is a date without a time, is not such an instant, or leaves the years 0001 to
        9999 once it is in UTC.

    Examples
    --------
    >>> parse("2025-01-31T13:00:00+01:00", argument="since")
    datetime.datetime(2025, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)
    >>> parse("2025-01-31", argument="since")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: since: '2025-01-31' is a date without a time; write ...
    """
    return truncate(parse_exact(value, argument=argument))


def parse_exact(value: object, *, argument: str) -> datetime:
    """Read an instant as :func:`parse` does, but keep microseconds: in requests, nonces and answers.

    Examples
    --------
    >>> parse_exact("2025-01-31T12:00:00.1234567Z", argument="since")
    datetime.datetime(2025, 1, 31, 12, 0, 0, 123456, tzinfo=datetime.timezone.utc)
    """
    if isinstance(value, np.datetime64):
        local = _from_numpy(value, argument)
    elif isinstance(value, datetime):
        local = _from_datetime(value, argument)
    elif isinstance(value, str):
        local = _from_text(value, argument)
    elif isinstance(value, date):
        raise _date_alone(value, value.isoformat(), argument)
    else:
        raise _refusal(value, argument, f"is not an instant but {type(value).__name__}")
    try:
        return local if local.tzinfo is UTC else local.astimezone(UTC)
    except OverflowError:
        raise _refusal(value, argument, "is outside the years 0001 to 9999 in UTC") from None


def truncate(instant: datetime) -> datetime:
    """Return an instant without its digits beyond milliseconds.

    Examples
    --------
    >>> truncate(datetime(2025, 1, 31, 12, 0, 0, 123999, tzinfo=UTC))
    datetime.datetime(2025, 1, 31, 12, 0, 0, 123000, tzinfo=datetime.timezone.utc)
    """
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def round_up(instant: datetime) -> datetime:
    """Return the first instant in milliseconds that is not before one.

    Examples
    --------
    >>> round_up(datetime(2025, 1, 31, 12, 0, 0, 123001, tzinfo=UTC))
    datetime.datetime(2025, 1, 31, 12, 0, 0, 124000, tzinfo=datetime.timezone.utc)
    """
    kept = truncate(instant)
    # Nothing is later than the last millisecond of the year 9999.
    is_kept = kept == instant or kept > datetime.max.replace(tzinfo=instant.tzinfo) - KEPT_RESOLUTION
    return instant if is_kept else kept + KEPT_RESOLUTION


def now() -> datetime:
    """Return the present instant, in UTC and truncated to milliseconds.

    Examples
    --------
    >>> now().microsecond % 1000
    0
    """
    return truncate(datetime.now(UTC))


def parse_day(value: object, *, argument: str) -> date | None:
    """Return the calendar day that a value names, or None for anything else.

    Parameters
    ----------
    value : object
        A ``date``, a ``numpy.datetime64`` in days or text such as ``"2025-04-01"`` names a day; a
        ``datetime`` or a ``Timestamp`` does not.
    argument : str
        Name of the value in an error message.

    Raises
    ------
    InvalidRequest
        If the text has the form of a day that does not exist.

    Examples
    --------
    >>> parse_day("2025-04-01", argument="since")
    datetime.date(2025, 4, 1)
    """
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype)[0] == "D":
        value = value.item()
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _DAY.fullmatch(value):
        return None
    try:
        return date.fromisoformat(value)
    except ValueError as error:
        raise _refusal(value, argument, f"does not exist ({error})") from None


def first_instant(day: date, zone: ZoneInfo, *, argument: str) -> datetime:
    """Return the first instant of a local day, in UTC.

    A midnight that occurs twice counts the first time; one that the clocks skip is the instant of the change.

    Examples
    --------
    >>> from zoneinfo import ZoneInfo
    >>> first_instant(date(2025, 3, 31), ZoneInfo("Europe/Paris"), argument="since")
    datetime.datetime(2025, 3, 30, 22, 0, tzinfo=datetime.timezone.utc)
    """
    try:
        return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
    except OverflowError:
        raise _refusal(day.isoformat(), argument, "is outside the years 0001 to 9999 in UTC") from None


def last_instant(day: date, zone: ZoneInfo, *, argument: str) -> datetime:
    """Return the last instant of a local day, in UTC: a microsecond before the next day starts.

    Examples
    --------
    >>> from zoneinfo import ZoneInfo
    >>> last_instant(date(2025, 3, 30), ZoneInfo("Europe/Paris"), argument="until")
    datetime.datetime(2025, 3, 30, 21, 59, 59, 999999, tzinfo=datetime.timezone.utc)
    """
    try:
        following = day + timedelta(days=1)
    except OverflowError:
        raise _refusal(day.isoformat(), argument, "is outside the years 0001 to 9999 in UTC") from None
    return first_instant(following, zone, argument=argument) - RESOLUTION


def format(instant: datetime) -> str:  # noqa: A001  (read as `instants.format`, the pair of `parse`)
    """Write an aware instant as RFC 3339 text in UTC.

    Parameters
    ----------
    instant : datetime
        Aware.

    Returns
    -------
    str
        Three digits after the point, or six when the microseconds need them.

    Raises
    ------
    ValueError
        If the instant has no time zone: it would be read in the zone of this machine.

    Examples
    --------
    >>> format(datetime(2025, 1, 31, 12, tzinfo=UTC))
    '2025-01-31T12:00:00.000Z'
    >>> format(datetime(2025, 1, 31, 12, 0, 0, 1, tzinfo=UTC))
    '2025-01-31T12:00:00.000001Z'
    """
    if instant.utcoffset() is None:
        raise ValueError(f"instant: {instant!r} has no time zone; parse() gives it one")
    precision = "microseconds" if instant.microsecond % 1000 else "milliseconds"
    return f"{naive(instant).isoformat(timespec=precision)}Z"


def naive(instant: datetime) -> datetime:
    """Return an instant in UTC without a time zone, as tables store it.

    Examples
    --------
    >>> naive(datetime.fromisoformat("2025-01-31T12:00:00+02:00"))
    datetime.datetime(2025, 1, 31, 10, 0)
    >>> naive(datetime(2025, 1, 31, 10))
    datetime.datetime(2025, 1, 31, 10, 0)
    """
    # A naive instant is in UTC already; Python would take it for local time.
    if instant.tzinfo is None:
        return instant
    return (instant if instant.tzinfo is UTC else instant.astimezone(UTC)).replace(tzinfo=None)


def _from_text(value: str, argument: str) -> datetime:
    if _DATE_ONLY.fullmatch(value):
        written = value if "-" in value else f"{value[:4]}-{value[4:6]}-{value[6:]}"
        raise _date_alone(value, written, argument)
    match = _RFC_3339.fullmatch(value)
    if match is None:
        raise _refusal(value, argument, "does not follow RFC 3339")
    *parts, fraction, zone = match.groups()
    year, month, day, hour, minute, second = map(int, parts)
    microsecond = int(fraction[:6].ljust(6, "0")) if fraction else 0
    if second == 60:
        second, microsecond = 59, 999_999
    try:
        return datetime(year, month, day, hour, minute, second, microsecond, _zone(zone))
    except ValueError as error:
        raise _refusal(value, argument, f"does not exist ({error})") from None


def _zone(text: str | None) -> timezone:
    if text is None or text in "Zz":
        return UTC
    hours, minutes = int(text[1:3]), int(text[4:6])
    if hours > 23 or minutes > 59:
        raise ValueError("offset must be between -23:59 and +23:59")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


def _from_datetime(value: datetime, argument: str) -> datetime:
    # pandas.NaT is a datetime too; it is the one that differs from itself.
    if value != value:
        raise _refusal(value, argument, "is a missing value")
    # Field by field, since a pandas Timestamp must lose its nanoseconds and its class.
    plain = datetime.combine(value.date(), value.timetz())
    return plain if plain.utcoffset() is not None else plain.replace(tzinfo=UTC)


def _from_numpy(value: np.datetime64, argument: str) -> datetime:
    if np.isnat(value):
        raise _refusal(value, argument, "is a missing value")
    if np.datetime_data(value.dtype)[0] in {"Y", "M", "W", "D"}:
        raise _date_alone(value, str(value.astype("datetime64[D]")), argument)
    # The year is looked at first: a conversion to microseconds wraps around silently.
    if not 1 <= int(value.astype("datetime64[Y]").astype(np.int64)) + 1970 <= 9999:
        raise _refusal(value, argument, "is outside the years 0001 to 9999 in UTC")
    microseconds: datetime = value.astype("datetime64[us]").item()
    return microseconds.replace(tzinfo=UTC)


def _date_alone(value: object, day: str, argument: str) -> InvalidRequest:
    return InvalidRequest(
        f"{argument}: {value!r} is a date without a time; write '{day}T00:00:00Z' for the start of that day"
    )


def _refusal(value: object, argument: str, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"{argument}: {value!r} {reason}; give a datetime or RFC 3339 text such as {_EXAMPLE!r}"
    )
