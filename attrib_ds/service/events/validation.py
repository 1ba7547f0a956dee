"""Checks a raw event against its event type and works out what it says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants
from attrib_ds.errors import InvalidRequest
from attrib_ds.service.events.normalisation import Settings, Unreadable, is_missing, normalise
from attrib_ds.service.identity.resolution import TRACKER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attrib_ds.service.events.event_types import EventType
    from attrib_ds.service.identity.resolution import Pair

_EARLIEST: Final = datetime(1990, 1, 1, tzinfo=UTC)
_MOST_AHEAD: Final = timedelta(hours=24)
_STATISTICS: Final = ("number", "currency")
VENDOR: Final = "vendorUserId"


@dataclass(frozen=True)
class Raw:
    """An accepted event, as it was sent.

    Parameters
    ----------
    id, reference : str
        The event, and its event type.
    tracker_id : str or None
        The browser.
    created_at : datetime
        When it was received, aware.
    date, data : str
        JSON text; the date is None when none was sent.
    """

    id: str
    reference: str
    tracker_id: str | None
    created_at: datetime
    date: str | None
    data: str


@dataclass(frozen=True)
class Measure:
    """A state or statistic that an event is created with.

    Parameters
    ----------
    key, kind : str
        Its storage key, and ``state``, ``number`` or ``currency``.
    number : float or None
        What a state or number is.
    amount, currency : Decimal and str, or None
        What an amount of money is.
    invalid : bool, default False
        Whether what was sent is not of its type, so that it has no value (G-053).
    """

    key: str
    kind: str
    number: float | None = None
    amount: Decimal | None = None
    currency: str | None = None
    invalid: bool = False


@dataclass(frozen=True)
class Valid:
    """What a valid event says.

    Parameters
    ----------
    raw : Raw
        As sent.
    event_type : EventType
        What it was checked against.
    date : datetime
        When it happened, aware.
    user, event : dict
        Field values by storage key.
    measures : tuple of Measure
        Its states and statistics, without the built-in ones.
    identities : tuple of tuple
        What identifies its user, those that count most first.
    """

    raw: Raw
    event_type: EventType
    date: datetime
    user: dict[str, Any]
    event: dict[str, Any]
    measures: tuple[Measure, ...]
    identities: tuple[Pair, ...]


@dataclass(frozen=True)
class Trash:
    """Why an event cannot be processed.

    Parameters
    ----------
    raw : Raw
        As sent.
    date : datetime
        The date sent or, where it is unreadable, of reception; aware.
    event_type_id : str or None
        None when the event type is unknown.
    errors : tuple of dict
        ``type``, ``field`` and ``value``, as the resource shows them.
    """

    raw: Raw
    date: datetime
    event_type_id: str | None
    errors: tuple[dict[str, Any], ...]


def examine(
    raw: Raw, event_types: Mapping[str, EventType], currency: str, *, lenient: bool = False
) -> Valid | Trash:
    """Return what an event says, or everything that is wrong with it (R076).

    Parameters
    ----------
    raw : Raw
        As sent.
    event_types : mapping of str to EventType
        By reference.
    currency : str
        Of amounts that come without one.
    lenient : bool, default False
        Whether the value of an optional field that is not of its type is kept, as invalid (G-053).

    Returns
    -------
    Valid or Trash
        Depends on nothing but the arguments.
    """
    date, errors = _date(raw)
    event_type = event_types.get(raw.reference)
    if event_type is None:
        errors = [_error("unknown-event-type", raw.reference), *errors]
        return Trash(raw, date, None, tuple(errors))
    if event_type.is_archived:
        errors = [_error("archived-event-type", raw.reference), *errors]
        return Trash(raw, date, event_type.id, tuple(errors))
    data = json.loads(raw.data, parse_float=Decimal)
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
        except Unreadable:
            if lenient and field["optional"]:
                currents[field["storageKey"]] = None
            else:
                errors.append(_error("invalid-field", value, field))
    if errors:
        return Trash(raw, date, event_type.id, tuple(errors))
    return _assembled(raw, event_type, date, data, currents)


def failed(raw: Raw, event_type_id: str | None) -> Trash:
    """Return the trash of an event whose processing failed for no fault of its data."""
    return Trash(raw, _date(raw)[0], event_type_id, (_error("processing-error", None),))


def identity(field: Mapping[str, Any], current: Any) -> Pair | None:
    """Return the identity that the value of a user field stands for, if it identifies anyone.

    Parameters
    ----------
    field : mapping
        The event-type field. Emails and the vendor's own ids identify a user always, others where they are
        discriminant.
    current : object
        Normalised.

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
    raw: Raw, event_type: EventType, date: datetime, data: Mapping[str, Any], currents: Mapping[str, Any]
) -> Valid:
    maps: dict[str, dict[str, Any]] = {"user": {}, "event": {}}
    measures: list[Measure] = []
    identities: list[Pair] = []
    for field in event_type.fields:
        key, kind = field["storageKey"], field["type"]
        if key not in currents:
            continue
        current = currents[key]
        if is_metric(field):
            measures.append(_measure(key, kind, current))
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
    return Valid(raw, event_type, date, maps["user"], maps["event"], tuple(measures), tuple(identities))


def is_metric(field: Mapping[str, Any]) -> bool:
    """Say whether a field is a state or a statistic (G-050)."""
    return field["entity"] == "event" and field["type"] in {"state", *_STATISTICS}


def _measure(key: str, kind: str, current: Any) -> Measure:
    if current is None:
        return Measure(key, kind, invalid=True)
    if kind == "currency":
        return Measure(key, kind, amount=current["amount"], currency=current["currency"])
    return Measure(key, kind, number=float(current))


def _is_mandatory(field: Mapping[str, Any]) -> bool:
    # What is never read cannot be missing (G-156), and a state that is absent is not reached (G-075).
    return not field["optional"] and field["ingestionKey"] is not None and field["type"] != "state"


def _date(raw: Raw) -> tuple[datetime, list[dict[str, Any]]]:
    """Return when the event happened, and what is wrong with the date sent (G-041, G-134)."""
    sent = None if raw.date is None else json.loads(raw.date, parse_float=Decimal)
    if sent is None:
        return raw.created_at, []
    wrong = [_error("invalid-event-date", sent)]
    try:
        date = instants.parse(sent, argument="eventDate")
    except InvalidRequest:
        return raw.created_at, wrong
    is_possible = _EARLIEST <= date <= raw.created_at + _MOST_AHEAD
    return date, [] if is_possible else wrong


def _error(kind: str, value: Any, field: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"type": kind, "field": field, "value": value}
