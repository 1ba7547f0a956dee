"""Cuts histories into periods, in blocks of users that are lived together for as long as they are alike."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.attribution.incremental.latent_intent.branching import Branching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories
    from attrib_ds.attribution.incremental.latent_intent.days import Days

    Codes = NDArray[np.int64]
    Numbers = NDArray[np.float64]
    Singles = NDArray[np.float32]

#: Different histories of a block: what is computed for them in a period fits into a processor's cache.
_TOGETHER: Final = 2_500
#: Those whose observation is over go on without weight until they are this part of a block.
_OVER: Final = 0.1
#: Nodes whose recent touchpoints are told apart; those of all further nodes are told together.
MOST_APART: Final = 8
_LONG_AGO: Final = -(1 << 20)


@dataclass(frozen=True, eq=False)
class Period:
    """One period of a block; arrays end with the branch.

    Attributes
    ----------
    branching : Branching
        What goes on from what.
    weight, ends : float32 array
        Users who are observed in the period, and those of them whose observation ends with it.
    touched : int array, shape (2, n)
        Node and branch of what touched somebody; after the nodes comes the conversion.
    told : int array
        Row of ``Journeys.told``.
    recent : int array
        Which pattern of recent touchpoints it begins with.
    before : float32 array, shape (n_effects, n_branches_before)
        What is at work of each cause when it begins, of the branches before it.
    after : float32 array, shape (n_effects, n_branches)
        What is when it ends.
    events : int array, shape (3, n)
        Branch, conversion, and the periods that would have been left, -1 where the observation goes on.
    """

    branching: Branching
    weight: Singles
    ends: Singles
    touched: Codes
    told: Codes
    recent: Codes
    before: Singles
    after: Singles
    events: Codes


@dataclass(frozen=True, eq=False)
class Journeys:
    """All blocks, each a list of its periods, and what their arrays mean.

    Attributes
    ----------
    nodes : int
        How many nodes there are.
    causes : int array
        Nodes that may have an effect.
    lives : int
        How many half-lives.
    told : float array, shape (n_kinds, n_covariates)
        What is known of users, standardised.
    followers : int array
        Nodes that reach users for what touched them recently.
    patterns : float array, shape (n_patterns, n_flags)
        Whether each node, or any of the rarer ones, touched the user within the memory; one row per pattern.
    pairs : int array, shape (n_pairs, 2)
        Positions in ``causes`` of those that may strengthen each other.
    longest : int
        Periods that may be left after an observation.
    """

    blocks: list[list[Period]]
    nodes: int
    causes: Codes
    lives: int
    told: Numbers
    followers: Codes
    patterns: Numbers
    pairs: Codes
    longest: int


@dataclass(frozen=True, eq=False)
class Cut:
    """How histories are cut.

    Parameters
    ----------
    nodes : int
        How many there are.
    causes : sequence of int
        Nodes that may have an effect.
    followers : sequence of int
        Nodes that reach users for what touched them recently.
    half_lives : sequence of float
        Days.
    step : float
        Length of a period, days.
    memory : float
        Days for which a touchpoint is recent.
    pairs : int array, shape (n_pairs, 2)
        Positions in ``causes``.
    """

    nodes: int
    causes: Sequence[int]
    followers: Sequence[int]
    half_lives: Sequence[float]
    step: float
    memory: float
    pairs: Codes


def cut_journeys(histories: Histories, days: Days, cut: Cut, chosen: Codes, weight: Numbers) -> Journeys:
    """Cut the histories of users, in the order of ranks, into blocks of branching periods.

    Parameters
    ----------
    histories : Histories
        Of all users.
    days : Days
        The same in periods.
    cut : Cut
        What the parts mean.
    chosen : int array
        Users, by rank.
    weight : float array
        How many each stands for.
    """
    flag = _frequent(histories, cut.nodes)
    different = np.cumsum(np.diff(days.rank[chosen], prepend=-1) != 0) - 1
    block_of = different // _TOGETHER
    bounds = np.searchsorted(block_of, np.arange(int(block_of.max(initial=0)) + 2))
    cutter = _Cutter.of(histories, days, cut, flag)
    blocks = [
        cutter.block(chosen[beginning:ending], weight[beginning:ending])
        for beginning, ending in pairwise(bounds)
        if ending > beginning
    ]
    flags = int(flag.max(initial=-1)) + 1 if len(cut.followers) else 0
    return Journeys(
        blocks,
        cut.nodes,
        np.asarray(cut.causes, np.int64),
        len(cut.half_lives),
        cutter.told,
        np.asarray(cut.followers, np.int64),
        (np.arange(1 << flags)[:, None] >> np.arange(flags) & 1).astype(np.float64),
        cut.pairs,
        int(days.remaining.max(initial=0)),
    )


@dataclass(frozen=True, eq=False)
class _Cutter:
    """Everything that blocks are cut from; touchpoints and conversions by user."""

    days: Days
    cut: Cut
    flag: Codes
    told: Numbers
    told_of: Codes
    touch_bounds: Codes
    touch_node: Codes
    touch_period: Codes
    event_order: Codes
    event_bounds: Codes
    event_period: Codes

    @classmethod
    def of(cls, histories: Histories, days: Days, cut: Cut, flag: Codes) -> _Cutter:
        numbers = np.arange(len(days.first) + 1)
        order = np.argsort(histories.event_user, kind="stable")
        touch, event = histories.touch_user, histories.event_user[order]
        when = np.floor(histories.touch_time / cut.step).astype(np.int64) - days.first[touch]
        bought = np.floor(histories.event_time[order] / cut.step).astype(np.int64) - days.first[event]
        rows, which = np.unique(histories.covariates, axis=0, return_inverse=True)
        spread = histories.covariates.std(axis=0)
        told = (rows - histories.covariates.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return cls(
            days,
            cut,
            flag,
            told,
            np.asarray(which, np.int64).reshape(-1),
            np.searchsorted(touch, numbers),
            histories.touch_node,
            when,
            order,
            np.searchsorted(event, numbers),
            np.clip(bought, 0, days.length[event] - 1),
        )

    def block(self, users: Codes, weight: Numbers) -> list[Period]:
        """Return the periods of users."""
        days, cut = self.days, self.cut
        causes, lives = len(cut.causes), len(cut.half_lives)
        rows, of_row = _spans(self.touch_bounds, users)
        node, when = self.touch_node[rows], self.touch_period[rows]
        event_rows, buyer = _spans(self.event_bounds, users)
        event, bought = self.event_order[event_rows], self.event_period[event_rows]
        length, remaining = days.length[users], days.remaining[users]
        _, first, place = np.unique(days.root[users], return_index=True, return_inverse=True)
        is_cause = np.full(cut.nodes, -1)
        is_cause[np.asarray(cut.causes, np.int64)] = np.arange(causes)
        half_lives = np.asarray(cut.half_lives, np.float64)
        level = np.zeros((causes, lives, len(first)), np.float32)
        flags = int(self.flag.max(initial=-1)) + 1 if len(cut.followers) else 0
        last = np.full((flags, len(first)), _LONG_AGO)
        early = (when < 0) & (first[place[of_row]] == of_row)
        left = 2.0 ** ((when[early, None] + 1) * cut.step / half_lives)
        _add(level, is_cause[node[early]], place[of_row[early]], left)
        if flags:
            np.maximum.at(last, (self.flag[node[early]], place[of_row[early]]), when[early])
        kept = (2.0 ** (-cut.step / half_lives)).astype(np.float32)[None, :, None]
        periods = int(length.max())
        rows_of_days, of_day = _spans(days.bounds, users)
        by_day = np.argsort(days.period[rows_of_days], kind="stable")
        day_bounds = np.searchsorted(days.period[rows_of_days[by_day]], np.arange(periods + 1))
        when[when >= length[of_row]] = periods
        by_time = np.argsort(when, kind="stable")
        bounds = np.searchsorted(when[by_time], np.arange(periods + 1))
        found = []
        for period in range(periods):
            level *= kept
            is_there = place >= 0
            code = np.zeros(len(users), np.int64)
            today = by_day[day_bounds[period] : day_bounds[period + 1]]
            code[of_day[today]] = days.code[rows_of_days[today]]
            key = np.where(is_there, place * (int(code.max(initial=0)) + 1) + code, -1)
            is_watched = length > period
            dropped = self._over(key, is_watched)
            key[dropped] = -1
            there = np.flatnonzero(key >= 0)
            _, first, inverse = np.unique(key[there], return_index=True, return_inverse=True)
            first = there[first]
            branching = Branching.of(level.shape[2], place[first])
            place = np.full(len(users), -1)
            place[there] = inverse
            count = len(first)
            before = np.log1p(level).reshape(-1, level.shape[2])
            recent = ((last >= period - cut.memory / cut.step) << np.arange(flags)[:, None]).sum(axis=0)
            recent = branching.spread(recent)
            level, last = branching.spread(level), branching.spread(last)
            now = by_time[bounds[period] : bounds[period + 1]]
            # One user of each branch tells what happened to all of it.
            now = now[first[place[of_row[now]]] == of_row[now]]
            at_branch, by_node = place[of_row[now]], node[now]
            _add(level, is_cause[by_node], at_branch, np.ones((len(now), lives)))
            if flags:
                last[self.flag[by_node], at_branch] = period
            ending = length == period + 1
            is_now = bought == period
            converted = np.unique(place[buyer[is_now]])
            touched = np.unique(by_node * count + at_branch)
            found.append(
                Period(
                    branching,
                    np.bincount(place[is_watched], weight[is_watched], count).astype("f4"),
                    np.bincount(place[ending], weight[ending], count).astype("f4"),
                    np.stack(
                        [
                            np.concatenate([touched // count, np.full(len(converted), cut.nodes)]),
                            np.concatenate([touched % count, converted]),
                        ]
                    ),
                    self.told_of[users[first]],
                    recent,
                    before,
                    np.log1p(level).reshape(-1, count),
                    np.stack(
                        [
                            place[buyer[is_now]],
                            event[is_now],
                            np.where(ending[buyer[is_now]], remaining[buyer[is_now]], -1),
                        ]
                    ),
                )
            )
        return found

    def _over(self, key: Codes, is_watched: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return whose branch is left out: nobody of it is observed, and there are many such branches."""
        alive = np.unique(key[is_watched])
        present = np.unique(key[key >= 0])
        if len(present) - len(alive) <= _OVER * len(present):
            return np.zeros(len(key), bool)
        return ~np.isin(key, alive)


def _add(level: Singles, cause: Codes, branch: Codes, left: Numbers) -> None:
    """Add touchpoints of causes to what is at work; a branch may have several of one cause."""
    works = cause >= 0
    places = np.arange(level.shape[1])
    np.add.at(
        level, (cause[works, None], places[None, :], branch[works, None]), left[works].astype(np.float32)
    )


def _spans(bounds: Codes, chosen: Codes) -> tuple[Codes, Codes]:
    """Return the rows of users, and the position of the user of each row."""
    begin, size = bounds[chosen], bounds[chosen + 1] - bounds[chosen]
    position = np.repeat(np.arange(len(chosen)), size)
    offset = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    return begin[position] + offset, position


def _frequent(histories: Histories, nodes: int) -> Codes:
    """Return the flag of each node: its own for the frequent ones, and one for all others together."""
    touches = np.bincount(histories.touch_node, minlength=nodes)
    order = np.argsort(-touches, kind="stable")
    flag = np.full(nodes, MOST_APART)
    flag[order[:MOST_APART]] = np.arange(min(nodes, MOST_APART))
    return flag
