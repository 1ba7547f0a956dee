"""Validates raw events against their event types, and normalises their values by the types of fields."""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import phonenumbers
from pydantic import TypeAdapter

from attrib_ds import instants, json_numbers
from attrib_ds.contract import identifiers, json_values, values
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.person_ids import is_nobody
from attrib_ds.service.events.event_types import EventType
from attrib_ds.service.identity.identities import TRACKER, VENDOR, Pair

_STATISTICS: Final = ("number", "currency")


class RawEvent(NamedTuple):
    """An accepted event as it was sent.

    Parameters
    ----------
    id, reference : str
        Id of the event, and reference of its event type.
    tracker_id : str or None
        Id of the browser.
    created_at : datetime
        Time of receipt, aware.
    date, data : str
        JSON text; the date is None if none was sent.
    """

    id: str
    reference: str
    tracker_id: str | None
    created_at: datetime
    date: str | None
    data: str


class Metric(NamedTuple):
    """A state or statistic of a new event.

    Parameters
    ----------
    key, kind : str
        Its storage key, and ``state``, ``number`` or ``currency``.
    number : float or None
        Value of a state or number.
    amount, currency : Decimal and str, or None
        Value of an amount of money.
    invalid : bool, default False
        Whether the value sent has another type; the metric has no value then.
    raw : str or None
        JSON text of a number as it was sent, such as a text, if that is not the number itself.
    """

    key: str
    kind: str
    number: float | None = None
    amount: Decimal | None = None
    currency: str | None = None
    invalid: bool = False
    raw: str | None = None


class ValidEvent(NamedTuple):
    """A valid event with normalised values.

    Parameters
    ----------
    raw : RawEvent
        The event as sent.
    event_type : EventType
        Its event type.
    date : datetime
        Date of the event, aware.
    user, event : dict
        Field values by storage key.
    metrics : tuple of Metric
        Its states and statistics, without the built-in ones.
    identities : tuple of tuple
        Identities of its user, by priority.
    """

    raw: RawEvent
    event_type: EventType
    date: datetime
    user: dict[str, Any]
    event: dict[str, Any]
    metrics: tuple[Metric, ...]
    identities: tuple[Pair, ...]


class InvalidEvent(NamedTuple):
    """An event that failed validation.

    Parameters
    ----------
    raw : RawEvent
        The event as sent.
    date : datetime
        Date of the event or, if that is invalid, of receipt; aware.
    event_type_id : str or None
        None if the event type is unknown.
    errors : tuple of dict
        ``type``, ``field`` and ``value``, as in the resource.
    """

    raw: RawEvent
    date: datetime
    event_type_id: str | None
    errors: tuple[dict[str, Any], ...]


def validate(
    raw: RawEvent, event_types: Mapping[str, EventType], currency: str, *, lenient: bool = False
) -> ValidEvent | InvalidEvent:
    """Validate an event; return its normalised values, or all errors.

    Parameters
    ----------
    raw : RawEvent
        The event as sent.
    event_types : mapping of str to EventType
        Event types by reference.
    currency : str
        Currency of amounts sent without one.
    lenient : bool, default False
        Whether an invalid value of an optional field is kept as invalid instead of an error.

    Returns
    -------
    ValidEvent or InvalidEvent
        A pure function of the arguments.
    """
    date, errors = _date(raw)
    event_type = event_types.get(raw.reference)
    if event_type is None:
        return InvalidEvent(raw, date, None, (_error("unknown-event-type", raw.reference), *errors))
    if event_type.is_archived:
        errors = [_error("archived-event-type", raw.reference), *errors]
        return InvalidEvent(raw, date, event_type.id, tuple(errors))
    data = json_numbers.load_exact(raw.data)
    settings = Conventions(currency, event_type.countries)
    currents: dict[str, Any] = {}
    for field in event_type.fields:
        value = data.get(field["ingestionKey"]) if field["ingestionKey"] is not None else None
        if is_missing(value):
            # A field without an ingestion key is never read; an absent state is not reached.
            if not field["optional"] and field["ingestionKey"] is not None and field["type"] != "state":
                errors.append(_error("missing-field", value, field))
            continue
        try:
            currents[field["storageKey"]] = normalise(field["type"], value, settings)
        except InvalidValue:
            if lenient and field["optional"]:
                currents[field["storageKey"]] = None
            else:
                errors.append(_error("invalid-field", value, field))
    if errors:
        return InvalidEvent(raw, date, event_type.id, tuple(errors))
    return _assembled(raw, event_type, date, data, currents)


def processing_error(raw: RawEvent, event_type_id: str | None) -> InvalidEvent:
    """Return an event that failed because of an internal error."""
    return InvalidEvent(raw, _date(raw)[0], event_type_id, (_error("processing-error", None),))


