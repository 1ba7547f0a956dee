"""The weight of each touchpoint of each conversion, under any model that has one: a lazy table per model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis
import pyarrow as pa

from attrib_ds.attribution.credits.touch_shares import touch_shares
from attrib_ds.attribution.engines.engine import double
from attrib_ds.attribution.engines.sums import total
from attrib_ds.attribution.models.incremental import IncrementalModel
from attrib_ds.attribution.models.path_models import PathModel
from attrib_ds.attribution.rules.weights import weighted

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from attrib_ds.attribution.models.model import Model
    from attrib_ds.attribution.paths.paths import Paths
    from attrib_ds.attribution.paths.sequences import Sequences

#: What every row has: the conversion, the touchpoint and its place, and what the whole conversion counts.
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
#: A share that is left over by rounding is nobody's.
_ROUNDING = 1e-12


def credited_touches(paths: Paths, model: Model, sequences: Sequences) -> ir.Table:
    """Return one row per conversion and touchpoint, and one for what is nobody's.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    model : Model
        A model with credit per touchpoint.
    sequences : Sequences
        Of the paths; only models of whole paths look at it.

    Returns
    -------
    ibis.Table
        :data:`COLUMNS` and ``weight``, the part of the conversion: lazy, where the paths are. A row without
        a node holds what is nobody's: all of a conversion without a touchpoint, and what an incremental
        model leaves. A touchpoint outside the lookback that a model credits all the same has no position.

    Raises
    ------
    InvalidRequest
        If the model has no credit per touchpoint.
    """
    if not isinstance(model, PathModel):
        touches = paths.touches
        return touches.mutate(weight=weighted(paths, model)).select(*COLUMNS, "weight")
    shares = touch_shares(model, sequences)
    return joined_shares(paths, shares, leaves_rest=isinstance(model, IncrementalModel))


def joined_shares(paths: Paths, shares: pa.Table, *, leaves_rest: bool) -> ir.Table:
    """Put the shares of touchpoints beside the touchpoints of the paths.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    shares : pyarrow.Table
        As :func:`~attrib_ds.attribution.credits.touch_shares.touch_shares` gives it.
    leaves_rest : bool
        Whether what the shares of a conversion leave is nobody's, also where touchpoints led to it.

    Returns
    -------
    ibis.Table
        As :func:`credited_touches`.
    """
    touches = paths.touches
    held = touches.filter(touches.length > 0)
    if "position" in shares.column_names:
        told = ibis.memtable(shares.select(["event_id", "position", "share"]))
        told = told.select(told.event_id, at=told.position.cast(held.position.type()), share=told.share)
        met = held.left_join(told, [held.event_id == told.event_id, held.position == told.at])
        parts = [met.mutate(weight=met.share.fill_null(0.0)).select(*COLUMNS, "weight")]
    else:
        told = _summed(shares, held)
        of_key = ibis.window(group_by=[held[name] for name in _KEY])
        # Touchpoints that nothing tells apart share alike.
        tied = held.mutate(tied=held.count().over(of_key))
        met = tied.left_join(told, [tied[name] == told[f"of_{name}"] for name in _KEY])
        weight = met.share.fill_null(0.0) / met.tied
        parts = [met.mutate(weight=weight).select(*COLUMNS, "weight"), _outside(touches, held, told)]
    alone = touches.filter(touches.length == 0)
    if leaves_rest:
        whole = touches.filter(touches.position == touches.length)
        given = ibis.memtable(shares.select(["event_id", "share"]))
        given = given.group_by(of_event=given.event_id).agg(given=total(given.share))
        rest = whole.left_join(given, whole.event_id == given.of_event)
        parts.append(_nobodys(rest, 1.0 - rest.given.fill_null(0.0)))
    else:
        parts.append(_nobodys(alone, double(1.0)))
    first, *others = parts
    for other in others:
        first = first.union(other)
    return first


def _summed(shares: pa.Table, held: ir.Table) -> ir.Table:
    date = shares["date"]
    if pa.types.is_timestamp(date.type) and date.type.tz is not None:
        date = date.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
    columns = {f"of_{name}": shares[name] for name in _KEY} | {"of_date": date, "share": shares["share"]}
    told = ibis.memtable(pa.table(columns))
    told = told.mutate(of_date=told.of_date.cast(held.date.type()))
    keys = [f"of_{name}" for name in _KEY]
    return told.group_by(keys).agg(share=total(told.share))


def _outside(touches: ir.Table, held: ir.Table, told: ir.Table) -> ir.Table:
    """Return the shares of touchpoints that are not in the path, such as those before the lookback."""
    met = told.anti_join(held, [told[f"of_{name}"] == held[name] for name in _KEY])
    met = met.filter(met.share.abs() > _ROUNDING)
    whole = touches.filter(touches.position == touches.length)
    kept = ["event_id", "user_id", "event_date", "length", "conversions", "value", "currency"]
    rows = met.inner_join(whole.select(*kept), met.of_event_id == whole.event_id)
    age: Any = rows.event_date.delta(rows.of_date, unit="microsecond") / 86_400_000_000.0
    columns = {"node_id": rows.of_node_id, "date": rows.of_date, "age_days": age, "weight": rows.share}
    columns["position"] = ibis.null(touches.position.type())
    return rows.mutate(**columns).select(*COLUMNS, "weight")


def _nobodys(rows: ir.Table, weight: Any) -> ir.Table:
    nothing = {
        "node_id": ibis.null("string"),
        "date": ibis.null(rows.date.type()),
        "position": ibis.literal(0).cast(rows.position.type()),
        "age_days": ibis.null("float64"),
        "weight": weight,
    }
    return rows.mutate(**nothing).select(*COLUMNS, "weight")
