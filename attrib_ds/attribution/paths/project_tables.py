"""The lazy tables of a project that attribution reads: nodes, metrics of events and spend by day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from attrib_ds import errors, schema
from attrib_ds.attribution.calendar import starts_of
from attrib_ds.attribution.engines.engine import double
from attrib_ds.attribution.paths.windows import RESET, after_earlier
from attrib_ds.records.frames import TEXT, to_pandas


@dataclass(frozen=True)
class Tables:
    """Interactions, events, metrics, nodes and spend as lazy tables of one engine.

    Attributes
    ----------
    interactions, events, nodes, outlays : ibis.Table
        With the columns of :mod:`attrib_ds.schema`; instants are UTC.
    metrics : ibis.Table
        ``eventId``, ``key``, ``type``, ``date``, ``number``, ``amount``, ``currency``, ``deletedAt``.
    currency : str
        The project's currency.
    metric_history : ibis.Table, optional
        As ``metrics``, with ``updatedAt``: values that updates have replaced.
    rates : ibis.Table, optional
        ``currency``, ``date``, ``rate``: worth of one unit in the project's currency, valid from the date.
    timezone : str
        The project's time zone.
    users : ibis.Table, optional
        ``_id`` and properties of users; None if a service selects them.
    """

    interactions: ir.Table
    events: ir.Table
    metrics: ir.Table
    nodes: ir.Table
    outlays: ir.Table
    currency: str
    metric_history: ir.Table | None = None
    rates: ir.Table | None = None
    timezone: str = "UTC"
    users: ir.Table | None = None


#: Columns of a frame of the tree.
TREE: Final = ("_id", "parentId", "type", "name")

#: Name of the row without a node, which has the conversions that no node is credited with.
UNATTRIBUTED: Final = "unattributed"


def ancestors_at(nodes: pd.DataFrame, level: str) -> dict[str, str]:
    """Map each node to its nearest ancestor of a type, itself included, or else to itself.

    The level ``"channel"`` maps a node to the name of its channel, if it has one: the nodes of a channel are
    in several trees.
    """
    errors.check_choice("level", level, schema.NODE_TYPES)
    parents = parents_of(nodes)
    types = dict(zip(identifiers(nodes["_id"]), nodes["type"], strict=True))
    ancestors: dict[str, str] = {}
    for node in parents:
        current: Any = node
        # A tree is no deeper than its number of nodes; the bound ends the walk if the frame has a cycle.
        for _ in range(len(parents)):
            if current is None or types.get(current) == level:
                break
            current = parents.get(current)
        ancestors[node] = current if current is not None and types.get(current) == level else node
    if level == "channel" and "channel" in nodes.columns:
        named = nodes.loc[nodes["channel"].notna(), ["_id", "channel"]]
        ancestors |= dict(zip(identifiers(named["_id"]), named["channel"], strict=True))
    return ancestors


def parents_of(nodes: pd.DataFrame) -> dict[str, str | None]:
    """Return the parent of each node; None for roots."""
    return dict(zip(identifiers(nodes["_id"]), identifiers(nodes["parentId"]), strict=True))


def identifiers(ids: pd.Series[Any]) -> list[Any]:
    """Return ids as text, as in credits, and None for missing ones.

    Integers stored as floats, because some are missing, lose their ``.0``.
    """
    if is_numeric_dtype(ids):
        ids = ids.astype("Int64").astype("string")
    return list(ids.astype(object).where(ids.notna(), None))


def nearest_of(nodes: pd.DataFrame, chosen: set[str]) -> pd.Series[Any]:
    """Return the nearest of the chosen nodes at or above each node; missing if there is none."""
    parents = parents_of(nodes)

    def find(node: Any) -> Any:
        for _ in range(len(parents)):
            if node is None or node in chosen:
                break
            node = parents.get(node)
        return node if node in chosen else None

    return nodes["_id"].map(find).astype(TEXT)


def replaced(node_ids: pd.Series[Any], by: Mapping[str, str]) -> pd.Series[Any]:
    """Replace node ids by a mapping; ids that are not in it, and missing ones, stay."""
    return node_ids.map(lambda node: by.get(node, node), na_action="ignore").astype(TEXT)


def names_of(node_ids: pd.Series[Any], names: Mapping[str, Any]) -> pd.Series[Any]:
    """Return the name of each node, its id if it has none, and "unattributed" for a missing id.

    A node that is itself named "unattributed" gets its id behind the name, to be told apart.
    """

    def name(node: Any) -> str:
        named = names.get(node)
        shown = node if pd.isna(named) else named
        return f"{shown} ({node})" if shown == UNATTRIBUTED else str(shown)

    return node_ids.map(name, na_action="ignore").astype(TEXT).fillna(UNATTRIBUTED)


def lazy(frame: pd.DataFrame) -> ir.Table:
    """Return a small frame as a lazy table, to join with tables of any engine."""
    return ibis.memtable(pa.Table.from_pandas(frame, preserve_index=False))


#: Statistic that is 1 for every event.
EVENT_COUNT = "event-count"


def state_dates(tables: Tables, state: str) -> ir.Table:
    """Return ``dated_event`` and ``dated`` for every event whose state is 1."""
    metrics = tables.metrics
    reached = metrics.filter(
        metrics.key == state, metrics.type == "state", metrics.number == 1, metrics.deletedAt.isnull()
    )
    return reached.select(dated_event="eventId", dated="date")


def with_value(tables: Tables, events: ir.Table, statistic: str) -> ir.Table:
    """Add the value of each event: ``conversions``, ``value``, ``currency``.

    Parameters
    ----------
    tables : Tables
        Tables of the project.
    events : ibis.Table
        With ``event_id``.
    statistic : str
        Statistic to credit. If updates have changed it, the first value counts.
    """
    rows = events.mutate(conversions=double(1.0))
    if statistic == EVENT_COUNT:
        return rows.mutate(value=double(1.0), currency=ibis.null("string"))
    measured = current_amounts(tables, [statistic])
    # An event without an amount has the project's currency if the statistic is money.
    monetary = measured.currency.notnull().any().as_scalar().fill_null(False)
    versions = _versions(tables, statistic)
    if versions is not None:
        measured = versions.filter(versions.version == 0)
    first = measured.select(measured_event="event_id", worth="value", unit="currency")
    joined = rows.left_join(first, rows.event_id == first.measured_event)
    return joined.mutate(
        value=joined.worth.coalesce(0.0),
        currency=ibis.ifelse(monetary, joined.unit.coalesce(tables.currency), ibis.null("string")),
    ).drop("measured_event", "worth", "unit")


def later_amounts(tables: Tables, statistic: str, added: Sequence[str]) -> ir.Table | None:
    """Return amounts later than the first value of a statistic, or None if there are none.

    Parameters
    ----------
    tables : Tables
        Tables of the project.
    statistic : str
        Statistic to credit; each update contributes its difference, at its date.
    added : sequence of str
        Statistics to add, each at its date.

    Returns
    -------
    ibis.Table or None
        ``event_id``, ``date``, ``value``, ``currency``.
    """
    parts = []
    versions = _versions(tables, statistic)
    if versions is not None:
        changes = versions.mutate(value=versions.value - versions.before).filter(versions.version > 0)
        parts.append(changes.select("event_id", "date", "value", "currency"))
    if added:
        parts.append(current_amounts(tables, added).select("event_id", "date", "value", "currency"))
    return None if not parts else parts[0] if len(parts) == 1 else ibis.union(*parts)


def reset_after(tables: Tables, conversions: ir.Table, *, of_any: bool) -> ir.Table:
    """Add the instant of the user's previous event as ``RESET``.

    Parameters
    ----------
    tables : Tables
        Tables of the project.
    conversions : ibis.Table
        Conversions of one event type, with ``event_id``, ``user_id``, ``event_date``.
    of_any : bool
        Whether events of all types reset, or only ``conversions``.
    """
    if not of_any:
        return after_earlier(conversions, by=[])
    columns = ["event_id", "user_id", "event_date"]
    all_events = tables.events.select(event_id="_id", user_id="userId", event_date="eventDate")
    others = all_events.anti_join(conversions, "event_id")
    reset = after_earlier(ibis.union(conversions.select(columns), others.select(columns)), by=[])
    resets = reset.select(RESET, reset_event="event_id")
    joined = conversions.left_join(resets, conversions.event_id == resets.reset_event)
    return joined.drop("reset_event")


def current_amounts(tables: Tables, statistics: Sequence[str]) -> ir.Table:
    """Return the present amounts of statistics: ``event_id``, ``date``, ``value``, ``currency``.

    Parameters
    ----------
    tables : Tables
        Tables of the project.
    statistics : sequence of str
        Keys of the statistics.
    """
    return amounts_of(tables.metrics, statistics)


def amounts_of(metrics: ir.Table, statistics: Sequence[str]) -> ir.Table:
    """Return the present amounts of statistics, from the table ``metrics`` of a project."""
    is_current = metrics.key.isin(list(statistics)) & (metrics.type == "statistic")
    return _amounts(metrics.filter(is_current & metrics.deletedAt.isnull()))


def _versions(tables: Tables, statistic: str) -> ir.Table | None:
    """Return all values that a statistic has had, numbered from 0 in the order of reception.

    None if no update has replaced a value, or the history is not available.
    """
    history = tables.metric_history
    if history is None or statistic == EVENT_COUNT:
        return None
    replaced = history.filter(history.key == statistic, history.type == "statistic")
    if not replaced.limit(1).to_pyarrow().num_rows:
        return None
    current = current_amounts(tables, [statistic])
    versions = ibis.union(current, _amounts(replaced).semi_join(current, "event_id"))
    of_event = ibis.window(group_by=versions.event_id, order_by=versions.updatedAt)
    return versions.mutate(
        version=ibis.row_number().over(of_event), before=versions.value.lag(1).over(of_event)
    )


def _amounts(metrics: ir.Table) -> ir.Table:
    value = metrics.amount.cast("float64").coalesce(metrics.number.cast("float64"), 0.0)
    updated = ["updatedAt"] if "updatedAt" in metrics.columns else []
    return metrics.select("date", "currency", *updated, event_id="eventId", value=value)


_DAY = pd.Timedelta(days=1)


def daily_spend(
    outlays: ir.Table, zone: ZoneInfo, *, since: datetime | None, until: datetime | None
) -> pd.DataFrame:
    """Return the spend of each campaign by day.

    Parameters
    ----------
    outlays : ibis.Table
        ``campaignId``, ``startDate``, ``endDate`` (UTC, without a zone), ``amount.amount``,
        ``amount.currency``, ``deletedAt``.
    zone : ZoneInfo
        Time zone of the days. Days on which clocks change are shorter or longer and have less or more spend.
    since, until : datetime, optional
        Bounds of the period whose spend counts; UTC, without a zone.

    Returns
    -------
    DataFrame
        ``node_id`` (str), ``date`` (datetime64[us, UTC], start of the day, or of the part of it that counts),
        ``spend`` (float64), ``currency`` (str); one row per day of each outlay.
    """
    kept = outlays.filter(outlays.deletedAt.isnull())
    rows = to_pandas(
        kept.select(
            node_id=kept.campaignId,
            begin=kept.startDate,
            end=kept.endDate,
            amount=kept["amount.amount"].cast("float64"),
            currency=kept["amount.currency"],
        ).to_pyarrow()
    )
    begin, end = rows["begin"], rows["end"]
    seconds = (end - begin).dt.total_seconds()
    rows["rate"] = rows["amount"] / seconds.where(seconds > 0)
    if since is not None:
        rows["begin"] = begin.where(begin > pd.Timestamp(since, tz="UTC"), pd.Timestamp(since, tz="UTC"))
    if until is not None:
        rows["end"] = end.where(end < pd.Timestamp(until, tz="UTC"), pd.Timestamp(until, tz="UTC"))
    rows = rows[rows["end"] > rows["begin"]].reset_index(drop=True)
    edges = _midnights(rows, zone)
    first = np.searchsorted(edges, _utc_instants(rows["begin"]), side="right") - 1
    last = np.searchsorted(edges, _utc_instants(rows["end"]), side="left")
    days = last - first
    outlay = np.repeat(np.arange(len(rows), dtype=np.int64), days)
    day = np.arange(len(outlay), dtype=np.int64) - np.repeat(np.cumsum(days) - days, days) + first[outlay]
    spread = rows.take(outlay).reset_index(drop=True)
    begins = np.maximum(_utc_instants(spread["begin"]), edges[day])
    ends = np.minimum(_utc_instants(spread["end"]), edges[day + 1])
    return pd.DataFrame(
        {
            "node_id": spread["node_id"],
            "date": pd.Series(begins).dt.tz_localize("UTC"),
            "spend": spread["rate"] * ((ends - begins) / np.timedelta64(1, "s")),
            "currency": spread["currency"],
        }
    )


def _midnights(rows: pd.DataFrame, zone: ZoneInfo) -> NDArray[np.datetime64]:
    """Return the starts of all days that rows overlap, and the end of the last one."""
    if rows.empty:
        return np.zeros(0, dtype="datetime64[us]")
    first = rows["begin"].min().tz_convert(zone).tz_localize(None).normalize()
    last = rows["end"].max().tz_convert(zone).tz_localize(None).normalize()
    days = pd.Series(pd.date_range(first, last + _DAY, freq="D"))
    return _utc_instants(starts_of(days, zone))


def _utc_instants(instants: pd.Series[Any]) -> NDArray[np.datetime64]:
    return np.asarray(instants.dt.tz_localize(None).to_numpy().astype("datetime64[us]"))
