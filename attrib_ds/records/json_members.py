"""Extracts JSON members to keep as text, and members that are not in the schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from attrib_ds.contract.json_values import DEEPEST, encode
from attrib_ds.records.json_records import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Maximum number of members outside the schema, each a column; others are left out.
MOST_NEW: Final = 1_000
#: Shorter texts cannot contain a number with too many digits for Python.
_SURELY_SHORT: Final = 4_000
_JSON: Final = {"json": "true"}
#: Column names split at their dots, as nested dicts.
_Tree = dict[str, Any]
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class NotAnObject(ValueError):
    """A value is not an object where records have one; the message is its path."""


@dataclass(frozen=True)
class Names:
    """Names of the members of an object in a record.

    Parameters
    ----------
    plain : frozenset of str
        Members that are parsed elsewhere, or not requested.
    texts : mapping of str to str
        Columns of the members to keep as text.
    objects : mapping of str to Names
        Members that are objects.
    is_open : bool, default False
        Whether the object may have other members.
    """

    plain: frozenset[str]
    texts: Mapping[str, str]
    objects: Mapping[str, Names]
    is_open: bool = False

    @property
    def has_texts(self) -> bool:
        """Whether any member, at any depth, is kept as text."""
        return bool(self.texts) or any(names.has_texts for names in self.objects.values())

    def text_columns(self) -> list[str]:
        """Return the columns that are kept as text, at any depth."""
        inner = [column for names in self.objects.values() for column in names.text_columns()]
        return [*self.texts.values(), *inner]

    @classmethod
    def of(cls, names: Iterable[str], texts: Iterable[str] = ()) -> Names:
        """Create from column names; ``texts`` are the columns to keep as text.

        Examples
        --------
        >>> Names.of(["_id", "geo.city"]).objects["geo"].plain
        frozenset({'city'})
        """
        tree: _Tree = {}
        every = frozenset(names)
        for name in sorted(every):
            branch = tree
            for part in name.split("."):
                branch = branch.setdefault(part, {})
        return cls._of_tree(tree, every, frozenset(texts), "")

    @classmethod
    def _of_tree(cls, tree: _Tree, names: frozenset[str], texts: frozenset[str], path: str) -> Names:
        plain, kept, objects = set(), {}, {}
        for key, branch in tree.items():
            name = f"{path}{key}"
            if name in texts:
                kept[key] = name
            elif branch:
                objects[key] = cls._of_tree(branch, names, texts, f"{name}.")
            else:
                plain.add(key)
        return cls(frozenset(plain), kept, objects, is_open=path[:-1] in names)


@dataclass
class Texts:
    """JSON texts of members, collected by :func:`walk`.

    Parameters
    ----------
    by_column : dict
        Texts by column, one per record, None if absent or null.
    new : dict
        The same for members that are not in the schema, in order of appearance.
    """

    by_column: dict[str, list[bytes | None]] = field(default_factory=dict)
    new: dict[str, list[bytes | None]] = field(default_factory=dict)

    def column(self, name: str, *, rows: int) -> list[bytes | None]:
        """Return the text of a column per record, None if absent or null."""
        return self.by_column.get(name) or [None] * rows

    def new_fields(self) -> pa.Table:
        """Return members outside the schema as columns of JSON text, named by their dotted paths."""
        schema = pa.schema([pa.field(name, pa.string(), metadata=_JSON) for name in self.new])
        return pa.table([pa.array(texts, pa.string()) for texts in self.new.values()], schema=schema)


def walk(records: Sequence[msgspec.Raw], names: Names) -> Texts:
    """Collect the texts of members to keep as they were sent.

    Parameters
    ----------
    records : sequence of msgspec.Raw
        Valid JSON, one object each.
    names : Names
        Names of their members.

    Returns
    -------
    Texts
        Slices of the JSON text: numbers are not rounded.

    Raises
    ------
    NotAnObject
        If a record, or an object with members to keep, is not an object.
    InvalidRequest, Refused
        If a text is nested too deeply or has too long numbers to be read back.

    Examples
    --------
    >>> record = msgspec.Raw(b'{"_id": "a", "geo": {"mass": 5.970e24}}')
    >>> walk([record], Names.of(["_id", "geo.city"])).new
    {'geo.mass': [b'5.970e24']}
    """
    texts = Texts()
    for row, record in enumerate(records):
        content = bytes(record)
        if not content.startswith(b"{"):
            raise NotAnObject("data")
        _walk(content, names, texts, (row, len(records)), "")
    return texts


def _walk(content: bytes, names: Names, texts: Texts, row: tuple[int, int], path: str) -> None:
    members = _MEMBERS.decode(content)
    position, rows = row
    # A set difference, because most members are plain.
    remaining = members.keys() - names.plain
    for key in [key for key in members if key in remaining] if remaining else ():
        text: bytes | None = bytes(members[key])
        if text == b"null":
            text = None
        if key in names.objects:
            if text is not None and text.startswith(b"{"):
                _walk(text, names.objects[key], texts, row, member_path(path, key))
            elif text is not None and names.objects[key].has_texts:
                raise NotAnObject(member_path(path, key))
            continue
        if names.is_open and key not in names.texts:
            continue
        if text is not None:
            check_text(text)
        if key in names.texts:
            texts.by_column.setdefault(names.texts[key], [None] * rows)[position] = text
        elif (name := member_path(path, key)) in texts.new or len(texts.new) < MOST_NEW:
            texts.new.setdefault(name, [None] * rows)[position] = text


def new_members(content: bytes, names: Names, new: dict[tuple[str, str], str], path: str = "") -> None:
    """Add the dotted paths of members that are not in the schema, by their object and key."""
    for key, raw in _MEMBERS.decode(content).items():
        if key in names.plain or key in names.texts:
            continue
        if key in names.objects:
            text = bytes(raw)
            if text.startswith(b"{"):
                new_members(text, names.objects[key], new, member_path(path, key))
        elif not names.is_open:
            new.setdefault((path, key), member_path(path, key))


def member_path(path: str, key: str) -> str:
    """Return the dotted path of a member; a key with a dot is quoted."""
    part = json.dumps(key, ensure_ascii=False) if "." in key else key
    return f"{path}.{part}" if path else part


def check_text(text: bytes) -> None:
    """Refuse text that could not be read back; short text with few brackets is fine."""
    if len(text) >= _SURELY_SHORT or text.count(b"{") + text.count(b"[") > DEEPEST:
        encode(decode(text))


def check_texts(texts: Iterable[bytes | None]) -> None:
    """Refuse texts that could not be read back."""
    for text in texts:
        # A text that is no longer cannot be nested too deeply.
        if text is not None and len(text) > DEEPEST:
            check_text(text)
