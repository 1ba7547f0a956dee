"""Combine the estimates of models with those of an experiment."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import norm

from attrib_ds.attribution.experiments.posterior import (
    Combined,
    Hypotheses,
    Measurement,
    combine,
    weigh_hypotheses,
)
from attrib_ds.attribution.models.model import check_level
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.dtypes import TEXT
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from attrib_ds.records.input_frames import Frame

#: Label of the rows that average over models.
AVERAGED: Final = "averaged"
#: Prior weight of a scaled model, relative to a model of effects.
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
    scaled: Sequence[str] = (),
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Combine the estimates of models with those of an experiment.

    An experiment is unbiased but imprecise; a model is precise but may be biased, and the experiment shows by
    how much. Model errors from a twentieth of a node's effect to three times the effect are weighted by how
    well they explain the experiment, and so is a factor between the model's level and the true one. A model
    that agrees with the experiment is kept almost unchanged; one that disagrees has little influence.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attribute` with ``confidence``, under one model or several: ``model``, ``node_id``,
        ``node_name``, ``conversions``, ``currency`` and ``high``, which gives the sampling error; without
        ``high``, the sampling error is taken to be 0.
    effects : DataFrame
        From :func:`holdout_effects`, or from another experiment: ``node_id``, ``currency``, ``caused``
        (conversions in the same period and population as ``credits``), ``error`` (standard error, above 0).
        Nodes without an experiment are corrected by what the other nodes reveal about the model.
    controls : sequence of str, optional
        Negative controls: nodes known to have no effect, such as organic and direct. Credit that a model of
        effects gives them is a known error. A credit of exactly 0 means that the model assumed it, and is
        ignored.
    scaled : sequence of str, optional
        Labels of models of which only the proportions are meaningful, such as rules. Their level comes from
        the experiment, their errors are assumed large, and their prior weight in the average is a tenth of
        that of other models.
    confidence : float, default 0.95
        Level of the intervals, between 0 and 1; must be the level of ``credits``.

    Returns
    -------
    DataFrame
        One row per model, node and currency, in the order of the models, then by descending ``combined``.
        With several models, rows ``"averaged"`` follow: the average over models, weighted by how well each
        explains the experiment. Columns: ``model``, ``node_id``, ``node_name``, ``currency`` (str);
        ``modelled``, ``modelled_error`` (float64, conversions); ``experiment``, ``experiment_error``
        (float64, conversions; null without an experiment); ``disagreement`` (float64, distance between the
        model, at its level, and the experiment in standard errors; above about 2 they contradict each other);
        ``combined``, ``low``, ``high`` (float64, conversions caused by the node); ``factor`` (float64, factor
        between the model's level and the true one); ``weight`` (float64, posterior probability of the model;
        sums to 1 over models).

    Raises
    ------
    InvalidRequest
        If a column is missing, not numeric or not finite; a node occurs twice; a control or a scaled model is
        unknown; no node has both credits and an experiment in the same currency; or ``confidence`` is not
        that of ``credits``.

    Notes
    -----
    Given a relative error ``s`` and a factor ``a``, the effect of a node has a normal distribution around
    ``a`` times the model's estimate. Its standard deviation is ``s`` times a weighted mean of two terms: the
    mean effect over nodes, and the geometric mean of that and the node's own estimate (for a control, the
    mean effect only). One error in twenty is four times as large, so that one wrong node does not discredit
    the model for the others. The prior of ``s`` and ``a`` is fixed. Errors of different nodes are
    independent. Intervals are quantiles of the posterior mixture.

    References
    ----------
    Lewis, Zettelmeyer, Gordon and others (2025), Amazon Ads multi-touch attribution, arXiv 2508.08209 (a
    related combination of precise models with noisy experiments).

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> credits = pd.DataFrame({"model": "hazard", "node_id": ["radio", "mail"], "node_name": ["R", "M"],
    ...     "conversions": [100.0, 50.0], "currency": None, "high": [110.0, 60.0]})
    >>> effects = pd.DataFrame({"node_id": ["radio"], "currency": None, "caused": [120.0], "error": [40.0]})
    >>> combined = at.experiments.combine_with_experiment(credits, effects)
    >>> combined["combined"].round().tolist(), combined["disagreement"].round(1).tolist()
    ([103.0, 50.0], [0.5, nan])
    """
    credits = read_frame("credits", credits, ("model", "node_id", "node_name", "conversions", "currency"))
    effects = read_frame("effects", effects, ("node_id", "currency", "caused", "error"))
    _check(credits, effects, controls, scaled, confidence)
    # Concatenated frames may have duplicate index labels.
    credits = credits.reset_index(drop=True)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2)
    parts = []
    for _, rows in credits[credits["node_id"].notna()].groupby(
        credits["currency"].fillna(""), sort=True, dropna=False
    ):
        parts.append(_combined(rows, effects, controls, scaled, confidence, reach))
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
    effect = np.where(is_control, 0.0, measured["caused"])
    error = np.where(is_control, 0.0, measured["error"])
    weighed: dict[str, Hypotheses] = {}
    frames: dict[str, pd.DataFrame] = {}
    weights: list[float] = []
    for label, credited in rows.groupby("model", sort=False):
        by_node = credited.set_index("node_id").reindex(node_ids)
        modelled = _numbers(by_node["conversions"])
        sampling = np.zeros(len(node_ids))
        if "high" in by_node.columns:
            sampling = _numbers(by_node["high"] - by_node["conversions"]) / reach
        is_scaled = label in scaled
        # Controls are no evidence about a model that assumes their zero effect, which credits them with
        # exactly 0, nor about a scaled model, whose level is unknown.
        is_ignored = is_control & (is_scaled | (modelled == 0.0))
        evidence = Measurement(np.where(is_ignored, np.nan, effect), error)
        hypotheses = weigh_hypotheses(modelled, sampling, evidence, is_scaled=is_scaled)
        weighed[str(label)] = hypotheses
        weight = hypotheses.evidence + (np.log(_SCALED) if is_scaled else 0.0)
        weights.append(weight + (is_ignored.sum() * _ignored_likelihood(effect) if is_ignored.any() else 0.0))
        frames[str(label)] = _rows(str(label), node_ids, modelled, sampling, measured, is_control)
    shares = np.exp(np.array(weights) - logsumexp(weights))
    parts = []
    for (label, hypotheses), share in zip(weighed.items(), shares, strict=True):
        outcome = combine([hypotheses], [1.0], confidence=confidence)
        level = outcome.factor if label in scaled else 1.0
        frame = frames[label]
        distance: Any = (frame["experiment"] - level * frame["modelled"]) / np.hypot(
            frame["experiment_error"], level * frame["modelled_error"]
        )
        parts.append(
            frame.assign(
                **_outcome(outcome, is_control), disagreement=distance, factor=outcome.factor, weight=share
            )
        )
    if len(parts) > 1:
        outcome = combine(list(weighed.values()), list(shares), confidence=confidence)
        frame = _rows(AVERAGED, node_ids, None, None, measured, is_control)
        parts.append(
            frame.assign(**_outcome(outcome, is_control), disagreement=np.nan, factor=np.nan, weight=1.0)
        )
    return pd.concat(parts, ignore_index=True).assign(
        node_name=lambda frame: frame["node_id"].map(names).astype(TEXT),
        currency=pd.Series(currency, index=range(len(node_ids) * len(parts)), dtype=TEXT),
    )


def _numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    return np.asarray(column.astype("float64").fillna(0.0), dtype=np.float64)


def _ignored_likelihood(effect: NDArray[np.float64]) -> float:
    """Return the log-likelihood of a control's zero effect under a model without a statement about it."""
    return float(norm.logpdf(0.0, 0.0, np.abs(effect[np.isfinite(effect) & (effect != 0)]).mean()))


def _rows(
    label: str,
    node_ids: list[str],
    modelled: NDArray[np.float64] | None,
    sampling: NDArray[np.float64] | None,
    measured: pd.DataFrame,
    is_control: NDArray[np.bool_],
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
            "is_control": is_control,
        }
    )


def _outcome(outcome: Combined, is_control: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    # Controls keep their known effect of 0, also under scaled models.
    columns = {"combined": outcome.effect, "low": outcome.low, "high": outcome.high}
    return {name: np.where(is_control, 0.0, numbers) for name, numbers in columns.items()}
