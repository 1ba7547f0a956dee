"""Maintains ``path``, the ancestors of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def update_paths(connection: duckdb.DuckDBPyConnection) -> None:
    """Recompute the paths of nodes from their parents, inside the transaction that changed nodes."""
    connection.execute(
        "WITH RECURSIVE tree AS ("
        "SELECT _id, CAST([] AS VARCHAR[]) AS path FROM nodes WHERE parentId IS NULL UNION ALL "
        "SELECT child._id, list_append(tree.path, tree._id) FROM nodes AS child "
        "JOIN tree ON child.parentId = tree._id) "
        "UPDATE nodes SET path = tree.path FROM tree "
        "WHERE nodes._id = tree._id AND nodes.path IS DISTINCT FROM tree.path"
    )
