"""Users, their events and metrics, and audiences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pandas as pd

from attrib_ds.api.results import given, page, user_columns_reader, with_event_columns
from attrib_ds.filters import Predicate
from attrib_ds.project import Project, takes_project
from attrib_ds.records import declared_fields, frames


@takes_project
def search_users(
    project: Project,
    *,
    columns: Sequence[str],
    where: Predicate | None = None,
    audience: Predicate | Mapping[str, Any] | None = None,
    sql: str | None = None,
    sort: str | Sequence[str] | None = None,
    multi_field_mode: str = "latest",
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """Search the users of a project who meet all criteria.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    columns : str or sequence of str
        Properties to return, in this order: ``fields.<field>``, ``eventTypesCount.<event type>``,
        ``metrics.<metric>.<aggregation>`` (sum, max, min, count or average), and plain properties such as
        ``eventCount``, ``interactionCount``, ``firstEventDate`` or ``audienceIds``. ``_id`` always comes
        first.
    where : Predicate, optional
        Condition on users, such as ``user("fields.email").contains("@example.com")``. A field with several
        values matches if any value matches. A negative comparison matches if no value does.
    audience : mapping or Predicate, optional
        A condition as in :func:`create_audience`; ``{"type": "audience", "operator": "in", "value": [id]}``
        stands for an existing audience.
    sql : str, optional
        One SELECT statement whose first column has the ids of users.
    sort : str, optional
        A key as in ``columns``, with ``-`` in front for descending. Missing values are last and ties are
        broken by ``_id``. By default ``"_id"``.
    multi_field_mode : {"latest", "earliest", "alphabetical"}, default "latest"
        Which value of a field is returned and sorted by.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per user, one column per key: counts ``Int64``, other numbers ``float64``, instants
        ``datetime64[us, UTC]``, lists as objects. A value of a field has the type that event types declare:
        ``number`` ``float64``, ``boolean`` ``boolean``, ``date`` ``datetime64[us, UTC]``, all others ``str``
        (a location is its address); a value of another type is missing. Fields that no event type declares,
        or two with different types, are ``str``. The whole maps ``eventTypesCount``, ``eventTypeMeta`` and
        ``metrics`` have the columns of :func:`get_user`, and ``mostProbableLocation`` one for each member.
        Columns and dtypes do not depend on the rows. ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, or the project has no such key; the message names it.
    NotFound
        If there is no such audience.

    See Also
    --------
    get_user : All properties of one user, with all values of each field.
    export_users : Write more than fits into memory to a Parquet file.

    Notes
    -----
    Interactions of bots and of filtered traffic do not count, as in
    :func:`attrib_ds.search_interactions` by default.

    Types of fields, and the columns of whole maps, come from the event types of the project, archived ones
    included. A key without the scope ``event-types:read`` gets ``str`` and JSON text.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> buyers = at.search_users(
    ...     shop,
    ...     columns=["eventTypesCount.order", "metrics.turnover.sum"],
    ...     where=at.user("eventTypesCount.order") >= 2,
    ...     sort="-metrics.turnover.sum",
    ...     limit=3,
    ... )
    >>> list(buyers.columns)
    ['_id', 'eventTypesCount.order', 'metrics.turnover.sum']
    """
    answer = project.send("search_users", **given(locals()))
    return page(answer, user_columns_reader(project)(answer.read()))


@takes_project
def get_user(project: Project, id: str) -> pd.Series[Any]:
    """Get one user with all properties.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The user's ``_id``: 24 characters of ``0-9`` and ``a-f``. The id of a merged user stands for the user
        it was merged into.

    Returns
    -------
    Series
        One entry per property, named by the user's id: ``fields.<field>`` (latest value),
        ``eventTypesCount.<event type>``, ``eventTypeMeta.<event type>.count``, ``.firstDate`` and
        ``.lastDate``, ``metrics.<metric>.<aggregation>`` and plain properties, as from :func:`search_users`.
        JSON text: ``fields`` (all values of all fields, with their dates and origins), and
        ``eventTypesCount``, ``eventTypeMeta`` and ``metrics``, which hold only entries that no event type
        declares and sums that leave out amounts without a rate; missing if there are none.

    Raises
    ------
    InvalidRequest
        If the id is not well-formed.
    NotFound
        If there is no such user.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> first = at.search_users(shop, columns=[], limit=1)["_id"].item()
    >>> at.get_user(shop, first)[["_id", "eventTypesCount.order"]].tolist() == [first, 0]
    True
    """
    user = project.send("get_user", id=id).read()
    return frames.to_record(user_columns_reader(project)(user))


@takes_project
def create_audience(project: Project, name: str, condition: Predicate | Mapping[str, Any]) -> pd.Series[Any]:
    """Create an audience: the users who meet a condition at the time of reading.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    name : str
        Display name.
    condition : Predicate or mapping
        On users: ``user("eventCount") > 3``, or an object: ``{"type": "event", "eventType": "order",
        "operator": "greaterThanOrEquals", "value": 2}`` compares the number of events (``since`` and
        ``until`` bound their dates; ``"filter": to_json(event("statistics.turnover") > 100)`` selects some
        of them), ``{"type": "interaction", "filter": ..., "operator": "equals",
        "value": 0}`` the number of interactions, ``{"type": "audience", "operator": "in", "value": [id]}``
        selects members of other audiences, and ``{"type": "condition", "condition": "AND", "rules": [...]}``
        combines them.

    Returns
    -------
    Series
        ``_id``, ``projectId``, ``name``, ``condition`` (JSON text), ``size`` and ``computedAt``; named by the
        id.

    Raises
    ------
    InvalidRequest
        If the condition is not allowed, or the project has no such field, event type or metric.
    NotFound
        If the condition names an audience that does not exist.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> regulars = at.admin.create_audience(shop, "Regulars", at.user("interactionCount") >= 5)
    >>> regulars["name"]
    'Regulars'
    """
    return frames.to_record(project.send("create_audience", name=name, condition=condition).read())


@takes_project
def list_audiences(project: Project, *, limit: int | None = None, offset: int = 0) -> pd.DataFrame:
    """List the audiences of a project by name.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per audience: ``_id``, ``projectId``, ``name``, ``condition`` (JSON text), ``size`` (the
        present number of users) and ``computedAt``. ``frame.attrs["total"]`` counts all.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> _ = at.admin.create_audience(shop, "Regulars", at.user("interactionCount") >= 5)
    >>> at.admin.list_audiences(shop)["name"].tolist()
    ['Regulars']
    """
    return page(project.send("list_audiences", limit=limit, offset=offset))


@takes_project
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
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> regulars = at.admin.create_audience(shop, "Regulars", at.user("interactionCount") >= 5)
    >>> at.admin.get_audience(shop, regulars["_id"])["size"] == regulars["size"]
    True
    """
    return frames.to_record(project.send("get_audience", id=id).read())


