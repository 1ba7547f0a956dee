"""Weights of touchpoints under rule-based models: one Ibis expression per rule.

Weights of a conversion sum to 1, except under :class:`~attrib_ds.attribution.models.Participation`.
A conversion without a touchpoint has one row (length 0) with the weight 1.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.operations as ops

from attrib_ds.attribution import models
from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.engines.engine import double
from attrib_ds.attribution.engines.sums import total
from attrib_ds.attribution.paths.path_inputs import MILESTONE
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from attrib_ds.attribution.paths.paths import Paths


def weighted(paths: Paths, model: models.Model) -> ir.NumericValue:
    """Return the weight of each row of ``paths.touches`` under a model.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    model : Model
        A rule-based model.

    Returns
    -------
    ibis number
        A column over ``paths.touches``; 1 on the row of a conversion without a touchpoint.

    Raises
    ------
    InvalidRequest
        If the model needs dates or milestones that the paths do not have.
    """
    touches = paths.touches
    return ibis.ifelse(touches.length == 0, double(1.0), weight(model, paths, touches))


@singledispatch
def weight(model: models.Model, paths: Paths, touches: ir.Table) -> Any:
    """Return the weight of each touchpoint under a rule-based model."""
    raise InvalidRequest(f"models: {model!r} is not a rule-based model", field="models")


@weight.register(models.FirstTouch)
def _first_touch(model: models.FirstTouch, paths: Paths, touches: ir.Table) -> Any:
    return _flag(touches.position == 1)


@weight.register(models.LastTouch)
def _last_touch(model: models.LastTouch, paths: Paths, touches: ir.Table) -> Any:
    return _flag(touches.position == touches.length)


@weight.register(models.LastNonDirect)
def _last_non_direct(model: models.LastNonDirect, paths: Paths, touches: ir.Table) -> Any:
    direct = touches.is_direct if model.direct is None else _in(touches.node_id, model.direct)
    chosen = touches.position.max(where=~direct).over(_of_event(touches)).coalesce(touches.length)
    return _flag(touches.position == chosen)


@weight.register(models.Linear)
def _linear(model: models.Linear, paths: Paths, touches: ir.Table) -> Any:
    return double(1.0) / touches.length.nullif(0)


@weight.register(models.LinearRamp)
def _linear_ramp(model: models.LinearRamp, paths: Paths, touches: ir.Table) -> Any:
    return double(2.0) * touches.position / (touches.length * (touches.length + 1)).nullif(0)


@weight.register(models.TimeDecay)
def _time_decay(model: models.TimeDecay, paths: Paths, touches: ir.Table) -> Any:
    paths.require_dates("time decay")
    age, youngest = touches.age_days, touches.youngest_days
    if model.step is not None:
        step = as_days(model.step, argument="step")
        age, youngest = (age / step).floor() * step, (youngest / step).floor() * step
    # Ages are relative to the youngest touchpoint, so that a short half-life cannot underflow every weight;
    # engines compute exp() far faster than a power.
    decayed = ((age - youngest) * (-math.log(2) / as_days(model.half_life, argument="half_life"))).exp()
    return decayed / total(decayed, over=_of_event(touches))


@weight.register(models.PositionBased)
def _position_based(model: models.PositionBased, paths: Paths, touches: ir.Table) -> Any:
    position, length = touches.position, touches.length
    keys = [ibis.literal(1), length, *(_key(paths, touches, model, name) for name, _ in model.roles)]
    shares = [model.first, model.last, *(share for _, share in model.roles)]
    earned, distinct, whole = double(0.0), ibis.literal(0), double(0.0)
    for index, (key, share) in enumerate(zip(keys, shares, strict=True)):
        fresh = key.notnull()
        for earlier in keys[:index]:
            fresh = fresh & (key != earlier).fill_null(True)
        earned = earned + ibis.ifelse((position == key).fill_null(False), double(share), double(0.0))
        distinct = distinct + fresh.cast("int64")
        whole = whole + ibis.ifelse(key.notnull(), double(share), double(0.0))
    has_role = ibis.or_(*((position == key).fill_null(False) for key in keys))
    rest = double(max(0.0, 1.0 - sum(shares)))
    others = length - distinct
    whole = whole + ibis.ifelse(others > 0, rest, double(0.0))
    raw = ibis.ifelse(has_role, earned, rest / others.nullif(0))
    return ibis.ifelse(whole > 0, raw / whole.nullif(0.0), double(1.0) / length.nullif(0))


def _key(paths: Paths, touches: ir.Table, model: models.PositionBased, name: str) -> Any:
    """Return the position of the last touchpoint at or before a milestone; null if there is none."""
    if f"{MILESTONE}{name}" not in touches.columns:
        available = ", ".join(paths.milestones()) or "none"
        raise InvalidRequest(
            f"models: {model.name} needs the dates of the milestone {name!r}; the paths have: {available}; "
            "pass milestones= to the function that makes the paths",
            field="models",
        )
    reached = (touches.date <= touches[f"{MILESTONE}{name}"]).fill_null(False)
    return touches.position.max(where=reached).over(_of_event(touches))


@weight.register(models.Participation)
def _participation(model: models.Participation, paths: Paths, touches: ir.Table) -> Any:
    of_node = ibis.window(group_by=[touches.event_id, touches.node_id], order_by=touches.position)
    return _flag(ibis.row_number().over(of_node) == 0)


@weight.register(models.Shapley)
def _shapley(model: models.Shapley, paths: Paths, touches: ir.Table) -> Any:
    """Divide a conversion equally among its distinct nodes, and the part of a node among its touchpoints.

    This is the Shapley value of the game in which the worth of a set of nodes is the number of conversions
    whose paths touch no other nodes: the Harsanyi dividend of a set is the number of conversions that touch
    exactly these nodes, and dividends are divided equally.
    """
    # Two dense ranks count distinct nodes; some engines cannot count distinct values over windows.
    up = ibis.dense_rank().over(ibis.window(group_by=touches.event_id, order_by=touches.node_id))
    down = ibis.dense_rank().over(ibis.window(group_by=touches.event_id, order_by=touches.node_id.desc()))
    distinct = up + down + 1
    times = touches.count().over(ibis.window(group_by=[touches.event_id, touches.node_id]))
    return double(1.0) / (distinct * times).nullif(0)


@weight.register(models.CustomWeights)
def _custom_weights(model: models.CustomWeights, paths: Paths, touches: ir.Table) -> Any:
    raw = _custom_weight(model, touches)
    whole = total(raw, over=_of_event(touches))
    return ibis.ifelse(whole > 0, raw / whole.nullif(0.0), double(1.0) / touches.length.nullif(0))


def has_invalid_weight(paths: Paths, model: models.CustomWeights) -> ir.BooleanScalar:
    """Return whether a custom weight is missing, negative or not finite."""
    touches = paths.touches.filter(paths.touches.length > 0)
    weighed = touches.mutate(raw=_custom_weight(model, touches))
    raw = weighed.raw
    # The weights of a whole path must have a finite sum.
    return (raw.isnull() | (raw < 0) | raw.isnan() | (raw * weighed.length).isinf()).any()


def _custom_weight(model: models.CustomWeights, touches: ir.Table) -> Any:
    """Call a custom weight function, and make a constant a column."""
    try:
        raw = model.weight(touches)
    except AttributeError as error:
        raise InvalidRequest(
            f"models: {model.name} uses an attribute that touchpoints do not have ({error}); allowed: "
            "position, length, age_days, node_id, type",
            field="models",
        ) from error
    except Exception as error:
        hint = "; choose between numbers with ibis.ifelse" if "truth value" in str(error) else ""
        raise InvalidRequest(
            f"models: {model.name} cannot be computed: {type(error).__name__}: {error}{hint}", field="models"
        ) from error
    numbers = ibis.expr.types.NumericValue | int | float
    if not isinstance(raw, numbers) or isinstance(raw, ibis.expr.types.BooleanValue | bool):
        raise InvalidRequest(
            f"models: {model.name} returns {type(raw).__name__}; allowed: a number or an Ibis number",
            field="models",
        )
    if isinstance(raw, ibis.expr.types.Value) and raw.op().find(
        (ops.Reduction, ops.WindowFunction), filter=ops.Value
    ):
        raise InvalidRequest(
            f"models: {model.name} aggregates over touchpoints; allowed: a function of one touchpoint "
            "(weights are scaled to sum to 1 per conversion automatically)",
            field="models",
        )
    return raw + double(0.0) * touches.position


def _of_event(touches: ir.Table) -> Any:
    return ibis.window(group_by=touches.event_id)


def _flag(condition: Any) -> Any:
    return ibis.ifelse(condition, double(1.0), double(0.0))


def _in(values: Any, allowed: tuple[str, ...]) -> Any:
    return values.isin(allowed).fill_null(False) if allowed else ibis.literal(False)
