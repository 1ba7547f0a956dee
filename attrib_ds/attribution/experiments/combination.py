"""Combine the estimates of models with those of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.experiments.negative_controls import CLEAR_SIGNIFICANCE, SIGNIFICANCE, UNTESTED
from attrib_ds.attribution.experiments.posterior import (
    Combined,
    Controls,
    Hypotheses,
    Measurement,
    combine,
    mean_factor,
    posterior_shares,
    weigh_common_mean,
    weigh_model,
    weigh_proportions,
)
from attrib_ds.attribution.models.model import check_level
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT, read_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from attrib_ds.records.frames import Frame

#: Label of the rows that average over models.
AVERAGED: Final = "averaged"
#: Prior odds that a model of effects is about right, by verdict: even before its controls are seen, and then
#: those of a test that errs as often as its significance level says.
_ODDS: Final[dict[str, float]] = {
    "clear": 1 / CLEAR_SIGNIFICANCE - 1,
    "cannot tell": 1.0,
    "confounded": SIGNIFICANCE,
}
#: Prior odds of a scaled model.
_SCALED: Final = 0.1
_COLUMNS: Final = (
    "model", "node_id", "node_name", "currency", "modelled", "modelled_error", "experiment",
    "experiment_error", "disagreement", "combined", "low", "high", "factor", "weight",
)  # fmt: skip


def combine_with_experiment(
    credits: Frame,
    effects: Frame,
    *,
    controls: Sequence[str] = (),
    verdicts: Mapping[str, str] | None = None,
    scaled: Sequence[str] = (),
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Combine the estimates of models with those of an experiment.

    An experiment is unbiased but imprecise; a model is precise but may be biased, and the experiment shows
    whether it is. A model that agrees with the experiment is kept almost unchanged. A significant
    disagreement about one node costs it its vote for all: then the experiment decides, drawn towards the
    common mean of the nodes as far as its noise suggests; or, if the controls have shown that the model's
    level is wrong, towards its proportions, as far as they explain the experiment better.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attribute` with ``confidence``, under one model or several: ``model``, ``node_id``,
        ``node_name``, ``conversions``, ``currency`` and ``high``, which gives the sampling error; without
        ``high``, the sampling error is taken to be 0.
    effects : DataFrame
        From :func:`holdout_effects`, or from another experiment: ``node_id``, ``currency``, ``caused``
        (conversions in the same period and population as ``credits``), ``error`` (standard error, above 0).
        Nodes without an experiment are drawn towards the mean of the others as far as these contradict the
        model.
    controls : sequence of str, optional
        Negative controls: nodes known to have no effect, such as organic and direct. Credit that a model of
        effects gives them is a known error. A credit of exactly 0 means that the model assumed it, and is
        ignored.
    verdicts : mapping from str to str, optional
        What controls show about models, by label: ``"clear"``, ``"cannot tell"`` (the default for each model)
        or ``"confounded"``, as in the column ``verdict`` of :func:`incremental_effects`. Of a model that is
        confounded, practically only the proportions have a vote.
    scaled : sequence of str, optional
        Labels of models of which only the proportions are meaningful, such as rules. Their level comes from
        the experiment, their errors are assumed large, and their prior odds are a tenth. Their verdicts are
        ignored.
    confidence : float, default 0.95
        Level of the intervals, between 0 and 1; must be the level of ``credits``.

    Returns
    -------
    DataFrame
        One row per model, node and currency, in the order of the models, then by descending ``combined``.
        With several models, rows ``"averaged"`` follow: the average over models and none, weighted by how
        well each explains the experiment. Columns: ``model``, ``node_id``, ``node_name``, ``currency`` (str);
        ``modelled``, ``modelled_error`` (float64, conversions); ``experiment``, ``experiment_error``
        (float64, conversions; null without an experiment); ``disagreement`` (float64, distance between the
        model, at its level, and the experiment in standard errors; above about 2 they contradict each other);
        ``combined``, ``low``, ``high`` (float64, conversions caused by the node); ``factor`` (float64, factor
        between the model's level and the true one, if the model is right otherwise); ``weight`` (float64,
        posterior probability that the model, among those given, is about right; what the weights of all
        models lack to 1 is the probability that none has a vote).

    Raises
    ------
    InvalidRequest
        If a column is missing, not numeric or not finite; a node occurs twice; a control or a scaled model is
        unknown; a verdict is not one of the three; no node has both credits and an experiment in the same
        currency; or ``confidence`` is not that of ``credits``.

    Notes
    -----
    Bayesian model averaging over models that are about right, and none. If a model is about right, the effect
    of a node has a normal distribution around its estimate, with a standard deviation of ``s`` times the mean
    effect; ``s`` is shared by all nodes, at most 0.8, and has a half-Cauchy prior with a scale of 0.05. With
    probability 0.1, all estimates are multiplied by a factor between 0.05 and 6, with a lognormal prior; for
    a scaled model always, and ``s`` is 0.8 to 3.2. Without a model, effects are exchangeable: they
    have a normal distribution around a common mean, with an unknown mean and spread, so that a noisy
    experiment is shrunk as in James and Stein's estimator. A confounded model has a wrong level, but nodes
    with large estimates may still have large effects: with even odds, effects are distributed around its
    estimates times such a factor, with ``s`` of 0.4, 0.8 or 1.6, instead of around a common mean.

    The prior odds of a model against none follow from the verdict on it. They are even, unless a test speaks:
    then they are those of a test that errs as often as its significance level, 39 to 1 if it is clear and 1
    to 1,000 if it is confounded. Credit of controls is further evidence of ``s``. Errors of different nodes
    are independent given ``s``. Intervals are quantiles of the posterior mixture.

    If the intervals of the experiment are wide, only controls distinguish a right model from a wrong one.
    Without controls the average then lies between the model and the common mean.

    References
    ----------
    Hoeting, Madigan, Raftery and Volinsky (1999), Bayesian model averaging, Statistical Science 14(4); Green
    and Strawderman (1991), A James-Stein type estimator for combining unbiased and possibly biased
    estimators, JASA 86; Rosenman, Basse, Owen and Baiocchi (2023), Combining observational and experimental
    datasets using shrinkage estimators, Biometrics 79(4); Polson and Scott (2012), On the half-Cauchy prior
    for a global scale parameter, Bayesian Analysis 7(4); Lewis, Zettelmeyer, Gordon and others (2025), Amazon
    Ads multi-touch attribution, arXiv 2508.08209.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> credits = pd.DataFrame({"model": "hazard", "node_id": ["radio", "mail"], "node_name": ["R", "M"],
    ...     "conversions": [100.0, 50.0], "currency": None, "high": [110.0, 60.0]})
    >>> effects = pd.DataFrame({"node_id": ["radio"], "currency": None, "caused": [120.0], "error": [40.0]})
    >>> combined = at.experiments.combine_with_experiment(credits, effects, verdicts={"hazard": "clear"})
    >>> combined["combined"].round().tolist(), combined["disagreement"].round(1).tolist()
    ([102.0, 50.0], [0.5, nan])
    """
    credits = read_frame("credits", credits, ("model", "node_id", "node_name", "conversions", "currency"))
    effects = read_frame("effects", effects, ("node_id", "currency", "caused", "error"))
    _check(credits, effects, controls, scaled, confidence)
    verdicts = _checked_verdicts(verdicts, set(credits["model"]))
    # Concatenated frames may have duplicate index labels.
    credits = credits.reset_index(drop=True)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2)
    parts = []
    for _, rows in credits[credits["node_id"].notna()].groupby(
        credits["currency"].fillna(""), sort=True, dropna=False
    ):
        parts.append(_combined(rows, effects, controls, verdicts, scaled, confidence, reach))
    estimates = pd.concat(parts, ignore_index=True)
    labels = list(dict.fromkeys([*credits["model"], AVERAGED]))
    place = estimates["model"].map({label: place for place, label in enumerate(labels)})
    # The last digits are ignored in sorting, as in credits.
    ordered = estimates.assign(_place=place, _size=-estimates["combined"].round(9))
    ordered = ordered.sort_values(["_place", "_size", "node_id", "currency"])
    return ordered[list(_COLUMNS)].reset_index(drop=True)


