"""N-gram counts of touchpoints, and next-step probabilities smoothed by backoff to shorter histories."""

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
class NGrams:
    """Counts of a history of touchpoints and the outcome that followed it.

    An outcome is the next node, a conversion, or the end of the path without one.

    Attributes
    ----------
    history : int array, shape (n_ngrams, order)
        Codes of the preceding nodes, the oldest first; ``NOTHING`` before the start of the path.
    outcome : int array, shape (n_ngrams,)
        Code of the next node; the two codes above those of all nodes are the conversion and the null end.
    outcomes : int
        Number of possible outcomes.
    counts : float array, shape (n_ngrams, n_folds)
        Occurrences by group of users.
    """

    history: Codes
    outcome: Codes
    outcomes: int
    counts: Numbers

    @classmethod
    def of(cls, transitions: Transitions, *, folds: int) -> NGrams:
        """Count the steps and the ends of paths that have a touchpoint."""
        transitions = transitions.where(transitions.code != NOTHING)
        nodes = int(transitions.code.max(initial=-1)) + 1
        last = transitions.where(transitions.is_last)
        after = np.column_stack([last.before[:, 1:], last.code])
        steps = [
            (transitions.before, transitions.code, transitions.fold, transitions.counts[:, :2].sum(axis=1)),
            (after, np.full(len(after), nodes), last.fold, last.counts[:, 0]),
            (after, np.full(len(after), nodes + 1), last.fold, last.counts[:, 1]),
        ]
        history, outcome, fold, weight = (np.concatenate(parts) for parts in zip(*steps, strict=True))
        rows, row = number_rows(np.column_stack([history, outcome]))
        counts = np.bincount(row * folds + fold, weight, len(rows) * folds).reshape(len(rows), folds)
        has_count = counts.sum(axis=1) > 0
        return cls(rows[has_count, :-1], rows[has_count, -1], nodes + 2, counts[has_count])

    @property
    def paths(self) -> Numbers:
        """Number of paths by group of users."""
        is_first = (self.history == NOTHING).all(axis=1)
        return np.asarray(self.counts[is_first].sum(axis=0))

    def number(self, order: int) -> tuple[Codes, Codes]:
        """Encode the histories of the last ``order`` steps, and the n-grams they form.

        Returns
        -------
        history, ngram : int array, shape (n_ngrams,)
            Number of each row's history, and of the history together with its outcome.
        """
        steps = self.history[:, self.history.shape[1] - order :]
        _, history = number_rows(np.column_stack([steps, np.zeros(len(steps), np.int64)]))
        _, ngram = number_rows(np.column_stack([steps, self.outcome]))
        return history, ngram

    def probabilities(self, counts: Numbers, *, order: int, smoothing: float) -> Iterator[Numbers]:
        """Return the probability of each row's outcome given its history, for each order from 0 up.

        Parameters
        ----------
        counts : float array, shape (n_ngrams,)
            Counts to estimate from.
        order : int
            Length of the longest history.
        smoothing : float
            Pseudo-observations of each history, distributed as after the history that is one step shorter;
            those of the empty history are uniform over outcomes.
        """
        probability = np.full(len(counts), 1.0 / self.outcomes)
        for steps in range(order + 1):
            history, ngram = self.number(steps)
            smoothed = np.bincount(ngram, counts)[ngram] + smoothing * probability
            probability = np.asarray(
                smoothed / (np.bincount(history, counts)[history] + smoothing), dtype=np.float64
            )
            yield probability
