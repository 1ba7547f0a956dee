"""Check the arguments of a plot before anything is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Collection


def require_choice(argument: str, got: object, allowed: Collection[str]) -> None:
    """Raise unless ``got`` is one of ``allowed``."""
    if not isinstance(got, str) or got not in allowed:
        raise InvalidRequest.choice(argument, got, allowed)


def require_count(argument: str, got: object) -> None:
    """Raise unless ``got`` is a whole number of at least 1."""
    if not isinstance(got, int) or isinstance(got, bool) or got < 1:
        raise InvalidRequest(
            f"{argument}: {got!r} is not allowed; allowed: whole numbers from 1", field=argument
        )


def numbers(argument: str, frame: pd.DataFrame, column: str) -> pd.Series[float]:
    """Return a column of any numeric dtype as float64, with null as NaN."""
    try:
        return pd.to_numeric(frame[column]).astype("Float64").astype("float64")
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"{argument}: column {column!r} is {frame[column].dtype}; allowed: numbers", field=argument
        ) from error
