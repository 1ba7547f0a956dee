"""What became of groups of paths: conversions, value, null paths and conversion rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.codes import number_currencies
from attrib_ds.attribution.sequences import COUNTS
from attrib_ds.attribution.tally import shares

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Counts by group of paths, currency and group of users.

    Attributes
    ----------
    has_touch : bool array, shape (n_groups,)
        False for the group of paths without a touchpoint, which has no part in conversion rates.
    row, currency, fold : int array
        Group of paths, currency and group of users of each row of ``counts``.
    counts : float array, shape (n_rows, 4)
        ``COUNTS``.
    currencies : list
        Of the conversions.
    """

    has_touch: NDArray[np.bool_]
    row: NDArray[np.int64]
    currency: NDArray[np.int64]
    fold: NDArray[np.int64]
    counts: NDArray[np.float64]
    currencies: list[str | None]

    @classmethod
    def of(cls, table: pa.Table, row: NDArray[np.int64], has_touch: NDArray[np.bool_]) -> Outcomes:
        """Take the counts of a table whose rows belong to these groups."""
        counts = np.column_stack([table[name].to_numpy().astype(np.float64) for name in COUNTS])
        currency, currencies = number_currencies(table["currency"], counts[:, 0] > 0)
        fold = table["fold"].to_numpy().astype(np.int64)
        return cls(has_touch, row, currency, fold, counts, currencies)

    def samples(self, folds: int) -> list[NDArray[np.bool_]]:
        """Return which rows are in the whole, and then in the whole without each group of users."""
        whole = np.ones(len(self.fold), dtype=bool)
        return [whole] if folds == 1 else [whole, *(self.fold != fold for fold in range(folds))]

    def summed(self, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return conversions and their value by group and currency; shape (2, n_groups, n_currencies)."""
        kept = kept & (self.counts[:, 0] > 0)
        conversions, _, gains, losses = self.counts[kept].T
        summed = np.zeros((2, len(self.has_touch), len(self.currencies)))
        for outcome, amounts in zip(summed, (conversions, gains - losses), strict=True):
            np.add.at(outcome, (self.row[kept], self.currency[kept]), amounts)
        return summed

    def rates(self, kept: NDArray[np.bool_], shrinkage: float) -> NDArray[np.float64]:
        """Return the conversion rate of each group, and last that of a group nobody is in.

        Parameters
        ----------
        kept : bool array
            The rows to count.
        shrinkage : float
            Users with the overall rate that are added to every group.
        """
        groups = len(self.has_touch)
        row, counts = self.row[kept], self.counts[kept]
        converted = np.where(self.has_touch, np.bincount(row, counts[:, 0], groups), 0.0)
        users = np.where(self.has_touch, np.bincount(row, counts[:, :2].sum(axis=1), groups), 0.0)
        overall = converted.sum() / (users.sum() or 1.0) if shrinkage else 0.0
        return np.append(shares(converted + shrinkage * overall, users + shrinkage), overall)
