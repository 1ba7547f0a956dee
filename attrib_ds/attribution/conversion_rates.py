"""Models of conversion rates: Shapley values of sets of nodes, and Fractribution of paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.intervals import Tally, Uncertainty, Units, shares
from attrib_ds.attribution.models import ConversionRateShapley, Fractribution, SequenceModel
from attrib_ds.attribution.paths import sequences as coded

#: Sets, their nodes, and the Shapley values of the nodes as a function of the rates of sets.
Games = Iterator[tuple[Codes, Codes, Callable[[Numbers], Numbers]]]

#: Maximum number of rates to look up at a time, which bounds the memory.
_BLOCK = 1 << 20


def credit_conversion_rates(model: ConversionRateShapley, sequences: coded.Sequences) -> Tally:
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


def share_conversion_rates(model: ConversionRateShapley, sequences: coded.Sequences) -> pa.Table:
    """Divide every conversion among its nodes, and the share of a node equally among its touchpoints.

    In addition to the columns of :func:`~attrib_ds.attribution.credits.path_credits.touch_shares` there are
    ``position``, ``times`` (touchpoints of the node in the path), ``gain`` (Shapley value of the node) and
    ``rate`` (conversion rate of the set of nodes).
    """
    touched = NodeSets.of(sequences)
    rates = np.append(touched.outcomes.rates(model.shrinkage), 0.0)
    nodes = len(sequences.node_ids)
    gains = np.zeros((len(touched.keys), nodes))
    for chosen, members, values in _games(model, touched, (touched.outcomes.summed()[0] > 0).any(axis=1)):
        gains[chosen[:, None], members] = values(rates)
    rows, path = _touchpoints(sequences.converting())
    code = rows["code"].to_numpy().astype(np.int64)
    pairs, pair, times = np.unique(path * nodes + code, return_inverse=True, return_counts=True)
    keys = np.zeros(path.max(initial=-1) + 1, dtype=np.uint64)
    np.add.at(keys, pairs // nodes, touched.labels[pairs % nodes])
    of_path = touched.find(keys)
    gain, rate = gains[of_path[path], code], gains[of_path].sum(axis=1)[path]
    numbers_of = {"times": times[pair], "gain": gain, "rate": rate, "share": shares(gain, rate) / times[pair]}
    return _shared(rows, numbers_of)


def _touchpoints(steps: coded.Steps) -> tuple[pa.Table, Codes]:
    """Return the touchpoints of paths in order, and the number of the path of each."""
    columns, touched = ["path_id", "node_id", "date", "touch_id", "position", "code"], steps.table
    rows = touched.filter(touched.position > 0).select(*columns).order_by("path_id", "position").to_pyarrow()
    return rows, rows["path_id"].dictionary_encode().combine_chunks().indices.to_numpy().astype(np.int64)


def _shared(rows: pa.Table, numbers_of: dict[str, Numbers]) -> pa.Table:
    """Add columns of numbers to touchpoints."""
    shared = rows.drop_columns(["code"]).rename_columns({"path_id": "event_id"})
    for name, numbers in numbers_of.items():
        shared = shared.append_column(name, pa.array(numbers, pa.float64()))
    return shared


def _games(model: ConversionRateShapley, touched: NodeSets, chosen: Flags) -> Games:
    sizes = touched.sizes()
    for size in np.unique(sizes[chosen & (sizes > 0)]):
        exact = size <= model.exact_size
        looked_up = 1 << size if exact else 2 * model.permutations * size
        of_size = np.flatnonzero(chosen & (sizes == size))
        for part in np.array_split(of_size, -(-len(of_size) * looked_up // _BLOCK)):
            members = touched.members(part)
            value = _exact(touched, members) if exact else _sampled(touched, members, model)
            yield part, members, value


def _exact(touched: NodeSets, members: Codes) -> Callable[[Numbers], Numbers]:
    """Return the Shapley values of sets of one size, as a function of the rates of all sets."""
    size = members.shape[1]
    joined = np.arange(1 << size, dtype=np.int64)[:, None] >> np.arange(size, dtype=np.int64) & 1
    places = touched.find(touched.labels[members] @ joined.T.astype(np.uint64))
    count = joined.sum(axis=1, keepdims=True)
    factorials = np.array([math.factorial(number) for number in range(size + 1)], dtype=np.float64)
    # A subset with the node has the weight of joining it, a subset without it that of leaving.
    joins = factorials[np.maximum(count - 1, 0)] * factorials[size - count]
    leaves = factorials[count] * factorials[np.maximum(size - count - 1, 0)]
    weight = np.where(joined == 1, joins, -leaves) / factorials[size]
    return lambda rates: rates[places] @ weight


def _sampled(touched: NodeSets, members: Codes, model: ConversionRateShapley) -> Callable[[Numbers], Numbers]:
    """Return mean contributions over sampled permutations and their reverses (antithetic sampling)."""
    size = members.shape[1]
    random = np.random.default_rng([model.seed, size])
    drawn = random.permuted(np.tile(np.arange(size, dtype=np.int64), (model.permutations, 1)), axis=1)
    orders = np.vstack([drawn, drawn[:, ::-1]])
    places = touched.find(np.cumsum(touched.labels[members][:, orders], axis=2))
    turn = np.argsort(orders, axis=1)[None]

    def mean(rates: Numbers) -> Numbers:
        added = np.diff(rates[places], axis=2, prepend=0.0)
        return np.asarray(np.take_along_axis(added, turn, axis=2).mean(axis=1))

    return mean


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Counts by group of paths, currency and group of users.

    Attributes
    ----------
    has_touch : bool array, shape (n_groups,)
        False for the group of paths without a touchpoint, which conversion rates leave out.
    row, currency, fold : int array
        Group of paths, currency and group of users of each row of ``counts``.
    counts : float array, shape (n_rows, 4)
        The columns of ``COUNTS``.
    currencies : list
        Currencies of the conversions.
    """

    has_touch: Flags
    row: Codes
    currency: Codes
    fold: Codes
    counts: Numbers
    currencies: list[str | None]

    @classmethod
    def of(cls, table: pa.Table, row: Codes, has_touch: Flags) -> Outcomes:
        """Read the counts of a table whose rows belong to the groups ``row``."""
        counts = np.column_stack([table[name].to_numpy().astype(np.float64) for name in coded.COUNTS])
        currency, currencies = coded.number_currencies(table["currency"], counts[:, 0] > 0)
        fold = table["fold"].to_numpy().astype(np.int64)
        return cls(has_touch, row, currency, fold, counts, currencies)

    def samples(self, sequences: coded.Sequences) -> Iterator[Outcomes]:
        """Yield the outcomes of all users, then those without each group of users or of each replicate."""
        if sequences.bootstrap is not None:
            yield from self._replicates(sequences.bootstrap, has_users=sequences.paths.has_users)
            return
        yield self
        for fold in range(sequences.folds if sequences.folds > 1 else 0):
            yield self.where(self.fold != fold)

    def where(self, kept: Flags) -> Outcomes:
        """Return some of the rows."""
        rows = ("row", "currency", "fold", "counts")
        return replace(self, **{name: getattr(self, name)[kept] for name in rows})

    def summed(self) -> Numbers:
        """Return conversions and their value by group and currency; shape (2, n_groups, n_currencies)."""
        kept = self.counts[:, 0] > 0
        conversions, _, gains, losses = self.counts[kept].T
        summed = np.zeros((2, len(self.has_touch), len(self.currencies)))
        for outcome, amounts in zip(summed, (conversions, gains - losses), strict=True):
            np.add.at(outcome, (self.row[kept], self.currency[kept]), amounts)
        return summed

    def rates(self, shrinkage: float) -> Numbers:
        """Return the conversion rate of each group, and last that of an unobserved group.

        Parameters
        ----------
        shrinkage : float
            Pseudo-users with the overall rate to add to every group.
        """
        groups = len(self.has_touch)
        converted = np.where(self.has_touch, np.bincount(self.row, self.counts[:, 0], groups), 0.0)
        both = self.counts[:, :2].sum(axis=1)
        users = np.where(self.has_touch, np.bincount(self.row, both, groups), 0.0)
        overall = converted.sum() / (users.sum() or 1.0) if shrinkage else 0.0
        return np.append(shares(converted + shrinkage * overall, users + shrinkage), overall)

    def _replicates(self, bootstrap: Uncertainty, *, has_users: bool) -> Iterator[Outcomes]:
        cells, index = coded.number_rows(np.column_stack([self.row, self.currency]))
        counts = coded.sum_rows(self.counts, index, len(cells))
        row, currency = cells.T
        whole = replace(self, row=row, currency=currency, fold=np.zeros_like(row), counts=counts)
        yield whole
        units = Units.of(self.fold)
        if not has_users:
            units = units.sized(self.counts[:, :2].sum(axis=1))
        for replicate in units.replicates(index, self.counts, cells=len(cells), bootstrap=bootstrap):
            yield replace(whole, counts=replicate)


