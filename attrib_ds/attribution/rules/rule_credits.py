"""Credits of rule-based models: all models in one query, with their intervals."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np
import pandas as pd

from attrib_ds.attribution.engines.hashing import number_of
from attrib_ds.attribution.engines.sums import total
from attrib_ds.attribution.intervals.resampling import Units
from attrib_ds.attribution.intervals.uncertainty import Limits, measures_of
from attrib_ds.attribution.rules.weights import weighted
from attrib_ds.records.dtypes import TEXT
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Iterator

    import ibis.expr.types as ir
    import pyarrow as pa
    from numpy.typing import NDArray

    from attrib_ds.attribution.intervals.uncertainty import Uncertainty
    from attrib_ds.attribution.models.model import Model
    from attrib_ds.attribution.paths.paths import Paths

    Numbers = NDArray[np.float64]

#: Rows of credits by user to resample at a time.
_TOGETHER = 1 << 18

_CELL = ["node_id", "currency"]


def rule_credits(paths: Paths, models: list[Model], *, uncertainty: Uncertainty | None) -> list[pd.DataFrame]:
    """Sum the credit of every model by node and currency.

    Parameters
    ----------
    paths : Paths
        The touchpoints of conversions.
    models : list of Model
        Rule-based models.
    uncertainty : Uncertainty, optional
        Level and method of intervals; none by default.

    Returns
    -------
    list of DataFrame
        One per model, in order: ``node_id``, ``currency``, ``conversions``, ``value`` and, with
        ``uncertainty``, bounds of both and of the share.
    """
    if not models:
        return []
    if uncertainty is None:
        rows = _weighted_touches(paths, models)
        wide = to_pandas(rows.group_by(_CELL).agg(**_sums(rows, models)).order_by(*_CELL).to_pyarrow())
        return [_credits_of(wide, index) for index in range(len(models))]
    if uncertainty.replicates:
        replicated = ReplicatedCredits.of(paths, models, range(uncertainty.replicates), uncertainty.seed)
        return [replicated.bounded(index, uncertainty) for index in range(len(models))]
    wide = _with_squares(paths, models)
    return [
        _credits_of(wide, index).assign(**_around(wide, index, uncertainty)) for index in range(len(models))
    ]


class ReplicatedCredits:
    """Credits of models by node and currency, of all users and in bootstrap samples of them.

    Attributes
    ----------
    cells : list of tuple
        Node and currency.
    total : float array, shape (n_models, 2, n_cells)
        Credited conversions and value.
    samples : float array, shape (n_replicates, n_models, 2, n_cells)
        The same in each replicate.
    """

    def __init__(self, models: int, replicates: int) -> None:
        self._models = models
        self._places: dict[tuple[str | None, str | None], int] = {}
        self._total = np.zeros((models * 2, 0))
        self._samples = np.zeros((replicates, models * 2, 0))
        self._lowest = np.zeros(0)

    @classmethod
    def of(cls, paths: Paths, models: list[Model], replicates: range, seed: int) -> ReplicatedCredits:
        """Resample the credits of users, a batch of rows at a time."""
        credited = _by_unit(paths, models)
        numbered = credited.mutate(number=number_of(credited.unit)).drop("unit")
        credits = cls(len(models), len(replicates))
        # In order, so that the rows of a user are consecutive and sums are reproducible.
        for batch in _batches(numbered.order_by("number", *_CELL)):
            credits._add(batch, replicates, seed, has_users=paths.has_users)
        return credits

    @property
    def cells(self) -> list[tuple[str | None, str | None]]:
        """Node and currency of each row of credits."""
        return list(self._places)

    def whole(self, index: int) -> pd.DataFrame:
        """Return the credits of a model."""
        nodes, currencies = zip(*self.cells, strict=True) if self.cells else ((), ())
        conversions, value = self._total.reshape(self._models, 2, -1)[index]
        return pd.DataFrame(
            {
                "node_id": pd.array(nodes, dtype=TEXT),
                "currency": pd.array(currencies, dtype=TEXT),
                "conversions": conversions,
                "value": value,
            }
        )

    def bounded(self, index: int, uncertainty: Uncertainty) -> pd.DataFrame:
        """Return the credits of a model with their bounds."""
        whole = self.whole(index)
        conversions, value = (whole[name].to_numpy("float64") for name in ("conversions", "value"))
        bounds = uncertainty.between(
            measures_of(conversions, value), self.of_model(index), limits=_limits(whole, self._lowest)
        )
        return whole.assign(**bounds)

    def of_model(self, index: int) -> Numbers:
        """Return conversions and value in each replicate; shape (n_replicates, 2, n_cells)."""
        return np.asarray(self._samples.reshape(len(self._samples), self._models, 2, -1)[:, index])

    def _add(self, batch: pa.RecordBatch, replicates: range, seed: int, *, has_users: bool) -> None:
        cell = self._cell_of(batch)
        missing = len(self._places) - self._total.shape[-1]
        self._total = np.pad(self._total, [(0, 0), (0, missing)])
        self._samples = np.pad(self._samples, [(0, 0), (0, 0), (0, missing)])
        self._lowest = np.pad(self._lowest, (0, missing), constant_values=np.inf)
        np.fmin.at(self._lowest, cell, _numbers(batch["lowest"]))
        names = [f"{kind}{index}" for index in range(self._models) for kind in "cv"]
        amounts = np.column_stack([_numbers(batch[name]) for name in names])
        for position, amount in enumerate(amounts.T):
            self._total[position] += np.bincount(cell, amount, len(self._places))
        units = Units.of(_whole(batch["number"]))
        if not has_users:
            # An aggregated path stands for many conversions of different users.
            is_first = np.diff(units.unit, prepend=-1) > 0
            units = units.sized(np.where(is_first, _numbers(batch["conversions"]), 0.0))
        self._samples += units.sums(cell, amounts, cells=len(self._places), replicates=replicates, seed=seed)

    def _cell_of(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        node, currency = (batch[name].dictionary_encode("encode") for name in _CELL)
        width = max(len(currency.dictionary), 1)
        codes, row = np.unique(_whole(node.indices) * width + _whole(currency.indices), return_inverse=True)
        nodes, currencies = node.dictionary.to_pylist(), currency.dictionary.to_pylist()
        pairs = ((nodes[code // width], currencies[code % width]) for code in codes.tolist())
        places = [self._places.setdefault(pair, len(self._places)) for pair in pairs]
        return np.array(places, dtype=np.int64)[row]


def _weighted_touches(paths: Paths, models: list[Model]) -> ir.Table:
    return paths.touches.mutate(**{f"w{index}": weighted(paths, model) for index, model in enumerate(models)})


def _sums(rows: ir.Table, models: list[Model]) -> dict[str, Any]:
    sums = {}
    for index in range(len(models)):
        weight = rows[f"w{index}"]
        sums[f"c{index}"] = total(weight * rows.conversions)
        sums[f"v{index}"] = total(weight * rows.value)
    return sums


def _by_unit(paths: Paths, models: list[Model]) -> ir.Table:
    """Sum credits by node, currency and sampling unit: the user, or the conversion if users are unknown."""
    rows = _weighted_touches(paths, models)
    unit = rows.user_id.coalesce(rows.event_id) if paths.has_users else rows.event_id
    rows = rows.mutate(unit=unit)
    return rows.group_by([*_CELL, "unit"]).agg(
        **_sums(rows, models), conversions=rows.conversions.max(), lowest=rows.value.min()
    )


def _with_squares(paths: Paths, models: list[Model]) -> pd.DataFrame:
    """Sum credits, and for variances their squares and their products with the user's total."""
    credited = _by_unit(paths, models)
    of_unit = ibis.window(group_by=credited.unit)
    totals = {f"t{index}": total(credited[f"c{index}"], over=of_unit) for index in range(len(models))}
    rows = credited.mutate(**totals)
    # The conversions of an aggregated path are separate units, each with an equal part of its credit.
    size = ibis.literal(1.0) if paths.has_users else rows.conversions
    sums: dict[str, Any] = {"lowest": rows.lowest.min()}
    for index in range(len(models)):
        conversions, value, of_user = (rows[f"{kind}{index}"] for kind in "cvt")
        sums[f"c{index}"] = total(conversions)
        sums[f"v{index}"] = total(value)
        sums[f"cc{index}"] = total(conversions * conversions / size)
        sums[f"vv{index}"] = total(value * value / size)
        sums[f"ct{index}"] = total(conversions * of_user / size)
    return to_pandas(rows.group_by(_CELL).agg(**sums).order_by(*_CELL).to_pyarrow())


