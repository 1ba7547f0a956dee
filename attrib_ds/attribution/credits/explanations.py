"""Explain the credits of one conversion: why each touchpoint has its weight."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.attribution import models
from attrib_ds.attribution.calendar import as_days
from attrib_ds.attribution.credits.path_credits import touch_shares
from attrib_ds.attribution.credits.touches import (
    check_custom_weights,
    credited_touches,
    joined_shares,
    models_by_label,
)
from attrib_ds.attribution.models import DiscreteHazard, Model, PathModel, SequenceModel
from attrib_ds.attribution.paths import inputs, sequences
from attrib_ds.attribution.paths.paths import Paths, require_paths
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT, to_pandas

#: Columns of every table of shares; a model may add columns for its explanations.
_SHARE_COLUMNS = ("event_id", "node_id", "date", "touch_id", "share")
_COLUMNS = [
    "position", "node_id", "node_name", "date", "age_days", "weight", "conversions", "value", "currency",
    "why",
]  # fmt: skip


def explain(paths: Paths, model: Model | str, event_id: str) -> pd.DataFrame:
    """Explain the credits of one conversion, touchpoint by touchpoint.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths`, ``Paths.from_frames`` or ``Paths.from_sequences``.
    model : Model or str
        A model that credits touchpoints, as in :func:`attrib_ds.touch_credits`. A path model is computed on
        all paths to explain one.
    event_id : str
        The conversion.

    Returns
    -------
    DataFrame
        One row per touchpoint, in order of date, then one row for the unattributed part, if any:
        ``position`` (Int64; 1 is the first, 0 the unattributed part, null for touchpoints before the
        lookback), ``node_id``, ``node_name`` (str), ``date`` (datetime64[us, UTC]), ``age_days`` (float64,
        days before the conversion), ``weight`` (float64, fraction of the conversion), ``conversions``,
        ``value`` (float64, credited), ``currency`` (str), ``why`` (str, the reason in words). ``attrs`` holds
        ``model``, ``event_id`` and ``event_date``. :func:`attrib_ds.plots.explanation` draws it.

    Raises
    ------
    InvalidRequest
        If the paths have no conversion ``event_id``, more than one model is passed, or the model is unknown
        or does not credit touchpoints.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> touchpoints = pd.DataFrame({"user_id": ["u", "u", "u"], "node_id": ["search", "email", "direct"],
    ...     "date": pd.to_datetime(["2025-01-01", "2025-01-02", "2025-01-03"], utc=True)})
    >>> conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"],
    ...     "date": pd.to_datetime(["2025-01-04"], utc=True)})
    >>> paths = at.Paths.from_frames(touchpoints, conversions)
    >>> at.explain(paths, "position_based", "e")[["node_id", "weight", "why"]]
      node_id  weight                                            why
    0  search     0.4                   first of 3 touchpoints: 40 %
    1   email     0.2  neither first nor last of 3 touchpoints: 20 %
    2  direct     0.4                    last of 3 touchpoints: 40 %
    """
    require_paths(paths)
    named = models_by_label(model)
    if len(named) > 1:
        raise InvalidRequest(f"model: got {len(named)} models ({', '.join(named)}); allowed: one model")
    ((label, chosen),) = named.items()
    check_custom_weights(paths, {label: chosen})
    of_event = paths.touches.filter(paths.touches.event_id == str(event_id))
    touches = to_pandas(of_event.order_by("position").to_pyarrow())
    if touches.empty or not isinstance(event_id, str):
        raise InvalidRequest(
            f"event_id: the paths have no conversion {event_id!r}; allowed: a value of the column 'event_id' "
            "of paths.to_pandas()"
        )
    weights = _weighted(paths, chosen, of_event, touches, event_id)
    weights["node_name"] = paths.names(weights["node_id"])
    is_touch = weights["node_id"].notna()
    rows = weights[is_touch].sort_values(["date", "position"], kind="stable", na_position="first")
    rest = weights[~is_touch]
    why = reasons(chosen, rows) if len(rows) else []
    length = int(touches["length"].iloc[0])
    why += [unattributed_reason(chosen, weight, length=length) for weight in rest["weight"]]
    explained = pd.concat([rows, rest], ignore_index=True)
    explained["conversions"] *= explained["weight"]
    explained["value"] *= explained["weight"]
    explained["why"] = pd.Series(why, index=explained.index, dtype=TEXT)
    explained = explained[_COLUMNS]
    explained.attrs = {"model": label, "event_id": event_id, "event_date": touches["event_date"].iloc[0]}
    return explained


def _weighted(
    paths: Paths, model: Model, of_event: ir.Table, touches: pd.DataFrame, event_id: str
) -> pd.DataFrame:
    """Return the touchpoints of the conversion with their weights and the model's own columns."""
    narrow = replace(paths, touches=of_event)
    if not isinstance(model, PathModel):
        rows = to_pandas(credited_touches(narrow, model, sequences.Sequences.of(narrow)).to_pyarrow())
        return touches.merge(rows[["position", "weight"]], on="position")
    shares = touch_shares(model, sequences.Sequences.of(paths))
    shares = shares.filter(pc.equal(shares["event_id"], pa.scalar(event_id, shares["event_id"].type)))
    joined = joined_shares(narrow, shares, leaves_rest=isinstance(model, DiscreteHazard))
    rows = to_pandas(joined.to_pyarrow())
    others = [name for name in shares.column_names if name not in (*_SHARE_COLUMNS, *rows.columns)]
    if "position" in shares.column_names and others:
        details: Any = to_pandas(shares.select(["position", *others]))
        rows = rows.merge(details, on="position", how="left")
    return rows


@singledispatch
def reasons(model: models.Model, rows: pd.DataFrame) -> list[str]:
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
    return [f"weight by {model.name}: {percent(weight)}" for weight in rows["weight"]]


def percent(part: float) -> str:
    """Format a share as a percentage with three significant digits.

    Examples
    --------
    >>> percent(0.4), percent(1 / 3), percent(-0.00125)
    ('40 %', '33.3 %', '-0.125 %')
    """
    return f"{100 * part:.3g} %"


@reasons.register(models.FirstTouch)
@reasons.register(models.LastTouch)
def _single_touch(model: models.Model, rows: pd.DataFrame) -> list[str]:
    end = "first" if isinstance(model, models.FirstTouch) else "last"
    credited = f"{end} of {_touchpoints(rows)}: 100 %"
    return [credited if weight else f"not the {end}: 0 %" for weight in rows["weight"]]


@reasons.register(models.LastNonDirect)
def _last_non_direct(model: models.LastNonDirect, rows: pd.DataFrame) -> list[str]:
    is_direct = rows["is_direct"] if model.direct is None else rows["node_id"].isin(model.direct)
    credited = f"last non-direct of {_touchpoints(rows)}: 100 %"
    others = {True: "direct: 0 %", False: "followed by another non-direct touchpoint: 0 %"}
    if is_direct.all():
        credited = f"last of {_touchpoints(rows)}, all direct: 100 %"
        others[True] = "not the last, all direct: 0 %"
    return [
        credited if weight else others[bool(direct)]
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
        reached = rows.loc[rows["date"] <= rows[f"{inputs.MILESTONE}{name}"], "position"]
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
