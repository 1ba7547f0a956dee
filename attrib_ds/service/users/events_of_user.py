"""Lists the events of one user with their states and statistics, and exports all data of a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.users import GetUser
from attrib_ds.errors import NotFound
from attrib_ds.instants import naive
from attrib_ds.json_numbers import load_exact
from attrib_ds.queries.intervals import fetch, ordering, timestamp
from attrib_ds.records.json_records import to_json
from attrib_ds.records.sources import quoted
from attrib_ds.service.events.metrics import as_resource
from attrib_ds.service.events.reading import ATTRIBUTABLE, read_events
from attrib_ds.service.identity.merging import find_survivor
from attrib_ds.service.store.cursors import BATCH_ROWS
from attrib_ds.service.store.store import Store
from attrib_ds.service.users.search import get_user

if TYPE_CHECKING:
    import duckdb
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.users import ExportUserData, ListUserEvents, ListUserMetrics


_METRIC_DATE: Final = {"metricDate": "date"}


def list_user_events(store: Store, request: ListUserEvents) -> Answer:
    """Return one page of the events of a user as a stream, newest first by default.

    An unknown user has no events (G-150).
    """
    with ExitStack() as stack:
        backend = stack.enter_context(store.read())
        user_id = find_survivor(backend.con, request.id)
        ids = _event_ids(backend.con, request, user_id)
        page = ids[request.offset :][: request.limit]

        def tables() -> Iterator[pa.Table]:
            for start in range(0, len(page), BATCH_ROWS):
                part = page[start : start + BATCH_ROWS]
                yield in_order(read_events(backend.con, part), part)

        return Answer(
            schema.EVENT,
            tables(),
            count=len(page),
            total=len(ids),
            offset=request.offset,
            limit=request.limit,
            close=stack.pop_all().close,
        )


def _event_ids(connection: duckdb.DuckDBPyConnection, request: ListUserEvents, user_id: str) -> list[str]:
    """Return the ids of all events that match, in their order."""
    bounds = {"eventDate >= ?": request.since, "eventDate <= ?": request.until}
    parameters = {condition: naive(bound) for condition, bound in bounds.items() if bound is not None}
    conditions = " AND ".join(["userId = ?", *parameters])
    # Without the parameter, and with false, all events are listed (G-151).
    attributable = f"WHERE _id IN ({ATTRIBUTABLE})" if request.attributable else ""
    direction = request.order or ("ASC" if request.sort else "DESC")
    order = f"{quoted(request.sort or 'eventDate')} {direction} NULLS LAST, _id"
    # Plain SQL: compiling an Ibis expression takes ten times as long as reading a few events.
    rows = connection.execute(
        f"WITH selected AS (SELECT * FROM events WHERE {conditions}) "
        f"SELECT _id FROM selected {attributable} ORDER BY {order}",
        [user_id, *parameters.values()],
    )
    return [id for (id,) in rows.fetchall()]


def list_user_metrics(store: Store, request: ListUserMetrics) -> Answer:
    """Return one page of the states and statistics of a user's events as a stream, newest first by default.

    Deleted ones are left out (G-153).

    Raises
    ------
    NotFound
        If there is no such user.
    """

    def find(backend: Backend) -> ir.Table:
        user_id = find_survivor(backend.con, request.id)
        if backend.con.execute("SELECT 1 FROM users WHERE _id = ?", [user_id]).fetchone() is None:
            raise NotFound(f"id: there is no user {request.id!r}", field="id")
        events, metrics = backend.table("events"), backend.table("metrics")
        matching = metrics.semi_join(
            events.filter(events.userId == user_id), metrics.eventId == events["_id"]
        )
        matching = _between(matching.filter(matching.deletedAt.isnull()), "date", request)
        return matching.filter(matching.type == request.type) if request.type is not None else matching

    def read(backend: Backend, ids: list[str]) -> pa.Table:
        metrics = backend.table("metrics")
        return as_resource(metrics.filter(metrics["_id"].isin(ids)).to_pyarrow().to_pylist())

    sort = request.sort or "metricDate"
    return _paged(store, request, find, read, schema.METRIC, _METRIC_DATE.get(sort, sort))


def _between(found: ir.Table, date: str, request: ListUserMetrics) -> ir.Table:
    if request.since is not None:
        found = found.filter(found[date] >= timestamp(request.since))
    if request.until is not None:
        found = found.filter(found[date] <= timestamp(request.until))
    return found


def _paged(
    store: Store,
    request: ListUserMetrics,
    find: Callable[[Backend], ir.Table],
    read: Callable[[Backend, list[str]], pa.Table],
    columns: pa.Schema,
    sort: str,
) -> Answer:
    """Return a page from one snapshot: find the ids of its rows, then read them in batches."""
    order = request.order or ("ASC" if request.sort else "DESC")
    with ExitStack() as stack:
        backend = stack.enter_context(store.read())
        matching = find(backend)
        total = int(matching.count().to_pyarrow().as_py())
        ordered = matching.order_by(ordering(matching, {sort: 1 if order == "ASC" else -1}))
        page = ordered.select("_id").limit(request.limit, offset=request.offset)
        ids: list[str] = page.to_pyarrow()["_id"].to_pylist()

        def tables() -> Iterator[pa.Table]:
            for start in range(0, len(ids), BATCH_ROWS):
                part = ids[start : start + BATCH_ROWS]
                yield in_order(read(backend, part), part).cast(columns)

        return Answer(
            columns,
            tables(),
            count=len(ids),
            total=total,
            offset=request.offset,
            limit=request.limit,
            close=stack.pop_all().close,
        )


def in_order(rows: pa.Table, ids: list[str]) -> pa.Table:
    """Return rows in the order of their ids."""
    places: Any = pc.index_in(pa.array(ids, pa.string()), value_set=rows["_id"].combine_chunks())
    return rows.take(places)


def export_user_data(store: Store, request: ExportUserData) -> Answer:
    """Return all data of a user as one object.

    ``user``, ``identities``, ``mergedUserIds``, ``interactions``, ``hits``, ``events``, ``rawEvents`` and
    ``earlierMetrics`` (values replaced by updates), each as in its resource.
    """
    user = get_user(store, GetUser(projectId=request.projectId, id=request.id)).read()
    with store.read() as backend:
        user_id = find_survivor(backend.con, request.id)
        data = {"user": _records(user, "User")[0], **_all_records(backend, user_id)}
    return Answer(value=data)


def _all_records(backend: Backend, user_id: str) -> dict[str, list[Any]]:
    events, interactions, hits = (backend.table(name) for name in ("events", "interactions", "hits"))
    raw_events, history = backend.table("raw_events"), backend.table("metric_history")
    own = events.filter(events.userId == user_id).order_by("eventDate", "_id")
    own_interactions = interactions.filter(interactions.userId == user_id).order_by("startDate", "_id")
    own_hits = hits.semi_join(own_interactions, hits.sessionId == own_interactions["_id"]).order_by(
        "serverDate", "id"
    )
    sent_events = raw_events.semi_join(own, "_id").order_by("createdAt", "_id")
    replaced = history.semi_join(own, history.eventId == own["_id"]).order_by("eventId", "key", "updatedAt")
    ids = own.to_pyarrow()["_id"].to_pylist()
    identities = backend.con.execute(
        "SELECT kind, value FROM identities WHERE userId = ? ORDER BY kind, value", [user_id]
    ).fetchall()
    merged = backend.con.execute("SELECT _id FROM merged_users WHERE userId = ? ORDER BY _id", [user_id])
    return {
        "identities": [{"kind": kind, "value": value} for kind, value in identities],
        "mergedUserIds": [id for (id,) in merged.fetchall()],
        "interactions": _records(
            fetch(own_interactions.select(schema.INTERACTION.names), schema.INTERACTION), "Interaction"
        ),
        "hits": _records(fetch(own_hits.select(schema.HIT.names), schema.HIT), "Hit"),
        "events": _records(in_order(read_events(backend.con, ids), ids), "Event"),
        "rawEvents": _records(
            fetch(sent_events.select(schema.RAW_EVENT.names), schema.RAW_EVENT), "RawEvent"
        ),
        "earlierMetrics": _records(as_resource(replaced.to_pyarrow().to_pylist()), "Metric"),
    }


def _records(table: pa.Table, resource: str) -> list[Any]:
    texts = [text for batch in table.to_batches() for text in to_json(batch, resource=resource)]
    return [load_exact(text) for text in texts]
