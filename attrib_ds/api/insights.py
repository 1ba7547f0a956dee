"""Insights: interactions counted and metrics of events summed, by group and interval."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from attrib_ds import instants
from attrib_ds.attribution import calendar
from attrib_ds.filters import Predicate
from attrib_ds.project import Project
from attrib_ds.records.frames import to_pandas


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
    since = project.bound(since, argument="since", timezone=timezone)
    until = project.bound(until, argument="until", timezone=timezone)
    answer = project.send(
        "interaction_insights",
        group_by=group_by,
        interval=interval,
        segments=segments,
        where=where,
        nodes=nodes,
        since=since,
        until=until,
        sort=sort,
        filtered=filtered,
        bots=bots,
        timezone=timezone,
    )
    frame = to_pandas(answer.read())
    if interval in calendar.INTERVALS:
        last = _last_day(project, timezone) if until is None else instants.parse(until, argument="until")
        _mark_partial(frame, interval, since=since, last=last, timezone=timezone)
    return frame


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
    since = project.bound(since, argument="since", timezone=timezone)
    until = project.bound(until, argument="until", timezone=timezone)
    answer = project.send(
        "event_insights",
        metrics=metrics,
        since=since,
        until=until,
        group_by=group_by,
        interval=interval,
        event_type=[event_type] if isinstance(event_type, str) else event_type,
        timezone=timezone,
    )
    frame = to_pandas(answer.read())
    values = [json.loads(text) for text in frame.pop("values")]
    for key in dict.fromkeys(metrics):
        frame[f"values.{key}"] = pd.array([sums[key] for sums in values], dtype="float64")
    if interval in calendar.INTERVALS:
        last = instants.parse(until, argument="until")
        _mark_partial(frame, interval, since=since, last=last, timezone=timezone)
    return frame


def _last_day(project: Project, timezone: str | None) -> datetime | None:
    """Return the last instant of the last day with an interaction; None if there is none."""
    answer = project.send(
        "interaction_insights", interval="day", sort="-interval", timezone=timezone, filtered=None, bots=None
    )
    days = answer.read()["interval"]
    if not len(days):
        return None
    day = date.fromisoformat(days[0].as_py())
    return instants.last_instant(day, ZoneInfo(timezone or "UTC"), argument="until")


def _mark_partial(
    frame: pd.DataFrame, interval: str, *, since: Any, last: datetime | None, timezone: str | None
) -> None:
    """Add the column ``is_partial``: the first and the last interval may be counted in part only."""
    first = None if since is None else instants.parse(since, argument="since")
    frame["is_partial"] = calendar.counted_in_part(
        frame["interval"], interval, ZoneInfo(timezone or "UTC"), first=first, last=last
    )
