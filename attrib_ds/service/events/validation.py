"""Validates raw events against their event types and normalises their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants
from attrib_ds.contract.values import EARLIEST, MAX_AHEAD
from attrib_ds.errors import InvalidRequest
from attrib_ds.json_numbers import load_exact
from attrib_ds.service.events.normalisation import Conventions as Settings
from attrib_ds.service.events.normalisation import InvalidValue, is_missing, normalise
from attrib_ds.service.identity.identities import TRACKER, VENDOR

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from decimal import Decimal

    from attrib_ds.service.events.event_types import EventType
    from attrib_ds.service.identity.identities import Pair

_STATISTICS: Final = ("number", "currency")


@dataclass(frozen=True)
class RawEvent:
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


@dataclass(frozen=True)
class Metric:
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
    """

    key: str
    kind: str
    number: float | None = None
    amount: Decimal | None = None
    currency: str | None = None
    invalid: bool = False


@dataclass(frozen=True)
class ValidEvent:
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


@dataclass(frozen=True)
class InvalidEvent:
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
        errors = [_error("unknown-event-type", raw.reference), *errors]
        return InvalidEvent(raw, date, None, tuple(errors))
    if event_type.is_archived:
        errors = [_error("archived-event-type", raw.reference), *errors]
        return InvalidEvent(raw, date, event_type.id, tuple(errors))
    data = load_exact(raw.data)
    settings = Settings(currency, event_type.countries)
    currents: dict[str, Any] = {}
    for field in event_type.fields:
        value = data.get(field["ingestionKey"]) if field["ingestionKey"] is not None else None
        if is_missing(value):
            if _is_mandatory(field):
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
            metrics.append(_metric(key, kind, current))
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
    if raw.tracker_id:
        identities.append((TRACKER, raw.tracker_id))
    return ValidEvent(raw, event_type, date, maps["user"], maps["event"], tuple(metrics), tuple(identities))


def is_metric(field: Mapping[str, Any]) -> bool:
    """Return whether a field is a state or a statistic."""
    return field["entity"] == "event" and field["type"] in {"state", *_STATISTICS}


def _metric(key: str, kind: str, current: Any) -> Metric:
    if current is None:
        return Metric(key, kind, invalid=True)
    if kind == "currency":
        return Metric(key, kind, amount=current["amount"], currency=current["currency"])
    return Metric(key, kind, number=float(current))


def _is_mandatory(field: Mapping[str, Any]) -> bool:
    # A field without an ingestion key is never read; an absent state is not reached.
    return not field["optional"] and field["ingestionKey"] is not None and field["type"] != "state"


def _date(raw: RawEvent) -> tuple[datetime, list[dict[str, Any]]]:
    """Return the date of an event, and errors of the date sent."""
    sent = None if raw.date is None else load_exact(raw.date)
    if sent is None:
        return raw.created_at, []
    errors = [_error("invalid-event-date", sent)]
    try:
        date = instants.parse(sent, argument="eventDate")
    except InvalidRequest:
        return raw.created_at, errors
    is_plausible = EARLIEST <= date <= raw.created_at + MAX_AHEAD
    return date, [] if is_plausible else errors


def _error(kind: str, value: Any, field: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"type": kind, "field": field, "value": value}
