"""Cuts observations into periods and tells how strongly each node is at work in each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories

    Numbers = NDArray[np.float64]

#: Numbers of an adstock that are held at one time.
_MOST_CELLS: Final = 48_000_000


@dataclass(frozen=True, eq=False)
class Periods:
    """Periods of users: all with a conversion, and some of the others.

    Attributes
    ----------
    adstock : float32 array, shape (n_rows, n_nodes, n_half_lives)
        What is left of each node's touchpoints at the end of the period: one on the moment of a touchpoint,
        half of it a half-life later.
    user, number : int array
        Whose, and which one since the first.
    event : int array
        Position of the conversion, -1 without one.
    weight : float array
        How many periods the row stands for.
    """

    adstock: NDArray[np.float32]
    user: NDArray[np.int64]
    number: NDArray[np.int64]
    event: NDArray[np.int64]
    weight: Numbers

    @property
    def is_case(self) -> NDArray[np.bool_]:
        """Whether the user converted in the period."""
        return self.event >= 0


def sample_periods(
    histories: Histories,
    *,
    nodes: int,
    half_lives: Sequence[float],
    step: float,
    rows: int,
    seed: int,
) -> Periods:
    """Return every period with a conversion, and a random sample of those without.

    Parameters
    ----------
    histories : Histories
        Of users.
    nodes : int
        How many there are.
    half_lives : sequence of float
        Days.
    step : float
        Length of a period, days.
    rows : int
        About how many periods without a conversion to draw.
    seed : int
        Of the draw.
    """
    first = np.floor(histories.since / step).astype(np.int64)
    end = np.maximum(np.ceil(histories.until / step).astype(np.int64), first + 1)
    at_risk = int((end - first).sum())
    share = min(1.0, rows / max(at_risk, 1))
    together = max(1, _MOST_CELLS // (nodes * len(half_lives)))
    parts = [
        part
        for number, beginning in enumerate(range(0, len(first), together))
        for part in _live(
            histories,
            slice(beginning, min(beginning + together, len(first))),
            first,
            end,
            nodes=nodes,
            half_lives=half_lives,
            step=step,
            share=share,
            random=np.random.default_rng([seed, number]),
        )
    ]
    return Periods(
        np.concatenate([part.adstock for part in parts]),
        np.concatenate([part.user for part in parts]),
        np.concatenate([part.number for part in parts]),
        np.concatenate([part.event for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )


def _live(
    histories: Histories,
    users: slice,
    first: NDArray[np.int64],
    end: NDArray[np.int64],
    *,
    nodes: int,
    half_lives: Sequence[float],
    step: float,
    share: float,
    random: np.random.Generator,
) -> Iterator[Periods]:
    """Go through the periods of some users in order, with the adstock of all of them at hand."""
    beginning, count = users.start, users.stop - users.start
    touched = slice(*np.searchsorted(histories.touch_user, [users.start, users.stop]))
    touch_user = histories.touch_user[touched] - beginning
    touch_node, touch_time = histories.touch_node[touched], histories.touch_time[touched]
    touch_period = np.floor(touch_time / step).astype(np.int64)
    events = np.flatnonzero((histories.event_user >= users.start) & (histories.event_user < users.stop))
    # A conversion on the very end of an observation is in its last period.
    last = end[histories.event_user[events]] - 1
    event_period = np.minimum(np.floor(histories.event_time[events] / step).astype(np.int64), last)
    by_touch, touch_bounds = _in_order(touch_period, end[users].max(initial=0))
    by_event, event_bounds = _in_order(event_period, end[users].max(initial=0))
    adstock = np.zeros((count, nodes, len(half_lives)), np.float32)
    flat = adstock.reshape(count * nodes, len(half_lives))
    kept = np.array([2.0 ** (-step / each) for each in half_lives], np.float32)
    for period in range(int(first[users].min(initial=0)), int(end[users].max(initial=0))):
        adstock *= kept
        # All before the first period at once, in which they count with their age.
        lower = 0 if period == int(first[users].min(initial=0)) else touch_bounds[period]
        new = by_touch[lower : touch_bounds[period + 1]]
        cells = touch_user[new] * nodes + touch_node[new]
        age = (period + 1) * step - touch_time[new]
        for column, half_life in enumerate(half_lives):
            flat[:, column] += np.bincount(cells, 2.0 ** (-age / half_life), minlength=len(flat))
        cases = events[by_event[event_bounds[period] : event_bounds[period + 1]]]
        converted = histories.event_user[cases] - beginning
        is_free = (first[users] <= period) & (end[users] > period)
        is_free[converted] = False
        drawn = np.flatnonzero(is_free & (random.random(count) < share))
        rows = np.concatenate([converted, drawn])
        yield Periods(
            adstock[rows],
            rows + beginning,
            np.full(len(rows), period),
            np.concatenate([cases, np.full(len(drawn), -1)]),
            np.concatenate([np.ones(len(cases)), np.full(len(drawn), 1 / share)]),
        )


def _in_order(periods: NDArray[np.int64], end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.argsort(periods, kind="stable")
    return order, np.searchsorted(periods[order], np.arange(int(end) + 1))
