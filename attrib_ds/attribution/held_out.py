"""How well models tell beforehand who converts, judged by users whom they have not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import beta
from threadpoolctl import threadpool_limits

from attrib_ds.attribution.chances import Chances, held_out_chances
from attrib_ds.attribution.comparison.folds import check_folds, mean_and_error
from attrib_ds.attribution.credits.requested_models import labelled
from attrib_ds.attribution.models.model import check_whole
from attrib_ds.attribution.paths.paths import require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.models.model import Model
    from attrib_ds.attribution.paths.paths import Paths

    Numbers = NDArray[np.float64]

#: What is measured in each group of users.
_MEASURES = ("log_loss", "skill", "auc", "calibration_intercept", "calibration_slope")
#: Chances are kept so far from 0 and 1, whose logarithms know no bounds.
_NEAREST = 1e-12
_MOST_STEPS = 100


def compare_held_out(
    paths: Paths,
    models: Model | str | Sequence[Model | str] | Mapping[str, Model | str],
    *,
    folds: int = 5,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare how well models tell who of unseen users converts.

    Each group of users is left out in turn, and the model made from the others gives each of its paths with a
    touchpoint, or each period of its users, a chance to convert. A model that tells well who converts need
    not credit well what caused it: see :func:`attrib_ds.simulate` for that, and randomised experiments.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths` or ``Paths.from_frames``, with users who did not convert.
    models : Model, str, sequence or mapping
        Models that know a conversion rate: :class:`attrib_ds.models.Markov` (that of the paths which end in a state;
        rare states lean on those of one touchpoint less), :class:`attrib_ds.models.ConversionRateShapley` (that of
        the set of nodes), :class:`attrib_ds.models.Fractribution` (that of the path),
        :class:`attrib_ds.models.DiscreteHazard` (the chance in each of the periods that it is made from) and
        :class:`attrib_ds.AdditiveHazard` (the chance of a day, by the rate at one moment of it; the days are
        those of the discrete hazard with its defaults). Where the first three have no ``shrinkage``, one path
        with the overall rate is added to every state, set or path, so that no chance is 0 or 1 and what
        nobody had has the overall rate; so is one day to every baseline of the additive hazard.
    folds : int, default 5
        Groups of users, 2 to 100.
    seed : int, default 0
        Of the groups.

    Returns
    -------
    DataFrame
        For each model one row per group of users, and a last one with the means over them, whose ``fold`` is
        null: ``model`` (str), ``fold`` (Int64, from 1), ``unit`` (str, what has a chance: ``"path"`` or
        ``"period"``; only models of one unit compare), ``trials``, ``conversions`` (float64, how many paths
        or periods of the users left out there are, and how many converted), ``log_loss`` (float64, the mean
        of ``-log`` of the chance of what happened; lower is better), ``skill`` (float64, the part of the
        log-loss saved that the overall rate alone leaves; 0 is no skill), ``auc`` (float64, probability that
        what converted had the higher chance, ties count half), ``calibration_intercept`` (float64, log-odds
        that all chances miss; 0 is right), ``calibration_slope`` (float64, 1 is right, below 1 the chances
        are too far apart); and ``log_loss_error``, ``skill_error``, ``auc_error``,
        ``calibration_intercept_error``, ``calibration_slope_error`` (float64, standard errors of the means,
        null in other rows). What a group cannot tell is null.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, a model knows no chances, or null paths or users are unknown.

    Examples
    --------
    >>> from attrib_ds import Paths, compare_held_out, simulate
    >>> world = simulate("random", users=2_000, seed=1)
    >>> compared = compare_held_out(Paths.from_frames(world.touchpoints, world.conversions), ["markov"])
    >>> compared["fold"].tolist()
    [1, 2, 3, 4, 5, <NA>]
    """
    found = _chances(paths, models, folds=folds, seed=seed)
    parts = []
    for label, chances in found.items():
        rows = pd.DataFrame([_measured(each) for each in chances])
        means, errors = mean_and_error(rows[list(_MEASURES)].to_numpy("float64").T)
        mean = dict(zip(_MEASURES, means, strict=True)) | {
            f"{name}_error": error for name, error in zip(_MEASURES, errors, strict=True)
        }
        last = pd.DataFrame([{name: rows[name].mean() for name in ("trials", "conversions")} | mean])
        both = pd.concat(
            [rows.assign(**dict.fromkeys(last.columns[2 + len(_MEASURES) :], np.nan)), last],
            ignore_index=True,
        )
        both.insert(0, "model", pd.Series(label, index=both.index, dtype="str"))
        both.insert(1, "fold", pd.Series([*range(1, folds + 1), None], dtype="Int64"))
        both.insert(2, "unit", pd.Series(chances[0].unit, index=both.index, dtype="str"))
        parts.append(both)
    return pd.concat(parts, ignore_index=True)


