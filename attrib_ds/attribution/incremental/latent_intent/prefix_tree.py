"""Prefix tree of user histories: users whose histories have been alike so far share a branch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from attrib_ds.attribution.incremental.categories import standardised
from attrib_ds.attribution.paths.codes import number_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories

    Codes = NDArray[np.int64]
    Numbers = NDArray[np.float64]
    Singles = NDArray[np.float32]

#: Distinct histories of a block, so that the arrays of a period fit into a processor's cache.
_BLOCK_SIZE: Final = 2_500
#: Branches whose users' observations have ended stay, with weight 0, up to this share of a block.
_LARGEST_ENDED_SHARE: Final = 0.1
#: Nodes with a flag of their own in patterns of recent touchpoints; all others share one.
MOST_FLAGS: Final = 8
_NEVER: Final = -(1 << 20)
#: Children of a branch up to which they are summed one by one.
_FEW_CHILDREN: Final = 4


@dataclass(frozen=True, eq=False)
class EncodedHistories:
    """Touchpoints and conversions of each user and period, encoded so that equal histories compare equal.

    Attributes
    ----------
    first, length : int array, shape (n_users,)
        First period of each user's observation, and number of periods.
    remaining : int array, shape (n_users,)
        Periods from the end of the observation to the end of the last one.
    root : int array, shape (n_users,)
        Number of the covariates; users with touchpoints before the observation have a number each.
    bounds : int array, shape (n_users + 1,)
        Bounds of the entries of each user in ``period`` and ``code``.
    period, code : int array
        One entry per user and period with a touchpoint or conversion; equal codes mean equal multisets.
    rank : int array, shape (n_users,)
        Lexicographic rank of the history; equal histories have equal ranks.
    """

    first: Codes
    length: Codes
    remaining: Codes
    root: Codes
    bounds: Codes
    period: Codes
    code: Codes
    rank: Codes

    @classmethod
    def of(cls, histories: Histories, *, nodes: int, step: float) -> EncodedHistories:
        """Encode histories of users."""
        first = np.floor(histories.since / step).astype(np.int64)
        end = np.maximum(np.ceil(histories.until / step).astype(np.int64), first + 1)
        length = end - first
        touched = np.floor(histories.touch_time / step).astype(np.int64) - first[histories.touch_user]
        bought = np.floor(histories.event_time / step).astype(np.int64) - first[histories.event_user]
        bought = np.clip(bought, 0, length[histories.event_user] - 1)
        is_early = touched < 0
        is_in = (touched >= 0) & (touched < length[histories.touch_user])
        root = _numbered(histories.covariates)
        has_before = np.unique(histories.touch_user[is_early])
        root[has_before] = root.max(initial=0) + 1 + np.arange(len(has_before))
        # An item is a touchpoint of a node or, after all nodes, a conversion.
        user = np.concatenate([histories.touch_user[is_in], histories.event_user])
        period = np.concatenate([touched[is_in], bought])
        item = np.concatenate([histories.touch_node[is_in], np.full(len(bought), nodes)])
        user, period, code = _coded(user, period, item, nodes + 1)
        rank = root.copy()
        by_period = np.argsort(period, kind="stable")
        between = np.searchsorted(period[by_period], np.arange(int(length.max(initial=0)) + 1))
        for beginning, ending in pairwise(between):
            now = np.zeros(len(rank), np.int64)
            there = by_period[beginning:ending]
            now[user[there]] = code[there]
            _, rank = number_rows(np.column_stack([rank, now]))
        bounds = np.searchsorted(user, np.arange(len(first) + 1))
        return cls(first, length, end.max(initial=0) - end, root, bounds, period, code, rank)


def _numbered(rows: Numbers) -> Codes:
    if not rows.shape[1]:
        return np.zeros(len(rows), np.int64)
    _, numbers = np.unique(rows, axis=0, return_inverse=True)
    return np.asarray(numbers, np.int64).reshape(-1)


def _coded(user: Codes, period: Codes, item: Codes, items: int) -> tuple[Codes, Codes, Codes]:
    """Give distinct multisets of items numbers from 1, adding one item at a time."""
    order = np.lexsort((item, period, user))
    user, period, item = user[order], period[order], item[order]
    is_new = np.ones(len(user), bool)
    is_new[1:] = (user[1:] != user[:-1]) | (period[1:] != period[:-1])
    begins = np.flatnonzero(is_new)
    bag = np.cumsum(is_new) - 1
    place = np.arange(len(user)) - begins[bag]
    code = np.zeros(len(begins), np.int64)
    for each in range(int(place.max(initial=-1)) + 1):
        now = np.flatnonzero(place == each)
        _, numbers = np.unique(code[bag[now]] * items + item[now], return_inverse=True)
        code[bag[now]] = numbers + code.max(initial=0) + 1
    return user[begins], period[begins], code


@dataclass(frozen=True, eq=False)
class Branching:
    """Edges between the branches of one period and those of the period before.

    Attributes
    ----------
    before : int
        Number of branches in the period before.
    parent : int array, shape (n_branches,)
        Branch of the period before, ascending.
    is_plain : bool
        Whether every branch has exactly one child.
    """

    before: int
    parent: Codes
    is_plain: bool
    _begins: Codes
    _childless: Codes
    _later: list[tuple[Codes, Codes]]
    _children: Codes
    _starts: Codes
    _parents: Codes

    @classmethod
    def of(cls, before: int, parent: Codes) -> Branching:
        """Index the branches by their parents."""
        begins = np.flatnonzero(np.diff(parent, prepend=-1))
        sizes = np.diff(begins, append=len(parent))
        first = np.zeros(before, np.int64)
        first[parent[begins]] = begins
        # Sums of few children are fastest one child at a time.
        few = [(sizes > place) & (sizes <= _FEW_CHILDREN) for place in range(1, _FEW_CHILDREN)]
        many = sizes > _FEW_CHILDREN
        return cls(
            before,
            parent,
            len(begins) == len(parent) == before,
            first,
            np.setdiff1d(np.arange(before), parent),
            [(parent[begins[has]], begins[has] + place) for place, has in enumerate(few, 1) if has.any()],
            np.flatnonzero(np.repeat(many, sizes)),
            np.cumsum(sizes[many]) - sizes[many],
            parent[begins[many]],
        )

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return for every branch the value of its parent, along the last axis."""
        return values if self.is_plain else np.take(values, self.parent, axis=-1)

    def collect(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum values over the children of each parent, along the last axis."""
        if self.is_plain:
            return values
        total = np.take(values, self._begins, axis=-1)
        total[..., self._childless] = 0
        for parent, child in self._later:
            total[..., parent] += np.take(values, child, axis=-1)
        if len(self._parents):
            several = np.take(values, self._children, axis=-1)
            total[..., self._parents] = np.add.reduceat(several, self._starts, axis=-1)
        return total


@dataclass(frozen=True, eq=False)
class Period:
    """One period of a block; arrays end with the branch.

    Attributes
    ----------
    branching : Branching
        Edges to the period before.
    weight, ends : float32 array
        Users observed in the period, and those of them whose observation ends with it.
    touches : int array, shape (2, n)
        Branch of touchpoints, and column of ``PrefixTree.touch_kinds``.
    turns : list of slice
        Parts of ``touches`` with at most one touchpoint of each branch.
    buyers : int array
        Branches with a conversion.
    covariate_row : int array
        Row of ``PrefixTree.covariates``.
    pattern : int array
        Row of ``PrefixTree.patterns`` at the beginning of the period.
    adstock_before : float32 array, shape (n_effects, n_branches_before)
        Saturated adstock of each cause and half-life at the beginning, for the branches of the period before.
    adstock_after : float32 array, shape (n_effects, n_branches)
        The same at the end.
    events : int array, shape (3, n)
        Branch, position of the conversion, and the periods left to the end of the last observation; -1 where
        the user's observation goes on.
    """

    branching: Branching
    weight: Singles
    ends: Singles
    touches: Codes
    turns: list[slice]
    buyers: Codes
    covariate_row: Codes
    pattern: Codes
    adstock_before: Singles
    adstock_after: Singles
    events: Codes


@dataclass(frozen=True, eq=False)
class PrefixTree:
    """Prefix tree of histories, in blocks of users, each a list of periods.

    Attributes
    ----------
    blocks : list of list of Period
        One list per block.
    nodes : int
        Number of nodes.
    causes : int array
        Nodes that may have an effect.
    half_lives : int
        Number of half-lives.
    covariates : float array, shape (n_profiles, n_covariates)
        Distinct profiles of covariates, standardised.
    followers : int array
        Nodes whose touchpoints depend on recent touchpoints, such as retargeting.
    patterns : float array, shape (n_patterns, n_flags)
        One row per pattern: whether each node, or any of the rarer ones, touched the user within the memory.
    touch_kinds : int array, shape (3, n_kinds)
        Kinds of touchpoints: node, row of ``covariates`` and, of followers, row of ``patterns``.
    pairs : int array, shape (n_pairs, 2)
        Positions in ``causes`` of the pairs with an interaction.
    longest : int
        Maximum number of periods left after an observation.
    """

    blocks: list[list[Period]]
    nodes: int
    causes: Codes
    half_lives: int
    covariates: Numbers
    followers: Codes
    patterns: Numbers
    touch_kinds: Codes
    pairs: Codes
    longest: int


@dataclass(frozen=True, eq=False)
class TreeSettings:
    """Settings of a prefix tree.

    Parameters
    ----------
    nodes : int
        Number of nodes.
    causes : sequence of int
        Nodes that may have an effect.
    followers : sequence of int
        Nodes whose touchpoints depend on recent touchpoints.
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


def build_tree(
    histories: Histories, encoded: EncodedHistories, settings: TreeSettings, chosen: Codes, weight: Numbers
) -> PrefixTree:
    """Build the prefix tree of the histories of some users.

    Parameters
    ----------
    histories : Histories
        Histories of all users.
    encoded : EncodedHistories
        The same, encoded by period.
    settings : TreeSettings
        Settings of the tree.
    chosen : int array
        Users, by rank.
    weight : float array
        Number of users that each stands for.
    """
    flag = pattern_flags(histories, settings.nodes)
    different = np.cumsum(np.diff(encoded.rank[chosen], prepend=-1) != 0) - 1
    block_of = different // _BLOCK_SIZE
    bounds = np.searchsorted(block_of, np.arange(int(block_of.max(initial=0)) + 2))
    builder = _TreeBuilder.of(histories, encoded, settings, flag)
    blocks = [
        builder.block(chosen[beginning:ending], weight[beginning:ending])
        for beginning, ending in pairwise(bounds)
        if ending > beginning
    ]
    flags = int(flag.max(initial=-1)) + 1 if len(settings.followers) else 0
    touches = [period.touches for block in blocks for period in block]
    # Touchpoints hold the number of their kind among all kinds there could be; few occur.
    kinds = np.unique(np.concatenate([np.zeros(0, np.int64), *(kind for _, kind in touches)]))
    for each in touches:
        each[1] = np.searchsorted(kinds, each[1])
    return PrefixTree(
        blocks,
        settings.nodes,
        np.asarray(settings.causes, np.int64),
        len(settings.half_lives),
        builder.covariates,
        np.asarray(settings.followers, np.int64),
        (np.arange(1 << flags)[:, None] >> np.arange(flags) & 1).astype(np.float64),
        np.stack(np.unravel_index(kinds, (settings.nodes, len(builder.covariates), 1 << flags))),
        settings.pairs,
        int(encoded.remaining.max(initial=0)),
    )


@dataclass(frozen=True, eq=False)
class _TreeBuilder:
    """Touchpoints and conversions by user and period, from which blocks are built."""

    encoded: EncodedHistories
    settings: TreeSettings
    flag: Codes
    covariates: Numbers
    covariate_row: Codes
    touch_bounds: Codes
    touch_node: Codes
    touch_period: Codes
    event_order: Codes
    event_bounds: Codes
    event_period: Codes

    @classmethod
    def of(
        cls, histories: Histories, encoded: EncodedHistories, settings: TreeSettings, flag: Codes
    ) -> _TreeBuilder:
        numbers = np.arange(len(encoded.first) + 1)
        order = np.argsort(histories.event_user, kind="stable")
        touch, event = histories.touch_user, histories.event_user[order]
        when = np.floor(histories.touch_time / settings.step).astype(np.int64) - encoded.first[touch]
        bought = np.floor(histories.event_time[order] / settings.step).astype(np.int64) - encoded.first[event]
        _, first, which = np.unique(histories.covariates, axis=0, return_index=True, return_inverse=True)
        covariates = standardised(histories.covariates)[first]
        return cls(
            encoded,
            settings,
            flag,
            covariates,
            np.asarray(which, np.int64).reshape(-1),
            np.searchsorted(touch, numbers),
            histories.touch_node,
            when,
            order,
            np.searchsorted(event, numbers),
            np.clip(bought, 0, encoded.length[event] - 1),
        )

    def block(self, users: Codes, weight: Numbers) -> list[Period]:
        """Return the periods of a block of users."""
        encoded, settings = self.encoded, self.settings
        causes, lives = len(settings.causes), len(settings.half_lives)
        rows, of_row = _spans(self.touch_bounds, users)
        node, when = self.touch_node[rows], self.touch_period[rows]
        event_rows, buyer = _spans(self.event_bounds, users)
        event, bought = self.event_order[event_rows], self.event_period[event_rows]
        length, remaining = encoded.length[users], encoded.remaining[users]
        _, first, place = np.unique(encoded.root[users], return_index=True, return_inverse=True)
        is_cause = np.full(settings.nodes, -1)
        is_cause[np.asarray(settings.causes, np.int64)] = np.arange(causes)
        is_follower = np.isin(np.arange(settings.nodes), settings.followers)
        half_lives = np.asarray(settings.half_lives, np.float64)
        adstock = np.zeros((causes, lives, len(first)), np.float32)
        flags = int(self.flag.max(initial=-1)) + 1 if len(settings.followers) else 0
        last = np.full((flags, len(first)), _NEVER)
        early = (when < 0) & (first[place[of_row]] == of_row)
        left = 2.0 ** ((when[early, None] + 1) * settings.step / half_lives)
        _add(adstock, is_cause[node[early]], place[of_row[early]], left)
        if flags:
            np.maximum.at(last, (self.flag[node[early]], place[of_row[early]]), when[early])
        kept = (2.0 ** (-settings.step / half_lives)).astype(np.float32)[None, :, None]
        periods = int(length.max())
        rows_of_days, of_day = _spans(encoded.bounds, users)
        by_day = np.argsort(encoded.period[rows_of_days], kind="stable")
        day_bounds = np.searchsorted(encoded.period[rows_of_days[by_day]], np.arange(periods + 1))
        when[when >= length[of_row]] = periods
        by_time = np.argsort(when, kind="stable")
        bounds = np.searchsorted(when[by_time], np.arange(periods + 1))
        result = []
        for period in range(periods):
            adstock *= kept
            is_there = place >= 0
            code = np.zeros(len(users), np.int64)
            today = by_day[day_bounds[period] : day_bounds[period + 1]]
            code[of_day[today]] = encoded.code[rows_of_days[today]]
            key = np.where(is_there, place * (int(code.max(initial=0)) + 1) + code, -1)
            is_observed = length > period
            is_dropped = self._ended(key, is_observed)
            key[is_dropped] = -1
            there = np.flatnonzero(key >= 0)
            _, first, inverse = np.unique(key[there], return_index=True, return_inverse=True)
            first = there[first]
            branching = Branching.of(adstock.shape[2], place[first])
            place = np.full(len(users), -1)
            place[there] = inverse
            count = len(first)
            before = np.log1p(adstock).reshape(-1, adstock.shape[2])
            recent = ((last >= period - settings.memory / settings.step) << np.arange(flags)[:, None]).sum(
                axis=0
            )
            recent = branching.spread(recent)
            adstock, last = branching.spread(adstock), branching.spread(last)
            now = by_time[bounds[period] : bounds[period + 1]]
            # All users of a branch are alike, so the first one stands for it.
            now = now[first[place[of_row[now]]] == of_row[now]]
            at_branch, by_node = place[of_row[now]], node[now]
            _add(adstock, is_cause[by_node], at_branch, np.ones((len(now), lives)))
            if flags:
                last[self.flag[by_node], at_branch] = period
            ending = length == period + 1
            is_now = bought == period
            converted = np.unique(place[buyer[is_now]])
            touched_node, touched_branch = np.divmod(np.unique(by_node * count + at_branch), count)
            order, turns = _turns(touched_branch)
            touched_node, touched_branch = touched_node[order], touched_branch[order]
            row = self.covariate_row[users[first]]
            kind = touched_node * len(self.covariates) + row[touched_branch]
            pattern = np.where(is_follower[touched_node], recent[touched_branch], 0)
            result.append(
                Period(
                    branching,
                    np.bincount(place[is_observed], weight[is_observed], count).astype("f4"),
                    np.bincount(place[ending], weight[ending], count).astype("f4"),
                    np.stack([touched_branch, (kind << flags) + pattern]),
                    turns,
                    converted,
                    row,
                    recent,
                    before,
                    np.log1p(adstock).reshape(-1, count),
                    np.stack(
                        [
                            place[buyer[is_now]],
                            event[is_now],
                            np.where(ending[buyer[is_now]], remaining[buyer[is_now]], -1),
                        ]
                    ),
                )
            )
        return result

    def _ended(self, key: Codes, is_observed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the users of branches to drop: nobody in them is observed any more, and they are many."""
        alive = np.unique(key[is_observed])
        present = np.unique(key[key >= 0])
        if len(present) - len(alive) <= _LARGEST_ENDED_SHARE * len(present):
            return np.zeros(len(key), bool)
        return ~np.isin(key, alive)


def _turns(branch: Codes) -> tuple[Codes, list[slice]]:
    """Return an order of touchpoints, and its parts, in which each branch has at most one."""
    order = np.argsort(branch, kind="stable")
    turn = np.empty_like(order)
    turn[order] = np.arange(len(order)) - np.searchsorted(branch[order], branch[order])
    bounds = np.cumsum(np.bincount(turn, minlength=1)).tolist()
    return np.argsort(turn, kind="stable"), [slice(*ends) for ends in pairwise([0, *bounds])]


def _add(adstock: Singles, cause: Codes, branch: Codes, left: Numbers) -> None:
    """Add touchpoints of causes to the adstock; a branch may have several of one cause."""
    works = cause >= 0
    places = np.arange(adstock.shape[1])
    np.add.at(
        adstock, (cause[works, None], places[None, :], branch[works, None]), left[works].astype(np.float32)
    )


def _spans(bounds: Codes, chosen: Codes) -> tuple[Codes, Codes]:
    """Return the rows of users, and the position of the user of each row."""
    begin, size = bounds[chosen], bounds[chosen + 1] - bounds[chosen]
    position = np.repeat(np.arange(len(chosen)), size)
    offset = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    return begin[position] + offset, position


def pattern_flags(histories: Histories, nodes: int) -> Codes:
    """Return the flag of each node: one of its own for frequent nodes, and one for all others."""
    touches = np.bincount(histories.touch_node, minlength=nodes)
    order = np.argsort(-touches, kind="stable")
    flag = np.full(nodes, MOST_FLAGS)
    flag[order[:MOST_FLAGS]] = np.arange(min(nodes, MOST_FLAGS))
    return flag
