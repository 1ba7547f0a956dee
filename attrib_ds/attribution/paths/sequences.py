"""Paths as rows of coded steps: those that led to a conversion, and beside them the null paths.

Nodes are whole numbers here, in the order of their ids; their names never meet, so they may hold anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np
import pyarrow as pa

from attrib_ds.attribution.engines.engine import double
from attrib_ds.attribution.engines.hashing import group_of, number_of
from attrib_ds.attribution.engines.sums import total
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import ibis.expr.types as ir

    from attrib_ds.attribution.intervals.uncertainty import Uncertainty
    from attrib_ds.attribution.models.path_models import SequenceModel
    from attrib_ds.attribution.paths.paths import Paths

#: The code of "no touchpoint".
NOTHING = -1

#: What a path counts: conversions, null paths, and the value of conversions above and below zero. Values of
#: both signs are credited apart, because a node's share of a sum near zero would have no bounds.
COUNTS = ("conversions", "nulls", "gains", "losses")

#: Bits of a whole number that mark nodes in a set.
WORD = 62

#: Where :attr:`Sequences.memory` holds a table of the sets of nodes, counted beside something else.
SETS = "sets"


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of paths of one kind: all with a conversion, or all without.

    Attributes
    ----------
    table : ibis.Table
        One row per step: ``path_id``, ``code``, the columns in ``order``, ``fold``, those of ``COUNTS`` that
        the kind has (of the whole path, repeated) and, with conversions, ``currency``.
    order : tuple of str
        Columns that put the steps of one path in order.
    """

    table: ir.Table
    order: tuple[str, ...]

    @property
    def counts(self) -> list[str]:
        """What paths of this kind count."""
        return [name for name in COUNTS if name in self.table.columns]

    @property
    def words(self) -> list[str]:
        """Columns that mark the node in a set of nodes."""
        return [name for name in self.table.columns if name.startswith("word_")]

    def in_order(self, *by: str) -> Any:
        """Return the window over the steps of a path, in order, and within it over equal columns."""
        table = self.table
        return ibis.window(
            group_by=[table[name] for name in ("path_id", *by)],
            order_by=[table[name] for name in self.order],
        )

    def kept(self, condition: Any, **columns: Any) -> Steps:
        """Return the steps that meet a condition, which may look at other steps of the path."""
        marked = self.table.mutate(is_kept=condition, **columns)
        return replace(self, table=marked.filter(marked.is_kept).drop("is_kept"))


