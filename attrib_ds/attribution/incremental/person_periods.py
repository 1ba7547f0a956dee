"""Person-periods: sampled periods of users, the adstock of nodes in them, and their design matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.incremental.histories import Histories, standardised

#: Pairs of a moment and a touchpoint held in memory at once.
_MOST_PAIRS: Final = 4_000_000
#: Rows of the design matrix held in memory at once.
_TOGETHER: Final = 1 << 16
#: Shortest observation of all users together, days.
_SHORTEST: Final = 1e-9
#: Maximum number of columns of the calendar.
_MOST_STRETCHES: Final = 100


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
    activity : float array
        Logarithm of the user's expected rate of touchpoints, given those so far, relative to the mean.
    """

    adstock: NDArray[np.float32]
    user: Codes
    number: Codes
    event: Codes
    weight: Numbers
    moment: Numbers
    activity: Numbers

    @property
    def is_case(self) -> Flags:
        """Whether the user converted in the period."""
        return self.event >= 0

    def at(self, which: Flags) -> Periods:
        """Return some of the periods."""
        return Periods(*(getattr(self, each.name)[which] for each in fields(self)))

    def without_activity(self) -> Periods:
        """Return the periods of users who are all equally active."""
        return replace(self, activity=np.zeros_like(self.activity))


