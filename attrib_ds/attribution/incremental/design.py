"""Design matrix of a regression on person-periods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.attribution.incremental.categories import standardised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories
    from attrib_ds.attribution.incremental.periods import Periods

    Numbers = NDArray[np.float64]

#: Rows of the matrix held in memory at once.
_TOGETHER: Final = 1 << 16
#: Maximum number of columns of the calendar.
_MOST_STRETCHES: Final = 100


@dataclass(frozen=True, eq=False)
class Design:
    """Design matrix: covariates and time, then calendar, then nodes by half-life, then pairs of nodes.

    Attributes
    ----------
    plain : float array, shape (n_rows, n_plain)
        Intercept, covariates, period and its square; all but the intercept standardised.
    calendar : int array, shape (n_rows,)
        Period of each row, or stretch of periods: a promotion or a holiday raises conversions for everybody
        at once, and may raise exposure too.
    stretches : int
        Number of different values of ``calendar``, each of which has a column.
    effects : float32 array, shape (n_rows, n_nodes, n_half_lives)
        Saturated adstock, ``log(1 + adstock)``.
    scale : float array, shape (n_nodes * n_half_lives + n_pairs,)
        Standard deviation of each effect's column; the penalty applies to standardised coefficients.
    pairs : int array, shape (n_pairs, 2)
        Nodes with an interaction term.
    """

    plain: Numbers
    calendar: NDArray[np.int64]
    stretches: int
    effects: NDArray[np.float32]
    scale: Numbers
    pairs: NDArray[np.int64]

    @classmethod
    def of(cls, periods: Periods, histories: Histories, *, has_interactions: bool) -> Design:
        """Return the design matrix of periods, with columns for pairs of nodes if ``has_interactions``."""
        effects = np.log1p(periods.adstock)
        nodes = effects.shape[1]
        pairs = np.array(list(combinations(range(nodes), 2)) if has_interactions else [], np.int64)
        time = periods.number.astype(np.float64)
        columns = [histories.covariates[periods.user], time[:, None], time[:, None] ** 2]
        plain = np.concatenate([np.ones((len(time), 1)), *map(standardised, columns)], axis=1)
        since = periods.number - periods.number.min(initial=0)
        count = int(since.max(initial=0)) + 1
        stretches = min(count, _MOST_STRETCHES)
        calendar = since * stretches // count
        design = cls(plain, calendar, stretches, effects, np.ones(0), pairs.reshape(-1, 2))
        return replace(design, scale=design.spread(periods.weight))

    def at(self, which: NDArray[np.int64]) -> Design:
        """Return the design of some rows."""
        return replace(
            self,
            plain=self.plain[which],
            calendar=self.calendar[which],
            effects=self.effects[which],
        )

    def of_nodes(self, nodes: NDArray[np.int64], weight: Numbers) -> Design:
        """Return the design with the columns of some nodes only."""
        alone = replace(self, effects=self.effects[:, nodes], pairs=np.zeros((0, 2), np.int64))
        return replace(alone, scale=alone.spread(weight))

    def rows(self, which: NDArray[np.int64]) -> Numbers:
        """Return rows of the matrix, effects divided by their standard deviations."""
        part = self.at(which)
        is_then = part.calendar[:, None] == np.arange(self.stretches)
        return np.concatenate([part.plain, is_then, part.columns() / self.scale], axis=1)

    def columns(self) -> Numbers:
        """Return the columns of nodes and pairs side by side."""
        return np.concatenate([_flat(self.effects), self.products()], axis=1)

    def spread(self, weight: Numbers) -> Numbers:
        """Return the weighted standard deviation of each effect; 1 for a constant column."""
        width = self.effects.shape[1] * self.effects.shape[2] + len(self.pairs)
        sums = np.zeros((2, width))
        for start in range(0, len(weight), _TOGETHER):
            which = np.arange(start, min(start + _TOGETHER, len(weight)))
            columns = self.at(which).columns()
            sums += weight[which] @ columns, weight[which] @ columns**2
        mean, square = sums / weight.sum()
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
        return np.asarray(np.where(spread > 1e-9 * np.sqrt(square), spread, 1.0))

    def parts(self, coefficients: Numbers) -> Numbers:
        """Return what each node contributes to the log-odds of each row, pairs included."""
        _, nodes, lives = self.effects.shape
        effects = coefficients[self.plain.shape[1] + self.stretches :] / self.scale
        single = effects[: nodes * lives].reshape(nodes, lives)
        parts = np.einsum("rnl,nl->rn", self.effects, single)
        if len(self.pairs):
            interaction = self.products() * effects[nodes * lives :]
            for position, pair in enumerate(self.pairs):
                parts[:, pair] += interaction[:, position, None]
        return np.asarray(parts)

    def log_odds(self, coefficients: Numbers) -> Numbers:
        """Return the log-odds of each row."""
        begin = self.plain.shape[1]
        plain, calendar, effects = np.split(coefficients, [begin, begin + self.stretches])
        return np.asarray(
            self.plain @ plain + calendar[self.calendar] + self.columns() @ (effects / self.scale)
        )

    def columns_of(self, node: int, *, has_pairs: bool = True) -> NDArray[np.int64]:
        """Return the positions of the columns of a node, by default with its pairs."""
        _, nodes, lives = self.effects.shape
        begin = self.plain.shape[1] + self.stretches
        of_pairs = np.flatnonzero((self.pairs == node).any(axis=1))
        own = np.arange(node * lives, (node + 1) * lives)
        if not has_pairs:
            return np.asarray(own + begin, np.int64)
        return np.asarray(np.concatenate([own, nodes * lives + of_pairs]) + begin, np.int64)

    def products(self) -> Numbers:
        """Return the interaction of each pair: the product of the means over half-lives."""
        level = self.effects.mean(axis=2, dtype=np.float64)
        return np.asarray(level[:, self.pairs[:, 0]] * level[:, self.pairs[:, 1]])

    def penalty(self, strength: float) -> Numbers:
        """Return the ridge penalty of each coefficient: only the calendar and effects are penalised."""
        return np.concatenate(
            [
                np.zeros(self.plain.shape[1]),
                np.full(self.stretches + len(self.scale), strength),
            ]
        )


def _flat(effects: NDArray[np.float32]) -> Numbers:
    return effects.reshape(len(effects), -1).astype(np.float64)
