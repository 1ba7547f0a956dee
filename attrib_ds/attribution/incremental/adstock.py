"""Adstock: the part of past touchpoints that is left at given moments, by node and half-life."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories

    Numbers = NDArray[np.float64]
    Codes = NDArray[np.int64]

#: Pairs of a moment and a touchpoint held in memory at once.
_MOST_PAIRS: Final = 4_000_000


def adstock_at(
    histories: Histories,
    user: Codes,
    moment: Numbers,
    *,
    nodes: int,
    half_lives: Sequence[float],
) -> NDArray[np.float32]:
    """Return the adstock of each node at moments in the histories of users.

    Parameters
    ----------
    histories : Histories
        Histories of users.
    user, moment : array
        User and moment of each row; days since the first observation. A touchpoint at the moment itself
        counts.
    nodes : int
        Number of nodes.
    half_lives : sequence of float
        Days.

    Returns
    -------
    float32 array, shape (n_moments, n_nodes, n_half_lives)
        A touchpoint adds one at its instant and half of that a half-life later.
    """
    adstock = np.zeros((len(user), nodes, len(half_lives)), np.float32)
    first, last = (
        np.searchsorted(histories.touch_user, user, side=side).astype(np.int64) for side in ("left", "right")
    )
    count = last - first
    for rows in _blocks(count):
        moments = rows.stop - rows.start
        row = np.repeat(np.arange(moments), count[rows])
        offset = np.cumsum(count[rows]) - count[rows]
        touch = np.arange(len(row)) + (first[rows] - offset)[row]
        age = moment[rows][row] - histories.touch_time[touch]
        is_past = age >= 0
        cell = row[is_past] * nodes + histories.touch_node[touch[is_past]]
        for number, half_life in enumerate(half_lives):
            left = np.bincount(cell, np.exp2(-age[is_past] / half_life), minlength=moments * nodes)
            adstock[rows, :, number] = left.reshape(moments, nodes)
    return adstock


def _blocks(count: Codes) -> Iterator[slice]:
    """Split moments into blocks of a bounded number of touchpoints."""
    block = np.cumsum(count) // _MOST_PAIRS
    bounds = [0, *(np.flatnonzero(np.diff(block)) + 1), len(count)]
    for start, stop in pairwise(bounds):
        if stop > start:
            yield slice(int(start), int(stop))
