"""Discrete-time hazard: logistic regression on person-periods, credited by removing each node in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.calendar import as_days
from attrib_ds.attribution.incremental.design import Design
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.logistic import fit_logistic, probabilities, without_each
from attrib_ds.attribution.incremental.periods import Periods, sample_periods
from attrib_ds.attribution.incremental.preceding_touchpoints import PrecedingTouchpoints
from attrib_ds.attribution.intervals import GROUPS, Tally
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from attrib_ds.attribution.models.path_models import DiscreteHazard
    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]
    Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HazardFit:
    """A discrete hazard fitted to person-periods: of all users, and without each fold of users.

    Attributes
    ----------
    histories : Histories
        Histories of users.
    design : Design
        All sampled periods.
    cases : Design
        Periods with a conversion, in the order of the conversions.
    weight : float array
        Number of periods that each row of the design stands for.
    penalty : float array
        Ridge penalty of each coefficient.
    hessian : float array, shape (n_columns, n_columns)
        Second derivatives of the negative penalised log-likelihood.
    coefficients : list of float array
        Of all users, then without each fold.
    """

    histories: Histories
    design: Design
    cases: Design
    weight: Numbers
    penalty: Numbers
    hessian: Numbers
    coefficients: list[Numbers]

    @classmethod
    def of(
        cls,
        model: DiscreteHazard,
        design: Design,
        periods: Periods,
        histories: Histories,
        *,
        is_jackknife: bool,
    ) -> HazardFit:
        """Fit the regression."""
        penalty = design.penalty(model.shrinkage * len(histories.event_user))
        if len(histories.event_user):
            fitted = fit_logistic(design, periods.is_case, periods.weight, penalty=penalty)
        else:
            fitted = np.zeros(len(penalty)), np.eye(len(penalty))
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
        return cls(histories, design, cases, periods.weight, penalty, fitted[1], coefficients)

    def lost(self) -> list[Numbers]:
        """Return the share of each conversion lost without each node, in each sample of users."""
        return [lost_without(self.cases, each) for each in self.coefficients]

    def credits(self) -> Tally:
        """Credit each node with the part of every conversion that would not have happened without it."""
        return _tally(self.histories, self.lost())


@dataclass(frozen=True, eq=False)
class HazardSample:
    """Data of the regression: sampled person-periods of users, and their design matrix.

    Attributes
    ----------
    model : DiscreteHazard
        Parameters of the model.
    node_ids : list of str
        Id of each node.
    histories : Histories
        Histories of users, with at least one conversion.
    periods : Periods
        Sampled periods.
    design : Design
        Their design matrix.
    """

    model: DiscreteHazard
    node_ids: list[str]
    histories: Histories
    periods: Periods
    design: Design

    @classmethod
    def of(cls, model: DiscreteHazard, sequences: Sequences, histories: Histories) -> HazardSample:
        """Sample periods."""
        periods, design = regression(model, histories, nodes=len(sequences.node_ids))
        return cls(model, sequences.node_ids, histories, periods, design)

    def fit(self, *, is_jackknife: bool = False) -> HazardFit:
        """Fit the regression, with ``is_jackknife`` also without each fold of users."""
        return HazardFit.of(self.model, self.design, self.periods, self.histories, is_jackknife=is_jackknife)

    def part(self, which: NDArray[np.bool_], conversions: Codes) -> HazardSample:
        """Return some of the periods, with the conversions at some positions among all."""
        histories = self.histories.of_conversions(conversions)
        periods = self.periods.at(which)
        design = Design.of(periods, histories, has_interactions=self.model.interactions)
        return replace(self, histories=histories, periods=periods, design=design)

    def credits_of_controls_alone(self, controls: Sequence[str]) -> Numbers:
        """Return the conversions credited to controls in a model without other nodes: of all users, by fold.

        A frequent node can absorb what controls would show, such as the activity of users, in a model with
        both.
        """
        codes = np.array([self.node_ids.index(control) for control in controls], np.int64)
        alone = replace(self, design=self.design.of_nodes(codes, self.periods.weight))
        lost = alone.fit(is_jackknife=True).lost()
        return np.stack(
            [_credited(part, self.histories, fold - 1)[0, :-1].sum(axis=1) for fold, part in enumerate(lost)]
        )


def credit_discrete_hazard(model: DiscreteHazard, sequences: Sequences) -> Tally:
    """Credit each node with the part of every conversion that would not have happened without it."""
    return _tally(*_lost(model, sequences))


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


def _tally(histories: Histories, lost: list[Numbers]) -> Tally:
    # The first sample is all users; sample n leaves out fold n - 1.
    total, *without = [_credited(part, histories, number - 1) for number, part in enumerate(lost)]
    nodes = lost[0].shape[1]
    return Tally(
        histories.currencies,
        total[0],
        total[1],
        np.vstack([_is_touched(histories, nodes), np.ones((1, len(histories.currencies)), bool)]),
        [each[0] for each in without],
        [each[1] for each in without],
    )


def _lost(model: DiscreteHazard, sequences: Sequences) -> tuple[Histories, list[Numbers]]:
    """Return the share of each conversion lost without each node: of all users, then without each fold."""
    histories = Histories.of(sequences, covariates=model.covariates)
    nodes = len(sequences.node_ids)
    _check(model, histories, nodes)
    if not len(histories.event_user):
        return histories, [np.zeros((0, nodes))] * (1 + GROUPS * (sequences.folds > 1))
    fit = HazardSample.of(model, sequences, histories).fit(is_jackknife=sequences.folds > 1)
    return histories, fit.lost()


def _check(model: DiscreteHazard, histories: Histories, nodes: int) -> None:
    if not len(histories.event_user) + len(histories.unobserved.fold):
        raise InvalidRequest("paths: no conversions; an incremental model needs at least one", field="paths")
    if model.interactions and nodes > model.most_interacting:
        raise InvalidRequest(
            f"interactions: {nodes} nodes have {nodes * (nodes - 1) // 2} pairs; allowed: up to "
            f"{model.most_interacting} nodes (roll them up with level=)",
            field="interactions",
        )


def lost_without(design: Design, coefficients: Numbers) -> Numbers:
    """Return the share of each row's conversion probability that is lost without each node."""
    change = design.parts(coefficients)
    log_odds = design.log_odds(coefficients)
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
