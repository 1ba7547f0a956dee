"""Requests about integrations, custom campaigns, their outlays and exchange rates."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import model_validator

from attrib_ds import instants
from attrib_ds.contract import identifiers, json_values, request, values

# ruff: noqa: N815  (attributes carry the specification's names)


CampaignSort = Annotated[str, json_values.choice("name", "campaignId", "active")]
OutlaySort = Annotated[
    str, json_values.choice("campaignId", "startDate", "endDate", "amount", "country", "region")
]


def _check_campaign(value: Any) -> str:
    campaign_id = value.get("id") if isinstance(value, Mapping) else value
    if not isinstance(campaign_id, str) or not campaign_id:
        raise json_values.Refused
    return str(campaign_id)


#: The campaign to move an outlay to.
CampaignId = Annotated[
    str,
    json_values.Rule(
        _check_campaign,
        "the id of a campaign, as text or as {'id': …}",
        {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
        write=lambda id: {"id": id},
    ),
]


class IntegrationRequest(request.ProjectRequest):
    """A request about one custom-ads integration."""

    vendorId: identifiers.PathText


class OutlaysRequest(IntegrationRequest):
    """A request about the outlays of one campaign."""

    parentCampaignId: identifiers.PathText


class ListCampaigns(request.PageRequest, IntegrationRequest):
    """List the campaigns of an integration."""

    active: values.Flag | None = None
    campaignId: identifiers.Text | None = None
    campaignSlug: identifiers.Text | None = None
    nameLike: identifiers.Text | None = None
    explicit: values.Flag | None = None
    sort: CampaignSort | None = None
    order: values.Order | None = None


class CreateCampaign(IntegrationRequest):
    """Create a campaign, identified by its slug."""

    campaignSlug: identifiers.Slug
    name: identifiers.Name
    active: values.Flag = True


class GetCampaign(IntegrationRequest):
    """Get a campaign by its id."""

    id: identifiers.PathText


class UpdateCampaign(GetCampaign):
    """Update a campaign; attributes that are not given stay as they are."""

    name: identifiers.Name | None = None
    active: values.Flag | None = None


class ListOutlays(request.PageRequest, OutlaysRequest):
    """List the outlays of a campaign, optionally those in a period or the deleted ones."""

    # The end of an outlay exceeds it.
    lower_bounds: ClassVar[frozenset[str]] = frozenset()

    since: values.Instant | None = None
    until: values.Instant | None = None
    deleted: values.Flag | None = None
    sort: OutlaySort | None = None
    order: values.Order | None = None


class _WithPeriod(request.Part):
    """A request whose period must not be empty."""

    @model_validator(mode="after")
    def _check_period(self) -> Self:
        start, end = vars(self)["startDate"], vars(self)["endDate"]
        if start is not None and end is not None and start >= end:
            raise request.disagreement(
                ("startDate", f"{start.isoformat()} is not before {{endDate}} {end.isoformat()}")
            )
        return self


class CreateOutlay(OutlaysRequest, _WithPeriod):
    """Record money spent on a campaign in a period."""

    amount: values.Cost
    startDate: values.Instant
    endDate: values.Instant
    country: identifiers.Text | None = None
    region: identifiers.Text | None = None


class GetOutlay(OutlaysRequest):
    """Get one outlay."""

    outlayId: identifiers.PathText


class DeleteOutlay(GetOutlay):
    """Delete an outlay, which no longer counts."""


class UpdateOutlay(GetOutlay, _WithPeriod):
    """Update an outlay; attributes that are not given stay as they are."""

    amount: values.Cost | None = None
    startDate: values.Instant | None = None
    endDate: values.Instant | None = None
    campaignId: CampaignId | None = None
    country: identifiers.Text | None = None
    region: identifiers.Text | None = None


# ruff: noqa: N815  (attributes carry the specification's names)


def _check_currency(value: Any) -> str:
    if not isinstance(value, str) or value not in identifiers.CURRENCIES:
        raise json_values.Refused
    return str(value)


#: In force or withdrawn.
Currency = Annotated[
    str,
    json_values.Rule(
        _check_currency,
        identifiers.EXPECTED,
        {"type": "string", "pattern": "^[A-Z]{3}$", "minLength": 3, "maxLength": 3},
    ),
]


class CreateIntegration(IntegrationRequest):
    """Create a custom-ads integration, by default in the currency of the project.

    ``channel`` is the channel of its node.
    """

    vendorId: identifiers.VendorId
    name: identifiers.Name
    currency: Currency | None = None
    channel: identifiers.Name | None = None


class ListIntegrations(request.ProjectRequest):
    """List the integrations of a project."""


def _check_day(value: Any) -> datetime:
    # Tables of rates have days: a rate applies from the start of its day.
    is_day = isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value)
    if is_day or (isinstance(value, date) and not isinstance(value, datetime)):
        value = f"{value}T00:00:00Z"
    instant: datetime = values.PAST.check(value)
    return instant


#: When a rate starts to apply.
Day = Annotated[
    datetime,
    json_values.Rule(
        _check_day,
        f"a day, such as '2025-01-31', or {values.PAST.expected}",
        {"type": "string"},
        write=instants.format,
    ),
]
ExchangeRate = Annotated[float, values.above_zero("a number above 0 and below 1e18", below=1e18)]


class Rate(request.Part):
    """The value of one unit of a currency in that of the project, from a date on; null removes it."""

    currency: Currency
    date: Day
    rate: ExchangeRate | None


class SetRates(request.ProjectRequest):
    """Set rates; a rate replaces the one of the same currency and date, and null removes it."""

    rates: Annotated[tuple[Rate, ...], values.BOUNDED]


class ListRates(request.PageRequest):
    """List the rates of a project, optionally of one currency."""

    currency: Currency | None = None
