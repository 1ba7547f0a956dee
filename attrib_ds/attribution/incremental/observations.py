"""Touchpoints, conversions and observation periods of users as lazy tables, for incremental models."""

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


def touchpoints_of(sequences: Sequences, *more: str) -> ir.Table:
    """Return ``user_id``, ``code`` and ``date`` of every touchpoint, and more of its columns."""
    touchpoints = sequences.paths.touchpoints
    if touchpoints is None:
        raise InvalidRequest(
            "paths: an incremental model needs the touchpoints of users who did not convert too; use "
            "Paths.from_frames or conversion_paths",
            field="paths",
        )
    complete = touchpoints.filter(touchpoints.user_id.notnull() & touchpoints.node_id.notnull())
    return sequences.coded(complete).select("user_id", "code", "date", *more)


def conversions_of(sequences: Sequences) -> ir.Table:
    """Return one row per conversion."""
    touches = sequences.paths.touches
    last = touches.filter(touches.position == touches.length)
    return last.select("event_id", "user_id", "event_date", "conversions", "value", "currency")


def numbered_by_event(conversions: ir.Table) -> ir.Table:
    """Add ``number``, the position of each conversion in the order of ``event_id``, from 0."""
    return conversions.mutate(number=ibis.row_number().over(ibis.window(order_by=conversions.event_id)))


def preceding(touchpoints: ir.Table, conversions: ir.Table) -> ir.Table:
    """Join conversions with the earlier touchpoints of their users, and add ``age_days``."""
    joined = conversions.inner_join(
        touchpoints.rename(touch_user="user_id"),
        [conversions.user_id == touchpoints.user_id, touchpoints.date <= conversions.event_date],
    )
    return joined.mutate(age_days=joined.event_date.delta(joined.date, unit="microsecond") / DAY)


def everybody(touchpoints: ir.Table, conversions: ir.Table) -> ir.Table:
    """Return ``user_id``, ``since`` and ``until``, the first and the last date of all, of everybody seen."""
    seen = touchpoints.select("user_id", "date").union(conversions.select("user_id", date="event_date"))
    ends = seen.agg(since=seen.date.min(), until=seen.date.max())
    return seen.filter(seen.user_id.notnull()).select("user_id").distinct().cross_join(ends)


def check_users_are_observed(is_missing: NDArray[np.bool_]) -> None:
    """Refuse conversions of users without an observation."""
    if is_missing.any():
        raise InvalidRequest(
            f"users: {int(is_missing.sum())} conversions are of users who are not among those "
            "observed; allowed: one row for every user who converted",
            field="users",
        )


def check_order(is_reversed: NDArray[np.bool_], user_ids: pa.ChunkedArray) -> None:
    """Refuse observations that end before they begin."""
    if is_reversed.any():
        raise InvalidRequest(
            f"users: {int(is_reversed.sum()):,} observations end before they begin, for example that of "
            f"{user_ids[int(is_reversed.argmax())].as_py()!r}; allowed: since no later than until",
            field="users",
        )


def check_conversions_are_inside(is_outside: NDArray[np.bool_], event_ids: pa.ChunkedArray) -> None:
    """Refuse conversions outside the observation of their users."""
    if is_outside.any():
        raise InvalidRequest(
            f"users: {int(is_outside.sum())} conversions lie outside the observation of their users, for "
            f"example {event_ids[int(is_outside.argmax())].as_py()!r}; allowed: since and until "
            "that include every conversion",
            field="users",
        )
