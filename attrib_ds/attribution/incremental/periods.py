"""Person-periods: all periods of users with a conversion, and a random sample of those without."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.incremental.adstock import adstock_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories

    Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Periods:
    """Case-control sample of person-periods.

    Attributes
    ----------
    adstock : float32 array, shape (n_rows, n_nodes, n_half_lives)
        Adstock of each node at the moment that stands for the period. For a case that is the moment of the
        conversion; for a control it is drawn from the moments of conversions within their periods. So what
        comes later in a period does not count, and the time of day at which people convert is not mistaken
        for an effect.
    user, number : int array
        User, and number of the period since the first.
    event : int array
        Position of the conversion, -1 without one.
    weight : float array
        Number of periods that the row stands for.
    moment : float array
        Moment that stands for the period, days since the first observation began.
    """

    adstock: NDArray[np.float32]
    user: NDArray[np.int64]
    number: NDArray[np.int64]
    event: NDArray[np.int64]
    weight: Numbers
    moment: Numbers

    @property
    def is_case(self) -> NDArray[np.bool_]:
        """Whether the user converted in the period."""
        return self.event >= 0

    def at(self, which: NDArray[np.bool_]) -> Periods:
        """Return some of the periods."""
        return Periods(*(getattr(self, each.name)[which] for each in fields(self)))


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
        Histories of users.
    nodes : int
        Number of nodes.
    half_lives : sequence of float
        Days.
    step : float
        Length of a period, days.
    rows : int
        Approximate number of periods without a conversion to draw.
    seed : int
        Seed of the draw.
    """
    first = np.floor(histories.since / step).astype(np.int64)
    end = np.maximum(np.ceil(histories.until / step).astype(np.int64), first + 1)
    case_user = histories.event_user
    # A conversion at the very end of an observation is in its last period.
    case_period = np.minimum(np.floor(histories.event_time / step).astype(np.int64), end[case_user] - 1)
    random = np.random.default_rng(seed)
    user, period, weight = _drawn(first, end, rows=rows, random=random)
    within = histories.event_time / step - case_period
    moment = (period + within[random.integers(0, len(within), len(period))]) * step
    is_at_risk = (moment >= histories.since[user]) & (moment <= histories.until[user])
    is_at_risk &= ~_is_among(user, period, case_user, case_period)
    user, period, moment = user[is_at_risk], period[is_at_risk], moment[is_at_risk]
    users = np.concatenate([case_user, user])
    moments = np.concatenate([histories.event_time, moment])
    return Periods(
        adstock_at(histories, users, moments, nodes=nodes, half_lives=half_lives),
        users,
        np.concatenate([case_period, period]),
        np.concatenate([np.arange(len(case_user)), np.full(len(user), -1)]),
        np.concatenate([np.ones(len(case_user)), np.full(len(user), weight)]),
        moments,
    )


def _drawn(
    first: NDArray[np.int64], end: NDArray[np.int64], *, rows: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
    """Draw periods of users, and return the number of periods that each stands for.

    Systematic sampling: one is drawn from each stretch of consecutive periods, so that users and times are
    represented in proportion.
    """
    until: NDArray[np.int64] = np.cumsum(end - first)
    total = int(until[-1]) if len(until) else 0
    if rows >= total:
        place, weight = np.arange(total, dtype=np.int64), 1.0
    else:
        weight = total / rows
        place = np.minimum(((np.arange(rows) + random.random(rows)) * weight).astype(np.int64), total - 1)
    user = np.searchsorted(until, place, side="right")
    return user, end[user] - (until[user] - place), weight


def _is_among(
    user: NDArray[np.int64],
    period: NDArray[np.int64],
    case_user: NDArray[np.int64],
    case_period: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return which periods of users are among those of the cases."""
    span = int(max(period.max(initial=0), case_period.max(initial=0))) + 1
    return np.isin(user * span + period, case_user * span + case_period)