@dataclass(frozen=True, eq=False)
class NodeSets:
    """Conversions and null paths by set of nodes; paths without a touchpoint have the empty set.

    Attributes
    ----------
    keys : uint array
        Keys of the sets in ascending order: the sum of the labels of the nodes.
    marks : int array, shape (n_sets, words)
        Bits of the nodes of each set.
    labels : uint array
        Labels of the nodes.
    outcomes : Outcomes
        Outcomes by set.
    """

    keys: NDArray[np.uint64]
    marks: Codes
    labels: NDArray[np.uint64]
    outcomes: Outcomes

    @classmethod
    def of(cls, sequences: coded.Sequences) -> NodeSets:
        """Count the sets in the engine of the paths."""
        table = sequences.memory.get(coded.SETS)
        if table is None:
            table = sequences.collect(_counted)
        words = [table[name].fill_null(0).to_numpy().astype(np.int64) for name in sequences.words]
        marks, row = coded.number_rows(np.column_stack(words))
        labels = _labels(len(sequences.node_ids))
        keys = np.zeros(len(marks), dtype=np.uint64)
        for code, label in enumerate(labels):
            keys += _contains(marks, code).astype(np.uint64) * label
        order = np.argsort(keys)
        outcomes = Outcomes.of(table, np.argsort(order)[row], keys[order] != 0)
        return cls(keys[order], marks[order], labels, outcomes)

    def sizes(self) -> Codes:
        """Return the number of nodes of each set."""
        sizes = np.zeros(len(self.marks), dtype=np.int64)
        for code in range(len(self.labels)):
            sizes += _contains(self.marks, code)
        return sizes

    def members(self, chosen: Codes) -> Codes:
        """Return the codes of the nodes of sets of equal size, ascending; shape (n_chosen, size)."""
        marks = self.marks[chosen]
        is_member = np.column_stack([_contains(marks, code) for code in range(len(self.labels))])
        return np.nonzero(is_member)[1].reshape(len(chosen), -1)

    def find(self, keys: NDArray[np.uint64]) -> Codes:
        """Return the index of the set with each key.

        That of an unobserved set is one past the last, that of the empty set two past it.
        """
        place = np.searchsorted(self.keys, keys)
        is_observed = self.keys[np.minimum(place, len(self.keys) - 1)] == keys
        return np.where(keys == 0, len(self.keys) + 1, np.where(is_observed, place, len(self.keys)))


