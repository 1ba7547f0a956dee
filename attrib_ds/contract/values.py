"""The values that requests carry beside identifiers: instants, numbers, flags, orders, open objects."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from attrib_ds import instants
from attrib_ds.contract.json_text import EncodedObject, encode
from attrib_ds.contract.rule import Refused, Rule, Size, choice, listed, nearest, shown
from attrib_ds.errors import InvalidRequest

_LARGEST: Final = 2**63 - 1
_EARLIEST: Final = datetime(1990, 1, 1, tzinfo=UTC)
_DIRECTIONS: Final = {1, -1}
_MOST_BYTES: Final = 2**20
#: Far more than any number of fractional digits that someone writes on purpose.
_LONGEST_INSTANT: Final = 100
_INSTANT_WORDS: Final = "an instant of RFC 3339, such as '2025-01-31T12:00:00Z'"
_INSTANT_SCHEMA: Final = {"type": "string", "format": "date-time"}


def _check_instant(value: Any) -> datetime:
    is_long = isinstance(value, str) and len(value) > _LONGEST_INSTANT
    if is_long or not isinstance(value, str | date | np.datetime64):
        raise Refused
    return instants.parse(value, argument="value")


def _check_past(value: Any) -> datetime:
    instant = _check_instant(value)
    if instant < _EARLIEST:
        raise Refused(f"{shown(value)} is before 1990, as seconds read as milliseconds are; allowed: 1990 on")
    return instant


def _check_event_date(value: Any) -> Any:
    try:
        return instants.parse(value, argument="value")
    except InvalidRequest:
        if value is not None and not isinstance(value, str | int | float | Decimal | list | dict):
            raise
    encode(value)
    return value


def _read_instant(value: str) -> str:
    # An unencoded `+02:00` arrives as ` 02:00` (G-040).
    return re.sub(r" (?=[0-9]{2}:[0-9]{2}\Z)", "+", value)


def _write_event_date(value: Any) -> Any:
    return instants.format(value) if isinstance(value, datetime) else value


Instant: TypeAlias = Annotated[
    datetime,
    Rule(
        check=_check_instant,
        allowed=_INSTANT_WORDS,
        json_schema=_INSTANT_SCHEMA,
        read=_read_instant,
        write=instants.format,
    ),
]
#: When something happened: nothing before 1990 (G-041).
PAST: Final = Rule(
    check=_check_past,
    allowed=f"{_INSTANT_WORDS}, from 1990 on",
    json_schema=_INSTANT_SCHEMA,
    write=instants.format,
)
PastInstant: TypeAlias = Annotated[datetime, PAST]
#: An instant where it can be read, otherwise as it came: the service trashes the event then (G-127).
EventDate: TypeAlias = Annotated[
    Any,
    Rule(
        check=_check_event_date,
        allowed=_INSTANT_WORDS,
        json_schema=_INSTANT_SCHEMA,
        write=_write_event_date,
    ),
]


def _check_timezone(value: Any) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, OSError, TypeError, ValueError):
        raise Refused from None
    return str(value)


TimeZone: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_timezone,
        allowed="an IANA time zone, such as 'Europe/Paris'",
        json_schema={"type": "string"},
    ),
]


def whole(*, lowest: int, highest: int = _LARGEST, allowed: str) -> Rule:
    """Return the rule of a whole number within bounds.

    Parameters
    ----------
    lowest, highest : int
        The bounds, inclusive.
    allowed : str
        What is allowed, in words.

    Returns
    -------
    Rule
        Holds an int; ``True`` and ``1.0`` are no whole numbers.

    Examples
    --------
    >>> whole(lowest=0, allowed="0 or more").check(5)
    5
    """

    def check(value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise Refused from None
        if isinstance(value, bool) or not lowest <= number <= highest:
            raise Refused
        return number

    def read(value: str) -> Any:
        return int(value) if re.fullmatch(r"-?[0-9]{1,19}", value) else value

    bounds = {"minimum": lowest} | ({} if highest == _LARGEST else {"maximum": highest})
    return Rule(check=check, allowed=allowed, json_schema={"type": "integer", **bounds}, read=read)


def _check_flag(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise Refused
    return bool(value)


def _read_flag(value: str) -> Any:
    return {"true": True, "false": False}.get(value, value)


def _check_amount(value: Any) -> Decimal:
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | float | Decimal | np.integer | np.floating
    ):
        raise Refused
    if isinstance(value, int) and abs(value) >= 10**18:
        raise Refused
    # Through text, since the text of a binary float is the decimal that its author meant.
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    if not number.is_finite() or abs(number) >= 10**18:
        raise Refused
    digits, exponent = number.as_tuple().digits, number.as_tuple().exponent
    trailing = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if number and int(exponent) + trailing < -6:
        raise Refused
    return Decimal(encode(number)) if number else Decimal(0)


def _check_cost(value: Any) -> Decimal:
    number = _check_amount(value)
    if number < 0:
        raise Refused
    return number


def _check_state(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value not in {0, 1}:
        raise Refused
    return int(value)


Offset: TypeAlias = Annotated[int, whole(lowest=0, allowed="a whole number of 0 or more")]
Limit: TypeAlias = Annotated[int, whole(lowest=0, allowed="a whole number of 0 or more, or nothing for all")]
#: 1 to 1,000 where it counts (G-110); the request checks that, since it depends on the interval.
SegmentCount: TypeAlias = Annotated[int, whole(lowest=-_LARGEST, allowed="a whole number from 1 to 1000")]
Flag: TypeAlias = Annotated[
    bool, Rule(check=_check_flag, allowed="true or false", json_schema={"type": "boolean"}, read=_read_flag)
]
#: True and False keep one population, null keeps both.
ThreeState: TypeAlias = (
    Annotated[
        bool,
        Rule(check=_check_flag, allowed="true, false, or null for both", json_schema={"type": "boolean"}),
    ]
    | None
)
Amount: TypeAlias = Annotated[
    Decimal,
    Rule(
        check=_check_amount,
        allowed="a number of at most 18 digits before and 6 after the point",
        json_schema={"type": "number"},
    ),
]
Cost: TypeAlias = Annotated[
    Decimal,
    Rule(
        check=_check_cost,
        allowed="a number of 0 or more, of at most 18 digits before and 6 after the point",
        json_schema={"type": "number", "minimum": 0},
    ),
]
StateValue: TypeAlias = Annotated[
    int,
    Rule(check=_check_state, allowed="the number 0 or 1", json_schema={"type": "integer", "enum": [0, 1]}),
]


def _direction(name: object, direction: object, allowed: tuple[str, ...]) -> int:
    if not isinstance(name, str) or name not in allowed:
        raise Refused(
            f"{shown(name)} is nothing to sort by{nearest(name, allowed)}; allowed: {listed(allowed)}"
        )
    if isinstance(direction, bool) or not isinstance(direction, int) or direction not in _DIRECTIONS:
        raise Refused(f"{shown(direction)} is no direction of {name}; allowed: 1 (ascending) or -1")
    return direction


def sorting(allowed: tuple[str, ...]) -> Rule:
    """Return the rule of a sort object (G-097).

    Parameters
    ----------
    allowed : tuple of str
        Names that can be sorted by.

    Returns
    -------
    Rule
        Holds a dict of name to 1 or -1, the first name counting most.

    Examples
    --------
    >>> sorting(("name", "createdAt")).check({"createdAt": -1, "name": 1})
    {'createdAt': -1, 'name': 1}
    """

    def check(value: Any) -> dict[str, int]:
        if not isinstance(value, Mapping):
            raise Refused
        return {name: _direction(name, direction, allowed) for name, direction in value.items()}

    return Rule(
        check=check,
        allowed="an object of names to 1 (ascending) or -1 (descending)",
        json_schema={
            "type": "object",
            "propertyNames": {"enum": list(allowed)},
            "additionalProperties": {"type": "integer", "enum": [1, -1]},
        },
    )


def sorting_text(allowed: tuple[str, ...]) -> Rule:
    """Return the rule of comma-separated names, a minus sign before the descending ones.

    Parameters
    ----------
    allowed : tuple of str
        Names that can be sorted by.

    Returns
    -------
    Rule
        Holds what :func:`sorting` holds, and accepts that too.

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

    return Rule(
        check=check,
        allowed="comma-separated names, with a minus sign before the descending ones",
        json_schema={"type": "string"},
        write=write,
    )


def check_json_object(value: Any) -> dict[str, Any]:
    """Return an open JSON object as it came; raise :class:`Refused` if it is none."""
    if not isinstance(value, Mapping):
        raise Refused
    encode(value, level=1)
    return dict(value)


def _check_event_data(value: Any) -> EncodedObject:
    if not isinstance(value, Mapping):
        raise Refused
    data = value if isinstance(value, EncodedObject) else EncodedObject(dict(value))
    size = len(data.text.encode())
    if size > _MOST_BYTES:
        raise Refused(f"has {size:,} bytes as JSON; allowed: at most {_MOST_BYTES:,}")
    return data


BOUNDED: Final = Size()
FILLED: Final = Size(lowest=1)

Order: TypeAlias = Annotated[str, choice("ASC", "DESC")]
JsonObject: TypeAlias = Annotated[
    dict[str, Any], Rule(check=check_json_object, allowed="an object", json_schema={"type": "object"})
]
#: An event is at most 1 MiB (G-136).
EventData: TypeAlias = Annotated[
    EncodedObject, Rule(check=_check_event_data, allowed="an object", json_schema={"type": "object"})
]
