"""Integer codes for currencies and for distinct rows of a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


def number_currencies(
    currency: pa.ChunkedArray, is_converted: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], list[str | None]]:
    """Encode the currencies of conversions in sorted order, None last; other rows have the code 0."""
    encoded = currency.filter(pa.array(is_converted)).combine_chunks().dictionary_encode("encode")
    distinct = encoded.dictionary.to_pylist()
    currencies = sorted(distinct, key=lambda code: (code is None, code))
    ranks = np.array([currencies.index(code) for code in distinct], dtype=np.int64)
    numbers = np.zeros(len(is_converted), dtype=np.int64)
    numbers[is_converted] = ranks[encoded.indices.to_numpy()] if distinct else 0
    return numbers, currencies


def number_rows(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct rows of a matrix, sorted, and the index of each row among them."""
    index = np.zeros(len(rows), dtype=np.int64)
    first = np.zeros(min(len(rows), 1), dtype=np.int64)
    for column in rows.T:
        # Column by column: a key of all columns at once could exceed 64 bits.
        values, numbers, _ = _numbered(column)
        _, index, first = _numbered(index * len(values) + numbers)
    return rows[first], index


def sum_rows(rows: NDArray[np.float64], index: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Sum the rows of a matrix that have the same index, from 0 to ``size - 1``."""
    columns = [np.bincount(index, column, size) for column in rows.T]
    return np.asarray(np.column_stack(columns), dtype=np.float64)


def _numbered(
    values: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values, sorted, the index of each value among them, and their first positions."""
    # Hashing is far faster than sorting where there are few distinct values.
    numbers, distinct = pd.factorize(values)
    first = np.empty(len(distinct), dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(values) - 1, -1, -1)
    order = np.argsort(distinct)
    rank = np.empty(len(distinct), dtype=np.int64)
    rank[order] = np.arange(len(distinct))
    return distinct[order], rank[numbers], first[order]
