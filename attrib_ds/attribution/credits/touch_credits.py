"""Credits of single touchpoints, conversion by conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from attrib_ds.attribution.credits.credited_touches import credited_touches
from attrib_ds.attribution.credits.model_labels import check_custom_weights, models_by_label
from attrib_ds.attribution.paths.paths import require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.records.dtypes import TEXT
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from attrib_ds.attribution.credits.model_labels import Models
    from attrib_ds.attribution.paths.paths import Paths


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
