"""Finds the nodes that reach users for what touched them recently, such as advertisements to visitors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from attrib_ds.attribution.incremental.histories import Histories

#: A node follows users if it has so many touchpoints and less than this part of them on others.
_ENOUGH: Final = 50
_HARDLY: Final = 0.02


def find_followers(histories: Histories, nodes: int, *, memory: float) -> list[int]:
    """Return the nodes that reach hardly anybody but those whom another one touched recently.

    Touchpoints that come before so much of a user's observation is over tell nothing.
    """
    user, node, when = histories.touch_user, histories.touch_node, histories.touch_time
    count = len(user)
    if not count:
        return []
    is_new = np.ones(count, bool)
    is_new[1:] = (user[1:] != user[:-1]) | (node[1:] != node[:-1])
    begin = np.maximum.accumulate(np.where(is_new, np.arange(count), 0))
    other = np.maximum(begin - 1, 0)
    is_alone = (begin == 0) | (user[other] != user) | (when - when[other] > memory + 1)
    tells = when >= histories.since[user] + memory
    told = np.bincount(node[tells], minlength=nodes)
    alone = np.bincount(node[tells & is_alone], minlength=nodes)
    return [int(each) for each in np.flatnonzero((told >= _ENOUGH) & (alone < _HARDLY * told))]
