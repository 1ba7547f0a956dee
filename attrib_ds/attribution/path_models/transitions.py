"""How often each node followed the nodes before it, counted where the paths are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np

from attrib_ds.attribution.engines.engine import has_everything
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
    """Counts of steps by the steps before them; arrays of one length.

    Attributes
    ----------
    before : int array, shape (n, order)
        Codes of the steps before, the oldest first; ``NOTHING`` before the start of the path.
    code : int array
        The step.
    is_last : bool array
        Whether the path ends with it.
    currency : int array
        Index in ``currencies`` of that of the conversions at the end; 0 elsewhere.
    fold : int array
        The group of users.
    counts : float array, shape (n, 4)
        ``COUNTS``; of value NaN where it is unknown.
    currencies : list
        Of all conversions; None for those without one.
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
        """Count the transitions of a model, or shorten those of a higher order that are there already."""
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
        """Whether a row holds conversions at the end of their paths."""
        return self.is_last & (self.counts[:, 0] > 0)

    def where(self, kept: NDArray[np.bool_]) -> Transitions:
        """Return some of the rows."""
        rows = ("before", "code", "is_last", "currency", "fold", "counts")
        return replace(self, **{name: getattr(self, name)[kept] for name in rows})

    def summed(self) -> tuple[Transitions, NDArray[np.int64]]:
        """Return the transitions of all groups of users together, and to which of them each row belongs."""
        return replace(self, fold=np.zeros_like(self.fold)).distinct()

    def distinct(self) -> tuple[Transitions, NDArray[np.int64]]:
        """Return the sums of rows that are alike but for their counts, and to which of them each belongs."""
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
        """Return the counts of the summed transitions in each replicate; ``index`` is where rows belong."""
        cells = int(index.max(initial=-1)) + 1
        units = Units.of(self.fold)
        if not has_users:
            units = units.sized(np.where(self.is_last, self.counts[:, :2].sum(axis=1), 0.0))
        for block in units.blocks(cells * len(COUNTS), bootstrap.replicates):
            sums = units.sums(index, self.counts, cells=cells, replicates=block, seed=bootstrap.seed)
            yield from sums.transpose(0, 2, 1)

    def _shortened(self, order: int) -> Transitions:
        # The rows of one shorter history need not be summed here: the chain sums them anyway.
        return replace(self, before=self.before[:, self.before.shape[1] - order :])

    def _with(self, *, nulls: bool) -> Transitions:
        counts = self.counts if nulls else self.counts * [name != "nulls" for name in COUNTS]
        return replace(self, counts=counts).where(counts[:, :2].sum(axis=1) > 0)


def _computed(sequences: Sequences, model: Markov) -> Transitions:
    # The chain learns from values, so these are what they were at first; later amounts only scale them.
    learned = replace(sequences, paths=sequences.paths.with_shared_values())
    # Paths are gone through once for both, where both are to be of the same paths.
    is_same = model == Markov(order=model.order) and learned.paths is sequences.paths
    has_sets = sequences.counts_sets and is_same and has_everything(sequences.paths.touches)

    def counted(steps: Steps) -> ir.Table:
        return _counted(prepared(steps, model, sequences.node_ids), model.order, has_sets=has_sets)

    table = learned.collect(counted, nulls=model.nulls)
    if has_sets:
        sequences.memory[SETS] = table.filter(table["is_last"])

    def whole(name: str) -> Any:
        return table[name].fill_null(NOTHING).to_numpy().astype(np.int64)

    is_last = table["is_last"].to_numpy().astype(bool)
    counts = np.column_stack([table[name].to_numpy().astype(np.float64) for name in COUNTS])
    currency, currencies = number_currencies(table["currency"], is_last & (counts[:, 0] > 0))
    found = Transitions(
        before=np.column_stack([whole(f"before_{back}") for back in range(model.order, 0, -1)]),
        code=whole("code"),
        is_last=is_last,
        currency=currency,
        fold=whole("fold"),
        counts=counts,
        currencies=currencies,
    )
    return found.distinct()[0] if has_sets else found


def _counted(steps: Steps, order: int, *, has_sets: bool = False) -> ir.Table:
    code, window = steps.table.code, steps.in_order()
    before = {f"before_{back}": code.lag(back).over(window) for back in range(1, order + 1)}
    every = ibis.window(group_by=steps.table.path_id)
    sets = {name: steps.table[name].bit_or().over(every) for name in steps.words if has_sets}
    rows = steps.table.mutate(**before, **sets, is_last=code.lead(1).over(window).isnull())
    # What is known of a path as a whole, its last step has.
    of_path = {name: rows[name] for name in ("currency", *sets) if name in rows.columns}
    at_end = [ibis.ifelse(rows.is_last, each, None).name(name) for name, each in of_path.items()]
    keys = [*before, "code", "is_last", "fold", *at_end]
    return rows.group_by(keys).agg(**summed(rows, steps.counts))
