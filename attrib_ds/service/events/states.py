"""Reads events with their states and statistics, and updates these; replaced values are kept."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import errors, instants, schema, sql_results
from attrib_ds.contract import Answer, json_values
from attrib_ds.contract.events import (
    EventInsights,
    GetEvent,
    ListTrashedEvents,
    UpdateEventState,
    UpdateEventStatistic,
)
from attrib_ds.queries.insights import sum_events
from attrib_ds.records.json_records import to_json
from attrib_ds.records.sources import quoted
from attrib_ds.service.events.event_types import Declarations, read_declarations
from attrib_ds.service.outlays import in_project_currency
from attrib_ds.service.store import audit, tables, threads
from attrib_ds.service.store.audit import AuditEntry
from attrib_ds.service.store.store import Store

Row = dict[str, Any]


_COLUMNS: Final = tuple(tables.TABLES["metrics"])
#: Columns that an update changes.
_CHANGED: Final = ("date", "number", "amount", "currency", "raw", "invalid", "updatedAt", "deletedAt")
_DELAY: Final = "state-delay-"


def metric_row(store: Store, event_id: str, key: str, kind: str, now: datetime, **values: Any) -> Row:
    """Return a new row of the table ``metrics``."""
    return {
        **dict.fromkeys(_COLUMNS),
        "_id": store.ids.new(),
        "projectId": store.meta.project_id,
        "eventId": event_id,
        "key": key,
        "type": "state" if kind == "state" else "statistic",
        "dataType": kind,
        "anonymized": False,
        "invalid": False,
        "createdAt": now,
        "updatedAt": now,
        **values,
    }


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
        self._batches: threads.Batches[_Update, Row] = threads.Batches(
            self._write_all, name=f"updates of {store.meta.project_id}"
        )

    def update_event_state(self, request: UpdateEventState, line: AuditEntry | None = None) -> Answer:
        """Set a state of an event, with its delay, and return the metric."""
        return self._update(request, line)

    def update_event_statistic(self, request: UpdateEventStatistic, line: AuditEntry | None = None) -> Answer:
        """Set a statistic of an event and return the metric; amounts keep their currency."""
        return self._update(request, line)

    def _update(self, request: UpdateEventState | UpdateEventStatistic, line: AuditEntry | None) -> Answer:
        row = self._batches.submit(_Update(request, instants.naive(instants.now()), line)).result()
        return Answer.of(as_resource([row]))

    def _write_all(self, updates: Sequence[_Update]) -> list[Row | Exception]:
        return self._store.write(lambda connection: _write(connection, self._store, updates))


def _write(connection: Connection, store: Store, updates: Sequence[_Update]) -> list[Row | Exception]:
    """Apply updates in order; return the metric or the error of each."""
    events = _read(connection, {update.request.id for update in updates})
    declarations = read_declarations(connection, {event.reference for event in events.values()})
    results: list[Row | Exception] = []
    lines = []
    for update in updates:
        try:
            event = events.get(update.request.id)
            if event is None:
                raise errors.NotFound(f"id: there is no event {update.request.id!r}")
            results.append(_apply(update, event, declarations, store))
            if update.line is not None:
                lines.append(update.line)
        except errors.NotFound as error:
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
            row = metric_row(store, self.id, key, kind, now, **values)
        else:
            self.replaced.append(stored)
            later = max(now, stored["updatedAt"] + instants.KEPT_RESOLUTION)
            fresh = {"invalid": False, "raw": None, "deletedAt": None}
            row = {**stored, **fresh, "updatedAt": later, **values}
        self.metrics[key] = row
        self.changed.add(key)
        return row


def _read(connection: Connection, ids: Collection[str]) -> dict[str, _Event]:
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
    date = instants.naive(request.date) if request.date else received
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
        raise errors.NotFound(
            f"storage_key: no storageKey matches a field of the event type: {event.reference!r} had no "
            f"{noun} {key!r} when the event was created"
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


def _store(connection: Connection, events: Iterable[_Event]) -> None:
    """Write updated events and metrics, one statement per table."""
    updated = [event for event in events if event.changed]
    replaced = [{name: row[name] for name in _COLUMNS} for event in updated for row in event.replaced]
    tables.insert_records(connection, "metric_history", replaced)
    rows = [event.metrics[key] for event in updated for key in sorted(event.changed)]
    tables.insert_records(connection, "metrics", [row for row in rows if "rowid" not in row])
    existing = [row for row in rows if "rowid" in row]
    if existing:
        changes = tables.as_arrow("metrics", [{name: row[name] for name in _CHANGED} for row in existing])
        changes = changes.append_column("place", pa.array([row["rowid"] for row in existing], pa.int64()))
        assigned = ", ".join(f"{quoted(name)} = new.{quoted(name)}" for name in _CHANGED)
        with tables.arrow_view(connection, changes) as view:
            connection.execute(
                f"UPDATE metrics SET {assigned} FROM {view} AS new WHERE metrics.rowid = new.place"
            )
    if updated:
        connection.execute(
            "UPDATE events SET updatedAt = moment FROM (SELECT unnest(?) AS id, unnest(?) AS moment) AS new "
            "WHERE _id = id",
            [[event.id for event in updated], [event.updated_at for event in updated]],
        )


def as_resource(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows of the table ``metrics`` in the schema of the resource."""
    return pa.Table.from_pylist([_flat(row) for row in rows], schema.METRIC)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    value = json_values.encode(_value(row))
    ids = {name: row[name] for name in ("_id", "projectId", "eventId", "key", "type")}
    flags = {f"data.{name}": row[name] for name in ("anonymized", "invalid")}
    dates = {name: _aware(row[name]) for name in ("createdAt", "updatedAt", "deletedAt")}
    data = {"data.type": row["dataType"], "data.date": _aware(row["date"])}
    return {**ids, **data, "data.raw": row["raw"] or value, "data.current": value, **flags, **dates}


