"""Outcomes of groups of paths: conversions, value, null paths and conversion rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.intervals.resampling import Units
from attrib_ds.attribution.intervals.tally import shares
from attrib_ds.attribution.paths.codes import number_currencies, number_rows, sum_rows
from attrib_ds.attribution.paths.sequences import COUNTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from attrib_ds.attribution.intervals.uncertainty import Uncertainty
    from attrib_ds.attribution.paths.sequences import Sequences


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Counts by group of paths, currency and group of users.

    Attributes
    ----------
    has_touch : bool array, shape (n_groups,)
        False for the group of paths without a touchpoint, which conversion rates leave out.
    row, currency, fold : int array
        Group of paths, currency and group of users of each row of ``counts``.
    counts : float array, shape (n_rows, 4)
        The columns of ``COUNTS``.
    currencies : list
        Currencies of the conversions.
    """

    has_touch: NDArray[np.bool_]
    row: NDArray[np.int64]
    currency: NDArray[np.int64]
    fold: NDArray[np.int64]
    counts: NDArray[np.float64]
    currencies: list[str | None]

    @classmethod
    def of(cls, table: pa.Table, row: NDArray[np.int64], has_touch: NDArray[np.bool_]) -> Outcomes:
        """Read the counts of a table whose rows belong to the groups ``row``."""
        counts = np.column_stack([table[name].to_numpy().astype(np.float64) for name in COUNTS])
        currency, currencies = number_currencies(table["currency"], counts[:, 0] > 0)
        fold = table["fold"].to_numpy().astype(np.int64)
        return cls(has_touch, row, currency, fold, counts, currencies)

    def samples(self, sequences: Sequences) -> Iterator[Outcomes]:
        """Yield the outcomes of all users, then those without each group of users or of each replicate."""
        if sequences.bootstrap is not None:
            yield from self._replicates(sequences.bootstrap, has_users=sequences.paths.has_users)
            return
        yield self
        for fold in range(sequences.folds if sequences.folds > 1 else 0):
            yield self.where(self.fold != fold)

    def where(self, kept: NDArray[np.bool_]) -> Outcomes:
        """Return some of the rows."""
        rows = ("row", "currency", "fold", "counts")
        return replace(self, **{name: getattr(self, name)[kept] for name in rows})

    def summed(self) -> NDArray[np.float64]:
        """Return conversions and their value by group and currency; shape (2, n_groups, n_currencies)."""
        kept = self.counts[:, 0] > 0
        conversions, _, gains, losses = self.counts[kept].T
        summed = np.zeros((2, len(self.has_touch), len(self.currencies)))
        for outcome, amounts in zip(summed, (conversions, gains - losses), strict=True):
            np.add.at(outcome, (self.row[kept], self.currency[kept]), amounts)
        return summed

    def rates(self, shrinkage: float) -> NDArray[np.float64]:
        """Return the conversion rate of each group, and last that of an unobserved group.

        Parameters
        ----------
        shrinkage : float
            Pseudo-users with the overall rate to add to every group.
        """
        groups = len(self.has_touch)
        converted = np.where(self.has_touch, np.bincount(self.row, self.counts[:, 0], groups), 0.0)
        both = self.counts[:, :2].sum(axis=1)
        users = np.where(self.has_touch, np.bincount(self.row, both, groups), 0.0)
        overall = converted.sum() / (users.sum() or 1.0) if shrinkage else 0.0
        return np.append(shares(converted + shrinkage * overall, users + shrinkage), overall)

    def _replicates(self, bootstrap: Uncertainty, *, has_users: bool) -> Iterator[Outcomes]:
        cells, index = number_rows(np.column_stack([self.row, self.currency]))
        counts = sum_rows(self.counts, index, len(cells))
        row, currency = cells.T
        whole = replace(self, row=row, currency=currency, fold=np.zeros_like(row), counts=counts)
        yield whole
        units = Units.of(self.fold)
        if not has_users:
            units = units.sized(self.counts[:, :2].sum(axis=1))
        for block in units.blocks(counts.size, bootstrap.replicates):
            sums = units.sums(index, self.counts, cells=len(cells), replicates=block, seed=bootstrap.seed)
            for replicate in sums.transpose(0, 2, 1):
                yield replace(whole, counts=replicate)