def _credits_of(wide: pd.DataFrame, index: int) -> pd.DataFrame:
    return wide[_CELL].assign(
        conversions=wide[f"c{index}"].astype("float64"), value=wide[f"v{index}"].astype("float64")
    )


def _around(wide: pd.DataFrame, index: int, uncertainty: Uncertainty) -> dict[str, Numbers]:
    """Return bounds by the variance of a compound Poisson process; of shares by the delta method."""
    conversions, value, squares, value_squares, products = (
        wide[f"{kind}{index}"].to_numpy("float64") for kind in ("c", "v", "cc", "vv", "ct")
    )
    estimates = measures_of(conversions, value)
    share = estimates["share"]
    whole = conversions.sum() or np.nan
    # Sum over users of the squared difference between their credit and the share of their total. The squares
    # of totals are the products with totals, summed over nodes.
    deviations = squares - 2 * share * products + share**2 * products.sum()
    return uncertainty.around(
        estimates,
        {"conversions": squares, "value": value_squares, "share": deviations / whole**2},
        limits=_limits(wide, wide["lowest"].to_numpy("float64")),
    )


def _limits(credits: pd.DataFrame, lowest: Numbers) -> Limits:
    """Return the limits of rule-based credits; ``lowest`` is the minimum value of a conversion by row."""
    currency = pd.factorize(credits["currency"])[0].astype(np.int64)
    return Limits(is_sum=True, is_signed=False, is_gain=lowest >= 0, currency=currency + 1)


def _batches(rows: ir.Table) -> Iterator[pa.RecordBatch]:
    """Compute rows, and yield them in batches."""
    with warnings.catch_warnings():
        # Ibis 12 calls a function that DuckDB 1.5 deprecates when it reads the first rows.
        warnings.simplefilter("ignore", DeprecationWarning)
        reader = rows.to_pyarrow_batches(chunk_size=_TOGETHER)
        first = next(reader, None)
    if first is not None:
        yield first
        yield from reader


def _numbers(column: pa.Array) -> Numbers:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _whole(column: pa.Array) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)
