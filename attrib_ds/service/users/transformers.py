"""Transforms cells of an export (G-123)."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.service.users.cells import cell_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.contract.exports import Transformer
    from attrib_ds.service.users.cells import Cell

#: Precision for all digits of the largest double.
_EXACT: Final = Context(prec=340, rounding=ROUND_HALF_UP)
_MONTHS: Final = {"year": 12, "semester": 6, "quarter": 3, "month": 1}
_PARTS: Final[dict[str, dict[str, int]]] = {
    "second": {"microsecond": 0},
    "minute": {"second": 0, "microsecond": 0},
    "hour": {"minute": 0, "second": 0, "microsecond": 0},
    "day": {"hour": 0, "minute": 0, "second": 0, "microsecond": 0},
}


def transformation(transformer: Transformer) -> Callable[[Cell], Cell]:
    """Return the function of a transformer.

    Parameters
    ----------
    transformer : Transformer
        A validated transformer.

    Returns
    -------
    callable
        Takes and returns a cell. Missing values and values of other types stay as they are; lists are
        transformed value by value, except by ``join``.

    Examples
    --------
    >>> from attrib_ds.contract.exports import Transformer
    >>> transformation(Transformer(type="case", key="fields.city", level="upper"))("Oslo")
    'OSLO'
    >>> transformation(Transformer(type="number", key="eventCount", level=1))(2.25)
    Decimal('2.3')
    >>> transformation(Transformer(type="join", key="audienceIds", level=", "))(["a", "b"])
    'a, b'
    """
    if transformer.type == "join":
        return partial(_joined, separator=transformer.level)
    change = partial(_CHANGES[transformer.type], level=transformer.level)

    def transform(cell: Cell) -> Cell:
        if isinstance(cell, list):
            return [transform(value) for value in cell]
        return None if cell is None else change(cell)

    return transform


def _joined(cell: Cell, separator: str) -> Cell:
    return separator.join(cell_text(value) for value in cell) if isinstance(cell, list) else cell


def _truncated(cell: Cell, level: str) -> Cell:
    """Truncate an instant to a period, in UTC; weeks start on Monday."""
    if not isinstance(cell, datetime):
        return cell
    instant = cell.astimezone(UTC)
    if level in _PARTS:
        return instant.replace(**_PARTS[level])  # type: ignore[arg-type]
    day = instant.replace(**_PARTS["day"])  # type: ignore[arg-type]
    if level == "week":
        return day - timedelta(days=day.weekday())
    months = _MONTHS[level]
    return day.replace(month=(day.month - 1) // months * months + 1, day=1)


def _rounded(cell: Cell, level: int) -> Cell:
    """Round a number to a number of decimals, half away from zero."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal):
        return cell
    # Via text: round the decimal that is displayed, not the binary float.
    number = cell if isinstance(cell, Decimal) else Decimal(str(cell))
    return number.quantize(Decimal(1).scaleb(-level), context=_EXACT) if number.is_finite() else cell


def _cased(cell: Cell, level: str) -> Cell:
    if not isinstance(cell, str):
        return cell
    return cell.upper() if level == "upper" else cell.lower()


def _hashed(cell: Cell, level: Any) -> Cell:  # noqa: ARG001  (signature of all)
    return hashlib.sha256(cell_text(cell).encode()).hexdigest()


_CHANGES: Final[dict[str, Callable[..., Cell]]] = {
    "date": _truncated,
    "number": _rounded,
    "case": _cased,
    "hash": _hashed,
}
