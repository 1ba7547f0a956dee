"""Looks at users at the beginning of periods: what was before, what reaches them now, what they do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.incremental.levels import levels_at, reached_before
from attrib_ds.attribution.incremental.periods import drawn_periods, is_among

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories

    Numbers = NDArray[np.float64]
    Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Users at the beginning of periods: all who convert soon, and some of the others.

    Attributes
    ----------
    adstock : float32 array, shape (n_rows, n_nodes, n_half_lives)
        What is left of each node's touchpoints before the period.
    is_reached : bool array, shape (n_rows, n_nodes)
        Which nodes touch the user in the period, before any conversion in it.
    user, number : int array
        Whose, and which period since the first.
    outcome : float array, shape (n_rows, 2, n_currencies)
        Conversions and their value from the beginning of the period to the end of the window.
    weight : float array
        How many users and periods the row stands for.
    """

    adstock: NDArray[np.float32]
    is_reached: NDArray[np.bool_]
    user: Codes
    number: Codes
    outcome: Numbers
    weight: Numbers

    @property
    def is_case(self) -> NDArray[np.bool_]:
        """Whether the user converts soon."""
        return np.asarray(self.outcome[:, 0].any(axis=1))


def sample_landmarks(
    histories: Histories,
    *,
    nodes: int,
    half_lives: Sequence[float],
    step: float,
    window: float,
    rows: int,
    seed: int,
) -> Landmarks:
    """Return every landmark that a conversion follows within the window, and a sample of the others.

    Parameters
    ----------
    histories : Histories
        Of users.
    nodes : int
        How many there are.
    half_lives : sequence of float
        Days.
    step, window : float
        Length of a period, and of what follows its beginning; days.
    rows : int
        About how many landmarks without a conversion to draw.
    seed : int
        Of the draw.
    """
    first = np.floor(histories.since / step).astype(np.int64)
    end = np.maximum(np.ceil(histories.until / step).astype(np.int64), first + 1)
    event, period = _preceding(histories, first, end, step=step, window=window)
    case_user = histories.event_user[event]
    span = int(max(end.max(initial=0), 1))
    keys, place = np.unique(case_user * span + period, return_inverse=True)
    outcome = np.zeros((len(keys), 2, len(histories.currencies)))
    for which, worth in enumerate((histories.conversions, histories.value)):
        np.add.at(outcome[:, which], (place.reshape(-1), histories.event_currency[event]), worth[event])
    user, drawn, weight = drawn_periods(first, end, rows=rows, random=np.random.default_rng(seed))
    is_free = ~is_among(user, drawn, keys // span, keys % span)
    users = np.concatenate([keys // span, user[is_free]])
    periods = np.concatenate([keys % span, drawn[is_free]])
    begins = np.maximum(periods * step, histories.since[users])
    ends = np.minimum(_first_conversion(histories, users, begins), (periods + 1) * step)
    return Landmarks(
        levels_at(histories, users, np.nextafter(begins, -np.inf), nodes=nodes, half_lives=half_lives),
        _reached(histories, users, begins, ends, nodes),
        users,
        periods,
        np.concatenate([outcome, np.zeros((len(users) - len(keys), *outcome.shape[1:]))]),
        np.concatenate([np.ones(len(keys)), np.full(len(users) - len(keys), weight)]),
    )


def _preceding(
    histories: Histories, first: Codes, end: Codes, *, step: float, window: float
) -> tuple[Codes, Codes]:
    """Return the periods whose beginning is at most a window before each conversion."""
    user = histories.event_user
    last = np.minimum(np.floor(histories.event_time / step).astype(np.int64), end[user] - 1)
    earliest = np.maximum(np.ceil((histories.event_time - window) / step).astype(np.int64), first[user])
    count = np.maximum(last - earliest + 1, 0)
    event = np.repeat(np.arange(len(user)), count)
    begun = np.cumsum(count) - count
    return event, earliest[event] + np.arange(len(event)) - begun[event]


def _first_conversion(histories: Histories, user: Codes, moment: Numbers) -> Numbers:
    """Return when each user converts next, infinity where they never do."""
    order = np.lexsort((histories.event_time, histories.event_user))
    # One number that rises with the user, and within the user with time.
    width = float(histories.until.max(initial=0.0)) - min(float(histories.since.min(initial=0.0)), 0.0) + 2
    keys = histories.event_user[order] * width + histories.event_time[order]
    place = np.searchsorted(keys, user * width + moment - 1e-9)
    found = np.minimum(place, max(len(order) - 1, 0))
    is_theirs = (place < len(order)) & (histories.event_user[order][found] == user)
    return np.where(is_theirs, histories.event_time[order][found], np.inf)


def _reached(
    histories: Histories, user: Codes, begins: Numbers, ends: Numbers, nodes: int
) -> NDArray[np.bool_]:
    found = np.zeros((len(user), nodes), bool)
    for rows, before in reached_before(histories, user, ends):
        is_now = before.age <= (ends - begins)[rows][before.row]
        found[rows.start + before.row[is_now], before.node[is_now]] = True
    return found
