"""The matrix of a regression on the histories of users."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories

    Numbers = NDArray[np.float64]

#: Rows whose spread is measured at one time.
_TOGETHER: Final = 1 << 16


class Looked(Protocol):
    """Moments in the lives of users, as :class:`Periods` has them."""

    @property
    def adstock(self) -> NDArray[np.float32]:
        """What is left of each node's touchpoints."""

    @property
    def user(self) -> NDArray[np.int64]:
        """Whose."""

    @property
    def number(self) -> NDArray[np.int64]:
        """Which period since the first."""

    @property
    def weight(self) -> Numbers:
        """How many periods the row stands for."""


@dataclass(frozen=True, eq=False)
class Design:
    """The matrix of a regression: constants of user and time, then nodes by half-life, then pairs of nodes.

    Attributes
    ----------
    plain : float array, shape (n_rows, n_plain)
        The constant, the covariates and the time, standardised.
    effects : float32 array, shape (n_rows, n_nodes, n_half_lives)
        Saturated adstock.
    scale : float array, shape (n_nodes * n_half_lives + n_pairs,)
        Standard deviation of each effect, which the penalty is measured in.
    pairs : int array, shape (n_pairs, 2)
        Nodes that may strengthen each other.
    """

    plain: Numbers
    effects: NDArray[np.float32]
    scale: Numbers
    pairs: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Looked, histories: Histories, *, has_interactions: bool) -> Design:
        """Make the columns of some rows.

        Parameters
        ----------
        rows : Looked
            Moments.
        histories : Histories
            Of their users.
        has_interactions : bool
            Whether there are columns of pairs.
        """
        effects = np.log1p(rows.adstock)
        nodes = effects.shape[1]
        pairs = np.array(list(combinations(range(nodes), 2)) if has_interactions else [], np.int64)
        time = rows.number.astype(np.float64)
        columns = [histories.covariates[rows.user], time[:, None], time[:, None] ** 2]
        plain = np.concatenate([np.ones((len(time), 1)), *map(_standardised, columns)], axis=1)
        design = cls(plain, effects, np.ones(0), pairs.reshape(-1, 2))
        return cls(plain, effects, design.spread(rows.weight), design.pairs)

    def at(self, which: NDArray[np.int64]) -> Design:
        """Return some rows of it."""
        return Design(self.plain[which], self.effects[which], self.scale, self.pairs)

    def rows(self, which: NDArray[np.int64]) -> Numbers:
        """Return rows of the matrix, effects in their standard deviations."""
        part = self.at(which)
        return np.concatenate([part.plain, part.columns() / self.scale], axis=1)

    def columns(self) -> Numbers:
        """Return the effects of nodes and pairs side by side."""
        return np.concatenate([_flat(self.effects), self.products()], axis=1)

    def spread(self, weight: Numbers) -> Numbers:
        """Return the standard deviation of each effect; 1 where it does not vary."""
        width = self.effects.shape[1] * self.effects.shape[2] + len(self.pairs)
        sums = np.zeros((2, width))
        for start in range(0, len(weight), _TOGETHER):
            which = np.arange(start, min(start + _TOGETHER, len(weight)))
            columns = self.at(which).columns()
            sums += weight[which] @ columns, weight[which] @ columns**2
        mean, square = sums / weight.sum()
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
        return np.asarray(np.where(spread > 1e-9 * np.sqrt(square), spread, 1.0))

    def products(self) -> Numbers:
        """Return what is at work of two nodes at once, each the mean over its half-lives."""
        level = self.effects.mean(axis=2, dtype=np.float64)
        return np.asarray(level[:, self.pairs[:, 0]] * level[:, self.pairs[:, 1]])

    def penalty(self, strength: float) -> Numbers:
        """Return the penalty of each coefficient; only effects are drawn towards zero."""
        return np.concatenate([np.zeros(self.plain.shape[1]), np.full(len(self.scale), strength)])


def _flat(effects: NDArray[np.float32]) -> Numbers:
    return effects.reshape(len(effects), -1).astype(np.float64)


def _standardised(columns: Numbers) -> Numbers:
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
