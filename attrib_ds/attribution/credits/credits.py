"""Credits: the conversions and the value that each model gives to each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attrib_ds.attribution.credits.model_labels import check_custom_weights, models_by_label
from attrib_ds.attribution.credits.path_credits import path_credits
from attrib_ds.attribution.credits.returns import beside_spend
from attrib_ds.attribution.intervals.uncertainty import BOUNDS, Uncertainty
from attrib_ds.attribution.models.path_models import PathModel
from attrib_ds.attribution.paths.paths import require_paths
from attrib_ds.attribution.rules.rule_credits import rule_credits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from attrib_ds.attribution.models.model import Model
    from attrib_ds.attribution.paths.paths import Paths


def attribute(
    paths: Paths,
    models: Model | str | Sequence[Model | str] | Mapping[str, Model | str],
    *,
    confidence: float | None = None,
    spend: pd.DataFrame | None = None,
    intervals: str = "closed_form",
    replicates: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Credit conversions to the nodes that led to them, by one model or several.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths`, ``Paths.from_frames`` or ``Paths.from_sequences``.
    models : Model, str, sequence or mapping
        Models, or names of models with default parameters (``"linear"``); a mapping gives labels of its
        own. All rules are computed in one pass.
    confidence : float, optional
        Level of intervals, such as 0.95. They measure sampling error of the users, not bias: a model that
        credits the wrong node does so with a narrow interval.
    spend : DataFrame, optional
        ``node_id``, ``spend`` and, where it matters, ``currency``; by default what the paths carry.
    intervals : {"closed_form", "bootstrap"}, default "closed_form"
        Where variances come from. ``"closed_form"``: for credits that are sums over users, that of a
        compound Poisson process, and the delta method for their shares. For Markov, conversion-rate Shapley,
        Fractribution and incremental models, a jackknife, which leaves out each of twenty groups of users
        once. ``"bootstrap"``: replicates in which each user counts as often as Poisson's distribution of mean
        1 says; not for incremental models, which are fit in many steps. Aggregated paths have no users: each
        of their conversions counts as one, and there is no jackknife. What is never below zero has bounds
        that are not either, see the notes.
    replicates : int, default 200
        Replicates of a bootstrap. 200 tell a standard deviation to about 5 %; percentiles, of what may be
        negative, to about a sixth of the half width of a 95 % interval: take 1,000 or more for reports.
    seed : int, default 0
        Of the bootstrap. The same seed gives the same replicates, whatever the order of the rows.

    Returns
    -------
    DataFrame
        One row per model, node and currency, in the order of the models and then by credit:
        ``model``, ``node_id``, ``node_name`` (str), ``conversions`` (float64, credited conversions),
        ``value`` (float64, credited value in ``currency``; null where conversions have none), ``currency``
        (str), ``share`` (float64, of the model's credited conversions); with ``confidence`` also ``low``
        and ``high``, the bounds of ``conversions``; with spend also ``spend``, ``cpa`` and ``roas`` and,
        with both, ``cpa_low``, ``cpa_high``, ``roas_low``, ``roas_high``, see :func:`report_returns`; at
        the end, with ``confidence``, the bounds ``value_low``, ``value_high``, ``share_low``,
        ``share_high``. Bounds are float64, each for its own row, and do not add up. The row without a
        ``node_id`` holds the conversions that no eligible touchpoint led to. Currencies are never summed.

    Raises
    ------
    InvalidRequest
        If a model is unknown or doubled, or needs what the paths do not carry; if an argument is not
        allowed; if a bootstrap is asked for of a model that has none.

    Notes
    -----
    Credits of rules, Markov and Fractribution are sums of parts of zero or more. Their bounds are those of a
    gamma variable with the same mean and variance, with one more conversion of usual weight for the upper one
    (Fay and Feuer 1997), and so are those of values, where none is negative; those of shares are Clopper and
    Pearson's for as many users as would give that variance (Korn and Graubard 1998). Where each conversion
    counts one they are the exact ones: 0 to 3.7 conversions at 95 % for a node that earned none. Bounds of
    incremental credit are those of a normal variable, cut off at zero where the model knows no negative
    effects; those of conversion-rate Shapley too, or percentiles of the bootstrap.

    References
    ----------
    Chamandy, Muralidharan, Najmi and Naidu (2012), Estimating uncertainty for massive data streams, Google:
    the bootstrap by Poisson weights.

    Fay and Feuer (1997), Confidence intervals for directly standardized rates: a method based on the gamma
    distribution, Statistics in Medicine 16(7), 791-801.

    Korn and Graubard (1998), Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data, Survey Methodology 24(2), 193-201.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import Paths, attribute
    >>> sequences = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1]})
    >>> paths = Paths.from_sequences(sequences, path="path", conversions="n")
    >>> attribute(paths, "linear")[["node_id", "conversions", "share"]]
      node_id  conversions  share
    0   email          2.5  0.625
    1  search          1.5  0.375
    """
    require_paths(paths)
    chosen = models_by_label(models)
    uncertainty = Uncertainty.of(confidence, intervals=intervals, replicates=replicates, seed=seed)
    check_custom_weights(paths, chosen)
    rules = {label: model for label, model in chosen.items() if not isinstance(model, PathModel)}
    others = {label: model for label, model in chosen.items() if isinstance(model, PathModel)}
    if others and len(chosen) > 1:
        paths = paths.computed()
    parts = dict(
        zip(
            [*rules, *others],
            [
                *rule_credits(paths, list(rules.values()), uncertainty=uncertainty),
                *path_credits(paths, list(others.values()), uncertainty=uncertainty),
            ],
            strict=True,
        )
    )
    credits = pd.concat([_tidy(label, parts[label]) for label in chosen], ignore_index=True)
    credits.insert(2, "node_name", paths.names(credits["node_id"]))
    known = paths.spend if spend is None else spend
    if known is not None:
        # Nodes that only have spend join here, so names are looked up again.
        credits = beside_spend(credits, known, models=list(chosen))
        credits["node_name"] = paths.names(credits["node_id"])
    told: dict[Any, Any] = {"models": {label: repr(model) for label, model in chosen.items()}}
    credits.attrs = told | {**paths.settings, **({} if uncertainty is None else uncertainty.described())}
    return credits


def _tidy(label: str, rows: pd.DataFrame) -> pd.DataFrame:
    credited = rows["conversions"]
    credits = pd.DataFrame(
        {
            "model": pd.Series(label, index=rows.index, dtype="str"),
            "node_id": rows["node_id"],
            "conversions": credited,
            "value": rows["value"],
            "currency": rows["currency"],
            "share": credited / (credited.sum() or np.nan),
        }
    )
    for low, high in BOUNDS.values():
        if low in rows.columns:
            credits[low], credits[high] = rows[low], rows[high]
    # The engine adds up in any order: what differs by its last digit is equal here.
    order = credits.assign(unattributed=credits["node_id"].isna(), conversions=credited.round(9))
    order = order.sort_values(
        ["unattributed", "conversions", "node_id", "currency"], ascending=[True, False, True, True]
    )
    return credits.loc[order.index].reset_index(drop=True)
