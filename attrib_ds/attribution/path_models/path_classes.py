"""Distinct paths after the transform of a model, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import ibis
import numpy as np
import pandas as pd

from attrib_ds.attribution.path_models.outcomes import Outcomes
from attrib_ds.attribution.paths.sequences import NOTHING, Sequences, Steps, prepared

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa
    from numpy.typing import NDArray

    from attrib_ds.attribution.models.path_models import SequenceModel

_CODE = np.dtype(np.int32)
_NO_TOUCH = np.array([NOTHING], dtype=_CODE).tobytes()


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
    def of(cls, sequences: Sequences, model: SequenceModel) -> PathClasses:
        """Find the distinct paths, and count their outcomes."""

        def ordered(steps: Steps) -> ir.Table:
            kept = prepared(steps, model, sequences.node_ids)
            rows = kept.table.mutate(step=ibis.row_number().over(kept.in_order()))
            columns = ["path_id", "step", "fold", *steps.counts, *({"currency"} & set(rows.columns))]
            return rows.select(*columns, code=rows.code.cast("int32"))

        table = sequences.collect(ordered, order_by=("path_id", "step"))
        starts = np.flatnonzero(table["step"].to_numpy() == 0)
        row, paths = pd.factorize(pd.Series(_split(table["code"], starts), dtype=object))
        has_touch = np.array([path != _NO_TOUCH for path in paths], dtype=bool)
        return cls(list(paths), Outcomes.of(table.take(starts), row, has_touch))

    def codes(self, path: bytes) -> NDArray[np.int32]:
        """Return the codes of a path."""
        return np.frombuffer(path, dtype=_CODE)

    def without_each_step(self, path: bytes) -> list[bytes]:
        """Return the path without its first step, without its second step and so on."""
        width = _CODE.itemsize
        return [path[:start] + path[start + width :] for start in range(0, len(path), width)]


def split_paths(path_ids: pa.ChunkedArray, codes: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[bytes]]:
    """Return the first row of each path, and its codes as in :attr:`PathClasses.paths`.

    Parameters
    ----------
    path_ids, codes : pyarrow.ChunkedArray
        Path and code of each step; the steps of a path are consecutive and in order.
    """
    numbers = path_ids.dictionary_encode().combine_chunks().indices.to_numpy()
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return starts, _split(codes, starts)


def _split(codes: pa.ChunkedArray, starts: NDArray[np.int64]) -> list[bytes]:
    encoded, width = codes.to_numpy().astype(_CODE).tobytes(), _CODE.itemsize
    bounds = [*(starts * width).tolist(), len(encoded)]
    return [encoded[first:last] for first, last in pairwise(bounds)]