@takes_project
def delete_audience(project: Project, id: str) -> int:
    """Delete an audience; its users are unaffected.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The audience's ``_id``.

    Returns
    -------
    int
        1.

    Raises
    ------
    NotFound
        If there is no such audience.
    Conflict
        If the condition of another audience names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> regulars = at.admin.create_audience(shop, "Regulars", at.user("interactionCount") >= 5)
    >>> at.admin.delete_audience(shop, regulars["_id"])
    1
    """
    return int(project.send("delete_audience", id=id).value)


@takes_project
def list_user_events(
    project: Project,
    id: str,
    *,
    attributable: bool | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    sort: str | Sequence[str] | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the events of a user.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The user's ``_id``; that of a merged user stands for the user it was merged into.
    attributable : bool, optional
        True: only events with an eligible interaction of the user in the 30 days before. All events by
        default and with False.
    since, until : datetime, date or str, optional
        Bounds of ``eventDate``, both inclusive. Days and instants are read as in
        :func:`attrib_ds.search_interactions`.
    sort : str, optional
        ``"eventDate"``, ``"createdAt"``, ``"updatedAt"`` or ``"_id"``, with ``-`` in front for descending. By
        default ``"-eventDate"``.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per event, with the columns of :func:`get_event`; none for an unknown user. Columns and
        dtypes do not depend on the rows. :func:`attrib_ds.load` reads such a frame.
        ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> busiest = at.search_users(shop, columns=["eventCount"], sort="-eventCount", limit=1)
    >>> events = at.list_user_events(shop, busiest["_id"].item())
    >>> len(events) == int(busiest["eventCount"].item())
    True
    >>> events[["statistics.turnover.amount", "states.confirmed"]].dtypes.tolist()
    [dtype('float64'), Int64Dtype()]
    """
    answer = project.send("list_user_events", **given(locals()))
    return page(answer, with_event_columns(project, answer.read()))


@takes_project
def list_user_metrics(
    project: Project,
    id: str,
    *,
    type: str | None = None,  # noqa: A002  (the name of the specification)
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    sort: str | Sequence[str] | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the states and statistics of a user's events.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The user's ``_id``; that of a merged user stands for the user it was merged into.
    type : str, optional
        ``state`` or ``statistic``; by default both.
    since, until : datetime, date or str, optional
        Bounds of ``data.date``, both inclusive. Days and instants are read as in
        :func:`attrib_ds.search_interactions`.
    sort : str, optional
        ``"createdAt"``, ``"updatedAt"`` or ``"metricDate"``, with ``-`` in front for descending. By default
        ``"-metricDate"``.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per metric: ``_id``, ``projectId``, ``eventId``, ``key``, ``type``, ``data.type``,
        ``data.date``, ``data.current`` (``float64``) or, for an amount of money, ``data.current.amount``
        (``float64``) and ``data.current.currency`` (``str``), the same of ``data.raw``, and the rest.
        ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.
    NotFound
        If there is no such user.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> busiest = at.search_users(shop, columns=["eventCount"], sort="-eventCount", limit=1)
    >>> metrics = at.list_user_metrics(shop, busiest["_id"].item(), type="statistic")
    >>> int((metrics["key"] == "event-count").sum()) == int(busiest["eventCount"].item())
    True
    """
    answer = project.send("list_user_metrics", **given(locals()))
    return page(answer, declared_fields.typed_metrics(answer.read()))
