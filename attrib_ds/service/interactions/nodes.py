"""Reads the tree of traffic-source nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.errors import NotFound
from attrib_ds.queries.expressions import fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.nodes import GetNode, ListNodes
    from attrib_ds.service.store.store import Store


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