@dataclass(frozen=True, eq=False)
class Sequences:
    """Paths ready for the models that look at whole paths.

    Attributes
    ----------
    node_ids : list of str
        The node of each code.
    folds : int
        Groups that users are split into by a hash, for the jackknife; 1 is no split.
    bootstrap : Uncertainty, optional
        Asks for replicates. The group of a user is a hash of the user then: everyone is a group.
    salt : int
        Makes other groups of the same users.
    counts_sets : bool
        Whether the sets of nodes that users touched are wanted too, whatever else is counted.
    memory : dict
        What one model has computed and another can use.
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
        """Give the nodes of paths their numbers."""
        points = paths.touches if paths.touchpoints is None else paths.touchpoints
        found = points.filter(points.node_id.notnull()).select("node_id").distinct().order_by("node_id")
        node_ids = found.to_pyarrow()["node_id"].to_pylist()
        return cls(paths, node_ids, folds, bootstrap, salt, counts_sets)

    @property
    def words(self) -> list[str]:
        """Columns of steps that mark the node in a set of nodes, one bit each."""
        return [f"word_{index}" for index in range(max(1, -(-len(self.node_ids) // WORD)))]

    def converting(self) -> Steps:
        """Return the steps of paths with a conversion; one without a touchpoint has a step of its own."""
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
            # Products, not zeros: an unknown value stays unknown.
            gains=ibis.ifelse(value > 0, value, 0.0 * value),
            losses=ibis.ifelse(value < 0, -value, 0.0 * value),
            fold=self.fold(touches.user_id if self.paths.has_users else touches.event_id),
        )
        return Steps(table, ("position",))

    def nulls(self) -> Steps | None:
        """Return the steps of paths without a conversion, or None where they are unknown."""
        points = self.paths.touchpoints
        if points is None:
            return None
        if not self.paths.has_users:
            lost = self.coded(points.filter(points.nulls > 0))
            # Another unit than the conversions of the same path.
            fold = self.fold(lost.event_id + " without a conversion")
            table = lost.select("code", *self.words, "position", "nulls", path_id="event_id", fold=fold)
            return Steps(table, ("position",))
        converted = self.paths.touches if self.paths.converted is None else self.paths.converted
        users = converted.select("user_id").distinct()
        lost = self.coded(points.filter(points.user_id.notnull()).anti_join(users, "user_id"))
        table = lost.select(
            "code",
            *self.words,
            "date",
            "touch_id",
            path_id="user_id",
            nulls=double(1.0),
            fold=self.fold(lost.user_id),
        )
        # Codes are in the order of node ids, and far quicker to sort by where these are the touch ids too.
        return Steps(table, ("date", "touch_id", "code") if self.paths.has_touch_ids else ("date", "code"))

    def collect(
        self, summary: Callable[[Steps], ir.Table], *, nulls: bool = True, order_by: Sequence[str] = ()
    ) -> pa.Table:
        """Compute one summary of converting paths and null paths together.

        Parameters
        ----------
        summary : callable
            Takes :class:`Steps` and returns a table, with ``fold``, ``currency`` and ``COUNTS`` where the
            steps have them.
        nulls : bool, default True
            Whether null paths are part of it, where they are known.
        order_by : sequence of str, optional
            Columns to order the rows by; by default all but the counts, so that later sums of rows are always
            the same.
        """
        kinds = [self.converting(), self.nulls() if nulls else None]
        missing = {"currency": ibis.null("string")} | {name: ibis.literal(0.0) for name in COUNTS}
        tables = []
        for steps in kinds:
            if steps is not None:
                part = summary(steps)
                whole = part.mutate(**{name: missing[name] for name in missing if name not in part.columns})
                by = order_by or sorted(set(part.columns) - set(COUNTS))
                # One query for each kind: in one for both, the engine would first copy every touchpoint.
                tables.append(whole.order_by(*by).to_pyarrow())
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

    def coded(self, rows: ir.Table) -> ir.Table:
        """Join the code of each node, and its bit in a set of nodes."""
        codes = np.arange(len(self.node_ids), dtype=np.int64)
        columns = {
            "coded_id": pa.array(self.node_ids, pa.string()),
            "code": pa.array(codes, pa.int32()),
        }
        for index, word in enumerate(self.words):
            columns[word] = pa.array(np.where(codes // WORD == index, 1 << (codes % WORD), 0), pa.int64())
        coded = ibis.memtable(pa.table(columns))
        joined = rows.left_join(coded, rows.node_id == coded.coded_id)
        return joined.mutate(code=joined.code.fill_null(NOTHING)).drop("coded_id")


def summed(rows: ir.Table, counts: Sequence[str]) -> dict[str, Any]:
    """Return the sums of what paths count; null paths are whole, so any order adds them up alike."""
    return {name: rows[name].sum() if name == "nulls" else total(rows[name]) for name in counts}


def prepared(steps: Steps, model: SequenceModel, node_ids: list[str]) -> Steps:
    """Cut paths to their last steps, leave out nodes that may be, and apply a transform.

    Parameters
    ----------
    steps : Steps
        Of paths as they are.
    model : SequenceModel
        Says which steps and which transform.
    node_ids : list of str
        The node of each code. Under the transform ``"frequency"`` the code of a node touched ``t`` times is
        its own plus ``t - 1`` times the number of nodes.

    Returns
    -------
    Steps
        What is left, in the same order.

    Raises
    ------
    InvalidRequest
        If a node to leave out is not among them.
    """
    every = ibis.window(group_by=steps.table.path_id)
    if model.steps is not None:
        rank = ibis.row_number().over(steps.in_order())
        steps = steps.kept(rank >= steps.table.count().over(every) - model.steps)
    if model.remove_if_not_all:
        is_other = _is_other(steps, model.remove_if_not_all, node_ids, argument="remove_if_not_all")
        steps = steps.kept(is_other | (is_other.cast("int64").max().over(every) == 0))
    if model.remove_if_last_and_not_all:
        steps = _without_ends(steps, model.remove_if_last_and_not_all, node_ids)
    code, nodes = steps.table.code, len(node_ids)
    if model.transform == "exposure":
        return steps.kept((code != code.lag(1).over(steps.in_order())).fill_null(True))
    if model.transform == "unique":
        return steps
    is_first = ibis.row_number().over(steps.in_order("code")) == 0
    if model.transform == "first":
        return steps.kept(is_first)
    times = steps.table.count().over(ibis.window(group_by=[steps.table.path_id, code]))
    return steps.kept(is_first, code=(code + nodes * (times - 1)).cast("int64"))


def _without_ends(steps: Steps, left_out: tuple[str, ...], node_ids: list[str]) -> Steps:
    """Leave out what comes after the last step of any other node."""
    steps = replace(steps, table=steps.table.mutate(rank=ibis.row_number().over(steps.in_order())))
    is_other = _is_other(steps, left_out, node_ids, argument="remove_if_last_and_not_all")
    every = ibis.window(group_by=steps.table.path_id)
    last_other = ibis.ifelse(is_other, steps.table.rank, -1).max().over(every)
    kept = steps.kept((steps.table.rank <= last_other) | (last_other < 0))
    return replace(kept, table=kept.table.drop("rank"))


def _is_other(steps: Steps, left_out: tuple[str, ...], node_ids: list[str], *, argument: str) -> Any:
    """Say which steps are not of the nodes that may be left out; that of a path without any is not."""
    for node_id in left_out:
        if node_id not in node_ids:
            raise InvalidRequest.choice(argument, node_id, node_ids)
    return ~steps.table.code.isin([node_ids.index(node_id) for node_id in left_out])
