"""Rules for values of requests: instants, numbers, flags, sorting, open objects."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np

from attrib_ds import errors, instants, json_numbers
from attrib_ds.contract import json_values

_LARGEST: Final = 2**63 - 1
#: Bounds of the dates of events: the first one, and how far they may lie after the receipt.
EARLIEST: Final = datetime(1990, 1, 1, tzinfo=UTC)
MAX_AHEAD: Final = timedelta(hours=24)
_NUMBERS: Final = (int, float, Decimal, np.integer, np.floating)
_MOST_BYTES: Final = 2**20
#: Characters of a number; more fractional digits than this are a mistake.
_LONGEST_INSTANT: Final = 100
_EXPECTED_INSTANT: Final = "an RFC 3339 timestamp, such as '2025-01-31T12:00:00Z'"
_INSTANT_SCHEMA: Final = {"type": "string", "format": "date-time"}


def _check_instant(value: Any) -> datetime:
    is_long = isinstance(value, str) and len(value) > _LONGEST_INSTANT
    if is_long or not isinstance(value, str | date | np.datetime64):
        raise json_values.Refused
    return instants.parse_exact(value, argument="value")


def _check_past(value: Any) -> datetime:
    instant = _check_instant(value)
    if instant < EARLIEST:
        raise json_values.Refused(
            f"{json_values.shown(value)} is before 1990 (were seconds read as milliseconds?); expected "
            "1990 or later"
        )
    return instant


def _check_event_date(value: Any) -> Any:
    try:
        return instants.parse_exact(value, argument="value")
    except errors.InvalidRequest:
        if value is not None and not isinstance(
            value, str | int | float | Decimal | json_numbers.ExtremeNumber | list | dict
        ):
            raise
    json_values.encode(value)
    return value


def _read_instant(value: str) -> str:
    # An unencoded `+02:00` arrives as ` 02:00`.
    return re.sub(r" (?=[0-9]{2}:[0-9]{2}\Z)", "+", value)


def _write_event_date(value: Any) -> Any:
    return instants.format(value) if isinstance(value, datetime) else value


Instant = Annotated[
    datetime,
    json_values.Rule(
        _check_instant, _EXPECTED_INSTANT, _INSTANT_SCHEMA, read=_read_instant, write=instants.format
    ),
]
#: Instant of something that happened, in 1990 or later.
PAST: Final = json_values.Rule(
    _check_past, f"{_EXPECTED_INSTANT}, in 1990 or later", _INSTANT_SCHEMA, write=instants.format
)
PastInstant = Annotated[datetime, PAST]
#: A value that is not an instant stays unchanged: the service moves its event to the trash.
EventDate = Annotated[
    Any, json_values.Rule(_check_event_date, _EXPECTED_INSTANT, _INSTANT_SCHEMA, write=_write_event_date)
]


def _check_timezone(value: Any) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, OSError, TypeError, ValueError):
        problem = f"{value!r} is not known: Python finds no time zones here; install the package tzdata"
        raise json_values.Refused("" if available_timezones() else problem) from None
    return str(value)


TimeZone = Annotated[
    str, json_values.Rule(_check_timezone, "an IANA time zone, such as 'Europe/Paris'", {"type": "string"})
]


def whole(expected: str, *, lowest: int, highest: int = _LARGEST) -> json_values.Rule:
    """Return the rule for a whole number within bounds.

    Parameters
    ----------
    lowest, highest : int
        The bounds, inclusive.
    expected : str
        Description of the allowed numbers.

    Returns
    -------
    Rule
        Stores an int; ``1.0`` is the whole number 1, ``True`` and ``1.5`` are refused.

    Examples
    --------
    >>> whole("0 or more", lowest=0).check(5)
    5
    """

    def check(value: Any) -> int:
        number = json_numbers.whole(value)
        if number is None or not lowest <= number <= highest:
            raise json_values.Refused
        return number

    def read(value: str) -> Any:
        return int(value) if re.fullmatch(r"-?[0-9]{1,19}", value) else value

    bounds = {"minimum": lowest} | ({} if highest == _LARGEST else {"maximum": highest})
    return json_values.Rule(check, expected, {"type": "integer", **bounds}, read=read)


#: By which the clock of the service is ahead of that of a page, as the answer to a page view tells.
ClockOffset = Annotated[int, whole("a whole number of milliseconds", lowest=-(10**14), highest=10**14)]


def _check_flag(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise json_values.Refused
    return bool(value)


def _read_flag(value: str) -> Any:
    return {"true": True, "false": False}.get(value, value)


def _check_amount(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        raise json_values.Refused
    if isinstance(value, int):
        if abs(value) >= 10**json_numbers.MOST_DIGITS:
            raise json_values.Refused
        return Decimal(value)
    # Through text: repr of a binary float is the decimal its author wrote.
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    if not number.is_finite() or number.adjusted() >= json_numbers.MOST_DIGITS:
        raise json_values.Refused
    digits, exponent = number.as_tuple().digits, number.as_tuple().exponent
    trailing = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if number and int(exponent) + trailing < -6:
        raise json_values.Refused
    return Decimal(json_values.encode(number)) if number else Decimal(0)


def above_zero(expected: str, *, below: float) -> json_values.Rule:
    """Return the rule for numbers above 0 and below a bound, stored as floats."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, _NUMBERS):
            raise json_values.Refused
        # Comparing a NaN raises, if it is a decimal.
        if (isinstance(value, Decimal) and value.is_nan()) or not 0 < value < below:
            raise json_values.Refused
        return float(value)

    return json_values.Rule(
        check, expected, {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": below}
    )


def _check_cost(value: Any) -> Decimal:
    number = _check_amount(value)
    if number < 0:
        raise json_values.Refused
    return number


def _check_state(value: Any) -> int:
    number = json_numbers.whole(value)
    if number not in {0, 1}:
        raise json_values.Refused
    return number


Offset = Annotated[int, whole("a whole number, 0 or more", lowest=0)]
Limit = Annotated[int, whole("a whole number, 0 or more (no limit if left out)", lowest=0)]
#: The request checks the range, which applies only to custom intervals.
SegmentCount = Annotated[int, whole("a whole number from 1 to 1000", lowest=-_LARGEST)]
Flag = Annotated[bool, json_values.Rule(_check_flag, "true or false", {"type": "boolean"}, read=_read_flag)]
#: True and False keep one population, null keeps both.
ThreeState = (
    Annotated[bool, json_values.Rule(_check_flag, "true, false, or null for both", {"type": "boolean"})]
    | None
)
Amount = Annotated[
    Decimal,
    json_values.Rule(
        _check_amount,
        "a number with at most 18 digits before and 6 after the decimal point",
        {"type": "number"},
    ),
]
Cost = Annotated[
    Decimal,
    json_values.Rule(
        _check_cost,
        "a number, 0 or more, with at most 18 digits before and 6 after the decimal point",
        {"type": "number", "minimum": 0},
    ),
]
StateValue = Annotated[
    int, json_values.Rule(_check_state, "the number 0 or 1", {"type": "integer", "enum": [0, 1]})
]


def _direction(name: object, direction: object, allowed: tuple[str, ...]) -> int:
    members = [other for other in allowed if other.startswith(f"{name}.")]
    if members:
        raise json_values.Refused(
            f"cannot sort by {json_values.shown(name)}, an object, which has no order; name a member: "
            f"{', '.join(members)}"
        )
    if not isinstance(name, str) or name not in allowed:
        raise json_values.Refused(
            f"cannot sort by {json_values.shown(name)}{json_values.nearest(name, allowed)}; allowed: "
            f"{json_values.listed(allowed)}"
        )
    number = json_numbers.whole(direction)
    if number not in {1, -1}:
        raise json_values.Refused(
            f"{json_values.shown(direction)} is not a direction for {name}; expected 1 (ascending) or -1 "
            "(descending)"
        )
    return number


def sorting(allowed: tuple[str, ...]) -> json_values.Rule:
    """Return the rule for a sort object.

    Parameters
    ----------
    allowed : tuple of str
        Names to sort by.

    Returns
    -------
    Rule
        Stores a dict of name to 1 or -1; the first name takes precedence.

    Examples
    --------
    >>> sorting(("name", "createdAt")).check({"createdAt": -1, "name": 1})
    {'createdAt': -1, 'name': 1}
    """

    def check(value: Any) -> dict[str, int]:
        if not isinstance(value, Mapping):
            raise json_values.Refused
        return {name: _direction(name, direction, allowed) for name, direction in value.items()}

    return json_values.Rule(
        check,
        "an object that maps names to 1 (ascending) or -1 (descending)",
        {
            "type": "object",
            "propertyNames": {"enum": list(allowed)},
            "additionalProperties": {"type": "integer", "enum": [1, -1]},
        },
    )


def sorting_text(allowed: tuple[str, ...]) -> json_values.Rule:
    """Return the rule for comma-separated names to sort by, with a minus sign before descending ones.

    Parameters
    ----------
    allowed : tuple of str
        Names to sort by.

    Returns
    -------
    Rule
        Stores the same as :func:`sorting`, whose form it accepts too.

    Examples
    --------
    >>> sorting_text(("name", "createdAt")).check("-createdAt,name")
    {'createdAt': -1, 'name': 1}
    """
    from_object = sorting(allowed)

    def check(value: Any) -> dict[str, int]:
        if isinstance(value, str):
            names = value.split(",") if value else []
            value = {name.removeprefix("-"): -1 if name.startswith("-") else 1 for name in names}
        order: dict[str, int] = from_object.check(value)
        return order

    def write(value: dict[str, int]) -> str:
        return ",".join(f"-{name}" if direction < 0 else name for name, direction in value.items())

    return json_values.Rule(
        check,
        "comma-separated names, with a minus sign before descending ones",
        {"type": "string"},
        write=write,
    )


def check_json_object(value: Any) -> dict[str, Any]:
    """Return a copy of an open JSON object; raise :class:`Refused` if it is not one."""
    if not isinstance(value, Mapping):
        raise json_values.Refused
    json_values.encode(value, level=1)
    return dict(value)


def _check_event_data(value: Any) -> json_values.EncodedObject:
    if not isinstance(value, Mapping):
        raise json_values.Refused
    data = value if isinstance(value, json_values.EncodedObject) else json_values.EncodedObject(dict(value))
    size = len(data.text.encode())
    if size > _MOST_BYTES:
        raise json_values.Refused(f"has {size:,} bytes as JSON; expected at most {_MOST_BYTES:,}")
    return data


BOUNDED: Final = json_values.Size()
FILLED: Final = json_values.Size(lowest=1)

Order = Annotated[str, json_values.choice("ASC", "DESC")]
JsonObject = Annotated[dict[str, Any], json_values.Rule(check_json_object, "an object", {"type": "object"})]
#: An event is at most 1 MiB.
EventData = Annotated[
    json_values.EncodedObject, json_values.Rule(_check_event_data, "an object", {"type": "object"})
]
