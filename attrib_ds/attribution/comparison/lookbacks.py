"""Sensitivity of credits to the lookback: :func:`compare_lookbacks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.paths.paths import require_paths
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from attrib_ds.attribution.models.model import Model
    from attrib_ds.attribution.paths.paths import Paths

_KEYS = ["model", "node_id", "node_name", "currency"]
_COLUMNS = [
    "model",
    "lookback_days",
    "node_id",
    "node_name",
    "conversions",
    "value",
    "currency",
    "share",
    "share_shift",
]


def compare_lookbacks(
    paths: Paths,
    lookbacks: Sequence[str | timedelta] = ("7D", "14D", "30D", "60D", "90D"),
    *,
    models: Model | str | Sequence[Model | str] | Mapping[str, Model | str] = "linear",
) -> pd.DataFrame:
    """Compare the credits of the same conversions under several lookbacks.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths` or ``Paths.from_frames``, with any lookback.
    lookbacks : sequence of str or timedelta, default ("7D", "14D", "30D", "60D", "90D")
        Two or more lengths of the window, above 0.
    models : Model, str, sequence or mapping, default "linear"
        As in :func:`attribute`.

    Returns
    -------
    DataFrame
        One row per model, lookback, node and currency, in the order of the models, then by lookback, the
        shortest first, then by credit under the longest: ``model`` (str), ``lookback_days`` (float64),
        ``node_id``, ``node_name`` (str), ``conversions``, ``value`` (float64), ``currency`` (str),
        ``share`` (float64), ``share_shift`` (float64, difference to the share under the longest
        lookback). A node that only a longer lookback reaches has the credit 0. The row without a ``node_id``
        has the conversions without a touchpoint inside the lookback.

    Raises
    ------
    InvalidRequest
        If there are fewer than two lookbacks, one is not allowed, or the paths have no dates.

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("random", users=2_000, seed=1)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions)
    >>> compared = at.compare_lookbacks(paths, ["2D", "30D"])
    >>> unattributed = compared[compared["node_id"].isna()].set_index("lookback_days")["conversions"]
    >>> bool(unattributed[2.0] > unattributed[30.0])
    True
    """
    require_paths(paths)
    lengths = _lengths(lookbacks)
    parts = {days: attribute(paths.with_lookback(lookback), models) for days, lookback in lengths.items()}
    return _side_by_side(parts)


def _lengths(lookbacks: Sequence[str | timedelta]) -> dict[float, str | timedelta]:
    is_several = not isinstance(lookbacks, str) and hasattr(lookbacks, "__iter__")
    given = list(lookbacks) if is_several else []
    lengths = {as_days(lookback, argument="lookbacks"): lookback for lookback in given}
    if len(lengths) < 2:
        raise InvalidRequest(
            f"lookbacks: {lookbacks!r} is not allowed; allowed: two or more lengths of time",
            field="lookbacks",
        )
    return dict(sorted(lengths.items()))


def _side_by_side(parts: dict[float, pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the parts, each with the rows of all of them, in the order of the longest lookback."""
    *_, longest = parts.values()
    every = pd.concat([longest, *parts.values()], ignore_index=True)
    rows = every[_KEYS].drop_duplicates(ignore_index=True)
    reference = rows.merge(longest, on=_KEYS, how="left")["share"].fillna(0.0)
    zeros = {"conversions": 0.0, "share": 0.0} | ({"value": 0.0} if every["value"].notna().any() else {})
    whole = []
    for days, part in parts.items():
        of_all = rows.merge(part, on=_KEYS, how="left").fillna(zeros)
        shift = of_all["share"] - reference
        whole.append(of_all.assign(lookback_days=float(days), share_shift=shift, row=rows.index))
    together = pd.concat(whole, ignore_index=True)
    models = {label: place for place, label in enumerate(every["model"].drop_duplicates())}
    order = together.assign(place=together["model"].map(models)).sort_values(
        ["place", "lookback_days", "row"]
    )
    return order[_COLUMNS].reset_index(drop=True).astype({"lookback_days": "float64"})
