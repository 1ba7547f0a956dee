"""Integrations and custom campaigns, each with its node, made by calls or by a loaded tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from duckdb import DuckDBPyConnection as Connection
from pydantic import TypeAdapter, ValidationError

from attrib_ds import instants, schema
from attrib_ds.contract import Answer, identifiers, json_values
from attrib_ds.contract import campaigns as contract
from attrib_ds.errors import Conflict, InvalidRequest, NotFound
from attrib_ds.service.store import tables
from attrib_ds.service.store.store import Store

#: FROM clause of the campaigns of an integration by ``vendorId``.
OF_VENDOR: Final = (
    "campaigns WHERE integrationId IN (SELECT _id FROM integrations WHERE vendorId = ? AND deletedAt IS NULL)"
)
#: Columns by name in the specification.
_COLUMNS: Final = {"campaignId": "id"}
#: Filters of a list by equality.
_FILTERS: Final = ("active", "campaignId", "campaignSlug", "explicit")


def list_campaigns(store: Store, request: contract.ListCampaigns) -> Answer:
    """Return one page of campaigns; none for an unknown integration."""
    filters = {f"{_COLUMNS.get(name, name)} = ?": getattr(request, name) for name in _FILTERS}
    # Both sides are folded by DuckDB, whose lower case differs from Python's in a few letters.
    filters["contains(lower(name), lower(?))"] = request.nameLike
    conditions = {condition: value for condition, value in filters.items() if value is not None}
    sort = request.sort or "name"
    with store.read() as backend:
        return tables.read_page(
            backend,
            " AND ".join([OF_VENDOR, *conditions]),
            [request.vendorId, *conditions.values()],
            schema.CAMPAIGN,
            sort=_COLUMNS.get(sort, sort),
            descending=request.order == "DESC",
            ties="id",
            offset=request.offset,
            limit=request.limit,
        )


def get_campaign(store: Store, request: contract.GetCampaign) -> Answer:
    """Return one campaign, explicit or implicit."""
    with store.read() as backend:
        query = f"{OF_VENDOR} AND id = ?"
        table = tables.read_table(backend.con, query, [request.vendorId, request.id], schema.CAMPAIGN)
    if not table.num_rows:
        raise NotFound(f"id: {request.vendorId!r} has no campaign {request.id!r}", field="id")
    return Answer.of(table)


def create_campaign(store: Store, request: contract.CreateCampaign) -> Answer:
    """Create an explicit campaign with its node and return its id.

    Raises
    ------
    InvalidRequest
        If there is no such integration.
    Conflict
        If the slug is taken, also by an implicit campaign.
    """
    id = store.ids.new()

    def job(connection: Connection) -> None:
        integration = require(connection, request.vendorId, argument="vendor_id")
        if find_by_slug(connection, integration, request.campaignSlug) is not None:
            raise Conflict(
                f"campaign_slug: {request.campaignSlug!r} is taken; a slug is unique in its integration",
                field="campaign_slug",
            )
        properties = {"active": request.active, "explicit": True}
        insert_campaign(connection, integration, id, request.campaignSlug, request.name, properties)

    store.write(job)
    return Answer(value=id)


def update_campaign(store: Store, request: contract.UpdateCampaign) -> Answer:
    """Update a campaign and its node; return 1 if a stored value changed, else 0."""

    def job(connection: Connection) -> int:
        integration = find(connection, request.vendorId)
        stored = integration and find_by_id(connection, integration, request.id)
        if not stored:
            return 0
        changes = tables.changes_of(stored, {"name": request.name, "active": request.active})
        if not changes:
            return 0
        changes["updatedAt"] = instants.now()
        tables.update_record(connection, "campaigns", "id", request.id, changes)
        tables.update_record(connection, "nodes", "_id", request.id, changes)
        return 1

    return Answer(value=store.write(job))


def find_by_id(connection: Connection, integration: Integration, id: str) -> dict[str, Any] | None:
    """Return a campaign of the integration by id, or None."""
    query = "SELECT * FROM campaigns WHERE integrationId = ? AND id = ?"
    return tables.read_record(connection, query, integration.id, id)


def find_by_slug(connection: Connection, integration: Integration, slug: str) -> dict[str, Any] | None:
    """Return a campaign of the integration by slug, or None."""
    query = "SELECT * FROM campaigns WHERE integrationId = ? AND campaignSlug = ?"
    return tables.read_record(connection, query, integration.id, slug)


def insert_campaign(
    connection: Connection,
    integration: Integration,
    id: str,
    slug: str | None,
    name: str,
    properties: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Insert a campaign with its node, which has the same id; by default an active one that traffic made.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    integration : Integration
        Must have no campaign with the slug.
    id, slug, name : str
        Properties of the campaign; traffic that names an id has no slug.
    properties : mapping of str to object, optional
        ``active`` and ``explicit`` of the campaign; ``externalId`` and ``implicit`` of the node.
    """
    now = instants.now()
    campaign = {
        "id": id,
        "integrationId": integration.id,
        "projectId": integration.project_id,
        "name": name,
        "campaignSlug": slug,
        "active": properties.get("active", True),
        "explicit": properties.get("explicit", False),
        "createdAt": now,
        "updatedAt": now,
    }
    tables.insert_record(connection, "campaigns", campaign)
    of_node = {name: properties[name] for name in ("externalId", "implicit") if name in properties}
    insert_campaign_node(connection, integration, campaign, of_node)


