"""Integrations and custom campaigns, each with its node, made by calls or by a loaded tree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection
from pydantic import TypeAdapter, ValidationError

from attrib_ds import errors, instants, schema, sql_results
from attrib_ds.contract import Answer, identifiers, json_values
from attrib_ds.contract import campaigns as contract
from attrib_ds.service.store import tables
from attrib_ds.service.store.store import Store, writes

#: Condition of the campaigns of an integration by ``vendorId``.
_OF_VENDOR: Final = "integrationId IN (SELECT _id FROM integrations WHERE vendorId = ? AND deletedAt IS NULL)"
#: Condition of campaigns by a list of slugs.
_ANSWERS_TO: Final = "list_has_any([campaignSlug, textSlug], ?)"


def list_campaigns(store: Store, request: contract.ListCampaigns) -> Answer:
    """Return one page of campaigns; none for an unknown integration."""
    slug = request.campaignSlug
    conditions = {
        _OF_VENDOR: request.vendorId,
        "active = ?": request.active,
        "id = ?": request.campaignId,
        "explicit = ?": request.explicit,
        # Both sides are folded by DuckDB, whose lower case differs from Python's in a few letters.
        "contains(lower(name), lower(?))": request.nameLike,
        _ANSWERS_TO: slug and [slug, identifiers.slug_of(slug)],
    }
    sort = tables.sorting(request, "name", {"campaignId": "id"})
    return store.page("campaigns", conditions, schema.CAMPAIGN, request, sort=sort, ties="id")


def get_campaign(store: Store, request: contract.GetCampaign) -> Answer:
    """Return one campaign, explicit or implicit."""
    missing = f"id: {request.vendorId!r} has no campaign {request.id!r}"
    relation = f"campaigns WHERE {_OF_VENDOR} AND id = ?"
    return store.one(relation, [request.vendorId, request.id], schema.CAMPAIGN, missing)


@writes
def create_campaign(connection: Connection, store: Store, request: contract.CreateCampaign) -> str:
    """Create an explicit campaign with its node and return its id.

    Raises
    ------
    InvalidRequest
        If there is no such integration.
    Conflict
        If the slug is taken, also by an implicit campaign.
    """
    id, slug = store.ids.new(), identifiers.slug_of(request.campaignSlug)
    integration = require(connection, request.vendorId, argument="vendor_id")
    # A text whose former slug another campaign has may have one of its own.
    query = f"SELECT 1 FROM campaigns WHERE integrationId = ? AND {_ANSWERS_TO}"
    if sql_results.read_row(connection, query, [integration.id, [request.campaignSlug, slug]]):
        raise errors.Conflict(f"campaign_slug: {slug!r} is taken; a slug is unique in its integration")
    campaign = {"id": id, "campaignSlug": slug, "name": request.name}
    insert_campaigns(connection, integration, [campaign | {"active": request.active, "explicit": True}])
    return id


@writes
def update_campaign(connection: Connection, _: Store, request: contract.UpdateCampaign) -> int:
    """Update a campaign and its node; return 1 if a stored value changed, else 0."""
    integration = find(connection, request.vendorId)
    stored = integration and find_by_id(connection, integration, request.id)
    changes = tables.changes_of(stored, {"name": request.name, "active": request.active}) if stored else {}
    if changes:
        changes["updatedAt"] = instants.now()
        tables.update_record(connection, "campaigns", "id", request.id, changes)
        tables.update_record(connection, "nodes", "_id", request.id, changes)
    return int(bool(changes))


def find_by_id(connection: Connection, integration: Integration, id: str) -> dict[str, Any] | None:
    """Return a campaign of the integration by id, or None."""
    query = "SELECT * FROM campaigns WHERE integrationId = ? AND id = ?"
    return tables.read_record(connection, query, integration.id, id)


def find_campaign(connection: Connection, integration: Integration, text: str) -> str | None:
    """Return the id of a campaign that a client names by its id; other texts are those of a slug."""
    if find_by_id(connection, integration, text) is not None:
        return text
    asked = (integration.id, identifiers.slug_of(text), text)
    return find_by_slugs(connection, [asked]).get(asked)


def find_by_slugs(
    connection: Connection, wanted: Collection[tuple[str, str, str]]
) -> dict[tuple[str, str, str], str]:
    """Return the ids of campaigns by integration, slug and the text that the slug is made of.

    The slug of a loaded campaign is any text, and found by exactly that before others.
    """
    if not wanted:
        return {}
    names = ("integrationId", "slug", "text", "former")
    asked = [(*each, identifiers.former_slug_of(each[2]) + identifiers.FORMER) for each in wanted]
    rows = pa.table(
        {name: pa.array(of, pa.string()) for name, of in zip(names, zip(*asked, strict=True), strict=True)}
    )
    ways = (("textSlug", "former"), ("textSlug", "slug"), ("campaignSlug", "slug"), ("campaignSlug", "text"))
    with tables.arrow_view(connection, rows) as view:
        found = connection.execute(
            " UNION ALL ".join(
                f"SELECT asked.integrationId, slug, text, id, {rank} AS rank FROM {view} AS asked "
                "JOIN campaigns ON campaigns.integrationId = asked.integrationId "
                f"AND campaigns.{stored} = asked.{given}"
                for rank, (stored, given) in enumerate(ways)
            )
            + " ORDER BY rank, id"
        ).fetchall()
    return {(integration, slug, text): id for integration, slug, text, id, _ in found}


def find_or_create(
    connection: Connection, integrations: Mapping[str, Integration], wanted: Sequence[tuple[str, str, str]]
) -> dict[tuple[str, str, str], str]:
    """Return the ids of campaigns as :func:`find_by_slugs` does; unknown ones are created.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    integrations : mapping of str to Integration
        Integrations by id.
    wanted : sequence of tuple of str
        Integration, slug, and the text that the slug is made of; the first is the name of a new campaign.
    """
    found = find_by_slugs(connection, wanted)
    for integration in integrations.values():
        missing = {
            slug: text
            # The first text is the name.
            for id, slug, text in reversed(wanted)
            if id == integration.id and (id, slug, text) not in found
        }
        new = [
            {"id": id_of_slug(integration, slug), "campaignSlug": slug, "name": text}
            for slug, text in missing.items()
        ]
        insert_campaigns(connection, integration, new)
    return {
        (id, slug, text): found.get((id, slug, text)) or id_of_slug(integrations[id], slug)
        for id, slug, text in wanted
    }


def id_of_slug(integration: Integration, slug: str) -> str:
    """Return the id of a campaign that traffic makes, which does not depend on the order of arrival."""
    return hashlib.sha256(f"{integration.id}\n{slug}".encode()).hexdigest()[:24]


def insert_campaigns(
    connection: Connection, integration: Integration, campaigns: Sequence[Mapping[str, Any]]
) -> None:
    """Insert campaigns, each with its node, which has the same id.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    integration : Integration
        Must have no campaign with one of the slugs.
    campaigns : sequence of mapping
        ``id``, ``campaignSlug`` and ``name`` of each; ``active`` and ``explicit``, by default those of a
        campaign that traffic made.
    """
    now = instants.naive(instants.now())
    usual = {
        "integrationId": integration.id,
        "projectId": integration.project_id,
        "active": True,
        "explicit": False,
        "createdAt": now,
        "updatedAt": now,
    }
    records = [{**usual, **campaign} for campaign in campaigns]
    tables.insert_records(connection, "campaigns", records)
    tables.insert_records(connection, "nodes", [_node(integration, record) for record in records])


def insert_campaign_node(
    connection: Connection, integration: Integration, campaign: Mapping[str, Any]
) -> None:
    """Insert the implicit node of a campaign below the root of its integration."""
    tables.insert_record(connection, "nodes", _node(integration, campaign) | {"implicit": True})


def _node(integration: Integration, campaign: Mapping[str, Any]) -> dict[str, Any]:
    copied = ("projectId", "integrationId", "name", "campaignSlug", "active", "createdAt", "updatedAt")
    return {
        **{name: campaign[name] for name in copied},
        "_id": campaign["id"],
        "vendorId": integration.vendor_id,
        "parentId": integration.node_id,
        "type": "campaign",
        "channel": integration.channel,
        "path": [*integration.path, integration.node_id],
        "implicit": False,
    }


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


@writes
def create_integration(connection: Connection, store: Store, request: contract.CreateIntegration) -> str:
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
    existing = find(connection, request.vendorId)
    if existing is not None:
        if not existing.is_loaded:
            raise errors.Conflict(
                f"vendor_id: an integration {request.vendorId!r} exists already; choose another id"
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
        raise errors.InvalidRequest.choice(argument, vendor_id, [name for (name,) in existing])
    raise errors.InvalidRequest(
        f"{argument}: there is no integration {vendor_id!r}; the project has none yet: "
        "create one with create_integration"
    )


def campaign_nodes(among: str = "true") -> str:
    """Return SQL for the integration of each campaign node: its root, or its vendor, is the nearest ancestor.

    Parameters
    ----------
    among : str
        SQL condition for the nodes.
    """
    return (
        "(SELECT above._id, arg_max(integration._id, above.depth) AS integrationId "
        "FROM (SELECT _id, unnest(path) AS ancestor, generate_subscripts(path, 1) AS depth "
        f"FROM nodes WHERE type = 'campaign' AND {among}) AS above "
        "JOIN nodes AS ancestor ON ancestor._id = above.ancestor "
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


def register_campaigns(connection: Connection, among: str = "true") -> None:
    """List every campaign node below an integration as a campaign; follow changes of listed ones.

    ``among`` is a SQL condition for the nodes that may have changed.
    """
    connection.execute(
        f"DELETE FROM campaigns WHERE id IN (SELECT _id FROM nodes WHERE type <> 'campaign' AND {among})"
    )
    connection.execute(
        "UPDATE campaigns SET name = nodes.name, campaignSlug = nodes.campaignSlug, active = nodes.active, "
        "textSlug = CASE WHEN campaigns.campaignSlug = nodes.campaignSlug THEN textSlug END, "
        f"updatedAt = nodes.updatedAt FROM (SELECT * FROM nodes WHERE {among}) AS nodes "
        "WHERE nodes._id = campaigns.id "
        "AND (campaigns.name, campaigns.campaignSlug, campaigns.active) "
        "IS DISTINCT FROM (nodes.name, nodes.campaignSlug, nodes.active)"
    )
    connection.execute(
        "INSERT INTO campaigns (id, integrationId, projectId, name, campaignSlug, active, explicit, "
        "createdAt, updatedAt) SELECT _id, owner.integrationId, projectId, name, campaignSlug, active, "
        f"NOT implicit, createdAt, updatedAt FROM nodes JOIN {campaign_nodes(among)} AS owner USING (_id) "
        "ANTI JOIN campaigns ON campaigns.id = nodes._id"
    )
    fill_text_slugs(connection)


def fill_text_slugs(connection: Connection) -> None:
    """Set the slugs of the texts that campaigns of others have in the place of a slug."""
    texts = connection.execute(
        "SELECT DISTINCT campaignSlug FROM campaigns WHERE textSlug IS NULL "
        r"AND NOT regexp_full_match(campaignSlug, '[a-z0-9]+(-[a-z0-9]+)*')"
    ).fetchall()
    if texts:
        slugs = pa.table(
            {"text": [text for (text,) in texts], "slug": [identifiers.slug_of(text) for (text,) in texts]}
        )
        with tables.arrow_view(connection, slugs) as view:
            connection.execute(
                f"UPDATE campaigns SET textSlug = slugs.slug FROM {view} AS slugs "
                "WHERE campaignSlug = slugs.text AND textSlug IS NULL"
            )


def _is_vendor_id(text: str) -> bool:
    try:
        TypeAdapter(identifiers.VendorId).validate_python(text)
    except ValidationError:
        return False
    return True


def integrations_of(nodes: str = "nodes") -> str:
    """Return SQL for the integration of each node: its own, or that of the nearest ancestor with one.

    Parameters
    ----------
    nodes : str
        Relation in SQL, for a FROM clause, with the nodes.
    """
    return (
        "(SELECT node._id, coalesce(any_value(node.integrationId), "
        "arg_max(ancestor.integrationId, node.depth) FILTER (ancestor.integrationId IS NOT NULL)) "
        "AS integrationId "
        "FROM (SELECT _id, integrationId, unnest(list_append(path, _id)) AS above, "
        f"generate_subscripts(list_append(path, _id), 1) AS depth FROM {nodes}) AS node "
        "JOIN nodes AS ancestor ON ancestor._id = node.above GROUP BY node._id)"
    )


def fill_integrations(connection: Connection) -> None:
    """Set the missing integrations of stored sessions, which may be loaded before their nodes."""
    connection.execute(
        "UPDATE interactions SET integrationId = owner.integrationId "
        f"FROM {integrations_of()} AS owner WHERE owner._id = interactions.nodeId "
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
