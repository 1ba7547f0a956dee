"""Tells what goes on from what: users whose histories have been alike so far are lived as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Branching:
    """Which branch of the period before each branch goes on from; users alike so far are one branch.

    Attributes
    ----------
    before : int
        How many branches there were.
    parent : int array, shape (n_branches,)
        In order.
    is_plain : bool
        Whether every branch goes on as it was.
    """

    before: int
    parent: Codes
    is_plain: bool
    _begins: Codes
    _children: Codes
    _starts: Codes
    _parents: Codes

    @classmethod
    def of(cls, before: int, parent: Codes) -> Branching:
        """Find the branches that have several."""
        begins = np.flatnonzero(np.diff(parent, prepend=-1))
        sizes = np.diff(begins, append=len(parent))
        several = sizes > 1
        return cls(
            before,
            parent,
            len(begins) == len(parent) == before,
            begins,
            np.flatnonzero(np.repeat(several, sizes)),
            np.cumsum(sizes[several]) - sizes[several],
            parent[begins[several]],
        )

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give every branch what its parent has; the last axis is that of branches."""
        return values if self.is_plain else np.take(values, self.parent, axis=-1)

    def collect(self, values: NDArray[Any]) -> NDArray[Any]:
        """Add up over the branches of each parent."""
        if self.is_plain:
            return values
        total = np.zeros((*values.shape[:-1], self.before), values.dtype)
        total[..., self.parent[self._begins]] = np.take(values, self._begins, axis=-1)
        if len(self._parents):
            several = np.take(values, self._children, axis=-1)
            total[..., self._parents] = np.add.reduceat(several, self._starts, axis=-1)
        return total
