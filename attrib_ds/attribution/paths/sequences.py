"""Paths as sequences of integer codes, converting and null, for models that compare whole paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa

from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.engines.engine import group_of, number_of, total
from attrib_ds.attribution.intervals import Uncertainty
from attrib_ds.attribution.models import SequenceModel
from attrib_ds.attribution.paths.paths import Paths

#: Code of "no touchpoint".
NOTHING = -1

#: Counts of a path: conversions, null paths, and the positive and negative value of conversions. Positive and
#: negative values are credited separately, because shares of a sum near zero are unbounded.
COUNTS = ("conversions", "nulls", "gains", "losses")

#: Bits of an integer that mark the nodes of a set.
WORD = 62

#: Key in :attr:`Sequences.memory` of the counts of node sets, if another query computed them too.
SETS = "sets"


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of paths of one kind: converting paths or null paths.

    Attributes
    ----------
    table : ibis.Table
        One row per step: ``path_id``, ``code``, the columns in ``order``, ``fold`` if there are groups of
        users, the columns of ``COUNTS`` that apply to the kind (of the whole path, repeated) and, for
        converting paths, ``currency``. The null path of a user has no counts: it is one.
    order : tuple of str
        Columns to order the steps of a path by.
    """

    table: ir.Table
    order: tuple[str, ...]

    @property
    def of_path(self) -> list[str]:
        """Columns that are the same on every step of a path."""
        return [name for name in ("fold", *COUNTS, "currency") if name in self.table.columns]

    @property
    def words(self) -> list[str]:
        """Columns with the bit of the node in a set of nodes."""
        return [name for name in self.table.columns if name.startswith("word_")]

    def in_order(self, *by: str) -> Any:
        """Return the window over the ordered steps of a path, partitioned further by columns."""
        table = self.table
        return ibis.window(
            group_by=[table[name] for name in ("path_id", *by)], order_by=[table[name] for name in self.order]
        )

    def where(self, condition: Any, **columns: Any) -> Steps:
        """Return the steps that meet a condition, which may depend on other steps of the path."""
        marked = self.table.mutate(is_kept=condition, **columns)
        return replace(self, table=marked.filter(marked.is_kept).drop("is_kept"))


