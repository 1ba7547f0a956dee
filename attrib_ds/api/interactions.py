"""Interactions, their hits, the tree of nodes and counts of all of them: search, read and create."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from datetime import date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from attrib_ds import instants
from attrib_ds.api.results import given, page, warn_of_addition
from attrib_ds.attribution import calendar
from attrib_ds.contract.json_values import listed, shown
from attrib_ds.errors import InvalidRequest, ServiceFailure, warn
from attrib_ds.filters import Comparison, Predicate
from attrib_ds.project import Project, takes_project
from attrib_ds.records import declared_fields
from attrib_ds.records.frames import Frame, read_frame, read_rows, to_pandas, to_record
from attrib_ds.sending.conversion_cells import with_instants
from attrib_ds.sending.delivery import Delivery, Outcome

#: Comparisons of event types, and whether those that they name are the ones to keep.
_MEMBERSHIPS: Final = {"equals": True, "in": True, "notEquals": False, "notIn": False}


@takes_project
def search_interactions(
    project: Project,
    *,
    where: Predicate | None = None,
    nodes: Predicate | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    columns: Sequence[str] | None = None,
    sort: str | Sequence[str] | None = None,
    limit: int | None = None,
    offset: int = 0,
    filtered: bool | None = False,
    bots: bool | None = False,
) -> pd.DataFrame:
    """Search the interactions of a project.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    where : Predicate, optional
        Condition on interactions, such as ``interaction("geo.countryCode") == "FR"``.
    nodes : Predicate, optional
        Condition on the traffic-source node, such as ``node("campaignName").contains("brand")``. The nodes
        below a matching node match too.
    since, until : datetime, date or str, optional
        Bounds of ``startDate``, both inclusive. A day such as ``"2025-04-01"`` stands for its start in
        ``since`` and for its end in ``until``, in the project's time zone; a remote service that does not
        report its time zone is assumed to use UTC. Instants without an offset are UTC.
    columns : str or sequence of str, optional
        Properties to return; the name of an object (``"geo"``) stands for all of its properties. ``_id``
        always comes first. By default all but ``userData``, ``rawUserData`` and ``rawNodeData``.
    sort : str or sequence of str, optional
        Properties to sort by, with ``-`` in front for descending: ``["geo.city", "-startDate"]``. Nulls are
        last and ties are broken by ``_id``. By default ``"-startDate"``.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.
    filtered : bool or None, default False
        True: only traffic that a traffic filter captured; False: only the rest; None: both.
    bots : bool or None, default False
        True: only bots; False: only the rest; None: both.

    Returns
    -------
    DataFrame
        One row per interaction; nested properties are dotted columns (``geo.city``). Columns and dtypes do
        not depend on the rows. ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    See Also
    --------
    export_interactions : Write more than fits into memory to a Parquet file.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> french = at.search_interactions(
    ...     shop, where=at.interaction("geo.countryCode") == "FR", columns=["geo.city"], limit=2
    ... )
    >>> list(french.columns)
    ['_id', 'geo.city']
    """
    return page(project.send("search_interactions", **given(locals())))


@takes_project
def get_interaction(project: Project, id: str) -> pd.Series[Any]:
    """Get one interaction with all properties.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The interaction's ``_id``: 24 characters of ``0-9`` and ``a-f``.

    Returns
    -------
    Series
        One entry per property, ``userData`` included; named by the id. It may be of a bot or of filtered
        traffic.

    Raises
    ------
    InvalidRequest
        If the id is not well-formed.
    NotFound
        If there is no such interaction.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> newest = at.search_interactions(shop, limit=1)["_id"].item()
    >>> at.get_interaction(shop, newest)["_id"] == newest
    True
    """
    return to_record(project.send("get_interaction", id=id).read())


@takes_project
def list_hits(project: Project, first_hit_id: str) -> pd.DataFrame:
    """List the hits of a session in order of arrival.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    first_hit_id : str
        The session's ``firstHitId`` (not its ``_id``), or one that it had before earlier hits arrived late.

    Returns
    -------
    DataFrame
        One row per hit, by date of ingestion, then ``serverDate``; empty for an unknown id.

    Examples
    --------
    >>> import attrib_ds as at
    >>> at.list_hits(at.sample_project(), "unknown").shape[0]
    0
    """
    return to_pandas(project.send("list_hits", first_hit_id=first_hit_id).read())


@takes_project
def create_offline_interactions(project: Project, frame: Frame, *, dry_run: bool = False) -> pd.DataFrame:
    """Create offline interactions, such as calls and visits to a store, one per row.

    Sending the same rows again stores those with an ``externalId`` once. After a failure or an interrupt
    repeat the call.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    frame : DataFrame
        ``date`` (datetime or str, UTC without an offset; at most 24 hours ahead; a day without a time stands
        for its start in the project's time zone); the user, as
        ``userData.email``, ``userData.phone``, ``userData.vendorUserId`` or another identity field of the
        project; the traffic source, as ``nodeData.vendorId`` and ``nodeData.campaignId``,
        ``nodeData.campaignSlug`` or other properties of the advertiser. A missing cell is an omitted
        property. A row with an ``externalId``, which is unique in the integration, is stored once even if it
        is sent again; without it every run stores every row.
    dry_run : bool, default False
        Only validate the rows, and send nothing. It cannot check that the integration and the identity fields
        exist.

    Returns
    -------
    DataFrame
        One row per row of ``frame``, with its index: ``status`` (``created``, ``present`` or ``rejected``;
        in a dry run ``valid`` or ``rejected``), ``id`` of the interaction, ``error`` (str). If the service
        fails half-way, that row is ``failed`` and the rows after it are ``unsent``. A row is ``unknown`` if
        the answer was lost, so that it may be stored or not. The id is missing if the answer has none.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown; nothing is stored then.
    AttribError
        If the service fails before anything was stored; ``partial`` is the frame so far.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> calls = pd.DataFrame(
    ...     {
    ...         "date": ["2025-01-31T12:00:00Z"],
    ...         "userData.email": ["anna@example.com"],
    ...         "nodeData.vendorId": ["phone"],
    ...         "externalId": ["call-17"],
    ...     }
    ... )
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "phone", name="Call centre")
    ...     [at.create_offline_interactions(shop, calls)["status"].item() for _ in range(2)]
    ['created', 'present']
    """
    frame = with_instants(read_frame("frame", frame), "date", project.timezone)
    rows = read_rows(frame, required=("date",), optional=("externalId",), objects=("userData", "nodeData"))
    arguments = [
        {
            "date": row.get("date"),
            "user_data": {name: _as_text(value) for name, value in row["userData"].items()},
            "node_data": row["nodeData"],
            "external_id": _as_text(row.get("externalId")),
        }
        for row in rows
    ]
    if any(row["external_id"] is not None for row in arguments):
        effect = "interactions that are sent again may be stored again"
        warn_of_addition(project, "create_offline_interactions", "externalId", effect)
    delivery = Delivery(project, "create_offline_interaction", frame.index, arguments)

    def send(positions: Sequence[int]) -> list[Outcome]:
        answer = delivery.send_row(positions[0])
        return [("created" if answer.value else "present", answer.read()["_id"][0].as_py(), None)]

    return delivery.check() if dry_run else delivery.send(send)


def _as_text(value: Any) -> Any:
    """Return a whole number as text: files hold ids of digits without saying that they are text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