def insert_campaign_node(
    connection: Connection,
    integration: Integration,
    campaign: Mapping[str, Any],
    properties: Mapping[str, object],
) -> None:
    """Insert the node of a campaign below the root of its integration, with further properties."""
    copied = ("projectId", "integrationId", "name", "campaignSlug", "active", "createdAt", "updatedAt")
    node = {
        **{name: campaign[name] for name in copied},
        "_id": campaign["id"],
        "vendorId": integration.vendor_id,
        "parentId": integration.node_id,
        "type": "campaign",
        "channel": integration.channel,
        "path": [*integration.path, integration.node_id],
        "implicit": False,
        **properties,
    }
    tables.insert_record(connection, "nodes", node)


CUSTOM_ADS: Final = "custom-ads"
#: Parameters of an integration that a loaded node made, until somebody creates it.
LOADED: Final = {"loaded": True}


@dataclass(frozen=True)
class Integration:
    """An integration, as needed for its campaigns, outlays and interactions.

    Parameters
    ----------
    id, project_id, vendor_id, currency : str
        Ids and currency of the integration.
    node_id : str
        Root of its nodes.
    path : tuple of str
        Ids of the ancestors of the root.
    channel : str or None
        Channel of the nodes below the root.
    is_loaded : bool
        Whether a loaded node made it, and nobody created it since.
    """

    id: str
    project_id: str
    vendor_id: str
    currency: str
    node_id: str
    path: tuple[str, ...]
    channel: str | None
    is_loaded: bool


def create_integration(store: Store, request: contract.CreateIntegration) -> Answer:
    """Create an integration and return its id.

    An integration that a loaded node made keeps its id, its nodes and their channels; name and currency are
    replaced. Otherwise a root is created.

    Raises
    ------
    Conflict
        If somebody created an integration with that ``vendorId``.
    """
    new_id = store.ids.new()
    currency = request.currency or store.meta.currency
    record = integration_record(request.projectId, request.vendorId, request.name, currency, {})

    def job(connection: Connection) -> str:
        existing = find(connection, request.vendorId)
        if existing is not None:
            if not existing.is_loaded:
                raise Conflict(
                    f"vendor_id: an integration {request.vendorId!r} exists already; choose another id",
                    field="vendor_id",
                )
            changed = {name: record[name] for name in ("name", "currency", "parameters", "updatedAt")}
            tables.update_record(connection, "integrations", "_id", existing.id, changed)
            connection.execute(
                "UPDATE nodes SET channel = coalesce(channel, ?) WHERE _id = ? OR list_contains(path, ?)",
                [request.channel, existing.node_id, existing.node_id],
            )
            return existing.id
        names = ("projectId", "vendorId", "name", "createdAt", "updatedAt")
        node = {
            "_id": new_id,
            "integrationId": new_id,
            "type": "integration",
            "channel": request.channel,
            "path": [],
            "active": True,
            "implicit": False,
            **{name: record[name] for name in names},
        }
        tables.insert_record(connection, "nodes", node)
        tables.insert_record(connection, "integrations", {"_id": new_id, **record, "nodeId": new_id})
        return new_id

    return Answer(value=store.write(job))