@dataclass(frozen=True, eq=False)
class Sequences:
    """Paths prepared for the models that compare whole paths.

    Attributes
    ----------
    node_ids : list of str
        Node id of each code.
    folds : int
        Number of groups to split users into by a hash, for the jackknife; 1 for no split.
    bootstrap : Uncertainty, optional
        Parameters of a bootstrap. Every user is then a group of their own, numbered by a hash.
    salt : int
        Seed of the split into groups.
    counts_sets : bool
        Whether to compute the counts of node sets together with other counts.
    memory : dict
        Cache of results that models share.
    """

    paths: Paths
    node_ids: list[str]
    folds: int = 1
    bootstrap: Uncertainty | None = None
    salt: int = 0
    counts_sets: bool = False
    memory: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        paths: Paths,
        *,
        folds: int = 1,
        bootstrap: Uncertainty | None = None,
        salt: int = 0,
        counts_sets: bool = False,
    ) -> Sequences:
        """Assign a code to each node of paths."""
        points = paths.touches if paths.touchpoints is None else paths.touchpoints
        distinct = points.filter(points.node_id.notnull()).select("node_id").distinct()
        node_ids = distinct.order_by("node_id").to_pyarrow()["node_id"].to_pylist()
        return cls(paths, node_ids, folds, bootstrap, salt, counts_sets)

    @property
    def words(self) -> list[str]:
        """Columns of steps with the bit of the node in a set of nodes."""
        return [f"word_{index}" for index in range(max(1, -(-len(self.node_ids) // WORD)))]

    def converting(self) -> Steps:
        """Return the steps of converting paths; a path without a touchpoint has one step."""
        touches = self.coded(self.paths.touches)
        value = touches.value
        table = touches.select(
            "code",
            *self.words,
            "node_id",
            "date",
            "touch_id",
            "position",
            "conversions",
            "currency",
            path_id="event_id",
            # A product instead of 0, so that missing values stay missing.
            gains=ibis.ifelse(value > 0, value, 0.0 * value),
            losses=ibis.ifelse(value < 0, -value, 0.0 * value),
            **self._folds(touches.user_id if self.paths.has_users else touches.event_id),
        )
        return Steps(table, ("position",))

    def nulls(self) -> Steps | None:
        """Return the steps of null paths, or None if the paths have no touchpoints of other users."""
        points = self.paths.touchpoints
        if points is None:
            return None
        if not self.paths.has_users:
            null_paths = self.coded(points.filter(points.nulls > 0))
            # Other users than those of the conversions with the same path.
            folds = self._folds(null_paths.event_id + " without a conversion")
            table = null_paths.select("code", *self.words, "position", "nulls", path_id="event_id", **folds)
            return Steps(table, ("position",))
        converted = self.paths.touches if self.paths.converted is None else self.paths.converted
        users = converted.select("user_id").distinct()
        null_paths = self.coded(points.filter(points.user_id.notnull()).anti_join(users, "user_id"))
        table = null_paths.select(
            "code", *self.words, "date", "touch_id", path_id="user_id", **self._folds(null_paths.user_id)
        )
        # Codes are ordered as node ids, which are the touch ids by default, and sort far faster.
        return Steps(table, ("date", "touch_id", "code") if self.paths.has_touch_ids else ("date", "code"))

    def collect(
        self, summary: Callable[[Steps], ir.Table], *, nulls: bool = True, order_by: Sequence[str] = ()
    ) -> pa.Table:
        """Compute a summary of converting paths and of null paths, and concatenate both.

        Parameters
        ----------
        summary : callable
            Function of :class:`Steps` that returns a table, with the columns ``fold``, ``currency`` and
            ``COUNTS`` that the steps have.
        nulls : bool, default True
            Whether to include null paths, if there are any.
        order_by : sequence of str, optional
            Columns to order the rows by; by default all but the counts, so that later sums are reproducible.
        """
        kinds = [self.converting(), self.nulls() if nulls else None]
        tables = []
        for steps in kinds:
            if steps is not None:
                part = summary(steps)
                missing = {"currency": ibis.null("string"), "fold": ibis.literal(0, "int8")}
                missing |= {name: ibis.literal(0.0) for name in COUNTS}
                if not set(COUNTS) & set(part.columns):
                    missing["nulls"] = ibis.literal(1.0)
                complete = part.mutate(
                    **{name: missing[name] for name in missing if name not in part.columns}
                )
                by = order_by or sorted(set(part.columns) - set(COUNTS))
                # Two queries: in a union, the engine would first copy every touchpoint.
                tables.append(complete.order_by(*by).to_pyarrow())
        return pa.concat_tables(tables, promote_options="permissive")

    def fold(self, users: Any) -> Any:
        """Return the group of each user."""
        if self.bootstrap is not None:
            return number_of(users).fill_null(0)
        if self.folds == 1:
            return ibis.literal(0, "int8")
        if self.salt:
            users = users + f" {self.salt}"
        return group_of(users, self.folds).cast("int8")

    def _folds(self, users: Any) -> dict[str, Any]:
        """Return the column of groups if there are several: engines sort all that is there with the steps."""
        return {} if self.folds == 1 and self.bootstrap is None else {"fold": self.fold(users)}

    def coded(self, rows: ir.Table) -> ir.Table:
        """Add the code of each node, and its bit in a set of nodes."""
        codes = np.arange(len(self.node_ids), dtype=np.int64)
        columns = {"coded_id": pa.array(self.node_ids, pa.string()), "code": pa.array(codes, pa.int32())}
        for index, word in enumerate(self.words):
            columns[word] = pa.array(np.where(codes // WORD == index, 1 << (codes % WORD), 0), pa.int64())
        coded = ibis.memtable(pa.table(columns))
        joined = rows.left_join(coded, rows.node_id == coded.coded_id)
        return joined.mutate(code=joined.code.fill_null(NOTHING)).drop("coded_id")


def summed(rows: ir.Table) -> dict[str, Any]:
    """Return the sums of counts; those of null paths are integers, exact in any order."""
    counts = [name for name in COUNTS if name in rows.columns]
    sums = {name: rows[name].sum() if name == "nulls" else total(rows[name]) for name in counts}
    return sums or {"nulls": rows.count().cast("float64")}


def prepared(steps: Steps, model: SequenceModel, node_ids: list[str]) -> Steps:
    """Keep the last steps of paths, remove nodes, and apply the transform of a model.

    Parameters
    ----------
    steps : Steps
        Steps of the original paths.
    model : SequenceModel
        Model with the number of steps, nodes to remove and the transform.
    node_ids : list of str
        Node id of each code. Under the transform ``"frequency"``, a node touched ``t`` times has its own code
        plus ``t - 1`` times the number of nodes.

    Returns
    -------
    Steps
        The remaining steps, in the same order.
    """
    of_path = ibis.window(group_by=steps.table.path_id)
    if model.steps is not None:
        rank = ibis.row_number().over(steps.in_order())
        steps = steps.where(rank >= steps.table.count().over(of_path) - model.steps)
    if model.remove_if_not_all:
        is_other = _is_other(steps, model.remove_if_not_all, node_ids)
        steps = steps.where(is_other | (is_other.cast("int64").max().over(of_path) == 0))
    if model.remove_if_last_and_not_all:
        steps = _without_ends(steps, model.remove_if_last_and_not_all, node_ids)
    code, nodes = steps.table.code, len(node_ids)
    if model.transform == "exposure":
        return steps.where((code != code.lag(1).over(steps.in_order())).fill_null(True))
    if model.transform == "unique":
        return steps
    is_first = ibis.row_number().over(steps.in_order("code")) == 0
    if model.transform == "first":
        return steps.where(is_first)
    times = steps.table.count().over(ibis.window(group_by=[steps.table.path_id, code]))
    return steps.where(is_first, code=(code + nodes * (times - 1)).cast("int64"))


def _without_ends(steps: Steps, removed: tuple[str, ...], node_ids: list[str]) -> Steps:
    """Drop steps after the last step of any other node."""
    steps = replace(steps, table=steps.table.mutate(rank=ibis.row_number().over(steps.in_order())))
    is_other = _is_other(steps, removed, node_ids)
    of_path = ibis.window(group_by=steps.table.path_id)
    last_other = ibis.ifelse(is_other, steps.table.rank, -1).max().over(of_path)
    remaining = steps.where((steps.table.rank <= last_other) | (last_other < 0))
    return replace(remaining, table=remaining.table.drop("rank"))


def _is_other(steps: Steps, removed: tuple[str, ...], node_ids: list[str]) -> Any:
    """Return whether each step is of a node to keep; false for the step of a path without a touchpoint."""
    # As in LastNonDirect, a node may be missing from the paths of a quiet week.
    codes = [node_ids.index(node_id) for node_id in removed if node_id in node_ids]
    return ~steps.table.code.isin(codes) if codes else steps.table.code.notnull()


def number_currencies(currency: pa.ChunkedArray, is_converted: Flags) -> tuple[Codes, list[str | None]]:
    """Encode the currencies of conversions in sorted order, None last; other rows have the code 0."""
    encoded = currency.filter(pa.array(is_converted)).combine_chunks().dictionary_encode("encode")
    distinct = encoded.dictionary.to_pylist()
    currencies = sorted(distinct, key=lambda code: (code is None, code))
    ranks = np.array([currencies.index(code) for code in distinct], dtype=np.int64)
    numbers = np.zeros(len(is_converted), dtype=np.int64)
    numbers[is_converted] = ranks[encoded.indices.to_numpy()] if distinct else 0
    return numbers, currencies


def number_rows(rows: Codes) -> tuple[Codes, Codes]:
    """Return the distinct rows of a matrix, sorted, and the index of each row among them."""
    index = np.zeros(len(rows), dtype=np.int64)
    first = np.zeros(min(len(rows), 1), dtype=np.int64)
    for column in rows.T:
        # Column by column: a key of all columns at once could exceed 64 bits.
        values, numbers, _ = _numbered(column)
        _, index, first = _numbered(index * len(values) + numbers)
    return rows[first], index


def sum_rows(rows: Numbers, index: Codes, size: int) -> Numbers:
    """Sum the rows of a matrix that have the same index, from 0 to ``size - 1``."""
    columns = [np.bincount(index, column, size) for column in rows.T]
    return np.asarray(np.column_stack(columns), dtype=np.float64)


def _numbered(values: Codes) -> tuple[Codes, Codes, Codes]:
    """Return the distinct values, sorted, the index of each value among them, and their first positions."""
    # Hashing is far faster than sorting where there are few distinct values.
    numbers, distinct = pd.factorize(values)
    first = np.empty(len(distinct), dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(values) - 1, -1, -1, dtype=np.int64)
    order = np.argsort(distinct)
    rank = np.empty(len(distinct), dtype=np.int64)
    rank[order] = np.arange(len(distinct), dtype=np.int64)
    return distinct[order], rank[numbers], first[order]