def identity(field: Mapping[str, Any], current: Any) -> Pair | None:
    """Return the identity in the value of a user field, if the field identifies users.

    Parameters
    ----------
    field : mapping
        The event-type field. Emails and the vendor's ids always identify a user, other fields if they are
        discriminant.
    current : object
        Normalised value.

    Returns
    -------
    tuple of str, or None
        Kind and value.
    """
    if field["type"] == "email":
        return "email", str(current).lower()
    if field["storageKey"] == VENDOR:
        return VENDOR, str(current)
    if field["discriminant"]:
        return "phone" if field["type"] == "phone" else field["storageKey"], str(current)
    return None


def _assembled(
    raw: RawEvent, event_type: EventType, date: datetime, data: Mapping[str, Any], currents: Mapping[str, Any]
) -> ValidEvent:
    maps: dict[str, dict[str, Any]] = {"user": {}, "event": {}}
    metrics: list[Metric] = []
    identities: list[Pair] = []
    for field in event_type.fields:
        key, kind = field["storageKey"], field["type"]
        if key not in currents:
            continue
        current = currents[key]
        if is_metric(field):
            metrics.append(_metric(key, kind, current, data[field["ingestionKey"]]))
            continue
        maps[field["entity"]][key] = {
            "raw": data[field["ingestionKey"]],
            "current": current,
            "type": kind,
            "date": instants.format(date),
            "anonymized": False,
            "invalid": current is None,
        }
        is_identity = field["entity"] == "user" and current is not None
        pair = identity(field, current) if is_identity else None
        if pair is not None:
            identities.append(pair)
    ranks = {"email": 0, VENDOR: 2}
    identities.sort(key=lambda pair: ranks.get(pair[0], 1))
    if raw.tracker_id and not is_nobody(raw.tracker_id):
        identities.append((TRACKER, raw.tracker_id))
    return ValidEvent(raw, event_type, date, maps["user"], maps["event"], tuple(metrics), tuple(identities))


def is_metric(field: Mapping[str, Any]) -> bool:
    """Return whether a field is a state or a statistic."""
    return field["entity"] == "event" and field["type"] in {"state", *_STATISTICS}


def _metric(key: str, kind: str, current: Any, sent: Any) -> Metric:
    if current is None:
        return Metric(key, kind, invalid=True, raw=json_values.encode(sent) if kind == "number" else None)
    if kind == "currency":
        return Metric(key, kind, amount=current["amount"], currency=current["currency"])
    number = float(current)
    is_exact = kind != "number" or sent == Decimal(repr(number))
    return Metric(key, kind, number=number, raw=None if is_exact else json_values.encode(sent))


def _date(raw: RawEvent) -> tuple[datetime, list[dict[str, Any]]]:
    """Return the date of an event, and errors of the date sent."""
    sent = None if raw.date is None else json_numbers.load_exact(raw.date)
    if sent is None:
        return raw.created_at, []
    errors = [_error("invalid-event-date", sent)]
    try:
        date = instants.parse(sent, argument="eventDate")
    except InvalidRequest:
        return raw.created_at, errors
    is_plausible = values.EARLIEST <= date <= raw.created_at + values.MAX_AHEAD
    return date, [] if is_plausible else errors


def _error(kind: str, value: Any, field: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"type": kind, "field": field, "value": value}


#: Alpha-2 code, English name and further names of each country.
_COUNTRIES: Final = [
    line.split("\t")
    for line in Path(__file__).with_name("countries.tsv").read_text(encoding="utf-8").splitlines()
]
#: English name of each country, by its alpha-2 code.
NAMES: Final = {code: name for code, name, *_ in _COUNTRIES}
_CODES: Final = {name.casefold(): code for code, *names in _COUNTRIES for name in names}


def country_code(text: str) -> str | None:
    """Return the alpha-2 code of a country given by code or English name, in any case; None if unknown.

    Examples
    --------
    >>> country_code("fr"), country_code("Norway"), country_code("Atlantis")
    ('FR', 'NO', None)
    """
    name = " ".join(text.split())
    return name.upper() if name.upper() in NAMES else _CODES.get(name.casefold())


_LONGEST_NUMBER: Final = 400
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FLAGS: Final = {"true": True, "false": False}
_AMOUNT: Final = TypeAdapter(values.Amount)
#: Properties of a location that are text.
_PLACES: Final = ("city", "zipcode", "streetName", "streetNumber", "country")
_EXTRA: Final = ("placeId", "premise", "subpremise", "neighborhood", "establishment")


class InvalidValue(ValueError):
    """The value does not have the type of its field."""


class Conventions(NamedTuple):
    """Project settings for parsing values.

    Parameters
    ----------
    currency : str
        Currency of amounts without one.
    countries : tuple of str
        Countries for parsing national phone numbers, in the order to try.
    """

    currency: str
    countries: tuple[str, ...] = ()


