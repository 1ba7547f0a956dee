"""Attribute conversions and their value to nodes, under one model or several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import ibis.expr.types as ir
import numpy as np
import pandas as pd

from attrib_ds.attribution.credits.returns import checked_spend, join_spend, warn_of_unknown_nodes
from attrib_ds.attribution.credits.touches import Models, check_custom_weights, models_by_label
from attrib_ds.attribution.engines.engine import CHECKED, dialect_of
from attrib_ds.attribution.intervals import BOUNDS, Uncertainty
from attrib_ds.attribution.models import Model, Participation, PathModel
from attrib_ds.attribution.paths.paths import Paths, require_paths
from attrib_ds.attribution.rules import rule_credits
from attrib_ds.display import counted, number
from attrib_ds.errors import NotSupported, warn
from attrib_ds.records.frames import TEXT, Frame


def attribute(
    paths: Paths,
    models: Models,
    *,
    confidence: float | None = None,
    spend: Frame | None = None,
    intervals: str = "closed_form",
    replicates: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Attribute conversions and their value to nodes.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths`, ``Paths.from_frames`` or ``Paths.from_sequences``.
    models : Model, str, sequence or mapping
        Models, or names of models with default parameters, such as ``"linear"``. A mapping from labels to
        models labels the rows. All rules are computed in one pass.
    confidence : float, optional
        Level of the intervals, between 0 and 1, such as 0.95; without it there are none. Intervals measure
        sampling error across users, not bias: a model that credits the wrong node does so with a narrow
        interval.
    spend : DataFrame, optional
        One row or more per node: ``node_id`` (str), ``spend`` (number, 0 or more) and, with several
        currencies, ``currency`` (str). By default the spend of the paths.
    intervals : {"closed_form", "bootstrap"}, default "closed_form"
        How variances are estimated. ``"closed_form"``: the variance of a compound Poisson process for
        credits that are sums over users, and the delta method for their shares; a jackknife over twenty
        groups of users for Markov, conversion-rate Shapley, Fractribution and incremental models.
        ``"bootstrap"``: resample users with Poisson(1) weights; not available for incremental models, whose
        fits are iterative. Aggregated paths have no users: each conversion is resampled by itself, and there
        is not a jackknife.
    replicates : int, default 200
        Number of bootstrap replicates. 200 estimate a standard deviation to about 5 %, and the percentiles
        of signed credits to about a sixth of the half-width of a 95 % interval; use 1,000 or more for
        reports.
    seed : int, default 0
        Seed of the bootstrap. The same seed gives the same replicates, whatever the order of the rows.

    Returns
    -------
    DataFrame
        One row per model, node and currency, in the order of the models, then by descending ``conversions``:
        ``model``, ``node_id``, ``node_name`` (str), ``conversions`` (float64, credited conversions),
        ``value`` (float64, credited value in ``currency``; null if conversions have no value), ``currency``
        (str), ``share`` (float64, fraction of the model's credited conversions). With ``confidence`` also
        ``low`` and ``high``, the bounds of ``conversions``, and as last columns ``value_low``,
        ``value_high``, ``share_low``, ``share_high``. With spend also ``spend``, ``cpa`` and ``roas``, and
        with both ``cpa_low``, ``cpa_high``, ``roas_low``, ``roas_high``, see :func:`report_returns`. Bounds
        are float64 and apply to their own row: they do not add up. Rows without a ``node_id``, whose
        ``node_name`` is "unattributed", hold the conversions without an eligible touchpoint and come last
        within a model; keep them in sums with ``groupby("node_id", dropna=False)``. A node that is named
        "unattributed" itself has its id behind the name. Currencies are never summed.

    Raises
    ------
    InvalidRequest
        If a model is unknown, occurs twice, or needs data that the paths do not have; if an argument is out
        of range; or if ``intervals="bootstrap"`` is used with an incremental model.
    NotSupported
        If credits do not add up to the conversions; this is checked on engines opened with
        ``unchecked=True``.

    Warns
    -----
    InputWarning
        If ``spend`` has nodes without a touchpoint; if a quarter of the conversions or more is unattributed
        beside a filter of touchpoints; if a tenth of them, and 20 or half, have touchpoints before the
        lookback only; if no user of a conversion has a touchpoint, or users differ by case, blanks, leading
        zeros or a final .0 only; or if all conversions are before the first touchpoint, or are midnights with
        touchpoints later that day.

    Notes
    -----
    Credits of rules, Markov and Fractribution are sums of non-negative parts. Their bounds are quantiles of a
    gamma distribution with the same mean and variance, plus one conversion of average weight for the upper
    bound (Fay and Feuer 1997); so are the bounds of values, unless some are negative. Bounds of shares are
    Clopper-Pearson intervals at the effective sample size (Korn and Graubard 1998). If every conversion
    counts as one, these intervals are the exact ones: 0 to 3.7 conversions at 95 % for a node without credit.
    Incremental credit has normal bounds, truncated at zero under models without negative effects;
    conversion-rate Shapley has normal bounds, or percentiles of the bootstrap.

    References
    ----------
    Chamandy, Muralidharan, Najmi and Naidu (2012), Estimating uncertainty for massive data streams, Google
    (the Poisson bootstrap).

    Fay and Feuer (1997), Confidence intervals for directly standardized rates: a method based on the gamma
    distribution, Statistics in Medicine 16(7), 791-801.

    Korn and Graubard (1998), Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data, Survey Methodology 24(2), 193-201.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> sequences = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> at.attribute(paths, "linear")[["node_id", "conversions", "share"]]
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
    parts = dict(zip(rules, rule_credits(paths, list(rules.values()), uncertainty=uncertainty), strict=True))
    if others:
        from attrib_ds.attribution.credits.path_credits import path_credits  # slow to import

        tallies = path_credits(paths, list(others.values()), uncertainty=uncertainty)
        parts |= dict(zip(others, tallies, strict=True))
    check_conservation(paths, chosen, parts)
    credits = pd.concat([_rows(label, parts[label]) for label in chosen], ignore_index=True)
    credits.insert(2, "node_name", paths.names(credits["node_id"]))
    if spend is not None:
        paths = paths.with_spend(spend)
        warn_of_unknown_nodes(paths, checked_spend(spend), credits["node_id"])
    if paths.spend is not None:
        # This adds the nodes that only have spend, so names are looked up again.
        credits = join_spend(credits, paths.spend, models=list(chosen))
        credits["node_name"] = paths.names(credits["node_id"])
    _warn_of_unattributed(paths, credits)
    settings: dict[Any, Any] = {"models": {label: repr(model) for label, model in chosen.items()}}
    credits.attrs = settings | {**paths.settings, **({} if uncertainty is None else uncertainty.described())}
    return credits


def _warn_of_unattributed(paths: Paths, credits: pd.DataFrame) -> None:
    """Warn if many conversions are unattributed because of a filter of touchpoints, or of the lookback."""
    rows = credits[credits["model"] == credits["model"].iloc[0]] if len(credits) else credits
    total, lost = rows["conversions"].sum(), rows.loc[rows["node_id"].isna(), "conversions"].sum()
    filters = [f"{name}={paths.settings[name]}" for name in ("where", "nodes") if name in paths.settings]
    if filters and lost > _LOST * total:
        warn(
            f"unattributed: {number(lost)} of {counted(total, 'conversions')}: {' and '.join(filters)} "
            f"{'leaves' if len(filters) == 1 else 'leave'} out touchpoints, not conversions. To leave out "
            "conversions too, filter them or their users: where=at.event(...), or where=at.user(...)"
        )
    else:
        for doubt in paths.doubts() if lost > 0 else ():
            warn(doubt)
    # Of few conversions, half are many.
    many = max(min(_MANY, total / 2), total / 10)
    early, hours = paths.before_touchpoints() if lost >= many else (0.0, 0.0)
    if early >= max(many, _FEW):
        warn(
            f"clocks: {number(early)} of {counted(total, 'conversions')} were before every touchpoint of "
            f"their user, nearly all by at most {hours:g} h, and are unattributed. Check the time zones of "
            f"{' and '.join(paths.date_columns)}. If they differ, give both an offset: "
            "2025-01-31T12:00+01:00 in files, "
            f"{paths.date_columns[0]}.dt.tz_localize('Europe/Berlin') in frames"
        )
    missed = paths.beyond_lookback() if lost >= many else 0.0
    if missed and missed >= many:
        warn(
            f"lookback: {number(missed)} of {counted(total, 'conversions')} had touchpoints before the "
            f"lookback of {paths.settings['lookback']} but none within it, and are unattributed. If "
            "decisions take longer, pass a longer lookback; at.compare_lookbacks compares several"
        )


def _rows(label: str, rows: pd.DataFrame) -> pd.DataFrame:
    credited = rows["conversions"]
    credits = rows[["node_id", "conversions", "value", "currency"]].assign(
        share=credited / (credited.sum() or np.nan)
    )
    credits.insert(0, "model", pd.Series(label, index=rows.index, dtype=TEXT))
    for low, high in BOUNDS.values():
        if low in rows.columns:
            credits[low], credits[high] = rows[low], rows[high]
    # The engine sums in any order, so the last digits are ignored in sorting.
    order = credits.assign(unattributed=credits["node_id"].isna(), conversions=credited.round(9))
    order = order.sort_values(
        ["unattributed", "conversions", "node_id", "currency"], ascending=[True, False, True, True]
    )
    return credits.loc[order.index].reset_index(drop=True)


#: Relative difference of two sums that rounding explains.
_ROUNDING: Final = 1e-6
#: Share of conversions that a filter may leave without a touchpoint before it is said.
_LOST: Final = 0.25
#: Number of conversions that a warning about the lookback is worth.
_MANY: Final = 20
#: Fewer conversions may be early by chance.
_FEW: Final = 3


def check_conservation(
    paths: Paths, models: Mapping[str, Model], credits: Mapping[str, pd.DataFrame]
) -> None:
    """Check that the credits of each model add up, on engines on which the tests do not run.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    models : mapping of str to Model
        Models by label.
    credits : mapping of str to DataFrame
        Credits of each model, including what is unattributed.

    Raises
    ------
    NotSupported
        If the credits of a model do not add up to the conversions.
    """
    engine = dialect_of(paths.touches)
    if engine in CHECKED:
        return
    counts: dict[bool, float] = {}
    for label, model in models.items():
        is_repeated = isinstance(model, Participation)
        if is_repeated not in counts:
            counts[is_repeated] = _conversions(paths, is_repeated=is_repeated)
        credited, expected = float(credits[label]["conversions"].sum()), counts[is_repeated]
        if not math.isclose(credited, expected, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
            raise NotSupported(
                f"models: on {engine}, the credits of {label} add up to {credited:,.9g} of {expected:,.9g} "
                f"conversions, so {engine} computes them wrongly; use an engine whose results are checked: "
                f"{', '.join(CHECKED)}"
            )


def _conversions(paths: Paths, *, is_repeated: bool) -> float:
    """Count the conversions; if each of their nodes is credited with all of it, once per node."""
    counted: ir.Table | None = paths.conversions
    if is_repeated:
        counted = paths.touches.select("event_id", "node_id", "conversions").distinct()
    elif counted is None:
        counted = paths.touches.select("event_id", "conversions").distinct()
    return float(counted.agg(count=counted.conversions.sum()).to_pyarrow()["count"][0].as_py() or 0.0)
