"""Sets of nodes on paths, regardless of order, with their conversions and null paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.path_models.outcomes import Outcomes
from attrib_ds.attribution.paths.codes import number_rows
from attrib_ds.attribution.paths.sequences import SETS, WORD, Sequences, Steps, summed

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class NodeSets:
    """Conversions and null paths by set of nodes; paths without a touchpoint have the empty set.

    Attributes
    ----------
    keys : uint array
        Keys of the sets in ascending order: the sum of the labels of the nodes.
    marks : int array, shape (n_sets, words)
        Bits of the nodes of each set.
    labels : uint array
        Labels of the nodes.
    outcomes : Outcomes
        Outcomes by set.
    """

    keys: NDArray[np.uint64]
    marks: NDArray[np.int64]
    labels: NDArray[np.uint64]
    outcomes: Outcomes

    @classmethod
    def of(cls, sequences: Sequences) -> NodeSets:
        """Count the sets in the engine of the paths."""
        table = sequences.memory.get(SETS)
        if table is None:
            table = sequences.collect(_counted)
        words = [table[name].fill_null(0).to_numpy().astype(np.int64) for name in sequences.words]
        marks, row = number_rows(np.column_stack(words))
        labels = _labels(len(sequences.node_ids))
        keys = np.zeros(len(marks), dtype=np.uint64)
        for code, label in enumerate(labels):
            keys += _contains(marks, code).astype(np.uint64) * label
        order = np.argsort(keys)
        outcomes = Outcomes.of(table, np.argsort(order)[row], keys[order] != 0)
        return cls(keys[order], marks[order], labels, outcomes)

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of nodes of each set."""
        sizes = np.zeros(len(self.marks), dtype=np.int64)
        for code in range(len(self.labels)):
            sizes += _contains(self.marks, code)
        return sizes

    def members(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the codes of the nodes of sets of equal size, ascending; shape (n_chosen, size)."""
        marks = self.marks[chosen]
        is_member = np.column_stack([_contains(marks, code) for code in range(len(self.labels))])
        return np.nonzero(is_member)[1].reshape(len(chosen), -1)

    def find(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the index of the set with each key.

        That of an unobserved set is one past the last, that of the empty set two past it.
        """
        place = np.searchsorted(self.keys, keys)
        is_observed = self.keys[np.minimum(place, len(self.keys) - 1)] == keys
        return np.where(keys == 0, len(self.keys) + 1, np.where(is_observed, place, len(self.keys)))


def _counted(steps: Steps) -> ir.Table:
    rows = steps.table
    constant = ["fold", *steps.counts, *({"currency"} & set(rows.columns))]
    by_path = rows.group_by("path_id").agg(
        **{name: rows[name].bit_or() for name in steps.words}, **{name: rows[name].max() for name in constant}
    )
    keys = [name for name in by_path.columns if name not in ("path_id", *steps.counts)]
    return by_path.group_by(keys).agg(**summed(by_path, steps.counts))


def _labels(nodes: int) -> NDArray[np.uint64]:
    """Return a number per node such that different sets have different sums.

    These are powers of 2 while they fit, else 64 random bits: any two of a billion sums coincide with
    probability 1/40.
    """
    if nodes <= WORD:
        return np.left_shift(np.uint64(1), np.arange(nodes, dtype=np.uint64))
    return np.random.default_rng(nodes).integers(1, np.iinfo(np.uint64).max, nodes, dtype=np.uint64)


def _contains(marks: NDArray[np.int64], code: int) -> NDArray[np.bool_]:
    return np.asarray((marks[:, code // WORD] >> (code % WORD)) & 1 == 1)