def normalise(kind: str, value: Any, settings: Conventions) -> Any:
    """Return the normalised form of a value.

    Parameters
    ----------
    kind : str
        Type of the field.
    value : object
        As sent, parsed from JSON; not missing.
    settings : Conventions
        Project settings.

    Returns
    -------
    object
        JSON value, numbers exact.

    Raises
    ------
    InvalidValue
        If the value does not have that type.

    Examples
    --------
    >>> normalise("phone", "06 12 34 56 78", Conventions("EUR", ("FR",)))
    '+33612345678'
    >>> normalise("currency", 5, Conventions("EUR"))
    {'amount': Decimal('5'), 'currency': 'EUR'}
    """
    try:
        return _READERS[kind](value, settings)
    except (ValueError, OverflowError, InvalidRequest):
        raise InvalidValue from None


def is_missing(value: Any) -> bool:
    """Return whether a value counts as missing: null or blank text."""
    return value is None or (isinstance(value, str) and not value.strip())


def _text(value: Any, longest: float = math.inf) -> str:
    if not isinstance(value, str):
        raise InvalidValue
    text = unicodedata.normalize("NFC", value).strip()
    if len(text) > longest:
        raise InvalidValue
    return text


def _phone(value: Any, settings: Conventions) -> str:
    text = _text(value)
    for country in (None,) if text.startswith("+") else settings.countries:
        try:
            number = phonenumbers.parse(text, country)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number):
            return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    raise InvalidValue


def _number(value: Any, _: Conventions) -> Any:
    number = value
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
            raise InvalidValue
        number = json_numbers.exact_number(text)
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        raise InvalidValue
    if not math.isfinite(float(number)):
        raise InvalidValue
    return number


def _currency(value: Any, settings: Conventions) -> dict[str, Any]:
    money = value if isinstance(value, dict) else {"amount": value, "currency": settings.currency}
    currency = money.get("currency")
    if not isinstance(currency, str) or currency not in identifiers.CURRENCIES:
        raise InvalidValue
    return {"amount": _AMOUNT.validate_python(money.get("amount")), "currency": currency}


def _state(value: Any, _: Conventions) -> int:
    number = json_numbers.whole(value)
    if number not in {0, 1}:
        raise InvalidValue
    return number


def _boolean(value: Any, _: Conventions) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip() in _FLAGS:
        return _FLAGS[value.strip()]
    if json_numbers.whole(value) in {0, 1}:
        return json_numbers.whole(value) == 1
    raise InvalidValue


def _url(value: Any, _: Conventions) -> str:
    text = _text(value, 8_192)
    parts = urlsplit(text)
    # An invalid port raises.
    is_address = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    if not is_address or re.search(r"[\s\x00-\x1f]", text):
        raise InvalidValue
    return text


def _country(value: Any, _: Conventions) -> str:
    code = country_code(_text(value))
    if code is None:
        raise InvalidValue
    return code


def _location(value: Any, settings: Conventions) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidValue
    address = _part(value, "formattedAddress") or _part(value, "address")
    point = _point(value)
    code = None if is_missing(value.get("countryCode")) else _country(value["countryCode"], settings)
    if address is None and point is None and code is None:
        raise InvalidValue
    places = {name: _part(value, name) for name in _PLACES}
    extra, levels = (_object(value, name) for name in ("extra", "administrativeLevels"))
    return {
        "formattedAddress": address,
        "location": point,
        # Addresses are not geocoded, so there is no confidence.
        "extra": {"confidence": 0, **{name: _part(extra, name) for name in _EXTRA}},
        "administrativeLevels": levels,
        **places,
        "country": places["country"] or (NAMES[code] if code else None),
        "countryCode": code,
    }


def _part(value: Mapping[str, Any], name: str) -> str | None:
    part = value.get(name)
    return None if is_missing(part) else _text(part)


def _object(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = value.get(name)
    if part is not None and not isinstance(part, dict):
        raise InvalidValue
    return part or {}


def _point(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the point of a location, longitude first."""
    location = value.get("location")
    if isinstance(location, dict):
        pair = location.get("coordinates")
    elif location is not None:
        raise InvalidValue
    elif value.get("longitude") is not None or value.get("latitude") is not None:
        pair = [value.get("longitude"), value.get("latitude")]
    else:
        pair = value.get("coordinates")
        if pair is None:
            return None
    if not isinstance(pair, list) or len(pair) != 2:
        raise InvalidValue
    for number, most in zip(pair, (180, 90), strict=True):
        is_number = isinstance(number, int | float | Decimal) and not isinstance(number, bool)
        if not is_number or not -most <= number <= most:
            raise InvalidValue
    return {"type": "Point", "coordinates": pair}


_READERS: Final[dict[str, Callable[[Any, Conventions], Any]]] = {
    "string": lambda value, _: _text(value, 1_024),
    "message": lambda value, _: _text(value, 65_536),
    "email": lambda value, _: identifiers.normal_email(_text(value)),
    "phone": _phone,
    "location": _location,
    "number": _number,
    "boolean": _boolean,
    "date": lambda value, _: instants.format(instants.parse(_text(value), argument="value")),
    "url": _url,
    "country": _country,
    "state": _state,
    "currency": _currency,
}
