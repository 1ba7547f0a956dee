"""What one value of a request may be: its check, its words and its JSON Schema."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Sized
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from attrib_ds.errors import InvalidRequest, closest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo

_SHOWN: Final = 40
_LONGEST: Final = 80
_SHORTENER: Final = reprlib.Repr()
_SHORTENER.maxstring = _SHORTENER.maxother = _LONGEST


class Refused(ValueError):
    """A value breaks its rule.

    Parameters
    ----------
    problem : str, optional
        What is wrong and what is allowed, where the rule's own words are not enough.
    """

    def __init__(self, problem: str = "") -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Say what one value may be; used as ``Annotated[str, Rule(...)]`` in request models.

    Parameters
    ----------
    check : callable
        Takes the value and returns what the request holds; raises :class:`Refused` or ``InvalidRequest``.
    allowed : str
        What is allowed, in words.
    json_schema : mapping
        The same for machines.
    read : callable, optional
        Turns the text of a query parameter into a value for ``check``.
    write : callable, optional
        Turns what the request holds into its JSON form.
    """

    check: Callable[[Any], Any]
    allowed: str
    json_schema: Mapping[str, Any] = field(hash=False)
    read: Callable[[str], Any] | None = None
    write: Callable[[Any], Any] | None = None

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic run this rule in place of its own."""
        write = core_schema.plain_serializer_function_ser_schema(self.write) if self.write else None
        return core_schema.with_info_plain_validator_function(self._validate, serialization=write)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Let OpenAPI show this rule."""
        words = {} if "enum" in self.json_schema else {"description": self.allowed}
        return {**words, **self.json_schema}

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        is_text = info.context is not None and info.context["query"] and isinstance(value, str)
        try:
            return self.check(self.read(value) if is_text and self.read else value)
        except Refused as refusal:
            if refusal.problem:
                raise _explained(refusal.problem) from None
            raise PydanticCustomError("not_allowed", "{allowed}", {"allowed": self.allowed}) from None
        except InvalidRequest as refusal:
            # What checks a whole tree says where in it, by a JSON pointer, and then what.
            within = refusal.field or ""
            problem = refusal.message.removeprefix(f"{within}: ")
            raise _explained(problem, within=within if within.startswith("/") else "") from None


@dataclass(frozen=True, kw_only=True)
class Size:
    """Bound the length of a list before its items are looked at.

    Millions of wrong items then cost no time to refuse, and a list of one wrong item is not called empty.

    Parameters
    ----------
    lowest, highest : int, default 0 and 10,000
        Least and most items.
    """

    lowest: int = 0
    highest: int = 10_000

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic check the length first."""
        return core_schema.no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Let OpenAPI show the bounds."""
        lowest = {"minItems": self.lowest} if self.lowest else {}
        return {**handler(schema), **lowest, "maxItems": self.highest}

    def _check(self, value: Any) -> Any:
        if isinstance(value, Iterator):
            value = tuple(islice(value, self.highest + 1))
        if isinstance(value, Sized) and not self.lowest <= len(value) <= self.highest:
            allowed = f"a list of {self.lowest:,} to {self.highest:,}"
            raise PydanticCustomError("not_allowed", "{allowed}", {"allowed": allowed})
        return value


def pattern(expression: str, *, allowed: str, shortest: int = 1, longest: int | None = None) -> Rule:
    """Return the rule of a text that matches an expression as a whole.

    Parameters
    ----------
    expression : str
        A regular expression without anchors.
    allowed : str
        What is allowed, in words.
    shortest, longest : int, optional
        Bounds of the length, in characters.

    Returns
    -------
    Rule
        Holds the text as it came.

    Examples
    --------
    >>> pattern("[A-Z]{2}", allowed="two capital letters").check("FR")
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
    return Rule(
        check=check,
        allowed=allowed,
        json_schema={"type": "string", "pattern": f"^{expression}$", **lengths},
    )


def text(*, allowed: str = "text", shortest: int = 0, longest: int | None = None) -> Rule:
    """Return the rule of a text that is only bounded in length.

    Parameters
    ----------
    allowed : str, default "text"
        What is allowed, in words.
    shortest, longest : int, optional
        Bounds of the length, in characters.

    Returns
    -------
    Rule
        Holds the text as it came.

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
            raise Refused("holds a NUL or half a surrogate pair, which is not text")
        return str(value)

    lengths = {"minLength": shortest} if shortest else {}
    lengths |= {} if longest is None else {"maxLength": longest}
    return Rule(check=check, allowed=allowed, json_schema={"type": "string", **lengths})


def choice(*allowed: str, fold: bool = False) -> Rule:
    """Return the rule of one name out of several.

    Parameters
    ----------
    *allowed : str
        The names, in the order in which a message lists them.
    fold : bool, default False
        Whether the name may come in any case; the names are lower-case then.

    Returns
    -------
    Rule
        Holds the name as it is listed.

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

    return Rule(check=check, allowed=listed(allowed), json_schema={"type": "string", "enum": sorted(allowed)})


def is_unicode(value: str) -> bool:
    r"""Say whether the text can be written as UTF-8, which half of a surrogate pair cannot.

    Examples
    --------
    >>> is_unicode("café"), is_unicode(chr(0xD800))
    (True, False)
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def nearest(value: object, names: tuple[str, ...]) -> str:
    """Return the words that name the closest of the names, unless the value is too long for a slip.

    Examples
    --------
    >>> nearest("geo.cty", ("geo.city", "geo.state"))
    " (did you mean 'geo.city'?)"
    """
    return closest(value, names) if isinstance(value, str) and len(value) <= _LONGEST else ""


def listed(names: tuple[str, ...]) -> str:
    """Return the names in one line, the first forty of them.

    Examples
    --------
    >>> listed(("ASC", "DESC"))
    'ASC, DESC'
    """
    more = f", … ({len(names)} in all)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def shown(value: object) -> str:
    """Return a short text of what came, of one line.

    Examples
    --------
    >>> shown("a" * 200)[-5:]
    "aaa…'"
    >>> shown({"a": [1, 2]})
    "{'a': [1, 2]}"
    """
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…")
    try:
        line = _SHORTENER.repr(value)
    except ValueError:  # Python refuses to write an integer of thousands of digits
        line = ""
    return line if line and "\n" not in line else f"<{type(value).__name__}>"


def _explained(problem: str, *, within: str = "") -> PydanticCustomError:
    return PydanticCustomError("explained", "{problem}", {"problem": problem, "within": within})
