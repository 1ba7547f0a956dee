"""Reads raw, computed and trashed events, and their states and statistics as the resource."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds import instants, schema
from attrib_ds.contract import Answer
from attrib_ds.contract.json_values import encode
from attrib_ds.errors import NotFound
from attrib_ds.queries.insights import fetch, ordering, sum_events, timestamp
from attrib_ds.service.outlays import in_project_currency
from attrib_ds.service.store.store import Store

if TYPE_CHECKING:
    import duckdb

    from attrib_ds.contract.events import EventInsights, GetEvent, ListTrashedEvents


def as_resource(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows of the table ``metrics`` in the schema of the resource."""
    return pa.Table.from_pylist([_flat(row) for row in rows], schema.METRIC)


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the table ``metrics`` as nested JSON; numbers are exact.

    Examples
    --------
    >>> row = {"_id": "m1", "projectId": "shop", "eventId": "e1", "key": "won", "type": "state",
    ...        "dataType": "state", "date": datetime(2025, 1, 31), "number": 1.0, "amount": None,
    ...        "currency": None, "anonymized": False, "invalid": False, "createdAt": datetime(2025, 2, 1),
    ...        "updatedAt": datetime(2025, 2, 1), "deletedAt": None}
    >>> as_json(row)["data"]  # doctest: +NORMALIZE_WHITESPACE
    {'type': 'state', 'date': '2025-01-31T00:00:00.000Z', 'raw': Decimal('1.0'),
     'current': Decimal('1.0'), 'anonymized': False, 'invalid': False}
    """
    dates = {name: _written(row[name]) for name in ("createdAt", "updatedAt", "deletedAt")}
    value = _value(row)
    return {
        **{name: row[name] for name in ("_id", "projectId", "eventId", "key", "type")},
        "data": {
            "type": row["dataType"],
            "date": _written(row["date"]),
            # Metrics are stored normalised only.
            "raw": value,
            "current": value,
            "anonymized": row["anonymized"],
            "invalid": row["invalid"],
        },
        **dates,
    }


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    value = encode(_value(row))
    ids = {name: row[name] for name in ("_id", "projectId", "eventId", "key", "type")}
    flags = {f"data.{name}": row[name] for name in ("anonymized", "invalid")}
    dates = {name: _aware(row[name]) for name in ("createdAt", "updatedAt", "deletedAt")}
    data = {"data.type": row["dataType"], "data.date": _aware(row["date"])}
    return {**ids, **data, "data.raw": value, "data.current": value, **flags, **dates}


def _value(row: Mapping[str, Any]) -> Any:
    if row["dataType"] == "currency":
        if row["amount"] is None:
            return None
        return {"amount": row["amount"], "currency": row["currency"]}
    number = row["number"]
    return None if number is None else Decimal(repr(number))


def _aware(instant: datetime | None) -> datetime | None:
    return None if instant is None else instant.replace(tzinfo=UTC)


def _written(instant: datetime | None) -> str | None:
    return None if instant is None else instants.format(instant.replace(tzinfo=UTC))


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
_NEWEST_FIRST: Final = {"processingDate": -1}


def get_event(store: Store, request: GetEvent) -> Answer:
    """Return one computed event, sent or loaded."""
    with store.read() as backend:
        table = read_events(backend.con, [request.id])
    if not table.num_rows:
        raise NotFound(f"id: there is no event {request.id!r}", field="id")
    return Answer.of(table)


def get_raw_event(store: Store, request: GetEvent) -> Answer:
    """Return one event as it was sent, valid or not; loaded events have no raw event."""
    with store.read() as backend:
        events = backend.table("raw_events")
        query = events.filter(events["_id"] == request.id).select(schema.RAW_EVENT.names)
        table = fetch(query, schema.RAW_EVENT)
    if not table.num_rows:
        raise NotFound(f"id: there is no raw event {request.id!r}", field="id")
    return Answer.of(table)


def list_trashed_events(store: Store, request: ListTrashedEvents) -> Answer:
    """Return one page of trashed events, the last processed first; bounds are on the processing date."""
    with store.read() as backend:
        events = backend.table("trashed_events")
        if request.since is not None:
            events = events.filter(events.processingDate >= timestamp(request.since))
        if request.until is not None:
            events = events.filter(events.processingDate <= timestamp(request.until))
        total = events.count().to_pyarrow().as_py()
        ordered = events.order_by(ordering(events, _NEWEST_FIRST)).select(schema.TRASHED_EVENT.names)
        table = fetch(ordered.limit(request.limit, offset=request.offset), schema.TRASHED_EVENT)
    return Answer.of(table, total=total, offset=request.offset, limit=request.limit)


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


def read_events(connection: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> pa.Table:
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
    rows = connection.execute(_EVENTS, parameters).to_arrow_table()
    metrics = connection.execute(_METRICS, parameters).to_arrow_table()
    by_event: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in metrics.to_pylist():
        by_event[row["eventId"]].append(as_json(row))
    metrics_json = pa.array([encode(by_event[id]) for id in rows["_id"].to_pylist()], pa.string())
    return rows.append_column("metrics", metrics_json).select(schema.EVENT.names).cast(schema.EVENT)
