"""Chances of what comes next by what came before, where rare histories lean on shorter ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.paths.codes import number_rows
from attrib_ds.attribution.paths.sequences import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from attrib_ds.attribution.path_models.transitions import Transitions

    Numbers = NDArray[np.float64]
    Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ends:
    """The last steps of paths.

    Attributes
    ----------
    before : int array, shape (n_states, order)
        As in :class:`NextSteps`.
    counts : float array, shape (2, n_states, n_folds)
        Paths that ended there with a conversion, and without one.
    """

    before: Codes
    counts: Numbers


@dataclass(frozen=True, eq=False)
class NextSteps:
    """Histories and what came next: a node, a conversion or the end without one.

    Attributes
    ----------
    before : int array, shape (n_rows, order)
        Codes of the steps before, the oldest first; ``NOTHING`` before the start of the path.
    outcome : int array, shape (n_rows,)
        Code of the node, or one of the two codes above those of all nodes for the ends.
    outcomes : int
        How many outcomes there are.
    counts : float array, shape (n_rows, n_folds)
        How often, by group of users.
    """

    before: Codes
    outcome: Codes
    outcomes: int
    counts: Numbers

    @classmethod
    def of(cls, counted: Transitions, *, folds: int) -> NextSteps:
        """Take the steps and the ends of paths that have a touchpoint."""
        counted = counted.where(counted.code != NOTHING)
        nodes = int(counted.code.max(initial=-1)) + 1
        last = counted.where(counted.is_last)
        after = np.column_stack([last.before[:, 1:], last.code])
        steps = [
            (counted.before, counted.code, counted.fold, counted.counts[:, :2].sum(axis=1)),
            (after, np.full(len(after), nodes), last.fold, last.counts[:, 0]),
            (after, np.full(len(after), nodes + 1), last.fold, last.counts[:, 1]),
        ]
        before, outcome, fold, weight = (np.concatenate(parts) for parts in zip(*steps, strict=True))
        rows, row = number_rows(np.column_stack([before, outcome]))
        counts = np.bincount(row * folds + fold, weight, len(rows) * folds).reshape(len(rows), folds)
        kept = counts.sum(axis=1) > 0
        return cls(rows[kept, :-1], rows[kept, -1], nodes + 2, counts[kept])

    @property
    def paths(self) -> Numbers:
        """Number of paths by group of users."""
        return np.asarray(self.counts[self._is_first].sum(axis=0))

    @property
    def is_end(self) -> NDArray[np.bool_]:
        """Whether the path ends."""
        return self.outcome >= self.outcomes - 2

    def ends(self) -> Ends:
        """Return the last steps of paths, and how often each converted."""
        ended = self.is_end
        states, state = number_rows(self.before[ended])
        counts = np.zeros((2, len(states), self.counts.shape[1]))
        np.add.at(counts, (self.outcome[ended] - (self.outcomes - 2), state), self.counts[ended])
        return Ends(states, counts)

    def histories(self, order: int) -> tuple[Codes, Codes]:
        """Return the number of each row's history of some steps, and that of the history with its outcome."""
        known = self.before[:, self.before.shape[1] - order :]
        _, history = number_rows(np.column_stack([known, np.zeros(len(known), np.int64)]))
        _, both = number_rows(np.column_stack([known, self.outcome]))
        return history, both

    def chances(self, counts: Numbers, *, order: int, smoothing: float) -> Iterator[Numbers]:
        """Return the chance of each row's outcome after its history, for histories of up to ``order`` steps.

        Parameters
        ----------
        counts : float array, shape (n_rows,)
            What the chances come from.
        order : int
            Longest history.
        smoothing : float
            How many times a history counts as seen with the chances of the history that is one step
            shorter; the history of no step, with equal chances of all outcomes.
        """
        chance = np.full(len(counts), 1.0 / self.outcomes)
        for steps in range(order + 1):
            history, both = self.histories(steps)
            seen = np.bincount(both, counts)[both] + smoothing * chance
            chance = np.asarray(seen / (np.bincount(history, counts)[history] + smoothing), dtype=np.float64)
            yield chance

    @property
    def _is_first(self) -> NDArray[np.bool_]:
        return np.asarray((self.before == NOTHING).all(axis=1))
