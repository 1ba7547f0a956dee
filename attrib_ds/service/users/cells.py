"""Converts columns of users to cells of an export."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrib_ds import instants, schema
from attrib_ds.contract.json_text import encode
from attrib_ds.errors import InvalidRequest
from attrib_ds.json_numbers import load_exact

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

#: A cell before formatting: a list has several values, None is empty.
Cell: TypeAlias = "str | bool | int | float | Decimal | datetime | list[Cell] | None"

#: Separates the values of a list (G-124).
SEPARATOR: Final = "|"


def columns_of(key: str) -> list[str]:
    """Return the flat columns of a key.

    Examples
    --------
    >>> columns_of("fields.email"), columns_of("_id")
    (['fields.email'], ['_id'])
    >>> columns_of("mostProbableLocation")[0]
    'mostProbableLocation.source'
    """
    names = schema.user_columns([key]).names
    return names if key == "_id" else [name for name in names if name != "_id"]


def cells_of(batch: pa.RecordBatch, key: str) -> list[Cell]:
    """Return the cells of a key, one per row.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        With the columns of the key.
    key : str
        As in searches of users.

    Returns
    -------
    list
        For fields the current value; objects as JSON text.
    """
    names = columns_of(key)
    if names != [key]:
        members = {name.removeprefix(f"{key}."): batch[name].to_pylist() for name in names}
        return [_nested(dict(zip(members, row, strict=True))) for row in zip(*members.values(), strict=True)]
    values: list[Any] = batch[key].to_pylist()
    if key.startswith("fields."):
        return [_current(text) for text in values]
    return values


def cell_text(cell: Cell) -> str:
    """Return the text of a cell.

    Examples
    --------
    >>> [cell_text(cell) for cell in (None, True, 12.5, Decimal("0.10"), ["a", 1])]
    ['', 'true', '12.5', '0.10', 'a|1']
    """
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, datetime):
        return instants.format(cell)
    if isinstance(cell, Decimal):
        return format(cell, "f")
    if isinstance(cell, list):
        return SEPARATOR.join(cell_text(value) for value in cell)
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    return encode(cell)


def _current(text: str | None) -> Cell:
    """Return the current value of a field from the JSON list of its entries, or None."""
    entries = load_exact(text) if text else []
    if not entries:
        return None
    current = entries[0].get("current")
    if isinstance(current, str) and entries[0].get("type") == "date":
        try:
            return instants.parse(current, argument="date")
        except InvalidRequest:
            return current
    return _plain(current)


def _plain(value: Any) -> Cell:
    if isinstance(value, dict):
        return encode(value)
    if isinstance(value, list):
        return [_plain(member) for member in value]
    cell: Cell = value
    return cell


def _nested(members: dict[str, Any]) -> str | None:
    """Return an object as JSON, without missing members."""
    tree: dict[str, Any] = {}
    for name, value in members.items():
        if value is None:
            continue
        *parents, leaf = name.split(".")
        holder = tree
        for parent in parents:
            holder = holder.setdefault(parent, {})
        holder[leaf] = value
    return encode(tree) if tree else None


def rows_of(columns: Iterable[Sequence[Cell]]) -> list[tuple[Cell, ...]]:
    """Transpose columns of equal length to rows."""
    return list(zip(*columns, strict=True))