def _counted(steps: coded.Steps) -> ir.Table:
    rows = steps.table
    by_path = rows.group_by("path_id").agg(
        **{name: rows[name].bit_or() for name in steps.words},
        **{name: rows[name].max() for name in steps.of_path},
    )
    keys = [name for name in by_path.columns if name not in ("path_id", *coded.COUNTS)]
    return by_path.group_by(keys).agg(**coded.summed(by_path))


def _labels(nodes: int) -> NDArray[np.uint64]:
    """Return a number per node such that different sets have different sums.

    These are powers of 2 while they fit, else 64 random bits: any two of a billion sums coincide with
    probability 1/40.
    """
    if nodes <= coded.WORD:
        return np.left_shift(np.uint64(1), np.arange(nodes, dtype=np.uint64))
    return np.random.default_rng(nodes).integers(1, np.iinfo(np.uint64).max, nodes, dtype=np.uint64)


def _contains(marks: Codes, code: int) -> Flags:
    return np.asarray((marks[:, code // coded.WORD] >> (code % coded.WORD)) & 1 == 1)


def credit_fractribution(model: Fractribution, sequences: coded.Sequences) -> Tally:
    """Divide the conversions of each distinct path in proportion to the losses without each touchpoint."""
    classes = PathClasses.of(sequences, model)
    outcomes = classes.outcomes
    has_converted = outcomes.summed()[0] > 0
    chosen = np.flatnonzero(has_converted.any(axis=1) & outcomes.has_touch)
    path, node, reduced = _steps(classes, chosen, nodes=len(sequences.node_ids))
    credited, nothing = [], []
    for sample in outcomes.samples(sequences):
        outcome = sample.summed()
        part = _parts(sample.rates(model.shrinkage), path, reduced)
        credit = np.zeros((2, len(sequences.node_ids), len(outcomes.currencies)))
        for of_one, amounts in zip(credit, outcome, strict=True):
            np.add.at(of_one, node, part[:, None] * amounts[path])
        credited.append(credit)
        nothing.append(outcome[:, ~outcomes.has_touch].sum(axis=1))
    is_shown = np.zeros(credited[0].shape[1:], dtype=bool)
    np.logical_or.at(is_shown, node, has_converted[path])
    return Tally.of(
        outcomes.currencies,
        credited,
        nothing,
        is_shown=is_shown,
        is_bootstrap=sequences.bootstrap is not None,
        is_gain=np.bincount(outcomes.currency, outcomes.counts[:, 3] > 0, len(outcomes.currencies)) == 0,
    )


def share_fractribution(model: Fractribution, sequences: coded.Sequences) -> pa.Table:
    """Divide every conversion among the touchpoints that the transform keeps.

    In addition to the columns of :func:`~attrib_ds.attribution.credits.path_credits.touch_shares` there are
    ``position``, ``rate`` (conversion rate of the path) and ``rate_without`` (of the path without the
    touchpoint).
    """
    classes = PathClasses.of(sequences, model)
    outcomes = classes.outcomes
    chosen = np.flatnonzero((outcomes.summed()[0] > 0).any(axis=1) & outcomes.has_touch)
    path, _, reduced = _steps(classes, chosen, nodes=len(sequences.node_ids))
    rates = outcomes.rates(model.shrinkage)
    part = _parts(rates, path, reduced)
    rows, path_numbers = _touchpoints(coded.prepared(sequences.converting(), model, sequences.node_ids))
    starts = np.flatnonzero(np.diff(path_numbers, prepend=-1))
    row_paths = _split(rows["code"], starts)
    # The steps of a path are consecutive and in order.
    first_step = dict(zip(path[::-1].tolist(), range(len(path) - 1, -1, -1), strict=True))
    place = {encoded: first_step.get(index) for index, encoded in enumerate(classes.paths)}
    lengths = np.diff([*starts.tolist(), rows.num_rows])
    begins = np.array([place[encoded] for encoded in row_paths], dtype=np.int64)
    step = np.repeat(begins - starts, lengths) + np.arange(rows.num_rows, dtype=np.int64)
    numbers_of = {"share": part[step], "rate": rates[path[step]], "rate_without": rates[reduced[step]]}
    return _shared(rows, numbers_of)


def _steps(classes: PathClasses, chosen: Codes, *, nodes: int) -> tuple[Codes, Codes, Codes]:
    """Return the path, the node and the path without the step, for every step of the chosen paths."""
    place = {path: index for index, path in enumerate(classes.paths)}
    unobserved, width = len(classes.paths), _CODE.itemsize
    path, node, reduced = [], [], []
    for index in chosen.tolist():
        encoded = classes.paths[index]
        shorter = [encoded[:step] + encoded[step + width :] for step in range(0, len(encoded), width)]
        path += [index] * len(shorter)
        node.append(classes.codes(encoded) % nodes)
        reduced += [place.get(other, unobserved) for other in shorter]
    return (
        np.array(path, dtype=np.int64),
        np.concatenate([np.zeros(0, dtype=np.int64), *node]),
        np.array(reduced, dtype=np.int64),
    )


def _parts(rates: Numbers, path: Codes, reduced: Codes) -> Numbers:
    """Return the share of each step in its path; the last step has all if no step has a positive loss."""
    is_last = np.append(path[1:] != path[:-1], True)[: len(path)]
    loss = np.maximum(rates[path] - rates[reduced], 0.0)
    total = np.asarray(np.bincount(path, loss, len(rates)), dtype=np.float64)[path]
    return np.where(total > 0, shares(loss, total), is_last.astype(np.float64))


_CODE = np.dtype(np.int32)
_NO_TOUCH = np.array([coded.NOTHING], dtype=_CODE).tobytes()


@dataclass(frozen=True, eq=False)
class PathClasses:
    """Conversions and null paths by distinct path, after the transform.

    Attributes
    ----------
    paths : list of bytes
        Node codes of each distinct path, four bytes each.
    outcomes : Outcomes
        Outcomes by path.
    """

    paths: list[bytes]
    outcomes: Outcomes

    @classmethod
    def of(cls, sequences: coded.Sequences, model: SequenceModel) -> PathClasses:
        """Find the distinct paths, and count their outcomes."""

        def ordered(steps: coded.Steps) -> ir.Table:
            kept = coded.prepared(steps, model, sequences.node_ids)
            rows = kept.table.mutate(step=ibis.row_number().over(kept.in_order()))
            return rows.select("path_id", "step", *steps.of_path, code=rows.code.cast("int32"))

        table = sequences.collect(ordered, order_by=("path_id", "step"))
        starts = np.flatnonzero(table["step"].to_numpy() == 0)
        row, paths = pd.factorize(pd.Series(_split(table["code"], starts), dtype=object))
        has_touch = np.array([path != _NO_TOUCH for path in paths], dtype=bool)
        return cls(list(paths), Outcomes.of(table.take(starts), row, has_touch))

    def codes(self, path: bytes) -> NDArray[np.int32]:
        """Return the codes of a path."""
        return np.frombuffer(path, dtype=_CODE)


def _split(codes: pa.ChunkedArray, starts: Codes) -> list[bytes]:
    """Return the codes of each path, as in :attr:`PathClasses.paths`, by the first row of each."""
    encoded, width = codes.to_numpy().astype(_CODE).tobytes(), _CODE.itemsize
    bounds = [*(starts * width).tolist(), len(encoded)]
    return [encoded[first:last] for first, last in pairwise(bounds)]
