"""Requests about integrations, custom campaigns, their outlays and exchange rates."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, Self

from pydantic import model_validator

from attrib_ds import instants
from attrib_ds.contract.identifiers import CURRENCIES, EXPECTED, Name, PathText, Slug, Text, VendorId
from attrib_ds.contract.json_values import Refused, Rule, choice
from attrib_ds.contract.request import Part, ProjectRequest, disagreement
from attrib_ds.contract.values import BOUNDED, PAST, Cost, Flag, Instant, Limit, Offset, Order, above_zero

# ruff: noqa: N815  (attributes carry the specification's names)


CampaignSort = Annotated[str, choice("name", "campaignId", "active")]
OutlaySort = Annotated[str, choice("campaignId", "startDate", "endDate", "amount", "country", "region")]


def _check_campaign(value: Any) -> str:
    campaign_id = value.get("id") if isinstance(value, Mapping) else value
    if not isinstance(campaign_id, str) or not campaign_id:
        raise Refused
    return str(campaign_id)


def _write_campaign(value: str) -> dict[str, str]:
    return {"id": value}


#: The campaign to move an outlay to.
CampaignId = Annotated[
    str,
    Rule(
        _check_campaign,
        "the id of a campaign, as text or as {'id': …}",
        {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
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
    """List the outlays of a campaign, optionally those in a period or the deleted ones."""

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
    """Delete an outlay, which no longer counts."""


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


# ruff: noqa: N815  (attributes carry the specification's names)


def _check_currency(value: Any) -> str:
    if not isinstance(value, str) or value not in CURRENCIES:
        raise Refused
    return str(value)


#: In force or withdrawn.
Currency = Annotated[
    str,
    Rule(
        _check_currency, EXPECTED, {"type": "string", "pattern": "^[A-Z]{3}$", "minLength": 3, "maxLength": 3}
    ),
]


class CreateIntegration(ProjectRequest):
    """Create a custom-ads integration, by default in the currency of the project.

    ``channel`` is the channel of its node.
    """

    vendorId: VendorId
    name: Name
    currency: Currency | None = None
    channel: Name | None = None


class ListIntegrations(ProjectRequest):
    """List the integrations of a project."""


def _check_day(value: Any) -> datetime:
    # Tables of rates have days: a rate applies from the start of its day.
    is_day = isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value)
    if is_day or (isinstance(value, date) and not isinstance(value, datetime)):
        value = f"{value}T00:00:00Z"
    instant: datetime = PAST.check(value)
    return instant


#: When a rate starts to apply.
Day = Annotated[
    datetime,
    Rule(
        _check_day,
        f"a day, such as '2025-01-31', or {PAST.expected}",
        {"type": "string"},
        write=instants.format,
    ),
]
ExchangeRate = Annotated[float, above_zero("a number above 0 and below 1e18", below=1e18)]


class Rate(Part):
    """The value of one unit of a currency in that of the project, from a date on; null removes it."""

    currency: Currency
    date: Day
    rate: ExchangeRate | None


class SetRates(ProjectRequest):
    """Set rates; a rate replaces the one of the same currency and date, and null removes it."""

    rates: Annotated[tuple[Rate, ...], BOUNDED]


class ListRates(ProjectRequest):
    """List the rates of a project, optionally of one currency."""

    currency: Currency | None = None
    offset: Offset = 0
    limit: Limit | None = None
