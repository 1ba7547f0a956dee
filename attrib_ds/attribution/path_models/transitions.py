"""Transition counts: how often each node followed the nodes before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np

from attrib_ds.attribution.engines.engine import has_all_features
from attrib_ds.attribution.intervals.resampling import Units
from attrib_ds.attribution.models.path_models import Markov
from attrib_ds.attribution.paths.codes import number_currencies, number_rows, sum_rows
from attrib_ds.attribution.paths.sequences import COUNTS, NOTHING, SETS, Sequences, Steps, prepared, summed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import ibis.expr.types as ir
    from numpy.typing import NDArray

    from attrib_ds.attribution.intervals.uncertainty import Uncertainty


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

    before: NDArray[np.int64]
    code: NDArray[np.int64]
    is_last: NDArray[np.bool_]
    currency: NDArray[np.int64]
    fold: NDArray[np.int64]
    counts: NDArray[np.float64]
    currencies: list[str | None]

    @classmethod
    def of(cls, sequences: Sequences, model: Markov) -> Transitions:
        """Count the transitions of a model, or shorten cached ones of a higher order."""
        key = ("transitions", replace(model, order=1, nulls=True))
        longest: Transitions | None = sequences.memory.get((*key, True))
        if longest is None and not model.nulls:
            longest = sequences.memory.get((*key, False))
        if longest is None or longest.before.shape[1] < model.order:
            longest = _computed(sequences, model)
            sequences.memory[(*key, model.nulls)] = longest
        return longest._shortened(model.order)._with(nulls=model.nulls)

    @property
    def converts(self) -> NDArray[np.bool_]:
        """Whether a row has conversions at the end of the path."""
        return self.is_last & (self.counts[:, 0] > 0)

    def where(self, kept: NDArray[np.bool_]) -> Transitions:
        """Return some of the rows."""
        rows = ("before", "code", "is_last", "currency", "fold", "counts")
        return replace(self, **{name: getattr(self, name)[kept] for name in rows})

    def summed(self) -> tuple[Transitions, NDArray[np.int64]]:
        """Return the transitions summed over groups of users, and the index of each row among them."""
        return replace(self, fold=np.zeros_like(self.fold)).distinct()

    def distinct(self) -> tuple[Transitions, NDArray[np.int64]]:
        """Return the sums of rows that differ in counts only, and the index of each row among them."""
        keys = np.column_stack([self.before, self.code, self.is_last, self.currency, self.fold])
        rows, index = number_rows(keys)
        before, (code, is_last, currency, fold) = rows[:, :-4], rows[:, -4:].T
        return replace(
            self,
            before=before,
            code=code,
            is_last=is_last.astype(bool),
            currency=currency,
            fold=fold,
            counts=sum_rows(self.counts, index, len(rows)),
        ), index

    def replicates(
        self, index: NDArray[np.int64], bootstrap: Uncertainty, *, has_users: bool
    ) -> Iterator[NDArray[np.float64]]:
        """Yield the counts of summed transitions in each replicate; ``index`` is that of each row."""
        cells = int(index.max(initial=-1)) + 1
        units = Units.of(self.fold)
        if not has_users:
            units = units.sized(np.where(self.is_last, self.counts[:, :2].sum(axis=1), 0.0))
        for block in units.blocks(cells * len(COUNTS), bootstrap.replicates):
            sums = units.sums(index, self.counts, cells=cells, replicates=block, seed=bootstrap.seed)
            yield from sums.transpose(0, 2, 1)

    def _shortened(self, order: int) -> Transitions:
        # Rows with the same shorter history are not summed here because the chain sums them anyway.
        return replace(self, before=self.before[:, self.before.shape[1] - order :])

    def _with(self, *, nulls: bool) -> Transitions:
        counts = self.counts if nulls else self.counts * [name != "nulls" for name in COUNTS]
        return replace(self, counts=counts).where(counts[:, :2].sum(axis=1) > 0)


def _computed(sequences: Sequences, model: Markov) -> Transitions:
    # The chain learns from values, so it uses the original ones; later amounts only scale them.
    learned = replace(sequences, paths=sequences.paths.with_scaled_values())
    # One query counts both transitions and node sets, if both are of the same paths.
    is_same = model == Markov(order=model.order) and learned.paths is sequences.paths
    has_sets = sequences.counts_sets and is_same and has_all_features(sequences.paths.touches)

    def counted(steps: Steps) -> ir.Table:
        return _counted(prepared(steps, model, sequences.node_ids), model.order, has_sets=has_sets)

    table = learned.collect(counted, nulls=model.nulls)
    if has_sets:
        sequences.memory[SETS] = table.filter(table["is_last"])

    def integers(name: str) -> Any:
        return table[name].fill_null(NOTHING).to_numpy().astype(np.int64)

    is_last = table["is_last"].to_numpy().astype(bool)
    counts = np.column_stack([table[name].to_numpy().astype(np.float64) for name in COUNTS])
    currency, currencies = number_currencies(table["currency"], is_last & (counts[:, 0] > 0))
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


def _counted(steps: Steps, order: int, *, has_sets: bool = False) -> ir.Table:
    code, window = steps.table.code, steps.in_order()
    before = {f"before_{back}": code.lag(back).over(window) for back in range(1, order + 1)}
    of_path = ibis.window(group_by=steps.table.path_id)
    sets = {name: steps.table[name].bit_or().over(of_path) for name in steps.words if has_sets}
    rows = steps.table.mutate(**before, **sets, is_last=code.lead(1).over(window).isnull())
    # Attributes of the path as a whole are on its last step.
    path_columns = {name: rows[name] for name in ("currency", *sets) if name in rows.columns}
    at_end = [ibis.ifelse(rows.is_last, column, None).name(name) for name, column in path_columns.items()]
    keys = [*before, "code", "is_last", "fold", *at_end]
    return rows.group_by(keys).agg(**summed(rows, steps.counts))
