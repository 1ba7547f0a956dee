"""Absorbing Markov chains of touchpoints, and their loss of conversions without a node."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array, csc_array, eye_array
from scipy.sparse.linalg import splu

from attrib_ds.attribution.intervals.tally import shares
from attrib_ds.attribution.paths.codes import number_rows
from attrib_ds.attribution.paths.sequences import NOTHING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from attrib_ds.attribution.path_models.transitions import Transitions

#: Positions of conversions, gains and losses among the counts of a path.
_OUTCOMES = [0, 2, 3]
#: Number of states from which walks are followed step by step: solving would fill a sparse matrix.
_MANY = 512
#: Probability of unfinished walks below which all walks count as ended; it is below rounding error.
_LEFT = 1e-18
#: Maximum number of steps to follow walks for; longer ones are solved.
_MOST_STEPS = 5_000
#: Maximum size of the arrays of walks.
_TOGETHER = 1 << 21


@dataclass(frozen=True, eq=False)
class States:
    """The states of a chain, and the source and target state of each row of transitions.

    A state is the last touchpoints, as many as the order of the chain.

    Attributes
    ----------
    counted : Transitions
        Transitions with positive counts.
    source, target : int array
        State before and after each transition.
    size : int
        Number of states.
    start : int
        State before the first touchpoint.
    held : list of int array
        States that contain each node.
    """

    counted: Transitions
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    size: int
    start: int
    held: list[NDArray[np.int64]]

    @classmethod
    def of(cls, counted: Transitions, *, nodes: int) -> States:
        """Encode the states; codes are modulo the number of nodes, as in the transform ``"frequency"``."""
        before_all = np.full((1, counted.before.shape[1]), NOTHING)
        after = np.column_stack([counted.before[:, 1:], counted.code])
        states, index = number_rows(np.vstack([before_all, counted.before, after]))
        source, target = np.split(index[1:], 2)
        return cls(counted, source, target, len(states), int(index[0]), _holding(states, nodes))

    def takes_part(self) -> NDArray[np.bool_]:
        """Return for each node and currency whether the node is in the chain."""
        is_held = np.array([len(states) > 0 for states in self.held], dtype=bool)
        return np.repeat(is_held[:, None], len(self.counted.currencies), axis=1)


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain that starts, steps from state to state, and ends in one of several outcomes.

    The outcomes are conversions, gains and losses in each currency; a walk that ends in a state has the mean
    outcome of the paths that ended there.

    Attributes
    ----------
    states : States
        States of the chain.
    moves : sparse array, shape (n_states, n_states)
        Transition probabilities.
    ends : float array, shape (n_states, 3, n_currencies)
        Mean outcome, per path that reaches a state, of the paths that end there.
    walks : float
        Number of paths in the chain.
    total, nothing : float array, shape (3, n_currencies)
        Outcomes of these paths, and of paths without a touchpoint, which are not in the chain.
    """

    states: States
    moves: csc_array
    ends: NDArray[np.float64]
    walks: float
    total: NDArray[np.float64]
    nothing: NDArray[np.float64]

    @classmethod
    def of(cls, states: States, *, without: int | None = None) -> Chain:
        """Estimate the chain from the relative frequencies of transitions.

        Parameters
        ----------
        states : States
            States with their transitions.
        without : int, optional
            Group of users to leave out; none by default.
        """
        # A bootstrap sample may contain no user with a touchpoint.
        kept = (states.counted.fold != without) & (states.counted.counts[:, :2].sum(axis=1) > 0)
        is_step = kept & (states.counted.code != NOTHING)
        rows, source, target = states.counted.where(is_step), states.source[is_step], states.target[is_step]
        size, weight = states.size, rows.counts[:, :2].sum(axis=1)
        stopped = np.bincount(target[rows.is_last], weight[rows.is_last], size)
        reached = np.bincount(source, weight, size) + stopped
        outcomes = _summed(rows, target, size)
        nothing = states.counted.where(kept & (states.counted.code == NOTHING))
        moves = coo_array((weight / reached[source], (source, target)), shape=(size, size))
        return cls(
            states=states,
            moves=moves.tocsc(),
            ends=shares(np.nan_to_num(outcomes), reached.astype(np.float64)[:, None, None]),
            walks=float(reached[states.start]),
            total=outcomes.sum(axis=0),
            nothing=_summed(nothing, np.zeros(len(nothing.code), dtype=np.int64), 1)[0],
        )

    def lost(self) -> NDArray[np.float64]:
        """Return the outcomes lost when walks end at each node; shape (3, n_nodes, n_currencies).

        With ``N`` the expected visits from state to state and ``b`` the expected outcome from each state, a
        walk reaches a node of one state ``c`` with probability ``N[0, c] / N[c, c]`` and then loses ``b[c]``:
        one inverse serves all nodes. If nodes have several states, the chain is solved again without those of
        each node; in a large chain the walks without each node are followed to their end instead.
        """
        size, _, currencies = self.ends.shape
        ends = self.ends.reshape(size, -1)
        remaining = (eye_array(size, format="csc") - self.moves).tocsc()
        start, held = self.states.start, self.states.held
        if all(len(states) <= 1 for states in held):
            lost = _lost_at_once(remaining, ends, start, held)
        elif size >= _MANY and (steps := _steps_to_end(self.moves, start)) is not None:
            lost = _lost_on_the_way(self.moves, ends, start, held, steps)
        else:
            whole = splu(remaining).solve(ends)[start]
            kept = [np.setdiff1d(np.arange(size), states) for states in held]
            lost = np.array([whole - _from_start(remaining, ends, start, rest) for rest in kept])
        # Rounding may make a loss of 0 slightly negative.
        return self.walks * np.maximum(lost, 0.0).reshape(len(held), 3, currencies).transpose(1, 0, 2)


