"""Whole numbers that stand for currencies and for rows of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
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
    """Return the distinct rows of a matrix, and for each row which of them it is."""
    found = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        # Column by column, and each numbered first: no key outgrows a whole number, however many there are.
        values, numbers = np.unique(column, return_inverse=True)
        _, found = np.unique(found * len(values) + numbers, return_inverse=True)
    _, first = np.unique(found, return_index=True)
    return rows[first], found
