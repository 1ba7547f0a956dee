"""Requests about custom campaigns and their outlays."""

# ruff: noqa: N815  (attributes carry the specification's names)

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self, TypeAlias

from pydantic import model_validator

from attrib_ds.contract.identifiers import Name, PathText, Slug, Text, VendorId
from attrib_ds.contract.request import ProjectRequest, disagreement
from attrib_ds.contract.rule import Refused, Rule, choice
from attrib_ds.contract.values import Cost, Flag, Instant, Limit, Offset, Order

CampaignSort: TypeAlias = Annotated[str, choice("name", "campaignId", "active")]
OutlaySort: TypeAlias = Annotated[
    str, choice("campaignId", "startDate", "endDate", "amount", "country", "region")
]


def _check_campaign(value: Any) -> str:
    campaign_id = value.get("id") if isinstance(value, Mapping) else value
    if not isinstance(campaign_id, str) or not campaign_id:
        raise Refused
    return str(campaign_id)


def _write_campaign(value: str) -> dict[str, str]:
    return {"id": value}


#: The campaign to move an outlay to (G-166).
CampaignId: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_campaign,
        expected="the id of a campaign, as text or as {'id': …}",
        json_schema={"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
        write=_write_campaign,
    ),
]


class IntegrationRequest(ProjectRequest):
    """A request about one custom-ads integration."""

    vendorId: VendorId


class OutlaysRequest(IntegrationRequest):
    """A request about the outlays of one campaign."""

    parentCampaignId: PathText


class ListCampaigns(IntegrationRequest):
    """List the campaigns of an integration."""

    active: Flag | None = None
    campaignId: Text | None = None
    campaignSlug: Text | None = None
    nameLike: Text | None = None
    explicit: Flag | None = None
    sort: CampaignSort | None = None
    order: Order | None = None
    offset: Offset = 0
    limit: Limit | None = None


class CreateCampaign(IntegrationRequest):
    """Create a campaign, identified by its slug."""

    campaignSlug: Slug
    name: Name
    active: Flag = True


class GetCampaign(IntegrationRequest):
    """Get a campaign by its id."""

    id: PathText


class UpdateCampaign(GetCampaign):
    """Update a campaign; attributes that are not given stay as they are."""

    name: Name | None = None
    active: Flag | None = None


class ListOutlays(OutlaysRequest):
    """List the outlays of a campaign, optionally those in a period (G-167) or the deleted ones."""

    since: Instant | None = None
    until: Instant | None = None
    deleted: Flag | None = None
    sort: OutlaySort | None = None
    order: Order | None = None
    offset: Offset = 0
    limit: Limit | None = None


class CreateOutlay(OutlaysRequest):
    """Record money spent on a campaign in a period."""

    amount: Cost
    startDate: Instant
    endDate: Instant
    country: Text | None = None
    region: Text | None = None

    @model_validator(mode="after")
    def _check_period(self) -> Self:
        _refuse_empty_period(self.startDate, self.endDate)
        return self


class GetOutlay(OutlaysRequest):
    """Get one outlay."""

    outlayId: PathText


class DeleteOutlay(GetOutlay):
    """Delete an outlay, which no longer counts (G-078)."""


class UpdateOutlay(GetOutlay):
    """Update an outlay; attributes that are not given stay as they are."""

    amount: Cost | None = None
    startDate: Instant | None = None
    endDate: Instant | None = None
    campaignId: CampaignId | None = None
    country: Text | None = None
    region: Text | None = None

    @model_validator(mode="after")
    def _check_period(self) -> Self:
        _refuse_empty_period(self.startDate, self.endDate)
        return self


def _refuse_empty_period(start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None and start >= end:
        raise disagreement(("startDate", f"{start.isoformat()} is not before {{endDate}} {end.isoformat()}"))
