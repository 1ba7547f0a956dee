"""Updates the states and statistics of events; replaced values are kept in the history."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds import instants
from attrib_ds.contract import Answer
from attrib_ds.contract.events import UpdateEventState
from attrib_ds.errors import NotFound
from attrib_ds.instants import naive
from attrib_ds.records.sources import quoted
from attrib_ds.service.events.event_types import Declarations, read_declarations
from attrib_ds.service.events.reading import as_resource
from attrib_ds.service.store import audit
from attrib_ds.service.store.tables import TABLES, arrow_view, as_arrow, insert_records
from attrib_ds.service.store.threads import Batches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import duckdb

    from attrib_ds.contract.events import UpdateEventStatistic
    from attrib_ds.service.store.audit import AuditEntry
    from attrib_ds.service.store.store import Store

    Row = dict[str, Any]

_COLUMNS: Final = tuple(TABLES["metrics"])
#: Columns that an update changes.
_CHANGED: Final = ("date", "number", "amount", "currency", "invalid", "updatedAt", "deletedAt")
_DELAY: Final = "state-delay-"


@dataclass(frozen=True)
class _Update:
    request: UpdateEventState | UpdateEventStatistic
    #: Naive, in UTC.
    received: datetime
    line: AuditEntry | None = None


class States:
    """Updates the states and statistics of a project's events.

    Concurrent updates are written in one batch, in order: each sees the results of those before it.

    Parameters
    ----------
    store : Store
        Store of the events.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._batches: Batches[_Update, Row] = Batches(
            self._write_all, name=f"updates of {store.meta.project_id}"
        )

    def update_event_state(self, request: UpdateEventState, line: AuditEntry | None = None) -> Answer:
        """Set a state of an event, with its delay, and return the metric."""
        return self._update(request, line)

    def update_event_statistic(self, request: UpdateEventStatistic, line: AuditEntry | None = None) -> Answer:
        """Set a statistic of an event and return the metric; amounts keep their currency."""
        return self._update(request, line)

    def _update(self, request: UpdateEventState | UpdateEventStatistic, line: AuditEntry | None) -> Answer:
        row = self._batches.submit(_Update(request, naive(instants.now()), line)).result()
        return Answer.of(as_resource([row]))

    def _write_all(self, updates: Sequence[_Update]) -> list[Row | Exception]:
        return self._store.write(lambda connection: _write(connection, self._store, updates))


def _write(
    connection: duckdb.DuckDBPyConnection, store: Store, updates: Sequence[_Update]
) -> list[Row | Exception]:
    """Apply updates in order; return the metric or the error of each."""
    events = _read(connection, {update.request.id for update in updates})
    declarations = read_declarations(connection, {event.reference for event in events.values()})
    results: list[Row | Exception] = []
    lines = []
    for update in updates:
        try:
            event = events.get(update.request.id)
            if event is None:
                raise NotFound(f"id: there is no event {update.request.id!r}", field="id")
            results.append(_apply(update, event, declarations, store))
            if update.line is not None:
                lines.append(update.line)
        except NotFound as error:
            results.append(error)
    _store(connection, events.values())
    audit.append(connection, lines)
    return results


@dataclass
class _Event:
    """An event and its updated metrics by key; instants are naive, in UTC.

    Rows read from the table have their ``rowid``.
    """

    id: str
    project_id: str
    reference: str
    version: int | None
    date: datetime
    created_at: datetime
    updated_at: datetime
    metrics: dict[str, Row] = field(default_factory=dict)
    replaced: list[Row] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)

    def put(self, key: str, kind: str, now: datetime, store: Store, **values: Any) -> Row:
        """Set the value of a metric, keep the replaced row for the history, and return the new one."""
        stored = self.metrics.get(key)
        if stored is None:
            row = {
                **dict.fromkeys(_COLUMNS),
                "_id": store.ids.new(),
                "projectId": self.project_id,
                "eventId": self.id,
                "key": key,
                "type": "state" if kind == "state" else "statistic",
                "dataType": kind,
                "anonymized": False,
                "invalid": False,
                "createdAt": now,
                "updatedAt": now,
                **values,
            }
        else:
            self.replaced.append(stored)
            later = max(now, stored["updatedAt"] + instants.KEPT_RESOLUTION)
            row = {**stored, "invalid": False, "updatedAt": later, "deletedAt": None, **values}
        self.metrics[key] = row
        self.changed.add(key)
        return row


