"""Intervals of credits: the method a user requests, and bounds from variances or resampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.attribution.intervals.bounds import Bounds
from attrib_ds.attribution.models.model import check_whole
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

#: Methods of intervals.
INTERVALS: Final = ("closed_form", "bootstrap")

#: Measures with bounds, and the columns of the bounds.
BOUNDS: Final = {
    "conversions": ("low", "high"),
    "value": ("value_low", "value_high"),
    "share": ("share_low", "share_high"),
}


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of credits, which determine the distribution of their sampling error.

    Attributes
    ----------
    is_sum : bool
        Whether credits are sums of non-negative parts of conversions.
    is_signed : bool
        Whether credits may be negative.
    is_gain : bool array, shape (n_rows,)
        Whether all conversions of a row have a value of 0 or more.
    currency : int array, shape (n_rows,)
        Number of the currency of each row.
    """

    is_sum: bool
    is_signed: bool
    is_gain: NDArray[np.bool_]
    currency: NDArray[np.int64]


@dataclass(frozen=True)
class Uncertainty:
    """Level and method of intervals.

    Attributes
    ----------
    confidence : float
        Level of the intervals, between 0 and 1.
    replicates : int
        Number of bootstrap samples; 0 for a closed form or a jackknife.
    seed : int
        Seed of the bootstrap.
    """

    confidence: float
    replicates: int = 0
    seed: int = 0

    @classmethod
    def of(
        cls, confidence: float | None, *, intervals: str, replicates: int, seed: int
    ) -> Uncertainty | None:
        """Check the arguments of a user; None if no intervals are requested."""
        if intervals not in INTERVALS:
            raise InvalidRequest.choice("intervals", intervals, INTERVALS)
        check_whole("replicates", replicates, minimum=2)
        check_whole("seed", seed, minimum=0)
        if confidence is None:
            return None
        is_number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
        if not is_number or not 0 < confidence < 1:
            raise InvalidRequest(
                f"confidence: {confidence!r} is not allowed; allowed: between 0 and 1, such as 0.95",
                field="confidence",
            )
        return cls(confidence, replicates if intervals == "bootstrap" else 0, seed)

    def described(self) -> dict[str, str]:
        """Return the settings as text by name, for the ``attrs`` of results."""
        settings = {"confidence": f"{self.confidence:g}", "intervals": INTERVALS[self.replicates > 0]}
        if not self.replicates:
            return settings
        return settings | {"replicates": str(self.replicates), "seed": str(self.seed)}

    def around(
        self, estimates: dict[str, Numbers], variances: dict[str, Numbers], *, limits: Limits
    ) -> dict[str, Numbers]:
        """Return the bounds of sums over users with known variances.

        Parameters
        ----------
        estimates, variances : dict
            By name in ``BOUNDS``.
        limits : Limits
            Limits of the estimates.
        """
        return _bounds(Bounds(self.confidence), estimates, variances, limits)

    def without(
        self, estimates: dict[str, Numbers], left_out: Numbers, *, limits: Limits
    ) -> dict[str, Numbers]:
        """Return the bounds of estimates by a jackknife over groups of users.

        The variance is that of a random number of users, as between periods; Student's t distribution
        accounts for the small number of groups.

        Parameters
        ----------
        estimates : dict
            By name in ``BOUNDS``.
        left_out : float array, shape (n_groups, 2, n_rows)
            Conversions and value of each row of credits without each group of users.
        limits : Limits
            Limits of the estimates.
        """
        groups = len(left_out)
        # Scale the conversions without a group to the number of all users.
        samples = _samples(left_out * (groups / (groups - 1)))
        variances = {
            name: (groups - 1) / groups * ((sample - sample.mean(axis=0)) ** 2).sum(axis=0)
            for name, sample in samples.items()
        }
        return _bounds(Bounds(self.confidence, groups - 1), estimates, variances, limits)

    def between(
        self, estimates: dict[str, Numbers], replicates: Numbers, *, limits: Limits
    ) -> dict[str, Numbers]:
        """Return the bounds of estimates by a bootstrap.

        For sums of non-negative parts, which are skewed if users are few, replicates estimate the variance
        only: their percentiles are skewed in the wrong direction, and undercover. For credits that may be
        negative, bounds are percentiles. The ``k``-th smallest of ``n`` replicates has the probability
        ``k / (n + 1)``, so that few replicates give wide intervals, not too narrow ones.

        Parameters
        ----------
        estimates : dict
            By name in ``BOUNDS``.
        replicates : float array, shape (n_replicates, 2, n_rows)
            Conversions and value of each row of credits.
        limits : Limits
            Limits of the estimates.
        """
        samples = _samples(replicates)
        tails = [0.5 - self.confidence / 2, 0.5 + self.confidence / 2]
        percentiles = {
            column: bound
            for name, sample in samples.items()
            for column, bound in zip(
                BOUNDS[name], np.quantile(sample, tails, axis=0, method="weibull"), strict=True
            )
        }
        if not limits.is_sum:
            return percentiles
        variances = {name: sample.var(axis=0, ddof=1) for name, sample in samples.items()}
        bounds = _bounds(Bounds(self.confidence, len(replicates) - 1), estimates, variances, limits)
        for column in BOUNDS["value"]:
            bounds[column] = np.where(limits.is_gain, bounds[column], percentiles[column])
        return bounds

    def unknown(self, rows: int) -> dict[str, Numbers]:
        """Return missing bounds."""
        return {column: np.full(rows, np.nan) for columns in BOUNDS.values() for column in columns}


