"""Creates, updates and reads custom campaigns, each with its node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants, schema
from attrib_ds.contract import Answer
from attrib_ds.errors import Conflict, NotFound
from attrib_ds.service.campaigns.integrations import find, insert_campaign_node, require
from attrib_ds.service.store.table_access import (
    changes_of,
    insert_record,
    read_page,
    read_record,
    read_table,
    update_record,
)

if TYPE_CHECKING:
    import duckdb

    from attrib_ds.contract.campaigns import (
        CreateCampaign,
        GetCampaign,
        ListCampaigns,
        UpdateCampaign,
    )
    from attrib_ds.service.campaigns.integrations import Integration
    from attrib_ds.service.store.store import Store

#: FROM clause of the campaigns of an integration by ``vendorId``.
OF_VENDOR: Final = (
    "campaigns WHERE integrationId IN (SELECT _id FROM integrations WHERE vendorId = ? AND deletedAt IS NULL)"
)
#: Columns by name in the specification.
_COLUMNS: Final = {"campaignId": "id"}
#: Filters of a list by equality.
_FILTERS: Final = ("active", "campaignId", "campaignSlug", "explicit")


def list_campaigns(store: Store, request: ListCampaigns) -> Answer:
    """Return one page of campaigns; none for an unknown integration (G-162)."""
    filters = {f"{_COLUMNS.get(name, name)} = ?": getattr(request, name) for name in _FILTERS}
    # Both sides are folded by DuckDB, whose lower case differs from Python's in a few letters.
    filters["contains(lower(name), lower(?))"] = request.nameLike
    conditions = {condition: value for condition, value in filters.items() if value is not None}
    sort = request.sort or "name"
    with store.read() as backend:
        return read_page(
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


def get_campaign(store: Store, request: GetCampaign) -> Answer:
    """Return one campaign, explicit or implicit (R286)."""
    with store.read() as backend:
        query = f"{OF_VENDOR} AND id = ?"
        table = read_table(backend.con, query, [request.vendorId, request.id], schema.CAMPAIGN)
    if not table.num_rows:
        raise NotFound(f"id: {request.vendorId!r} has no campaign {request.id!r}", field="id")
    return Answer.of(table)


def create_campaign(store: Store, request: CreateCampaign) -> Answer:
    """Create an explicit campaign with its node and return its id.

    Raises
    ------
    InvalidRequest
        If there is no such integration (G-162).
    Conflict
        If the slug is taken, also by an implicit campaign (G-160).
    """
    id = store.ids.new()

    def job(connection: duckdb.DuckDBPyConnection) -> None:
        integration = require(connection, request.vendorId, argument="vendor_id")
        if find_by_slug(connection, integration, request.campaignSlug) is not None:
            raise Conflict(
                f"campaign_slug: {request.campaignSlug!r} is taken; a slug is unique in its integration",
                field="campaign_slug",
            )
        insert_campaign(
            connection,
            integration,
            project_id=request.projectId,
            id=id,
            slug=request.campaignSlug,
            name=request.name,
            active=request.active,
            explicit=True,
        )

    store.write(job)
    return Answer(value=id)


def update_campaign(store: Store, request: UpdateCampaign) -> Answer:
    """Update a campaign and its node; return 1 if a stored value changed, else 0 (G-163)."""

    def job(connection: duckdb.DuckDBPyConnection) -> int:
        integration = find(connection, request.vendorId)
        stored = integration and find_by_id(connection, integration, request.id)
        if not stored:
            return 0
        changes = changes_of(stored, {"name": request.name, "active": request.active})
        if not changes:
            return 0
        changes["updatedAt"] = instants.now()
        update_record(connection, "campaigns", "id", request.id, changes)
        update_record(connection, "nodes", "_id", request.id, changes)
        return 1

    return Answer(value=store.write(job))


def find_by_id(
    connection: duckdb.DuckDBPyConnection, integration: Integration, id: str
) -> dict[str, Any] | None:
    """Return a campaign of the integration by id, or None."""
    query = "SELECT * FROM campaigns WHERE integrationId = ? AND id = ?"
    return read_record(connection, query, integration.id, id)


def find_by_slug(
    connection: duckdb.DuckDBPyConnection, integration: Integration, slug: str
) -> dict[str, Any] | None:
    """Return a campaign of the integration by slug, or None."""
    query = "SELECT * FROM campaigns WHERE integrationId = ? AND campaignSlug = ?"
    return read_record(connection, query, integration.id, slug)


def insert_campaign(
    connection: duckdb.DuckDBPyConnection,
    integration: Integration,
    *,
    project_id: str,
    id: str,
    slug: str | None,
    name: str,
    explicit: bool,
    active: bool = True,
    external_id: str | None = None,
    implicit: bool = False,
) -> None:
    """Insert a campaign with its node, which has the same id (G-218).

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    integration : Integration
        Must have no campaign with the slug.
    project_id, id, slug, name : str
        Properties of the campaign; traffic that names an id has no slug.
    explicit, active : bool
        Properties of the campaign.
    external_id, implicit
        Properties of the node; see :func:`insert_campaign_node`.
    """
    now = instants.now()
    campaign = {
        "id": id,
        "integrationId": integration.id,
        "projectId": project_id,
        "name": name,
        "campaignSlug": slug,
        "active": active,
        "explicit": explicit,
        "createdAt": now,
        "updatedAt": now,
    }
    insert_record(connection, "campaigns", campaign)
    insert_campaign_node(
        connection,
        integration,
        project_id=project_id,
        id=id,
        name=name,
        slug=slug,
        external_id=external_id,
        active=active,
        implicit=implicit,
        now=now,
    )
