"""Searches, counts and reads interactions, the hits of a session and the tree of nodes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.build import projected
from attrib_ds.errors import NotFound
from attrib_ds.queries.insights import count_interactions, filter_interactions
from attrib_ds.queries.intervals import fetch, ordering
from attrib_ds.service.store.cursors import BATCH_ROWS
from attrib_ds.service.store.store import Store

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.interactions import (
        GetInteraction,
        GetNode,
        InteractionInsights,
        ListHits,
        ListNodes,
        SearchInteractions,
    )


_NEWEST_FIRST = {"startDate": -1}


def search_interactions(store: Store, request: SearchInteractions) -> Answer:
    """Return one page of interactions as a stream, with their total from the same snapshot (G-101, G-104).

    The tables always have the column ``type``: JSON of offline interactions omits some properties.
    """
    columns = projected(request.projection)
    names = columns if "type" in columns else [*columns, "type"]
    read = pa.schema([schema.INTERACTION.field(name) for name in names])
    with ExitStack() as stack:
        backend = stack.enter_context(store.read())
        matching = filter_interactions(backend.table("interactions"), request, nodes=node_table(backend))
        ordered = matching.order_by(ordering(matching, request.sort or _NEWEST_FIRST)).select(names)
        total = int(matching.count().to_pyarrow().as_py())
        # Not `to_pyarrow_batches` of Ibis 12, which calls a method that DuckDB 1.5 deprecates.
        query = backend.compile(ordered.limit(request.limit, offset=request.offset))
        reader = backend.raw_sql(query).to_arrow_reader(BATCH_ROWS)
        remaining = max(total - request.offset, 0)
        return Answer(
            pa.schema([schema.INTERACTION.field(name) for name in columns]),
            (pa.Table.from_batches([batch.cast(read)]) for batch in reader),
            count=remaining if request.limit is None else min(remaining, request.limit),
            total=total,
            offset=request.offset,
            limit=request.limit,
            close=stack.pop_all().close,
        )


def get_interaction(store: Store, request: GetInteraction) -> Answer:
    """Return one interaction with all properties, bots and filtered traffic included (R162)."""
    with store.read() as backend:
        interactions = backend.table("interactions")
        query = interactions.filter(interactions["_id"] == request.id).select(schema.INTERACTION.names)
        table = fetch(query, schema.INTERACTION)
    if not table.num_rows:
        raise NotFound(f"id: there is no interaction {request.id!r}", field="id")
    return Answer.of(table)


def list_hits(store: Store, request: ListHits) -> Answer:
    """Return the hits of the session that starts with a hit, oldest first; none for an unknown hit (R167)."""
    with store.read() as backend:
        interactions, hits = backend.table("interactions"), backend.table("hits")
        session = interactions.filter(interactions.firstHitId == request.firstHitId)
        of_session = hits.semi_join(session, hits.sessionId == session["_id"])
        ordered = of_session.order_by(of_session.serverDate, of_session.id).select(schema.HIT.names)
        return Answer.of(fetch(ordered, schema.HIT))


def interaction_insights(store: Store, request: InteractionInsights) -> Answer:
    """Count interactions by group and interval; see :func:`.count_interactions`."""
    with store.read() as backend:
        return count_interactions(backend.table("interactions"), request, nodes=node_table(backend))


def list_nodes(store: Store, request: ListNodes) -> Answer:
    """Return one page of nodes, sorted by id, with their total from the same snapshot."""
    with store.read() as backend:
        nodes = backend.table("nodes")
        if request.type is not None:
            nodes = nodes.filter(nodes.type == request.type)
        if request.search is not None:
            text = request.search.lower()
            nodes = nodes.filter(nodes.name.lower().contains(text) | nodes["_id"].lower().contains(text))
        total = nodes.count().to_pyarrow().as_py()
        page = nodes.order_by(nodes["_id"]).select(schema.NODE.names)
        table = fetch(page.limit(request.limit, offset=request.offset), schema.NODE)
    return Answer.of(table, total=total, offset=request.offset, limit=request.limit)


def get_node(store: Store, request: GetNode) -> Answer:
    """Return one node."""
    with store.read() as backend:
        nodes = backend.table("nodes")
        query = nodes.filter(nodes["_id"] == request.id).select(schema.NODE.names)
        table = fetch(query, schema.NODE)
    if not table.num_rows:
        raise NotFound(f"id: there is no node {request.id!r}", field="id")
    return Answer.of(table)


def node_table(backend: Backend) -> ir.Table:
    """Return the tree of nodes in the ``NODE`` schema."""
    return backend.table("nodes").select(schema.NODE.names)
