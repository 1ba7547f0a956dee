"""Confidence bounds of an estimate with a variance: normal, gamma for sums, beta for shares."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import betaincinv, gammaincinv
from scipy.stats import t as student

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Pair = tuple[Numbers, Numbers]

#: Effective users from which on the distributions below have no measurable spread.
_VERY_MANY: Final = 1e12
#: Lower limit of the parameters of a beta distribution.
_LEAST: Final = 1e-9


@dataclass(frozen=True)
class Bounds:
    """Confidence level and degrees of freedom of bounds.

    Attributes
    ----------
    confidence : float
        Level of the intervals, between 0 and 1.
    freedom : int, optional
        Degrees of freedom of the variances, for Student's t distribution if they come from few samples. By
        default variances are taken as known.
    """

    confidence: float
    freedom: int | None = None

    @property
    def tail(self) -> float:
        """Probability below the interval."""
        return 0.5 - self.confidence / 2

    @property
    def reach(self) -> float:
        """Distance of the bounds of a normal variable, in standard deviations."""
        if self.freedom is None:
            return self._normal
        return float(student.ppf(1 - self.tail, self.freedom))

    @property
    def _normal(self) -> float:
        return NormalDist().inv_cdf(1 - self.tail)

    def around(self, estimate: Numbers, variance: Numbers) -> Pair:
        """Return the bounds of normal estimates of either sign."""
        # Rounding may make a variance of 0 slightly negative.
        reach = self.reach * np.sqrt(np.maximum(variance, 0.0))
        return estimate - reach, estimate + reach

    def of_sum(self, estimate: Numbers, variance: Numbers, *, weight: Numbers) -> Pair:
        """Return the bounds of sums over users with non-negative parts.

        If users arrive at random, such a sum is a compound Poisson variable. With equal parts ``w`` it is
        ``w`` times a Poisson count, whose exact bounds are quantiles of a gamma distribution: the lower one
        for the count ``n``, with mean and variance ``n``, the upper one for ``n + 1``. Fay and Feuer (1997)
        generalise this to unequal parts: the lower bound is the quantile of the gamma variable with the mean
        ``y`` and the variance ``v`` of the sum, shape ``y ** 2 / v`` and scale ``v / y``; the upper one that
        of the gamma variable with one more part ``w``, mean ``y + w`` and variance ``v + w ** 2``. Their
        ``w`` is the largest part. Here it is the self-weighted mean of the parts, ``v / y``, of this sum or
        of all sums together, whichever is larger, because a sum of few small parts, or of none, could have
        had a usual part. The bounds are exact if all parts are equal, and normal in the limit of many parts.

        The sum of squared parts is at most the square of their sum, so the excess of a variance over
        ``y ** 2`` is treated as normal noise. A variance from few samples is scaled by the squared ratio of
        the quantiles of Student's t distribution and of the normal distribution.

        Parameters
        ----------
        estimate, variance : float array
            Sums and their variances, 0 or more.
        weight : float array
            Self-weighted mean of the parts of all sums.

        References
        ----------
        Fay and Feuer (1997), Confidence intervals for directly standardized rates: a method based on the
        gamma distribution, Statistics in Medicine 16(7), 791-801.
        """
        widened = self._widened(variance)
        # A single user has exactly this variance, up to rounding.
        has_noise = widened > estimate**2 * (1 + 1e-9)
        skewed = np.minimum(widened, estimate**2)
        part = np.divide(skewed, estimate, out=np.zeros_like(widened), where=estimate > 0)
        more = np.maximum(part, self._widened(weight))
        symmetric_low, symmetric_high = self.around(estimate, variance)
        low = _gamma(self.tail, estimate, skewed)
        low = np.where(has_noise, np.clip(symmetric_low, 0.0, low), low)
        high = np.maximum(_gamma(1 - self.tail, estimate + more, skewed + more**2), symmetric_high)
        # Negligible variance: both bounds are the estimate, beyond the precision of the quantiles.
        is_certain = (estimate > 0) & (estimate**2 >= _VERY_MANY * widened)
        low, high = (np.where(is_certain, estimate, bound) for bound in (low, high))
        is_known = ~np.isnan(estimate + variance)
        return np.where(is_known, low, np.nan), np.where(is_known, high, np.nan)

    def of_share(self, share: Numbers, variance: Numbers, *, users: float) -> Pair:
        """Return the bounds of shares of a sum over users.

        They are the exact bounds of a share of independent users (Clopper and Pearson 1934) for the effective
        number of users ``share * (1 - share) / variance``, as Korn and Graubard (1998) propose for surveys.
        The upper bound is the quantile of the beta variable with one more user, whose whole credit goes to
        the share; this user has the mean weight of those of the share, or of all shares together, whichever
        is larger. The lower bound is 1 minus the upper bound of the remaining share. If the variance comes
        from few samples, the number of users is divided by the squared ratio of the quantiles of Student's t
        distribution and of the normal distribution, as theirs is.

        Parameters
        ----------
        share, variance : float array
            Shares, 0 to 1, and their variances.
        users : float
            Number of parts of the usual size in all conversions.

        References
        ----------
        Korn and Graubard (1998), Confidence intervals for proportions with small expected number of positive
        counts estimated from survey data, Survey Methodology 24(2), 193-201.
        """
        spread = share * (1 - share)
        is_certain = (share > 0) & (spread >= _VERY_MANY * self._widened(variance))
        widened = np.maximum(self._widened(variance), spread / _VERY_MANY)
        usual = max(users / float(self._widened(np.ones(()))), 1.0)
        count = np.divide(spread, widened, out=np.full_like(share, usual), where=(widened > 0) & (spread > 0))
        # A share requires at least one user.
        count = np.maximum(count, 1.0)
        low, high = 1 - _highest(1 - share, count, usual, self.tail), _highest(share, count, usual, self.tail)
        return np.where(is_certain, share, low), np.where(is_certain, share, high)

    def _widened(self, variance: Numbers) -> Numbers:
        return np.asarray(np.maximum(variance, 0.0) * (self.reach / self._normal) ** 2)


def _highest(share: Numbers, count: Numbers, usual: float, tail: float) -> Numbers:
    """Return the upper bounds of shares of ``count`` users and one more of at least the usual weight."""
    least = 1 / (count + 1)
    more = np.maximum(least, 1 / (usual + 1))
    mean = np.clip(share + more * (1 - share), 0.0, 1.0)
    variance = mean * (1 - mean) / (count + 2) + (more**2 - least**2) * (1 - share) ** 2
    is_spread = variance > 0
    total = np.divide(mean * (1 - mean), variance, out=np.full_like(mean, 2.0), where=is_spread) - 1
    has, lacks = (np.maximum(part * total, _LEAST) for part in (mean, 1 - mean))
    return np.asarray(np.where(is_spread, betaincinv(has, lacks, 1 - tail), 1.0))


def _gamma(probability: float, mean: Numbers, variance: Numbers) -> Numbers:
    """Return the quantile of a gamma variable, or the mean if it does not vary."""
    is_spread = (mean > 0) & (variance * _VERY_MANY > mean**2)
    scale = np.divide(variance, mean, out=np.ones_like(mean), where=is_spread)
    return np.asarray(
        np.where(is_spread, scale * gammaincinv(np.where(is_spread, mean, 1.0) / scale, probability), mean)
    )
