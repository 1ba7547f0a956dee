"""Reads JSON records into typed structs, where Arrow's own reader refuses them.

It takes what Arrow does not: whole numbers written as ``2.0``, members given twice, and members outside the
schema, whose text it keeps. It costs some two times as much, whichever records have them.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from attrib_ds.records.json_members import Names, Texts, check_text, member_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: New members are found one at a time; records with more are read by :func:`json_members.walk`.
_MOST_ROUNDS: Final = 16
_UNKNOWN: Final = re.compile(
    r"Object contains unknown field `([^`]*)`(?: - at `\$(?:\.data)?\[\d+\]([^`]*)`)?"
)
#: Floats represent all integers below.
_INEXACT: Final = 2.0**53


class TooManyNewMembers(ValueError):
    """The records have more new members than are found one at a time."""


def read_structs(
    decode: Callable[[Any], Sequence[Any]], names: Names, types: Mapping[str, Any]
) -> tuple[dict[str, list[Any]], Texts, int]:
    """Read the members of records.

    Parameters
    ----------
    decode : callable
        Decodes the records as structs of a type; raises ``msgspec.ValidationError`` if one does not fit.
    names : Names
        Names of the members of a record.
    types : mapping of str to type
        Python type of each column to read, by its dotted name; others are only known.

    Returns
    -------
    dict of str to list
        Values of each column of ``types``.
    Texts
        Texts of the members to keep as they were sent, and of new ones.
    int
        Number of records.
    """
    new: dict[str, set[str]] = {}
    for _ in range(_MOST_ROUNDS):
        leaves: dict[str, tuple[str, ...]] = {}
        kind = _struct(names, types, new, leaves, (), "")
        try:
            records = decode(kind)
            break
        except msgspec.ValidationError as error:
            unknown = _UNKNOWN.match(str(error))
            if unknown is None:
                raise
            new.setdefault((unknown[2] or "").removeprefix("."), set()).add(unknown[1])
    else:
        raise TooManyNewMembers
    values = {name: _values(records, leaves[name]) for name in types}
    texts = Texts()
    for name, way in leaves.items():
        if name not in types:
            kept = texts.by_column if name in names_of_texts(names) else texts.new
            found = {row: _text(raw) for row, raw in enumerate(_values(records, way)) if raw is not None}
            if found:
                kept[name] = found
    return values, texts, len(records)


def names_of_texts(names: Names) -> set[str]:
    """Return the columns that are kept as text, at any depth."""
    return set(names.texts.values()).union(*(names_of_texts(inner) for inner in names.objects.values()))


def _struct(
    names: Names,
    types: Mapping[str, Any],
    new: Mapping[str, set[str]],
    leaves: dict[str, tuple[str, ...]],
    way: tuple[str, ...],
    path: str,
) -> Any:
    """Return the type of an object; note how to reach the members to read."""
    fields: list[tuple[str, Any, Any]] = []
    rename: dict[str, str] = {}

    def add(key: str, kind: Any) -> tuple[str, ...]:
        field = f"f{len(fields)}"
        rename[field] = key
        fields.append((field, kind, None))
        return (*way, field)

    for key in names.plain:
        column = f"{path}.{key}" if path else key
        if column in types:
            leaves[column] = add(key, types[column] | None)
        else:
            add(key, msgspec.Raw)
    for key, column in names.texts.items():
        leaves[column] = add(key, msgspec.Raw)
    for key in new.get(path, ()):
        leaves[member_path(path, key)] = add(key, msgspec.Raw)
    for key, inner in names.objects.items():
        place = (*way, f"f{len(fields)}")
        add(key, _struct(inner, types, new, leaves, place, f"{path}.{key}" if path else key) | None)
    is_closed = not names.is_open
    return msgspec.defstruct("Record", fields, rename=rename, forbid_unknown_fields=is_closed, gc=False)


def _values(records: Sequence[Any], way: tuple[str, ...]) -> list[Any]:
    values = list(records)
    for field in way:
        values = (
            list(map(attrgetter(field), values))
            if None not in values
            else [None if value is None else getattr(value, field) for value in values]
        )
    return values


def _text(raw: msgspec.Raw) -> bytes | None:
    text = bytes(raw)
    if text == b"null":
        return None
    check_text(text)
    return text


def whole(value: float | None) -> int | None:
    """Return a whole number; raise :exc:`ValueError` if it has a fraction, or may have lost digits."""
    if value is None or isinstance(value, int):
        return value
    if abs(value) >= _INEXACT or not value.is_integer():
        raise ValueError
    return int(value)