def _read(connection: duckdb.DuckDBPyConnection, ids: Collection[str]) -> dict[str, _Event]:
    """Return existing events by id, with their metrics."""
    parameters = [sorted(ids)]
    listed = ", ".join(quoted(name) for name in _COLUMNS)
    rows = connection.execute(
        "SELECT _id, projectId, eventType, eventTypeVersion, eventDate, createdAt, updatedAt FROM events "
        "WHERE _id IN (SELECT unnest(?))",
        parameters,
    ).fetchall()
    events = {row[0]: _Event(*row) for row in rows}
    rows = connection.execute(
        f"SELECT rowid, {listed} FROM metrics WHERE eventId IN (SELECT unnest(?))", parameters
    ).fetchall()
    for row in rows:
        metric = dict(zip(("rowid", *_COLUMNS), row, strict=True))
        if metric["eventId"] in events:
            events[metric["eventId"]].metrics[metric["key"]] = metric
    return events


def _apply(update: _Update, event: _Event, declarations: Declarations, store: Store) -> Row:
    request, received = update.request, update.received
    key = request.storageKey
    is_state = isinstance(request, UpdateEventState)
    kind = _kind(declarations, event, key, ("state",) if is_state else ("number", "currency"))
    # Monotonic, even if the clock steps back.
    now = max(received, event.updated_at + instants.KEPT_RESOLUTION)
    date = naive(request.date) if request.date else received
    if kind == "currency":
        currency = event.metrics.get(key, {}).get("currency") or store.meta.currency
        row = event.put(key, kind, now, store, date=date, amount=request.value, currency=currency)
    else:
        row = event.put(key, kind, now, store, date=date, number=float(request.value))
    event.updated_at = now
    if is_state:
        _put_delay(event, row, now, store)
    return row


def _kind(declarations: Declarations, event: _Event, key: str, kinds: Collection[str]) -> str:
    """Return the data type of a metric of an event, as declared when the event was created.

    Undeclared metrics of loaded events can be updated too.
    """
    types = {
        name: row["dataType"]
        for name, row in event.metrics.items()
        if name != "event-count" and not name.startswith(_DELAY)
    }
    for declared in declarations.fields(event.reference, event.version, event.created_at):
        if declared["entity"] == "event":
            types[declared["storageKey"]] = declared["type"]
    kind = types.get(key)
    if kind not in kinds:
        noun = "state" if "state" in kinds else "statistic"
        raise NotFound(
            f"storage_key: no storageKey matches a field of the event type: {event.reference!r} had no "
            f"{noun} {key!r} when the event was created",
            field="storage_key",
        )
    return str(kind)


def _put_delay(event: _Event, state: Row, now: datetime, store: Store) -> None:
    """Set the delay from the event to its state, in seconds; delete it if the state is 0."""
    key = f"{_DELAY}{state['key']}"
    if state["number"] == 1:
        seconds = (state["date"] - event.date) / timedelta(seconds=1)
        event.put(key, "number", now, store, date=state["date"], number=seconds)
        return
    delay = event.metrics.get(key)
    if delay is not None and delay["deletedAt"] is None:
        event.put(key, "number", now, store, deletedAt=now)


def _store(connection: duckdb.DuckDBPyConnection, events: Iterable[_Event]) -> None:
    """Write updated events and metrics, one statement per table."""
    updated = [event for event in events if event.changed]
    replaced = [{name: row[name] for name in _COLUMNS} for event in updated for row in event.replaced]
    insert_records(connection, "metric_history", replaced)
    rows = [event.metrics[key] for event in updated for key in sorted(event.changed)]
    insert_records(connection, "metrics", [row for row in rows if "rowid" not in row])
    existing = [row for row in rows if "rowid" in row]
    if existing:
        changes = as_arrow("metrics", [{name: row[name] for name in _CHANGED} for row in existing])
        changes = changes.append_column("place", pa.array([row["rowid"] for row in existing], pa.int64()))
        assigned = ", ".join(f"{quoted(name)} = new.{quoted(name)}" for name in _CHANGED)
        with arrow_view(connection, changes) as view:
            connection.execute(
                f"UPDATE metrics SET {assigned} FROM {view} AS new WHERE metrics.rowid = new.place"
            )
    if updated:
        connection.execute(
            "UPDATE events SET updatedAt = moment FROM (SELECT unnest(?) AS id, unnest(?) AS moment) AS new "
            "WHERE _id = id",
            [[event.id for event in updated], [event.updated_at for event in updated]],
        )
