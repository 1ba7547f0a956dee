"""Credits of single touchpoints and positions: the weight of each touchpoint in each conversion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ibis
import ibis.expr.types as ir
import pandas as pd
import pyarrow as pa

from attrib_ds.attribution.engines.engine import double, total
from attrib_ds.attribution.models import CustomWeights, DiscreteHazard, Model, PathModel, model_named
from attrib_ds.attribution.paths.paths import Paths, require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.attribution.rules import has_invalid_weight, weighted
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT, to_pandas


def touch_credits(paths: Paths, models: Models) -> pd.DataFrame:
    """Credit every touchpoint of every conversion.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths`, ``Paths.from_frames`` or ``Paths.from_sequences``.
    models : Model, str, sequence or mapping
        As in :func:`attrib_ds.attribute`: rules, Shapley, conversion-rate Shapley (a node's credit is divided
        equally among its touchpoints), Fractribution and the discrete hazard. The Markov model credits nodes
        only.

    Returns
    -------
    DataFrame
        One row per model, conversion and touchpoint, in the order of the models, then by conversion and
        position: ``model``, ``event_id``, ``user_id``, ``node_id``, ``node_name`` (str), ``date``
        (datetime64[us, UTC]), ``position`` (Int64, 1 is the first touchpoint), ``conversions``, ``value``
        (float64, credited), ``currency`` (str). A row without a node, at position 0, holds the
        unattributed part: a whole conversion without touchpoints, or the baseline of an incremental model. A
        touchpoint outside the lookback that the discrete hazard credits has no position. Summed by node and
        currency, the credits equal those of :func:`attrib_ds.attribute`.

    Raises
    ------
    InvalidRequest
        If a model is unknown, occurs twice, needs data that the paths do not have, or does not credit
        touchpoints.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> touchpoints = pd.DataFrame({"user_id": ["u", "u"], "node_id": ["search", "email"],
    ...     "date": pd.to_datetime(["2025-01-01", "2025-01-02"], utc=True)})
    >>> conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "value": [30.0],
    ...     "date": pd.to_datetime(["2025-01-03"], utc=True)})
    >>> paths = at.Paths.from_frames(touchpoints, conversions)
    >>> at.touch_credits(paths, ["linear", "last_touch"])[["model", "node_id", "position", "value"]]
            model node_id  position  value
    0      linear  search         1   15.0
    1      linear   email         2   15.0
    2  last_touch  search         1    0.0
    3  last_touch   email         2   30.0
    """
    require_paths(paths)
    chosen = models_by_label(models)
    check_custom_weights(paths, chosen)
    sequences = Sequences.of(paths)
    frames = []
    for label, model in chosen.items():
        rows = credited_touches(paths, model, sequences)
        credited = rows.mutate(
            conversions=rows.weight * rows.conversions,
            value=rows.weight * rows.value,
            is_unattributed=rows.node_id.isnull(),
        )
        ordered = credited.order_by("event_id", "is_unattributed", "date", "position", "node_id")
        kept = ["event_id", "user_id", "node_id", "date", "position", "conversions", "value", "currency"]
        frame = to_pandas(ordered.select(*kept).to_pyarrow())
        frame.insert(0, "model", pd.Series(label, index=frame.index, dtype=TEXT))
        frames.append(frame)
    credits = pd.concat(frames, ignore_index=True)
    credits.insert(4, "node_name", paths.names(credits["node_id"]))
    return credits


def position_credits(paths: Paths, model: Model | str = "shapley") -> pd.DataFrame:
    """Credit conversions to nodes by the position of their touchpoints.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths`, ``Paths.from_frames`` or ``Paths.from_sequences``.
    model : Model or str, default "shapley"
        A model that credits touchpoints, as in :func:`attrib_ds.touch_credits`.

    Returns
    -------
    DataFrame
        One row per node, position and currency, ordered by node, position and currency: ``node_id``,
        ``node_name`` (str), ``position`` (Int64, 1 is the first touchpoint of a path), ``conversions``,
        ``value`` (float64, credited), ``currency`` (str). The unattributed part has position 0 and no node;
        touchpoints outside the lookback have no position. Summed over positions, the credits equal those of
        :func:`attrib_ds.attribute`.

    Raises
    ------
    InvalidRequest
        If the model is unknown or does not credit touchpoints.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> sequences = pd.DataFrame({"path": ["search > email > search"], "n": [4]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> at.position_credits(paths)[["node_id", "position", "conversions"]]
      node_id  position  conversions
    0   email         2          2.0
    1  search         1          1.0
    2  search         3          1.0
    """
    chosen = model_named(model) if isinstance(model, str) else model
    if not isinstance(chosen, Model):
        raise InvalidRequest(
            f"model: {model!r} is not a model; allowed: a model such as Shapley() or its name"
        )
    check_custom_weights(paths, {chosen.name: chosen})
    rows = credited_touches(paths, chosen, Sequences.of(paths))
    keys = ["node_id", "position", "currency"]
    summed = rows.group_by(keys).agg(
        conversions=total(rows.weight * rows.conversions), value=total(rows.weight * rows.value)
    )
    ordered = summed.order_by(*keys).select("node_id", "position", "conversions", "value", "currency")
    credits = to_pandas(ordered.to_pyarrow())
    credits.insert(1, "node_name", paths.names(credits["node_id"]))
    return credits


#: Columns of every row: conversion, touchpoint, position, and the count and value of the whole conversion.
COLUMNS = (
    "event_id", "user_id", "node_id", "date", "event_date", "position", "age_days", "length",
    "conversions", "value", "currency",
)  # fmt: skip
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
    from attrib_ds.attribution.credits.path_credits import touch_shares

    shares = touch_shares(model, sequences)
    return joined_shares(paths, shares, leaves_rest=isinstance(model, DiscreteHazard))


def joined_shares(paths: Paths, shares: pa.Table, *, leaves_rest: bool) -> ir.Table:
    """Join the shares of touchpoints to the touchpoints of the paths.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    shares : pyarrow.Table
        From :func:`~attrib_ds.attribution.credits.path_credits.touch_shares`.
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
        parts = [joined.mutate(weight=weight).select(*COLUMNS, "weight"), _outside(paths, held, summed)]
    if leaves_rest:
        whole = paths.ends
        by_event = ibis.memtable(shares.select(["event_id", "share"]))
        by_event = by_event.group_by(of_event=by_event.event_id).agg(attributed=total(by_event.share))
        rest = whole.left_join(by_event, whole.event_id == by_event.of_event)
        parts.append(_unattributed(rest, 1.0 - rest.attributed.fill_null(0.0)))
    else:
        parts.append(_unattributed(touches.filter(touches.length == 0), double(1.0)))
    return ibis.union(*parts)


def _summed(shares: pa.Table, held: ir.Table) -> ir.Table:
    date = shares["date"]
    if pa.types.is_timestamp(date.type) and date.type.tz is not None:
        date = date.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
    columns = {f"of_{name}": shares[name] for name in _KEY} | {"of_date": date, "share": shares["share"]}
    rows = ibis.memtable(pa.table(columns))
    rows = rows.mutate(of_date=rows.of_date.cast(held.date.type()))
    keys = [f"of_{name}" for name in _KEY]
    return rows.group_by(keys).agg(share=total(rows.share))


def _outside(paths: Paths, held: ir.Table, summed: ir.Table) -> ir.Table:
    """Return the shares of touchpoints outside the path, such as those before the lookback."""
    outside = summed.anti_join(held, [summed[f"of_{name}"] == held[name] for name in _KEY])
    outside = outside.filter(outside.share.abs() > _ROUNDING)
    kept = ["event_id", "user_id", "event_date", "length", "conversions", "value", "currency"]
    whole = paths.ends.select(*kept)
    rows = outside.inner_join(whole, outside.of_event_id == whole.event_id)
    age: Any = rows.event_date.delta(rows.of_date, unit="microsecond") / 86_400_000_000.0
    columns = {"node_id": rows.of_node_id, "date": rows.of_date, "age_days": age, "weight": rows.share}
    columns["position"] = ibis.null(held.position.type())
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


#: Models, or names of models with default parameters; a mapping gives labels of its own.
Models = Model | str | Sequence[Model | str] | Mapping[str, Model | str]


def models_by_label(models: Models) -> dict[str, Model]:
    """Return models by label: the model's name, or the key of the mapping.

    Raises
    ------
    InvalidRequest
        If there are no models, one is not a model, or a label occurs twice.
    """
    if isinstance(models, Mapping):
        pairs = list(models.items())
    else:
        given: Any = models
        is_several = isinstance(given, Iterable) and not isinstance(given, str | bytes)
        several = list(given) if is_several else [given]
        pairs = [(item if isinstance(item, str) else getattr(item, "name", ""), item) for item in several]
    if not pairs:
        raise InvalidRequest("models is empty; allowed: at least one model", field="models")
    found: dict[str, Model] = {}
    for label, item in pairs:
        model = model_named(item) if isinstance(item, str) else item
        if not isinstance(model, Model):
            raise InvalidRequest(
                f"models: {item!r} is not a model; allowed: a model such as Linear() or a name such as "
                "'linear'"
            )
        if str(label) in found:
            raise InvalidRequest(
                f"models: {label!r} occurs twice; pass a mapping to label models of the same kind"
            )
        found[str(label)] = model
    return found


def check_custom_weights(paths: Paths, models: dict[str, Model]) -> None:
    """Refuse custom weights that are missing, negative or not finite.

    Raises
    ------
    InvalidRequest
        If a model gives such a weight, or its function fails.
    """
    for model in models.values():
        if not isinstance(model, CustomWeights):
            continue
        expression = has_invalid_weight(paths, model)
        try:
            is_invalid = expression.to_pyarrow().as_py()
        except Exception as error:
            raise InvalidRequest(f"models: {model.name} cannot be computed: {error}") from error
        if is_invalid:
            raise InvalidRequest(
                f"models: {model.name} returns a weight that is missing, negative or not finite; allowed: 0 "
                "or more"
            )