def _value(row: Mapping[str, Any]) -> Any:
    if row["dataType"] == "currency":
        return None if row["amount"] is None else {"amount": row["amount"], "currency": row["currency"]}
    number = row["number"]
    return None if number is None else Decimal(repr(number))


def _aware(instant: datetime | None) -> datetime | None:
    return None if instant is None else instant.replace(tzinfo=UTC)


#: SQL query of the ids of events, of the relation ``selected``, that follow an eligible interaction of their
#: user within 30 days.
ATTRIBUTABLE: Final = (
    "SELECT selected._id FROM selected JOIN interactions AS touch ON touch.userId = selected.userId "
    "AND touch.startDate <= selected.eventDate AND touch.startDate > selected.eventDate - INTERVAL 30 DAY "
    "WHERE NOT coalesce(touch.isBot, false) AND touch.trafficFilterId IS NULL"
)
_EVENTS: Final = (
    "WITH selected AS (SELECT * FROM events WHERE _id IN (SELECT unnest(?))) "
    f"SELECT *, _id IN ({ATTRIBUTABLE}) AS attributable FROM selected"
)
_METRICS: Final = "SELECT * FROM metrics WHERE eventId IN (SELECT unnest(?)) ORDER BY key, _id"


def get_event(store: Store, request: GetEvent) -> Answer:
    """Return one computed event, sent or loaded."""
    with store.read() as backend:
        table = read_events(backend.con, [request.id])
    if not table.num_rows:
        raise errors.NotFound(f"id: there is no event {request.id!r}")
    return Answer.of(table)


def get_raw_event(store: Store, request: GetEvent) -> Answer:
    """Return one event as it was sent, valid or not; loaded events have no raw event."""
    missing = f"id: there is no raw event {request.id!r}"
    return store.one("raw_events WHERE _id = ?", [request.id], schema.RAW_EVENT, missing)


def list_trashed_events(store: Store, request: ListTrashedEvents) -> Answer:
    """Return one page of trashed events, the last processed first; bounds are on the processing date."""
    bounds = {"processingDate >= ?": request.since, "processingDate <= ?": request.until}
    sort = {"processingDate": -1}
    return store.page("trashed_events", bounds, schema.TRASHED_EVENT, request, sort=sort)


def event_insights(store: Store, request: EventInsights) -> Answer:
    """Sum metrics by interval and group; see :func:`.sum_events`."""
    with store.read() as backend:
        types = backend.table("event_types")
        return sum_events(
            backend.table("events"),
            backend.table("metrics"),
            types.filter(types.archivedAt.isnull()).select(eventType="reference"),
            request,
            in_currency=partial(in_project_currency, backend, currency=store.meta.currency),
        )


def read_events(connection: Connection, ids: Sequence[str]) -> pa.Table:
    """Return events with their metrics and whether they are attributable.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.
    ids : sequence of str
        Ids of events.

    Returns
    -------
    pyarrow.Table
        Existing events, in any order, in the schema of the resource; ``metrics`` are sorted by key and
        include deleted ones.
    """
    # Plain SQL: compiling an Ibis expression takes ten times as long as reading a few events.
    parameters = [list(ids)]
    rows = sql_results.read_arrow(connection, _EVENTS, parameters)
    metrics = as_resource(sql_results.read_arrow(connection, _METRICS, parameters).to_pylist())
    by_event: defaultdict[str, list[str]] = defaultdict(list)
    for batch in metrics.to_batches():
        for id, text in zip(batch["eventId"].to_pylist(), to_json(batch, resource="Metric"), strict=True):
            by_event[id].append(text)
    metrics_json = pa.array([f"[{','.join(by_event[id])}]" for id in rows["_id"].to_pylist()], pa.string())
    return rows.append_column("metrics", metrics_json).select(schema.EVENT.names).cast(schema.EVENT)
