"""Combines what models say with what an experiment found, and shows where they disagree."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import norm

from attrib_ds.attribution.experiments.posterior import Combined, Explanations, Measurement, combined, explain
from attrib_ds.attribution.models.model import check_level
from attrib_ds.attribution.paths.tree import require_columns
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

#: The label of the rows that average over models.
AVERAGED: Final = "averaged"
#: How likely a model of proportions is beforehand, beside a model of effects.
_SCALED: Final = 0.1
_COLUMNS: Final = (
    "model", "node_id", "node_name", "currency", "modelled", "modelled_error", "experiment",
    "experiment_error", "disagreement", "combined", "low", "high", "factor", "weight",
)  # fmt: skip


def combine_with_experiment(
    credits: pd.DataFrame,
    effects: pd.DataFrame,
    *,
    controls: Sequence[str] = (),
    scaled: Sequence[str] = (),
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Combine what models say of nodes with what an experiment found.

    An experiment is right on average and imprecise; a model is precise and may be wrong, by how much the
    experiment tells. Every size of error, from a twentieth of a node's effect to three times of it, is
    weighed by how well it explains the experiment; so is whether the model's level is right or off by a
    factor. A model that agrees is kept almost as it is; of one that does not, next to nothing is left.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attribute` with ``confidence``, by one model or several: ``model``, ``node_id``,
        ``node_name``, ``conversions``, ``currency`` and ``high``, which the sampling error is taken from;
        without it, models count as free of sampling error.
    effects : DataFrame
        From :func:`holdout_effects`, or of experiments of another origin: ``node_id``, ``currency``,
        ``caused`` (conversions in the same period and population as ``credits``), ``error`` (standard error,
        above 0). Nodes without an experiment are combined with what those of the others say of the model.
    controls : sequence of str, optional
        Nodes known to have no effect, such as organic and direct. What a model of effects credits to them is
        an error that is known without an experiment; exactly nothing means that the model was told of them.
    scaled : sequence of str, optional
        Models of which only the proportions mean anything, such as rules: their level is taken from the
        experiment alone, their errors count as large, and in the average they have a tenth of the others'
        weight to begin with.
    confidence : float, default 0.95
        Level of intervals; that of ``credits`` too.

    Returns
    -------
    DataFrame
        One row per model, node and currency, in the order of models and then by ``combined``; with several
        models also rows ``"averaged"``, over models by how well each explains the experiment: ``model``,
        ``node_id``, ``node_name``, ``currency`` (str), ``modelled``, ``modelled_error``, ``experiment``,
        ``experiment_error`` (float64, null where there is none), ``disagreement`` (float64, standard errors
        from the model, at its level, to the experiment; beyond 2 or so the two cannot both be right),
        ``combined``, ``low``, ``high`` (float64, conversions that the node caused), ``factor`` (float64, what
        brings the model to its level) and ``weight`` (float64, how likely the model is beside the others,
        which adds up to 1 over models).

    Raises
    ------
    InvalidRequest
        If a column is missing, a number in it is none or not finite, a node is there twice, a control or a
        model is unknown, no node has an experiment in the currency of its credits, or the credits have
        intervals of another confidence.

    Notes
    -----
    Given the size ``s`` of a model's error and the factor ``a``, the effect of a node is normally distributed
    around ``a`` times the model's number, with a standard deviation of ``s`` times the geometric mean of that
    number and a node's mean (of a control, which could be any node: of a node's mean); one error in twenty is
    four times as large, so that one node which a model gets wrong does not spoil the others. The sizes and
    factors have a prior that is the same everywhere. Errors of different nodes count as independent. The
    interval is one of the posterior mixture.

    References
    ----------
    Lewis, Zettelmeyer, Gordon and others (2025), Amazon Ads multi-touch attribution, arXiv 2508.08209,
    combines precise models with noisy experiments in the same spirit.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import experiments
    >>> credits = pd.DataFrame({"model": "hazard", "node_id": ["radio", "mail"], "node_name": ["R", "M"],
    ...     "conversions": [100.0, 50.0], "currency": None, "high": [110.0, 60.0]})
    >>> effects = pd.DataFrame({"node_id": ["radio"], "currency": None, "caused": [120.0], "error": [40.0]})
    >>> found = experiments.combine_with_experiment(credits, effects)
    >>> found["combined"].round().tolist(), found["disagreement"].round(1).tolist()
    ([103.0, 50.0], [0.5, nan])
    """
    _check(credits, effects, controls, scaled, confidence)
    # Frames that were put together from several may have doubled labels.
    credits = credits.reset_index(drop=True)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2)
    parts = []
    for _, rows in credits[credits["node_id"].notna()].groupby(
        credits["currency"].fillna(""), sort=True, dropna=False
    ):
        parts.append(_combined(rows, effects, controls, scaled, confidence, reach))
    found = pd.concat(parts, ignore_index=True)
    labels = list(dict.fromkeys([*credits["model"], AVERAGED]))
    place = found["model"].map({label: place for place, label in enumerate(labels)})
    # What differs by its last digit is equal here, as in credits.
    ordered = found.assign(_place=place, _size=-found["combined"].round(9))
    ordered = ordered.sort_values(["_place", "_size", "node_id", "currency"])
    return ordered[list(_COLUMNS)].reset_index(drop=True)


