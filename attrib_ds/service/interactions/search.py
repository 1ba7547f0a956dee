"""Searches interactions and reads one of them, with its hits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis
import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.columns import projected
from attrib_ds.errors import NotFound
from attrib_ds.service.interactions.selection import answered, select
from attrib_ds.service.store.rows import open_page

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.interactions import (
        GetInteraction,
        ListHits,
        SearchInteractions,
    )
    from attrib_ds.service.store.rows import Rows
    from attrib_ds.service.store.store import Store

_NEWEST_FIRST = {"startDate": -1}


def search_interactions(store: Store, request: SearchInteractions) -> Answer:
    """Answer one page of interactions, its rows and their total from one snapshot (G-104)."""
    return open_interactions(store, request).answer()


def open_interactions(store: Store, request: SearchInteractions) -> Rows:
    """Begin a search whose rows are read while they are handed on (G-101).

    The type of an interaction is among the columns in any case, since offline ones are written without some
    properties.
    """
    columns = projected(request.projection)
    hidden = frozenset({"type"} - set(columns))
    names = [*columns, *hidden]

    def find(backend: Backend) -> tuple[ir.Table, int]:
        found = select(backend, request)
        ordered = found.order_by(ordering(found, request.sort or _NEWEST_FIRST)).select(names)
        return ordered, int(found.count().to_pyarrow().as_py())

    page = pa.schema([schema.INTERACTION.field(name) for name in names])
    return open_page(store.read(), find, page, offset=request.offset, limit=request.limit, hidden=hidden)


def get_interaction(store: Store, request: GetInteraction) -> Answer:
    """Answer one interaction with every property; bots and filtered traffic are found too (R162)."""
    with store.read() as backend:
        interactions = backend.table("interactions")
        found = interactions.filter(interactions["_id"] == request.id).select(schema.INTERACTION.names)
        table = answered(found, schema.INTERACTION)
    if not table.num_rows:
        raise NotFound(f"id: there is no interaction {request.id!r}", field="id")
    return Answer(table=table)


def list_hits(store: Store, request: ListHits) -> Answer:
    """Answer the hits of the session that a hit opened, oldest first; none for an unknown one (R167)."""
    with store.read() as backend:
        interactions, all_hits = backend.table("interactions"), backend.table("hits")
        opened = interactions.filter(interactions.firstHitId == request.firstHitId)
        of_session = all_hits.semi_join(opened, all_hits.sessionId == opened["_id"])
        ordered = of_session.order_by(of_session.serverDate, of_session.id).select(schema.HIT.names)
        return Answer(table=answered(ordered, schema.HIT))


def ordering(table: ir.Table, sort: Mapping[str, int]) -> list[Any]:
    """Return sort keys: nulls last in both directions, ties broken by ``_id`` where there is one (G-099)."""
    keys = [
        table[name].asc() if direction == 1 else ibis.desc(table[name], nulls_first=False)
        for name, direction in sort.items()
    ]
    return [*keys, table["_id"]] if "_id" in table.columns and "_id" not in sort else keys
