"""Keeps the outlays of custom campaigns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants, schema
from attrib_ds.contract import Answer
from attrib_ds.errors import InvalidRequest, NotFound
from attrib_ds.service.campaigns import find_by_id
from attrib_ds.service.integrations import campaigns_of, find, require
from attrib_ds.service.interactions import ordering
from attrib_ds.service.records import changes_of, insert_record, read_record, update_record
from attrib_ds.service.selection import answered, moment

if TYPE_CHECKING:
    import duckdb
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.campaigns import (
        CreateOutlay,
        GetOutlay,
        ListOutlays,
        OutlaysRequest,
        UpdateOutlay,
    )
    from attrib_ds.service.integrations import Integration
    from attrib_ds.service.store import Store

#: Columns behind the names of the specification.
_COLUMNS: Final = {"amount": "amount.amount"}


def list_outlays(store: Store, request: ListOutlays) -> Answer:
    """Answer one page of a campaign's outlays; none for an unknown campaign (G-168)."""
    with store.read() as backend:
        found = _of_campaign(backend, request)
        if request.since is not None:
            # The period does not hold its end, at which no money is spent any more (G-165).
            found = found.filter(found.endDate > moment(request.since))
        if request.until is not None:
            found = found.filter(found.startDate <= moment(request.until))
        if request.since is not None and request.until is not None and request.since > request.until:
            found = found.limit(0)
        total = found.count().to_pyarrow().as_py()
        sort = request.sort or "startDate"
        order = ordering(found, {_COLUMNS.get(sort, sort): -1 if request.order == "DESC" else 1})
        page = found.order_by(order).select(schema.OUTLAY.names)
        table = answered(page.limit(request.limit, offset=request.offset), schema.OUTLAY)
    return Answer(table=table, total=total, offset=request.offset, limit=request.limit)


def get_outlay(store: Store, request: GetOutlay) -> Answer:
    """Answer one outlay of the campaign; one of another campaign is not found (R298)."""
    with store.read() as backend:
        outlays = _of_campaign(backend, request)
        found = outlays.filter(outlays["_id"] == request.outlayId).select(schema.OUTLAY.names)
        table = answered(found, schema.OUTLAY)
    if not table.num_rows:
        raise _unknown(request)
    return Answer(table=table)


def create_outlay(store: Store, request: CreateOutlay) -> Answer:
    """Store an outlay in the currency of its integration and answer with its id.

    Raises
    ------
    InvalidRequest
        If there is no such integration or campaign (G-168).
    """
    id = store.ids.new()

    def job(connection: duckdb.DuckDBPyConnection) -> None:
        integration = require(connection, request.vendorId, argument="vendor_id")
        _require_campaign(connection, integration, request.parentCampaignId, argument="parent_campaign_id")
        now = datetime.now(UTC)
        outlay = {
            "_id": id,
            "projectId": request.projectId,
            "integrationId": integration.id,
            "campaignId": request.parentCampaignId,
            "amount.amount": request.amount,
            "amount.currency": integration.currency,
            "startDate": request.startDate,
            "endDate": request.endDate,
            "country": request.country,
            "region": request.region,
            "createdAt": now,
            "updatedAt": now,
        }
        insert_record(connection, "outlays", outlay)

    store.write(job)
    return Answer(value=id)


def update_outlay(store: Store, request: UpdateOutlay) -> Answer:
    """Change an outlay; answer 1 if a stored value changed, else 0 (G-163).

    Raises
    ------
    NotFound
        If the campaign has no such outlay.
    InvalidRequest
        If the period would be empty (R296), or there is no campaign to move to (G-166).
    """

    def job(connection: duckdb.DuckDBPyConnection) -> int:
        integration = find(connection, request.vendorId)
        stored = integration and _find(connection, integration, request)
        if not integration or not stored:
            raise _unknown(request)
        if request.campaignId is not None:
            _require_campaign(connection, integration, request.campaignId, argument="campaign_id")
        asked = {
            "campaignId": request.campaignId,
            "amount.amount": request.amount,
            "amount.currency": integration.currency if request.amount is not None else None,
            "startDate": request.startDate,
            "endDate": request.endDate,
            "country": request.country,
            "region": request.region,
        }
        changes = changes_of(stored, asked)
        _check_period({**stored, **changes}, changed="startDate" if "startDate" in changes else "endDate")
        if not changes:
            return 0
        changes["updatedAt"] = datetime.now(UTC)
        update_record(connection, "outlays", "_id", request.outlayId, changes)
        return 1

    return Answer(value=store.write(job))


def _of_campaign(backend: Backend, request: OutlaysRequest) -> ir.Table:
    """Return the outlays of a campaign that are not deleted (G-078)."""
    campaigns, outlays = campaigns_of(backend, request.vendorId), backend.table("outlays")
    wanted = campaigns.filter(campaigns.id == request.parentCampaignId)
    of_campaign = outlays.semi_join(wanted, outlays.campaignId == wanted.id)
    return of_campaign.filter(of_campaign.deletedAt.isnull())


def _find(
    connection: duckdb.DuckDBPyConnection, integration: Integration, request: GetOutlay
) -> dict[str, Any] | None:
    if find_by_id(connection, integration, request.parentCampaignId) is None:
        return None
    query = "SELECT * FROM outlays WHERE _id = ? AND campaignId = ? AND deletedAt IS NULL"
    return read_record(connection, query, request.outlayId, request.parentCampaignId)


def _require_campaign(
    connection: duckdb.DuckDBPyConnection, integration: Integration, id: str, *, argument: str
) -> None:
    if find_by_id(connection, integration, id) is None:
        raise InvalidRequest(
            f"{argument}: {id!r} is no campaign of {integration.vendor_id!r}; list_campaigns shows their ids",
            field=argument,
        )


def _check_period(outlay: dict[str, Any], *, changed: str) -> None:
    start, end = outlay["startDate"], outlay["endDate"]
    if start >= end:
        field = "start_date" if changed == "startDate" else "end_date"
        raise InvalidRequest(
            f"{field}: the outlay would go from {instants.format(start)} to {instants.format(end)}; it must "
            "end after it starts",
            field=field,
        )


def _unknown(request: GetOutlay) -> NotFound:
    return NotFound(
        f"outlay_id: the campaign {request.parentCampaignId!r} has no outlay {request.outlayId!r}",
        field="outlay_id",
    )
