"""Shapley values of the game whose worth is the conversion rate of the users of a set of nodes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from attrib_ds.attribution.intervals.tally import Tally, shares
from attrib_ds.attribution.path_models.node_sets import NodeSets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from attrib_ds.attribution.models.path_models import ConversionRateShapley
    from attrib_ds.attribution.paths.sequences import Sequences

    #: Sets, their nodes, and the Shapley values of the nodes as a function of the rates of sets.
    Games = Iterator[
        tuple[NDArray[np.int64], NDArray[np.int64], Callable[[NDArray[np.float64]], NDArray[np.float64]]]
    ]

#: Maximum number of rates to look up at a time, which bounds the memory.
_BLOCK = 1 << 20


def credit_conversion_rates(model: ConversionRateShapley, sequences: Sequences) -> Tally:
    """Divide the conversions of each set of nodes in proportion to the Shapley values within it."""
    touched = NodeSets.of(sequences)
    samples = list(touched.outcomes.samples(sequences))
    # The worth of the empty set is 0.
    rates = [np.append(sample.rates(model.shrinkage), 0.0) for sample in samples]
    outcomes = [sample.summed() for sample in samples]
    has_converted = outcomes[0][0] > 0
    shape = (2, len(sequences.node_ids), len(touched.outcomes.currencies))
    credited = [np.zeros(shape) for _ in samples]
    is_shown = np.zeros(shape[1:], dtype=bool)
    for chosen, members, values in _games(model, touched, has_converted.any(axis=1)):
        np.logical_or.at(is_shown, members, has_converted[chosen][:, None])
        for credit, rate, outcome in zip(credited, rates, outcomes, strict=True):
            value = values(rate)
            part = shares(value, value.sum(axis=1, keepdims=True))
            for of_one, amounts in zip(credit, outcome, strict=True):
                np.add.at(of_one, members, part[:, :, None] * amounts[chosen][:, None])
    nothing = [outcome[:, ~touched.outcomes.has_touch].sum(axis=1) for outcome in outcomes]
    return Tally.of(
        touched.outcomes.currencies,
        credited,
        nothing,
        is_shown=is_shown,
        is_bootstrap=sequences.bootstrap is not None,
    )


def share_conversion_rates(model: ConversionRateShapley, sequences: Sequences) -> pa.Table:
    """Divide every conversion among its nodes, and the share of a node equally among its touchpoints.

    In addition to the columns of :func:`~attrib_ds.attribution.credits.touch_shares.touch_shares` there are
    ``position``, ``times`` (touchpoints of the node in the path), ``gain`` (Shapley value of the node) and
    ``rate`` (conversion rate of the set of nodes).
    """
    touched = NodeSets.of(sequences)
    rates = np.append(touched.outcomes.rates(model.shrinkage), 0.0)
    nodes = len(sequences.node_ids)
    gains = np.zeros((len(touched.keys), nodes))
    for chosen, members, values in _games(model, touched, (touched.outcomes.summed()[0] > 0).any(axis=1)):
        gains[chosen[:, None], members] = values(rates)
    table = sequences.converting().table
    columns = ["path_id", "node_id", "date", "touch_id", "position", "code"]
    rows = table.filter(table.position > 0).select(*columns).order_by("path_id", "position").to_pyarrow()
    path = rows["path_id"].dictionary_encode().combine_chunks().indices.to_numpy().astype(np.int64)
    code = rows["code"].to_numpy().astype(np.int64)
    pairs, pair, times = np.unique(path * nodes + code, return_inverse=True, return_counts=True)
    keys = np.zeros(path.max(initial=-1) + 1, dtype=np.uint64)
    np.add.at(keys, pairs // nodes, touched.labels[pairs % nodes])
    of_path = touched.find(keys)
    gain, rate = gains[of_path[path], code], gains[of_path].sum(axis=1)[path]
    numbers_of = {"times": times[pair], "gain": gain, "rate": rate, "share": shares(gain, rate) / times[pair]}
    shared = rows.drop_columns(["code"]).rename_columns({"path_id": "event_id"})
    for name, numbers in numbers_of.items():
        shared = shared.append_column(name, pa.array(numbers, pa.float64()))
    return shared


def _games(model: ConversionRateShapley, touched: NodeSets, chosen: NDArray[np.bool_]) -> Games:
    sizes = touched.sizes()
    for size in np.unique(sizes[chosen & (sizes > 0)]):
        exact = size <= model.exact_size
        looked_up = 1 << size if exact else 2 * model.permutations * size
        of_size = np.flatnonzero(chosen & (sizes == size))
        for part in np.array_split(of_size, -(-len(of_size) * looked_up // _BLOCK)):
            members = touched.members(part)
            value = _exact(touched, members) if exact else _sampled(touched, members, model)
            yield part, members, value


def _exact(
    touched: NodeSets, members: NDArray[np.int64]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return the Shapley values of sets of one size, as a function of the rates of all sets."""
    size = members.shape[1]
    joined = np.arange(1 << size)[:, None] >> np.arange(size) & 1
    places = touched.find(touched.labels[members] @ joined.T.astype(np.uint64))
    count = joined.sum(axis=1, keepdims=True)
    factorials = np.array([math.factorial(number) for number in range(size + 1)], dtype=np.float64)
    # A subset with the node has the weight of joining it, a subset without it that of leaving.
    joins = factorials[np.maximum(count - 1, 0)] * factorials[size - count]
    leaves = factorials[count] * factorials[np.maximum(size - count - 1, 0)]
    weight = np.where(joined == 1, joins, -leaves) / factorials[size]
    return lambda rates: rates[places] @ weight


def _sampled(
    touched: NodeSets, members: NDArray[np.int64], model: ConversionRateShapley
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return mean contributions over sampled permutations and their reverses (antithetic sampling)."""
    size = members.shape[1]
    random = np.random.default_rng([model.seed, size])
    drawn = random.permuted(np.tile(np.arange(size), (model.permutations, 1)), axis=1)
    orders = np.vstack([drawn, drawn[:, ::-1]])
    places = touched.find(np.cumsum(touched.labels[members][:, orders], axis=2))
    turn = np.argsort(orders, axis=1)[None]

    def mean(rates: NDArray[np.float64]) -> NDArray[np.float64]:
        added = np.diff(rates[places], axis=2, prepend=0.0)
        return np.asarray(np.take_along_axis(added, turn, axis=2).mean(axis=1))

    return mean
