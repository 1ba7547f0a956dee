"""Searches interactions and reads one of them, with its hits."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import ibis
import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.columns import projected
from attrib_ds.errors import NotFound
from attrib_ds.service.interactions.selection import BATCH_ROWS, answered, select

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir

    from attrib_ds.contract.interactions import GetInteraction, ListHits, SearchInteractions
    from attrib_ds.service.store.store import Store

_NEWEST_FIRST = {"startDate": -1}


def search_interactions(store: Store, request: SearchInteractions) -> Answer:
    """Answer one page of interactions as a stream; its rows and total are from one snapshot (G-101, G-104).

    The tables have the type of each interaction in any case, since offline ones are written to JSON without
    some properties.
    """
    columns = projected(request.projection)
    names = columns if "type" in columns else [*columns, "type"]
    read = pa.schema([schema.INTERACTION.field(name) for name in names])
    with ExitStack() as stack:
        backend = stack.enter_context(store.read())
        found = select(backend, request)
        ordered = found.order_by(ordering(found, request.sort or _NEWEST_FIRST)).select(names)
        total = int(found.count().to_pyarrow().as_py())
        # Not `to_pyarrow_batches` of Ibis 12: it calls what DuckDB 1.5 warns of.
        query = backend.compile(ordered.limit(request.limit, offset=request.offset))
        reader = backend.raw_sql(query).to_arrow_reader(BATCH_ROWS)
        left = max(total - request.offset, 0)
        return Answer(
            pa.schema([schema.INTERACTION.field(name) for name in columns]),
            (pa.Table.from_batches([batch.cast(read)]) for batch in reader),
            count=left if request.limit is None else min(left, request.limit),
            total=total,
            offset=request.offset,
            limit=request.limit,
            close=stack.pop_all().close,
        )


def get_interaction(store: Store, request: GetInteraction) -> Answer:
    """Answer one interaction with every property; bots and filtered traffic are found too (R162)."""
    with store.read() as backend:
        interactions = backend.table("interactions")
        found = interactions.filter(interactions["_id"] == request.id).select(schema.INTERACTION.names)
        table = answered(found, schema.INTERACTION)
    if not table.num_rows:
        raise NotFound(f"id: there is no interaction {request.id!r}", field="id")
    return Answer.of(table)


def list_hits(store: Store, request: ListHits) -> Answer:
    """Answer the hits of the session that a hit opened, oldest first; none for an unknown one (R167)."""
    with store.read() as backend:
        interactions, all_hits = backend.table("interactions"), backend.table("hits")
        opened = interactions.filter(interactions.firstHitId == request.firstHitId)
        of_session = all_hits.semi_join(opened, all_hits.sessionId == opened["_id"])
        ordered = of_session.order_by(of_session.serverDate, of_session.id).select(schema.HIT.names)
        return Answer.of(answered(ordered, schema.HIT))


def ordering(table: ir.Table, sort: Mapping[str, int]) -> list[Any]:
    """Return sort keys: nulls last in both directions, ties broken by ``_id`` where there is one (G-099)."""
    keys = [
        table[name].asc() if direction == 1 else ibis.desc(table[name], nulls_first=False)
        for name, direction in sort.items()
    ]
    return [*keys, table["_id"]] if "_id" in table.columns and "_id" not in sort else keys
