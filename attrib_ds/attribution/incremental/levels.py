"""Tells how much is left of the touchpoints of users at some moments."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories

    Numbers = NDArray[np.float64]
    Codes = NDArray[np.int64]

#: Pairs of a moment and a touchpoint that are held at one time.
_MOST_PAIRS: Final = 4_000_000


@dataclass(frozen=True, eq=False)
class Reached:
    """Touchpoints that came before some moments, or at them.

    Attributes
    ----------
    row : int array
        Position of the moment.
    node : int array
        Whose touchpoint.
    age : float array
        Days from the touchpoint to the moment.
    """

    row: Codes
    node: Codes
    age: Numbers


def levels_at(
    histories: Histories,
    user: Codes,
    moment: Numbers,
    *,
    nodes: int,
    half_lives: Sequence[float],
) -> NDArray[np.float32]:
    """Return what is left of each node's touchpoints at moments in the lives of users.

    Parameters
    ----------
    histories : Histories
        Of users.
    user, moment : array
        Whose and when; days since the origin. A touchpoint at the moment itself counts.
    nodes : int
        How many there are.
    half_lives : sequence of float
        Days.

    Returns
    -------
    float32 array, shape (n_moments, n_nodes, n_half_lives)
        A touchpoint counts one at its instant and half of it a half-life later.
    """
    levels = np.zeros((len(user), nodes, len(half_lives)), np.float32)
    for rows, reached in reached_before(histories, user, moment):
        count = rows.stop - rows.start
        cell = reached.row * nodes + reached.node
        for number, half_life in enumerate(half_lives):
            left = np.bincount(cell, np.exp2(-reached.age / half_life), minlength=count * nodes)
            levels[rows, :, number] = left.reshape(count, nodes)
    return levels


def reached_before(histories: Histories, user: Codes, moment: Numbers) -> Iterator[tuple[slice, Reached]]:
    """Pair moments with the touchpoints before them, some moments at a time.

    Parameters
    ----------
    histories : Histories
        Of users.
    user, moment : array
        Whose and when; days since the origin.

    Yields
    ------
    slice
        Which moments.
    Reached
        Its rows count from the first of these moments.
    """
    first, last = (
        np.searchsorted(histories.touch_user, user, side=side).astype(np.int64) for side in ("left", "right")
    )
    count = last - first
    for rows in _blocks(count):
        row = np.repeat(np.arange(rows.stop - rows.start), count[rows])
        before = np.cumsum(count[rows]) - count[rows]
        touch = np.arange(len(row)) + (first[rows] - before)[row]
        age = moment[rows][row] - histories.touch_time[touch]
        kept = age >= 0
        yield rows, Reached(row[kept], histories.touch_node[touch[kept]], age[kept])


def _blocks(count: Codes) -> Iterator[slice]:
    block = np.cumsum(count) // _MOST_PAIRS
    bounds = [0, *(np.flatnonzero(np.diff(block)) + 1), len(count)]
    for start, stop in pairwise(bounds):
        if stop > start:
            yield slice(int(start), int(stop))
