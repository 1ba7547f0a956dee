"""Writes JSON text with exact decimals, and refuses values that JSON cannot represent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final, TypeGuard

from attrib_ds.contract.rule import Refused, is_unicode, shown
from attrib_ds.json_numbers import ExtremeNumber

#: Maximum levels of nesting (G-188).
DEEPEST: Final = 64
#: Decimals up to this power of ten are written without an exponent, which would make `1e300` long.
_LARGEST_PLAIN_POWER: Final = 30
#: Python refuses to write integers with some more digits.
_MOST_DIGITS: Final = 4_000
_TOO_LARGE: Final = 10**_MOST_DIGITS
#: Types of most values, for which the check of an abstract class takes ten times as long.
_SCALARS: Final = frozenset({str, int, float, bool, Decimal, type(None)})
_CONTAINERS: Final = frozenset({dict, list})


class EncodedObject(Mapping[str, Any]):
    """A JSON object with its encoded text, which :func:`encode` reuses.

    The ``data`` of an event is encoded once, no matter how many layers it passes through.

    Parameters
    ----------
    members : mapping
        Members of the object; not changed afterwards.

    Attributes
    ----------
    members : mapping
        As given.
    text : str
        The object as JSON; its nesting leaves room for one enclosing object.

    Raises
    ------
    Refused
        If JSON cannot represent it; see :func:`encode`.

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

    Unlike ``json.dumps``, decimals stay exact, and NaN and keys that are not text are refused.

    Parameters
    ----------
    value : object
        Mappings, lists, tuples, text, numbers, booleans and None.
    level : int, default 0
        Nesting level of the value in the whole text.

    Returns
    -------
    str
        Without whitespace; keys keep their order.

    Raises
    ------
    Refused
        If a part is of another type, not finite, not Unicode, or nested deeper than 64 levels.

    Examples
    --------
    >>> from decimal import Decimal
    >>> encode({"amount": Decimal("0.10"), "tags": ("a", None)})
    '{"amount":0.1,"tags":["a",null]}'
    """
    if isinstance(value, str):
        return _encode_text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) >= _TOO_LARGE:
            raise Refused(f"contains an integer of more than {_MOST_DIGITS:,} digits; expected fewer")
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Refused(f"contains {float(value)!r}, which JSON cannot represent; expected finite numbers")
        return float.__repr__(value)
    if isinstance(value, Decimal):
        return _encode_decimal(value)
    if isinstance(value, EncodedObject | ExtremeNumber):
        return value.text
    if isinstance(value, Mapping | list | tuple):
        return _encode_container(value, level + 1)
    raise Refused(
        f"contains {shown(value)} of type {type(value).__name__}; expected values that JSON can represent "
        "(text, numbers, true, false, null, lists and objects)"
    )


def _encode_container(value: Mapping[object, object] | list[object] | tuple[object, ...], level: int) -> str:
    if level > DEEPEST:
        raise Refused(f"is nested too deeply; expected at most {DEEPEST} levels")
    if not isinstance(value, Mapping):
        return f"[{','.join([encode(item, level=level) for item in value])}]"
    for key in value:
        if not isinstance(key, str):
            raise Refused(f"has the key {shown(key)}; expected keys that are text")
    members = [f"{_encode_text(str(key))}:{encode(member, level=level)}" for key, member in value.items()]
    return f"{{{','.join(members)}}}"


def _encode_text(value: str) -> str:
    if not is_unicode(value):
        raise Refused("contains an unpaired surrogate; expected Unicode text")
    # As `json.dumps(value, ensure_ascii=False)`, which makes an encoder for each text.
    return encode_basestring(value)


def _encode_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise Refused(f"contains {value}, which JSON cannot represent; expected finite numbers")
    if not -_LARGEST_PLAIN_POWER <= value.adjusted() <= _LARGEST_PLAIN_POWER:
        return str(value)
    plain = f"{value:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def depth(value: object) -> int:
    """Return the number of nested levels of lists and objects.

    Examples
    --------
    >>> depth({"a": [1, {"b": 2}]})
    3
    >>> depth("text")
    0
    """
    # Without recursion: the value may be nested deeper than Python's stack.
    level, values = 0, [value]
    while containers := [value for value in values if type(value) not in _SCALARS and _is_container(value)]:
        level += 1
        if level > DEEPEST:
            break
        values = []
        for container in containers:
            values += container.values() if isinstance(container, Mapping) else container
    return level


def _is_container(value: object) -> TypeGuard[Mapping[str, object] | list[object] | tuple[object, ...]]:
    return type(value) in _CONTAINERS or isinstance(value, Mapping | list | tuple)
