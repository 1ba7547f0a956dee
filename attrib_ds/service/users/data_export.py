"""Exports all data of a user (G-209)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.users import GetUser
from attrib_ds.json_numbers import load_exact
from attrib_ds.queries.expressions import fetch
from attrib_ds.records.json_records import to_json
from attrib_ds.service.events.metrics import as_resource
from attrib_ds.service.events.reading import read_events
from attrib_ds.service.identity.merging import find_survivor
from attrib_ds.service.users.events_of_user import in_order
from attrib_ds.service.users.get_user import get_user

if TYPE_CHECKING:
    import pyarrow as pa
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.identities import ExportUserData
    from attrib_ds.service.store.store import Store


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
