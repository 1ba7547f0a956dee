"""Gives what happened to users in a period numbers, so that equal histories are known by equal numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from attrib_ds.attribution.paths.codes import number_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.histories import Histories

    Codes = NDArray[np.int64]
    Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Days:
    """What happened to each user in each period of their observation, as numbers.

    Attributes
    ----------
    first, length : int array, shape (n_users,)
        First period of each user's observation, and how many there are.
    remaining : int array, shape (n_users,)
        Periods from the end of each observation to the end of all.
    root : int array, shape (n_users,)
        Same number, same covariates and nothing before the observation.
    bounds : int array, shape (n_users + 1,)
        Between the entries of users in the two arrays below.
    period, code : int array
        One entry per user and period in which something happened; equal codes, equal happenings.
    rank : int array, shape (n_users,)
        Of the histories in the order of what happened first; equal histories have equal ranks.
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
    def of(cls, histories: Histories, *, nodes: int, step: float) -> Days:
        """Give equal happenings equal numbers."""
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
    """Give the different bags of items of users and periods numbers from 1; bags grow item by item."""
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