def _check(
    credits: pd.DataFrame,
    effects: pd.DataFrame,
    controls: Sequence[str],
    scaled: Sequence[str],
    confidence: float,
) -> None:
    check_level("confidence", confidence)
    for name, frame, keys in (
        ("credits", credits, ["model", "node_id", "currency"]),
        ("effects", effects, ["node_id", "currency"]),
    ):
        is_duplicate = frame.duplicated(keys)
        if is_duplicate.any():
            row = dict(frame.loc[is_duplicate, keys].iloc[0])
            raise InvalidRequest(
                f"{name}: {row!r} occurs twice; allowed: one row per {', '.join(keys)}", field=name
            )
    credited = set(credits["node_id"].dropna())
    for argument, given, allowed in (
        ("controls", controls, credited),
        ("scaled", scaled, set(credits["model"])),
    ):
        if isinstance(given, str):
            raise InvalidRequest(
                f"{argument}: {given!r} is not allowed; allowed: a list, as in [{given!r}]", field=argument
            )
        for name in given:
            if name not in allowed:
                raise InvalidRequest.choice(argument, name, allowed)
    if AVERAGED in set(credits["model"]):
        raise InvalidRequest(
            f"credits: the model label {AVERAGED!r} is reserved for the average; choose another label",
            field="credits",
        )
    for name, frame, columns in (
        ("credits", credits, ["conversions", "high"]),
        ("effects", effects, ["caused", "error"]),
    ):
        for column in frame.columns.intersection(columns):
            _check_numbers(frame[column], name)
    level = credits.attrs.get("confidence", f"{confidence:g}")
    if level != f"{confidence:g}":
        raise InvalidRequest(
            f"confidence: {confidence!r} is not the level of credits, {level}; allowed: the same level",
            field="confidence",
        )
    measured = effects["caused"].notna()
    errors = effects.loc[measured, "error"].astype("float64")
    if not (np.isfinite(errors) & (errors > 0)).all():
        raise InvalidRequest(
            "effects: the column 'error' has values that are missing or not above 0; allowed: standard "
            "errors above 0",
            field="effects",
        )
    if not credited & set(effects.loc[measured, "node_id"]):
        raise InvalidRequest(
            "effects: no node has both credits and an experiment; allowed: node ids of credits",
            field="effects",
        )
    pairs = [set(_pairs(frame)) for frame in (credits, effects[measured])]
    if not pairs[0] & pairs[1]:
        in_credits, in_effects = (sorted({str(currency) for _, currency in keys}) for keys in pairs)
        raise InvalidRequest(
            f"effects: no node has an experiment in the currency of its credits: {', '.join(in_effects)}, "
            f"not {', '.join(in_credits)}; allowed: currencies as in credits",
            field="effects",
        )


