"""Custom campaigns and their outlays: the functions that list, create and change them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd

from attrib_ds.api.results import given, page
from attrib_ds.contract import OPERATIONS
from attrib_ds.project import Project, takes_project
from attrib_ds.records.frames import Frame, read_frame, read_rows, to_record
from attrib_ds.sending.delivery import Delivery, Outcome


@takes_project
def list_campaigns(
    project: Project,
    vendor_id: str,
    *,
    active: bool | None = None,
    campaign_id: str | None = None,
    campaign_slug: str | None = None,
    name_like: str | None = None,
    explicit: bool | None = None,
    sort: str | Sequence[str] | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the custom campaigns of an integration.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    vendor_id : str
        The integration's ``vendorId``. An unknown one has no campaigns.
    active : bool, optional
        True: only active campaigns; False: only inactive ones; both by default.
    explicit : bool, optional
        True: only campaigns that were created; False: only those that traffic created; both by default.
    campaign_id, campaign_slug : str, optional
        Only the campaign of this id or slug.
    name_like : str, optional
        Only campaigns whose name contains this text; case does not matter.
    sort : str, optional
        ``"name"`` (the default), ``"campaignId"`` or ``"active"``, with ``-`` in front for descending. Ties
        are broken by the id.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per campaign: ``id``, ``integrationId``, ``projectId``, ``name``, ``campaignSlug`` (str),
        ``active``, ``explicit`` (boolean), ``createdAt``, ``updatedAt``. ``frame.attrs["total"]`` counts all
        that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "my-ads", name="My ads")
    ...     _ = at.create_campaign(shop, "my-ads", "spring", name="Spring sale")
    ...     at.list_campaigns(shop, "my-ads", name_like="SALE")["campaignSlug"].to_list()
    ['spring']
    """
    return page(project.send("list_campaigns", **given(locals())))


@takes_project
def get_campaign(project: Project, vendor_id: str, id: str) -> pd.Series[Any]:
    """Get one custom campaign.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    vendor_id : str
        The integration's ``vendorId``.
    id : str
        The campaign's ``id``, not its slug.

    Returns
    -------
    Series
        One entry per property; named by the id.

    Raises
    ------
    NotFound
        If the integration has no such campaign.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "my-ads", name="My ads")
    ...     spring = at.create_campaign(shop, "my-ads", "spring", name="Spring sale")
    ...     at.get_campaign(shop, "my-ads", spring)["name"]
    'Spring sale'
    """
    record = to_record(project.send("get_campaign", vendor_id=vendor_id, id=id).read())
    record.name = record["id"]
    return record


@takes_project
def create_campaign(
    project: Project, vendor_id: str, campaign_slug: str, *, name: str, active: bool = True
) -> str | None:
    """Create a custom campaign.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    vendor_id : str
        The integration's ``vendorId``.
    campaign_slug : str
        Its name in the URLs of landing pages, at most 255 characters. It is converted to a slug, as the text
        of traffic is: ``Spring Sale`` becomes ``spring-sale``. The slug is unique in the integration, never
        changes, and is in :func:`attrib_ds.get_campaign`.
    name : str
        Display name.
    active : bool, default True
        An inactive campaign still receives traffic and keeps its spend.

    Returns
    -------
    str or None
        The campaign's id, which is also the id of its node; None if the service does not return it.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed or there is no such integration.
    Conflict
        If the slug is taken.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "my-ads", name="My ads")
    ...     len(at.create_campaign(shop, "my-ads", "spring", name="Spring sale"))
    24
    """
    id: str | None = project.send("create_campaign", **given(locals())).value
    return id


@takes_project
def update_campaign(
    project: Project, vendor_id: str, id: str, *, name: str | None = None, active: bool | None = None
) -> int | None:
    """Change a custom campaign.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    vendor_id : str
        The integration's ``vendorId``.
    id : str
        The campaign's ``id``.
    name : str, optional
        New display name.
    active : bool, optional
        Whether the campaign is active.

    Returns
    -------
    int or None
        1 if the campaign changed, 0 if nothing changed or there is no such campaign. None if the service does
        not say.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "my-ads", name="My ads")
    ...     spring = at.create_campaign(shop, "my-ads", "spring", name="Spring sale")
    ...     [at.update_campaign(shop, "my-ads", spring, active=False) for _ in range(2)]
    [1, 0]
    """
    changes = {"name": name, "active": active}
    count: int | None = project.send("update_campaign", vendor_id=vendor_id, id=id, **changes).value
    return count