def compare_calibration(
    paths: Paths,
    models: Model | str | Sequence[Model | str] | Mapping[str, Model | str],
    *,
    bins: int = 10,
    folds: int = 5,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare the chances models give unseen users with what became of them.

    Parameters
    ----------
    paths, models, folds, seed
        As in :func:`compare_held_out`.
    bins : int, default 10
        Into how many parts of about equally many trials to divide them, by chance; 2 to 100. Those of one
        chance stay together, so there may be fewer.

    Returns
    -------
    DataFrame
        One row per model and part, by chance: ``model`` (str), ``bin`` (Int64, from 1), ``unit`` (str),
        ``trials``, ``conversions`` (float64), ``expected`` (float64, mean chance), ``observed`` (float64,
        share that converted), ``observed_low``, ``observed_high`` (float64, its exact 95 % interval).

    Raises
    ------
    InvalidRequest
        As :func:`compare_held_out`; if the number of bins is not allowed.

    Examples
    --------
    >>> from attrib_ds import Paths, compare_calibration, simulate
    >>> world = simulate("random", users=5_000, seed=1)
    >>> paths = Paths.from_frames(world.touchpoints, world.conversions)
    >>> compared = compare_calibration(paths, "markov", bins=3)
    >>> compared["bin"].tolist()
    [1, 2, 3]
    """
    check_whole("bins", bins, minimum=2, maximum=100)
    found = _chances(paths, models, folds=folds, seed=seed)
    return pd.concat([_binned(label, chances, bins) for label, chances in found.items()], ignore_index=True)


def _chances(
    paths: Paths,
    models: Model | str | Sequence[Model | str] | Mapping[str, Model | str],
    *,
    folds: int,
    seed: int,
) -> dict[str, list[Chances]]:
    require_paths(paths)
    chosen = labelled(models)
    check_folds(paths, folds, seed)
    sequences = Sequences.of(paths, folds=folds, salt=seed)
    with threadpool_limits(1, user_api="blas"):  # As where models give credits.
        found = {label: held_out_chances(model, sequences) for label, model in chosen.items()}
    for label, chances in found.items():
        for name in ("conversions", "nulls"):
            if sum(getattr(each, name).sum() for each in chances) == 0:
                what = "with a conversion" if name == "conversions" else "without a conversion"
                raise InvalidRequest(
                    f"paths: {label} knows of no path {what} that has a touchpoint; allowed: both kinds",
                    field="paths",
                )
    return found


def _measured(chances: Chances) -> dict[str, float]:
    trials, conversions = float(chances.trials.sum()), float(chances.conversions.sum())
    measured = {"trials": trials, "conversions": conversions} | dict.fromkeys(_MEASURES, np.nan)
    if not trials:
        return measured
    chance = np.clip(chances.chance, _NEAREST, 1 - _NEAREST)
    loss = -float(chances.conversions @ np.log(chance) + chances.nulls @ np.log1p(-chance)) / trials
    overall = float(np.clip(chances.overall, _NEAREST, 1 - _NEAREST))
    plain = -(conversions * np.log(overall) + (trials - conversions) * np.log1p(-overall)) / trials
    measured |= {"log_loss": loss, "skill": 1 - loss / plain}
    if 0 < conversions < trials:
        log_odds = logit(chance)
        measured["auc"] = _auc(chance, chances)
        measured["calibration_intercept"] = _fit(log_odds, chances, has_slope=False)[0]
        if np.ptp(chance[chances.trials > 0]) > 0:
            measured["calibration_slope"] = _fit(log_odds, chances, has_slope=True)[1]
    return measured


def _auc(chance: Numbers, chances: Chances) -> float:
    """Return how often a path that converted had the higher chance than one that did not."""
    _, level = np.unique(chance, return_inverse=True)
    conversions, nulls = np.bincount(level, chances.conversions), np.bincount(level, chances.nulls)
    below = np.cumsum(nulls) - nulls
    return float(conversions @ (below + nulls / 2) / (conversions.sum() * nulls.sum()))


def _fit(log_odds: Numbers, chances: Chances, *, has_slope: bool) -> Numbers:
    """Fit what happened to the log-odds by a logistic regression; without a slope it is 1."""
    columns = [np.ones_like(log_odds), log_odds] if has_slope else [np.ones_like(log_odds)]
    matrix, offset = np.column_stack(columns), 0.0 if has_slope else log_odds
    known = np.array([0.0, 1.0])[: matrix.shape[1]]
    for _ in range(_MOST_STEPS):
        chance = expit(matrix @ known + offset)
        slope = matrix.T @ (chances.conversions - chances.trials * chance)
        curvature = (matrix * (chances.trials * chance * (1 - chance))[:, None]).T @ matrix
        step = np.linalg.lstsq(curvature, slope, rcond=None)[0]
        # Far steps overshoot where hardly anything is known.
        step *= min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        known += step
        if np.abs(step).max() < 1e-10:
            break
    return known


def _binned(label: str, chances: list[Chances], bins: int) -> pd.DataFrame:
    chance, conversions, nulls = (
        np.concatenate([getattr(each, name) for each in chances])
        for name in ("chance", "conversions", "nulls")
    )
    trials = conversions + nulls
    levels, level = np.unique(chance[trials > 0], return_inverse=True)
    weight = np.bincount(level, trials[trials > 0])
    middle = np.cumsum(weight) - weight / 2
    of_level = np.minimum((middle / weight.sum() * bins).astype(np.int64), bins - 1)
    _, place = np.unique(of_level, return_inverse=True)
    part = place[level]
    count, converted = (np.bincount(part, each[trials > 0]) for each in (trials, conversions))
    expected = np.bincount(part, levels[level] * trials[trials > 0])
    return pd.DataFrame(
        {
            "model": pd.array([label] * len(count), dtype="str"),
            "bin": pd.array(range(1, len(count) + 1), dtype="Int64"),
            "unit": pd.array([chances[0].unit] * len(count), dtype="str"),
            "trials": count,
            "conversions": converted,
            "expected": expected / count,
            "observed": converted / count,
            "observed_low": np.where(converted > 0, beta.ppf(0.025, converted, count - converted + 1), 0.0),
            "observed_high": np.where(
                converted < count, beta.ppf(0.975, converted + 1, count - converted), 1.0
            ),
        }
    )
