"""Joins conversions with the touchpoints that may have led to them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import ibis

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: How direct traffic is named, in lower case.
DIRECT = ("direct", "(direct)", "(direct) / (none)", "direct / (none)", "direct / none")

_MICROSECONDS_A_DAY = 86_400_000_000


def pair(touchpoints: ir.Table, conversions: ir.Table, *, lookback: timedelta) -> ir.Table:
    """Join each conversion with the touchpoints of its user inside the lookback, in order.

    Parameters
    ----------
    touchpoints : ibis.Table
        ``user_id``, ``node_id``, ``date``, ``touch_id``, ``type`` and, where more than the node's id tells
        it, ``is_direct``.
    conversions : ibis.Table
        ``event_id``, ``user_id``, ``event_date``, ``conversions``, ``value``, ``currency`` and milestones.
    lookback : timedelta
        Length of the window that ends at the conversion; its start is not part of it.

    Returns
    -------
    ibis.Table
        As :attr:`Paths.touches`.
    """
    known = [
        name for name in ("node_id", "date", "touch_id", "type", "is_direct") if name in touchpoints.columns
    ]
    points = touchpoints.select(*known, touch_user=touchpoints.user_id)
    microseconds = lookback // timedelta(microseconds=1)
    opened = conversions.mutate(opens=conversions.event_date - ibis.interval(microseconds=microseconds))
    joined = opened.left_join(
        points,
        [
            opened.user_id == points.touch_user,
            points.date <= opened.event_date,
            points.date > opened.opens,
        ],
    ).drop("touch_user", "opens")
    if "is_direct" not in known:
        # After the join, which leaves far fewer rows than there are touchpoints.
        joined = joined.mutate(is_direct=joined.node_id.lower().isin(DIRECT))
    of_event = ibis.window(group_by=joined.event_id)
    in_order = ibis.window(group_by=joined.event_id, order_by=[joined.date, joined.touch_id])
    age_days = joined.event_date.delta(joined.date, unit="microsecond") / float(_MICROSECONDS_A_DAY)
    return joined.mutate(
        position=ibis.ifelse(joined.node_id.isnull(), 0, ibis.row_number().over(in_order) + 1),
        length=joined.node_id.count().over(of_event),
        age_days=age_days,
        youngest_days=age_days.min().over(of_event),
    )
