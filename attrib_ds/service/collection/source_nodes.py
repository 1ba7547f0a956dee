"""Inserts the nodes of traffic sources into the tree, in any order with the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.records.sources import literal
from attrib_ds.service.campaigns import CAMPAIGN_NODES, register_campaigns, update_paths
from attrib_ds.service.store.table_access import arrow_view

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

    from attrib_ds.queries.traffic_nodes import Node

_FIELDS: Final = {
    "_id": "node_id",
    "parentId": "parent_id",
    "type": "kind",
    "name": "name",
    "channel": "channel",
    "campaignSlug": "slug",
    "source": "source",
    "medium": "medium",
}


def insert_source_nodes(
    connection: duckdb.DuckDBPyConnection, chains: Iterable[tuple[Node, ...]], *, project_id: str, now: str
) -> int:
    """Insert nodes that are not in the tree yet; return their number.

    Nodes in the tree stay as they are, except those that are only an id, because loaded rows refer to them:
    they are described, so that the result does not depend on what came first. A node follows from its id.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    chains : iterable of tuple of Node
        Nodes of each source, from the root down.
    project_id : str
        The project.
    now : str
        SQL for their date.
    """
    nodes = {node for chain in chains for node in chain}
    columns = {
        name: pa.array([getattr(node, field) for node in nodes], pa.string())
        for name, field in _FIELDS.items()
    }
    names = ", ".join(_FIELDS)
    # A row of spend makes a node a campaign.
    changed = ", ".join(f"{name} = seen.{name}" for name in _FIELDS if name not in ("_id", "type"))
    with arrow_view(connection, pa.table(columns)) as view:
        inserted = connection.execute(
            f"INSERT INTO nodes (projectId, {names}, path, active, createdAt, updatedAt, implicit) "
            f"SELECT {literal(project_id)}, {names}, [], true, {now}, {now}, true "
            f"FROM {view} ANTI JOIN nodes USING (_id) ORDER BY _id"
        ).fetchall()[0][0]
        updated = connection.execute(
            f"UPDATE nodes SET {changed}, updatedAt = {now}, "
            "type = CASE WHEN nodes.type = 'campaign' THEN nodes.type ELSE seen.type END "
            f"FROM {view} AS seen WHERE nodes._id = seen._id AND nodes.implicit AND nodes.channel IS NULL "
            "AND nodes.parentId IS NULL AND nodes.type <> 'integration'"
        ).fetchall()[0][0]
    if inserted or updated:
        update_paths(connection)
        _list_campaigns(connection)
    return int(inserted)


def _list_campaigns(connection: duckdb.DuckDBPyConnection) -> None:
    """List the campaigns below integrations (G-223); of several with one slug, one keeps it."""
    connection.execute(
        "UPDATE nodes SET campaignSlug = NULL FROM ("
        f"SELECT _id FROM nodes JOIN {CAMPAIGN_NODES} AS owner USING (_id) WHERE campaignSlug IS NOT NULL "
        "QUALIFY row_number() OVER (PARTITION BY owner.integrationId, campaignSlug "
        "ORDER BY implicit, _id) > 1"
        ") AS repeated WHERE nodes._id = repeated._id AND nodes.implicit"
    )
    register_campaigns(connection)
