"""Estimates the chance to convert in a period from what is at work in it, and takes nodes away again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.incremental.design import Design
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.logistic import chances, fit_logistic, without_each
from attrib_ds.attribution.incremental.periods import Periods, sample_periods
from attrib_ds.attribution.incremental.touched import Touched
from attrib_ds.attribution.intervals.tally import GROUPS, Tally
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from attrib_ds.attribution.models.incremental import DiscreteHazard
    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]


def credit_discrete_hazard(model: DiscreteHazard, sequences: Sequences) -> Tally:
    """Credit each node with the part of every conversion that would not have happened without it."""
    histories, periods, lost = _lost(model, sequences)
    events = periods.event[periods.is_case]
    fold = histories.fold[histories.event_user[events]]
    credited = [_credited(each, events, histories, fold != number - 1) for number, each in enumerate(lost)]
    whole, *without = credited
    nodes = len(sequences.node_ids)
    return Tally(
        histories.currencies,
        whole[0],
        whole[1],
        np.vstack([_took_part(histories, nodes), np.ones((1, len(histories.currencies)), bool)]),
        [each[0] for each in without],
        [each[1] for each in without],
    )


def share_discrete_hazard(model: DiscreteHazard, sequences: Sequences) -> pa.Table:
    """Divide what a node's touchpoints caused of a conversion by what is left of each of them.

    The mean over half-lives of what is left at the conversion; the coefficients of half-lives may have
    different signs, so no touchpoint has a part of its own.
    """
    histories, periods, lost = _lost(model, sequences)
    of_event = np.zeros((len(histories.event_user), len(sequences.node_ids)))
    of_event[periods.event[periods.is_case]] = lost[0]
    touched = Touched.of(sequences)
    left = touched.left([as_days(each, argument="half_lives") for each in model.half_lives]).mean(axis=1)
    part = touched.divided(left)
    return touched.to_arrow(part * of_event[touched.event, touched.code])


def _lost(model: DiscreteHazard, sequences: Sequences) -> tuple[Histories, Periods, list[Numbers]]:
    """Return what share of each conversion goes with each node; of the whole, then without each group."""
    histories, periods, design = regression(model, sequences)
    penalty = design.penalty(model.shrinkage * len(histories.event_user))
    fitted = fit_logistic(design, periods.is_case, periods.weight, penalty=penalty)
    coefficients = [fitted[0]]
    if sequences.folds > 1:
        coefficients += without_each(
            design,
            periods.is_case,
            periods.weight,
            fitted,
            group=histories.fold[periods.user],
            groups=GROUPS,
        )
    cased = design.at(np.flatnonzero(periods.is_case))
    return histories, periods, [_taken(cased, each) for each in coefficients]


def regression(model: DiscreteHazard, sequences: Sequences) -> tuple[Histories, Periods, Design]:
    """Return what the model is fit to: histories of users, periods of theirs, and the matrix of these."""
    histories = Histories.of(sequences, covariates=model.covariates)
    nodes = len(sequences.node_ids)
    _check(model, histories, nodes)
    periods = periods_of(model, histories, nodes)
    return histories, periods, Design.of(periods, histories, has_interactions=model.interactions)


def periods_of(model: DiscreteHazard, histories: Histories, nodes: int) -> Periods:
    """Return the periods that the model looks at."""
    return sample_periods(
        histories,
        nodes=nodes,
        half_lives=[as_days(each, argument="half_lives") for each in model.half_lives],
        step=as_days(model.step, argument="step"),
        rows=min(model.rows, model.comparisons * len(histories.event_user)),
        seed=model.seed,
    )


def _check(model: DiscreteHazard, histories: Histories, nodes: int) -> None:
    if not len(histories.event_user):
        raise InvalidRequest("paths: there is no conversion; an incremental model needs some", field="paths")
    if model.interactions and nodes > model.most_interacting:
        raise InvalidRequest(
            f"interactions: {nodes} nodes have {nodes * (nodes - 1) // 2} pairs; allowed: up to "
            f"{model.most_interacting} nodes (roll them up with level=)",
            field="interactions",
        )


def _taken(design: Design, coefficients: Numbers) -> Numbers:
    """Return the share of each row's chance to convert that goes with each node."""
    _, nodes, lives = design.effects.shape
    plain, effects = np.split(coefficients, [design.plain.shape[1]])
    effects = effects / design.scale
    single = effects[: nodes * lives].reshape(nodes, lives)
    change = np.einsum("rnl,nl->rn", design.effects, single)
    log_odds = design.plain @ plain + change.sum(axis=1)
    if len(design.pairs):
        both = design.products() * effects[nodes * lives :]
        log_odds += both.sum(axis=1)
        for position, pair in enumerate(design.pairs):
            change[:, pair] += both[:, position, None]
    chance = chances(log_odds)[:, None]
    without = chances(np.subtract(log_odds[:, None], change))
    return np.asarray(1.0 - without / chance)


def _credited(
    lost: Numbers, events: NDArray[np.int64], histories: Histories, is_kept: NDArray[np.bool_]
) -> Numbers:
    """Sum what goes with each node over conversions; the rest of each is nobody's."""
    currency = histories.event_currency[events]
    shape = (lost.shape[1] + 1, len(histories.currencies))
    sums = []
    for worth in (histories.conversions[events], histories.value[events]):
        parts = np.column_stack([lost * worth[:, None], worth * (1 - lost.sum(axis=1))])[is_kept]
        total = np.zeros(shape)
        for number in range(shape[1]):
            total[:, number] = parts[currency[is_kept] == number].sum(axis=0)
        sums.append(total)
    return np.stack(sums)


def _took_part(histories: Histories, nodes: int) -> NDArray[np.bool_]:
    """Say which nodes have a row in which currency: those that touched somebody."""
    is_touched = np.bincount(histories.touch_node, minlength=nodes) > 0
    return np.repeat(is_touched[:, None], len(histories.currencies), axis=1)
