"""Confidence intervals of credits: closed forms, jackknife and Poisson bootstrap of users."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import exp, factorial
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import pandas as pd
import scipy  # its parts are imported when they are used, and scipy.stats would take longer than pandas
from numpy.typing import NDArray

from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.models import check_level
from attrib_ds.errors import check_choice, check_whole
from attrib_ds.records.frames import TEXT

Pair = tuple[Numbers, Numbers]
Keys = NDArray[np.uint64]

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
    is_gain: Flags
    currency: Codes


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
        check_choice("intervals", intervals, INTERVALS)
        replicates = check_whole("replicates", replicates, minimum=2)
        seed = check_whole("seed", seed, minimum=0)
        if confidence is None:
            return None
        confidence = check_level("confidence", confidence)
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
        pairs["value"] = _either(limits.is_gain, of_gains, pairs["value"])
    elif not limits.is_signed:
        pairs = _truncated(form, estimates, pairs, limits)
    return {
        column: bound
        for name, columns in BOUNDS.items()
        for column, bound in zip(columns, pairs[name], strict=True)
    }


def _either(condition: Flags, bounds: Pair, others: Pair) -> Pair:
    return np.where(condition, bounds[0], others[0]), np.where(condition, bounds[1], others[1])


def _truncated(
    form: Bounds, estimates: dict[str, Numbers], pairs: dict[str, Pair], limits: Limits
) -> dict[str, Pair]:
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
    bounds["value"] = _either(limits.is_gain, bounds["value"], pairs["value"])
    bounds["share"] = (bounds["share"][0], np.minimum(bounds["share"][1], 1.0))
    return bounds


def _mean_part(estimate: Numbers, variance: Numbers, group: Codes) -> Numbers:
    """Return the self-weighted mean part of a user in the sums of each group of rows."""
    is_known = ~np.isnan(estimate + variance)
    sums, squares = np.zeros((2, group.max(initial=0) + 1))
    np.add.at(sums, group[is_known], estimate[is_known])
    np.add.at(squares, group[is_known], variance[is_known])
    return np.asarray(np.divide(squares, sums, out=np.zeros_like(sums), where=sums > 0)[group])


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
        return float(scipy.special.stdtrit(self.freedom, 1 - self.tail))

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
    return np.asarray(np.where(is_spread, scipy.special.betaincinv(has, lacks, 1 - tail), 1.0))


def _gamma(probability: float, mean: Numbers, variance: Numbers) -> Numbers:
    """Return the quantile of a gamma variable, or the mean if it does not vary."""
    is_spread = (mean > 0) & (variance * _VERY_MANY > mean**2)
    scale = np.divide(variance, mean, out=np.ones_like(mean), where=is_spread)
    return np.asarray(
        np.where(
            is_spread,
            scale * scipy.special.gammaincinv(np.where(is_spread, mean, 1.0) / scale, probability),
            mean,
        )
    )


#: Number of groups of users in the jackknife.
GROUPS = 20


@dataclass(frozen=True, eq=False)
class Tally:
    """Credited conversions and value by node and currency.

    Attributes
    ----------
    currencies : list
        Currencies of the columns; None for conversions without one.
    conversions, value : float array, shape (n_nodes + 1, n_currencies)
        The last row is unattributed. Value is NaN if conversions have none.
    is_shown : bool array of the same shape
        Whether the node has a row.
    without : list of float array
        ``conversions`` without each group of users; empty without a jackknife.
    value_without : list of float array
        ``value`` without each group of users; empty if its interval is unknown.
    replicates : float array, shape (n_replicates, 2, n_nodes + 1, n_currencies), optional
        Conversions and value in each replicate of a bootstrap.
    is_gain : bool array, shape (n_currencies,), optional
        Whether no conversion in a currency has a negative value; False by default.
    """

    currencies: list[str | None]
    conversions: Numbers
    value: Numbers
    is_shown: Flags
    without: list[Numbers] = field(default_factory=list)
    value_without: list[Numbers] = field(default_factory=list)
    replicates: Numbers | None = None
    is_gain: Flags | None = None

    @classmethod
    def of(
        cls,
        currencies: list[str | None],
        credited: list[Numbers],
        nothing: list[Numbers],
        *,
        is_shown: Flags,
        is_bootstrap: bool = False,
        is_gain: Flags | None = None,
    ) -> Tally:
        """Make a tally from the credits of nodes and the unattributed conversions.

        Parameters
        ----------
        currencies : list
            Currencies of the columns.
        credited : list of float array, shape (2, n_nodes, n_currencies)
            Conversions and value of each node: first of all users, then without each group of users or in
            each replicate.
        nothing : list of float array, shape (2, n_currencies)
            The same for paths without a touchpoint.
        is_shown : bool array, shape (n_nodes, n_currencies)
            Whether the node has a row.
        is_bootstrap : bool, default False
            Whether replicates, not groups of users, follow the first item.
        is_gain : bool array, shape (n_currencies,), optional
            Whether no conversion in a currency has a negative value.
        """
        pairs = zip(credited, nothing, strict=True)
        whole, *samples = (np.concatenate([nodes, rest[:, None]], axis=1) for nodes, rest in pairs)
        is_shown = np.vstack([is_shown, nothing[0][0] > 0])
        if is_bootstrap:
            return cls(
                currencies, whole[0], whole[1], is_shown, replicates=np.stack(samples), is_gain=is_gain
            )
        conversions, value = ([sample[which] for sample in samples] for which in (0, 1))
        return cls(currencies, whole[0], whole[1], is_shown, conversions, value, is_gain=is_gain)

    def to_frame(
        self,
        node_ids: list[str],
        *,
        uncertainty: Uncertainty | None,
        is_sum: bool = False,
        is_signed: bool = True,
    ) -> pd.DataFrame:
        """Return one row per node and currency, with bounds if intervals are requested.

        Parameters
        ----------
        node_ids : list of str
            Ids of the nodes.
        uncertainty : Uncertainty, optional
            Level and method of intervals; none by default.
        is_sum, is_signed : bool
            As in :class:`~attrib_ds.attribution.intervals.Limits`.
        """
        node, currency = np.nonzero(self.is_shown)
        columns: dict[str, Any] = {
            "node_id": pd.array([*node_ids, None], dtype=TEXT).take(node),
            "currency": pd.array(self.currencies, dtype=TEXT).take(currency),
            "conversions": self.conversions[node, currency],
            "value": self.value[node, currency],
        }
        if uncertainty is not None:
            is_gain = np.zeros(len(self.currencies), bool) if self.is_gain is None else self.is_gain
            limits = Limits(is_sum=is_sum, is_signed=is_signed, is_gain=is_gain[currency], currency=currency)
            columns |= self._bounds(node, currency, uncertainty, limits)
        return pd.DataFrame(columns)

    def _bounds(
        self, node: Codes, currency: Codes, uncertainty: Uncertainty, limits: Limits
    ) -> dict[str, Numbers]:
        estimates = measures_of(self.conversions[node, currency], self.value[node, currency])
        if self.replicates is not None:
            return uncertainty.between(estimates, self.replicates[:, :, node, currency], limits=limits)
        if not self.without:
            return {name: np.full(len(node), np.nan) for names in BOUNDS.values() for name in names}
        left_out = [np.stack(each)[:, node, currency] for each in (self.without, self.value_without)]
        return uncertainty.without(estimates, np.stack(left_out, axis=1), limits=limits)


def shares(parts: Numbers, whole: Numbers) -> Numbers:
    """Divide parts by a whole; shares of 0 are 0."""
    return np.divide(parts, whole, out=np.zeros_like(parts), where=np.broadcast_to(whole != 0, parts.shape))


_BITS: Final = 53
#: Cumulative probabilities of the Poisson distribution with mean 1, in units of 2 ** -53.
_THRESHOLDS: Final = np.ceil(
    np.cumsum([exp(-1) / factorial(count) for count in range(18)])[:17] * 2.0**_BITS
).astype(np.uint64)
#: Number of thresholds to compare with all draws; draws beyond are rare.
_OFTEN: Final = 5
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
#: Number of units whose weights are computed at a time, so that they fit the cache.
_TOGETHER: Final = 1024
#: Maximum number of sums in memory.
_MOST_SUMS: Final = 1 << 24


@dataclass(frozen=True, eq=False)
class Units:
    """Rows to resample, grouped into units such as users.

    Attributes
    ----------
    keys : uint array, shape (n_units,)
        Hash of each unit.
    unit : int array, shape (n_rows,)
        Unit of each row.
    sizes : float array, shape (n_units,), optional
        Number of equal users that a unit stands for; 1 by default.
    """

    keys: Keys
    unit: Codes
    sizes: Numbers | None = None

    @classmethod
    def of(cls, keys: Codes) -> Units:
        """Encode the units of rows by their hashes."""
        unit, distinct = pd.factorize(keys)
        return cls(distinct.astype(np.uint64), unit.astype(np.int64))

    def sized(self, parts: Numbers) -> Units:
        """Set the number of users of each unit to the sum over its rows."""
        sizes = np.asarray(np.bincount(self.unit, parts, len(self.keys)), dtype=np.float64)
        return replace(self, sizes=sizes)

    def sums(self, cell: Codes, amounts: Numbers, *, cells: int, replicates: range, seed: int) -> Numbers:
        """Sum amounts by cell in each of some replicates.

        Parameters
        ----------
        cell : int array, shape (n_rows,)
            Cell of each row.
        amounts : float array, shape (n_rows, n_amounts)
            Amounts to sum.
        cells : int
            Number of cells.
        replicates : range
            Numbers of the replicates.
        seed : int
            Seed of the weights.

        Returns
        -------
        float array, shape (n_replicates, n_amounts, n_cells)
        """
        summed = np.zeros((amounts.shape[1], cells, len(replicates)))
        by_unit = np.argsort(self.unit, kind="stable")
        bounds = np.searchsorted(
            self.unit[by_unit], np.arange(0, len(self.keys) + _TOGETHER, _TOGETHER, dtype=np.int64)
        )
        for number, (first, last) in enumerate(pairwise(bounds)):
            units = slice(number * _TOGETHER, (number + 1) * _TOGETHER)
            weights = self._weights(units, replicates, seed)
            rows = by_unit[first:last]
            rows = rows[np.argsort(cell[rows], kind="stable")]
            # Only the cells of these units are summed: there may be very many others.
            touched, starts = np.unique(cell[rows], return_index=True)
            for position in range(amounts.shape[1]):
                matrix = scipy.sparse.csr_array(
                    (amounts[rows, position], self.unit[rows] - units.start, np.append(starts, len(rows))),
                    shape=(len(touched), len(weights)),
                )
                summed[position, touched] += matrix @ weights
        return np.asarray(summed.transpose(2, 0, 1))

    def replicates(
        self, cell: Codes, amounts: Numbers, *, cells: int, bootstrap: Uncertainty
    ) -> Iterator[Numbers]:
        """Yield the sums of each replicate by cell, computed together where they fit into memory."""
        together = max(1, _MOST_SUMS // max(cells * amounts.shape[1], 1))
        for first in range(0, bootstrap.replicates, together):
            block = range(first, min(first + together, bootstrap.replicates))
            sums = self.sums(cell, amounts, cells=cells, replicates=block, seed=bootstrap.seed)
            yield from sums.transpose(0, 2, 1)

    def _weights(self, units: slice, replicates: range, seed: int) -> Numbers:
        draws = random_bits(self.keys[units], seed=seed, replicates=replicates)
        if self.sizes is None:
            return poisson_weights(draws).astype(np.float64)
        sizes = self.sizes[units, None]
        # The users of a unit have independent weights; this is their mean.
        drawn = _poisson_quantile((draws + 0.5) / 2.0**_BITS, sizes)
        return np.asarray(np.where(sizes > 0, drawn / np.where(sizes > 0, sizes, 1.0), 0.0))


def random_bits(keys: Keys, *, seed: int, replicates: range) -> Keys:
    """Return 53 random bits for each key and replicate; shape (n_keys, n_replicates).

    Replicates are steps of the generator splitmix64, seeded with the key and the seed.
    """
    start = _mixed(keys ^ _mixed(np.full(1, seed % (1 << 64), np.uint64) + _STEP))
    steps = np.arange(replicates.start + 1, replicates.stop + 1, dtype=np.uint64) * _STEP
    return _mixed(start[:, None] + steps) >> np.uint64(64 - _BITS)


def poisson_weights(draws: Keys) -> NDArray[np.uint8]:
    """Return the quantile of the Poisson distribution with mean 1 for each draw of 53 random bits."""
    weights = np.zeros(draws.shape, np.uint8)
    for threshold in _THRESHOLDS[:_OFTEN]:
        weights += draws >= threshold
    rare = draws >= _THRESHOLDS[_OFTEN]
    weights[rare] = np.searchsorted(_THRESHOLDS, draws[rare], side="right")
    return weights


def _poisson_quantile(probability: NDArray[np.floating], mean: Numbers) -> Numbers:
    """Return quantiles of Poisson distributions."""
    count = np.ceil(scipy.special.pdtrik(probability, mean))
    fewer = np.maximum(count - 1, 0.0)
    return np.asarray(np.where(scipy.special.pdtr(fewer, mean) >= probability, fewer, count))


def _mixed(numbers: Keys) -> Keys:
    """Return the output function of splitmix64 (Steele, Lea and Flood 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
