"""Makes integrations and custom campaigns of the nodes of a loaded tree, and gives sessions theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter, ValidationError

from attrib_ds.contract.identifiers import VendorId
from attrib_ds.contract.json_values import encode
from attrib_ds.service.campaigns.campaigns import CUSTOM_ADS, LOADED

if TYPE_CHECKING:
    import duckdb


#: Integration of each campaign node: the one whose root, or whose vendor, is the nearest ancestor.
CAMPAIGN_NODES: Final = (
    "(SELECT above._id, arg_max(integration._id, above.depth) AS integrationId "
    "FROM (SELECT _id, unnest(path) AS ancestor, generate_subscripts(path, 1) AS depth "
    "FROM nodes WHERE type = 'campaign') AS above JOIN nodes AS ancestor ON ancestor._id = above.ancestor "
    "JOIN integrations AS integration ON integration.deletedAt IS NULL "
    "AND (integration.nodeId = ancestor._id OR (ancestor.type = 'integration' "
    "AND ancestor.vendorId = integration.vendorId)) GROUP BY above._id)"
)


def register_integrations(
    connection: duckdb.DuckDBPyConnection,
    *,
    project_id: str,
    currency: str,
    now: str,
    new_id: Callable[[], str],
) -> None:
    """Create the integrations of loaded roots with a new ``vendorId``, and claim their nodes.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that inserted the nodes.
    project_id, currency : str
        Id and currency of the project; ``create_integration`` may set another currency later.
    now : str
        SQL for the time of loading.
    new_id : callable
        Generates the id of an integration whose node has no ``integrationId``.
    """
    roots = connection.execute(
        "SELECT _id, integrationId, vendorId, name FROM nodes WHERE type = 'integration' AND vendorId NOT IN "
        "(SELECT vendorId FROM integrations WHERE deletedAt IS NULL) ORDER BY len(path), _id"
    ).fetchall()
    taken = {id for (id,) in connection.execute("SELECT _id FROM integrations").fetchall()}
    seen: set[str] = set()
    for node_id, loaded_id, vendor_id, name in roots:
        integration_id = loaded_id or new_id()
        if vendor_id in seen or integration_id in taken or not _is_vendor_id(vendor_id):
            continue
        seen.add(vendor_id)
        taken.add(integration_id)
        connection.execute(
            "INSERT INTO integrations (_id, projectId, vendorId, type, name, currency, parameters, nodeId, "
            f"createdAt, updatedAt) VALUES (?, ?, ?, ?, ?, ?, ?, ?, {now}, {now})",
            [integration_id, project_id, vendor_id, CUSTOM_ADS, name, currency, encode(LOADED), node_id],
        )
    connection.execute(
        "UPDATE nodes SET integrationId = coalesce(nodes.integrationId, integration._id), "
        "vendorId = coalesce(nodes.vendorId, integration.vendorId) FROM integrations AS integration "
        "WHERE integration.deletedAt IS NULL AND (nodes.integrationId IS NULL OR nodes.vendorId IS NULL) "
        "AND (nodes._id = integration.nodeId OR list_contains(nodes.path, integration.nodeId))"
    )


def register_campaigns(connection: duckdb.DuckDBPyConnection) -> None:
    """List every campaign node below an integration as a campaign; follow changes of listed ones."""
    connection.execute("DELETE FROM campaigns WHERE id IN (SELECT _id FROM nodes WHERE type <> 'campaign')")
    connection.execute(
        "UPDATE campaigns SET name = nodes.name, campaignSlug = nodes.campaignSlug, active = nodes.active, "
        "updatedAt = nodes.updatedAt FROM nodes WHERE nodes._id = campaigns.id "
        "AND (campaigns.name, campaigns.campaignSlug, campaigns.active) "
        "IS DISTINCT FROM (nodes.name, nodes.campaignSlug, nodes.active)"
    )
    connection.execute(
        "INSERT INTO campaigns (id, integrationId, projectId, name, campaignSlug, active, explicit, "
        "createdAt, updatedAt) SELECT _id, owner.integrationId, projectId, name, campaignSlug, active, "
        f"NOT implicit, createdAt, updatedAt FROM nodes JOIN {CAMPAIGN_NODES} AS owner USING (_id) "
        "WHERE _id NOT IN (SELECT id FROM campaigns)"
    )


def _is_vendor_id(text: str) -> bool:
    try:
        TypeAdapter(VendorId).validate_python(text)
    except ValidationError:
        return False
    return True


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
