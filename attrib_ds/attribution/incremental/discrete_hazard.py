"""Discrete-time hazard: logistic regression on person-periods, credited by removing each node in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.calendar import as_days
from attrib_ds.attribution.incremental.histories import Histories, preceding, standardised
from attrib_ds.attribution.incremental.person_periods import Design, Periods, adstock_at, sample_periods
from attrib_ds.attribution.incremental.sessions import BEFORE, Further, Sessions, days_cut_off
from attrib_ds.attribution.intervals import GROUPS, Tally
from attrib_ds.attribution.models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest

_MOST_STEPS: Final = 60
_CONVERGED: Final = 1e-7
#: Bound of log-odds, beyond which a probability is 0 or 1 in double precision.
_FARTHEST: Final = 35.0
#: Rows of the matrix held in memory at once.
_TOGETHER: Final = 1 << 15
#: Maximum number of sessions in their own regression.
_MOST_SESSIONS: Final = 50_000
#: Minimum number of periods to draw: few of them would tell conversions apart by chance.
_FEWEST: Final = 2_000
#: A covariate separates users who converted from others by chance with less than this probability.
_BY_CHANCE: Final = 1e-6
#: With more rows than this, the first steps use every eighth row.
_MANY: Final = 100_000


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
        Histories of users.
    periods : Periods
        Sampled periods; none without a conversion in the observation of its user.
    design : Design
        Their design matrix.
    further : Further, optional
        Probability of the sessions with conversions; None if people convert in periods.
    in_sessions : float
        Share of conversions within 30 minutes of a touchpoint.
    """

    model: DiscreteHazard
    node_ids: list[str]
    histories: Histories
    periods: Periods
    design: Design
    further: Further | None = None
    in_sessions: float = 0.0

    @classmethod
    def of(
        cls,
        model: DiscreteHazard,
        sequences: Sequences,
        histories: Histories | None = None,
        *,
        own: Collection[str] = (),
    ) -> HazardSample:
        """Sample periods of histories, by default of those in the paths; or sessions.

        Sessions that nodes open which are users' ``own`` will, such as direct visits, come anyway.
        """
        nodes = len(sequences.node_ids)
        if histories is None:
            histories = Histories.of(sequences, covariates=model.covariates)
        if not len(histories.event_user) + len(histories.unobserved.fold):
            raise InvalidRequest("paths: no conversions; an incremental model needs at least one")
        _refuse_outcomes(histories)
        if model.interactions and nodes > model.most_interacting:
            raise InvalidRequest(
                f"interactions: {nodes} nodes have {nodes * (nodes - 1) // 2} pairs; allowed: up to "
                f"{model.most_interacting} nodes (roll them up with level=)"
            )
        sessions, further = Sessions.of(histories), None
        if model.scale == "sessions" or (model.scale == "auto" and sessions.is_scale):
            histories, of_event = sessions.within(histories)
            is_own = np.isin(sequences.node_ids, list(own))
            further = _further(model, histories, sessions, of_event, is_own, folds=sequences.folds)
            drawn = partial(sessions.periods, histories, of_event)
        else:
            drawn = partial(sample_periods, histories)
        periods = _periods_of(model, drawn, nodes=nodes, conversions=len(histories.event_user))
        design = Design.of(periods, histories, has_interactions=model.interactions)
        return cls(model, sequences.node_ids, histories, periods, design, further, sessions.share)

    def fit(self, *, is_jackknife: bool = False) -> HazardFit:
        """Fit the regression, with ``is_jackknife`` also without each fold of users."""
        design, periods, histories = self.design, self.periods, self.histories
        conversions, is_case = len(histories.event_user), periods.is_case
        penalty = design.penalty(self.model.shrinkage * conversions)
        if conversions:
            fitted = fit_logistic(design, is_case, periods.weight, penalty=penalty)
            coefficients = [fitted[0]]
            # Without each fold, by one Newton step from the coefficients of all rows.
            for fold in range(GROUPS if is_jackknife else 0):
                rows = np.flatnonzero(histories.fold[periods.user] == fold)
                _, gradient, part = derivatives(design, is_case, periods.weight, fitted[0], rows)
                coefficients.append(fitted[0] - solved(fitted[1] - part, gradient))
        else:
            fitted = np.zeros(len(penalty)), np.eye(len(penalty))
            coefficients = [fitted[0]] * (1 + GROUPS * is_jackknife)
        # Cases come first, in the order of conversions.
        cases = design.at(np.flatnonzero(is_case))
        return HazardFit(
            histories, design, cases, periods.weight, penalty, fitted[1], coefficients, self.further
        )

    def part(self, which: Flags, conversions: Codes) -> HazardSample:
        """Return some of the periods, with the conversions at some positions among all."""
        histories = self.histories.of_conversions(conversions)
        periods = self.periods.at(which)
        design = Design.of(periods, histories, has_interactions=self.model.interactions)
        further = self.further
        if further is not None:
            further = further.at(np.isin(self.histories.event_number, conversions))
        return replace(self, histories=histories, periods=periods, design=design, further=further)

    def without_activity(self) -> HazardSample:
        """Return the data of a regression in which all users are equally active."""
        return replace(self, design=self.design.without_activity())

    def after_conversions(self) -> HazardSample:
        """Return the data of a regression that knows users' earlier conversions, and how recent they are."""
        histories, periods, plain = self.histories, self.periods, self.design.plain
        order = np.lexsort((histories.event_time, histories.event_user))
        every = replace(
            histories,
            touch_user=histories.event_user[order],
            touch_node=np.zeros(len(order), np.int64),
            touch_time=histories.event_time[order],
        )
        lives = [*half_lives_of(self.model), np.inf]
        earlier = adstock_at(every, periods.user, periods.moment - BEFORE, nodes=1, half_lives=lives)[:, 0]
        columns = [plain[:, :1], standardised(np.log1p(earlier, dtype=np.float64)), plain[:, 1:]]
        return replace(self, design=replace(self.design, plain=np.column_stack(columns)))


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
    further : Further, optional
        Probability of the sessions with conversions; None if people convert in periods.
    """

    histories: Histories
    design: Design
    cases: Design
    weight: Numbers
    penalty: Numbers
    hessian: Numbers
    coefficients: list[Numbers]
    further: Further | None = None

    def lost(self) -> list[Numbers]:
        """Return the share of each conversion lost without each node, in each sample of users."""
        if self.further is None:
            return [lost_without(self.cases, each) for each in self.coefficients]
        effects = self.cases.effects.copy()
        # Sessions of users' own will would have come anyway, with the same opener.
        effects[:, self.further.is_own, -1] = 0.0
        cases = replace(self.cases, effects=effects)
        found = []
        for number, each in enumerate(self.coefficients):
            kept = 1.0 - lost_without(cases, each, base=self.cases)
            later = (self.further.periods_left * self.further.chance[number])[:, None]
            later = later * kept * probabilities(self.cases.log_odds(each))[:, None]
            found.append((1.0 - self.further.remaining(number) * kept) * np.exp(-later))
        return found

    def credits(self) -> Tally:
        """Credit each node with the part of every conversion that would not have happened without it."""
        lost, histories = self.lost(), self.histories
        # Nodes with a touchpoint have a row in every currency.
        is_touched = np.append(np.bincount(histories.touch_node, minlength=lost[0].shape[1]) > 0, True)
        return _tally(lost, histories, np.repeat(is_touched[:, None], len(histories.currencies), axis=1))


def changed_exposure(sample: HazardSample, fit: HazardFit, change: float) -> Tally:
    """Return the change of conversions and value if a share of the touchpoints of each node is added or lost.

    Every touchpoint has the same chance to be lost, or to happen twice. Random groups of touchpoints are
    changed in turn, so that each touchpoint is changed about once, and the results are averaged.

    Parameters
    ----------
    sample, fit : HazardSample, HazardFit
        The model.
    change : float
        Share of the touchpoints, from -1 to 1: below 0 if they are lost.
    """
    histories, cases, periods = sample.histories, fit.cases, sample.periods
    size = abs(change)
    draw = np.random.default_rng(sample.model.seed).random(len(histories.touch_user))
    adstock, level = np.expm1(cases.effects), cases.effects.mean(axis=2, dtype=np.float64)
    rounds = int(np.ceil(1 / size))
    changed = [np.zeros(cases.effects.shape[:2]) for _ in fit.coefficients]
    lives = half_lives_of(sample.model)
    log_odds = [cases.log_odds(each) for each in fit.coefficients]
    for number in range(rounds):
        is_changed = (draw + number * size) % 1.0 < size
        names = ("touch_user", "touch_time", "touch_node")
        touches = {name: getattr(histories, name)[is_changed] for name in names}
        part = adstock_at(
            replace(histories, **touches),
            periods.user[periods.is_case],
            periods.moment[periods.is_case],
            nodes=adstock.shape[1],
            half_lives=lives,
        )
        effects = np.log1p(np.maximum(adstock + np.sign(change) * part, 0.0))
        further = np.asarray(effects - cases.effects, np.float64)
        for index, coefficients in enumerate(fit.coefficients):
            scaled = coefficients[cases.plain.shape[1] + cases.stretches :] / cases.scale
            single = scaled[: further.shape[1] * len(lives)].reshape(further.shape[1:])
            shift = np.einsum("rnl,nl->rn", further, single)
            for (first, second), weight in zip(cases.pairs, scaled[single.size :], strict=True):
                shift[:, first] += weight * further[:, first].mean(axis=1) * level[:, second]
                shift[:, second] += weight * further[:, second].mean(axis=1) * level[:, first]
            odds = log_odds[index][:, None]
            changed[index] += (probabilities(odds + shift) / probabilities(odds) - 1.0) / rounds
    is_shown = fit.credits().is_shown
    is_shown[-1] = False
    return _tally(changed, histories, is_shown)


def credit_discrete_hazard(model: DiscreteHazard, sequences: Sequences) -> Tally:
    """Credit each node with the part of every conversion that would not have happened without it."""
    return HazardSample.of(model, sequences).fit(is_jackknife=sequences.folds > 1).credits()


def share_discrete_hazard(model: DiscreteHazard, sequences: Sequences) -> pa.Table:
    """Divide the credit of a node for a conversion among its touchpoints by their decay.

    Touchpoints are weighted by the part left of them at the conversion, averaged over half-lives:
    coefficients of half-lives may have different signs, so a touchpoint has no effect of its own.
    """
    fit = HazardSample.of(model, sequences).fit()
    kept = ["event_id", "node_id", "date", "touch_id"]
    rows = preceding(sequences, "node_id", "touch_id").order_by("number", "date", "touch_id", "code")
    touches = rows.select(*kept, "number", "code", "age_days").to_pyarrow()
    event, code = (touches[name].to_numpy().astype(np.int64) for name in ("number", "code"))
    event_number = fit.histories.event_number
    count = max(int(event.max(initial=-1)), int(event_number.max(initial=-1))) + 1
    of_event = np.zeros((count, len(sequences.node_ids)))
    of_event[event_number] = fit.lost()[0]
    age = touches["age_days"].to_numpy().astype(np.float64)
    decay = np.exp2(-age[:, None] / np.asarray(half_lives_of(model))).mean(axis=1)
    share = _divided(decay, np.column_stack([event, code])) * of_event[event, code]
    return touches.select(kept).append_column("share", pa.array(share)).filter(pa.array(share != 0))


def _divided(weight: Numbers, cells: Codes) -> Numbers:
    """Scale weights of touchpoints so that those of a cell, a conversion and node, sum to one."""
    _, cell = np.unique(cells, axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    count = int(cell.max(initial=-1)) + 1
    total = np.bincount(cell, weight, minlength=count)
    # After a thousand half-lives all weights are zero, and touchpoints share equally.
    equal = 1.0 / np.maximum(np.bincount(cell, minlength=count), 1)
    has_weight = total[cell] > 0
    return np.where(has_weight, weight / np.where(has_weight, total[cell], 1.0), equal[cell])


def _refuse_outcomes(histories: Histories) -> None:
    """Refuse a covariate that separates users who converted from all others: no effect is left beside it."""
    converted = np.zeros(len(histories.since), bool)
    converted[histories.event_user] = True
    count, others = int(converted.sum()), int((~converted).sum())
    ways = math.lgamma(count + others + 1) - math.lgamma(count + 1) - math.lgamma(others + 1)
    if 2 * math.exp(-ways) > _BY_CHANCE:
        return
    for name, column in zip(histories.covariate_names, histories.covariates.T, strict=True):
        first, second = column[converted], column[~converted]
        if first.min() > second.max() or first.max() < second.min():
            raise InvalidRequest(
                f"covariates: {name!r} tells exactly who converted, so it is the outcome; allowed: columns "
                "from before the first touchpoint"
            )


def half_lives_of(model: DiscreteHazard) -> list[float]:
    """Return the half-lives of a model in days."""
    return [as_days(each, argument="half_lives") for each in model.half_lives]


def _periods_of(
    model: DiscreteHazard, drawn: Callable[..., Periods], *, nodes: int, conversions: int
) -> Periods:
    """Draw periods as a model says, for a number of conversions to be compared."""
    periods = drawn(
        nodes=nodes,
        half_lives=half_lives_of(model),
        step=as_days(model.step, argument="step"),
        rows=min(model.rows, max(model.comparisons * conversions, _FEWEST)),
        seed=model.seed,
    )
    return periods if model.activity else periods.without_activity()


def _further(
    model: DiscreteHazard, histories: Histories, sessions: Sessions, of_event: Codes, is_own: Flags, *,
    folds: int,
) -> Further:  # fmt: skip
    """Estimate whether the sessions with conversions would have come without each node.

    A discrete hazard of sessions of all kinds gives the part of its probability in a period that is lost
    without earlier touchpoints of a node. A session that the node opened itself is replaced by one of
    another node, with the probability of one in the same period.
    """
    opener, nodes = sessions.opener[of_event], len(is_own)
    counts = 1 + GROUPS if folds > 1 else 1
    is_outcome = sessions.time > histories.since[sessions.user]
    is_outcome &= sessions.time <= histories.until[sessions.user]
    outcome = np.flatnonzero(is_outcome)
    of_others = 1.0 - np.bincount(sessions.opener[outcome], minlength=nodes) / max(len(outcome), 1)
    further = Further(
        opener,
        is_own,
        of_others,
        days_cut_off(histories) / as_days(model.step, argument="step"),
        [np.zeros(len(opener)) for _ in range(counts)],
        [np.ones((len(opener), nodes)) for _ in range(counts)],
    )
    if not len(outcome):
        return further
    of_sessions = replace(
        histories, event_user=sessions.user[outcome], event_time=sessions.time[outcome] - BEFORE
    )
    wanted = replace(model, comparisons=2)
    fit, design = fit_drawn(wanted, of_sessions, nodes=nodes, most=_MOST_SESSIONS, is_jackknife=counts > 1)
    # Sessions at the very beginning of an observation are in it because of themselves.
    place = np.searchsorted(outcome, of_event)
    is_modelled = is_outcome[of_event]
    rows = design.at(place[is_modelled])
    for number, coefficients in enumerate(fit.coefficients):
        further.kept[number][is_modelled] = 1.0 - lost_without(rows, coefficients)
        further.chance[number][is_modelled] = probabilities(rows.log_odds(coefficients))
    return further


def fit_drawn(
    model: DiscreteHazard, histories: Histories, *, nodes: int, most: int, is_jackknife: bool
) -> tuple[HazardFit, Design]:
    """Fit a hazard to at most so many of the outcomes in histories; return it and the design of all periods.

    The rows of the design begin with those of the outcomes, in their order.
    """
    outcomes = len(histories.event_user)
    count = min(outcomes, most)
    is_drawn = np.zeros(outcomes, bool)
    is_drawn[np.random.default_rng(model.seed).choice(outcomes, count, replace=False)] = True
    periods = _periods_of(model, partial(sample_periods, histories), nodes=nodes, conversions=count)
    weight = periods.weight.copy()
    weight[:outcomes] = outcomes / count
    periods = replace(periods, weight=weight)
    is_used = np.concatenate([is_drawn, np.ones(len(weight) - outcomes, bool)])
    design = Design.of(periods, histories, has_interactions=False)
    histories = replace(histories, event_user=histories.event_user[is_drawn])
    sample = HazardSample(model, [], histories, periods.at(is_used), design.at(np.flatnonzero(is_used)))
    return sample.fit(is_jackknife=is_jackknife), design


def lost_without(design: Design, coefficients: Numbers, *, base: Design | None = None) -> Numbers:
    """Return the share of each row's conversion probability that is lost without each node.

    The probability is that of a ``base`` if parts of the nodes in it are not lost.
    """
    change = design.parts(coefficients)
    log_odds = (base or design).log_odds(coefficients)
    probability = probabilities(log_odds)[:, None]
    without = probabilities(np.subtract(log_odds[:, None], change))
    return np.asarray(1.0 - without / probability)


def _tally(lost: list[Numbers], histories: Histories, is_shown: Flags) -> Tally:
    """Credit nodes with shares of conversions: of all users, then without each fold."""
    total, *without = [_credited(each, histories, number - 1) for number, each in enumerate(lost)]
    conversions, value = ([each[which] for each in without] for which in (0, 1))
    return Tally(histories.currencies, total[0], total[1], is_shown, conversions, value)


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


def fit_logistic(
    design: Design, outcome: Flags, weight: Numbers, *, penalty: Numbers
) -> tuple[Numbers, Numbers]:
    """Return the coefficients of maximum penalised likelihood, and the Hessian of its negative there.

    Newton's method, with steps halved while the likelihood falls, until no coefficient moves by more than
    1e-7. The first column is the intercept.

    Parameters
    ----------
    design : Design
        Design matrix.
    outcome : bool array
        Dependent variable.
    weight : float array
        Weight of each row.
    penalty : float array, shape (n_columns,)
        Ridge penalty: half of it times the squared coefficient is subtracted from the log-likelihood.
    """
    coefficients = np.zeros(len(penalty))
    share = (weight @ outcome) / weight.sum()
    coefficients[0] = np.log(share / (1 - share)) if 0 < share < 1 else np.sign(share - 0.5) * _FARTHEST
    hessian = np.eye(len(penalty))
    for stride in (8, 1) if len(outcome) > _MANY else (1,):
        every = np.arange(0, len(outcome), stride, dtype=np.int64)
        best, step = -np.inf, np.zeros(len(penalty))
        for _ in range(_MOST_STEPS):
            likelihood, gradient, hessian = derivatives(design, outcome, weight, coefficients, every)
            # The penalty is measured in all rows, which the sample stands for.
            objective = likelihood * stride - 0.5 * float(penalty @ coefficients**2)
            if objective < best - 1e-9 * abs(best):
                # Long steps overshoot where there is little information: halve until uphill.
                step /= 2
                coefficients = coefficients - step
                continue
            best = objective
            hessian = hessian * stride + np.diag(penalty)
            step = solved(hessian, gradient * stride - penalty * coefficients)
            coefficients = coefficients + step
            if np.abs(step).max() < (_CONVERGED if stride == 1 else 1e-3):
                break
    return coefficients, hessian


def derivatives(
    design: Design, outcome: Flags, weight: Numbers, coefficients: Numbers, which: Codes
) -> tuple[float, Numbers, Numbers]:
    """Return log-likelihood, gradient and negative Hessian of some rows, without the penalty."""
    likelihood = 0.0
    gradient = np.zeros(len(coefficients))
    hessian = np.zeros((len(coefficients), len(coefficients)))
    for start in range(0, len(which), _TOGETHER):
        rows = which[start : start + _TOGETHER]
        matrix = design.rows(rows)
        probability = probabilities(matrix @ coefficients)
        likelihood += float(weight[rows] @ np.log(np.where(outcome[rows], probability, 1 - probability)))
        gradient += matrix.T @ (weight[rows] * (outcome[rows] - probability))
        hessian += (matrix * (weight[rows] * probability * (1 - probability))[:, None]).T @ matrix
    return likelihood, gradient, hessian


def probabilities(log_odds: Numbers) -> Numbers:
    """Return the probabilities of log-odds."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(log_odds, -_FARTHEST, _FARTHEST))))


def solved(matrix: Numbers, right: Numbers) -> Numbers:
    """Solve linear equations; return the solution of least norm if there are several."""
    # Collinear columns make the matrix singular.
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])