def _checked_verdicts(verdicts: Mapping[str, str] | None, models: set[str]) -> Mapping[str, str]:
    if verdicts is None:
        return {}
    if not isinstance(verdicts, Mapping):
        raise InvalidRequest(
            f"verdicts: {verdicts!r} is not allowed; allowed: a mapping from models to verdicts, as in "
            "{'discrete_hazard': 'clear'}",
            field="verdicts",
        )
    for model, verdict in verdicts.items():
        if model not in models:
            raise InvalidRequest.choice("verdicts", model, models)
        if verdict not in _ODDS:
            raise InvalidRequest.choice("verdicts", verdict, _ODDS)
    return verdicts


def _pairs(frame: pd.DataFrame) -> Iterator[tuple[str, str | None]]:
    currency = frame["currency"].astype("object").where(frame["currency"].notna(), None)
    return zip(frame["node_id"], currency, strict=True)


def _check_numbers(column: pd.Series[Any], name: str) -> None:
    try:
        numbers = column.astype("float64")
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"{name}: the column {column.name!r} is not numeric; allowed: numbers", field=name
        ) from error
    if np.isinf(numbers.to_numpy()).any():
        raise InvalidRequest(
            f"{name}: the column {column.name!r} has infinite values; allowed: finite numbers", field=name
        )


