"""Writes JSON text with exact decimals, refusing what JSON cannot hold."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from attrib_ds.contract.rule import Refused, is_unicode, shown

#: Levels of nesting a JSON text may have (G-188).
DEEPEST: Final = 64
#: Decimal digits of an integer beyond which Python itself refuses to read it back.
_MOST_DIGITS: Final = 4_000
_TOO_LARGE: Final = 10**_MOST_DIGITS


class EncodedObject(Mapping[str, Any]):
    """A JSON object with its text, which :func:`encode` copies wherever the object is part of a value.

    An event's ``data`` is one: however many layers it passes, it is encoded once.

    Parameters
    ----------
    members : mapping
        Members of the object; not changed afterwards.

    Attributes
    ----------
    members : mapping
        As given.
    text : str
        The object as JSON, checked to be nested no deeper than a member of another object may be.

    Raises
    ------
    Refused
        If JSON cannot hold it; see :func:`encode`.

    Examples
    --------
    >>> data = EncodedObject({"amount": 1.5})
    >>> encode({"nonce": "n-1", "data": data}), data == {"amount": 1.5}
    ('{"nonce":"n-1","data":{"amount":1.5}}', True)
    """

    __slots__ = ("members", "text")

    def __init__(self, members: Mapping[str, Any]) -> None:
        self.members = members
        self.text = encode(members, level=1)

    def __getitem__(self, key: str) -> Any:
        return self.members[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return repr(self.members)


def encode(value: object, *, level: int = 0) -> str:
    """Write a value as JSON text.

    ``json.dumps`` would turn a Decimal into a binary float, write NaN and drop the type of a key.

    Parameters
    ----------
    value : object
        Mappings, lists, tuples, text, numbers, booleans and None.
    level : int, default 0
        How deep the value lies in the whole text.

    Returns
    -------
    str
        The text, without blanks, keys in the order given.

    Raises
    ------
    Refused
        If a part is of another type, is not finite or not Unicode, or lies deeper than 64 levels.

    Examples
    --------
    >>> from decimal import Decimal
    >>> encode({"amount": Decimal("0.10"), "tags": ("a", None)})
    '{"amount":0.1,"tags":["a",null]}'
    """
    if isinstance(value, str):
        return _encode_text(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        if abs(value) >= _TOO_LARGE:
            raise Refused(f"holds an integer of more than {_MOST_DIGITS} digits")
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Refused(f"holds {float(value)!r}, which JSON cannot write; allowed: finite numbers")
        return float.__repr__(value)
    if isinstance(value, Decimal):
        return _encode_decimal(value)
    if isinstance(value, EncodedObject):
        return value.text
    if isinstance(value, Mapping | list | tuple):
        return _encode_container(value, level + 1)
    raise Refused(
        f"holds {shown(value)} of type {type(value).__name__}; allowed: what JSON can hold (text, numbers, "
        "true, false, null, lists and objects)"
    )


def _encode_container(value: Mapping[object, object] | list[object] | tuple[object, ...], level: int) -> str:
    if level > DEEPEST:
        raise Refused(f"is nested too deeply; allowed: {DEEPEST} levels")
    if not isinstance(value, Mapping):
        return f"[{','.join([encode(each, level=level) for each in value])}]"
    for key in value:
        if not isinstance(key, str):
            raise Refused(f"has the key {shown(key)}, which is not text; allowed: text keys")
    members = [f"{_encode_text(str(key))}:{encode(each, level=level)}" for key, each in value.items()]
    return f"{{{','.join(members)}}}"


def _encode_text(value: str) -> str:
    if not is_unicode(value):
        raise Refused("holds half a surrogate pair, which is not text")
    return json.dumps(value, ensure_ascii=False)


def _encode_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise Refused(f"holds {value}, which JSON cannot write; allowed: finite numbers")
    if value.adjusted() > _MOST_DIGITS or value.as_tuple().exponent < -_MOST_DIGITS:  # type: ignore[operator]
        return str(value)
    plain = f"{value:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def depth(value: object) -> int:
    """Return how many levels of lists and objects a value has, without recursion.

    Examples
    --------
    >>> depth({"a": [1, {"b": 2}]})
    3
    >>> depth("text")
    0
    """
    level, waiting = 0, [value]
    while waiting := [each for each in waiting if isinstance(each, Mapping | list | tuple)]:
        level += 1
        if level > DEEPEST:
            break
        waiting = [
            member for each in waiting for member in (each.values() if isinstance(each, Mapping) else each)
        ]
    return level
