"""Redacts personal values of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds.contract.json_values import encode
from attrib_ds.json_numbers import load_exact
from attrib_ds.service.events.event_types import read_declarations
from attrib_ds.service.store.table_access import arrow_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    import duckdb

#: Types of values that identify a person, or may do so in free text.
_PERSONAL: Final = frozenset({"email", "phone", "location", "message"})


@dataclass(frozen=True)
class Field:
    """A value of an event, as input of the decision whether it is personal.

    Parameters
    ----------
    event_id, event_type, entity, key, type : str
        The event and its type, ``user`` or ``event``, and the value's storage key and type.
    is_declared_personal : bool
        Whether the event type declares it personal.
    """

    event_id: str
    event_type: str
    entity: str
    key: str
    type: str
    is_declared_personal: bool


def is_identifying(field: Field) -> bool:
    """Return whether a value may identify a person."""
    return field.entity == "user" or field.is_declared_personal or field.type in _PERSONAL


def redact(
    connection: duckdb.DuckDBPyConnection,
    ids: list[str],
    now: datetime,
    *,
    is_personal: Callable[[Field], bool],
    whole: bool = False,
) -> None:
    """Replace the personal values of events by null (G-208).

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    ids : list of str
        The events.
    now : datetime
        Current time, naive, in UTC; stored as ``anonimizedAt`` of events with an expiration policy.
    is_personal : callable
        Takes a :class:`Field`.
    whole : bool, default False
        Whether to redact all raw data, including values without a field.
    """
    events = connection.execute(
        'SELECT events._id, events.eventType, eventTypeVersion, events.createdAt, event, "user", raw.data '
        "FROM events LEFT JOIN raw_events AS raw ON raw._id = events._id "
        "WHERE events._id IN (SELECT unnest(?)) ORDER BY events._id",
        [ids],
    ).fetchall()
    declarations = read_declarations(connection, {reference for _, reference, *_ in events})
    rows = []
    for id, reference, version, created_at, event, user, data in events:
        fields = {
            (field["entity"], field["storageKey"]): field
            for field in declarations.fields(reference, version, created_at)
        }
        texts = {"event": event, "user": user}
        sent = _loaded(data)
        for entity, text in texts.items():
            values = _loaded(text)
            for key, value in values.items():
                declared = fields.get((entity, key), {})
                kind = str(value.get("type")) if isinstance(value, dict) else ""
                if is_personal(Field(id, reference, entity, key, kind, bool(declared.get("isPii")))):
                    values[key] = _without_value(value)
                    sent = _without(sent, declared.get("ingestionKey", key))
            texts[entity] = None if text is None else encode(values)
        # Raw values without a normalised value may be personal too.
        for (entity, key), field in fields.items():
            if is_personal(Field(id, reference, entity, key, field["type"], field["isPii"])):
                sent = _without(sent, field["ingestionKey"])
        raw_data = dict.fromkeys(sent) if whole else sent
        rows.append((id, texts["event"], texts["user"], None if data is None else encode(raw_data)))
    if rows:
        _write(connection, rows, now)


def _write(
    connection: duckdb.DuckDBPyConnection, rows: list[tuple[str, str, str, str | None]], now: datetime
) -> None:
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    with arrow_view(connection, pa.table(columns, names=["id", "event", "user", "data"])) as view:
        connection.execute(
            f'UPDATE events SET event = redacted.event, "user" = redacted."user", '
            'updatedAt = greatest(updatedAt, $now), "expirationPolicy.anonimizedAt" = '
            'CASE WHEN "expirationPolicy.expiresAt" IS NOT NULL THEN $now END '
            f"FROM {view} AS redacted WHERE events._id = redacted.id",
            {"now": now},
        )
        connection.execute(
            f"UPDATE raw_events SET data = redacted.data FROM {view} AS redacted "
            "WHERE raw_events._id = redacted.id"
        )


def _loaded(text: str | None) -> dict[str, Any]:
    return dict(load_exact(text or "{}"))


def _without_value(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    return {**value, "raw": None, "current": None, "anonymized": True}


def _without(sent: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    return {name: None if name == key else value for name, value in sent.items()}
