"""Lists the tree of traffic-source nodes and reads one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.errors import NotFound
from attrib_ds.service.interactions.selection import answered

if TYPE_CHECKING:
    from attrib_ds.contract.nodes import GetNode, ListNodes
    from attrib_ds.service.store.store import Store


def list_nodes(store: Store, request: ListNodes) -> Answer:
    """Answer one page of nodes, ordered by id; their total from the same snapshot."""
    with store.read() as backend:
        found = backend.table("nodes")
        if request.type is not None:
            found = found.filter(found.type == request.type)
        if request.search is not None:
            wanted = request.search.lower()
            found = found.filter(found.name.lower().contains(wanted) | found["_id"].lower().contains(wanted))
        total = found.count().to_pyarrow().as_py()
        page = found.order_by(found["_id"]).select(schema.NODE.names)
        table = answered(page.limit(request.limit, offset=request.offset), schema.NODE)
    return Answer.of(table, total=total, offset=request.offset, limit=request.limit)


def get_node(store: Store, request: GetNode) -> Answer:
    """Answer one node."""
    with store.read() as backend:
        nodes = backend.table("nodes")
        found = nodes.filter(nodes["_id"] == request.id).select(schema.NODE.names)
        table = answered(found, schema.NODE)
    if not table.num_rows:
        raise NotFound(f"id: there is no node {request.id!r}", field="id")
    return Answer.of(table)