@takes_project
def list_outlays(
    project: Project,
    vendor_id: str,
    campaign_id: str,
    *,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    deleted: bool | None = None,
    sort: str | Sequence[str] | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the outlays of a custom campaign.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    vendor_id : str
        The integration's ``vendorId``.
    campaign_id : str
        The campaign's ``id``. An unknown one has no outlays.
    since, until : datetime, date or str, optional
        Only outlays whose period overlaps this range. Days and instants are read as in
        :func:`attrib_ds.search_interactions`.
    deleted : bool, optional
        True: only deleted outlays; by default only the others.
    sort : str, optional
        ``"startDate"`` (the default), ``"endDate"``, ``"amount"``, ``"campaignId"``, ``"country"`` or
        ``"region"``, with ``-`` in front for descending. Nulls are last and ties are broken by ``_id``.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per outlay: ``_id``, ``campaignId``, ``amount.amount`` (float64), ``amount.currency``,
        ``startDate``, ``endDate`` and the rest of its properties. ``frame.attrs["total"]`` counts all that
        match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     at.list_outlays(shop, "my-ads", "unknown").shape[0]
    0
    """
    return page(project.send("list_outlays", **given(locals())))


@takes_project
def get_outlay(project: Project, vendor_id: str, campaign_id: str, outlay_id: str) -> pd.Series[Any]:
    """Get one outlay of a custom campaign.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    vendor_id : str
        The integration's ``vendorId``.
    campaign_id : str
        The campaign's ``id``.
    outlay_id : str
        The outlay's ``_id``.

    Returns
    -------
    Series
        One entry per property; named by the ``_id``.

    Raises
    ------
    NotFound
        If the campaign has no such outlay.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "my-ads", name="My ads", currency="NOK")
    ...     spring = at.create_campaign(shop, "my-ads", "spring", name="Spring sale")
    ...     week = {"start_date": "2025-03-03T00:00:00Z", "end_date": "2025-03-10T00:00:00Z"}
    ...     spent = at.create_outlay(shop, "my-ads", spring, amount=70, **week)
    ...     at.get_outlay(shop, "my-ads", spring, spent)["amount.currency"]
    'NOK'
    """
    return to_record(
        project.send("get_outlay", vendor_id=vendor_id, campaign_id=campaign_id, outlay_id=outlay_id).read()
    )


@takes_project
def create_outlay(
    project: Project,
    vendor_id: str,
    campaign_id: str,
    *,
    amount: float | Decimal,
    start_date: datetime | str,
    end_date: datetime | str,
    country: str | None = None,
    region: str | None = None,
) -> str | None:
    """Record the cost of a custom campaign in a period.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    vendor_id : str
        The integration's ``vendorId``.
    campaign_id : str
        The campaign's ``id``.
    amount : float or Decimal
        In the currency of the integration, 0 or more, with at most 6 decimal places. It is spread evenly
        over the seconds of the period and adds to other outlays of the campaign.
    start_date, end_date : datetime or str
        The period; the end is exclusive. Instants without an offset are UTC.
    country, region : str, optional
        Where the money was spent.

    Returns
    -------
    str or None
        The outlay's ``_id``; None if the service does not return it.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, or there is no such integration or campaign.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "my-ads", name="My ads")
    ...     spring = at.create_campaign(shop, "my-ads", "spring", name="Spring sale")
    ...     week = {"start_date": "2025-03-03T00:00:00Z", "end_date": "2025-03-10T00:00:00Z"}
    ...     spent = at.create_outlay(shop, "my-ads", spring, amount=70, **week)
    ...     at.list_outlays(shop, "my-ads", spring)["amount.amount"].to_list()
    [70.0]
    """
    id: str | None = project.send("create_outlay", **given(locals())).value
    return id


@takes_project
def update_outlay(
    project: Project,
    vendor_id: str,
    campaign_id: str,
    outlay_id: str,
    *,
    amount: float | Decimal | None = None,
    start_date: datetime | str | None = None,
    end_date: datetime | str | None = None,
    new_campaign_id: str | None = None,
    country: str | None = None,
    region: str | None = None,
) -> int | None:
    """Change an outlay; omitted properties keep their values.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    vendor_id : str
        The integration's ``vendorId``.
    campaign_id : str
        The ``id`` of the outlay's campaign.
    outlay_id : str
        The outlay's ``_id``.
    amount : float or Decimal, optional
        In the currency of the integration, 0 or more.
    start_date, end_date : datetime or str, optional
        The period; the end is exclusive.
    new_campaign_id : str, optional
        The campaign of the integration to move the outlay to.
    country, region : str, optional
        Where the money was spent.

    Returns
    -------
    int or None
        1 if something changed, else 0; None if the service does not say.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, the period would be empty or the new campaign does not exist.
    NotFound
        If the campaign has no such outlay.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "my-ads", name="My ads")
    ...     spring = at.create_campaign(shop, "my-ads", "spring", name="Spring sale")
    ...     week = {"start_date": "2025-03-03T00:00:00Z", "end_date": "2025-03-10T00:00:00Z"}
    ...     spent = at.create_outlay(shop, "my-ads", spring, amount=70, **week)
    ...     at.update_outlay(shop, "my-ads", spring, spent, amount=80)
    1
    """
    count: int | None = project.send("update_outlay", **given(locals())).value
    return count


@takes_project
def delete_outlay(project: Project, vendor_id: str, campaign_id: str, outlay_id: str) -> int:
    """Delete an outlay.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    vendor_id : str
        The integration's ``vendorId``.
    campaign_id : str
        The campaign's ``id``.
    outlay_id : str
        The outlay's ``_id``.

    Returns
    -------
    int
        1.

    Raises
    ------
    NotFound
        If the campaign has no such outlay, or it was deleted before.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "my-ads", name="My ads")
    ...     spring = at.create_campaign(shop, "my-ads", "spring", name="Spring sale")
    ...     week = {"start_date": "2025-03-03T00:00:00Z", "end_date": "2025-03-10T00:00:00Z"}
    ...     spent = at.create_outlay(shop, "my-ads", spring, amount=70, **week)
    ...     _ = at.admin.delete_outlay(shop, "my-ads", spring, spent)
    ...     len(at.list_outlays(shop, "my-ads", spring))
    0
    """
    return int(
        project.send("delete_outlay", vendor_id=vendor_id, campaign_id=campaign_id, outlay_id=outlay_id).value
    )


@takes_project
def create_outlays(project: Project, vendor_id: str, frame: Frame, *, dry_run: bool = False) -> pd.DataFrame:
    """Record the costs of custom campaigns, one outlay per row.

    Sending the same rows again stores nothing twice: a row is skipped if its campaign has an equal outlay
    that matches no other row. After a failure or an interrupt, repeat the call with the whole frame.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    vendor_id : str
        The integration's ``vendorId``.
    frame : DataFrame
        ``campaignId`` (the campaign's ``id``), ``amount`` (in the currency of the integration),
        ``startDate``, ``endDate`` and, if known, ``country`` and ``region``, as in :func:`create_outlay`.
    dry_run : bool, default False
        Only validate the rows, and send nothing. It cannot check that the campaigns exist.

    Returns
    -------
    DataFrame
        One row per row of ``frame``, with its index: ``status`` (``created``, ``present`` or ``rejected``;
        in a dry run ``valid`` or ``rejected``), ``id`` of the outlay, ``error`` (str). If the service fails
        half-way, that row is ``failed`` and the rows after it are ``unsent``.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown; nothing is stored.
    AttribError
        If the service fails before anything was stored; ``partial`` is the frame so far.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "my-ads", name="My ads")
    ...     spring = at.create_campaign(shop, "my-ads", "spring", name="Spring sale")
    ...     days = {"startDate": ["2025-03-03T00:00:00Z"], "endDate": ["2025-03-10T00:00:00Z"]}
    ...     spent = pd.DataFrame({"campaignId": [spring], "amount": [70.0], **days})
    ...     [at.create_outlays(shop, "my-ads", spent)["status"].item() for _ in range(2)]
    ['created', 'present']
    """
    frame = read_frame("frame", frame)
    rows = read_rows(
        frame, required=("campaignId", "amount", "startDate", "endDate"), optional=("country", "region")
    )
    named = {**OPERATIONS["create_outlay"].arguments, "campaignId": "campaign_id"}
    arguments = [
        {"vendor_id": vendor_id, **{named[name]: value for name, value in row.items()}} for row in rows
    ]
    delivery = Delivery(project, "create_outlay", frame.index, arguments)
    if dry_run:
        return delivery.check()
    unclaimed: dict[str, dict[tuple[Any, ...], list[str]]] = {}

    def find(position: int) -> Outcome | None:
        outlay: Any = delivery.request(position)
        campaign = outlay.parentCampaignId
        if campaign not in unclaimed:
            unclaimed[campaign] = _stored(project, vendor_id, campaign)
        equal = unclaimed[campaign].get((outlay.amount, *_place(outlay)))
        return ("present", equal.pop(0), None) if equal else None

    def send(positions: Sequence[int]) -> list[Outcome]:
        return [("created", delivery.send_row(positions[0]).value, None)]

    # Rows of one campaign share the list of its outlays.
    return delivery.send(send, keys=[str(row.get("campaignId")) for row in rows], find=find)


def _place(outlay: Any) -> tuple[Any, ...]:
    """Return the period and place of an outlay."""
    return outlay.startDate, outlay.endDate, outlay.country, outlay.region


def _stored(project: Project, vendor_id: str, campaign: str) -> dict[tuple[Any, ...], list[str]]:
    """Return the ids of a campaign's outlays by the values that make two outlays equal."""
    outlays: Any = project.send("list_outlays", vendor_id=vendor_id, campaign_id=campaign).read()
    names = ("amount.amount", "startDate", "endDate", "country", "region")
    ids = defaultdict(list)
    for outlay in outlays.to_pylist():
        ids[tuple(outlay[name] for name in names)].append(outlay["_id"])
    return dict(ids)
