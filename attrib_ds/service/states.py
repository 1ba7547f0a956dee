"""Updates the states and statistics of events; what they were stays in the history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract import Answer
from attrib_ds.errors import NotFound
from attrib_ds.service.batches import insert_records, naive
from attrib_ds.service.event_types import read_declared
from attrib_ds.service.metrics import as_resource
from attrib_ds.service.tables import TABLES
from attrib_ds.sources import quoted

if TYPE_CHECKING:
    from collections.abc import Collection

    import duckdb

    from attrib_ds.contract.events import UpdateEventState, UpdateEventStatistic
    from attrib_ds.service.store import Store

_COLUMNS: Final = tuple(TABLES["metrics"])
_LISTED: Final = ", ".join(quoted(name) for name in _COLUMNS)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class _Event:
    """What an update needs to know of its event, its metrics by key; instants are naive, in UTC."""

    id: str
    project_id: str
    reference: str
    version: int | None
    date: datetime
    created_at: datetime
    updated_at: datetime
    metrics: dict[str, dict[str, Any]]


def update_event_state(store: Store, request: UpdateEventState) -> Answer:
    """Set a state of an event, with its delay, and answer the metric (G-068 to G-072)."""
    key, number = request.storageKey, float(request.value)

    def write(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
        event = _find(connection, request.id)
        _kind(connection, event, key, ("state",))
        now, date = _moments(event, request.date)
        state = _set(connection, store, event, key, "state", now, date=date, number=number)
        _set_delay(connection, store, event, state, now)
        return state

    return Answer(table=as_resource([store.write(write)]))


def update_event_statistic(store: Store, request: UpdateEventStatistic) -> Answer:
    """Set a statistic of an event, an amount in the currency it has, and answer the metric (G-074)."""
    key = request.storageKey

    def write(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
        event = _find(connection, request.id)
        kind = _kind(connection, event, key, ("number", "currency"))
        now, date = _moments(event, request.date)
        if kind == "number":
            return _set(connection, store, event, key, kind, now, date=date, number=float(request.value))
        currency = event.metrics.get(key, {}).get("currency") or store.meta.currency
        money = {"amount": request.value, "currency": currency}
        return _set(connection, store, event, key, kind, now, date=date, **money)

    return Answer(table=as_resource([store.write(write)]))


def _find(connection: duckdb.DuckDBPyConnection, id: str) -> _Event:
    found = connection.execute(
        "SELECT _id, projectId, eventType, eventTypeVersion, eventDate, createdAt, updatedAt FROM events "
        "WHERE _id = ?",
        [id],
    ).fetchone()
    if found is None:
        raise NotFound(f"id: there is no event {id!r}", field="id")
    rows = connection.execute(f"SELECT {_LISTED} FROM metrics WHERE eventId = ?", [id]).fetchall()
    metrics = {row["key"]: row for row in (dict(zip(_COLUMNS, each, strict=True)) for each in rows)}
    return _Event(*(*found, metrics))


def _kind(connection: duckdb.DuckDBPyConnection, event: _Event, key: str, kinds: Collection[str]) -> str:
    """Return what kind of metric a storage key names on an event, by what was declared when it was created.

    A loaded event may have metrics that nobody declared; they can be updated too.
    """
    known = {
        held: row["dataType"]
        for held, row in event.metrics.items()
        if held != "event-count" and not held.startswith("state-delay-")
    }
    for each in read_declared(connection, event.reference, event.version, event.created_at):
        if each["entity"] == "event":
            known[each["storageKey"]] = each["type"]
    kind = known.get(key)
    if kind not in kinds:
        wanted = "state" if "state" in kinds else "statistic"
        raise NotFound(
            f"storage_key: no storageKey matches a field of the event type: {event.reference!r} had no "
            f"{wanted} {key!r} when the event was created",
            field="storage_key",
        )
    return str(kind)


def _moments(event: _Event, date: datetime | None) -> tuple[datetime, datetime]:
    """Return the moment of an update, later than the one before, and the date that it gives."""
    received = naive(datetime.now(UTC))
    return max(received, event.updated_at + _MICROSECOND), naive(date) if date else received


def _set(
    connection: duckdb.DuckDBPyConnection,
    store: Store,
    event: _Event,
    key: str,
    kind: str,
    now: datetime,
    **values: Any,
) -> dict[str, Any]:
    """Give a metric of an event a value, keep the one it had, and return its row."""
    held = event.metrics.get(key)
    if held is None:
        row: dict[str, Any] = {
            **dict.fromkeys(_COLUMNS),
            "_id": store.ids.new(),
            "projectId": event.project_id,
            "eventId": event.id,
            "key": key,
            "type": "state" if kind == "state" else "statistic",
            "dataType": kind,
            "anonymized": False,
            "invalid": False,
            "createdAt": now,
            "updatedAt": now,
            **values,
        }
        insert_records(connection, "metrics", [row])
    else:
        row = {**held, "updatedAt": max(now, held["updatedAt"] + _MICROSECOND), "deletedAt": None, **values}
        connection.execute(
            f"INSERT INTO metric_history ({_LISTED}) SELECT {_LISTED} FROM metrics "
            "WHERE eventId = ? AND key = ?",
            [event.id, key],
        )
        names = ("date", "number", "amount", "currency", "updatedAt", "deletedAt")
        assigned = ", ".join(f"{quoted(name)} = ?" for name in names)
        connection.execute(
            f"UPDATE metrics SET {assigned} WHERE eventId = ? AND key = ?",
            [*(row[name] for name in names), event.id, key],
        )
    if not key.startswith("state-delay-"):
        connection.execute("UPDATE events SET updatedAt = ? WHERE _id = ?", [now, event.id])
    return row


def _set_delay(
    connection: duckdb.DuckDBPyConnection, store: Store, event: _Event, state: dict[str, Any], now: datetime
) -> None:
    """Measure the seconds from the event to its state, as long as the state is 1 (G-072)."""
    key = f"state-delay-{state['key']}"
    if state["number"] == 1:
        seconds = (state["date"] - event.date) / timedelta(seconds=1)
        _set(connection, store, event, key, "number", now, date=state["date"], number=seconds)
        return
    held = event.metrics.get(key)
    if held is not None and held["deletedAt"] is None:
        _set(
            connection,
            store,
            event,
            key,
            "number",
            now,
            date=held["date"],
            number=held["number"],
            deletedAt=now,
        )
