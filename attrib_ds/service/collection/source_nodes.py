"""Inserts the nodes of traffic sources into the tree, in any order with the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.records.sources import literal
from attrib_ds.service.campaigns.loaded_trees import CAMPAIGN_NODES, register_campaigns
from attrib_ds.service.campaigns.node_paths import update_paths
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
#: Two sources may describe a node differently: of several descriptions the smallest is stored.
_DESCRIPTION: Final = (
    "({0}.type, coalesce({0}.parentId, ''), {0}.name, {0}.channel, coalesce({0}.campaignSlug, ''), "
)
_ORDER: Final = _DESCRIPTION + "coalesce({0}.source, ''), coalesce({0}.medium, ''))"


def insert_source_nodes(
    connection: duckdb.DuckDBPyConnection, chains: Iterable[tuple[Node, ...]], *, project_id: str, now: str
) -> int:
    """Insert nodes that are not in the tree yet; return their number.

    Nodes that were loaded or created stay as they are.

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
    with arrow_view(connection, pa.table(columns)) as view:
        connection.execute(
            f"CREATE TEMP TABLE seen_nodes AS SELECT * FROM {view} AS seen "
            f"QUALIFY row_number() OVER (PARTITION BY _id ORDER BY {_ORDER.format('seen')}) = 1"
        )
    names = ", ".join(_FIELDS)
    inserted = connection.execute(
        f"INSERT INTO nodes (projectId, {names}, path, active, createdAt, updatedAt, implicit) "
        f"SELECT {literal(project_id)}, {names}, [], true, {now}, {now}, true "
        "FROM temp.seen_nodes ANTI JOIN nodes USING (_id) ORDER BY _id"
    ).fetchall()[0][0]
    changed = ", ".join(f"{name} = seen.{name}" for name in _FIELDS if name != "_id")
    updated = connection.execute(
        f"UPDATE nodes SET {changed}, updatedAt = {now} FROM temp.seen_nodes AS seen "
        "WHERE nodes._id = seen._id AND nodes.implicit "
        f"AND (nodes.channel IS NULL OR {_ORDER.format('seen')} < {_ORDER.format('nodes')})"
    ).fetchall()[0][0]
    connection.execute("DROP TABLE temp.seen_nodes")
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
