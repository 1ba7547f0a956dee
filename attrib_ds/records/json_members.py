"""Finds the members of JSON records that keep the text they were sent in, and those no schema names."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from attrib_ds.contract.json_text import DEEPEST, encode
from attrib_ds.records.json_records import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: A text with fewer bytes than this holds no number that Python refuses to read back.
_SURELY_SHORT: Final = 4_000
_JSON: Final = {"json": "true"}
#: Names by their parts; a name without parts below it has none.
_Tree = dict[str, Any]
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class NoObject(ValueError):
    """A value is no object where records have one; the message is its path."""


@dataclass(frozen=True)
class Known:
    """The names that one object of a record may have.

    Parameters
    ----------
    plain : frozenset of str
        Members that are read elsewhere, or that nobody asked for.
    texts : mapping of str to str
        Column of each member whose text is kept.
    objects : mapping of str to Known
        Members that are objects themselves.
    is_open : bool, default False
        Whether the object may have any other members too.
    """

    plain: frozenset[str]
    texts: Mapping[str, str]
    objects: Mapping[str, Known]
    is_open: bool = False

    @property
    def has_texts(self) -> bool:
        """Say whether the text of any member, at any depth, is kept."""
        return bool(self.texts) or any(each.has_texts for each in self.objects.values())

    @classmethod
    def of(cls, names: Iterable[str], texts: Iterable[str] = ()) -> Known:
        """Build from column names, ``texts`` those whose text is kept.

        Examples
        --------
        >>> Known.of(["_id", "geo.city"]).objects["geo"].plain
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
    def _of_tree(cls, tree: _Tree, names: frozenset[str], texts: frozenset[str], path: str) -> Known:
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
    """Texts of members by column, filled while records are walked through.

    Parameters
    ----------
    known : dict
        By the name of a column, then by the number of the record.
    new : dict
        The same for members that no schema names, in the order in which they turned up.
    """

    known: dict[str, dict[int, bytes | None]] = field(default_factory=dict)
    new: dict[str, dict[int, bytes | None]] = field(default_factory=dict)

    def column(self, name: str, *, rows: int) -> list[bytes | None]:
        """Return the text of a member in each record; None where it is absent or null."""
        texts = self.known.get(name, {})
        return [texts.get(row) for row in range(rows)]

    def new_fields(self, *, rows: int) -> pa.Table:
        """Return the members that no schema names as columns of JSON text, named by their dotted paths."""
        columns = [[texts.get(row) for row in range(rows)] for texts in self.new.values()]
        schema = pa.schema([pa.field(name, pa.string(), metadata=_JSON) for name in self.new])
        return pa.table([pa.array(column, pa.string()) for column in columns], schema=schema)


def walk(records: Sequence[msgspec.Raw], known: Known) -> Texts:
    """Collect the texts of members that are kept as they were sent.

    Parameters
    ----------
    records : sequence of msgspec.Raw
        Valid JSON of one object each.
    known : Known
        Names of their members.

    Returns
    -------
    Texts
        Slices of what was sent: no number is rounded.

    Raises
    ------
    NoObject
        If a record, or an object with members to be kept, is something else.
    InvalidRequest, Refused
        If a text is deeper, or has longer numbers, than this package reads back.

    Examples
    --------
    >>> record = msgspec.Raw(b'{"_id": "a", "geo": {"mass": 5.970e24}}')
    >>> walk([record], Known.of(["_id", "geo.city"])).new
    {'geo.mass': {0: b'5.970e24'}}
    """
    texts = Texts()
    for row, record in enumerate(records):
        content = bytes(record)
        if not content.startswith(b"{"):
            raise NoObject("data")
        _walk(content, known, texts, row, "")
    return texts


def _walk(content: bytes, known: Known, texts: Texts, row: int, path: str) -> None:
    members = _MEMBERS.decode(content)
    # A difference of sets: most members of most records are plain, and cost nothing here.
    remaining = members.keys() - known.plain
    for key in [key for key in members if key in remaining] if remaining else ():
        text: bytes | None = bytes(members[key])
        if text == b"null":
            text = None
        if key in known.objects:
            if text is not None and text.startswith(b"{"):
                _walk(text, known.objects[key], texts, row, _path(path, key))
            elif text is not None and known.objects[key].has_texts:
                raise NoObject(_path(path, key))
            continue
        if known.is_open and key not in known.texts:
            continue
        if text is not None:
            _check(text)
        if key in known.texts:
            texts.known.setdefault(known.texts[key], {})[row] = text
        else:
            texts.new.setdefault(_path(path, key), {})[row] = text


def _path(path: str, key: str) -> str:
    """Return the dotted path of a member; a key that has a point itself is quoted."""
    part = json.dumps(key, ensure_ascii=False) if "." in key else key
    return f"{path}.{part}" if path else part


def _check(text: bytes) -> None:
    """Refuse what could not be read back, looking closer only at what is long or has many parts."""
    if len(text) >= _SURELY_SHORT or text.count(b"{") + text.count(b"[") > DEEPEST:
        encode(decode(text))
