"""Gives loaded sessions the integration of their node (G-225)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import duckdb

#: Integration of each node: its own, or that of the nearest ancestor with one.
INTEGRATIONS: Final = (
    "(SELECT node._id, coalesce(any_value(node.integrationId), "
    "arg_max(ancestor.integrationId, node.depth) FILTER (ancestor.integrationId IS NOT NULL)) "
    "AS integrationId "
    "FROM (SELECT _id, integrationId, unnest(list_append(path, _id)) AS above, "
    "generate_subscripts(list_append(path, _id), 1) AS depth FROM nodes) AS node "
    "JOIN nodes AS ancestor ON ancestor._id = node.above GROUP BY node._id)"
)


def fill_integrations(connection: duckdb.DuckDBPyConnection) -> None:
    """Set the missing integrations of stored sessions, which may be loaded before their nodes."""
    connection.execute(
        "UPDATE interactions SET integrationId = owner.integrationId "
        f"FROM {INTEGRATIONS} AS owner WHERE owner._id = interactions.nodeId "
        "AND owner.integrationId IS NOT NULL AND interactions.integrationId IS NULL "
        "AND interactions.type = 'session'"
    )
