"""Draws the users whose histories a model is fit to, those that tell more with greater chances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.paths.codes import number_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories
    from attrib_ds.attribution.incremental.latent_intent.days import Days

    Codes = NDArray[np.int64]
    Numbers = NDArray[np.float64]


def draw_users(histories: Histories, days: Days, *, users: int, seed: int) -> tuple[Codes, Numbers]:
    """Draw users, and tell how many each stands for.

    All who converted are drawn, up to half of ``users``. A history that others have too stands for them all,
    and of those who did not convert one with many touched periods is drawn more often than one with few.

    Parameters
    ----------
    histories : Histories
        Of all users.
    days : Days
        The same in periods.
    users : int
        At most about so many different histories are drawn.
    seed : int
        Of the draw.

    Returns
    -------
    chosen : int array
        Users, in the order of their ranks.
    weight : float array
        How many each stands for.
    """
    different, which = number_rows(np.column_stack([days.rank, days.length]))
    count = len(different)
    size = np.bincount(which, minlength=count)
    owner = np.zeros(count, np.int64)
    owner[which[::-1]] = np.arange(len(which))[::-1]
    has_converted = np.zeros(count, bool)
    has_converted[which[histories.event_user]] = True
    touched = np.diff(days.bounds)[owner]
    chance = np.ones(count)
    buyers, others = np.flatnonzero(has_converted), np.flatnonzero(~has_converted)
    chance[buyers] = _chances(size[buyers], max(users // 2, users - len(others)))
    chance[others] = _chances(size[others] * (1.0 + touched[others]), users - chance[buyers].sum())
    random = np.random.default_rng(seed)
    # In the order of ranks, so that what is drawn is spread evenly over all kinds of histories.
    passed = np.floor(np.cumsum(chance) + random.random())
    is_drawn = (chance >= 1) | (np.diff(passed, prepend=0.0) > 0)
    weight = size / chance
    for group in (buyers, others):
        drawn = group[is_drawn[group]]
        weight[drawn] *= size[group].sum() / max(weight[drawn].sum(), 1e-300)
    return owner[is_drawn], weight[is_drawn]


def _chances(sizes: Numbers | Codes, wanted: float) -> Numbers:
    """Return chances in proportion to sizes, none above one, that add up to how many are wanted."""
    certain = np.zeros(len(sizes), bool)
    while len(sizes) > wanted:
        rest = (wanted - certain.sum()) / sizes[~certain].sum()
        above = ~certain & (sizes * rest >= 1)
        if not above.any():
            return np.where(certain, 1.0, sizes * rest)
        certain |= above
    return np.ones(len(sizes))
