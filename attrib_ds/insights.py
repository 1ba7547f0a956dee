"""Insights: interactions counted by group and interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import pandas as pd

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
    return to_pandas(answer.table)
