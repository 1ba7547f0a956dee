"""Reads JSON records into typed structs, where Arrow's own reader refuses them.

It takes what Arrow does not: members outside the schema, whose text it keeps, and members given twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from attrib_ds.records.json_members import MOST_NEW, Names, Texts, check_texts, member_path, new_members

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_UNKNOWN: Final = re.compile(r"Object contains unknown field .* at `\$\[(\d+)\]", re.DOTALL)
#: Number of records searched for new members after the first unknown one, and its growth per attempt.
_FIRST_SEARCH: Final = 64
_SEARCH_GROWTH: Final = 8
#: Floats represent all integers below.
_INEXACT: Final = 2.0**53


class TooManyNewMembers(ValueError):
    """The records have more new members than are kept."""


@dataclass(frozen=True)
class Structs:
    """Decoded records.

    Parameters
    ----------
    records : sequence of msgspec.Struct
        One per record.
    ways : dict
        Attributes that lead to each member, by its dotted path.
    new : sequence of str
        Dotted paths of the members outside the schema, in order of appearance.
    """

    records: Sequence[Any]
    ways: dict[str, tuple[str, ...]] = field(default_factory=dict)
    new: Sequence[str] = ()

    def values(self, name: str) -> list[Any]:
        """Return a member per record, None if absent."""
        first, *inner = self.ways[name]
        values = list(map(attrgetter(first), self.records))
        for attribute in inner:
            values = (
                list(map(attrgetter(attribute), values))
                if None not in values
                else [None if value is None else getattr(value, attribute) for value in values]
            )
        return values

    def texts(self, names: Names) -> Texts:
        """Return the texts of the members to keep as they were sent, and of new ones."""
        return Texts(
            {name: self._kept(name) for name in names.text_columns()},
            {name: self._kept(name) for name in self.new},
        )

    def _kept(self, name: str) -> list[bytes | None]:
        texts = [None if raw is None else bytes(raw) for raw in self.values(name)]
        check_texts(texts)
        return [None if text == b"null" else text for text in texts]


def decode_structs(decode: Callable[[Any], Sequence[Any]], names: Names, types: Mapping[str, Any]) -> Structs:
    """Decode records.

    Parameters
    ----------
    decode : callable
        Decodes the records as values of a type; raises ``msgspec.ValidationError`` if one does not fit.
    names : Names
        Names of the members of a record.
    types : mapping of str to type
        Python type of each column to decode, by its dotted name; other known members stay undecoded.

    Raises
    ------
    TooManyNewMembers
        If there are too many members outside the schema to keep all.
    """
    new: dict[tuple[str, str], str] = {}
    raws: Sequence[msgspec.Raw] = ()
    search = _FIRST_SEARCH
    while True:
        ways: dict[str, tuple[str, ...]] = {}
        kind = _struct(names, types, new, ways, (), "")
        try:
            return Structs(decode(kind), ways, list(new.values()))
        except msgspec.ValidationError as error:
            unknown = _UNKNOWN.match(str(error))
            if unknown is None:
                raise
        raws = raws or decode(msgspec.Raw)
        first, known = int(unknown[1]), len(new)
        for raw in raws[first : first + search]:
            new_members(bytes(raw), names, new)
        if not known < len(new) <= MOST_NEW:
            raise TooManyNewMembers
        search *= _SEARCH_GROWTH


def _struct(
    names: Names,
    types: Mapping[str, Any],
    new: Mapping[tuple[str, str], str],
    ways: dict[str, tuple[str, ...]],
    way: tuple[str, ...],
    path: str,
) -> Any:
    """Return the type of an object; note how to reach its members."""
    fields: list[tuple[str, Any, Any]] = []
    rename: dict[str, str] = {}

    def add(key: str, kind: Any) -> tuple[str, ...]:
        attribute = f"f{len(fields)}"
        rename[attribute] = key
        fields.append((attribute, kind, None))
        return (*way, attribute)

    for key in names.plain:
        column = member_path(path, key)
        ways[column] = add(key, types[column] | None if column in types else msgspec.Raw)
    for key, column in names.texts.items():
        ways[column] = add(key, msgspec.Raw)
    for (parent, key), column in new.items():
        if parent == path:
            ways[column] = add(key, msgspec.Raw)
    for key, inner in names.objects.items():
        place = (*way, f"f{len(fields)}")
        add(key, _struct(inner, types, new, ways, place, member_path(path, key)) | None)
    is_closed = not names.is_open
    return msgspec.defstruct("Record", fields, rename=rename, forbid_unknown_fields=is_closed, gc=False)


def whole(value: float | None) -> int | None:
    """Return a whole number; raise :exc:`ValueError` if it has a fraction, or may have lost digits."""
    if value is None or isinstance(value, int):
        return value
    if abs(value) >= _INEXACT or not value.is_integer():
        raise ValueError
    return int(value)
