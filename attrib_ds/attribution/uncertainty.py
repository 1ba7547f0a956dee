"""Sampling error: how it is asked for, and the bounds of credits that variances and samples give."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import chi2
from scipy.stats import t as student

from attrib_ds.attribution.models.model import check_share, check_whole
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

#: How intervals can be made.
INTERVALS: Final = ("closed_form", "bootstrap")

#: What has bounds, and the columns of these.
BOUNDS: Final = {
    "conversions": ("low", "high"),
    "value": ("value_low", "value_high"),
    "share": ("share_low", "share_high"),
}


@dataclass(frozen=True)
class Uncertainty:
    """What intervals are wanted.

    Attributes
    ----------
    confidence : float
        Level of the intervals, between 0 and 1.
    replicates : int
        Samples of a bootstrap; 0 for a variance in closed form or by a jackknife.
    seed : int
        Of the bootstrap.
    """

    confidence: float
    replicates: int = 0
    seed: int = 0

    @classmethod
    def of(
        cls, confidence: float | None, *, intervals: str, replicates: int, seed: int
    ) -> Uncertainty | None:
        """Check what a user asks for; None where no intervals are wanted."""
        if intervals not in INTERVALS:
            raise InvalidRequest.choice("intervals", intervals, INTERVALS)
        check_whole("replicates", replicates, minimum=2)
        check_whole("seed", seed, minimum=0)
        if confidence is None:
            return None
        check_share("confidence", confidence)
        if not 0 < confidence < 1:
            raise InvalidRequest(
                f"confidence: {confidence!r} is not allowed; allowed: between 0 and 1", field="confidence"
            )
        return cls(confidence, replicates if intervals == "bootstrap" else 0, seed)

    def described(self) -> dict[str, str]:
        """Return what was asked for in words, for results to carry."""
        told = {"confidence": f"{self.confidence:g}", "intervals": INTERVALS[self.replicates > 0]}
        if not self.replicates:
            return told
        return told | {"replicates": str(self.replicates), "seed": str(self.seed)}

    def around(self, estimates: dict[str, Numbers], variances: dict[str, Numbers]) -> dict[str, Numbers]:
        """Return the bounds of sums over many users, which vary like a normal variable.

        Parameters
        ----------
        estimates, variances : dict
            By name in ``BOUNDS``.
        """
        reach = NormalDist().inv_cdf(0.5 + self.confidence / 2)
        return _bounds(estimates, {name: reach * _root(variances[name]) for name in estimates})

    def above_zero(self, estimate: Numbers, variance: Numbers) -> tuple[Numbers, Numbers]:
        """Return the bounds of sums of gains, whose size varies so much that they are skewed.

        They are those of a gamma variable with the same mean and variance, as Fay and Feuer (1997) have them
        for weighted sums of counts, the upper one with one more conversion of middling weight. For counts
        themselves they are the exact bounds of a Poisson number.
        """
        scale = np.divide(variance, 2 * estimate, out=np.zeros_like(estimate), where=estimate > 0)
        freedom = np.divide(estimate, scale, out=np.ones_like(estimate), where=scale > 0)
        tail = 0.5 - self.confidence / 2
        return scale * chi2.ppf(tail, freedom), scale * chi2.ppf(1 - tail, freedom + 2)

    def without(self, estimates: dict[str, Numbers], left_out: Numbers) -> dict[str, Numbers]:
        """Return the bounds of estimates by a jackknife over groups of users.

        The variance over groups of users is that of a sample of users that is as large in another period by
        chance as it is in this one; Student's distribution allows for the few groups.

        Parameters
        ----------
        estimates : dict
            By name in ``BOUNDS``.
        left_out : float array, shape (n_groups, 2, n_rows)
            Conversions and value of each row of credits, without each group of users.
        """
        groups = len(left_out)
        # Without a group there are fewer conversions to divide: back to the size of the whole.
        samples = _by_name(left_out * (groups / (groups - 1)))
        reach = float(student.ppf(0.5 + self.confidence / 2, groups - 1))
        spread = {
            name: reach * _root((groups - 1) / groups * ((each - each.mean(axis=0)) ** 2).sum(axis=0))
            for name, each in samples.items()
        }
        return _bounds(estimates, spread)

    def between(self, replicates: Numbers) -> dict[str, Numbers]:
        """Return the percentiles of the replicates of a bootstrap.

        Of ``n`` replicates the ``k``-th smallest stands for the probability ``k / (n + 1)``: few replicates
        have wide intervals, not too narrow ones.

        Parameters
        ----------
        replicates : float array, shape (n_replicates, 2, n_rows)
            Conversions and value of each row of credits.
        """
        tails = [0.5 - self.confidence / 2, 0.5 + self.confidence / 2]
        return {
            column: bound
            for name, each in _by_name(replicates).items()
            for column, bound in zip(
                BOUNDS[name], np.quantile(each, tails, axis=0, method="weibull"), strict=True
            )
        }

    def unknown(self, rows: int) -> dict[str, Numbers]:
        """Return the bounds of what has none."""
        return {column: np.full(rows, np.nan) for columns in BOUNDS.values() for column in columns}


def _by_name(samples: Numbers) -> dict[str, Numbers]:
    conversions, value = samples[:, 0], samples[:, 1]
    total = conversions.sum(axis=1, keepdims=True)
    share = np.divide(conversions, total, out=np.zeros_like(conversions), where=total != 0)
    return {"conversions": conversions, "value": value, "share": share}


def _bounds(estimates: dict[str, Numbers], reach: dict[str, Numbers]) -> dict[str, Numbers]:
    bounds: dict[str, Numbers] = {}
    for name, estimate in estimates.items():
        low, high = BOUNDS[name]
        bounds |= {low: estimate - reach[name], high: estimate + reach[name]}
    return bounds


def _root(variance: Numbers) -> Numbers:
    # Rounding may leave a variance of nothing a hair below it.
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))
