"""Weight of each touchpoint in each conversion: one lazy table per model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis
import pyarrow as pa

from attrib_ds.attribution.credits.touch_shares import touch_shares
from attrib_ds.attribution.engines.engine import double
from attrib_ds.attribution.engines.sums import total
from attrib_ds.attribution.models.path_models import DiscreteHazard, PathModel
from attrib_ds.attribution.rules.weights import weighted

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from attrib_ds.attribution.models.model import Model
    from attrib_ds.attribution.paths.paths import Paths
    from attrib_ds.attribution.paths.sequences import Sequences

#: Columns of every row: conversion, touchpoint, position, and the count and value of the whole conversion.
COLUMNS = (
    "event_id",
    "user_id",
    "node_id",
    "date",
    "event_date",
    "position",
    "age_days",
    "length",
    "conversions",
    "value",
    "currency",
)
_KEY = ("event_id", "node_id", "date", "touch_id")
#: Shares up to this size are rounding error.
_ROUNDING = 1e-12


def credited_touches(paths: Paths, model: Model, sequences: Sequences) -> ir.Table:
    """Return the weight of every touchpoint, and of the unattributed part.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    model : Model
        A model that credits touchpoints.
    sequences : Sequences
        Sequences of the paths; only path models read them.

    Returns
    -------
    ibis.Table
        One row per conversion and touchpoint, and one per conversion for its unattributed part:
        :data:`COLUMNS` and ``weight`` (share of the conversion); lazy, on the engine of the paths. The
        unattributed row has no node: it holds a whole conversion without touchpoints, or the baseline of an
        incremental model. A credited touchpoint outside the lookback has no position.

    Raises
    ------
    InvalidRequest
        If the model does not credit touchpoints.
    """
    if not isinstance(model, PathModel):
        touches = paths.touches
        return touches.mutate(weight=weighted(paths, model)).select(*COLUMNS, "weight")
    shares = touch_shares(model, sequences)
    return joined_shares(paths, shares, leaves_rest=isinstance(model, DiscreteHazard))


def joined_shares(paths: Paths, shares: pa.Table, *, leaves_rest: bool) -> ir.Table:
    """Join the shares of touchpoints to the touchpoints of the paths.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    shares : pyarrow.Table
        From :func:`~attrib_ds.attribution.credits.touch_shares.touch_shares`.
    leaves_rest : bool
        Whether shares may sum to less than 1, as under incremental models; the rest is unattributed.

    Returns
    -------
    ibis.Table
        As :func:`credited_touches`.
    """
    touches = paths.touches
    held = touches.filter(touches.length > 0)
    if "position" in shares.column_names:
        given = ibis.memtable(shares.select(["event_id", "position", "share"]))
        given = given.select(given.event_id, at=given.position.cast(held.position.type()), share=given.share)
        joined = held.left_join(given, [held.event_id == given.event_id, held.position == given.at])
        parts = [joined.mutate(weight=joined.share.fill_null(0.0)).select(*COLUMNS, "weight")]
    else:
        summed = _summed(shares, held)
        of_key = ibis.window(group_by=[held[name] for name in _KEY])
        # Touchpoints with the same key share equally.
        tied = held.mutate(tied=held.count().over(of_key))
        joined = tied.left_join(summed, [tied[name] == summed[f"of_{name}"] for name in _KEY])
        weight = joined.share.fill_null(0.0) / joined.tied
        parts = [joined.mutate(weight=weight).select(*COLUMNS, "weight"), _outside(touches, held, summed)]
    alone = touches.filter(touches.length == 0)
    if leaves_rest:
        whole = touches.filter(touches.position == touches.length)
        by_event = ibis.memtable(shares.select(["event_id", "share"]))
        by_event = by_event.group_by(of_event=by_event.event_id).agg(attributed=total(by_event.share))
        rest = whole.left_join(by_event, whole.event_id == by_event.of_event)
        parts.append(_unattributed(rest, 1.0 - rest.attributed.fill_null(0.0)))
    else:
        parts.append(_unattributed(alone, double(1.0)))
    first, *others = parts
    for other in others:
        first = first.union(other)
    return first


def _summed(shares: pa.Table, held: ir.Table) -> ir.Table:
    date = shares["date"]
    if pa.types.is_timestamp(date.type) and date.type.tz is not None:
        date = date.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
    columns = {f"of_{name}": shares[name] for name in _KEY} | {"of_date": date, "share": shares["share"]}
    rows = ibis.memtable(pa.table(columns))
    rows = rows.mutate(of_date=rows.of_date.cast(held.date.type()))
    keys = [f"of_{name}" for name in _KEY]
    return rows.group_by(keys).agg(share=total(rows.share))


def _outside(touches: ir.Table, held: ir.Table, summed: ir.Table) -> ir.Table:
    """Return the shares of touchpoints outside the path, such as those before the lookback."""
    outside = summed.anti_join(held, [summed[f"of_{name}"] == held[name] for name in _KEY])
    outside = outside.filter(outside.share.abs() > _ROUNDING)
    whole = touches.filter(touches.position == touches.length)
    kept = ["event_id", "user_id", "event_date", "length", "conversions", "value", "currency"]
    rows = outside.inner_join(whole.select(*kept), outside.of_event_id == whole.event_id)
    age: Any = rows.event_date.delta(rows.of_date, unit="microsecond") / 86_400_000_000.0
    columns = {"node_id": rows.of_node_id, "date": rows.of_date, "age_days": age, "weight": rows.share}
    columns["position"] = ibis.null(touches.position.type())
    return rows.mutate(**columns).select(*COLUMNS, "weight")


def _unattributed(rows: ir.Table, weight: Any) -> ir.Table:
    empty = {
        "node_id": ibis.null("string"),
        "date": ibis.null(rows.date.type()),
        "position": ibis.literal(0).cast(rows.position.type()),
        "age_days": ibis.null("float64"),
        "weight": weight,
    }
    return rows.mutate(**empty).select(*COLUMNS, "weight")
