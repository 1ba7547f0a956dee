"""Reads events: raw, computed and trashed."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import ibis
import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.json_text import encode
from attrib_ds.errors import NotFound
from attrib_ds.service.interactions import ordering
from attrib_ds.service.metrics import as_json
from attrib_ds.service.selection import answered, moment

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.events import GetEvent, ListTrashedEvents
    from attrib_ds.service.store import Store

#: How long before an event its user's interactions count (G-202).
_LOOKBACK: Final = timedelta(days=30)
_NEWEST_FIRST: Final = {"processingDate": -1}


def get_event(store: Store, request: GetEvent) -> Answer:
    """Answer one computed event; those that were loaded are found too."""
    with store.read() as backend:
        events = backend.table("events")
        table = computed(backend, events.filter(events["_id"] == request.id))
    if not table.num_rows:
        raise NotFound(f"id: there is no event {request.id!r}", field="id")
    return Answer(table=table)


def get_raw_event(store: Store, request: GetEvent) -> Answer:
    """Answer one event as it was sent, valid or not; loaded events were never sent."""
    with store.read() as backend:
        events = backend.table("raw_events")
        found = events.filter(events["_id"] == request.id).select(schema.RAW_EVENT.names)
        table = answered(found, schema.RAW_EVENT)
    if not table.num_rows:
        raise NotFound(f"id: there is no raw event {request.id!r}", field="id")
    return Answer(table=table)


def list_trashed_events(store: Store, request: ListTrashedEvents) -> Answer:
    """Answer one page of trashed events, the last processed first; the bounds are on that date."""
    with store.read() as backend:
        found = backend.table("trashed_events")
        if request.since is not None:
            found = found.filter(found.processingDate >= moment(request.since))
        if request.until is not None:
            found = found.filter(found.processingDate <= moment(request.until))
        total = found.count().to_pyarrow().as_py()
        ordered = found.order_by(ordering(found, _NEWEST_FIRST)).select(schema.TRASHED_EVENT.names)
        table = answered(ordered.limit(request.limit, offset=request.offset), schema.TRASHED_EVENT)
    return Answer(table=table, total=total, offset=request.offset, limit=request.limit)


def computed(backend: Backend, events: ir.Table) -> pa.Table:
    """Return events with what follows from other tables.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    events : ibis.Table
        Some rows of the table ``events``, in any order.

    Returns
    -------
    pyarrow.Table
        The same rows in the schema of the resource; ``metrics`` are in the order of their keys, deleted
        ones among them.
    """
    rows = events.to_pyarrow()
    reached = set(attributable(backend, events).to_pyarrow()["_id"].to_pylist())
    metrics = backend.table("metrics")
    of_events = metrics.semi_join(events, metrics.eventId == events["_id"])
    by_event: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in of_events.order_by(of_events.key, of_events["_id"]).to_pyarrow().to_pylist():
        by_event[row["eventId"]].append(as_json(row))
    names = rows["_id"].to_pylist()
    derived = {
        "attributable": pa.array([name in reached for name in names], pa.bool_()),
        "metrics": pa.array([encode(by_event[name]) for name in names], pa.string()),
    }
    columns = [
        derived.get(name, rows[name] if name in rows.column_names else None) for name in schema.EVENT.names
    ]
    return pa.table(columns, names=schema.EVENT.names).cast(schema.EVENT)


def attributable(backend: Backend, events: ir.Table) -> ir.Table:
    """Return the ids of those events whose user has an eligible interaction before them (G-064).

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    events : ibis.Table
        Some rows of the table ``events``.

    Returns
    -------
    ibis.Table
        The column ``_id``.
    """
    interactions = backend.table("interactions")
    eligible = interactions.filter(
        ~interactions.isBot.fill_null(False), interactions.trafficFilterId.isnull()
    ).select(toucher="userId", touched="startDate")
    window = ibis.interval(seconds=int(_LOOKBACK.total_seconds()))
    return events.semi_join(
        eligible,
        [
            events.userId == eligible.toucher,
            eligible.touched <= events.eventDate,
            eligible.touched > events.eventDate - window,
        ],
    ).select("_id")