def _combined(
    rows: pd.DataFrame,
    effects: pd.DataFrame,
    controls: Sequence[str],
    verdicts: Mapping[str, str],
    scaled: Sequence[str],
    confidence: float,
    reach: float,
) -> pd.DataFrame:
    """Combine models within one currency."""
    currency = rows["currency"].iloc[0]
    same = effects["currency"].isna() if pd.isna(currency) else effects["currency"] == currency
    node_ids = sorted(set(rows["node_id"]))
    measured = effects[same].set_index("node_id")[["caused", "error"]].astype("float64").reindex(node_ids)
    names = dict(zip(rows["node_id"], rows["node_name"], strict=True))
    is_control = np.isin(node_ids, list(controls))
    evidence = Measurement(
        np.asarray(measured["caused"])[~is_control], np.asarray(measured["error"])[~is_control]
    )
    weighed: dict[str, Hypotheses] = {}
    proportions: dict[str, Hypotheses] = {}
    frames: dict[str, pd.DataFrame] = {}
    sizes: dict[str, float] = {}
    for label, credited in rows.groupby("model", sort=False):
        by_node = credited.set_index("node_id").reindex(node_ids)
        modelled = _numbers(by_node["conversions"])
        sampling = np.zeros(len(node_ids))
        if "high" in by_node.columns:
            sampling = _numbers(by_node["high"] - by_node["conversions"]) / reach
        known = modelled[~is_control], sampling[~is_control]
        if label in scaled:
            weighed[str(label)] = weigh_proportions(*known, evidence)
        else:
            # A credit of exactly 0 means that the model assumed it.
            says = is_control & (modelled != 0.0)
            weighed[str(label)] = weigh_model(*known, evidence, Controls(modelled[says], sampling[says]))
            if verdicts.get(str(label)) == "confounded":
                proportions[str(label)] = weigh_proportions(*known, evidence, is_confounded=True)
        sizes[str(label)] = float(np.abs(known[0]).mean())
        frames[str(label)] = _rows(str(label), node_ids, modelled, sampling, measured)
    of_effects = [label for label in weighed if label not in scaled] or list(weighed)
    without = weigh_common_mean(float(np.mean([sizes[label] for label in of_effects])), evidence)
    odds = [_SCALED if label in scaled else _ODDS[verdicts.get(label, UNTESTED.verdict)] for label in weighed]
    others = [*proportions.values(), without]
    shares = posterior_shares([*weighed.values(), *others], [*odds, *_evenly(others)])
    parts = []
    for (label, hypotheses), share, prior in zip(weighed.items(), shares, odds, strict=False):
        own_others = [proportions[label], without] if label in proportions else [without]
        own = posterior_shares([hypotheses, *own_others], [prior, *_evenly(own_others)])
        outcome = combine([hypotheses, *own_others], own, confidence=confidence)
        factor = mean_factor(hypotheses)
        level = factor if label in scaled else 1.0
        frame = frames[label]
        distance: Any = (frame["experiment"] - level * frame["modelled"]) / np.hypot(
            frame["experiment_error"], level * frame["modelled_error"]
        )
        parts.append(
            frame.assign(**_outcome(outcome, is_control), disagreement=distance, factor=factor, weight=share)
        )
    if len(parts) > 1:
        outcome = combine([*weighed.values(), *others], shares, confidence=confidence)
        frame = _rows(AVERAGED, node_ids, None, None, measured)
        parts.append(
            frame.assign(**_outcome(outcome, is_control), disagreement=np.nan, factor=np.nan, weight=1.0)
        )
    return pd.concat(parts, ignore_index=True).assign(
        node_name=lambda frame: frame["node_id"].map(names).astype(TEXT),
        currency=pd.Series(currency, index=range(len(node_ids) * len(parts)), dtype=TEXT),
    )


def _evenly(alternatives: Sequence[Hypotheses]) -> list[float]:
    """Return the odds of alternatives without a vote of a model, which together are 1."""
    return [1 / len(alternatives)] * len(alternatives)


def _numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    return np.asarray(column.astype("float64").fillna(0.0), dtype=np.float64)


def _rows(
    label: str,
    node_ids: list[str],
    modelled: NDArray[np.float64] | None,
    sampling: NDArray[np.float64] | None,
    measured: pd.DataFrame,
) -> pd.DataFrame:
    missing = np.full(len(node_ids), np.nan)
    return pd.DataFrame(
        {
            "model": pd.Series([label] * len(node_ids), dtype=TEXT),
            "node_id": pd.Series(node_ids, dtype=TEXT),
            "modelled": missing if modelled is None else modelled,
            "modelled_error": missing if sampling is None else sampling,
            "experiment": measured["caused"].to_numpy(),
            "experiment_error": measured["error"].to_numpy(),
        }
    )


def _outcome(outcome: Combined, is_control: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    # Controls keep their known effect of 0.
    columns = {name: np.zeros(len(is_control)) for name in ("combined", "low", "high")}
    for name, numbers in zip(columns, (outcome.effect, outcome.low, outcome.high), strict=True):
        columns[name][~is_control] = numbers
    return columns
