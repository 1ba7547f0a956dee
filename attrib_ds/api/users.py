"""Users and audiences, as DataFrames."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from attrib_ds.api.search_results import search
from attrib_ds.records.frames import to_pandas, to_record

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import pandas as pd

    from attrib_ds.filters import Predicate
    from attrib_ds.project import Project


@overload
def search_users(
    project: Project,
    *,
    fields: Sequence[str],
    where: Predicate | None = ...,
    audience: Predicate | Mapping[str, Any] | None = ...,
    sql: str | None = ...,
    sort: str | None = ...,
    descending: bool | None = ...,
    id_after: str | None = ...,
    id_from: str | None = ...,
    id_to: str | None = ...,
    multi_field_mode: str = ...,
    limit: int | None = ...,
    offset: int = ...,
    chunks: Literal[False] = ...,
    to: None = ...,
) -> pd.DataFrame: ...


@overload
def search_users(
    project: Project,
    *,
    fields: Sequence[str],
    where: Predicate | None = ...,
    audience: Predicate | Mapping[str, Any] | None = ...,
    sql: str | None = ...,
    sort: str | None = ...,
    descending: bool | None = ...,
    id_after: str | None = ...,
    id_from: str | None = ...,
    id_to: str | None = ...,
    multi_field_mode: str = ...,
    limit: int | None = ...,
    offset: int = ...,
    chunks: Literal[True],
    to: None = ...,
) -> Iterator[pd.DataFrame]: ...


@overload
def search_users(
    project: Project,
    *,
    fields: Sequence[str],
    where: Predicate | None = ...,
    audience: Predicate | Mapping[str, Any] | None = ...,
    sql: str | None = ...,
    sort: str | None = ...,
    descending: bool | None = ...,
    id_after: str | None = ...,
    id_from: str | None = ...,
    id_to: str | None = ...,
    multi_field_mode: str = ...,
    limit: int | None = ...,
    offset: int = ...,
    chunks: Literal[False] = ...,
    to: str | os.PathLike[str],
) -> Path: ...


def search_users(
    project: Project,
    *,
    fields: Sequence[str],
    where: Predicate | None = None,
    audience: Predicate | Mapping[str, Any] | None = None,
    sql: str | None = None,
    sort: str | None = None,
    descending: bool | None = None,
    id_after: str | None = None,
    id_from: str | None = None,
    id_to: str | None = None,
    multi_field_mode: str = "latest",
    limit: int | None = None,
    offset: int = 0,
    chunks: bool = False,
    to: str | os.PathLike[str] | None = None,
) -> pd.DataFrame | Iterator[pd.DataFrame] | Path:
    """Search the users of a project; all criteria hold together.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    fields : sequence of str
        What to return, in this order: ``fields.<field>``, ``eventTypesCount.<event type>``,
        ``metrics.<metric>.<aggregation>`` (sum, max, min, count or average), and what stands for itself, such
        as ``eventCount``, ``interactionCount``, ``firstEventDate`` or ``audienceIds``. ``_id`` always comes
        first.
    where : Predicate, optional
        On users: ``user("fields.email").contains("@example.com")``. A field of several values matches when
        any of them does; a negative comparison, when none does.
    audience : mapping or Predicate, optional
        A condition as :func:`create_audience` takes it; ``{"type": "audience", "operator": "in", "value":
        [id]}`` stands for an audience that is there.
    sql : str, optional
        One SELECT whose first column yields ids of users.
    sort : str, optional
        A key as in ``fields``; missing values are last and ties are broken by ``_id``. By default ``_id``.
    descending : bool, optional
        The greatest first; by default the smallest.
    id_after, id_from, id_to : str, optional
        Bounds of the ``_id``: exclusive, inclusive and exclusive. A walk through many users sorts by ``_id``
        and goes on after the last one of the page before.
    multi_field_mode : {"latest", "earliest", "alphabetical"}, default "latest"
        Which value of a field is returned and sorted by.
    limit : int, optional
        At most so many, 0 or more; all by default.
    offset : int, default 0
        How many to skip.
    chunks : bool, default False
        Return the rows frame by frame, for what does not fit into memory.
    to : path-like, optional
        Write the rows to this Parquet file instead, in place of one that is there.

    Returns
    -------
    DataFrame
        One row per user, one column per key: values of fields ``str``, counts ``Int64``, other numbers
        ``float64``, instants ``datetime64[us, UTC]``, lists as objects, whole objects JSON text.
        ``mostProbableLocation`` has a column for each member. Columns and dtypes do not depend on the rows.
        ``frame.attrs["total"]`` counts all that match.
        With ``chunks`` an iterator of such frames, at least one, and with ``to`` the path of the file, which
        is there when all rows are in it.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, or the project does not know a key; the message names it.
    NotFound
        If there is no such audience.

    See Also
    --------
    get_user : Every property of one user, every value of each field.

    Notes
    -----
    Interactions of bots and of filtered traffic do not count, as in
    :func:`attrib_ds.search_interactions` by default.

    Examples
    --------
    >>> from attrib_ds import sample_project, search_users, user
    >>> shop = sample_project()
    >>> buyers = search_users(
    ...     shop,
    ...     fields=["eventTypesCount.order", "metrics.turnover.sum"],
    ...     where=user("eventTypesCount.order") >= 2,
    ...     sort="metrics.turnover.sum",
    ...     descending=True,
    ...     limit=3,
    ... )
    >>> list(buyers.columns)
    ['_id', 'eventTypesCount.order', 'metrics.turnover.sum']
    """
    arguments = {
        "fields": fields,
        "where": where,
        "audience": audience,
        "sql": sql,
        "sort": sort,
        "descending": descending,
        "id_after": id_after,
        "id_from": id_from,
        "id_to": id_to,
        "multi_field_mode": multi_field_mode,
        "limit": limit,
        "offset": offset,
    }
    return search(project, "search_users", arguments, chunks=chunks, to=to, read=_with_texts)


def get_user(project: Project, id: str) -> pd.Series[Any]:
    """Get one user with every property.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The user's ``_id``: 24 characters of ``0-9`` and ``a-f``. The id of a user who was merged into
        another one stands for that one.

    Returns
    -------
    Series
        One entry per property, named by the user's id. ``fields`` is JSON text of every value of every
        field; ``eventTypesCount``, ``eventTypeMeta`` and ``metrics`` are JSON text too.

    Raises
    ------
    InvalidRequest
        If the id is not well-formed.
    NotFound
        If there is no such user.

    Examples
    --------
    >>> from attrib_ds import get_user, sample_project, search_users
    >>> shop = sample_project()
    >>> first = search_users(shop, fields=[], limit=1)["_id"].item()
    >>> get_user(shop, first)["_id"] == first
    True
    """
    return to_record(project.send("get_user", id=id).read())


def create_audience(
    project: Project, *, name: str, condition: Predicate | Mapping[str, Any]
) -> pd.Series[Any]:
    """Create an audience: the users who meet a condition, whenever it is read.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    name : str
        Display name.
    condition : Predicate or mapping
        On users: ``user("eventCount") > 3``, or an object: ``{"type": "event", "eventType": "order",
        "operator": "greaterThanOrEquals", "value": 2}`` compares the number of events (``since`` and
        ``until`` bound their dates), ``{"type": "interaction", "filter": ..., "operator": "equals",
        "value": 0}`` that of interactions, ``{"type": "audience", "operator": "in", "value": [id]}`` asks for
        members of other audiences, and ``{"type": "condition", "condition": "AND", "rules": [...]}`` combines
        them.

    Returns
    -------
    Series
        ``_id``, ``projectId``, ``name``, ``condition`` (JSON text), ``size`` and ``computedAt``; named by the
        id.

    Raises
    ------
    InvalidRequest
        If the condition is not allowed, or names what the project does not know.
    NotFound
        If it names an audience that is not there.

    Examples
    --------
    >>> from attrib_ds import create_audience, sample_project, user
    >>> shop = sample_project()
    >>> regulars = create_audience(shop, name="Regulars", condition=user("interactionCount") >= 5)
    >>> regulars["name"]
    'Regulars'
    """
    return to_record(project.send("create_audience", name=name, condition=condition).read())


def list_audiences(project: Project, *, limit: int | None = None, offset: int = 0) -> pd.DataFrame:
    """List the audiences of a project by name.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    limit : int, optional
        At most so many; all by default.
    offset : int, default 0
        How many to skip.

    Returns
    -------
    DataFrame
        One row per audience: ``_id``, ``projectId``, ``name``, ``condition`` (JSON text), ``size`` (how many
        users belong to it now) and ``computedAt``. ``frame.attrs["total"]`` counts all.

    Examples
    --------
    >>> from attrib_ds import create_audience, list_audiences, sample_project, user
    >>> shop = sample_project()
    >>> _ = create_audience(shop, name="Regulars", condition=user("interactionCount") >= 5)
    >>> list_audiences(shop)["name"].tolist()
    ['Regulars']
    """
    answer = project.send("list_audiences", limit=limit, offset=offset)
    frame = to_pandas(answer.read())
    frame.attrs["total"] = answer.total
    return frame


def get_audience(project: Project, id: str) -> pd.Series[Any]:
    """Get one audience with its present size.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The audience's ``_id``.

    Returns
    -------
    Series
        As from :func:`create_audience`.

    Raises
    ------
    NotFound
        If there is no such audience.

    Examples
    --------
    >>> from attrib_ds import create_audience, get_audience, sample_project, user
    >>> shop = sample_project()
    >>> regulars = create_audience(shop, name="Regulars", condition=user("interactionCount") >= 5)
    >>> get_audience(shop, regulars["_id"])["size"] == regulars["size"]
    True
    """
    return to_record(project.send("get_audience", id=id).read())


def delete_audience(project: Project, id: str) -> int:
    """Delete an audience; its users stay as they are.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The audience's ``_id``.

    Returns
    -------
    int
        How many were deleted: 1.

    Raises
    ------
    NotFound
        If there is no such audience.
    Conflict
        If the condition of another audience names it.

    Examples
    --------
    >>> from attrib_ds import create_audience, delete_audience, sample_project, user
    >>> shop = sample_project()
    >>> regulars = create_audience(shop, name="Regulars", condition=user("interactionCount") >= 5)
    >>> delete_audience(shop, regulars["_id"])
    1
    """
    return int(str(project.send("delete_audience", id=id).value))


def list_user_events(
    project: Project,
    id: str,
    *,
    attributable: bool | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    sort: str | None = None,
    descending: bool | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the events of a user.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The user's ``_id``; one that was merged away stands for the user it was merged into.
    attributable : bool, optional
        True: only events that an eligible interaction of the user came before, in 30 days. By default, and
        with False, all.
    since, until : datetime or str, optional
        Bounds on ``eventDate``, inclusive; without an offset they are UTC.
    sort : str, optional
        ``eventDate``, ``createdAt``, ``updatedAt`` or ``_id``; by default ``eventDate``, the newest first.
    descending : bool, optional
        The greatest first.
    limit : int, optional
        Most events to return; by default all.
    offset : int, default 0
        Events to skip.

    Returns
    -------
    DataFrame
        One row per event, with the columns of :func:`get_event`; none for an unknown user.
        ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.

    Examples
    --------
    >>> from attrib_ds import list_user_events, sample_project, search_users
    >>> shop = sample_project()
    >>> busiest = search_users(shop, fields=["eventCount"], sort="eventCount", descending=True, limit=1)
    >>> events = list_user_events(shop, busiest["_id"].item())
    >>> len(events) == int(busiest["eventCount"].item())
    True
    """
    answer = project.send(
        "list_user_events",
        id=id,
        attributable=attributable,
        since=since,
        until=until,
        sort=sort,
        descending=descending,
        limit=limit,
        offset=offset,
    )
    frame = to_pandas(answer.read())
    frame.attrs["total"] = answer.total
    return frame


