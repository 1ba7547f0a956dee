"""Counts of interactions by group and interval, on any engine: the query of interaction insights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.queries.expressions import fetch
from attrib_ds.queries.interaction_filters import filter_interactions
from attrib_ds.queries.intervals import INTERVALS, Segments, as_text, local_time

if TYPE_CHECKING:
    from collections.abc import Callable

    import ibis.expr.types as ir

    from attrib_ds.contract.interactions import InteractionInsights


def count_interactions(
    interactions: ir.Table, request: InteractionInsights, *, nodes: ir.Table | None
) -> Answer:
    """Count interactions, one record per group and interval with interactions.

    Parameters
    ----------
    interactions : ibis.Table
        Flat, with dotted columns; instants are in UTC, without a time zone.
    request : InteractionInsights
        Filters, group, interval and sort order. Records are sorted by interval, then by group, by default;
        nulls come last.
    nodes : ibis.Table, optional
        The tree in the ``NODE`` schema, for predicates on nodes.

    Returns
    -------
    Answer
        ``group``, ``interval``, ``sessionCount``, ``hitCount`` and ``durationSum``. Without group and
        interval one record, of zeros when no interaction matches.
    """
    segments = _segments(request)
    selected = filter_interactions(interactions, request, nodes=nodes)
    keys = {}
    if request.group is not None:
        keys["group_key"] = selected[request.group]
    if segments is not None:
        keys["interval_key"] = segments.position(selected.startDate)
    elif request.interval is not None:
        keys["interval_key"] = INTERVALS[request.interval].number(
            local_time(selected.startDate, request.timezone)
        )
    counted = selected.aggregate(
        by=keys,
        sessionCount=selected.count(),
        hitCount=selected.hitCount.sum().coalesce(0),
        # Sums of integers do not depend on the order of rows; sums of fractions do.
        durationSum=(selected.duration * 1e6).round().cast("int64").sum().coalesce(0) / 1e6,
    )
    label = as_text if segments is not None or request.interval is None else INTERVALS[request.interval].label
    table = fetch(_labelled(counted, request.sort or {}, label), schema.INTERACTION_INSIGHT)
    return Answer.of(segments.label(table) if segments is not None else table)


def _labelled(counted: ir.Table, sort: dict[str, int], label: Callable[[Any], Any]) -> ir.Table:
    """Sort the records, intervals by time and not by text, and label the intervals."""
    null = ibis.null("string")
    existing = set(counted.columns)
    with_keys = counted.mutate(
        **{key: null for key in ("group_key", "interval_key") if key not in existing},
    )
    columns = {"group": "group_key", "interval": "interval_key"}
    order = []
    for name in dict.fromkeys([*sort, "interval", "group"]):
        column = with_keys[columns.get(name, name)]
        is_ascending = sort.get(name, 1) == 1
        order.append(column.asc(nulls_first=False) if is_ascending else column.desc(nulls_first=False))
    labels = {
        "group": with_keys.group_key.cast("string"),
        "interval": label(with_keys.interval_key).cast("string"),
    }
    return with_keys.order_by(order).mutate(**labels).select(schema.INTERACTION_INSIGHT.names)


def _segments(request: InteractionInsights) -> Segments | None:
    if request.interval != "custom" or not (request.since and request.until and request.segmentCount):
        return None
    return Segments(request.since, request.until, request.segmentCount)
