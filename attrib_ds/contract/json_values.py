"""Values of JSON in requests: rules with their words and JSON Schema, and exact text."""

import math
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from json.encoder import encode_basestring
from typing import Any, Final, TypeGuard

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.json_numbers import ExtremeNumber, plain

_SHOWN: Final = 40
_LONGEST: Final = 80
_LONGEST_LINE: Final = 120


class _Shortener(reprlib.Repr):
    """Shows numbers as JSON has them."""

    maxstring = maxother = _LONGEST

    def repr1(self, x: Any, level: int) -> str:
        return super().repr1(plain(x), level)


_SHORTENER: Final = _Shortener()


class Refused(ValueError):
    """A value breaks its rule.

    Parameters
    ----------
    problem : str, optional
        What is wrong and what is expected; by default the message says what the rule expects.
    """

    def __init__(self, problem: str = "") -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True)
class Rule:
    """Define the allowed values of an attribute, as ``Annotated[str, Rule(...)]`` in a request model.

    Parameters
    ----------
    check : callable
        Takes a value and returns it in the form the request stores; raises :class:`Refused` or
        ``InvalidRequest`` if it is not allowed.
    expected : str
        Description of the allowed values; a message reads "limit: 2.5 is not allowed; expected …".
    json_schema : mapping
        JSON Schema of the allowed values.
    read : callable, optional
        Converts the text of a query parameter to a value for ``check``.
    write : callable, optional
        Converts the stored value to JSON.
    """

    check: Callable[[Any], Any]
    expected: str
    json_schema: Mapping[str, Any] = field(hash=False)
    read: Callable[[str], Any] | None = None
    write: Callable[[Any], Any] | None = None

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate with this rule instead of pydantic's own."""
        write = core_schema.plain_serializer_function_ser_schema(self.write) if self.write else None
        if self.read is None:
            return core_schema.no_info_plain_validator_function(self._validate, serialization=write)
        return core_schema.with_info_plain_validator_function(self._validate, serialization=write)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add the description to the JSON Schema."""
        description = {} if "enum" in self.json_schema else {"description": self.expected}
        return {**description, **self.json_schema}

    def _validate(self, value: Any, info: ValidationInfo | None = None) -> Any:
        try:
            if info is not None and info.context is not None and info.context["query"] and self.read:
                value = self.read(value) if isinstance(value, str) else value
            return self.check(value)
        except Refused as refusal:
            if refusal.problem:
                raise _explained(refusal.problem) from None
            raise PydanticCustomError("not_allowed", "{expected}", {"expected": self.expected}) from None
        except InvalidRequest as refusal:
            # The check of a tree puts the JSON pointer of the wrong part before the problem.
            within = refusal.field or ""
            problem = refusal.message.removeprefix(f"{within}: ")
            raise _explained(problem, within=within if within.startswith("/") else "") from None


@dataclass(frozen=True, kw_only=True)
class Size:
    """Check the length of a list before its items.

    A list of millions of wrong items is refused at once, and a list of one wrong item is not called empty.

    Parameters
    ----------
    lowest, highest : int, default 0 and 10,000
        Minimum and maximum number of items.
    """

    lowest: int = 0
    highest: int = 10_000

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the length before pydantic checks the items."""
        return core_schema.no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add the bounds to the JSON Schema."""
        lowest = {"minItems": self.lowest} if self.lowest else {}
        return {**handler(schema), **lowest, "maxItems": self.highest}

    def _check(self, value: Any) -> Any:
        if isinstance(value, Iterator):
            value = tuple(islice(value, self.highest + 1))
        if isinstance(value, Sized) and not self.lowest <= len(value) <= self.highest:
            expected = f"a list of {self.lowest:,} to {self.highest:,} items"
            raise PydanticCustomError("not_allowed", "{expected}", {"expected": expected})
        return value


def pattern(expression: str, expected: str, *, shortest: int = 1, longest: int | None = None) -> Rule:
    """Return the rule for text that matches a regular expression from start to end.

    Parameters
    ----------
    expression : str
        A regular expression without anchors.
    expected : str
        Description of the allowed text.
    shortest, longest : int, optional
        Bounds of the length, in characters.

    Returns
    -------
    Rule
        Stores the text unchanged.

    Examples
    --------
    >>> pattern("[A-Z]{2}", expected="two capital letters").check("FR")
    'FR'
    """
    compiled = re.compile(expression)

    def check(value: Any) -> str:
        # `fullmatch`, since `$` lets a trailing newline through.
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise Refused
        if len(value) < shortest or (longest is not None and len(value) > longest):
            raise Refused
        return str(value)

    lengths = {"minLength": shortest} | ({} if longest is None else {"maxLength": longest})
    return Rule(check, expected, {"type": "string", "pattern": f"^{expression}$", **lengths})


def text(expected: str = "text", *, shortest: int = 0, longest: int | None = None) -> Rule:
    """Return the rule for text within bounds of length.

    Parameters
    ----------
    expected : str, default "text"
        Description of the allowed text.
    shortest, longest : int, optional
        Bounds of the length, in characters.

    Returns
    -------
    Rule
        Stores the text unchanged.

    Examples
    --------
    >>> text(longest=3).check("abc")
    'abc'
    """

    def check(value: Any) -> str:
        if not isinstance(value, str) or len(value) < shortest:
            raise Refused
        if longest is not None and len(value) > longest:
            raise Refused
        if "\0" in value or not is_unicode(value):
            raise Refused("contains a NUL character or an unpaired surrogate; expected text without them")
        return str(value)

    lengths = {"minLength": shortest} if shortest else {}
    lengths |= {} if longest is None else {"maxLength": longest}
    return Rule(check, expected, {"type": "string", **lengths})


def choice(*allowed: str, fold: bool = False) -> Rule:
    """Return the rule for one of several names.

    Parameters
    ----------
    *allowed : str
        The names, in the order of the error message.
    fold : bool, default False
        Whether to ignore case; ``allowed`` is lower-case then.

    Returns
    -------
    Rule
        Stores the name as written in ``allowed``.

    Examples
    --------
    >>> choice("csv", "xlsx", fold=True).check("CSV")
    'csv'
    """
    names = frozenset(allowed)

    def check(value: Any) -> str:
        name = value.casefold() if fold and isinstance(value, str) else value
        if not isinstance(name, str) or name not in names:
            raise Refused(
                f"{shown(value)} is not allowed{nearest(value, allowed)}; allowed: {listed(allowed)}"
            )
        return str(name)

    return Rule(check, f"one of {listed(allowed)}", {"type": "string", "enum": sorted(allowed)})


def is_unicode(value: str) -> bool:
    r"""Return whether UTF-8 can encode the text, which it cannot for an unpaired surrogate.

    Examples
    --------
    >>> is_unicode("café"), is_unicode(chr(0xD800))
    (True, False)
    """
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def nearest(value: object, names: tuple[str, ...]) -> str:
    """Return a hint at the closest name, or an empty string if the value is not text or too long for a typo.

    Examples
    --------
    >>> nearest("geo.cty", ("geo.city", "geo.state"))
    " (did you mean 'geo.city'?)"
    """
    return closest(value, names) if isinstance(value, str) and len(value) <= _LONGEST else ""


def listed(names: tuple[str, ...]) -> str:
    """Return the first forty names on one line.

    Examples
    --------
    >>> listed(("ASC", "DESC"))
    'ASC, DESC'
    """
    more = f", … ({len(names)} in all)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def shown(value: object) -> str:
    """Return a value as one line of at most 120 characters for an error message.

    Examples
    --------
    >>> shown("a" * 200)[-5:]
    "aaa…'"
    >>> shown({"a": [1, 2]})
    "{'a': [1, 2]}"
    >>> from decimal import Decimal
    >>> shown([Decimal("1.0")])
    '[1.0]'
    >>> len(shown([["a" * 80] * 6] * 6))
    120
    """
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…")
    try:
        line = _SHORTENER.repr(value)
    except ValueError:  # Python refuses to write an integer of thousands of digits
        line = ""
    if not line or "\n" in line:
        return f"<{type(value).__name__}>"
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def _explained(problem: str, *, within: str = "") -> PydanticCustomError:
    return PydanticCustomError("explained", "{problem}", {"problem": problem, "within": within})


#: Maximum levels of nesting.
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


#: What JSON text consists of besides strings and nesting; and all containers as arrays.
_PLAIN: Final = bytes(set(range(256)) - set(b'"[]{}'))
_AS_ARRAYS: Final = bytes.maketrans(b"{}", b"[]")
_STRING: Final = re.compile(b'"[^"]*"')


def is_deeper(text: bytes, levels: int = DEEPEST) -> bool:
    """Return whether lists and objects in JSON text are nested deeper, before anything is built of it.

    Parsers stop at the limit of the interpreter, which differs between releases of Python.

    Examples
    --------
    >>> is_deeper(b'{"a": [["["]]}', 3), is_deeper(b'{"a": [["["]]}', 2)
    (False, True)
    """
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = _STRING.sub(b"", text.translate(_AS_ARRAYS, _PLAIN).replace(b'""', b""))
    too_many = b"[" * (levels + 1)
    for _ in range(levels):
        if too_many in left:
            return True
        left = left.replace(b"[]", b"")
    return too_many in left or b"[]" in left


def _is_container(value: object) -> TypeGuard[Mapping[str, object] | list[object] | tuple[object, ...]]:
    return type(value) in _CONTAINERS or isinstance(value, Mapping | list | tuple)
