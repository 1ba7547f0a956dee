"""Discrete-time hazard: logistic regression on person-periods, credited by removing each node in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.incremental.design import Design
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.logistic import fit_logistic, probabilities, without_each
from attrib_ds.attribution.incremental.periods import Periods, sample_periods
from attrib_ds.attribution.incremental.preceding_touchpoints import PrecedingTouchpoints
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
    histories, lost = _lost(model, sequences)
    # The first sample is all users; sample n leaves out fold n - 1.
    credits = [_credited(part, histories, number - 1) for number, part in enumerate(lost)]
    total, *without = credits
    nodes = len(sequences.node_ids)
    return Tally(
        histories.currencies,
        total[0],
        total[1],
        np.vstack([_is_touched(histories, nodes), np.ones((1, len(histories.currencies)), bool)]),
        [each[0] for each in without],
        [each[1] for each in without],
    )


def share_discrete_hazard(model: DiscreteHazard, sequences: Sequences) -> pa.Table:
    """Divide the credit of a node for a conversion among its touchpoints by their decay.

    Touchpoints are weighted by the part left of them at the conversion, averaged over half-lives:
    coefficients of half-lives may have different signs, so a touchpoint has no effect of its own.
    """
    histories, lost = _lost(model, sequences)
    touchpoints = PrecedingTouchpoints.of(sequences)
    count = max(int(touchpoints.event.max(initial=-1)), int(histories.event_number.max(initial=-1))) + 1
    of_event = np.zeros((count, len(sequences.node_ids)))
    of_event[histories.event_number] = lost[0]
    decay = touchpoints.decay([as_days(each, argument="half_lives") for each in model.half_lives])
    part = touchpoints.divide(decay.mean(axis=1))
    return touchpoints.to_arrow(part * of_event[touchpoints.event, touchpoints.code])


def regression(model: DiscreteHazard, histories: Histories, *, nodes: int) -> tuple[Periods, Design]:
    """Return the data of the regression: sampled periods, and their design matrix."""
    periods = sample_periods(
        histories,
        nodes=nodes,
        half_lives=[as_days(each, argument="half_lives") for each in model.half_lives],
        step=as_days(model.step, argument="step"),
        rows=min(model.rows, model.comparisons * len(histories.event_user)),
        seed=model.seed,
    )
    return periods, Design.of(periods, histories, has_interactions=model.interactions)


def credit_controls_alone(model: DiscreteHazard, sequences: Sequences, controls: list[str]) -> Numbers:
    """Return the conversions credited to controls in a model without other nodes: of all users, and by fold.

    A frequent node can absorb what controls would show, such as the activity of users, in a model with both.
    """
    histories = Histories.of(sequences, covariates=model.covariates)
    if not len(histories.event_user):
        return np.zeros((1 + GROUPS, len(controls)))
    periods, design = regression(model, histories, nodes=len(sequences.node_ids))
    codes = np.array([sequences.node_ids.index(control) for control in controls], np.int64)
    alone = design.of_nodes(codes, periods.weight)
    parts = _fitted_lost(model, alone, periods, histories, is_jackknife=True)
    return np.stack(
        [_credited(part, histories, fold - 1)[0, :-1].sum(axis=1) for fold, part in enumerate(parts)]
    )


def _lost(model: DiscreteHazard, sequences: Sequences) -> tuple[Histories, list[Numbers]]:
    """Return the share of each conversion lost without each node: of all users, then without each fold."""
    histories = Histories.of(sequences, covariates=model.covariates)
    nodes = len(sequences.node_ids)
    _check(model, histories, nodes)
    if not len(histories.event_user):
        return histories, [np.zeros((0, nodes))] * (1 + GROUPS * (sequences.folds > 1))
    periods, design = regression(model, histories, nodes=nodes)
    return histories, _fitted_lost(model, design, periods, histories, is_jackknife=sequences.folds > 1)


def _fitted_lost(
    model: DiscreteHazard, design: Design, periods: Periods, histories: Histories, *, is_jackknife: bool
) -> list[Numbers]:
    penalty = design.penalty(model.shrinkage * len(histories.event_user))
    fitted = fit_logistic(design, periods.is_case, periods.weight, penalty=penalty)
    coefficients = [fitted[0]]
    if is_jackknife:
        coefficients += without_each(
            design,
            periods.is_case,
            periods.weight,
            fitted,
            group=histories.fold[periods.user],
            groups=GROUPS,
        )
    # Cases come first, in the order of conversions.
    cases = design.at(np.flatnonzero(periods.is_case))
    return [_lost_without(cases, each) for each in coefficients]


def _check(model: DiscreteHazard, histories: Histories, nodes: int) -> None:
    if not len(histories.event_user) + len(histories.unobserved.fold):
        raise InvalidRequest("paths: no conversions; an incremental model needs at least one", field="paths")
    if model.interactions and nodes > model.most_interacting:
        raise InvalidRequest(
            f"interactions: {nodes} nodes have {nodes * (nodes - 1) // 2} pairs; allowed: up to "
            f"{model.most_interacting} nodes (roll them up with level=)",
            field="interactions",
        )


def _lost_without(design: Design, coefficients: Numbers) -> Numbers:
    """Return the share of each row's conversion probability that is lost without each node."""
    _, nodes, lives = design.effects.shape
    begin = design.plain.shape[1]
    plain, calendar, effects = np.split(coefficients, [begin, begin + design.stretches])
    effects = effects / design.scale
    single = effects[: nodes * lives].reshape(nodes, lives)
    change = np.einsum("rnl,nl->rn", design.effects, single)
    log_odds = design.plain @ plain + calendar[design.calendar] + change.sum(axis=1)
    if len(design.pairs):
        interaction = design.products() * effects[nodes * lives :]
        log_odds += interaction.sum(axis=1)
        for position, pair in enumerate(design.pairs):
            change[:, pair] += interaction[:, position, None]
    probability = probabilities(log_odds)[:, None]
    without = probabilities(np.subtract(log_odds[:, None], change))
    return np.asarray(1.0 - without / probability)


def _credited(lost: Numbers, histories: Histories, left_out: int) -> Numbers:
    """Sum the credit of each node over conversions outside a fold; the last row is the baseline."""
    is_kept = histories.fold[histories.event_user] != left_out
    currency = histories.event_currency[is_kept]
    currencies = len(histories.currencies)
    rest = histories.unobserved.sums(currencies, histories.unobserved.fold != left_out)
    sums = []
    for amount, baseline in zip((histories.conversions, histories.value), rest, strict=True):
        parts = np.column_stack([lost * amount[:, None], amount * (1 - lost.sum(axis=1))])[is_kept]
        total = np.stack([parts[currency == number].sum(axis=0) for number in range(currencies)], axis=1)
        total[-1] += baseline
        sums.append(total)
    return np.stack(sums)


def _is_touched(histories: Histories, nodes: int) -> NDArray[np.bool_]:
    """Return which nodes have a row, in every currency: those with a touchpoint."""
    is_touched = np.bincount(histories.touch_node, minlength=nodes) > 0
    return np.repeat(is_touched[:, None], len(histories.currencies), axis=1)
