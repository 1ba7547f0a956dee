"""Estimates the chance to convert in a period from what is at work in it, and takes nodes away again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.attribution.durations import as_days
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.periods import Periods, sample_periods
from attrib_ds.attribution.tally import GROUPS, Tally
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.models import DiscreteHazard
    from attrib_ds.attribution.sequences import Sequences

    Numbers = NDArray[np.float64]

_MOST_STEPS: Final = 30
_CONVERGED: Final = 1e-7
#: Bounds of a log-odds, beyond which a probability is 0 or 1 to the last digit.
_FARTHEST: Final = 35.0


def credit_discrete_hazard(model: DiscreteHazard, sequences: Sequences) -> Tally:
    """Credit each node with the part of every conversion that would not have happened without it."""
    histories = Histories.of(sequences, covariates=model.covariates)
    nodes = len(sequences.node_ids)
    _check(model, histories, nodes)
    periods = sample_periods(
        histories,
        nodes=nodes,
        half_lives=[as_days(each, argument="half_lives") for each in model.half_lives],
        step=as_days(model.step, argument="step"),
        rows=min(model.rows, model.comparisons * len(histories.event_user)),
        seed=model.seed,
    )
    design = _Design.of(periods, histories, has_interactions=model.interactions)
    penalty = design.penalty(model.shrinkage * len(histories.event_user))
    coefficients, hessian = _fit(design, periods, penalty)
    cases = periods.is_case
    cased = design.at(cases)
    fold = histories.fold[periods.user]
    everything = [coefficients]
    kept = [np.ones(int(cases.sum()), bool)]
    if sequences.folds > 1:
        for group in range(GROUPS):
            everything.append(_without(design, periods, coefficients, hessian, fold == group))
            kept.append(fold[cases] != group)
    events = periods.event[cases]
    credited = [
        _credited(cased.lost(each), events, histories, is_kept)
        for each, is_kept in zip(everything, kept, strict=True)
    ]
    whole, *without = credited
    return Tally(
        histories.currencies,
        whole[0],
        whole[1],
        np.vstack([_took_part(histories, nodes), np.ones((1, len(histories.currencies)), bool)]),
        [each[0] for each in without],
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


@dataclass(frozen=True, eq=False)
class _Design:
    """The matrix of a regression: constants of user and time, then nodes by half-life, then pairs of nodes.

    Attributes
    ----------
    plain : float array, shape (n_rows, n_plain)
        The constant, the covariates and the time, standardised.
    effects : float32 array, shape (n_rows, n_nodes, n_half_lives)
        Saturated adstock.
    scale : float array, shape (n_nodes * n_half_lives + n_pairs,)
        Standard deviation of each effect, which the penalty is measured in.
    pairs : int array, shape (n_pairs, 2)
        Nodes that may strengthen each other.
    """

    plain: Numbers
    effects: NDArray[np.float32]
    scale: Numbers
    pairs: NDArray[np.int64]

    @classmethod
    def of(cls, periods: Periods, histories: Histories, *, has_interactions: bool) -> _Design:
        effects = np.log1p(periods.adstock)
        nodes = effects.shape[1]
        pairs = np.array(list(combinations(range(nodes), 2)) if has_interactions else [], np.int64)
        time = periods.number.astype(np.float64)
        columns = [histories.covariates[periods.user], time[:, None], time[:, None] ** 2]
        plain = np.concatenate([np.ones((len(time), 1)), *map(_standardised, columns)], axis=1)
        design = cls(plain, effects, np.ones(0), pairs.reshape(-1, 2))
        weight = periods.weight / periods.weight.sum()
        scale = np.concatenate([_spread(block, weight) for block in (_flat(effects), design.products())])
        return cls(plain, effects, scale, design.pairs)

    def at(self, rows: NDArray[np.bool_]) -> _Design:
        """Return some rows of it."""
        return _Design(self.plain[rows], self.effects[rows], self.scale, self.pairs)

    def products(self) -> Numbers:
        """Return what is at work of two nodes at once, each the mean over its half-lives."""
        level = self.effects.mean(axis=2, dtype=np.float64)
        return np.asarray(level[:, self.pairs[:, 0]] * level[:, self.pairs[:, 1]])

    def matrix(self) -> Numbers:
        """Return all of it, effects in their standard deviations."""
        effects = np.concatenate([_flat(self.effects), self.products()], axis=1)
        return np.concatenate([self.plain, effects / self.scale], axis=1)

    def penalty(self, strength: float) -> Numbers:
        """Return the penalty of each coefficient; only effects are drawn towards zero."""
        return np.concatenate([np.zeros(self.plain.shape[1]), np.full(len(self.scale), strength)])

    def lost(self, coefficients: Numbers) -> Numbers:
        """Return the share of each row's chance to convert that goes with each node."""
        _, nodes, lives = self.effects.shape
        plain, effects = np.split(coefficients, [self.plain.shape[1]])
        effects = effects / self.scale
        single = effects[: nodes * lives].reshape(nodes, lives)
        change = np.einsum("rnl,nl->rn", self.effects, single)
        log_odds = self.plain @ plain + change.sum(axis=1)
        if len(self.pairs):
            both = self.products() * effects[nodes * lives :]
            log_odds += both.sum(axis=1)
            for position, pair in enumerate(self.pairs):
                change[:, pair] += both[:, position, None]
        chance = _chance(log_odds)[:, None]
        without = _chance(np.subtract(log_odds[:, None], change))
        return np.asarray(1.0 - without / chance)


