"""Sessions of users, in which they convert: their probability of a conversion, and of a further session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.incremental.person_periods import Periods, activity_at, adstock_at
from attrib_ds.traffic.sessions import TIMEOUT

#: Days before a session at which the touchpoints that may have led to it are counted.
BEFORE: Final = 1e-9
#: Days between touchpoints from which on another session begins, and it no longer converts. Days are rounded.
GAP: Final = TIMEOUT / 86_400_000 - BEFORE
#: Share of conversions in sessions above which people are said to convert in sessions.
_MOST: Final = 0.5
#: Adstock whose saturation is 1: an indicator.
_ONE: Final = np.e - 1


@dataclass(frozen=True, eq=False)
class Sessions:
    """Sessions of users, in the order of users and times.

    Attributes
    ----------
    user, opener : int array
        User, and the node of the first touchpoint.
    time : float array
        Beginning, days since the first observation began.
    of_event : int array
        Session in which each conversion happened, -1 for none.
    share : float
        Share of the conversions that happened in sessions.
    is_scale : bool
        Whether people convert in sessions: most do, also of those after which another node than the most
        frequent was last. A single node at the checkout makes no sessions.
    """

    user: Codes
    opener: Codes
    time: Numbers
    of_event: Codes
    share: float
    is_scale: bool

    @classmethod
    def of(cls, histories: Histories) -> Sessions:
        """Divide the touchpoints of users into sessions."""
        user, time, node = histories.touch_user, histories.touch_time, histories.touch_node
        is_first = (np.diff(user, prepend=-1) != 0) | (np.diff(time, prepend=-np.inf) >= GAP)
        number = np.cumsum(is_first, dtype=np.int64) - 1
        # Users are further apart than the times of any two of their touchpoints and conversions.
        times = np.concatenate([time, histories.event_time])
        apart = np.ptp(times) + 1.0 if len(times) else 1.0
        last = np.searchsorted(
            user * apart + time, histories.event_user * apart + histories.event_time + BEFORE
        )
        last -= 1
        is_own = (last >= 0) & (user[last] == histories.event_user) if len(user) else last >= 0
        is_within = is_own.copy()
        is_within[is_own] = histories.event_time[is_own] - time[last[is_own]] < GAP
        of_event = np.where(is_within, number[last] if len(user) else -1, -1)
        share = float(is_within.mean()) if len(is_within) else 0.0
        others = is_within
        if len(np.unique(node)) > 1 and is_within.any():
            frequent = np.bincount(node[last[is_within]]).argmax()
            others = is_within[~is_within | (node[last] != frequent)]
        is_scale = share > _MOST and bool(len(others)) and float(others.mean()) > _MOST
        return cls(user[is_first], node[is_first], time[is_first], of_event, share, is_scale)

    def within(self, histories: Histories) -> tuple[Histories, Codes]:
        """Return histories in which conversions outside sessions are unobserved, and the others' sessions."""
        is_kept = self.of_event >= 0
        return histories.observing(is_kept), self.of_event[is_kept]

    def periods(
        self, histories: Histories, of_event: Codes, *, nodes: int, half_lives: list[float], step: float,
        rows: int, seed: int,
    ) -> Periods:  # fmt: skip
        """Return every session with a conversion, and a random sample of those without.

        The last of the half-lives is an indicator of the node that opened the session.
        """
        others = (self.time >= histories.since[self.user]) & (self.time <= histories.until[self.user])
        others[of_event] = False
        drawn = np.flatnonzero(others)
        weight = 1.0
        if len(drawn) > rows:
            weight = len(drawn) / rows
            drawn = np.sort(np.random.default_rng(seed).choice(drawn, rows, replace=False))
        which = np.concatenate([of_event, drawn])
        user, moment = self.user[which], self.time[which] - BEFORE
        adstock = adstock_at(histories, user, moment, nodes=nodes, half_lives=half_lives)
        opened = np.zeros((len(which), nodes, 1), np.float32)
        opened[np.arange(len(which), dtype=np.int64), self.opener[which], 0] = _ONE
        return Periods(
            np.concatenate([adstock, opened], axis=2),
            user,
            np.floor(np.maximum(moment, 0) / step).astype(np.int64),
            np.concatenate(
                [np.arange(len(of_event), dtype=np.int64), np.full(len(drawn), -1, dtype=np.int64)]
            ),
            np.concatenate([np.ones(len(of_event)), np.full(len(drawn), weight)]),
            moment,
            activity_at(histories, user, moment),
        )


@dataclass(frozen=True, eq=False)
class Further:
    """Probability of the sessions with conversions, and how they would have come about without nodes.

    Attributes
    ----------
    opener : int array
        Node that opened the session of each conversion.
    is_own : bool array, shape (n_nodes,)
        Nodes whose sessions users open of their own will, such as negative controls: they would have come
        anyway.
    of_others : float array, shape (n_nodes,)
        Share of all sessions that other nodes opened.
    periods_left : float array, shape (n_conversions,)
        Periods that are not observed because the conversion ends the observation: who does not buy in a
        session may buy in a later one.
    chance : list of float array, shape (n_conversions,)
        Probability of a session in the period: of all users, then without each fold.
    kept : list of float array, shape (n_conversions, n_nodes)
        Share of it that is left without the effects of each node's earlier touchpoints.
    """

    opener: Codes
    is_own: Flags
    of_others: Numbers
    periods_left: Numbers
    chance: list[Numbers]
    kept: list[Numbers]

    def at(self, which: Flags) -> Further:
        """Return those of some conversions."""
        several = ([each[which] for each in of_folds] for of_folds in (self.chance, self.kept))
        return Further(self.opener[which], self.is_own, self.of_others, self.periods_left[which], *several)

    def anyway(self) -> Further:
        """Return them if every session would have come anyway, whatever opened it."""
        return replace(self, is_own=np.ones_like(self.is_own))

    def remaining(self, sample: int) -> Numbers:
        """Return the probability that each session would have come without each node, in a sample."""
        is_lost = (np.arange(len(self.is_own), dtype=np.int64) == self.opener[:, None]) & ~self.is_own
        replaced = self.of_others * self.chance[sample][:, None]
        return np.asarray(self.kept[sample] * np.where(is_lost, replaced, 1.0))


def days_cut_off(histories: Histories) -> Numbers:
    """Return the days after each conversion that are not observed because it ends the observation."""
    user = histories.event_user
    is_only = np.bincount(user, minlength=len(histories.until))[user] == 1
    is_end = is_only & (histories.until[user] - histories.event_time < GAP)
    return np.where(is_end, histories.until.max(initial=0.0) - histories.event_time, 0.0)
