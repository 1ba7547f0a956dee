"""Reasons for the weights of one conversion, as sentences with the numbers of the model."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from attrib_ds.attribution import models
from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.models.path_models import DiscreteHazard
from attrib_ds.attribution.paths.path_inputs import MILESTONE

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.attribution.models.path_models import SequenceModel


@singledispatch
def reasons(model: models.Model, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    """Return the reason for the weight of each touchpoint.

    Parameters
    ----------
    model : Model
        A model that credits touchpoints.
    rows : DataFrame
        The touchpoints of one conversion, in order: the columns of ``Paths.touches``, ``weight``,
        ``node_name``, and the columns that a path model adds to its shares.

    Returns
    -------
    list of str
        One per row.
    """
    return [f"{percent(weight)} of the conversion" for weight in rows["weight"]]


def percent(part: float) -> str:
    """Format a share as a percentage with three significant digits.

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
            f"last of {_touchpoints(rows)}, all direct: 100 %" if weight else "not the last, all direct: 0 %"
            for weight in rows["weight"]
        ]
    return [
        f"last non-direct of {_touchpoints(rows)}: 100 %"
        if weight
        else ("direct: 0 %" if direct else "followed by another non-direct touchpoint: 0 %")
        for weight, direct in zip(rows["weight"], is_direct, strict=True)
    ]


@reasons.register(models.Linear)
def _linear(model: models.Linear, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    if len(rows) == 1:
        return ["the only touchpoint: 100 %"]
    return [f"one of {_touchpoints(rows)}: {percent(weight)}" for weight in rows["weight"]]


@reasons.register(models.LinearRamp)
def _linear_ramp(model: models.LinearRamp, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    total = len(rows) * (len(rows) + 1) // 2
    return [
        f"touchpoint {place} of {len(rows)}: weight {place} of {total}, {percent(weight)}"
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
    scale = f"of {left.sum():.2f}"
    if left.sum() < 0.005:
        # Weights of old touchpoints would all be 0, so the model measures ages from the last touchpoint.
        left = 2.0 ** (-(age - age.min()) / half_life)
        scale = "against 1.00 of the last touchpoint"
    return [
        f"{days:.1f} days old: weight {weight:.2f} {scale}, {percent(part)}"
        for days, weight, part in zip(rows["age_days"], left, rows["weight"], strict=True)
    ]


@reasons.register(models.PositionBased)
def _position_based(model: models.PositionBased, rows: pd.DataFrame) -> list[str]:
    keys = {"first": 1, "last": len(rows)}
    for name, _ in model.roles:
        reached = rows.loc[rows["date"] <= rows[f"{MILESTONE}{name}"], "position"]
        if len(reached):
            keys[f"last before {name!r}"] = int(reached.max())
    if len(rows) == 1:
        return ["the only touchpoint: 100 %"]
    sentences = []
    for place, weight in zip(rows["position"], rows["weight"], strict=True):
        held = [role for role, key in keys.items() if key == place]
        role = " and ".join(held) or ("without a role" if model.roles else "neither first nor last")
        sentences.append(f"{role} of {_touchpoints(rows)}: {percent(weight)}")
    return sentences


@reasons.register(models.Participation)
def _participation(model: models.Participation, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    first = rows.groupby("node_id")["position"].transform("min")
    return [
        f"{name} took part: 100 %" if weight else f"{name} already took part at touchpoint {place}: 0 %"
        for name, weight, place in zip(rows["node_name"], rows["weight"], first, strict=True)
    ]


@reasons.register(models.CustomWeights)
def _custom_weights(model: models.CustomWeights, rows: pd.DataFrame) -> list[str]:
    return [f"weight by {model.name}: {percent(weight)}" for weight in rows["weight"]]


@reasons.register(models.Shapley)
def _shapley(model: models.Shapley, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    nodes = rows["node_id"].nunique()
    times = rows.groupby("node_id")["position"].transform("count")
    return [f"one of {_count(nodes, 'node')}: {percent(1 / nodes)}{_divided(count)}" for count in times]


@reasons.register(models.ConversionRateShapley)
def _conversion_rate_shapley(model: models.ConversionRateShapley, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    return [
        f"users with these nodes convert at {percent(rate)}, of which {name} contributes {_points(gain)} "
        f"percentage points: {percent(gain / rate)}{_divided(times)}"
        for name, gain, rate, times in rows[["node_name", "gain", "rate", "times"]].itertuples(index=False)
    ]


@reasons.register(models.Fractribution)
def _fractribution(model: models.Fractribution, rows: pd.DataFrame) -> list[str]:
    loss = np.maximum(rows["rate"] - rows["rate_without"], 0.0)
    total = loss.sum()
    sentences = []
    columns = ["rate", "rate_without", "weight"]
    for (rate, without, weight), lost in zip(rows[columns].itertuples(index=False), loss, strict=True):
        if math.isnan(rate):
            sentences.append(f"left out of the path ({_settings(model)}): 0 %")
        elif total > 0:
            sentences.append(
                f"users with this path convert at {percent(rate)}, without this touchpoint at "
                f"{percent(without)}: {_points(max(lost, 0.0))} of {_points(total)} percentage points lost"
            )
        else:
            last = "this is the last one" if weight else "this is not the last one"
            sentences.append(f"no touchpoint raises the conversion rate, and {last}: {percent(weight)}")
    return sentences


@reasons.register(DiscreteHazard)
def _incremental(model: DiscreteHazard, rows: pd.DataFrame) -> list[str]:  # noqa: ARG001
    sentences = []
    for weight, is_outside in zip(rows["weight"], rows["position"].isna(), strict=True):
        outside = "before the lookback, but still effective: " if is_outside else ""
        change = "less" if weight >= 0 else "more"
        sentences.append(f"{outside}{percent(abs(weight))} {change} likely to convert without it")
    return sentences


def unattributed_reason(model: models.Model, weight: float, *, length: int) -> str:
    """Return the reason for the unattributed part of a conversion."""
    if not isinstance(model, DiscreteHazard):
        return "no touchpoint in the lookback"
    if not length and weight == 1:
        return "no effective touchpoint: would have happened anyway"
    if weight < 0:
        return f"the touchpoints' weights sum to {percent(1 - weight)}, {percent(-weight)} too much"
    return f"baseline: {percent(weight)} would have happened anyway"


def _touchpoints(rows: pd.DataFrame) -> str:
    return _count(len(rows), "touchpoint")


def _count(number: Any, noun: str) -> str:
    return f"{int(number)} {noun}{'' if number == 1 else 's'}"


def _divided(times: Any) -> str:
    return f", divided among its {int(times)} touchpoints" if times > 1 else ""


def _points(rate: float) -> str:
    return f"{100 * rate:.3g}"


def _settings(model: SequenceModel) -> str:
    settings = [f"transform {model.transform!r}"] if model.transform != "unique" else []
    settings += [f"last {_count(model.steps, 'touchpoint')} only"] if model.steps is not None else []
    settings += [f"without {name} unless alone" for name in model.remove_if_not_all]
    settings += [f"without {name} at the end unless alone" for name in model.remove_if_last_and_not_all]
    return ", ".join(settings)
