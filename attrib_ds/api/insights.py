"""Insights: interactions counted and metrics of events summed, by group and interval."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd

from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from attrib_ds.filters import Predicate
    from attrib_ds.project import Project


def interaction_insights(
    project: Project,
    *,
    group: str | None = None,
    interval: str | None = None,
    segments: int | None = None,
    where: Predicate | None = None,
    nodes: Predicate | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    sort: Mapping[str, int] | None = None,
    filtered: bool | None = False,
    bots: bool | None = False,
    timezone: str | None = None,
) -> pd.DataFrame:
    """Count interactions, hits and their duration by group and interval.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    group : str, optional
        One property, such as ``"geo.countryCode"``; interactions without it fall in a null group.
    interval : str, optional
        Calendar: ``year``, ``semester``, ``quarter``, ``month``, ``week``, ``day``; seasonal:
        ``semesterOfYear``, ``quarterOfYear``, ``monthOfYear``, ``weekOfYear``, ``dayOfYear``,
        ``dayOfMonth``, ``dayOfWeek`` (Monday is 1), ``hourOfDay``; or ``custom``.
    segments : int, optional
        For ``custom``: the number of equal parts of ``since`` to ``until``, 1 to 1,000.
    where, nodes, since, until, filtered, bots
        As in :func:`attrib_ds.search_interactions`.
    sort : mapping of str to int, optional
        Column of the result to 1 or -1; by default interval, then group.
    timezone : str, optional
        IANA name, such as ``"Europe/Paris"``, of the calendar that intervals follow; UTC by default.

    Returns
    -------
    DataFrame
        One row per group and interval that has interactions, or a single row without either: ``group``,
        ``interval`` (str), ``sessionCount`` (Int64, interactions online and offline), ``hitCount`` (Int64),
        ``durationSum`` (float64, seconds).

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> from attrib_ds import interaction_insights, sample_project
    >>> interaction_insights(sample_project(), interval="quarter")["interval"].tolist()
    ['2025-Q1', '2025-Q2']
    """
    answer = project.send(
        "interaction_insights",
        group=group,
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
    return to_pandas(answer.read())


def event_insights(
    project: Project,
    *,
    metrics: Sequence[str],
    since: datetime | str,
    until: datetime | str,
    group_by: str = "project",
    interval: str = "day",
    event_types: Sequence[str] | Predicate | None = None,
    timezone: str | None = None,
) -> pd.DataFrame:
    """Sum metrics of events by interval, for the project or each event type.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    metrics : sequence of str
        ``"event-count"``, keys of states (events whose state is 1) and of statistics (their sum; of money,
        that of the amounts in the project's currency), and ``"state-delay-<state>"`` (mean, in seconds). A
        key that nothing has is 0, a mean delay too: the service fills every interval with numbers.
    since, until : datetime or str
        Bounds of ``eventDate``, both inclusive; without an offset they are UTC.
    group_by : {"project", "event-type"}, default "project"
        What has rows of its own.
    interval : str, default "day"
        Calendar: ``day``, ``week``, ``month``, ``quarter``, ``semester``, ``year``; seasonal: ``dayOfWeek``
        (Monday is 1), ``dayOfMonth``, ``dayOfYear``, ``weekOfYear``, ``monthOfYear``, ``quarterOfYear``,
        ``semesterOfYear``.
    event_types : sequence of str or Predicate, optional
        For ``event-type``: only these, or those that a comparison of ``event("eventType")`` keeps.
    timezone : str, optional
        IANA name, such as ``"Europe/Paris"``, of the calendar that intervals follow; UTC by default.

    Returns
    -------
    DataFrame
        One row per interval that touches the bounds and per group, also where nothing happened:
        ``identifier`` (the project's id, or the reference of the event type), ``interval`` (str) and, for
        each metric, ``values.<metric>`` (float64). By interval, then by identifier.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, or there would be more than 100,000 rows; the message names it.

    Examples
    --------
    >>> from attrib_ds import event_insights, sample_project
    >>> half_year = {"since": "2025-01-01T00:00:00Z", "until": "2025-06-30T00:00:00Z"}
    >>> rows = event_insights(sample_project(), metrics=["event-count"], interval="quarter", **half_year)
    >>> rows["interval"].tolist()
    ['2025-Q1', '2025-Q2']
    """
    answer = project.send(
        "event_insights",
        metrics=metrics,
        since=since,
        until=until,
        group_by=group_by,
        interval=interval,
        event_types=event_types,
        timezone=timezone,
    )
    frame = to_pandas(answer.read())
    values = [json.loads(each) for each in frame.pop("values")]
    for key in dict.fromkeys(metrics):
        frame[f"values.{key}"] = pd.array([each[key] for each in values], dtype="float64")
    return frame