def _check(
    credits: pd.DataFrame,
    effects: pd.DataFrame,
    controls: Sequence[str],
    scaled: Sequence[str],
    confidence: float,
) -> None:
    require_columns(credits, "credits", ("model", "node_id", "node_name", "conversions", "currency"))
    require_columns(effects, "effects", ("node_id", "currency", "caused", "error"))
    check_level("confidence", confidence)
    for name, frame, keys in (
        ("credits", credits, ["model", "node_id", "currency"]),
        ("effects", effects, ["node_id", "currency"]),
    ):
        twice = frame.duplicated(keys)
        if twice.any():
            shown = dict(frame.loc[twice, keys].iloc[0])
            raise InvalidRequest(f"{name}: {shown!r} is there twice; allowed: once", field=name)
    known = set(credits["node_id"].dropna())
    for argument, given, allowed in (
        ("controls", controls, known),
        ("scaled", scaled, set(credits["model"])),
    ):
        if isinstance(given, str):
            raise InvalidRequest(
                f"{argument}: {given!r} is not allowed; allowed: a list, as in [{given!r}]", field=argument
            )
        for each in given:
            if each not in allowed:
                raise InvalidRequest.choice(argument, each, allowed)
    if AVERAGED in set(credits["model"]):
        raise InvalidRequest(
            f"credits: the model {AVERAGED!r} is called as the average over models is; give it another label",
            field="credits",
        )
    for name, frame, columns in (
        ("credits", credits, ["conversions", "high"]),
        ("effects", effects, ["caused", "error"]),
    ):
        for column in frame.columns.intersection(columns):
            _check_numbers(frame[column], name)
    told = credits.attrs.get("confidence", f"{confidence:g}")
    if told != f"{confidence:g}":
        raise InvalidRequest(
            f"confidence: {confidence!r} is not that of credits, {told}; allowed: the same",
            field="confidence",
        )
    measured = effects["caused"].notna()
    errors = effects.loc[measured, "error"].astype("float64")
    if not (np.isfinite(errors) & (errors > 0)).all():
        raise InvalidRequest(
            "effects: the column 'error' is missing or not above 0; allowed: standard errors above 0",
            field="effects",
        )
    if not known & set(effects.loc[measured, "node_id"]):
        raise InvalidRequest(
            "effects: no node with credits has an experiment; allowed: their node ids",
            field="effects",
        )
    pairs = [set(_pairs(frame)) for frame in (credits, effects[measured])]
    if not pairs[0] & pairs[1]:
        told_in, found_in = (sorted({str(currency) for _, currency in each}) for each in pairs)
        raise InvalidRequest(
            f"effects: no node has an experiment in the currency of its credits: {', '.join(found_in)}, not "
            f"{', '.join(told_in)}; allowed: the column 'currency' of credits",
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
            f"{name}: the column {column.name!r} does not hold numbers; allowed: numbers", field=name
        ) from error
    if np.isinf(numbers.to_numpy()).any():
        raise InvalidRequest(
            f"{name}: the column {column.name!r} is infinite somewhere; allowed: finite numbers", field=name
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
    found = effects[same].set_index("node_id")[["caused", "error"]].astype("float64")
    node_ids = sorted(set(rows["node_id"]))
    found = found.reindex(node_ids)
    names = dict(zip(rows["node_id"], rows["node_name"], strict=True))
    is_control = np.isin(node_ids, list(controls))
    effect = np.where(is_control, 0.0, found["caused"])
    error = np.where(is_control, 0.0, found["error"])
    explained: dict[str, Explanations] = {}
    frames: dict[str, pd.DataFrame] = {}
    weights: list[float] = []
    for label, credited in rows.groupby("model", sort=False):
        by_node = credited.set_index("node_id").reindex(node_ids)
        modelled = _numbers(by_node["conversions"])
        sampling = np.zeros(len(node_ids))
        if "high" in by_node.columns:
            sampling = _numbers(by_node["high"] - by_node["conversions"]) / reach
        is_scaled = label in scaled
        # Controls say nothing of a model that was told of them, and so credits them with exactly nothing; and
        # nothing of proportions, whose level is not known.
        is_silent = is_control & (is_scaled | (modelled == 0.0))
        told = Measurement(np.where(is_silent, np.nan, effect), error)
        each = explain(modelled, sampling, told, is_scaled=is_scaled)
        explained[str(label)] = each
        weight = each.evidence + (np.log(_SCALED) if is_scaled else 0.0)
        weights.append(weight + (is_silent.sum() * _silence(effect) if is_silent.any() else 0.0))
        frames[str(label)] = _rows(str(label), node_ids, modelled, sampling, found, is_control)
    shares = np.exp(np.array(weights) - logsumexp(weights))
    parts = []
    for (label, each), share in zip(explained.items(), shares, strict=True):
        outcome = combined([each], [1.0], confidence=confidence)
        level = outcome.factor if label in scaled else 1.0
        frame = frames[label]
        off: Any = (frame["experiment"] - level * frame["modelled"]) / np.hypot(
            frame["experiment_error"], level * frame["modelled_error"]
        )
        parts.append(
            frame.assign(
                **_outcome(outcome, is_control), disagreement=off, factor=outcome.factor, weight=share
            )
        )
    if len(parts) > 1:
        outcome = combined(list(explained.values()), list(shares), confidence=confidence)
        frame = _rows(AVERAGED, node_ids, None, None, found, is_control)
        parts.append(
            frame.assign(**_outcome(outcome, is_control), disagreement=np.nan, factor=np.nan, weight=1.0)
        )
    return pd.concat(parts, ignore_index=True).assign(
        node_name=lambda frame: frame["node_id"].map(names).astype("str"),
        currency=pd.Series(currency, index=range(len(node_ids) * len(parts)), dtype="str"),
    )


def _numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    return np.asarray(column.astype("float64").fillna(0.0), dtype=np.float64)


def _silence(effect: NDArray[np.float64]) -> float:
    """Return the log-likelihood that a node has no effect, for a model which says nothing of it."""
    return float(norm.logpdf(0.0, 0.0, np.abs(effect[np.isfinite(effect) & (effect != 0)]).mean()))


def _rows(
    label: str,
    node_ids: list[str],
    modelled: NDArray[np.float64] | None,
    sampling: NDArray[np.float64] | None,
    found: pd.DataFrame,
    is_control: NDArray[np.bool_],
) -> pd.DataFrame:
    nothing = np.full(len(node_ids), np.nan)
    return pd.DataFrame(
        {
            "model": pd.Series([label] * len(node_ids), dtype="str"),
            "node_id": pd.Series(node_ids, dtype="str"),
            "modelled": nothing if modelled is None else modelled,
            "modelled_error": nothing if sampling is None else sampling,
            "experiment": found["caused"].to_numpy(),
            "experiment_error": found["error"].to_numpy(),
            "is_control": is_control,
        }
    )


def _outcome(outcome: Combined, is_control: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    # What is known of controls stands, whatever a model of proportions makes of it.
    found = {"combined": outcome.effect, "low": outcome.low, "high": outcome.high}
    return {name: np.where(is_control, 0.0, numbers) for name, numbers in found.items()}
