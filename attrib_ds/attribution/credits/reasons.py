"""Why each touchpoint of a conversion has its part, in plain words made of the numbers of the model."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from attrib_ds.attribution import models
from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.models.incremental import IncrementalModel
from attrib_ds.attribution.paths.path_inputs import MILESTONE

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.attribution.models.path_models import SequenceModel


@singledispatch
def reasons(model: models.Model, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    """Return why each touchpoint has its weight.

    Parameters
    ----------
    model : Model
        With credit per touchpoint.
    rows : DataFrame
        The touchpoints of one conversion, in order: the columns of ``Paths.touches``, ``weight``,
        ``node_name``, and what a model of whole paths tells beside its shares.

    Returns
    -------
    list of str
        One per row.
    """
    return [f"{percent(weight)} of the conversion" for weight in rows["weight"]]


def percent(part: float) -> str:
    """Return a part as a percentage with as many digits as matter.

    Examples
    --------
    >>> percent(0.4), percent(1 / 3), percent(-0.00125)
    ('40 %', '33.3 %', '-0.125 %')
    """
    return f"{100 * part:.3g} %"


@reasons.register(models.FirstTouch)
def _first_touch(model: models.FirstTouch, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    return [
        f"first of {_touchpoints(rows)}: 100 %" if place == 1 else "not the first: 0 %"
        for place in rows["position"]
    ]


@reasons.register(models.LastTouch)
def _last_touch(model: models.LastTouch, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    return [
        f"last of {_touchpoints(rows)}: 100 %" if place == len(rows) else "not the last: 0 %"
        for place in rows["position"]
    ]


@reasons.register(models.LastNonDirect)
def _last_non_direct(model: models.LastNonDirect, rows: pd.DataFrame) -> list[str]:
    is_direct = rows["is_direct"] if model.direct is None else rows["node_id"].isin(model.direct)
    if is_direct.all():
        return [
            "last, and nothing but direct before it: 100 %" if weight else "direct, and not the last: 0 %"
            for weight in rows["weight"]
        ]
    return [
        f"last of {_touchpoints(rows)} that is not direct: 100 %"
        if weight
        else ("direct: 0 %" if direct else "a later one is not direct either: 0 %")
        for weight, direct in zip(rows["weight"], is_direct, strict=True)
    ]


@reasons.register(models.Linear)
def _linear(model: models.Linear, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    return [f"one of {_touchpoints(rows)}: {percent(weight)}" for weight in rows["weight"]]


@reasons.register(models.LinearRamp)
def _linear_ramp(model: models.LinearRamp, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    total = len(rows) * (len(rows) + 1) // 2
    return [
        f"touchpoint {place} of {len(rows)}: {place} of {total} parts, {percent(weight)}"
        for place, weight in zip(rows["position"], rows["weight"], strict=True)
    ]


@reasons.register(models.TimeDecay)
def _time_decay(model: models.TimeDecay, rows: pd.DataFrame) -> list[str]:
    half_life = as_days(model.half_life, argument="half_life")
    age = rows["age_days"].to_numpy(dtype=float)
    if model.step is not None:
        step = as_days(model.step, argument="step")
        age = np.floor(age / step) * step
    left = 2.0 ** (-age / half_life)
    told = f"of {left.sum():.2f}"
    if left.sum() < 0.005:
        # The model measures from the last one, as weights of old touchpoints would all be 0 otherwise.
        left = 2.0 ** (-(age - age.min()) / half_life)
        told = "where the last one has 1.00"
    return [
        f"{days:.1f} days before: weight {weight:.2f} {told}, {percent(part)}"
        for days, weight, part in zip(rows["age_days"], left, rows["weight"], strict=True)
    ]


@reasons.register(models.PositionBased)
def _position_based(model: models.PositionBased, rows: pd.DataFrame) -> list[str]:
    keys = {"first": 1, "last": len(rows)}
    for name, _ in model.roles:
        reached = rows.loc[rows["date"] <= rows[f"{MILESTONE}{name}"], "position"]
        if len(reached):
            keys[f"last before {name!r}"] = int(reached.max())
    told = []
    for place, weight in zip(rows["position"], rows["weight"], strict=True):
        held = [role for role, key in keys.items() if key == place]
        role = " and ".join(held) or ("no key touchpoint" if model.roles else "neither first nor last")
        if len(rows) == 1:
            role = "only"
        told.append(f"{role} of {_touchpoints(rows)}: {percent(weight)}")
    return told


@reasons.register(models.Participation)
def _participation(model: models.Participation, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    first = rows.groupby("node_id")["position"].transform("min")
    return [
        f"{name} took part: 100 %" if weight else f"{name} took part at touchpoint {place} already: 0 %"
        for name, weight, place in zip(rows["node_name"], rows["weight"], first, strict=True)
    ]


@reasons.register(models.CustomWeights)
def _custom_weights(model: models.CustomWeights, rows: pd.DataFrame) -> list[str]:
    return [f"weight by {model.name}: {percent(weight)}" for weight in rows["weight"]]


@reasons.register(models.Shapley)
@reasons.register(models.OrderedShapley)
def _shapley(model: models.Model, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    nodes = rows["node_id"].nunique()
    times = rows.groupby("node_id")["position"].transform("count")
    return [f"one of {_count(nodes, 'node')}: {percent(1 / nodes)}{_over(many)}" for many in times]


@reasons.register(models.ConversionRateShapley)
def _conversion_rate_shapley(model: models.ConversionRateShapley, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    return [
        f"{name} adds {_points(gain)} of the {_points(rate)} percentage points at which users with these "
        f"nodes convert: {percent(gain / rate)}{_over(times)}"
        for name, gain, rate, times in rows[["node_name", "gain", "rate", "times"]].itertuples(index=False)
    ]


@reasons.register(models.Fractribution)
def _fractribution(model: models.Fractribution, rows: pd.DataFrame) -> list[str]:
    loss = np.maximum(rows["rate"] - rows["rate_without"], 0.0)
    total = loss.sum()
    told = []
    columns = ["rate", "rate_without", "weight"]
    for (rate, without, weight), lost in zip(rows[columns].itertuples(index=False), loss, strict=True):
        if math.isnan(rate):
            told.append(f"left out by the transform {_named(model)}: 0 %")
        elif total > 0:
            told.append(
                f"users with this path convert at {percent(rate)}, without this touchpoint at "
                f"{percent(without)}: loses {_points(max(lost, 0.0))} of {_points(total)} percentage points"
            )
        else:
            last = "it is the last" if weight else "it is not the last"
            told.append(f"nothing is lost without any touchpoint, and {last}: {percent(weight)}")
    return told


@reasons.register(IncrementalModel)
def _incremental(model: IncrementalModel, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    told = []
    for weight, is_outside in zip(rows["weight"], rows["position"].isna(), strict=True):
        outside = "before the lookback, and still at work: " if is_outside else ""
        if weight >= 0:
            told.append(f"{outside}{percent(weight)} of the chance to convert would be lost without it")
        else:
            told.append(f"{outside}the chance to convert would be {percent(-weight)} higher without it")
    return told


def unattributed_reason(model: models.Model, weight: float, *, length: int) -> str:
    """Return why a part of a conversion is nobody's."""
    if not isinstance(model, IncrementalModel):
        return "no touchpoint in the lookback"
    if not length and weight == 1:
        return "no touchpoint at work: it would have happened anyway"
    if weight < 0:
        return f"the touchpoints' parts add up to {percent(1 - weight)}: {percent(-weight)} too many"
    return f"{percent(weight)} of the chance to convert was there without any of them"


def _touchpoints(rows: pd.DataFrame) -> str:
    return _count(len(rows), "touchpoint")


def _count(number: Any, noun: str) -> str:
    return f"{int(number)} {noun}{'' if number == 1 else 's'}"


def _over(times: Any) -> str:
    return f", over {int(times)} touchpoints of it" if times > 1 else ""


def _points(rate: float) -> str:
    return f"{100 * rate:.3g}"


def _named(model: SequenceModel) -> str:
    told = [repr(model.transform)] if model.transform != "unique" else []
    told += [f"to the last {model.steps} touchpoints"] if model.steps is not None else []
    told += [f"without {name} unless alone" for name in model.remove_if_not_all]
    told += [f"without {name} at the end unless alone" for name in model.remove_if_last_and_not_all]
    return " ".join(told)
