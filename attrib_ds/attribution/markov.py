"""Markov models: transition counts, absorbing chains, removal effects and credits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd
from scipy.sparse import coo_array, csc_array, eye_array
from scipy.sparse.linalg import splu

from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.engines.engine import has_all_features
from attrib_ds.attribution.intervals import Tally, Units, shares
from attrib_ds.attribution.models import Markov
from attrib_ds.attribution.paths import sequences as coded
from attrib_ds.attribution.paths.paths import Paths, require_paths
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT


def transition_matrix(paths: Paths, *, order: int = 1, nulls: bool = True) -> pd.DataFrame:
    """Count how often each node follows the nodes before it.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths`, ``Paths.from_frames`` or ``Paths.from_sequences``.
    order : int, default 1
        Number of preceding touchpoints to distinguish, 1 to 9.
    nulls : bool, default True
        Whether to count null paths, if the paths have them.

    Returns
    -------
    DataFrame
        The matrix in long form, one row per cell above zero, ordered by its columns: ``previous_<order>_id``
        to ``previous_1_id`` (str, the preceding touchpoints, the latest last; null before the start of the
        path), ``outcome`` (str, ``"node"``, ``"conversion"`` or ``"null"``), ``node_id`` (str, null where the
        path ends), ``transitions`` (float64), ``probability`` (float64, sums to 1 over the rows with the
        same preceding touchpoints).

    Raises
    ------
    InvalidRequest
        If ``order`` or ``nulls`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> sequences = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1], "lost": [0, 4]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n", nulls="lost")
    >>> matrix = at.transition_matrix(paths)
    >>> matrix[matrix["previous_1_id"] == "email"][["outcome", "transitions", "probability"]]
          outcome  transitions  probability
    0  conversion          4.0          0.5
    1        null          4.0          0.5
    """
    require_paths(paths)
    sequences = coded.Sequences.of(paths)
    counted = Transitions.of(sequences, Markov(order=order, nulls=nulls))
    counted = counted.where(counted.code != coded.NOTHING)
    after = np.column_stack([counted.before[:, 1:], counted.code])
    parts = [
        (counted.before, "node", counted.code, counted.counts[:, :2].sum(axis=1)),
        *(
            (
                after,
                outcome,
                np.full(len(after), coded.NOTHING, np.int64),
                counted.is_last * counted.counts[:, column],
            )
            for column, outcome in enumerate(("conversion", "null"))
        ),
    ]
    ids = pd.array([*sequences.node_ids, None], dtype=TEXT)
    names = [f"previous_{back}_id" for back in range(order, 0, -1)]
    rows = pd.concat(
        [
            pd.DataFrame(
                {name: ids.take(before[:, index]) for index, name in enumerate(names)}
                | {"outcome": pd.array([outcome] * len(code), dtype=TEXT), "node_id": ids.take(code)}
                | {"transitions": weight}
            )
            for before, outcome, code, weight in parts
        ]
    )
    keys = [*names, "outcome", "node_id"]
    cells = rows[rows["transitions"] > 0].groupby(keys, dropna=False)["transitions"].sum().reset_index()
    total = cells.groupby(names, dropna=False)["transitions"].transform("sum")
    return cells.assign(probability=cells["transitions"] / total)


def removal_effects(
    paths: Paths, *, order: int = 1, nulls: bool = True, transform: str = "unique", steps: int | None = None
) -> pd.DataFrame:
    """Measure the share of conversions that a Markov chain loses without each node.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths`, ``Paths.from_frames`` or ``Paths.from_sequences``.
    order : int, default 1
        Number of preceding touchpoints that the next step depends on, 1 to 9.
    nulls : bool, default True
        Whether to include null paths, if the paths have them.
    transform : str, default "unique"
        ``"unique"``, ``"exposure"``, ``"first"`` or ``"frequency"``, as in :class:`attrib_ds.models.Markov`.
    steps : int, optional
        Number of touchpoints at the end of a path to keep, 1 or more; all by default.

    Returns
    -------
    DataFrame
        One row per node and currency, by effect: ``node_id``, ``node_name``, ``currency`` (str),
        ``removal_effect`` (float64, share of the conversions in the currency, 0 to 1),
        ``value_removal_effect`` (float64, share of their value; null if they have no value or its sum is
        0), ``lost_conversions`` and ``lost_value`` (float64, the same in conversions and in ``currency``,
        of those with a touchpoint). Effects may sum to more than 1, because a conversion needs every node of
        its walk. Without conversions there are no rows.

    Raises
    ------
    InvalidRequest
        If the order, the transform or the steps are not allowed.

    References
    ----------
    Anderl, Becker, von Wangenheim and Schumann (2016), Mapping the customer journey, International Journal
    of Research in Marketing 33(3), 457-474.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> sequences = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> at.removal_effects(paths)[["node_id", "removal_effect"]]
      node_id  removal_effect
    0   email            1.00
    1  search            0.75
    """
    require_paths(paths)
    model = Markov(order=order, nulls=nulls, transform=transform, steps=steps)
    sequences = coded.Sequences.of(paths)
    states = States.of(Transitions.of(sequences, model), nodes=len(sequences.node_ids))
    chain = Chain.of(states)
    lost, total = chain.lost(), chain.total
    net, net_total = lost[1] - lost[2], total[1] - total[2]
    node, currency = np.nonzero(states.takes_part())
    effects = pd.DataFrame(
        {
            "node_id": pd.array(sequences.node_ids, dtype=TEXT).take(node),
            "currency": pd.array(states.counted.currencies, dtype=TEXT).take(currency),
            "removal_effect": shares(lost[0], total[0])[node, currency],
            "value_removal_effect": np.where(net_total == 0, np.nan, shares(net, net_total))[node, currency],
            "lost_conversions": lost[0][node, currency],
            "lost_value": net[node, currency],
        }
    )
    effects.insert(1, "node_name", paths.names(effects["node_id"]))
    by = ["removal_effect", "node_id", "currency"]
    return effects.sort_values(by, ascending=[False, True, True], ignore_index=True)


def credit_markov(model: Markov, sequences: coded.Sequences) -> Tally:
    """Credit conversions and value by the removal effects of a chain."""
    chains = _chains(model, sequences)
    whole = next(chains)
    credited, nothing = [], []
    for chain in itertools.chain([whole], chains):
        credited.append(_counts_and_value(_credited(chain)))
        nothing.append(_counts_and_value(chain.nothing))
    return Tally.of(
        whole.states.counted.currencies,
        credited,
        nothing,
        is_shown=whole.states.takes_part(),
        is_bootstrap=sequences.bootstrap is not None,
        is_gain=~(whole.total[2] > 0),
    )


def _chains(model: Markov, sequences: coded.Sequences) -> Iterator[Chain]:
    """Yield the chain of all users, then those without each group of users or of each bootstrap sample."""
    counted = Transitions.of(sequences, model)
    if sequences.bootstrap is None:
        states = States.of(counted, nodes=len(sequences.node_ids))
        yield Chain.of(states)
        for group in range(sequences.folds if sequences.folds > 1 else 0):
            yield Chain.of(states, without=group)
        return
    whole, index = replace(counted, fold=np.zeros_like(counted.fold)).distinct()
    states = States.of(whole, nodes=len(sequences.node_ids))
    yield Chain.of(states)
    units = Units.of(counted.fold)
    if not sequences.paths.has_users:
        units = units.sized(np.where(counted.is_last, counted.counts[:, :2].sum(axis=1), 0.0))
    cells, bootstrap = len(whole.code), sequences.bootstrap
    for counts in units.replicates(index, counted.counts, cells=cells, bootstrap=bootstrap):
        yield Chain.of(replace(states, counted=replace(whole, counts=counts)))


def _credited(chain: Chain) -> Numbers:
    """Divide conversions, gains and losses in proportion to the losses without each node."""
    lost = chain.lost()
    return shares(lost, lost.sum(axis=1, keepdims=True)) * chain.total[:, None]


def _counts_and_value(outcomes: Numbers) -> Numbers:
    conversions, gains, losses = outcomes
    return np.stack([conversions, gains - losses])


@dataclass(frozen=True, eq=False)
class Transitions:
    """Counts of steps by the steps before them; all arrays have the same length.

    Attributes
    ----------
    before : int array, shape (n, order)
        Codes of the preceding steps, the oldest first; ``NOTHING`` before the start of the path.
    code : int array
        Code of the step.
    is_last : bool array
        Whether the path ends with it.
    currency : int array
        Index in ``currencies`` of the currency of the conversions at the end of the path; 0 elsewhere.
    fold : int array
        Group of users.
    counts : float array, shape (n, 4)
        The columns of ``COUNTS``; gains and losses are NaN if values are missing.
    currencies : list
        Currencies of all conversions; None for conversions without one.
    """

    before: Codes
    code: Codes
    is_last: Flags
    currency: Codes
    fold: Codes
    counts: Numbers
    currencies: list[str | None]

    @classmethod
    def of(cls, sequences: coded.Sequences, model: Markov) -> Transitions:
        """Count the transitions of a model, or shorten cached ones of a higher order."""
        key = ("transitions", replace(model, order=1, nulls=True))
        longest: Transitions | None = sequences.memory.get((*key, True))
        if longest is None and not model.nulls:
            longest = sequences.memory.get((*key, False))
        if longest is None or longest.before.shape[1] < model.order:
            longest = _computed(sequences, model)
            sequences.memory[(*key, model.nulls)] = longest
        return longest._with(order=model.order, nulls=model.nulls)

    @property
    def converts(self) -> Flags:
        """Whether a row has conversions at the end of the path."""
        return self.is_last & (self.counts[:, 0] > 0)

    def where(self, kept: Flags) -> Transitions:
        """Return some of the rows."""
        rows = ("before", "code", "is_last", "currency", "fold", "counts")
        return replace(self, **{name: getattr(self, name)[kept] for name in rows})

    def distinct(self) -> tuple[Transitions, Codes]:
        """Return the sums of rows that differ in counts only, and the index of each row among them."""
        keys = np.column_stack([self.before, self.code, self.is_last, self.currency, self.fold])
        rows, index = coded.number_rows(keys)
        before, (code, is_last, currency, fold) = rows[:, :-4], rows[:, -4:].T
        return replace(
            self,
            before=before,
            code=code,
            is_last=is_last.astype(bool),
            currency=currency,
            fold=fold,
            counts=coded.sum_rows(self.counts, index, len(rows)),
        ), index

    def _with(self, *, order: int, nulls: bool) -> Transitions:
        # Rows with the same shorter history are not summed here because the chain sums them anyway.
        before = self.before[:, self.before.shape[1] - order :]
        counts = self.counts if nulls else self.counts * [name != "nulls" for name in coded.COUNTS]
        return replace(self, before=before, counts=counts).where(counts[:, :2].sum(axis=1) > 0)


def _computed(sequences: coded.Sequences, model: Markov) -> Transitions:
    # The chain learns from values, so it uses the original ones; later amounts only scale them.
    learned = replace(sequences, paths=sequences.paths.with_scaled_values())
    # One query counts both transitions and node sets, if both are of the same paths.
    is_same = model == Markov(order=model.order) and learned.paths is sequences.paths
    has_sets = sequences.counts_sets and is_same and has_all_features(sequences.paths.touches)

    def counted(steps: coded.Steps) -> ir.Table:
        return _counted(coded.prepared(steps, model, sequences.node_ids), model.order, has_sets=has_sets)

    table = learned.collect(counted, nulls=model.nulls)
    if has_sets:
        sequences.memory[coded.SETS] = table.filter(table["is_last"])

    def integers(name: str) -> Any:
        return table[name].fill_null(coded.NOTHING).to_numpy().astype(np.int64)

    is_last = table["is_last"].to_numpy().astype(bool)
    counts = np.column_stack([table[name].to_numpy().astype(np.float64) for name in coded.COUNTS])
    currency, currencies = coded.number_currencies(table["currency"], is_last & (counts[:, 0] > 0))
    transitions = Transitions(
        before=np.column_stack([integers(f"before_{back}") for back in range(model.order, 0, -1)]),
        code=integers("code"),
        is_last=is_last,
        currency=currency,
        fold=integers("fold"),
        counts=counts,
        currencies=currencies,
    )
    return transitions.distinct()[0] if has_sets else transitions


def _counted(steps: coded.Steps, order: int, *, has_sets: bool = False) -> ir.Table:
    code, window = steps.table.code, steps.in_order()
    before = {f"before_{back}": code.lag(back).over(window) for back in range(1, order + 1)}
    of_path = ibis.window(group_by=steps.table.path_id)
    sets = {name: steps.table[name].bit_or().over(of_path) for name in steps.words if has_sets}
    rows = steps.table.mutate(**before, **sets, is_last=code.lead(1).over(window).isnull())
    # Attributes of the path as a whole are on its last step.
    path_columns = {name: rows[name] for name in ("currency", *sets) if name in rows.columns}
    at_end = [ibis.ifelse(rows.is_last, column, None).name(name) for name, column in path_columns.items()]
    keys = [*before, "code", "is_last", *({"fold"} & set(rows.columns)), *at_end]
    return rows.group_by(keys).agg(**coded.summed(rows))


#: Positions of conversions, gains and losses among the counts of a path.
_OUTCOMES = [0, 2, 3]
#: Number of states from which walks are followed step by step: solving would fill a sparse matrix.
_MANY = 512
#: Probability of unfinished walks below which all walks count as ended; it is below rounding error.
_LEFT = 1e-18
#: Steps after which to look whether walks only shrink by a constant factor.
_EVERY = 8
#: Maximum number of nodes times transitions of a chain of order 2 or more.
_MOST_REMOVALS = 10**9
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
    source: Codes
    target: Codes
    size: int
    start: int
    held: list[Codes]

    @classmethod
    def of(cls, counted: Transitions, *, nodes: int) -> States:
        """Encode the states; codes are modulo the number of nodes, as in the transform ``"frequency"``."""
        before_all = np.full((1, counted.before.shape[1]), coded.NOTHING, np.int64)
        after = np.column_stack([counted.before[:, 1:], counted.code])
        states, index = coded.number_rows(np.vstack([before_all, counted.before, after]))
        source, target = np.split(index[1:], 2)
        return cls(counted, source, target, len(states), int(index[0]), _holding(states, nodes))

    def takes_part(self) -> Flags:
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
    ends: Numbers
    walks: float
    total: Numbers
    nothing: Numbers

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
        is_step = kept & (states.counted.code != coded.NOTHING)
        rows, source, target = states.counted.where(is_step), states.source[is_step], states.target[is_step]
        size, weight = states.size, rows.counts[:, :2].sum(axis=1)
        stopped = np.bincount(target[rows.is_last], weight[rows.is_last], size)
        reached = np.bincount(source, weight, size) + stopped
        outcomes = _summed(rows, target, size)
        nothing = states.counted.where(kept & (states.counted.code == coded.NOTHING))
        moves = coo_array((weight / reached[source], (source, target)), shape=(size, size))
        return cls(
            states=states,
            moves=moves.tocsc(),
            ends=shares(np.nan_to_num(outcomes), reached.astype(np.float64)[:, None, None]),
            walks=float(reached[states.start]),
            total=outcomes.sum(axis=0),
            nothing=_summed(nothing, np.zeros(len(nothing.code), dtype=np.int64), 1)[0],
        )

    def lost(self) -> Numbers:
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
        is_plain = all(len(states) <= 1 for states in held)
        if not is_plain and len(held) * self.moves.nnz > _MOST_REMOVALS:
            raise InvalidRequest(
                f"order: {len(held):,} nodes and {self.moves.nnz:,} transitions are too many to remove each "
                f"node in turn; allowed: up to {_MOST_REMOVALS:,} as their product (roll nodes up with "
                "level=, keep fewer touchpoints with steps=, or take order=1)"
            )
        if is_plain:
            lost = _lost_at_once(remaining, ends, start, held)
        elif size >= _MANY and (steps := _steps_to_end(self.moves, start)) is not None:
            lost = _lost_on_the_way(self.moves, ends, start, held, steps)
        else:
            whole = splu(remaining).solve(ends)[start]
            kept = [np.setdiff1d(np.arange(size, dtype=np.int64), states) for states in held]
            lost = np.array([whole - _from_start(remaining, ends, start, rest) for rest in kept])
        # Rounding may make a loss of 0 slightly negative.
        return self.walks * np.maximum(lost, 0.0).reshape(len(held), 3, currencies).transpose(1, 0, 2)


def _lost_at_once(remaining: csc_array, ends: Numbers, start: int, held: list[Codes]) -> Numbers:
    visits = np.linalg.inv(remaining.toarray())
    outcome = visits @ ends
    lost = np.zeros((len(held), ends.shape[1]))
    for node, states in enumerate(held):
        for state in states:
            lost[node] = visits[start, state] / visits[state, state] * outcome[state]
    return lost


def _from_start(remaining: csc_array, ends: Numbers, start: int, kept: Codes) -> Numbers:
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


def _lost_on_the_way(moves: csc_array, ends: Numbers, start: int, held: list[Codes], steps: int) -> Numbers:
    """Follow the walks without each node for the number of steps that the whole chain takes, or fewer.

    Walks that also end at a node end no later, so that number suffices for every node. Once the walks on
    their way only shrink by a constant factor, the rest is a geometric series.
    """
    without = [np.zeros(0, dtype=np.int64), *held]
    together = max(1, _TOGETHER // len(ends))
    outcomes = []
    for first in range(0, len(without), together):
        states = without[first : first + together]
        removed = (
            np.concatenate(states),
            np.repeat(
                np.arange(len(states), dtype=np.int64), [len(removed_states) for removed_states in states]
            ),
        )
        walking = np.zeros((len(ends), len(states)))
        walking[start] = 1.0
        visits = walking.copy()
        for step in range(1, steps + 1):
            before, walking = walking, moves.T @ walking
            walking[removed] = 0.0
            visits += walking
            if step % _EVERY == 0 or step == steps:
                # Soon every step leaves about the same share of the walks on their way, in the same states.
                left = np.minimum(shares(walking.sum(axis=0), before.sum(axis=0)), 0.999)
                if (np.abs(walking - left * before).sum(axis=0) <= _LEFT * (1 - left)).all():
                    visits += walking * (left / (1 - left))
                    break
        outcomes.append(visits.T @ ends)
    whole, *kept = np.concatenate(outcomes)
    return np.asarray(whole - np.array(kept).reshape(-1, ends.shape[1]))


def _summed(rows: Transitions, state: Codes, size: int) -> Numbers:
    """Sum the outcomes of conversions by state and currency."""
    summed = np.zeros((size, len(rows.currencies), len(_OUTCOMES)))
    kept = rows.converts
    np.add.at(summed, (state[kept], rows.currency[kept]), rows.counts[kept][:, _OUTCOMES])
    return summed.transpose(0, 2, 1)


def _holding(states: Codes, nodes: int) -> list[Codes]:
    """Return the states that contain each node."""
    state, place = np.nonzero(states != coded.NOTHING)
    held = np.unique(np.column_stack([states[state, place] % max(nodes, 1), state]), axis=0)
    bounds = np.searchsorted(held[:, 0], np.arange(nodes + 1, dtype=np.int64))
    return [held[first:last, 1] for first, last in pairwise(bounds)]