@takes_project
def list_nodes(
    project: Project,
    *,
    type: str | None = None,  # noqa: A002
    search: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the tree of traffic-source nodes.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    type : str, optional
        Only nodes of this type.
    search : str, optional
        Only nodes whose name or id contains this text; case does not matter.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per node, ordered by ``_id``: ``_id``, ``parentId`` (null at a root), ``type``
        (``channel``, ``integration``, ``campaign``, ``adset``, ``ad``, ``keyword`` or ``referrer``),
        ``name``, ``channel`` (str), ``path`` (list of ancestor ids, the root first) and the node's
        other properties.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> {"_id", "parentId", "type", "name"} <= set(at.list_nodes(at.sample_project()).columns)
    True
    """
    return to_pandas(project.send("list_nodes", type=type, search=search, limit=limit, offset=offset).read())


@takes_project
def interaction_insights(
    project: Project,
    *,
    group_by: str | None = None,
    interval: str | None = None,
    segments: int | None = None,
    where: Predicate | None = None,
    nodes: Predicate | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    sort: str | Sequence[str] | None = None,
    filtered: bool | None = False,
    bots: bool | None = False,
    timezone: str | None = None,
) -> pd.DataFrame:
    """Count interactions, hits and their duration by group and interval.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    group_by : str, optional
        A property, such as ``"geo.countryCode"``; interactions without it are in a null group.
    interval : str, optional
        Calendar: ``year``, ``semester``, ``quarter``, ``month``, ``week``, ``day``; seasonal:
        ``semesterOfYear``, ``quarterOfYear``, ``monthOfYear``, ``weekOfYear``, ``dayOfYear``,
        ``dayOfMonth``, ``dayOfWeek`` (Monday is 1), ``hourOfDay``; or ``custom``.
    segments : int, optional
        For ``custom``: number of equal parts of the period from ``since`` to ``until``, 1 to 1,000.
    where, nodes, since, until, filtered, bots
        As in :func:`attrib_ds.search_interactions`.
    sort : str or sequence of str, optional
        Columns of the result to sort by, with ``-`` in front for descending: ``"-sessionCount"``. By default
        ``["interval", "group"]``.
    timezone : str, optional
        IANA name, such as ``"Europe/Paris"``, of the time zone of intervals and of days in ``since`` and
        ``until``. By default intervals are in UTC, and days in the project's time zone.

    Returns
    -------
    DataFrame
        One row per group and interval that has interactions, or a single row without either: ``group``,
        ``interval`` (str), ``sessionCount`` (Int64, interactions online and offline), ``hitCount`` (Int64),
        ``durationSum`` (float64, seconds). With a calendar interval also ``is_partial`` (boolean): ``since``
        or ``until`` lies inside the interval, or it is not over yet. Without ``until``, the day of the last
        interaction is the last one.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> at.interaction_insights(at.sample_project(), interval="quarter")["interval"].tolist()
    ['2025-Q1', '2025-Q2']
    """
    return _counted(project, "interaction_insights", given(locals()))


@takes_project
def page_insights(
    project: Project,
    *,
    page: str | None = None,
    group_by: str | None = None,
    interval: str | None = None,
    where: Predicate | None = None,
    nodes: Predicate | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    sort: str | Sequence[str] | None = None,
    limit: int | None = None,
    filtered: bool | None = False,
    bots: bool | None = False,
    timezone: str | None = None,
) -> pd.DataFrame:
    """Count the views of pages, and the visits that enter and leave on them.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    page : str, optional
        Only this page, such as ``"/thank-you"``, or the pages that match a pattern with ``*``, such as
        ``"/blog/*"``.
    group_by : str, optional
        What the visits are grouped by: ``"channel"`` or ``"campaign"`` of their source, or a property of
        interactions, such as ``"geo.countryCode"``.
    interval : str, optional
        As in :func:`attrib_ds.interaction_insights`, except ``custom``. Intervals use the date of the view.
    where, nodes, filtered, bots
        Conditions on the visits whose views count, as in :func:`attrib_ds.search_interactions`.
    since, until : datetime, date or str, optional
        Bounds of the date of the view, both inclusive. Days and instants are read as in
        :func:`attrib_ds.search_interactions`.
    sort : str or sequence of str, optional
        Columns of the result to sort by, with ``-`` in front for descending: ``"-entries"``. By default
        ``["interval", "-views", "page", "group"]``.
    limit : int, optional
        Maximum number of rows; no limit by default.
    timezone : str, optional
        As in :func:`attrib_ds.interaction_insights`.

    Returns
    -------
    DataFrame
        One row per page, group and interval with views: ``page``, ``group``, ``interval`` (str), and counts
        (Int64): ``views``; ``sessions`` and ``users`` that viewed the page; ``entries``, the views that are
        the first of their visit; ``exits``, the last; ``bounces``, the only one. With a calendar interval
        also ``is_partial`` (boolean), as in :func:`attrib_ds.interaction_insights`.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, there would be more than 100,000 rows, or the project has visits
        without their hits, as a mirror without ``hits=True``; the message names it.

    Notes
    -----
    A page is the path of the URL, without a slash at its end, without query and fragment; a fragment that is
    a route (``#/basket``) belongs to it. Views are hits of the type ``pageview``. Each visit with a view
    enters on one page and leaves on one, so that over all pages and days, entries are as many as exits. First
    and last are told by all views of a visit, also those outside the period. Bounces divided by entries are
    the bounce rate of a page, exits divided by views its exit rate. For a goal, ``page="/thank-you"`` counts
    the visits that reach it in ``sessions``.

    Examples
    --------
    >>> import attrib_ds as at
    >>> pages = at.page_insights(at.sample_project(), group_by="channel", sort="-entries", limit=1)
    >>> pages[["page", "group"]].values.tolist()
    [['/hiking', 'Paid Social']]
    """
    return _counted(project, "page_insights", given(locals()))


@takes_project
def funnel(
    project: Project,
    steps: Sequence[str],
    *,
    window: str | timedelta = "1D",
    group_by: str | None = None,
    where: Predicate | None = None,
    nodes: Predicate | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    filtered: bool | None = False,
    bots: bool | None = False,
) -> pd.DataFrame:
    """Count the users or visits that take steps in order.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    steps : sequence of str
        2 to 10 steps: pages as in :func:`attrib_ds.page_insights` (with a ``/`` or ``*``), and event types.
    window : str or timedelta, default "1D"
        Longest time from the first to the last step of a user: ``"30min"``, ``"12h"``, ``"7D"``; or
        ``"session"``: all steps within one visit.
    group_by : str, optional
        As in :func:`attrib_ds.page_insights`, for the visit of the first step.
    where, nodes, filtered, bots
        Conditions on the visits whose views are steps, as in :func:`attrib_ds.search_interactions`. Unless
        the window is a session, events count with any visit. They have the group of their own visit if it is
        selected.
    since, until : datetime, date or str, optional
        Bounds of the date of the first step, both inclusive; the window may end after them.

    Returns
    -------
    DataFrame
        One row per group and step, groups by descending count: ``group`` (str), ``step`` (Int64, from 1),
        ``name`` (str), ``count`` (Int64, users or visits that reach the step), ``share`` and ``first_share``
        (float64, of those that reach the step before and the first one), ``median_seconds`` (float64, since
        the step before).

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, there would be more than 100,000 rows, or the project has visits
        without their hits; the message names it.

    Notes
    -----
    Steps are ordered, not strict: anything may happen between them. A step is the first view or event of its
    kind after the step before, so that one view is never two steps. Each first step begins an attempt; a user
    counts once, by the attempt that gets furthest, and by the earliest of several. At the same instant, a
    view comes before an event. An event belongs to the latest visit of its user that began before it, until
    30 minutes after the last hit of the visit.

    Examples
    --------
    >>> import attrib_ds as at
    >>> steps = at.funnel(at.sample_project(), ["/", "order"], window="7D")
    >>> steps["count"].is_monotonic_decreasing
    True
    """
    if isinstance(steps, Set):
        raise InvalidRequest("steps: a set has no order; expected a list")
    if window is None:
        raise InvalidRequest("window: None is not allowed; expected 'session', or a time such as '30min'")
    return to_pandas(project.send("funnel", **given(locals())).read())


@takes_project
def event_insights(
    project: Project,
    *,
    metrics: Sequence[str],
    since: datetime | date | str,
    until: datetime | date | str,
    group_by: str = "project",
    interval: str = "day",
    event_type: Sequence[str] | str | Predicate | None = None,
    timezone: str | None = None,
) -> pd.DataFrame:
    """Sum metrics of events by interval, for the project or each event type.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    metrics : sequence of str
        ``"event-count"``, keys of states (events whose state is 1) and of statistics (their sum; for money,
        the sum in the project's currency), and ``"state-delay-<state>"`` (mean, in seconds). A metric without
        events in an interval is 0, and so is a mean delay.
    since, until : datetime, date or str
        Bounds of ``eventDate``, both inclusive. Days and instants are read as in
        :func:`attrib_ds.search_interactions`.
    group_by : {"project", "event-type"}, default "project"
        Whether there is one row per interval, or one per interval and event type.
    interval : str, default "day"
        Calendar: ``day``, ``week``, ``month``, ``quarter``, ``semester``, ``year``; seasonal: ``dayOfWeek``
        (Monday is 1), ``dayOfMonth``, ``dayOfYear``, ``weekOfYear``, ``monthOfYear``, ``quarterOfYear``,
        ``semesterOfYear``.
    event_type : str, sequence of str or Predicate, optional
        With ``group_by="event-type"``: only these event types, or those that meet one comparison of
        ``event("eventType")``.
    timezone : str, optional
        IANA name, such as ``"Europe/Paris"``, of the time zone of intervals and of days in ``since`` and
        ``until``. By default intervals are in UTC, and days in the project's time zone.

    Returns
    -------
    DataFrame
        One row per group and interval that overlaps the period, with or without events:
        ``identifier`` (the project's id, or the reference of the event type), ``interval`` (str) and, for
        each metric, ``values.<metric>`` (float64). By interval, then by identifier. With a calendar interval
        also ``is_partial`` (boolean): ``since`` or ``until`` lies inside the interval, or it is not over yet.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, or there would be more than 100,000 rows; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> rows = at.event_insights(
    ...     at.sample_project(),
    ...     metrics=["event-count"],
    ...     interval="quarter",
    ...     since="2025-01-01",
    ...     until="2025-06-30",
    ... )
    >>> rows["interval"].tolist()
    ['2025-Q1', '2025-Q2']
    """
    event_type = [event_type] if isinstance(event_type, str) else event_type
    frame = _counted(project, "event_insights", given(locals()))
    if group_by == "event-type":
        frame = _of_types(frame, event_type)
    values = [json.loads(text) if isinstance(text, str) else None for text in frame["values"]]
    place = list(frame.columns).index("values")
    for number, key in enumerate(dict.fromkeys(metrics)):
        sums: Any = np.array([_sum(each, key) for each in values], dtype="float64")
        frame.insert(place + number, f"values.{key}", sums)
    return frame.drop(columns="values")


def _of_types(insights: pd.DataFrame, event_type: object) -> pd.DataFrame:
    """Return insights of some event types from a service that may ignore the filter, whose form is open."""
    is_asked = None
    if isinstance(event_type, Comparison) and event_type.operator in _MEMBERSHIPS:
        values = event_type.value if isinstance(event_type.value, tuple) else (event_type.value,)
        is_asked = insights["identifier"].isin(values) == _MEMBERSHIPS[event_type.operator]
    elif isinstance(event_type, Sequence):
        is_asked = insights["identifier"].isin(list(event_type))
    if is_asked is None or is_asked.all():
        return insights
    if not is_asked.any():
        found = listed(tuple(insights["identifier"].astype(str).unique()))
        warn(f"event_insights: the service may ignore event_type; its rows are of {found}")
        return insights
    return insights[is_asked].reset_index(drop=True)


def _sum(values: object, key: str) -> float | None:
    """Return the value of a metric; None if the service does not tell it."""
    if isinstance(values, dict):
        # Some services leave zeros out.
        value = values.get(key, 0)
        value = value.get("amount") if isinstance(value, dict) else value
        number = declared_fields.number(value)
        if number is not None:
            return number
        values = value
    if values is None:
        return None
    raise ServiceFailure(f"event_insights: the service answered {shown(values)} for {key}; expected a number")


def _counted(project: Project, operation: str, asked: dict[str, Any]) -> pd.DataFrame:
    """Return counts; those of calendar intervals with the column ``is_partial``.

    The first and the last interval may be counted in part only.
    """
    interval, timezone = asked["interval"], asked["timezone"]
    bounds: dict[str, Any] = {
        name: project.bound(asked[name], argument=name, timezone=timezone) for name in ("since", "until")
    }
    if timezone not in (None, "UTC"):
        warn_of_addition(project, operation, "timezone", "intervals may be in UTC")
    frame = to_pandas(project.send(operation, **asked | bounds).read())
    if interval in calendar.INTERVALS:
        first, last = (bound and instants.parse(bound, argument=name) for name, bound in bounds.items())
        last = last or _last_day(project, timezone, operation)
        frame["is_partial"] = calendar.counted_in_part(
            frame["interval"], interval, ZoneInfo(timezone or "UTC"), first=first, last=last
        )
    return frame


def _last_day(project: Project, timezone: str | None, operation: str) -> datetime | None:
    """Return the last instant of the last day with an interaction, or with a view; None if there is none."""
    every: dict[str, Any] = {"interval": "day", "sort": "-interval", "filtered": None, "bots": None}
    if operation == "page_insights":
        every["limit"] = 1
    days = project.send(operation, timezone=timezone, **every).read()["interval"]
    if not len(days):
        return None
    try:
        day = date.fromisoformat(str(days[0].as_py())[:10])
    except ValueError:
        # The specification does not show how a day is written.
        return None
    return instants.last_instant(day, ZoneInfo(timezone or "UTC"), argument="until")