def list_user_metrics(
    project: Project,
    id: str,
    *,
    type: str | None = None,  # noqa: A002  (the name of the specification)
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    sort: str | None = None,
    descending: bool | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the states and statistics of a user's events.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The user's ``_id``; one that was merged away stands for the user it was merged into.
    type : str, optional
        ``state`` or ``statistic``; by default both.
    since, until : datetime or str, optional
        Bounds on ``data.date``, inclusive; without an offset they are UTC.
    sort : str, optional
        ``createdAt``, ``updatedAt`` or ``metricDate``; by default ``metricDate``, the newest first.
    descending : bool, optional
        The greatest first.
    limit : int, optional
        Most metrics to return; by default all.
    offset : int, default 0
        Metrics to skip.

    Returns
    -------
    DataFrame
        One row per metric: ``_id``, ``projectId``, ``eventId``, ``key``, ``type``, ``data.type``,
        ``data.date``, ``data.raw`` and ``data.current`` (JSON text) and the rest. ``frame.attrs["total"]``
        counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.
    NotFound
        If there is no such user.

    Examples
    --------
    >>> from attrib_ds import list_user_metrics, sample_project, search_users
    >>> shop = sample_project()
    >>> busiest = search_users(shop, fields=["eventCount"], sort="eventCount", descending=True, limit=1)
    >>> metrics = list_user_metrics(shop, busiest["_id"].item(), type="statistic")
    >>> int((metrics["key"] == "event-count").sum()) == int(busiest["eventCount"].item())
    True
    """
    answer = project.send(
        "list_user_metrics",
        id=id,
        type=type,
        since=since,
        until=until,
        sort=sort,
        descending=descending,
        limit=limit,
        offset=offset,
    )
    frame = to_pandas(answer.read())
    frame.attrs["total"] = answer.total
    return frame


def _with_texts(table: pa.Table) -> pa.Table:
    """Return users with what their fields say in place of the entries."""
    for position, name in enumerate(table.column_names):
        if name.startswith("fields."):
            texts = pa.array([_text(entries) for entries in table[name].to_pylist()], pa.string())
            table = table.set_column(position, name, texts)
    return table


def _text(entries: object) -> str | None:
    """Return what the one value of a field says: an address of a location, otherwise text or JSON."""
    values = json.loads(entries) if isinstance(entries, str) else []
    if not values or values[0]["current"] is None:
        return None
    current = values[0]["current"]
    if isinstance(current, dict) and isinstance(current.get("formattedAddress"), str):
        current = current["formattedAddress"]
    return current if isinstance(current, str) else json.dumps(current, ensure_ascii=False)
