"""Conversion paths: the conversions of a project, or of a segment, with the touchpoints that led to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import ibis.expr.types as ir
import pandas as pd

from attrib_ds import instants, mirroring
from attrib_ds.attribution.calendar import zone_of
from attrib_ds.attribution.paths import inputs, project_tables
from attrib_ds.attribution.paths.money import OCCURRED, Money, apply_later_amounts
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.attribution.paths.windows import DIRECT, WINDOW_NODE, Lookback, Window, pair
from attrib_ds.errors import InvalidRequest, NotSupported, check_choice, closest, warn
from attrib_ds.filters import Predicate, ibis_form
from attrib_ds.filters.predicates import comparisons
from attrib_ds.filters.vocabulary import STATISTICS
from attrib_ds.project import Project, takes_project
from attrib_ds.queries.insights import filtered_events
from attrib_ds.records.currencies import checked_code
from attrib_ds.records.frames import TEXT, Frame, to_pandas

if TYPE_CHECKING:
    from attrib_ds.attribution.paths.project_tables import Tables


_LONGEST = timedelta(days=365)
_SHORTEST = timedelta(days=1)
_NO_EVENTS = "the project has no events yet"
#: Type of the metric of a field of an event.
_METRICS = {"state": "state", "number": "statistic", "currency": "statistic"}
#: Types of interactions, whether or not the project has any.
_TYPES = ("session", "offline")


@takes_project
def conversion_paths(
    project: Project,
    *,
    event_type: str | Sequence[str] | None = None,
    conversion_page: str | None = None,
    statistic: str = "event-count",
    state: str | None = None,
    since: datetime | date | str | None = None,
    until: datetime | date | str | None = None,
    lookback: Lookback = "30D",
    where: Predicate | None = None,
    audience: Predicate | Mapping[str, Any] | None = None,
    nodes: Predicate | None = None,
    level: str | None = None,
    milestones: Mapping[str, str] | None = None,
    node_lookbacks: Mapping[str, str | timedelta] | None = None,
    precedence: Sequence[str] | None = None,
    reset: str = "none",
    anchor: str = "event",
    adjustments: Sequence[str] = (),
    in_currency: str | None = None,
    rates: Frame | None = None,
    later_rate: str = "original",
) -> Paths:
    """Find the touchpoints that led to events, or to visits of a page.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    event_type : str or sequence of str, optional
        References of the event types whose events are conversions.
    conversion_page : str, optional
        Instead of ``event_type``: path of the page that confirms a conversion, such as ``"/thank-you"`` or
        ``"/orders/*/thanks"``. Each visit that views it is one conversion, at its first view.
    statistic : str, default "event-count"
        Statistic of the events that is credited beside the number of conversions, such as ``"turnover"``. An
        event without it is a conversion of value 0. Changes by later updates count as later amounts, at the
        date of the update.
    state : str, optional
        Only events on which this state is 1.
    since, until : datetime, date or str, optional
        Bounds of the date that ``anchor`` names, both inclusive. A day such as ``"2025-04-01"`` stands for
        its start in ``since`` and for its end in ``until``, in the project's time zone; instants without an
        offset are UTC.
    lookback : str, timedelta or mapping, default "30D"
        Touchpoints in ``(eventDate - lookback, eventDate]`` belong to the path; 1 to 365 days. A mapping has
        one lookback per type of interaction, such as ``{"session": "30D", "offline": "90D"}``, and
        ``"default"`` for the other types.
    where : Predicate, optional
        Condition on interactions, to select the eligible touchpoints; on events, to select the conversions;
        or on users, to select those whose conversions and touchpoints count, as in :func:`search_users`. Bots
        and filtered traffic are never eligible.
    audience : Predicate or mapping, optional
        Only conversions and touchpoints of these users: an audience as in :func:`search_users`, or a
        predicate on users beside a ``where`` on interactions or events. Users are selected when the paths are
        built. The spend of the paths is that of all users.
    nodes : Predicate, optional
        On the node of a touchpoint.
    level : str, optional
        Credit the ancestor of this type (``"campaign"``), or the channel (``"channel"``), instead of the node
        that was touched. The credits then include the spend of the project.
    milestones : mapping of str to str, optional
        Names of milestones with the states whose dates they have: ``{"lead": "qualified"}``.
    node_lookbacks : mapping of str to str or timedelta, optional
        Lookbacks of nodes and their descendants, by ``_id``; they take precedence over those of types.
    precedence : sequence of str, optional
        Types of interactions in order of precedence: with ``("session", "offline")``, a window that has a
        session leaves out offline interactions. By default all count.
    reset : {"none", "same", "any"}, default "none"
        Which earlier events of the user limit a window, so that an interaction counts only for the first
        event after it: none; events of ``event_type`` that meet ``state`` and ``where``, in any period; or
        all events.
    anchor : {"event", "state"}, default "event"
        Date at which a window ends: that of the event, so that later states do not change its path, or that
        of the state.
    adjustments : sequence of str, optional
        Further statistics that are added to the value as later amounts, such as negative refunds; not
        ``statistic`` itself.
    in_currency : str, optional
        Convert all values and the spend to this currency, at the rate of the event's date (for spend, of each
        day). By default each currency has rows of its own.
    rates : DataFrame, optional
        ``currency``, ``date`` (first day of the rate) and ``rate`` (value of one unit in ``in_currency``); by
        default the rates of the project, which are to its own currency.
    later_rate : {"original", "own"}, default "original"
        Date at which later amounts are converted: that of their event, so that a full refund cancels it, or
        their own.

    Returns
    -------
    Paths
        Lazy; one row per touchpoint once computed.

    Raises
    ------
    InvalidRequest
        If an event type, the statistic or the state is unknown, an argument is not allowed, or a currency
        has no rate on a day.
    NotFound
        If there is no such audience.
    NotSupported
        If users are to be selected, and the project is over tables without ``users``.

    Warns
    -----
    InputWarning
        If no visit has a view of ``conversion_page``. The result then has no conversions.

    Notes
    -----
    A remote project is mirrored into memory first, all of it. For more than one call, or for a large project,
    mirror it into a file by :func:`attrib_ds.sync`, which later reads only what has changed. Of a statistic
    that was updated, a mirror has the last value only.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> paths = at.conversion_paths(shop, event_type="order", statistic="turnover", level="channel")
    >>> credits = at.attribute(paths, ["first_touch", "last_touch"])
    >>> sorted(set(credits["model"]))
    ['first_touch', 'last_touch']
    """
    tables = mirroring.tables_of(project)
    if (event_type is None) == (conversion_page is None):
        raise InvalidRequest("event_type: pass either an event type or conversion_page")
    if conversion_page is not None:
        tables = replace(tables, events=_with_views(project, tables, conversion_page))
        event_types = [conversion_page]
    elif event_type is not None:
        event_types = _event_types(project, tables, event_type)
    period = _Period.of(project, since, until)
    window = Window.of(
        lookback,
        of_nodes=node_lookbacks,
        precedence=precedence,
        reset=reset,
        anchor=anchor,
        bounds=(_SHORTEST, _LONGEST),
    )
    money = _money(tables, in_currency, rates, later_rate)
    where, nodes, audience = (project.with_instants(given) for given in (where, nodes, audience))
    on = _by_kind(where)
    if nodes is not None and getattr(nodes, "kind", None) != "node":
        kind = nodes.kind if isinstance(nodes, Predicate) else type(nodes).__name__
        raise InvalidRequest(f"nodes: a predicate on {kind} is not allowed; allowed: node(…)")
    segment = users_of_segment(project, tables, on.get("user"), audience)
    events = _of_users(_events(project, tables, event_types, on.get("event")), segment)
    added = _require_names(adjustments)
    if statistic in added:
        raise InvalidRequest(
            f"adjustments: {statistic!r} is the statistic itself, which would count twice; allowed: others, "
            "such as ['refund']"
        )
    _check_keys(
        project,
        tables,
        event_types,
        {"statistic": [statistic], "adjustments": added},
        [state, *(milestones or {}).values()],
    )
    tree = _tree(tables, level, node_lookbacks or {})
    touchpoints = _of_users(_touchpoints(tables, tree, on.get("interaction"), nodes), segment, "user_id")
    if window.named_types:
        window.require_types([*_TYPES, *inputs.touch_types(touchpoints)])
    conversions = inputs.anchored(_dated(tables, events, state, milestones or {}), anchor)
    if reset != "none":
        conversions = project_tables.reset_after(tables, conversions, of_any=reset == "any")
    conversions = project_tables.with_value(tables, period.kept(conversions), statistic)
    conversions, later = apply_later_amounts(
        conversions, project_tables.later_amounts(tables, statistic, added), money
    )
    zone = zone_of(tables.timezone)
    spend = None if level is None else _spend(tables, tree, period, zone, money)
    arguments = {
        "event_type": ", ".join(event_types),
        "statistic": statistic,
        "state": state,
        "level": level,
        "where": repr(on["interaction"]) if "interaction" in on else None,
        "nodes": None if nodes is None else repr(nodes),
    }
    return Paths(
        touches=pair(touchpoints, conversions, window=window),
        touchpoints=touchpoints,
        nodes=tree[["node_id", "name", "type", "parent_id"]],
        spend=spend,
        conversions=conversions,
        later=later,
        window=window,
        timezone=tables.timezone,
        settings=window.described()
        | money.described()
        | {name: value for name, value in arguments.items() if value is not None}
        | period.described(),
        date_columns=("interactions['startDate']", "events['eventDate']"),
        owner=project,
    )


def _with_views(project: Project, tables: Tables, page: str) -> ir.Table:
    """Return the events, and the first view of a page in each visit as events of a type named after it."""
    views = to_pandas(project.send("page_conversions", conversion_page=page).read())
    if views.empty:
        warn(f"conversion_page: no visit has a view of {page!r}, so there are no conversions")
    views["eventDate"] = views["eventDate"].dt.tz_localize(None)
    views["eventType"] = pd.Series(page, index=views.index, dtype=TEXT)
    columns = ["_id", "userId", "eventDate", "eventType"]
    return tables.events.select(columns).union(project_tables.lazy(views[columns]))


@dataclass(frozen=True)
class _Period:
    """Bounds in naive UTC, as the tables hold instants."""

    since: datetime | None
    until: datetime | None
    #: Where spend ends: amounts are spread over continuous time, so a whole last day ends with the next one.
    spend_until: datetime | None

    @classmethod
    def of(
        cls, project: Project, since: datetime | date | str | None, until: datetime | date | str | None
    ) -> _Period:
        start, end = _naive(project, since, "since"), _naive(project, until, "until")
        if start is not None and end is not None and start > end:
            raise InvalidRequest(f"until: {until!s} is before since, {since!s}")
        is_day = instants.parse_day(until, argument="until") is not None
        return cls(start, end, end + instants.RESOLUTION if end is not None and is_day else end)

    def kept(self, conversions: ir.Table) -> ir.Table:
        """Keep the conversions of the period."""
        if self.since is not None:
            conversions = conversions.filter(conversions.event_date >= self.since)
        if self.until is not None:
            conversions = conversions.filter(conversions.event_date <= self.until)
        return conversions

    def described(self) -> dict[str, str]:
        """Return the bounds that are set, as text."""
        bounds = {"since": self.since, "until": self.until}
        return {name: f"{bound.isoformat()}Z" for name, bound in bounds.items() if bound is not None}


def _naive(project: Project, value: datetime | date | str | None, argument: str) -> datetime | None:
    if value is None:
        return None
    bound = project.bound(value, argument=argument)
    return instants.naive(instants.parse_exact(bound, argument=argument))


def _by_kind(where: Predicate | None) -> dict[str, Predicate]:
    if where is None:
        return {}
    kind = where.kind if isinstance(where, Predicate) else type(where).__name__
    if isinstance(where, Predicate) and kind in {"interaction", "event", "user"}:
        return {kind: where}
    raise InvalidRequest(
        f"where: a predicate on {kind} is not allowed; allowed: interaction(…), event(…) or user(…); "
        "pass node(…) as nodes="
    )


def _of_users(rows: ir.Table, users: ir.Table | None, user: str = "userId") -> ir.Table:
    """Keep the rows of a segment of users; those of other users lead to no conversion of the segment."""
    return rows if users is None else rows.semi_join(users, rows[user] == users["_id"])


def _require_names(adjustments: Sequence[str]) -> list[str]:
    if isinstance(adjustments, str) or not all(isinstance(name, str) for name in adjustments):
        raise InvalidRequest.value("adjustments", adjustments, "a list of statistics, such as ['refund']")
    return list(adjustments)


def _money(tables: Tables, in_currency: str | None, rates: Frame | None, later_rate: str) -> Money:
    in_currency = None if in_currency is None else checked_code("in_currency", in_currency)
    if rates is None and in_currency == tables.currency and tables.rates is not None:
        rates = to_pandas(tables.rates.select("currency", "date", "rate").to_pyarrow())
    return Money.of(in_currency, rates, later_rate=later_rate)


def _declared(project: Project) -> dict[str, dict[str, set[str]]]:
    """Return the keys that each event type declares, by the type of its metrics; {} if nothing can say."""
    try:
        types = to_pandas(project.send("list_event_types").read())
    except NotSupported:
        return {}
    keys: dict[str, dict[str, set[str]]] = {}
    for reference, text in zip(types["reference"], types["fields"], strict=True):
        keys[reference] = {"state": set(), "statistic": set()}
        for field in json.loads(text):
            kind = _METRICS.get(field["type"])
            if kind is not None and field["entity"] == "event":
                keys[reference][kind].add(field["storageKey"])
    return keys


def _event_types(project: Project, tables: Tables, event_type: str | Sequence[str]) -> list[str]:
    event_types = [event_type] if isinstance(event_type, str) else list(event_type)
    existing = tables.events.select("eventType").distinct().to_pyarrow()["eventType"].to_pylist()
    if not event_types:
        raise InvalidRequest.choice("event_type", event_type, existing)
    unseen = [reference for reference in event_types if reference not in existing]
    declared = _declared(project) if unseen else {}
    for reference in unseen:
        if reference not in declared:
            with_events = f"types with events: {', '.join(sorted(existing))}" if existing else _NO_EVENTS
            raise InvalidRequest(
                f"event_type: there are no events of the type {reference!r}"
                f"{closest(reference, [*existing, *declared])}; {with_events}"
            )
    return list(dict.fromkeys(event_types))


def _events(project: Project, tables: Tables, event_types: list[str], where: Predicate | None) -> ir.Table:
    events = tables.events.filter(tables.events.eventType.isin(event_types))
    if where is None:
        return events
    fields = {leaf.field for leaf in comparisons(where) if leaf.field.startswith(STATISTICS)}
    if fields:
        keys = [name.removeprefix(STATISTICS) for name in sorted(fields)]
        _check_keys(project, tables, event_types, {"where": keys}, [])
    return filtered_events(events, tables.metrics, where)


def _check_keys(
    project: Project,
    tables: Tables,
    event_types: list[str],
    statistics: Mapping[str, list[str]],
    states: list[str | None],
) -> None:
    ours = tables.events.filter(tables.events.eventType.isin(event_types))
    metrics = tables.metrics.semi_join(ours, tables.metrics.eventId == ours["_id"])
    keys = metrics.select("key", "type").distinct().to_pyarrow().to_pylist()
    known = {each["key"] for each in keys if each["type"] == "statistic"} | {"event-count"}
    dated = {each["key"] for each in keys if each["type"] == "state"}
    asked = [(argument, name) for argument, names in statistics.items() for name in names]
    stated = [state for state in states if state is not None]
    if not {name for _, name in asked} <= known or not set(stated) <= dated:
        # What is declared may have no values yet.
        for declared in map(_declared(project).get, event_types):
            known |= declared["statistic"] if declared else set()
            dated |= declared["state"] if declared else set()
    for argument, statistic in asked:
        check_choice(argument, statistic, known)
    for state in stated:
        check_choice("state", state, dated)


def _dated(tables: Tables, events: ir.Table, state: str | None, milestones: Mapping[str, str]) -> ir.Table:
    """Return the events with the dates of the state, where one is asked for, and of milestones."""
    rows = events.select(event_id="_id", user_id="userId", event_date="eventDate")
    wanted = {f"{inputs.MILESTONE}{name}": each for name, each in milestones.items()}
    if state is not None:
        rows = rows.mutate(**{OCCURRED: rows.event_date})
        wanted[inputs.STATE] = state
    for name, each in wanted.items():
        dated = project_tables.state_dates(tables, each)
        joined = rows.left_join(dated, rows.event_id == dated.dated_event)
        rows = joined.drop("dated_event").rename({name: "dated"})
    return rows


def _tree(tables: Tables, level: str | None, lookbacks: Mapping[str, str | timedelta]) -> pd.DataFrame:
    nodes = to_pandas(tables.nodes.select("_id", "parentId", "type", "name", "channel").to_pyarrow())
    direct = nodes[["_id", "name", "channel"]].apply(lambda names: names.str.lower().isin(DIRECT)).any(axis=1)
    credited = {} if level is None else project_tables.ancestors_at(nodes, level)
    known = set(nodes["_id"])
    for node in lookbacks:
        check_choice("node_lookbacks", node, known)
    return pd.DataFrame(
        {
            "node_id": nodes["_id"],
            "parent_id": nodes["parentId"],
            "type": nodes["type"],
            "name": nodes["name"],
            "credited_id": project_tables.replaced(nodes["_id"], credited),
            "is_direct": direct.astype(bool),
            WINDOW_NODE: project_tables.nearest_of(nodes, set(lookbacks)),
        }
    )


def _touchpoints(
    tables: Tables, tree: pd.DataFrame, where: Predicate | None, nodes: Predicate | None
) -> ir.Table:
    interactions = tables.interactions
    eligible = interactions.filter(
        ~interactions.isBot.fill_null(False),
        interactions.trafficFilterId.isnull(),
        # What has no node earns no credit.
        interactions.nodeId.notnull(),
    )
    if where is not None:
        eligible = eligible.filter(ibis_form.to_ibis(where, eligible))
    if nodes is not None:
        eligible = eligible.filter(ibis_form.to_ibis(nodes, eligible, nodes=tables.nodes))
    columns = ["node_id", "credited_id", "is_direct", WINDOW_NODE]
    touched = project_tables.lazy(tree[columns].rename(columns={"node_id": "touched_id"}))
    joined = eligible.left_join(touched, eligible.nodeId == touched.touched_id)
    return joined.select(
        user_id=joined.userId,
        node_id=joined.credited_id.coalesce(joined.nodeId),
        date=joined.startDate,
        touch_id=joined["_id"],
        type=joined.type,
        is_direct=joined.is_direct.fill_null(False),
        **{WINDOW_NODE: joined[WINDOW_NODE]},
    )


def _spend(
    tables: Tables, tree: pd.DataFrame, period: _Period, zone: ZoneInfo, money: Money
) -> pd.DataFrame | None:
    """Sum what was spent on each credited node and day of the period; None if the project has no spend.

    A period without spend has no rows, so that results have the same columns in any period.
    """
    spent = project_tables.daily_spend(tables.outlays, zone, since=period.since, until=period.spend_until)
    outlays = tables.outlays
    if spent.empty and outlays.filter(outlays.deletedAt.isnull()).count().to_pyarrow().as_py() == 0:
        return None
    spent = money.converted_spend(spent)
    credited = dict(zip(tree["node_id"], tree["credited_id"], strict=True))
    spent["node_id"] = project_tables.replaced(spent["node_id"], credited)
    return spent.groupby(["node_id", "date", "currency"])["spend"].sum().reset_index()


@takes_project
def users_of_segment(
    project: Project, tables: Tables, where: Predicate | None, audience: Predicate | Mapping[str, Any] | None
) -> ir.Table | None:
    """Return the ids of the users who meet both criteria, in the column ``_id``; None for all users.

    Raises
    ------
    InvalidRequest
        If a criterion is not allowed, or names a property that users do not have.
    NotFound
        If there is no such audience.
    NotSupported
        If the project is over tables that cannot answer it.
    """
    if where is None and audience is None:
        return None
    users = tables.users
    if users is not None:
        return _of_table(users, where, audience)
    try:
        found = project.send("search_users", columns=["_id"], where=where, audience=audience)
    except NotSupported as error:
        argument = "where" if audience is None else "audience"
        message = f"{argument}: the project has no table of users; pass users= to open_tables"
        raise NotSupported(message, field=argument) from error
    return project_tables.lazy(to_pandas(found.read())[["_id"]])


def _of_table(
    users: ir.Table, where: Predicate | None, audience: Predicate | Mapping[str, Any] | None
) -> ir.Table:
    """Select users in the engine of a table of one's own."""
    if audience is not None and not isinstance(audience, Predicate):
        raise NotSupported(
            "audience: over tables, only user(...) predicates are allowed; conditions on events or "
            "interactions need a project",
            field="audience",
        )
    if audience is not None and audience.kind != "user":
        raise InvalidRequest(f"audience: a predicate on {audience.kind} is not allowed; allowed: user(…)")
    for predicate in (where, audience):
        if predicate is not None:
            users = users.filter(ibis_form.to_ibis(predicate, users))
    return users.select("_id")
