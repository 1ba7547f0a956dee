"""Conversions of a project with the touchpoints that led to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import ibis
import pandas as pd

from attrib_ds import instants
from attrib_ds.attribution.durations import parse_duration
from attrib_ds.attribution.pairing import DIRECT, pair
from attrib_ds.attribution.path_inputs import MILESTONE
from attrib_ds.attribution.paths import Paths
from attrib_ds.attribution.tree import ancestors_at, lazy, replaced
from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Predicate
from attrib_ds.filters.engine import to_ibis
from attrib_ds.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir

    from attrib_ds.attribution.tables import Tables
    from attrib_ds.project import Project

_LONGEST = timedelta(days=365)
_SHORTEST = timedelta(days=1)


def conversion_paths(
    project: Project,
    *,
    event_type: str,
    statistic: str = "event-count",
    state: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    lookback: str | timedelta = "30D",
    where: Predicate | None = None,
    nodes: Predicate | None = None,
    level: str | None = None,
    milestones: Mapping[str, str] | None = None,
) -> Paths:
    """Find the touchpoints that led to the events of a type.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    event_type : str
        Reference of the event type.
    statistic : str, default "event-count"
        What is credited beside the number of conversions: a statistic of the events, such as
        ``"turnover"``. An event without it is a conversion of value 0.
    state : str, optional
        Only events on which this state is 1.
    since, until : datetime or str, optional
        Bounds of ``eventDate``, both inclusive; without an offset they are UTC.
    lookback : str or timedelta, default "30D"
        Touchpoints in ``(eventDate - lookback, eventDate]`` belong to the path; 1 to 365 days.
    where : Predicate, optional
        On interactions, which touchpoints are eligible; or on events, which of them are conversions. Bots
        and filtered traffic never are eligible.
    nodes : Predicate, optional
        On the node of a touchpoint.
    level : str, optional
        Credit the ancestor of this type (``"campaign"``), or the channel (``"channel"``), instead of the node
        that was touched; the spend of the project is put beside the credits then.
    milestones : mapping of str to str, optional
        Name of a milestone to the state whose date it is: ``{"lead": "qualified"}``.

    Returns
    -------
    Paths
        Lazy; one row per touchpoint once computed.

    Raises
    ------
    InvalidRequest
        If the event type, the statistic or the state is unknown, or an argument is not allowed.
    NotSupported
        If the project's service does not let attribution run on its tables.

    Examples
    --------
    >>> from attrib_ds import attribute, conversion_paths, sample_project
    >>> paths = conversion_paths(sample_project(), event_type="order", statistic="turnover", level="channel")
    >>> credits = attribute(paths, ["first_touch", "last_touch"])
    >>> sorted(set(credits["model"]))
    ['first_touch', 'last_touch']
    """
    tables = project.tables()
    period = _Period.of(since, until)
    window = _lookback(lookback)
    on_touches, on_events = _split(where)
    events = _events(tables, event_type, period, on_events)
    _check_keys(tables, event_type, statistic, [state, *(milestones or {}).values()])
    if state is not None:
        reached = _states(tables, state)
        events = events.semi_join(reached, events["_id"] == reached.eventId)
    tree = _tree(tables, level)
    touchpoints = _touchpoints(tables, tree, on_touches, nodes)
    conversions = _conversions(tables, events, statistic, milestones or {})
    spend = None if level is None else _spend(tables, tree, period)
    names = tree[["node_id", "name", "type", "parent_id"]]
    return Paths(
        touches=pair(touchpoints, conversions, lookback=window),
        touchpoints=touchpoints,
        nodes=names,
        spend=spend,
        owner=project,
    )


@dataclass(frozen=True)
class _Period:
    """Bounds in naive UTC, as the tables hold instants."""

    since: datetime | None
    until: datetime | None

    @classmethod
    def of(cls, since: datetime | str | None, until: datetime | str | None) -> _Period:
        return cls(_naive(since, "since"), _naive(until, "until"))


def _naive(value: datetime | str | None, argument: str) -> datetime | None:
    if value is None:
        return None
    return instants.parse(value, argument=argument).astimezone(UTC).replace(tzinfo=None)


def _lookback(value: str | timedelta) -> timedelta:
    window = parse_duration(value, argument="lookback")
    if not _SHORTEST <= window <= _LONGEST:
        raise InvalidRequest(f"lookback: {value!r} is not allowed; allowed: 1 to 365 days", field="lookback")
    return window


def _split(where: Predicate | None) -> tuple[Predicate | None, Predicate | None]:
    if where is None:
        return None, None
    kind = where.kind if isinstance(where, Predicate) else type(where).__name__
    if kind == "interaction":
        return where, None
    if kind == "event":
        return None, where
    raise InvalidRequest(
        f"where: a predicate on {kind} is not allowed; allowed: interaction(…) or event(…); for "
        "node(…) there is nodes=",
        field="where",
    )


def _events(tables: Tables, event_type: str, period: _Period, where: Predicate | None) -> ir.Table:
    known = tables.events.select("eventType").distinct().to_pyarrow()["eventType"].to_pylist()
    if event_type not in known:
        raise InvalidRequest.choice("event_type", event_type, known)
    events = tables.events.filter(tables.events.eventType == event_type)
    if period.since is not None:
        events = events.filter(events.eventDate >= period.since)
    if period.until is not None:
        events = events.filter(events.eventDate <= period.until)
    return events if where is None else events.filter(to_ibis(where, events))


def _check_keys(tables: Tables, event_type: str, statistic: str, states: list[str | None]) -> None:
    ours = tables.events.filter(tables.events.eventType == event_type)
    metrics = tables.metrics.semi_join(ours, tables.metrics.eventId == ours["_id"])
    keys = metrics.select("key", "type").distinct().to_pyarrow().to_pylist()
    statistics = {each["key"] for each in keys if each["type"] == "statistic"} | {"event-count"}
    if statistic not in statistics:
        raise InvalidRequest.choice("statistic", statistic, statistics)
    for state in states:
        known = {each["key"] for each in keys if each["type"] == "state"}
        if state is not None and state not in known:
            raise InvalidRequest.choice("state", state, known)


def _states(tables: Tables, state: str) -> ir.Table:
    metrics = tables.metrics
    return metrics.filter(
        metrics.key == state, metrics.type == "state", metrics.number == 1, metrics.deletedAt.isnull()
    )


def _tree(tables: Tables, level: str | None) -> pd.DataFrame:
    nodes = to_pandas(tables.nodes.select("_id", "parentId", "type", "name", "channel").to_pyarrow())
    direct = nodes[["_id", "name", "channel"]].apply(lambda names: names.str.lower().isin(DIRECT)).any(axis=1)
    credited = {} if level is None else ancestors_at(nodes, level)
    return pd.DataFrame(
        {
            "node_id": nodes["_id"],
            "parent_id": nodes["parentId"],
            "type": nodes["type"],
            "name": nodes["name"],
            "credited_id": replaced(nodes["_id"], credited),
            "is_direct": direct.astype(bool),
        }
    )


def _touchpoints(
    tables: Tables, tree: pd.DataFrame, where: Predicate | None, nodes: Predicate | None
) -> ir.Table:
    interactions = tables.interactions
    eligible = interactions.filter(
        ~interactions.isBot.fill_null(False), interactions.trafficFilterId.isnull()
    )
    if where is not None:
        eligible = eligible.filter(to_ibis(where, eligible))
    if nodes is not None:
        eligible = eligible.filter(to_ibis(nodes, eligible, nodes=tables.nodes))
    touched = lazy(tree[["node_id", "credited_id", "is_direct"]].rename(columns={"node_id": "touched_id"}))
    joined = eligible.left_join(touched, eligible.nodeId == touched.touched_id)
    return joined.select(
        user_id=joined.userId,
        node_id=joined.credited_id.coalesce(joined.nodeId),
        date=joined.startDate,
        touch_id=joined["_id"],
        type=joined.type,
        is_direct=joined.is_direct.fill_null(False),
    )


def _conversions(tables: Tables, events: ir.Table, statistic: str, milestones: Mapping[str, str]) -> ir.Table:
    rows = events.select(event_id="_id", user_id="userId", event_date="eventDate")
    rows = rows.mutate(conversions=ibis.literal(1.0))
    if statistic == "event-count":
        rows = rows.mutate(value=ibis.literal(1.0), currency=ibis.null("string"))
    else:
        rows = _with_statistic(tables, rows, statistic)
    for name, state in milestones.items():
        dated = _states(tables, state).select(dated_event="eventId", dated="date")
        joined = rows.left_join(dated, rows.event_id == dated.dated_event)
        rows = joined.drop("dated_event").rename({f"{MILESTONE}{name}": "dated"})
    return rows


def _with_statistic(tables: Tables, rows: ir.Table, statistic: str) -> ir.Table:
    metrics = tables.metrics
    measured = metrics.filter(
        metrics.key == statistic, metrics.type == "statistic", metrics.deletedAt.isnull()
    ).select(measured_event="eventId", number="number", amount="amount", unit="currency")
    # An event without an amount belongs to the project's currency, if the statistic is money at all.
    monetary = measured.unit.notnull().any().as_scalar().fill_null(False)
    joined = rows.left_join(measured, rows.event_id == measured.measured_event)
    return joined.mutate(
        value=joined.amount.cast("float64").coalesce(joined.number.cast("float64"), 0.0),
        currency=ibis.ifelse(monetary, joined.unit.coalesce(tables.currency), ibis.null("string")),
    ).drop("measured_event", "number", "amount", "unit")


def _spend(tables: Tables, tree: pd.DataFrame, period: _Period) -> pd.DataFrame | None:
    """Sum the part of each outlay that lies in the period, spread evenly over its seconds."""
    outlays = tables.outlays
    kept = outlays.filter(outlays.deletedAt.isnull())
    begin: Any = kept.startDate if period.since is None else ibis.greatest(kept.startDate, period.since)
    end: Any = kept.endDate if period.until is None else ibis.least(kept.endDate, period.until)
    whole = kept.endDate.delta(kept.startDate, unit="microsecond").nullif(0)
    part = ibis.greatest(end.delta(begin, unit="microsecond"), 0) / whole
    rows = kept.select(
        node_id=kept.campaignId,
        spend=kept["amount.amount"].cast("float64") * part,
        currency=kept["amount.currency"],
    )
    spent = to_pandas(rows.group_by(["node_id", "currency"]).agg(spend=rows.spend.sum()).to_pyarrow())
    if not len(spent):
        return None
    credited = dict(zip(tree["node_id"], tree["credited_id"], strict=True))
    spent["node_id"] = replaced(spent["node_id"], credited)
    return spent.groupby(["node_id", "currency"])["spend"].sum().reset_index()
