"""Joins each conversion with the touchpoints of its user inside the lookback window."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import ibis

from attrib_ds.attribution.engines.engine import double

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from attrib_ds.attribution.paths.windows import Window

#: Names of direct traffic, in lower case.
DIRECT = ("direct", "(direct)", "(direct) / (none)", "direct / (none)", "direct / none")

#: Column of conversions: the instant up to which touchpoints belong to an earlier conversion.
RESET = "reset_date"
#: Column of touchpoints: the node whose lookback applies, if it is not the credited one.
WINDOW_NODE = "window_node"

_MICROSECONDS_A_DAY = 86_400_000_000


def pair(touchpoints: ir.Table, conversions: ir.Table, *, window: Window) -> ir.Table:
    """Join each conversion with the touchpoints of its user inside its window, in order.

    Parameters
    ----------
    touchpoints : ibis.Table
        ``user_id``, ``node_id``, ``date``, ``touch_id``, ``type`` and, optionally, ``is_direct``
        (by default, from the node's id) and ``WINDOW_NODE``.
    conversions : ibis.Table
        ``event_id``, ``user_id``, ``event_date``, ``conversions``, ``value``, ``currency``, milestones and,
        if earlier conversions end the windows, ``RESET``.
    window : Window
        It includes the instant of the conversion and excludes its start.

    Returns
    -------
    ibis.Table
        As :attr:`Paths.touches`.
    """
    columns = [
        name for name in ("node_id", "date", "touch_id", "type", "is_direct") if name in touchpoints.columns
    ]
    ends = {} if window.is_uniform else {"counts_until": _counts_until(touchpoints, window)}
    points = touchpoints.select(*columns, touch_user=touchpoints.user_id, **ends)
    opens: Any = conversions.event_date - _interval(window.longest)
    if RESET in conversions.columns:
        opens = ibis.greatest(opens, conversions[RESET].coalesce(opens))
    opened = conversions.mutate(opens=opens)
    inside = [
        opened.user_id == points.touch_user,
        points.date <= opened.event_date,
        points.date > opened.opens,
    ]
    if ends:
        inside.append(points.counts_until > opened.event_date)
    joined = opened.left_join(points, inside).drop("touch_user", "opens", *ends)
    joined = joined.drop(*({RESET} & set(joined.columns)))
    if "is_direct" not in columns:
        # After the join, which leaves far fewer rows.
        joined = joined.mutate(is_direct=joined.node_id.lower().isin(DIRECT))
    if window.precedence:
        joined = _preceding(joined, window.precedence)
    of_event = ibis.window(group_by=joined.event_id)
    in_order = ibis.window(group_by=joined.event_id, order_by=[joined.date, joined.touch_id])
    age_days = joined.event_date.delta(joined.date, unit="microsecond") / double(_MICROSECONDS_A_DAY)
    return joined.mutate(
        position=ibis.ifelse(joined.node_id.isnull(), 0, ibis.row_number().over(in_order) + 1),
        length=joined.node_id.count().over(of_event),
        age_days=age_days,
        youngest_days=age_days.min().over(of_event),
    )


def after_earlier(conversions: ir.Table, *, by: list[str]) -> ir.Table:
    """Add the instant of the user's previous conversion as ``RESET``.

    Parameters
    ----------
    conversions : ibis.Table
        With ``event_id``, ``user_id`` and ``event_date``; conversions of the same instant are ordered by id.
    by : list of str
        Further columns whose values a user's conversions must share to reset each other.
    """
    keys = [conversions[name] for name in ("user_id", *by)]
    in_order = ibis.window(group_by=keys, order_by=[conversions.event_date, conversions.event_id])
    return conversions.mutate(**{RESET: conversions.event_date.lag(1).over(in_order)})


def _counts_until(points: ir.Table, window: Window) -> Any:
    """Return the instant from which a touchpoint is too old, by its node, else by its type."""
    node = points[WINDOW_NODE] if WINDOW_NODE in points.columns else points.node_id
    branches = [
        (column == name, points.date + _interval(length))
        for column, lookbacks in ((node, window.of_nodes), (points.type, window.of_types))
        for name, length in lookbacks.items()
    ]
    # Touchpoints of types without a lookback have raised an error before, so this value is never used.
    other = points.date if window.lookback is None else points.date + _interval(window.lookback)
    return ibis.cases(*branches, else_=other)


def _preceding(joined: ir.Table, precedence: tuple[str, ...]) -> ir.Table:
    """Drop touchpoints if the same window has one of a type with higher precedence."""
    rank = ibis.cases(
        *((joined.type == name, place) for place, name in enumerate(precedence)), else_=ibis.null("int8")
    )
    ranked = joined.mutate(rank=rank)
    first = ranked.rank.min().over(ibis.window(group_by=ranked.event_id))
    marked = ranked.mutate(is_kept=ranked.rank.isnull() | (ranked.rank == first))
    return marked.filter(marked.is_kept).drop("rank", "is_kept")


def _interval(length: timedelta) -> Any:
    # Some engines have no intervals below a second.
    whole, rest = divmod(length, timedelta(seconds=1))
    return (
        ibis.interval(microseconds=length // timedelta(microseconds=1))
        if rest
        else ibis.interval(seconds=whole)
    )
