"""The chance to convert, by models that know one, for users whom they have not seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.attribution import models
from attrib_ds.attribution.incremental.discrete_hazard import regression
from attrib_ds.attribution.incremental.logistic import chances, fit_logistic
from attrib_ds.attribution.incremental.rated_periods import RatedPeriods
from attrib_ds.attribution.path_models.backoff import NextSteps
from attrib_ds.attribution.path_models.path_classes import PathClasses
from attrib_ds.attribution.path_models.touched_sets import TouchedSets
from attrib_ds.attribution.path_models.transitions import Transitions
from attrib_ds.attribution.paths.codes import number_rows, sum_rows
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.periods import Periods
    from attrib_ds.attribution.path_models.outcomes import Outcomes
    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]

_ALLOWED: Final = (
    "allowed: markov, conversion_rate_shapley, fractribution, discrete_hazard, additive_hazard, each also "
    "with parameters"
)


@dataclass(frozen=True, eq=False)
class Chances:
    """Chances of users left out, and what became of them.

    Attributes
    ----------
    chance : float array, shape (n_groups,)
        That a path, or a period of a user, of a group of them converts, between 0 and 1.
    conversions, nulls : float array, shape (n_groups,)
        How many of the group did, and did not.
    overall : float
        Share that converted of those that the model was made from.
    unit : str
        What has a chance: a ``"path"``, or a ``"period"`` of a user.
    """

    chance: Numbers
    conversions: Numbers
    nulls: Numbers
    overall: float
    unit: str = "path"

    @property
    def trials(self) -> Numbers:
        """How many of each group had a chance."""
        return self.conversions + self.nulls


@singledispatch
def held_out_chances(model: models.Model, _sequences: Sequences) -> list[Chances]:
    """Return the chances of each group of users, by the model made from the other groups."""
    raise InvalidRequest(
        f"models: {model.name} says nothing of the chance to convert; {_ALLOWED}",
        field="models",
    )


@held_out_chances.register(models.Markov)
def _of_markov(model: models.Markov, sequences: Sequences) -> list[Chances]:
    counted = Transitions.of(sequences, model)
    ends = NextSteps.of(counted, folds=sequences.folds).ends()
    conversions, nulls = ends.counts
    chances_of = []
    for fold in range(sequences.folds):
        kept = np.arange(sequences.folds) != fold
        converted, lost = conversions[:, kept].sum(axis=1), nulls[:, kept].sum(axis=1)
        overall = converted.sum() / max((converted + lost).sum(), 1.0)
        chance = np.full(len(converted), overall)
        for steps in range(1, model.order + 1):
            known = ends.before[:, model.order - steps :]
            _, state = number_rows(known)
            seen = np.bincount(state, converted)[state] + chance
            chance = seen / (np.bincount(state, converted + lost)[state] + 1.0)
        chances_of.append(Chances(chance, conversions[:, fold], nulls[:, fold], float(overall)))
    return chances_of


@held_out_chances.register(models.ConversionRateShapley)
def _of_sets(model: models.ConversionRateShapley, sequences: Sequences) -> list[Chances]:
    return _by_rates(TouchedSets.of(sequences).outcomes, sequences.folds, model.shrinkage or 1.0)


@held_out_chances.register(models.Fractribution)
def _of_paths(model: models.Fractribution, sequences: Sequences) -> list[Chances]:
    return _by_rates(PathClasses.of(sequences, model).outcomes, sequences.folds, model.shrinkage or 1.0)


@held_out_chances.register(models.Landmark)
def _of_effects(model: models.Landmark, _sequences: Sequences) -> list[Chances]:
    raise InvalidRequest(
        f"models: {model.name} estimates effects on those who were reached, and is no model of the chance to "
        f"convert; {_ALLOWED}",
        field="models",
    )


@held_out_chances.register(models.AdditiveHazard)
def _of_rates(model: models.AdditiveHazard, sequences: Sequences) -> list[Chances]:
    rated = RatedPeriods.of(model, sequences)
    return _by_group(rated.periods, rated.fold, sequences.folds, rated.chances_without)


@held_out_chances.register(models.DiscreteHazard)
def _of_periods(model: models.DiscreteHazard, sequences: Sequences) -> list[Chances]:
    histories, periods, design = regression(model, sequences)
    is_case, weight, fold = periods.is_case, periods.weight, histories.fold[periods.user]

    def chances_without(group: int) -> Numbers:
        others = np.flatnonzero(fold != group)
        penalty = design.penalty(model.shrinkage * is_case[others].sum())
        known, _ = fit_logistic(design.at(others), is_case[others], weight[others], penalty=penalty)
        return chances(design.rows(np.flatnonzero(fold == group)) @ known)

    return _by_group(periods, fold, sequences.folds, chances_without)


def _by_group(
    periods: Periods, fold: NDArray[np.int64], folds: int, chances_without: Callable[[int], Numbers]
) -> list[Chances]:
    """Return what became of the periods of each group, with chances made without the group."""
    is_case, weight = periods.is_case, periods.weight
    chances_of = []
    for group in range(folds):
        mine, others = fold == group, fold != group
        overall = weight[others] @ is_case[others] / max(weight[others].sum(), 1.0)
        counts = weight[mine] * np.stack([is_case[mine], ~is_case[mine]])
        chances_of.append(Chances(chances_without(group), counts[0], counts[1], float(overall), "period"))
    return chances_of


def _by_rates(outcomes: Outcomes, folds: int, shrinkage: float) -> list[Chances]:
    groups = len(outcomes.has_touch)
    chances_of = []
    for fold in range(folds):
        left_out, others = outcomes.where(outcomes.fold == fold), outcomes.where(outcomes.fold != fold)
        counts = sum_rows(left_out.counts, left_out.row, groups)[outcomes.has_touch]
        rates = others.rates(shrinkage)
        chance = rates[:-1][outcomes.has_touch]
        chances_of.append(Chances(chance, counts[:, 0], counts[:, 1], float(rates[-1])))
    return chances_of