def integration_record(
    project_id: str, vendor_id: str, name: str, currency: str, parameters: Mapping[str, object]
) -> dict[str, Any]:
    """Return a new record of the table ``integrations`` without its ids."""
    now = instants.now()
    return {
        "projectId": project_id,
        "vendorId": vendor_id,
        "type": CUSTOM_ADS,
        "name": name,
        "currency": currency,
        "parameters": json_values.encode(parameters),
        "createdAt": now,
        "updatedAt": now,
    }


def list_integrations(store: Store, request: contract.ListIntegrations) -> Answer:  # noqa: ARG001  (signature of all handlers)
    """Return all integrations, sorted by ``vendorId``."""
    with store.read() as backend:
        listed = "integrations WHERE deletedAt IS NULL ORDER BY vendorId"
        return Answer.of(tables.read_table(backend.con, listed, [], schema.INTEGRATION))


def find(connection: Connection, vendor_id: str) -> Integration | None:
    """Return the integration with a ``vendorId``, or None."""
    record = tables.read_record(
        connection,
        "SELECT integration.*, nodes.path, nodes.channel FROM integrations AS integration "
        "JOIN nodes ON nodes._id = integration.nodeId "
        "WHERE integration.vendorId = ? AND integration.deletedAt IS NULL",
        vendor_id,
    )
    if record is None:
        return None
    return Integration(
        id=record["_id"],
        project_id=record["projectId"],
        vendor_id=vendor_id,
        currency=record["currency"],
        node_id=record["nodeId"],
        path=tuple(record["path"]),
        channel=record["channel"],
        is_loaded=record["parameters"] == json_values.encode(LOADED),
    )


def require(connection: Connection, vendor_id: str, *, argument: str) -> Integration:
    """Return the integration with a ``vendorId``; raises an error that names the argument."""
    integration = find(connection, vendor_id)
    if integration is not None:
        return integration
    existing = connection.execute("SELECT vendorId FROM integrations WHERE deletedAt IS NULL").fetchall()
    if existing:
        raise InvalidRequest.choice(argument, vendor_id, [name for (name,) in existing])
    raise InvalidRequest(
        f"{argument}: there is no integration {vendor_id!r}: the project has none; "
        "create one with create_integration"
    )


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
    connection: Connection, project_id: str, currency: str, new_id: Callable[[], str]
) -> None:
    """Create the integrations of loaded roots with a new ``vendorId``, and claim their nodes.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that inserted the nodes.
    project_id, currency : str
        Id and currency of the project; ``create_integration`` may set another currency later.
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
        record = integration_record(project_id, vendor_id, name, currency, LOADED)
        tables.insert_record(connection, "integrations", {"_id": integration_id, **record, "nodeId": node_id})
    connection.execute(
        "UPDATE nodes SET integrationId = coalesce(nodes.integrationId, integration._id), "
        "vendorId = coalesce(nodes.vendorId, integration.vendorId) FROM integrations AS integration "
        "WHERE integration.deletedAt IS NULL AND (nodes.integrationId IS NULL OR nodes.vendorId IS NULL) "
        "AND (nodes._id = integration.nodeId OR list_contains(nodes.path, integration.nodeId))"
    )


def register_campaigns(connection: Connection) -> None:
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
        TypeAdapter(identifiers.VendorId).validate_python(text)
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


def fill_integrations(connection: Connection) -> None:
    """Set the missing integrations of stored sessions, which may be loaded before their nodes."""
    connection.execute(
        "UPDATE interactions SET integrationId = owner.integrationId "
        f"FROM {INTEGRATIONS} AS owner WHERE owner._id = interactions.nodeId "
        "AND owner.integrationId IS NOT NULL AND interactions.integrationId IS NULL "
        "AND interactions.type = 'session'"
    )


def update_paths(connection: Connection) -> None:
    """Recompute the paths of nodes from their parents, inside the transaction that changed nodes."""
    connection.execute(
        "WITH RECURSIVE tree AS ("
        "SELECT _id, CAST([] AS VARCHAR[]) AS path FROM nodes WHERE parentId IS NULL UNION ALL "
        "SELECT child._id, list_append(tree.path, tree._id) FROM nodes AS child "
        "JOIN tree ON child.parentId = tree._id) "
        "UPDATE nodes SET path = tree.path FROM tree "
        "WHERE nodes._id = tree._id AND nodes.path IS DISTINCT FROM tree.path"
    )
