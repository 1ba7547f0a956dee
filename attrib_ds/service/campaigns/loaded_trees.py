"""Makes integrations and custom campaigns of the nodes of a loaded tree (G-223)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter, ValidationError

from attrib_ds.contract.identifiers import VendorId
from attrib_ds.contract.json_text import encode
from attrib_ds.service.campaigns.integrations import CUSTOM_ADS, LOADED

if TYPE_CHECKING:
    from collections.abc import Callable

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