def _fit(design: _Design, periods: Periods, penalty: Numbers) -> tuple[Numbers, Numbers]:
    """Return the coefficients of greatest penalised likelihood, and its curvature there."""
    matrix, is_case, weight = design.matrix(), periods.is_case.astype(np.float64), periods.weight
    coefficients = np.zeros(matrix.shape[1])
    share = (weight * is_case).sum() / weight.sum()
    coefficients[0] = np.log(share / (1 - share)) if share < 1 else _FARTHEST
    hessian = np.eye(matrix.shape[1])
    for _ in range(_MOST_STEPS):
        chance = _chance(matrix @ coefficients)
        slope = matrix.T @ (weight * (is_case - chance)) - penalty * coefficients
        hessian = (matrix * (weight * chance * (1 - chance))[:, None]).T @ matrix + np.diag(penalty)
        step = _solved(hessian, slope)
        # Far steps overshoot where hardly anything is known.
        step *= min(1.0, 4.0 / max(np.abs(step).max(), 1e-300))
        coefficients += step
        if np.abs(step).max() < _CONVERGED:
            break
    return coefficients, hessian


def _without(
    design: _Design, periods: Periods, coefficients: Numbers, hessian: Numbers, is_left_out: NDArray[np.bool_]
) -> Numbers:
    """Return the coefficients without some rows, one step of Newton's from those with all."""
    part = design.at(is_left_out)
    matrix, weight = part.matrix(), periods.weight[is_left_out]
    chance = _chance(matrix @ coefficients)
    slope = matrix.T @ (weight * (periods.is_case[is_left_out] - chance))
    curvature = (matrix * (weight * chance * (1 - chance))[:, None]).T @ matrix
    return coefficients - _solved(hessian - curvature, slope)


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


def _chance(log_odds: Numbers) -> Numbers:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(log_odds, -_FARTHEST, _FARTHEST))))


def _solved(matrix: Numbers, right: Numbers) -> Numbers:
    # Columns that say the same twice leave a direction without curvature; the shortest solution is taken.
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


def _flat(effects: NDArray[np.float32]) -> Numbers:
    return effects.reshape(len(effects), -1).astype(np.float64)


def _standardised(columns: Numbers) -> Numbers:
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _spread(columns: Numbers, weight: Numbers) -> Numbers:
    centred = columns - weight @ columns
    spread = np.sqrt(weight @ centred**2)
    return np.asarray(np.where(spread > 0, spread, 1.0))
