"""Explain the credits of one conversion: why each touchpoint has its weight."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.attribution.credits.credited_touches import credited_touches, joined_shares
from attrib_ds.attribution.credits.model_labels import check_custom_weights, models_by_label
from attrib_ds.attribution.credits.reasons import reasons, unattributed_reason
from attrib_ds.attribution.credits.touch_shares import touch_shares
from attrib_ds.attribution.models.path_models import DiscreteHazard, PathModel
from attrib_ds.attribution.paths.paths import require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.dtypes import TEXT
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from attrib_ds.attribution.models.model import Model
    from attrib_ds.attribution.paths.paths import Paths

#: Columns of every table of shares; a model may add columns for its explanations.
_SHARE_COLUMNS = ("event_id", "node_id", "date", "touch_id", "share")
_COLUMNS = [
    "position",
    "node_id",
    "node_name",
    "date",
    "age_days",
    "weight",
    "conversions",
    "value",
    "currency",
    "why",
]


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
    label, chosen = _single(models_by_label(model))
    if not isinstance(event_id, str):
        raise InvalidRequest(
            f"event_id: {event_id!r} is not a string; allowed: a value of the column 'event_id' of "
            "paths.to_pandas()",
            field="event_id",
        )
    check_custom_weights(paths, {label: chosen})
    of_event = paths.touches.filter(paths.touches.event_id == event_id)
    touches = to_pandas(of_event.order_by("position").to_pyarrow())
    if touches.empty:
        raise InvalidRequest(
            f"event_id: the paths have no conversion {event_id!r}; allowed: a value of the column 'event_id' "
            "of paths.to_pandas()",
            field="event_id",
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


def _single(models: dict[str, Model]) -> tuple[str, Model]:
    if len(models) > 1:
        raise InvalidRequest(
            f"model: got {len(models)} models ({', '.join(models)}); allowed: one model", field="model"
        )
    ((label, model),) = models.items()
    return label, model


def _weighted(
    paths: Paths, model: Model, of_event: ir.Table, touches: pd.DataFrame, event_id: str
) -> pd.DataFrame:
    """Return the touchpoints of the conversion with their weights and the model's own columns."""
    narrow = replace(paths, touches=of_event)
    if not isinstance(model, PathModel):
        rows = to_pandas(credited_touches(narrow, model, Sequences.of(narrow)).to_pyarrow())
        return touches.merge(rows[["position", "weight"]], on="position")
    shares = touch_shares(model, Sequences.of(paths))
    shares = shares.filter(pc.equal(shares["event_id"], pa.scalar(event_id, shares["event_id"].type)))
    joined = joined_shares(narrow, shares, leaves_rest=isinstance(model, DiscreteHazard))
    rows = to_pandas(joined.to_pyarrow())
    others = [name for name in shares.column_names if name not in (*_SHARE_COLUMNS, *rows.columns)]
    if "position" in shares.column_names and others:
        details: Any = to_pandas(shares.select(["position", *others]))
        rows = rows.merge(details, on="position", how="left")
    return rows
