"""Metrics of events: dates of states, values of statistics, and later amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ibis

from attrib_ds.attribution.engines.engine import double
from attrib_ds.attribution.paths.pairing import RESET, after_earlier

if TYPE_CHECKING:
    from collections.abc import Sequence

    import ibis.expr.types as ir

    from attrib_ds.attribution.paths.tables import Tables

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
    measured = _current(tables, [statistic])
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
        parts.append(_current(tables, added).select("event_id", "date", "value", "currency"))
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


def _current(tables: Tables, statistics: Sequence[str]) -> ir.Table:
    metrics = tables.metrics
    current = metrics.filter(
        metrics.key.isin(list(statistics)), metrics.type == "statistic", metrics.deletedAt.isnull()
    )
    return _amounts(current)


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
    current = _current(tables, [statistic])
    versions = ibis.union(current, _amounts(replaced).semi_join(current, "event_id"))
    of_event = ibis.window(group_by=versions.event_id, order_by=versions.updatedAt)
    return versions.mutate(
        version=ibis.row_number().over(of_event), before=versions.value.lag(1).over(of_event)
    )


def _amounts(metrics: ir.Table) -> ir.Table:
    value = metrics.amount.cast("float64").coalesce(metrics.number.cast("float64"), 0.0)
    updated = ["updatedAt"] if "updatedAt" in metrics.columns else []
    return metrics.select("date", "currency", *updated, event_id="eventId", value=value)
