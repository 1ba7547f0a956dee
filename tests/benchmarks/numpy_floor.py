"""Five rules and exact Markov chains in plain NumPy: a lower bound for the attribution benchmark.

It assumes at most one conversion per user, after all touchpoints, and no lookback, and works on one table of integers.
More general code can hardly be faster on one core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_DAY = 86_400_000_000


def credits_of(folder: Path) -> dict[str, dict[str, float]]:
    """Read Parquet files and return credited conversions by model and node."""
    touches = pq.read_table(folder / "touchpoints.parquet")
    conversions = pq.read_table(folder / "conversions.parquet", columns=["user_id", "date"])
    users, user_ids = _coded(touches["user_id"])
    nodes, node_ids = _coded(touches["node_id"])
    dates = _microseconds(touches["date"])
    bought = np.zeros(len(user_ids), np.int64)
    buyers = pc.index_in(conversions["user_id"], value_set=user_ids).to_numpy()
    bought[buyers] = _microseconds(conversions["date"])

    order = _by_user_and_date(users, dates - dates.min(), len(user_ids))
    users, nodes, dates = users[order], nodes[order], dates[order]
    is_first = np.empty(len(users), bool)
    is_first[0], is_first[1:] = True, users[1:] != users[:-1]
    is_last = np.append(is_first[1:], True)
    converts = bought[users] > 0
    size = len(node_ids)
    found = _heuristics(
        nodes[converts], (bought[users] - dates)[converts], is_first[converts], is_last[converts], size
    )
    for by in (1, 2):
        found[f"markov_{by}"] = _markov(nodes, is_first, is_last, converts, size, order=by)
    return {
        model: dict(zip(node_ids.to_pylist(), credited.tolist(), strict=True))
        for model, credited in found.items()
    }


def _by_user_and_date(users: NDArray[np.int32], dates: NDArray[np.int64], count: int) -> NDArray[np.intp]:
    span = int(dates.max()) + 1
    # Sorting by one integer is much faster, if both keys fit into it.
    if count * span < 2**63:
        return np.argsort(users * np.int64(span) + dates)
    return np.lexsort((dates, users))


def _coded(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], pa.Array]:
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary


def _microseconds(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return column.cast(pa.int64()).to_numpy()


def _heuristics(
    nodes: NDArray[np.int32],
    ages: NDArray[np.int64],
    is_first: NDArray[np.bool_],
    is_last: NDArray[np.bool_],
    size: int,
) -> dict[str, NDArray[np.float64]]:
    starts = np.flatnonzero(is_first)
    lengths = np.diff(np.append(starts, len(nodes)))
    length = np.repeat(lengths, lengths)
    middle = 0.2 / np.maximum(length - 2, 1)
    position = np.where(is_first | is_last, 0.4, middle)
    position[length == 1], position[length == 2] = 1.0, 0.5
    last_age = np.repeat(ages[is_last], lengths)
    decay = np.exp2((last_age - ages) / (7.0 * _DAY))
    decay /= np.repeat(np.add.reduceat(decay, starts), lengths)
    weights = {"linear": 1.0 / length, "position_based": position, "time_decay": decay}
    return {
        "first_touch": np.bincount(nodes[is_first], minlength=size).astype(float),
        "last_touch": np.bincount(nodes[is_last], minlength=size).astype(float),
    } | {model: np.bincount(nodes, weight, size) for model, weight in weights.items()}


def _markov(
    nodes: NDArray[np.int32],
    is_first: NDArray[np.bool_],
    is_last: NDArray[np.bool_],
    converts: NDArray[np.bool_],
    size: int,
    *,
    order: int,
) -> NDArray[np.float64]:
    before = np.where(is_first, size, np.roll(nodes, 1))
    before_that = np.where(is_first | np.roll(is_first, 1), size, np.roll(nodes, 2))
    return credits_of_chain(before_that, before, nodes, is_last, converts, size, order=order)


def credits_of_chain(
    before_that: NDArray[np.integer],
    before: NDArray[np.integer],
    nodes: NDArray[np.integer],
    is_last: NDArray[np.bool_],
    converts: NDArray[np.bool_],
    size: int,
    *,
    order: int,
    times: NDArray[np.integer] | None = None,
) -> NDArray[np.float64]:
    """Divide conversions by removal effects; a state is the last nodes, with ``size`` for none."""
    base = size + 1
    if order == 1:
        source, target, states = before, nodes, base
        start = size
    else:
        source, target, states = before_that * base + before, before * base + nodes, base * base
        start = size * base + size
    times = np.ones(len(nodes)) if times is None else times
    moves = np.bincount(source.astype(np.int64) * states + target, times, minlength=states * states)
    moves = moves.reshape(states, states).astype(float)
    ended = is_last & converts
    ends = np.bincount(target[ended], times[ended], minlength=states).astype(float)
    reached = np.maximum(
        moves.sum(axis=1) + np.bincount(target[is_last], times[is_last], minlength=states), 1
    )
    chance, ends = moves / reached[:, None], ends / reached
    held = [[node] if order == 1 else _with(node, base) for node in range(size)]
    whole = np.linalg.solve(np.eye(states) - chance, ends)[start]
    lost = np.empty(size)
    for node in range(size):
        kept = np.setdiff1d(np.arange(states), held[node])
        rest = np.linalg.solve(np.eye(len(kept)) - chance[np.ix_(kept, kept)], ends[kept])
        lost[node] = whole - rest[np.searchsorted(kept, start)]
    return lost / lost.sum() * times[ended].sum()


def _with(node: int, base: int) -> NDArray[np.int64]:
    states = np.arange(base * base)
    return states[(states // base == node) | (states % base == node)]
