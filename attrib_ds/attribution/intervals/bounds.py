"""Bounds around an estimate whose variance is known, by the shape that its sampling error has."""

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

#: From so many effective users on, the distributions below are normal to more digits than anyone needs.
_VERY_MANY: Final = 1e12
#: Less than any part of a user.
_LEAST: Final = 1e-9


@dataclass(frozen=True)
class Bounds:
    """How far bounds reach.

    Attributes
    ----------
    confidence : float
        Level of the intervals, between 0 and 1.
    freedom : int, optional
        Degrees of freedom of the variances: those of Student's distribution where they come from few samples.
        Without them variances are taken as known.
    """

    confidence: float
    freedom: int | None = None

    @property
    def tail(self) -> float:
        """Return the probability of being below an interval."""
        return 0.5 - self.confidence / 2

    @property
    def reach(self) -> float:
        """Return how many standard deviations the bounds of a normal variable are away."""
        if self.freedom is None:
            return self._normal
        return float(student.ppf(1 - self.tail, self.freedom))

    @property
    def _normal(self) -> float:
        return NormalDist().inv_cdf(1 - self.tail)

    def around(self, estimate: Numbers, variance: Numbers) -> Pair:
        """Return the bounds of what varies like a normal variable, and may be of either sign."""
        # Rounding may leave a variance of nothing a hair below it.
        reach = self.reach * np.sqrt(np.maximum(variance, 0.0))
        return estimate - reach, estimate + reach

    def of_sum(self, estimate: Numbers, variance: Numbers, *, weight: Numbers) -> Pair:
        """Return the bounds of sums over users, of whom each gives a part of zero or more.

        If users come at random, such a sum is a compound Poisson variable. One with equal parts ``w`` is
        ``w`` times a Poisson number, whose exact bounds are quantiles of a gamma distribution: the lower one
        for the count ``n``, with mean and variance ``n``, the upper one for ``n + 1``. Fay and Feuer (1997)
        go on from there to unequal parts: the lower bound is the quantile of the gamma variable with the mean
        ``y`` and the variance ``v`` of the sum, shape ``y ** 2 / v`` and scale ``v / y``; the upper one that
        of the gamma variable with one more part ``w``, mean ``y + w`` and variance ``v + w ** 2``. They take
        the largest part that there is for ``w``. Here it is the middling part ``v / y``, the mean of the
        parts weighted by themselves, of this sum or of all sums together, whichever is larger: a sum of few
        small parts, or of none, may have been one with a usual part. Where all parts are equal the bounds are
        exact; where there are many, those of a normal variable.

        The sum of squares of parts is no greater than the square of their sum, so that a variance above
        ``y ** 2`` is none of such a sum: what is beyond it is taken for normal noise. A variance from few
        samples is widened by the square of what Student's distribution reaches farther than the normal one.

        Parameters
        ----------
        estimate, variance : float array
            Of the sums; zero or more.
        weight : float array
            The middling part in all sums.

        References
        ----------
        Fay and Feuer (1997), Confidence intervals for directly standardized rates: a method based on the
        gamma distribution, Statistics in Medicine 16(7), 791-801.
        """
        widened = self._widened(variance)
        # One user alone has just this variance, give or take its last digit.
        has_noise = widened > estimate**2 * (1 + 1e-9)
        skewed = np.minimum(widened, estimate**2)
        part = np.divide(skewed, estimate, out=np.zeros_like(widened), where=estimate > 0)
        more = np.maximum(part, self._widened(weight))
        symmetric_low, symmetric_high = self.around(estimate, variance)
        low = _gamma(self.tail, estimate, skewed)
        low = np.where(has_noise, np.clip(symmetric_low, 0.0, low), low)
        high = np.maximum(_gamma(1 - self.tail, estimate + more, skewed + more**2), symmetric_high)
        # Next to no variance: both are the estimate, in more digits than the quantiles have.
        is_certain = (estimate > 0) & (estimate**2 >= _VERY_MANY * widened)
        low, high = (np.where(is_certain, estimate, bound) for bound in (low, high))
        is_known = ~np.isnan(estimate + variance)
        return np.where(is_known, low, np.nan), np.where(is_known, high, np.nan)

    def of_share(self, share: Numbers, variance: Numbers, *, users: float) -> Pair:
        """Return the bounds of shares of a sum over users.

        They are the exact ones of a share of independent users (Clopper and Pearson 1934), for as many users
        as would give the share this variance, ``share * (1 - share) / variance``: Korn and Graubard (1998) do
        so for the shares that surveys find. The upper bound is the quantile of the beta variable with one
        more user, all of whose credit goes there; that user counts as much as those of this share, or as
        those of all shares together, whichever is more. The lower bound is what the upper one of the rest
        leaves.
        Where the variance comes from few samples the number of users is lowered by the square of what
        Student's distribution reaches farther than the normal one, as theirs.

        Parameters
        ----------
        share, variance : float array
            Of the shares, 0 to 1.
        users : float
            How many parts of the usual size all conversions are.

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
        # Fewer than one user has no share of anything.
        count = np.maximum(count, 1.0)
        low, high = 1 - _highest(1 - share, count, usual, self.tail), _highest(share, count, usual, self.tail)
        return np.where(is_certain, share, low), np.where(is_certain, share, high)

    def _widened(self, variance: Numbers) -> Numbers:
        return np.asarray(np.maximum(variance, 0.0) * (self.reach / self._normal) ** 2)


def _highest(share: Numbers, count: Numbers, usual: float, tail: float) -> Numbers:
    """Return the upper bounds of shares among so many users, with one more of at least the usual weight."""
    least = 1 / (count + 1)
    more = np.maximum(least, 1 / (usual + 1))
    mean = np.clip(share + more * (1 - share), 0.0, 1.0)
    variance = mean * (1 - mean) / (count + 2) + (more**2 - least**2) * (1 - share) ** 2
    is_spread = variance > 0
    total = np.divide(mean * (1 - mean), variance, out=np.full_like(mean, 2.0), where=is_spread) - 1
    has, lacks = (np.maximum(part * total, _LEAST) for part in (mean, 1 - mean))
    return np.asarray(np.where(is_spread, betaincinv(has, lacks, 1 - tail), 1.0))


def _gamma(probability: float, mean: Numbers, variance: Numbers) -> Numbers:
    """Return the quantile of a gamma variable; where it does not vary, it is the mean."""
    is_spread = (mean > 0) & (variance * _VERY_MANY > mean**2)
    scale = np.divide(variance, mean, out=np.ones_like(mean), where=is_spread)
    return np.asarray(
        np.where(is_spread, scale * gammaincinv(np.where(is_spread, mean, 1.0) / scale, probability), mean)
    )
