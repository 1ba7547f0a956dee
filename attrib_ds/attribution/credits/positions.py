"""Credits by node and position in the path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.attribution.credits.credited_touches import credited_touches
from attrib_ds.attribution.credits.model_labels import check_custom_weights
from attrib_ds.attribution.engines.sums import total
from attrib_ds.attribution.models.model import Model
from attrib_ds.attribution.models.named import model_named
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.attribution.paths.paths import Paths


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
            f"model: {model!r} is not a model; allowed: a model such as Shapley() or its name",
            field="model",
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
