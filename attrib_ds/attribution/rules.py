"""Rule-based models: weights of touchpoints as Ibis expressions, and credits of all in one query."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import singledispatch
from typing import Any

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa

from attrib_ds.attribution import models
from attrib_ds.attribution.arrays import Codes, Numbers
from attrib_ds.attribution.calendar import as_days
from attrib_ds.attribution.engines.engine import (
    batches_of,
    double,
    exact_sums,
    number_of,
    total,
    without_unread,
)
from attrib_ds.attribution.intervals import Limits, Uncertainty, Units, measures_of
from attrib_ds.attribution.models import Model
from attrib_ds.attribution.paths.inputs import MILESTONE
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT, to_pandas

#: Rows of credits by user to resample at a time.
_TOGETHER = 1 << 18

_CELL = ["node_id", "currency"]


def rule_credits(paths: Paths, models: list[Model], *, uncertainty: Uncertainty | None) -> list[pd.DataFrame]:
    """Sum the credit of every model by node and currency.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    models : list of Model
        Rule-based models.
    uncertainty : Uncertainty, optional
        Level and method of intervals; none by default.

    Returns
    -------
    list of DataFrame
        One per model, in order: ``node_id``, ``currency``, ``conversions``, ``value`` and, with
        ``uncertainty``, bounds of both and of the share.
    """
    if not models:
        return []
    if uncertainty is None:
        wide = _summed_by_place(paths, models)
        return [credits_of(wide, index, _CELL) for index in range(len(models))]
    if uncertainty.replicates:
        replicated = ReplicatedCredits.of(paths, models, range(uncertainty.replicates), uncertainty.seed)
        return [replicated.bounded(index, uncertainty) for index in range(len(models))]
    wide = sums_with_squares(weighted_touches(paths, models), paths, models, _CELL)
    return [
        credits_of(wide, index, _CELL).assign(**bounds_around(wide, index, uncertainty))
        for index in range(len(models))
    ]


class ReplicatedCredits:
    """Credits of models by node and currency, of all users and in bootstrap samples of them.

    Attributes
    ----------
    cells : list of tuple
        Node and currency.
    total : float array, shape (n_models, 2, n_cells)
        Credited conversions and value.
    samples : float array, shape (n_replicates, n_models, 2, n_cells)
        The same in each replicate.
    """

    def __init__(self, models: int, replicates: int) -> None:
        self._models = models
        self._places: dict[tuple[str | None, str | None], int] = {}
        self._total = np.zeros((models * 2, 0))
        self._samples = np.zeros((replicates, models * 2, 0))
        self._lowest = np.zeros(0)

    @classmethod
    def of(cls, paths: Paths, models: list[Model], replicates: range, seed: int) -> ReplicatedCredits:
        """Resample the credits of users, a batch of rows at a time."""
        credited = _by_unit(weighted_touches(paths, models), paths, models, _CELL)
        numbered = credited.mutate(number=number_of(credited.unit)).drop("unit")
        credits = cls(len(models), len(replicates))
        # In order, so that the rows of a user are consecutive and sums are reproducible.
        for batch in batches_of(numbered.order_by("number", *_CELL), _TOGETHER):
            credits._add(batch, replicates, seed, has_users=paths.has_users)
        return credits

    @property
    def cells(self) -> list[tuple[str | None, str | None]]:
        """Node and currency of each row of credits."""
        return list(self._places)

    def whole(self, index: int) -> pd.DataFrame:
        """Return the credits of a model."""
        nodes, currencies = zip(*self.cells, strict=True) if self.cells else ((), ())
        conversions, value = self._total.reshape(self._models, 2, -1)[index]
        return pd.DataFrame(
            {
                "node_id": pd.array(nodes, dtype=TEXT),
                "currency": pd.array(currencies, dtype=TEXT),
                "conversions": conversions,
                "value": value,
            }
        )

    def bounded(self, index: int, uncertainty: Uncertainty) -> pd.DataFrame:
        """Return the credits of a model with their bounds."""
        whole = self.whole(index)
        conversions, value = (whole[name].to_numpy("float64") for name in ("conversions", "value"))
        bounds = uncertainty.between(
            measures_of(conversions, value), self.of_model(index), limits=_limits(whole, self._lowest)
        )
        return whole.assign(**bounds)

    def of_model(self, index: int) -> Numbers:
        """Return conversions and value in each replicate; shape (n_replicates, 2, n_cells)."""
        return np.asarray(self._samples.reshape(len(self._samples), self._models, 2, -1)[:, index])

    def _add(self, batch: pa.RecordBatch, replicates: range, seed: int, *, has_users: bool) -> None:
        cell = self._cell_of(batch)
        missing = len(self._places) - self._total.shape[-1]
        self._total = np.pad(self._total, [(0, 0), (0, missing)])
        self._samples = np.pad(self._samples, [(0, 0), (0, 0), (0, missing)])
        self._lowest = np.pad(self._lowest, (0, missing), constant_values=np.inf)
        np.fmin.at(self._lowest, cell, _numbers(batch["lowest"]))
        names = [f"{kind}{index}" for index in range(self._models) for kind in "cv"]
        amounts = np.column_stack([_numbers(batch[name]) for name in names])
        for position, amount in enumerate(amounts.T):
            self._total[position] += np.bincount(cell, amount, len(self._places))
        units = Units.of(_whole(batch["number"]))
        if not has_users:
            # An aggregated path stands for many conversions of different users.
            is_first = np.diff(units.unit, prepend=-1) > 0
            units = units.sized(np.where(is_first, _numbers(batch["conversions"]), 0.0))
        self._samples += units.sums(cell, amounts, cells=len(self._places), replicates=replicates, seed=seed)

    def _cell_of(self, batch: pa.RecordBatch) -> Codes:
        node, currency = (batch[name].dictionary_encode("encode") for name in _CELL)
        width = max(len(currency.dictionary), 1)
        codes, row = np.unique(_whole(node.indices) * width + _whole(currency.indices), return_inverse=True)
        nodes, currencies = node.dictionary.to_pylist(), currency.dictionary.to_pylist()
        pairs = ((nodes[code // width], currencies[code % width]) for code in codes.tolist())
        places = [self._places.setdefault(pair, len(self._places)) for pair in pairs]
        return np.array(places, dtype=np.int64)[row]


def weighted_touches(paths: Paths, models: list[Model]) -> ir.Table:
    """Add the weight of every touchpoint under each model."""
    return paths.touches.mutate(**{f"w{index}": weighted(paths, model) for index, model in enumerate(models)})


def credit_sums(rows: ir.Table, models: Iterable[int]) -> dict[str, Any]:
    """Return the sums of credited conversions and value under each model, by the number of its weight."""
    sums = {}
    for index in models:
        weight = rows[f"w{index}"]
        sums[f"c{index}"] = total(weight * rows.conversions)
        sums[f"v{index}"] = total(weight * rows.value)
    return sums


def _summed_by_place(paths: Paths, chosen: list[Model]) -> pd.DataFrame:
    """Sum credits by node and currency, and before by place in the path, on which many weights depend alone.

    There are few places, so these weights cost next to nothing. All sums are rounded once, at the end.
    """
    placed = {index for index, model in enumerate(chosen) if _depends_on_place(model)}
    weights = {f"w{index}": weighted(paths, chosen[index]) for index in set(range(len(chosen))) - placed}
    rows = paths.touches.select(*_CELL, "position", "length", "conversions", "value", **weights)
    rows = without_unread(rows, paths.touches)
    sums = exact_sums("conversions", rows.conversions) | exact_sums("value", rows.value)
    for index in set(range(len(chosen))) - placed:
        weight = rows[f"w{index}"]
        sums |= exact_sums(f"c{index}_", weight * rows.conversions)
        sums |= exact_sums(f"v{index}_", weight * rows.value)
    places = rows.group_by([*_CELL, "position", "length"]).agg(**sums)
    places = places.mutate(**{f"w{index}": weighted(paths, chosen[index], places) for index in placed})
    found = to_pandas(places.to_pyarrow()).sort_values(_CELL, ignore_index=True)
    wide = found[_CELL].drop_duplicates()
    starts = wide.index.to_numpy()
    wide = wide.reset_index(drop=True)
    for index in range(len(chosen)):
        for kind, of in (("c", "conversions"), ("v", "value")):
            name = of if index in placed else f"{kind}{index}_"
            parts = found[[f"{name}{part}" for part in range(4)]].to_numpy("float64", na_value=np.nan)
            if index in placed:
                parts = parts * found[[f"w{index}"]].to_numpy("float64")
            wide[f"{kind}{index}"] = (
                [_exact_sum(cell) for cell in np.split(parts, starts[1:])] if len(wide) else 0.0
            )
    return wide


def _exact_sum(parts: Numbers) -> float:
    """Add up what is not missing, rounded once; nothing is missing itself."""
    present = parts[~np.isnan(parts)]
    return math.fsum(present.tolist()) if present.size else math.nan


def _depends_on_place(model: Model) -> bool:
    """Return whether weights depend only on the position of a touchpoint and the length of the path."""
    if isinstance(model, models.PositionBased):
        return not model.roles
    return isinstance(model, models.FirstTouch | models.LastTouch | models.Linear | models.LinearRamp)


def _by_unit(rows: ir.Table, paths: Paths, models: list[Model], cell: list[str]) -> ir.Table:
    """Sum credits by cell and sampling unit: the user, or the conversion if users are unknown."""
    unit = rows.user_id.coalesce(rows.event_id) if paths.has_users else rows.event_id
    rows = rows.mutate(unit=unit)
    return rows.group_by([*cell, "unit"]).agg(
        **credit_sums(rows, range(len(models))), conversions=rows.conversions.max(), lowest=rows.value.min()
    )


def sums_with_squares(rows: ir.Table, paths: Paths, models: list[Model], cell: list[str]) -> pd.DataFrame:
    """Sum credits, and for variances their squares and their products with the user's total.

    A cell is a node, a currency and possibly a period, of which the user's total is.
    """
    credited = _by_unit(rows, paths, models, cell)
    of_unit = ibis.window(group_by=[credited[name] for name in ("unit", *cell[2:])])
    totals = {f"t{index}": total(credited[f"c{index}"], over=of_unit) for index in range(len(models))}
    rows = credited.mutate(**totals)
    # The conversions of an aggregated path are separate units, each with an equal part of its credit.
    size = ibis.literal(1.0) if paths.has_users else rows.conversions
    sums: dict[str, Any] = {"lowest": rows.lowest.min()}
    for index in range(len(models)):
        conversions, value, of_user = (rows[f"{kind}{index}"] for kind in "cvt")
        sums[f"c{index}"] = total(conversions)
        sums[f"v{index}"] = total(value)
        sums[f"cc{index}"] = total(conversions * conversions / size)
        sums[f"vv{index}"] = total(value * value / size)
        sums[f"ct{index}"] = total(conversions * of_user / size)
    return to_pandas(rows.group_by(cell).agg(**sums).order_by(*cell).to_pyarrow())


def credits_of(wide: pd.DataFrame, index: int, cell: list[str]) -> pd.DataFrame:
    """Return the sums of one model, by the columns of a cell."""
    return wide[cell].assign(
        conversions=wide[f"c{index}"].astype("float64"), value=wide[f"v{index}"].astype("float64")
    )


def bounds_around(wide: pd.DataFrame, index: int, uncertainty: Uncertainty) -> dict[str, Numbers]:
    """Return bounds by the variance of a compound Poisson process; of shares by the delta method."""
    conversions, value, squares, value_squares, products = (
        wide[f"{kind}{index}"].to_numpy("float64") for kind in ("c", "v", "cc", "vv", "ct")
    )
    estimates = measures_of(conversions, value)
    share = estimates["share"]
    whole = conversions.sum() or np.nan
    # Sum over users of the squared difference between their credit and the share of their total. The squares
    # of totals are the products with totals, summed over nodes.
    deviations = squares - 2 * share * products + share**2 * products.sum()
    return uncertainty.around(
        estimates,
        {"conversions": squares, "value": value_squares, "share": deviations / whole**2},
        limits=_limits(wide, wide["lowest"].to_numpy("float64")),
    )


def _limits(credits: pd.DataFrame, lowest: Numbers) -> Limits:
    """Return the limits of rule-based credits; ``lowest`` is the minimum value of a conversion by row."""
    currency = pd.factorize(credits["currency"])[0].astype(np.int64)
    return Limits(is_sum=True, is_signed=False, is_gain=lowest >= 0, currency=currency + 1)


def _numbers(column: pa.Array) -> Numbers:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _whole(column: pa.Array) -> Codes:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def weighted(paths: Paths, model: models.Model, touches: ir.Table | None = None) -> ir.NumericValue:
    """Return the weight of each row of ``paths.touches`` under a model.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    model : Model
        A rule-based model.
    touches : ibis.Table, optional
        Rows to weigh instead, with the columns that the model needs.

    Returns
    -------
    ibis number
        A column over the rows; 1 on the row of a conversion without a touchpoint.

    Raises
    ------
    InvalidRequest
        If the model needs dates or milestones that the paths do not have.
    """
    rows = paths.touches if touches is None else touches
    return ibis.ifelse(rows.length == 0, double(1.0), weight(model, paths, rows))


@singledispatch
def weight(model: models.Model, paths: Paths, touches: ir.Table) -> Any:
    """Return the weight of each touchpoint under a rule-based model."""
    raise InvalidRequest(f"models: {model!r} is not a rule-based model")


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
        step = double(as_days(model.step, argument="step"))
        age, youngest = (age / step).floor() * step, (youngest / step).floor() * step
    # Ages are relative to the youngest touchpoint, so that a short half-life cannot underflow every weight;
    # engines compute exp() far faster than a power.
    rate = double(-math.log(2) / as_days(model.half_life, argument="half_life"))
    decayed = ((age - youngest) * rate).exp()
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
            "pass milestones=, or columns={'milestone.NAME': …} for frames"
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
            "position, length, age_days, node_id, type"
        ) from error
    except Exception as error:
        hint = "; choose between numbers with ibis.ifelse" if "truth value" in str(error) else ""
        raise InvalidRequest(
            f"models: {model.name} cannot be computed: {type(error).__name__}: {error}{hint}"
        ) from error
    numbers = ibis.expr.types.NumericValue | int | float
    if not isinstance(raw, numbers) or isinstance(raw, ibis.expr.types.BooleanValue | bool):
        raise InvalidRequest(
            f"models: {model.name} returns {type(raw).__name__}; allowed: a number or an Ibis number"
        )
    if isinstance(raw, ibis.expr.types.Value) and raw.op().find(
        (ops.Reduction, ops.WindowFunction), filter=ops.Value
    ):
        raise InvalidRequest(
            f"models: {model.name} aggregates over touchpoints; allowed: a function of one touchpoint "
            "(weights are scaled to sum to 1 per conversion automatically)"
        )
    return raw + double(0.0) * touches.position


def _of_event(touches: ir.Table) -> Any:
    return ibis.window(group_by=touches.event_id)


def _flag(condition: Any) -> Any:
    return ibis.ifelse(condition, double(1.0), double(0.0))


def _in(values: Any, allowed: tuple[str, ...]) -> Any:
    return values.isin(allowed).fill_null(False) if allowed else ibis.literal(False)
