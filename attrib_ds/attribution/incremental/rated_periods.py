"""Gives periods of users a chance to convert, by an additive hazard made from other users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.incremental.additive_hazard import days_of, exposure_of
from attrib_ds.attribution.incremental.discrete_hazard import periods_of
from attrib_ds.attribution.incremental.exposure import strata_of
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.rates import Rates, fit_rates
from attrib_ds.attribution.models.incremental import DiscreteHazard

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.exposure import Exposure
    from attrib_ds.attribution.incremental.periods import Periods
    from attrib_ds.attribution.models.incremental import AdditiveHazard
    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RatedPeriods:
    """Periods of users, those that a discrete hazard with its defaults looks at, with what a rate needs.

    Attributes
    ----------
    periods : Periods
        Of one day each.
    fold : int array
        Group of the user of each period.
    features : float array, shape (n_rows, n_columns)
        How strongly each column was at work at the moment that the period is looked at.
    cell : int array
        Of that moment.
    exposure : Exposure
        Of all users.
    """

    periods: Periods
    fold: NDArray[np.int64]
    features: Numbers
    cell: NDArray[np.int64]
    exposure: Exposure

    @classmethod
    def of(cls, model: AdditiveHazard, sequences: Sequences) -> RatedPeriods:
        """Look at periods of users under a model."""
        exposure, pairs = exposure_of(model, sequences)
        histories = Histories.of(sequences, covariates=())
        looked_at = DiscreteHazard(half_lives=model.half_lives)
        periods = periods_of(looked_at, histories, len(sequences.node_ids))
        stratum = np.array([exposure.strata[key] for key in strata_of(sequences, model.strata)], np.int64)
        start = np.datetime64(exposure.start.replace(tzinfo=None), "us")
        days = periods.moment + (histories.origin - start) / np.timedelta64(1, "D")
        levels = periods.adstock.astype(np.float64)
        middle = levels[:, :, int(np.argsort(days_of(model))[len(model.half_lives) // 2])]
        products = [middle[:, one] * middle[:, other] for one, other in pairs]
        return cls(
            periods,
            histories.fold[periods.user],
            np.column_stack([levels.reshape(len(levels), -1), *products]),
            exposure.cells_of(stratum[periods.user], days),
            exposure,
        )

    def chances_without(self, group: int) -> Numbers:
        """Return the chance of the periods of a group of users by the rates of all the others.

        The rate at the moment that a period is looked at stands for its day. These moments are drawn at the
        times of day at which people convert, as the exposure is weighed by them, so that both agree.
        """
        exposure, others = self.exposure, self.exposure.fold != group
        kept = np.arange(len(exposure.at_work)) != group
        days = exposure.person_days[kept].sum(axis=0)
        rates = fit_rates(
            exposure.features[others],
            exposure.cell[others],
            at_work=exposure.at_work[kept].sum(axis=0),
            person_days=days,
        )
        # One more day in every cell, with the overall rate: no chance is zero where nobody converted yet.
        overall = others.sum() / max(days.sum(), 1.0)
        smoothed = Rates((rates.base * days + overall) / (days + 1.0), rates.slopes)
        mine = self.fold == group
        return np.asarray(-np.expm1(-smoothed.at(self.features[mine], self.cell[mine])))
