"""Whole numbers that stand for currencies and for rows of numbers."""

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
    """Give the currencies of conversions numbers in their order, None last; other rows have the number 0."""
    found = currency.filter(pa.array(is_converted)).combine_chunks().dictionary_encode("encode")
    texts = found.dictionary.to_pylist()
    currencies = sorted(texts, key=lambda text: (text is None, text))
    places = np.array([currencies.index(text) for text in texts], dtype=np.int64)
    numbers = np.zeros(len(is_converted), dtype=np.int64)
    numbers[is_converted] = places[found.indices.to_numpy()] if texts else 0
    return numbers, currencies


def number_rows(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct rows of a matrix in their order, and for each row which of them it is."""
    found = np.zeros(len(rows), dtype=np.int64)
    first = np.zeros(min(len(rows), 1), dtype=np.int64)
    for column in rows.T:
        # Column by column, and each numbered first: no key outgrows a whole number, however many there are.
        values, numbers, _ = _numbered(column)
        _, found, first = _numbered(found * len(values) + numbers)
    return rows[first], found


def sum_rows(rows: NDArray[np.float64], index: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Sum the rows of a matrix that have one number, from 0 to ``size - 1``."""
    columns = [np.bincount(index, column, size) for column in rows.T]
    return np.asarray(np.column_stack(columns), dtype=np.float64)


def _numbered(
    values: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values in their order, which of them each is, and where each is first."""
    # Few values are told apart far quicker by hashes than by sorting all of them.
    numbers, distinct = pd.factorize(values)
    first = np.empty(len(distinct), dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(values) - 1, -1, -1)
    order = np.argsort(distinct)
    rank = np.empty(len(distinct), dtype=np.int64)
    rank[order] = np.arange(len(distinct))
    return distinct[order], rank[numbers], first[order]
