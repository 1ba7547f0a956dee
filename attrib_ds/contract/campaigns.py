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
    found = value.get("id") if isinstance(value, Mapping) else value
    if not isinstance(found, str) or not found:
        raise Refused
    return str(found)


def _write_campaign(value: str) -> dict[str, str]:
    return {"id": value}


#: The campaign that an outlay moves to (G-166).
CampaignId: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_campaign,
        allowed="the id of a campaign, as text or as {'id': …}",
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
    """The campaigns of an integration."""

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
    """A new campaign, known by its slug."""

    campaignSlug: Slug
    name: Name
    active: Flag = True


class GetCampaign(IntegrationRequest):
    """One campaign, by its id."""

    id: PathText


class UpdateCampaign(GetCampaign):
    """Changes of a campaign; what is not given stays."""

    name: Name | None = None
    active: Flag | None = None


class ListOutlays(OutlaysRequest):
    """The outlays of a campaign, those in a period if one is given (G-167); the deleted ones if asked."""

    since: Instant | None = None
    until: Instant | None = None
    deleted: Flag | None = None
    sort: OutlaySort | None = None
    order: Order | None = None
    offset: Offset = 0
    limit: Limit | None = None


class CreateOutlay(OutlaysRequest):
    """Money spent on a campaign in a period."""

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
    """One outlay."""

    outlayId: PathText


class DeleteOutlay(GetOutlay):
    """An outlay that is to count no longer (G-078)."""


class UpdateOutlay(GetOutlay):
    """Changes of an outlay; what is not given stays."""

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
