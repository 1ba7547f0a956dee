"""Poisson bootstrap of users, reproducible in any order of rows and on any engine.

Each replicate weights every user by a Poisson variable with mean 1, which is a function of the user's hash,
the replicate and the seed.

References
----------
Chamandy, Muralidharan, Najmi and Naidu (2012), Estimating uncertainty for massive data streams.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, factorial
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.stats import poisson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Keys = NDArray[np.uint64]

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
    unit: NDArray[np.int64]
    sizes: Numbers | None = None

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> Units:
        """Encode the units of rows by their hashes."""
        unit, distinct = pd.factorize(keys)
        return cls(distinct.astype(np.uint64), unit.astype(np.int64))

    def sized(self, parts: Numbers) -> Units:
        """Set the number of users of each unit to the sum over its rows."""
        sizes = np.asarray(np.bincount(self.unit, parts, len(self.keys)), dtype=np.float64)
        return replace(self, sizes=sizes)

    def sums(
        self, cell: NDArray[np.int64], amounts: Numbers, *, cells: int, replicates: range, seed: int
    ) -> Numbers:
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
        bounds = np.searchsorted(self.unit[by_unit], np.arange(0, len(self.keys) + _TOGETHER, _TOGETHER))
        for number, (first, last) in enumerate(pairwise(bounds)):
            units = slice(number * _TOGETHER, (number + 1) * _TOGETHER)
            weights = self._weights(units, replicates, seed)
            rows = by_unit[first:last]
            rows = rows[np.argsort(cell[rows], kind="stable")]
            # Only the cells of these units are summed: there may be very many others.
            touched, starts = np.unique(cell[rows], return_index=True)
            for position in range(amounts.shape[1]):
                matrix = csr_array(
                    (
                        amounts[rows, position],
                        self.unit[rows] - units.start,
                        np.append(starts, len(rows)),
                    ),
                    shape=(len(touched), len(weights)),
                )
                summed[position, touched] += matrix @ weights
        return np.asarray(summed.transpose(2, 0, 1))

    def blocks(self, cells: int, replicates: int) -> Iterator[range]:
        """Yield ranges of replicates whose sums over all cells fit into memory."""
        together = max(1, _MOST_SUMS // max(cells, 1))
        for first in range(0, replicates, together):
            yield range(first, min(first + together, replicates))

    def _weights(self, units: slice, replicates: range, seed: int) -> Numbers:
        draws = random_bits(self.keys[units], seed=seed, replicates=replicates)
        if self.sizes is None:
            return poisson_weights(draws).astype(np.float64)
        sizes = self.sizes[units, None]
        # The users of a unit have independent weights; this is their mean.
        drawn = poisson.ppf((draws + 0.5) / 2.0**_BITS, sizes)
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


def _mixed(numbers: Keys) -> Keys:
    """Return the output function of splitmix64 (Steele, Lea and Flood 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
