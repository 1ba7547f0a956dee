"""Weighted sample of the users whose histories the model is fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.paths.codes import number_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories
    from attrib_ds.attribution.incremental.latent_intent.prefix_tree import EncodedHistories

    Codes = NDArray[np.int64]
    Numbers = NDArray[np.float64]


def sample_users(
    histories: Histories, encoded: EncodedHistories, *, users: int, seed: int
) -> tuple[Codes, Numbers]:
    """Sample users with unequal probabilities, and return their weights.

    All users who converted are sampled, up to half of ``users``. One user stands for all with the same
    history. Among users who did not convert, the inclusion probability grows with the number of periods with
    a touchpoint.

    Parameters
    ----------
    histories : Histories
        Histories of all users.
    encoded : EncodedHistories
        The same, encoded by period.
    users : int
        Approximate maximum number of distinct histories.
    seed : int
        Seed of the draw.

    Returns
    -------
    chosen : int array
        Users, by rank.
    weight : float array
        Number of users that each stands for.
    """
    different, which = number_rows(np.column_stack([encoded.rank, encoded.length]))
    count = len(different)
    size = np.bincount(which, minlength=count)
    owner = np.zeros(count, np.int64)
    owner[which[::-1]] = np.arange(len(which))[::-1]
    has_converted = np.zeros(count, bool)
    has_converted[which[histories.event_user]] = True
    touched = np.diff(encoded.bounds)[owner]
    probability = np.ones(count)
    buyers, others = np.flatnonzero(has_converted), np.flatnonzero(~has_converted)
    probability[buyers] = _inclusion_probabilities(size[buyers], max(users // 2, users - len(others)))
    probability[others] = _inclusion_probabilities(
        size[others] * (1.0 + touched[others]), users - probability[buyers].sum()
    )
    random = np.random.default_rng(seed)
    # Systematic sampling in the order of ranks spreads the sample evenly over kinds of histories.
    passed = np.floor(np.cumsum(probability) + random.random())
    is_drawn = (probability >= 1) | (np.diff(passed, prepend=0.0) > 0)
    weight = size / probability
    for group in (buyers, others):
        drawn = group[is_drawn[group]]
        weight[drawn] *= size[group].sum() / max(weight[drawn].sum(), 1e-300)
    return owner[is_drawn], weight[is_drawn]


def _inclusion_probabilities(sizes: Numbers | Codes, wanted: float) -> Numbers:
    """Return inclusion probabilities proportional to size, none above 1, that sum to the wanted number."""
    certain = np.zeros(len(sizes), bool)
    # If rounding leaves slightly less wanted than there are, all become certain.
    while len(sizes) > wanted and not certain.all():
        rest = (wanted - certain.sum()) / sizes[~certain].sum()
        above = ~certain & (sizes * rest >= 1)
        if not above.any():
            return np.where(certain, 1.0, sizes * rest)
        certain |= above
    return np.ones(len(sizes))
