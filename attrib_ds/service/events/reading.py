"""Reads events: raw, computed and trashed."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.json_text import encode
from attrib_ds.errors import NotFound
from attrib_ds.service.events.metrics import as_json
from attrib_ds.service.interactions.search import ordering
from attrib_ds.service.interactions.selection import answered, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from attrib_ds.contract.events import GetEvent, ListTrashedEvents
    from attrib_ds.service.store.store import Store

#: SQL for the ids of events, of the relation ``wanted``, that an eligible interaction of their user came
#: before, in 30 days (G-064, G-202).
ATTRIBUTABLE: Final = (
    "SELECT wanted._id FROM wanted JOIN interactions AS touch ON touch.userId = wanted.userId "
    "AND touch.startDate <= wanted.eventDate AND touch.startDate > wanted.eventDate - INTERVAL 30 DAY "
    "WHERE NOT coalesce(touch.isBot, false) AND touch.trafficFilterId IS NULL"
)
_EVENTS: Final = (
    "WITH wanted AS (SELECT * FROM events WHERE _id IN (SELECT unnest(?))) "
    f"SELECT *, _id IN ({ATTRIBUTABLE}) AS attributable FROM wanted"
)
_METRICS: Final = "SELECT * FROM metrics WHERE eventId IN (SELECT unnest(?)) ORDER BY key, _id"
_NEWEST_FIRST: Final = {"processingDate": -1}


def get_event(store: Store, request: GetEvent) -> Answer:
    """Answer one computed event; those that were loaded are found too."""
    with store.read() as backend:
        table = computed(backend.con, [request.id])
    if not table.num_rows:
        raise NotFound(f"id: there is no event {request.id!r}", field="id")
    return Answer.of(table)


def get_raw_event(store: Store, request: GetEvent) -> Answer:
    """Answer one event as it was sent, valid or not; loaded events were never sent."""
    with store.read() as backend:
        events = backend.table("raw_events")
        found = events.filter(events["_id"] == request.id).select(schema.RAW_EVENT.names)
        table = answered(found, schema.RAW_EVENT)
    if not table.num_rows:
        raise NotFound(f"id: there is no raw event {request.id!r}", field="id")
    return Answer.of(table)


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
    return Answer.of(table, total=total, offset=request.offset, limit=request.limit)


def computed(connection: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> pa.Table:
    """Return events with what follows from other tables.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        To read with.
    ids : sequence of str
        Of events.

    Returns
    -------
    pyarrow.Table
        Those that are there, in any order, in the schema of the resource; ``metrics`` are in the order of
        their keys, deleted ones among them.
    """
    # SQL as it stands: an expression is compiled in ten times the time in which few events are read.
    wanted = [list(ids)]
    rows = connection.execute(_EVENTS, wanted).to_arrow_table()
    metrics = connection.execute(_METRICS, wanted).to_arrow_table()
    by_event: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in metrics.to_pylist():
        by_event[row["eventId"]].append(as_json(row))
    derived = pa.array([encode(by_event[id]) for id in rows["_id"].to_pylist()], pa.string())
    return rows.append_column("metrics", derived).select(schema.EVENT.names).cast(schema.EVENT)