def sample_periods(
    histories: Histories, *, nodes: int, half_lives: Sequence[float], step: float, rows: int, seed: int
) -> Periods:
    """Return every period with a conversion, and a random sample of those without; none without conversions.

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
    if not len(histories.event_user):
        numbers, adstock = np.zeros(0, np.int64), np.zeros((0, nodes, len(half_lives)), np.float32)
        return Periods(adstock, numbers, numbers, numbers, *np.zeros((3, 0)))
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
    span = int(max(period.max(initial=0), case_period.max(initial=0))) + 1
    is_at_risk &= ~np.isin(user * span + period, case_user * span + case_period)
    user, period, moment = user[is_at_risk], period[is_at_risk], moment[is_at_risk]
    users = np.concatenate([case_user, user])
    moments = np.concatenate([histories.event_time, moment])
    return Periods(
        adstock_at(histories, users, moments, nodes=nodes, half_lives=half_lives),
        users,
        np.concatenate([case_period, period]),
        np.concatenate([np.arange(len(case_user), dtype=np.int64), np.full(len(user), -1, dtype=np.int64)]),
        np.concatenate([np.ones(len(case_user)), np.full(len(user), weight)]),
        moments,
        activity_at(histories, users, moments),
    )


def _drawn(first: Codes, end: Codes, *, rows: int, random: np.random.Generator) -> tuple[Codes, Codes, float]:
    """Draw periods of users, and return the number of periods that each stands for.

    Systematic sampling: one is drawn from each stretch of consecutive periods, so that users and times are
    represented in proportion.
    """
    until: Codes = np.cumsum(end - first)
    total = int(until[-1]) if len(until) else 0
    if rows >= total:
        place, weight = np.arange(total, dtype=np.int64), 1.0
    else:
        weight = total / rows
        place = np.minimum(
            ((np.arange(rows, dtype=np.int64) + random.random(rows)) * weight).astype(np.int64), total - 1
        )
    user = np.searchsorted(until, place, side="right")
    return user, end[user] - (until[user] - place), weight


@dataclass(frozen=True, eq=False)
class Design:
    """Design matrix: covariates and time, then calendar, then nodes by half-life, then pairs of nodes.

    Attributes
    ----------
    plain : float array, shape (n_rows, n_plain)
        Intercept; covariates, period and its square, standardised; and the user's activity so far.
    calendar : int array, shape (n_rows,)
        Period of each row, or stretch of periods: a promotion or a holiday raises conversions for everybody
        at once, and may raise exposure too.
    stretches : int
        Number of different values of ``calendar``, each of which has a column.
    effects : float32 array, shape (n_rows, n_nodes, n_half_lives)
        Saturated adstock, ``log(1 + adstock)``.
    scale : float array, shape (n_nodes * n_half_lives + n_pairs,)
        Standard deviation of each effect's column; the penalty applies to standardised coefficients.
    pairs : int array, shape (n_pairs, 2)
        Nodes with an interaction term.
    """

    plain: Numbers
    calendar: Codes
    stretches: int
    effects: NDArray[np.float32]
    scale: Numbers
    pairs: Codes

    @classmethod
    def of(cls, periods: Periods, histories: Histories, *, has_interactions: bool) -> Design:
        """Return the design matrix of periods, with columns for pairs of nodes if ``has_interactions``."""
        effects = np.log1p(periods.adstock)
        nodes = effects.shape[1]
        pairs = np.array(list(combinations(range(nodes), 2)) if has_interactions else [], np.int64)
        if not len(effects):
            width = nodes * effects.shape[2] + len(pairs)
            nothing = np.zeros((0, 2)), np.zeros(0, np.int64)
            return cls(*nothing, 1, effects, np.ones(width), pairs.reshape(-1, 2))
        time = periods.number.astype(np.float64)
        columns = [histories.covariates[periods.user], time[:, None], time[:, None] ** 2]
        plain = np.column_stack([np.ones(len(time)), *map(standardised, columns), periods.activity])
        since = periods.number - periods.number.min(initial=0)
        count = int(since.max(initial=0)) + 1
        stretches = min(count, _MOST_STRETCHES)
        calendar = since * stretches // count
        design = cls(plain, calendar, stretches, effects, np.ones(0), pairs.reshape(-1, 2))
        return replace(design, scale=design.spread(periods.weight))

    def at(self, which: Codes) -> Design:
        """Return the design of some rows."""
        return replace(
            self, plain=self.plain[which], calendar=self.calendar[which], effects=self.effects[which]
        )

    def without_activity(self) -> Design:
        """Return the design in which all users are equally active."""
        plain = self.plain.copy()
        plain[:, -1] = 0.0
        return replace(self, plain=plain)

    def rows(self, which: Codes) -> Numbers:
        """Return rows of the matrix, effects divided by their standard deviations."""
        part = self.at(which)
        is_then = part.calendar[:, None] == np.arange(self.stretches, dtype=np.int64)
        return np.concatenate([part.plain, is_then, part.columns() / self.scale], axis=1)

    def columns(self) -> Numbers:
        """Return the columns of nodes and pairs side by side."""
        rows, nodes, lives = self.effects.shape
        single = self.effects.reshape(rows, nodes * lives).astype(np.float64)
        return np.concatenate([single, self.products()], axis=1)

    def spread(self, weight: Numbers) -> Numbers:
        """Return the weighted standard deviation of each effect; 1 for a constant column."""
        width = self.effects.shape[1] * self.effects.shape[2] + len(self.pairs)
        sums = np.zeros((2, width))
        for start in range(0, len(weight), _TOGETHER):
            which = np.arange(start, min(start + _TOGETHER, len(weight)), dtype=np.int64)
            columns = self.at(which).columns()
            sums += weight[which] @ columns, weight[which] @ columns**2
        mean, square = sums / weight.sum()
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
        return np.asarray(np.where(spread > 1e-9 * np.sqrt(square), spread, 1.0))

    def parts(self, coefficients: Numbers) -> Numbers:
        """Return what each node contributes to the log-odds of each row, pairs included."""
        _, nodes, lives = self.effects.shape
        effects = coefficients[self.plain.shape[1] + self.stretches :] / self.scale
        single = effects[: nodes * lives].reshape(nodes, lives)
        parts = np.einsum("rnl,nl->rn", self.effects, single)
        if len(self.pairs):
            interaction = self.products() * effects[nodes * lives :]
            for position, pair in enumerate(self.pairs):
                parts[:, pair] += interaction[:, position, None]
        return np.asarray(parts)

    def log_odds(self, coefficients: Numbers) -> Numbers:
        """Return the log-odds of each row."""
        begin = self.plain.shape[1]
        plain, calendar, effects = np.split(coefficients, [begin, begin + self.stretches])
        return np.asarray(
            self.plain @ plain + calendar[self.calendar] + self.columns() @ (effects / self.scale)
        )

    def columns_of(self, node: int, *, has_pairs: bool = True) -> Codes:
        """Return the positions of the columns of a node, by default with its pairs."""
        _, nodes, lives = self.effects.shape
        begin = self.plain.shape[1] + self.stretches
        of_pairs = np.flatnonzero((self.pairs == node).any(axis=1))
        own = np.arange(node * lives, (node + 1) * lives, dtype=np.int64)
        if not has_pairs:
            return np.asarray(own + begin, np.int64)
        return np.asarray(np.concatenate([own, nodes * lives + of_pairs]) + begin, np.int64)

    def products(self) -> Numbers:
        """Return the interaction of each pair: the product of the means over half-lives."""
        level = self.effects.mean(axis=2, dtype=np.float64)
        return np.asarray(level[:, self.pairs[:, 0]] * level[:, self.pairs[:, 1]])

    def penalty(self, strength: float) -> Numbers:
        """Return the ridge penalty of each coefficient: that of activity, the calendar and effects.

        Activity is not standardised: where users hardly differ in it, the penalty keeps it out.
        """
        free = self.plain.shape[1] - 1
        return np.append(np.zeros(free), np.full(1 + self.stretches + len(self.scale), strength))


def adstock_at(
    histories: Histories, user: Codes, moment: Numbers, *, nodes: int, half_lives: Sequence[float]
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
    for rows in _moment_blocks(count):
        moments = rows.stop - rows.start
        row = np.repeat(np.arange(moments, dtype=np.int64), count[rows])
        offset = np.cumsum(count[rows]) - count[rows]
        touch = np.arange(len(row), dtype=np.int64) + (first[rows] - offset)[row]
        age = moment[rows][row] - histories.touch_time[touch]
        is_past = age >= 0
        cell = row[is_past] * nodes + histories.touch_node[touch[is_past]]
        for number, half_life in enumerate(half_lives):
            left = np.bincount(cell, np.exp2(-age[is_past] / half_life), minlength=moments * nodes)
            adstock[rows, :, number] = left.reshape(moments, nodes)
    return adstock


def activity_at(histories: Histories, user: Codes, moment: Numbers) -> Numbers:
    """Return how active users have been until moments: the logarithm of their relative rate of touchpoints.

    Rates of users have a gamma distribution, whose variance the numbers of touchpoints show (method of
    moments); given its touchpoints so far, the rate of a user is expected between the mean rate and the
    user's own. Where all users have the same rate, everybody is as active as the mean.
    """
    begin = histories.since.copy()
    np.minimum.at(begin, histories.touch_user, histories.touch_time)
    # An observation may begin with a touchpoint because it is one.
    is_later = histories.touch_time > begin[histories.touch_user]
    touches = {name: getattr(histories, f"touch_{name}")[is_later] for name in ("user", "time")}
    count, length = np.bincount(touches["user"], minlength=len(begin)), histories.until - begin
    rate = count.sum() / max(length.sum(), _SHORTEST)
    expected = rate**2 * float((length**2).sum())
    excess = max(float((count * (count - 1.0)).sum()) / expected - 1, 0.0) if expected > 0 else 0.0
    every = replace(
        histories,
        touch_user=touches["user"],
        touch_node=np.zeros(len(touches["user"]), np.int64),
        touch_time=touches["time"],
    )
    so_far = adstock_at(every, user, moment, nodes=1, half_lives=[np.inf])[:, 0, 0].astype(np.float64)
    return np.asarray(np.log1p(excess * so_far) - np.log1p(excess * rate * (moment - begin[user])))


def _moment_blocks(count: Codes) -> Iterator[slice]:
    """Split moments into blocks of a bounded number of touchpoints."""
    block = np.cumsum(count) // _MOST_PAIRS
    bounds = [0, *(np.flatnonzero(np.diff(block)) + 1), len(count)]
    for start, stop in pairwise(bounds):
        if stop > start:
            yield slice(int(start), int(stop))
