"""Encode covariates as numbers: one-hot columns for categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

#: Maximum number of categories; a column with more holds names or notes.
_MOST: Final = 100
_READABLE: Final = "numbers, flags and text"


def check_kind(kind: pa.DataType, name: str, *, argument: str) -> None:
    """Refuse columns other than numbers, flags and text, such as dates."""
    if not (is_number(kind) or is_text(kind)):
        raise InvalidRequest(
            f"{argument}: the covariate {name!r} is of the type {kind}; allowed: {_READABLE} (convert dates "
            "to numbers, such as days, or name the columns to use with covariates=)",
            field=argument,
        )


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column holds numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds categories: text, flags, or nothing but nulls."""
    is_any = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    return bool(is_any or pa.types.is_boolean(kind) or pa.types.is_null(kind))


def categories(texts: pd.Series[str], name: str, *, argument: str) -> list[Numbers]:
    """Return one-hot columns of all categories but the most frequent.

    Raises
    ------
    InvalidRequest
        If there are more than 100 categories.
    """
    counted = texts.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    if len(counted) > _MOST:
        raise InvalidRequest(
            f"{argument}: the covariate {name!r} has {len(counted):,} different values; allowed: up to "
            f"{_MOST} (merge rare ones, or name the columns to use with covariates=)",
            field=argument,
        )
    return [np.asarray(texts == category, dtype=np.float64) for category in sorted(counted.index[1:])]


def standardised(columns: Numbers) -> Numbers:
    """Return columns with mean 0 and standard deviation 1; constant ones become 0."""
    _, exponent = np.frexp(np.abs(columns).max(axis=0, initial=0.0))
    # The square of a large number overflows; a power of two changes no digit.
    scaled = np.ldexp(columns, -exponent)
    spread = scaled.std(axis=0)
    return np.asarray((scaled - scaled.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
