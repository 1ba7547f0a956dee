"""Converts values of JSON to those of a typed column."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds import instants
from attrib_ds.contract.json_values import encode
from attrib_ds.errors import InvalidRequest
from attrib_ds.json_numbers import load_exact
from attrib_ds.schema import INSTANT

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

_FLAGS: Final = {"true": True, "false": False}


def parse(text: str | None) -> Any:
    """Return the value of JSON text, numbers exact; None if there is no text."""
    return None if text is None else load_exact(text)


def typed(value: object, kind: pa.DataType) -> Any:
    """Return a JSON value as a value of a column, or None if the column cannot hold it.

    Numbers, flags and instants may be written as text, as in events that were loaded from files. A location
    is its address.

    Examples
    --------
    >>> typed("3.5", pa.float64()), typed(3, pa.string()), typed("many", pa.float64())
    (3.5, '3', None)
    >>> typed({"formattedAddress": "Storgata 1, Oslo", "city": "Oslo"}, pa.string())
    'Storgata 1, Oslo'
    """
    return None if value is None else _READERS[kind](value)


def holds_all(value: object, kind: pa.DataType) -> bool:
    """Say whether a column of this type holds all of a JSON value: not of a location, for example."""
    return value is None or (not isinstance(value, dict | list) and typed(value, kind) is not None)


def number(value: object) -> float | None:
    """Return a JSON number, or text that is one, as a finite float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        converted = float(value)
    except (OverflowError, ValueError):
        return None
    return converted if math.isfinite(converted) else None


def _text(value: object) -> str:
    if isinstance(value, dict) and isinstance(value.get("formattedAddress"), str):
        return str(value["formattedAddress"])
    return value if isinstance(value, str) else encode(value)


def _flag(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return _FLAGS.get(value) if isinstance(value, str) else None


def _instant(value: object) -> datetime | None:
    try:
        return instants.parse(value, argument="value") if isinstance(value, str) else None
    except InvalidRequest:
        return None


_READERS: Final[dict[pa.DataType, Callable[[object], Any]]] = {
    pa.string(): _text,
    pa.float64(): number,
    pa.bool_(): _flag,
    INSTANT: _instant,
}