def measures_of(conversions: Numbers, value: Numbers) -> dict[str, Numbers]:
    """Return the measures in ``BOUNDS`` by name; shares are of all conversions along the last axis."""
    total = conversions.sum(axis=-1, keepdims=True)
    share = np.divide(conversions, total, out=np.zeros_like(conversions), where=total != 0)
    return {"conversions": conversions, "value": value, "share": np.asarray(share)}


def _samples(samples: Numbers) -> dict[str, Numbers]:
    return measures_of(samples[:, 0], samples[:, 1])


def _bounds(
    form: Bounds, estimates: dict[str, Numbers], variances: dict[str, Numbers], limits: Limits
) -> dict[str, Numbers]:
    pairs = {name: form.around(estimates[name], variances[name]) for name in BOUNDS}
    if limits.is_sum:
        conversions, variance = estimates["conversions"], variances["conversions"]
        one_group = np.zeros(len(conversions), np.int64)
        part = _mean_part(conversions, variance, one_group)
        pairs["conversions"] = form.of_sum(conversions, variance, weight=part)
        users = conversions.sum() / part[0] if len(part) and part[0] > 0 else 0.0
        pairs["share"] = form.of_share(estimates["share"], variances["share"], users=users)
        value, variance = estimates["value"], variances["value"]
        of_gains = form.of_sum(
            np.where(limits.is_gain, value, 0.0),
            variance,
            weight=_mean_part(value, variance, limits.currency),
        )
        low, high = pairs["value"]
        pairs["value"] = (
            np.where(limits.is_gain, of_gains[0], low),
            np.where(limits.is_gain, of_gains[1], high),
        )
    elif not limits.is_signed:
        pairs = _truncated(form, estimates, pairs, limits)
    return {
        column: bound
        for name, columns in BOUNDS.items()
        for column, bound in zip(columns, pairs[name], strict=True)
    }


def _truncated(
    form: Bounds, estimates: dict[str, Numbers], pairs: dict[str, tuple[Numbers, Numbers]], limits: Limits
) -> dict[str, tuple[Numbers, Numbers]]:
    """Truncate bounds at 0 and at the upper bound of all conversions.

    A non-negative effect is a truncated normal variable, not a sum of few parts. If the estimate is 0, its
    variance may be too small, so the upper bound is at least that of a count of 0 conversions.
    """
    conversions, value = estimates["conversions"], estimates["value"]
    one = np.ones(1)
    total = np.full(1, conversions.sum())
    most, some = form.of_sum(total, total, weight=one)[1], form.of_sum(0 * one, 0 * one, weight=one)[1]
    all_value, all_conversions = np.zeros((2, limits.currency.max(initial=0) + 1))
    np.add.at(all_value, limits.currency, value)
    np.add.at(all_conversions, limits.currency, conversions)
    mean = np.divide(all_value, all_conversions, out=np.zeros_like(all_value), where=all_conversions > 0)
    worth = mean[limits.currency]
    unit = {
        "conversions": np.ones_like(worth),
        "value": worth,
        "share": np.full_like(worth, 1 / max(total[0], 1.0)),
    }
    bounds = {}
    for name, (low, high) in pairs.items():
        highest = np.minimum(high, most * unit[name])
        highest = np.where(conversions == 0, np.maximum(highest, some * unit[name]), highest)
        bounds[name] = (np.maximum(low, 0.0), highest)
    low, high = bounds["value"]
    bounds["value"] = (
        np.where(limits.is_gain, low, pairs["value"][0]),
        np.where(limits.is_gain, high, pairs["value"][1]),
    )
    bounds["share"] = (bounds["share"][0], np.minimum(bounds["share"][1], 1.0))
    return bounds


def _mean_part(estimate: Numbers, variance: Numbers, group: NDArray[np.int64]) -> Numbers:
    """Return the self-weighted mean part of a user in the sums of each group of rows."""
    is_known = ~np.isnan(estimate + variance)
    sums, squares = np.zeros((2, group.max(initial=0) + 1))
    np.add.at(sums, group[is_known], estimate[is_known])
    np.add.at(squares, group[is_known], variance[is_known])
    return np.asarray(np.divide(squares, sums, out=np.zeros_like(sums), where=sums > 0)[group])