def _lost_at_once(
    remaining: csc_array, ends: NDArray[np.float64], start: int, held: list[NDArray[np.int64]]
) -> NDArray[np.float64]:
    visits = np.linalg.inv(remaining.toarray())
    outcome = visits @ ends
    lost = np.zeros((len(held), ends.shape[1]))
    for node, states in enumerate(held):
        for state in states:
            lost[node] = visits[start, state] / visits[state, state] * outcome[state]
    return lost


def _from_start(
    remaining: csc_array, ends: NDArray[np.float64], start: int, kept: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the expected outcome from the start if walks that leave some of the states are lost."""
    outcome = splu(remaining[kept][:, kept].tocsc()).solve(ends[kept])
    return np.asarray(outcome[np.searchsorted(kept, start)])


def _steps_to_end(moves: csc_array, start: int) -> int | None:
    """Return the number of steps after which nearly all walks have ended; None if it is too large."""
    onward, walking = moves.T, np.zeros(moves.shape[0])
    walking[start] = 1.0
    for step in range(_MOST_STEPS):
        if walking.sum() <= _LEFT:
            return step
        walking = onward @ walking
    return None


def _lost_on_the_way(
    moves: csc_array, ends: NDArray[np.float64], start: int, held: list[NDArray[np.int64]], steps: int
) -> NDArray[np.float64]:
    """Follow the walks without each node for the number of steps that the whole chain takes.

    Walks that also end at a node end no later, so that number suffices for every node.
    """
    without = [np.zeros(0, dtype=np.int64), *held]
    together = max(1, _TOGETHER // len(ends))
    outcomes = []
    for first in range(0, len(without), together):
        states = without[first : first + together]
        removed = (
            np.concatenate(states),
            np.repeat(np.arange(len(states)), [len(removed_states) for removed_states in states]),
        )
        walking = np.zeros((len(ends), len(states)))
        walking[start] = 1.0
        visits = walking.copy()
        for _ in range(steps):
            walking = moves.T @ walking
            walking[removed] = 0.0
            visits += walking
        outcomes.append(visits.T @ ends)
    whole, *kept = np.concatenate(outcomes)
    return np.asarray(whole - np.array(kept).reshape(-1, ends.shape[1]))


def _summed(rows: Transitions, state: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Sum the outcomes of conversions by state and currency."""
    summed = np.zeros((size, len(rows.currencies), len(_OUTCOMES)))
    kept = rows.converts
    np.add.at(summed, (state[kept], rows.currency[kept]), rows.counts[kept][:, _OUTCOMES])
    return summed.transpose(0, 2, 1)


def _holding(states: NDArray[np.int64], nodes: int) -> list[NDArray[np.int64]]:
    """Return the states that contain each node."""
    state, place = np.nonzero(states != NOTHING)
    held = np.unique(np.column_stack([states[state, place] % max(nodes, 1), state]), axis=0)
    bounds = np.searchsorted(held[:, 0], np.arange(nodes + 1))
    return [held[first:last, 1] for first, last in pairwise(bounds)]
