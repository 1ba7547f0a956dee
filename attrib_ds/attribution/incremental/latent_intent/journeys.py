"""Cuts the histories of a sample of users into periods, in blocks of users that are lived together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories

    Codes = NDArray[np.int64]
    Numbers = NDArray[np.float64]
    Singles = NDArray[np.float32]

#: Users of a block: what is computed for them in a period fits into a processor's cache.
_TOGETHER: Final = 2_000
#: Nodes whose recent touchpoints are told apart; those of all further nodes are told together.
MOST_APART: Final = 8
_LONG_AGO: Final = 1 << 20


@dataclass(frozen=True, eq=False)
class Block:
    """Users whose periods are lived together, those observed longest first; arrays end with the user.

    Attributes
    ----------
    active : list of int
        How many of them, the first ones, are observed still in each period.
    touched : list of list of (int, int array)
        Of each period, the nodes that touched somebody, and whom.
    recent : list of int array
        Which pattern of recent touchpoints each user has in each period.
    before, after : list of float32 array, shape (n_nodes * n_half_lives, n_active)
        What is at work of each node that may have an effect, when a period begins and when it ends.
    converted, events : list of int array
        Who converts in each period, once each, and by which conversions; in ``events`` whose, and which.
    weight : float32 array
        How many users each stands for.
    told : float array, shape (n_covariates, n_users)
        What is known of them, standardised.
    remaining : int array
        Periods from the end of each observation to the end of all.
    """

    active: list[int]
    touched: list[list[tuple[int, Codes]]]
    recent: list[Codes]
    before: list[Singles]
    after: list[Singles]
    converted: list[Codes]
    events: list[tuple[Codes, Codes]]
    weight: Singles
    told: Numbers
    remaining: Codes


@dataclass(frozen=True, eq=False)
class Journeys:
    """All blocks, and what their arrays mean.

    Attributes
    ----------
    nodes : int
        How many nodes there are.
    causes : int array
        Nodes that may have an effect.
    lives : int
        How many half-lives.
    patterns : float array, shape (n_patterns, n_flags)
        Whether each node, or any of the rarer ones, touched the user within the memory; one row per pattern
        that occurs.
    pairs : int array, shape (n_pairs, 2)
        Positions in ``causes`` of those that may strengthen each other.
    """

    blocks: list[Block]
    nodes: int
    causes: Codes
    lives: int
    patterns: Numbers
    pairs: Codes

    def some(self, users: int) -> Journeys:
        """Return about so many users; every so many blocks."""
        every = max(1, sum(len(block.weight) for block in self.blocks) // max(users, 1))
        return Journeys(
            self.blocks[::every],
            self.nodes,
            self.causes,
            self.lives,
            self.patterns,
            self.pairs,
        )


def cut_journeys(
    histories: Histories,
    *,
    nodes: int,
    causes: Sequence[int],
    half_lives: Sequence[float],
    step: float,
    memory: float,
    users: int,
    pairs: Codes,
    seed: int,
) -> Journeys:
    """Draw users and cut their histories into periods.

    Parameters
    ----------
    histories : Histories
        Of all users.
    nodes : int
        How many there are.
    causes : sequence of int
        Nodes that may have an effect.
    half_lives : sequence of float
        Days.
    step : float
        Length of a period, days.
    memory : float
        Days for which a touchpoint is recent.
    users : int
        At most so many are drawn: all who converted, up to half of them, and others.
    pairs : int array, shape (n_pairs, 2)
        Positions in ``causes``.
    seed : int
        Of the draw.
    """
    cut = _Cut.of(histories, step=step, users=users, seed=seed)
    frequent = _frequent(histories, nodes)
    told = _standardised(histories.covariates[cut.chosen])
    lived = [
        _lived(
            histories,
            cut,
            slice(beginning, min(beginning + _TOGETHER, len(cut.chosen))),
            nodes=nodes,
            causes=np.asarray(causes, np.int64),
            half_lives=np.asarray(half_lives, np.float64),
            step=step,
            memory=memory / step,
            flag=frequent,
            told=told,
        )
        for beginning in range(0, len(cut.chosen), _TOGETHER)
    ]
    flags = int(frequent.max(initial=-1)) + 1
    known = np.unique(np.concatenate([np.zeros(1, np.int64), *(np.concatenate(b.recent) for b in lived)]))
    for block in lived:
        block.recent[:] = [np.searchsorted(known, each) for each in block.recent]
    patterns = (known[:, None] >> np.arange(flags) & 1).astype(np.float64)
    return Journeys(
        lived,
        nodes,
        np.asarray(causes, np.int64),
        len(half_lives),
        patterns,
        pairs,
    )


@dataclass(frozen=True, eq=False)
class _Cut:
    """Users drawn, those with the longest observations first, in periods of their own."""

    chosen: Codes
    weight: Numbers
    first: Codes
    length: Codes
    remaining: Codes
    touch_bounds: Codes
    event_order: Codes
    event_bounds: Codes

    @classmethod
    def of(cls, histories: Histories, *, step: float, users: int, seed: int) -> _Cut:
        first = np.floor(histories.since / step).astype(np.int64)
        end = np.maximum(np.ceil(histories.until / step).astype(np.int64), first + 1)
        count = len(first)
        has_converted = np.zeros(count, bool)
        has_converted[histories.event_user] = True
        random = np.random.default_rng(seed)
        buyers, others = np.flatnonzero(has_converted), np.flatnonzero(~has_converted)
        bought = random.permutation(buyers)[: max(users // 2, users - len(others))]
        others_drawn = random.permutation(others)[: max(users - len(bought), 0)]
        chosen = np.concatenate([bought, others_drawn])
        weight = np.repeat(
            [len(buyers) / max(len(bought), 1), len(others) / max(len(others_drawn), 1)],
            [len(bought), len(others_drawn)],
        )
        length = (end - first)[chosen]
        order = np.lexsort((chosen, -length))
        order_of_events = np.argsort(histories.event_user, kind="stable")
        numbers = np.arange(count + 1)
        return cls(
            chosen[order],
            weight[order],
            first,
            length[order],
            (end.max(initial=0) - end)[chosen[order]],
            np.searchsorted(histories.touch_user, numbers),
            order_of_events,
            np.searchsorted(histories.event_user[order_of_events], numbers),
        )


def _lived(
    histories: Histories,
    cut: _Cut,
    users: slice,
    *,
    nodes: int,
    causes: Codes,
    half_lives: Numbers,
    step: float,
    memory: float,
    flag: Codes,
    told: Numbers,
) -> Block:
    chosen, length = cut.chosen[users], cut.length[users]
    periods, count = int(length[0]), len(chosen)
    rows, user = _spans(cut.touch_bounds, chosen)
    node = histories.touch_node[rows]
    when = np.floor(histories.touch_time[rows] / step).astype(np.int64) - cut.first[chosen][user]
    is_cause = np.full(nodes, -1)
    is_cause[causes] = np.arange(len(causes))
    level = np.zeros((len(causes), len(half_lives), count), np.float32)
    last = np.full((int(flag.max(initial=-1)) + 1, count), -_LONG_AGO)
    early = when < 0
    left = 2.0 ** ((when[early, None] + 1) * step / half_lives)
    at_work = is_cause[node[early]] >= 0
    _add(level, is_cause[node[early]][at_work], user[early][at_work], left[at_work])
    np.maximum.at(last, (flag[node[early]], user[early]), when[early])
    kept = (2.0 ** (-step / half_lives)).astype(np.float32)[None, :, None]
    order = np.lexsort((user, node, when))
    user, node, when = user[order], node[order], when[order]
    bounds = np.searchsorted(when, np.arange(periods + 1))
    events, buyer = _spans(cut.event_bounds, chosen)
    events = cut.event_order[events]
    bought = np.floor(histories.event_time[events] / step).astype(np.int64) - cut.first[chosen][buyer]
    bought = np.clip(bought, 0, length[buyer] - 1)
    block = Block(
        [], [], [], [], [], [], [], cut.weight[users].astype("f4"), told[users].T, cut.remaining[users]
    )
    for period in range(periods):
        active = int(np.searchsorted(-length, -period, side="left"))
        now = slice(bounds[period], bounds[period + 1])
        level *= kept
        block.active.append(active)
        block.before.append(np.log1p(level[:, :, :active]).reshape(-1, active))
        is_recent = last[:, :active] >= period - memory
        block.recent.append((is_recent << np.arange(len(last))[:, None]).sum(axis=0))
        at_work = is_cause[node[now]] >= 0
        _add(level, is_cause[node[now]][at_work], user[now][at_work], np.ones((1, len(half_lives))))
        last[flag[node[now]], user[now]] = period
        block.after.append(np.log1p(level[:, :, :active]).reshape(-1, active))
        block.touched.append(_by_node(node[now], user[now]))
        is_now = bought == period
        block.converted.append(np.unique(buyer[is_now]))
        block.events.append((buyer[is_now], events[is_now]))
    return block


def _add(level: Singles, cause: Codes, user: Codes, left: Numbers) -> None:
    """Add touchpoints to what is at work; a user may have several of one cause."""
    places = np.arange(level.shape[1])
    np.add.at(level, (cause[:, None], places[None, :], user[:, None]), left.astype(np.float32))


def _spans(bounds: Codes, chosen: Codes) -> tuple[Codes, Codes]:
    """Return the rows of users, and the position of the user of each row."""
    begin, size = bounds[chosen], bounds[chosen + 1] - bounds[chosen]
    position = np.repeat(np.arange(len(chosen)), size)
    offset = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    return begin[position] + offset, position


def _by_node(node: Codes, user: Codes) -> list[tuple[int, Codes]]:
    return [(int(each), np.unique(user[node == each])) for each in np.unique(node)]


def _frequent(histories: Histories, nodes: int) -> Codes:
    """Return the flag of each node: its own for the frequent ones, and one for all others together."""
    touches = np.bincount(histories.touch_node, minlength=nodes)
    order = np.argsort(-touches, kind="stable")
    flag = np.full(nodes, MOST_APART)
    flag[order[:MOST_APART]] = np.arange(min(nodes, MOST_APART))
    return flag


def _standardised(columns: Numbers) -> Numbers:
    spread = columns.std(axis=0)
    centred = columns - columns.mean(axis=0)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))
