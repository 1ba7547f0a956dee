"""Touchpoints, conversions and observations of users as incremental models read them, as lazy tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ibis

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.sequences import Sequences

#: Microseconds.
DAY = 86_400_000_000.0


def points_of(sequences: Sequences, *more: str) -> ir.Table:
    """Return ``user_id``, ``code``, ``date`` of every touchpoint, and more columns of it."""
    points = sequences.paths.touchpoints
    if points is None:
        raise InvalidRequest(
            "paths: an incremental model needs the touchpoints of users who did not convert too; use "
            "Paths.from_frames or conversion_paths",
            field="paths",
        )
    known = points.filter(points.user_id.notnull() & points.node_id.notnull())
    return sequences.coded(known).select("user_id", "code", "date", *more)


def events_of(sequences: Sequences) -> ir.Table:
    """Return the conversions."""
    touches = sequences.paths.touches
    last = touches.filter(touches.position == touches.length)
    return last.select("event_id", "user_id", "event_date", "conversions", "value", "currency")


def numbered_events(sequences: Sequences) -> ir.Table:
    """Return the conversions with their ``number`` in the order of ``event_id``, from 0."""
    events = events_of(sequences)
    return events.mutate(number=ibis.row_number().over(ibis.window(order_by=events.event_id)))


def before_events(points: ir.Table, events: ir.Table) -> ir.Table:
    """Join conversions with the touchpoints of their users until then, and their ``age_days``."""
    joined = events.inner_join(
        points.rename(touch_user="user_id"),
        [events.user_id == points.user_id, points.date <= events.event_date],
    )
    return joined.mutate(age_days=joined.event_date.delta(joined.date, unit="microsecond") / DAY)


def observed_of(observed: ir.Table | None, points: ir.Table, events: ir.Table) -> ir.Table:
    """Return ``user_id``, ``since``, ``until`` and what else is known of every user.

    Without told observations, everybody who was touched or converted was observed from the first date to
    the last.
    """
    if observed is not None:
        return observed
    seen = points.select("user_id", "date").union(events.select("user_id", date="event_date"))
    ends = seen.agg(since=seen.date.min(), until=seen.date.max())
    return seen.select("user_id").distinct().cross_join(ends)


def check_are_observed(is_unknown: NDArray[np.bool_]) -> None:
    """Refuse conversions of users who are not among those observed."""
    if is_unknown.any():
        raise InvalidRequest(
            f"users: {int(is_unknown.sum())} conversions are of users who are not among those "
            "observed; allowed: one row for every user who converted",
            field="users",
        )


def check_are_in_order(count: int, user_id: str | None) -> None:
    """Refuse observations that end before they begin."""
    if count:
        raise InvalidRequest(
            f"users: {count:,} observations end before they begin, for example that of {user_id!r}; allowed: "
            "since at until or before",
            field="users",
        )


def check_are_inside(is_outside: NDArray[np.bool_], event_ids: pa.ChunkedArray) -> None:
    """Refuse conversions outside the observation of their users."""
    if is_outside.any():
        raise InvalidRequest(
            f"users: {int(is_outside.sum())} conversions lie outside the observation of their users, for "
            f"example {event_ids[int(is_outside.argmax())].as_py()!r}; allowed: since and until "
            "that include every conversion",
            field="users",
        )
