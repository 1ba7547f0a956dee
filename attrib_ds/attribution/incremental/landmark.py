"""Compares users whom a node reached with users of the same history whom it did not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.incremental.design import Design
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.landmarks import Landmarks, sample_landmarks
from attrib_ds.attribution.incremental.logistic import chances, fit_logistic
from attrib_ds.attribution.intervals.tally import GROUPS, Tally
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.models.incremental import Landmark
    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]

#: Odds to be reached above which no comparison is trusted.
_GREATEST_ODDS: Final = 100.0
_TOGETHER: Final = 1 << 16


def credit_landmark(model: Landmark, sequences: Sequences) -> Tally:
    """Credit each node with how many more conversions follow those it reached."""
    histories = Histories.of(sequences, covariates=model.covariates)
    events = len(histories.event_user)
    if not events:
        raise InvalidRequest("paths: there is no conversion; an incremental model needs some", field="paths")
    nodes = len(sequences.node_ids)
    landmarks = sample_landmarks(
        histories,
        nodes=nodes,
        half_lives=[as_days(each, argument="half_lives") for each in model.half_lives],
        step=as_days(model.step, argument="step"),
        window=as_days(model.window, argument="window"),
        rows=min(model.rows, model.comparisons * events),
        seed=model.seed,
    )
    design = Design.of(landmarks, histories, has_interactions=False)
    fold = histories.fold[landmarks.user]
    groups = GROUPS if sequences.folds > 1 else 0
    effects = np.zeros((groups + 1, 2, nodes, len(histories.currencies)))
    for node in range(nodes):
        effects[:, :, node] = _effects(landmarks, design, node, fold, groups, shrinkage=model.shrinkage)
    total = _totals(histories, groups)
    whole, *without = np.concatenate([effects, (total - effects.sum(axis=2))[:, :, None]], axis=2)
    is_touched = np.append(np.bincount(histories.touch_node, minlength=nodes) > 0, True)
    shown = np.repeat(is_touched[:, None], len(histories.currencies), axis=1)
    return Tally(
        histories.currencies,
        whole[0],
        whole[1],
        shown,
        [each[0] for each in without],
        [each[1] for each in without],
    )


def _effects(
    landmarks: Landmarks, design: Design, node: int, fold: NDArray[np.int64], groups: int, *, shrinkage: float
) -> Numbers:
    """Return the effect on conversions and value by currency; of all, then without each group of users.

    The estimate is that of augmented inverse probabilities for those who were reached. A small error of
    either regression does not move it, so neither is fitted again without a group.
    """
    is_reached, weight = landmarks.is_reached[:, node], landmarks.weight
    found = np.zeros((groups + 1, *landmarks.outcome.shape[1:]))
    if not is_reached.any() or is_reached.all():
        return found
    others = np.flatnonzero(~is_reached)
    # The strength is per row that tells something: one that was reached, or one that converts.
    to_be_reached, _ = fit_logistic(
        design, is_reached, weight, penalty=design.penalty(shrinkage * float(weight @ is_reached))
    )
    unreached = design.at(others)
    is_case = landmarks.is_case
    to_convert, _ = fit_logistic(
        unreached,
        is_case[others],
        weight[others],
        penalty=design.penalty(shrinkage * float(weight[others] @ is_case[others])),
    )
    odds = np.minimum(np.exp(np.minimum(_log_odds(design, to_be_reached), 50.0)), _GREATEST_ODDS)
    expected = chances(_log_odds(design, to_convert))
    cases = max(float(weight[others] @ is_case[others]), 1e-300)
    per_case = np.einsum("r,rwc->wc", weight[others], landmarks.outcome[others]) / cases
    for number in range(groups + 1):
        kept = fold != number - 1
        for_reached = np.where(is_reached & kept, weight, 0.0)
        compared = np.where(~is_reached & kept, weight * odds, 0.0)
        # Normalised: those compared with count as many as those reached.
        signed = for_reached - compared * (for_reached.sum() / max(compared.sum(), 1e-300))
        found[number] = np.einsum("r,rwc->wc", signed, landmarks.outcome) - (signed @ expected) * per_case
    return found


def _log_odds(design: Design, coefficients: Numbers) -> Numbers:
    rows = np.arange(len(design.plain))
    starts = range(0, len(rows), _TOGETHER)
    return np.concatenate([design.rows(rows[start : start + _TOGETHER]) @ coefficients for start in starts])


def _totals(histories: Histories, groups: int) -> Numbers:
    """Return conversions and value by currency; of all, then without each group of users."""
    totals = np.zeros((groups + 1, 2, len(histories.currencies)))
    fold = histories.fold[histories.event_user]
    for number in range(groups + 1):
        kept = fold != number - 1
        for which, worth in enumerate((histories.conversions, histories.value)):
            np.add.at(totals[number, which], histories.event_currency[kept], worth[kept])
    return totals
