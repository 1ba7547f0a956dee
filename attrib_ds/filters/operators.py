"""The 22 comparison operators of the specification."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters.vocabulary import FieldType

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Value of an operator: one value, a list of values, a low and a high value, or no value.
Shape = Literal["scalar", "values", "pair", "none"]

_TEXTUAL: Final = frozenset({FieldType.TEXT, FieldType.TEXTS})
_ORDERED: Final = frozenset({FieldType.TEXT, FieldType.NUMBER, FieldType.INSTANT})
_LEAVES: Final = frozenset(FieldType) - {FieldType.OBJECT}
_ALL: Final = frozenset(FieldType)


@dataclass(frozen=True)
class Operator:
    """An operator: its names, its value, and the types of field it applies to.

    Parameters
    ----------
    name : str
        Name in the specification.
    python : str
        Python symbol or method of a field.
    shape : {"scalar", "values", "pair", "none"}
        Its value.
    types : frozenset of FieldType
        The types of field it applies to.
    complement : str or None
        The operator that holds exactly where this one does not. The orderings have none: ``<`` and ``>=``
        are both false for a missing value.
    negative : bool
        Whether it is defined as "not ``complement``" (G-084). ``isNull`` and ``isEmpty`` are, so that of
        several values none may be present, or none may be non-empty.
    """

    name: str
    python: str
    shape: Shape
    types: frozenset[FieldType]
    complement: str | None = None
    negative: bool = False

    @property
    def positive(self) -> str:
        """Name of the operator to evaluate: this one, or the one it negates."""
        return self.complement if self.negative and self.complement else self.name

    @property
    def words(self) -> str:
        """Name as words, for drawings of the tree."""
        return re.sub("[A-Z]", lambda letter: f" {letter.group().lower()}", self.name)


def _pair(positive: str, negative: str, *, shape: Shape, types: frozenset[FieldType]) -> list[Operator]:
    (name, python), (opposite, opposite_python) = positive.split(" "), negative.split(" ")
    return [
        Operator(name, python, shape, types, complement=opposite),
        Operator(opposite, opposite_python, shape, types, complement=name, negative=True),
    ]


#: Every operator by its name in the specification (G-081).
OPERATORS: Final[Mapping[str, Operator]] = {
    operator.name: operator
    for operator in [
        *_pair("equals ==", "notEquals !=", shape="scalar", types=_LEAVES),
        *_pair("in isin", "notIn not_in", shape="values", types=_LEAVES),
        *_pair("contains contains", "notContains not_contains", shape="scalar", types=_TEXTUAL),
        *_pair("startsWith starts_with", "notStartsWith not_starts_with", shape="scalar", types=_TEXTUAL),
        *_pair("endsWith ends_with", "notEndsWith not_ends_with", shape="scalar", types=_TEXTUAL),
        Operator("greaterThan", ">", "scalar", _ORDERED),
        Operator("greaterThanOrEquals", ">=", "scalar", _ORDERED),
        Operator("lessThan", "<", "scalar", _ORDERED),
        Operator("lessThanOrEquals", "<=", "scalar", _ORDERED),
        *_pair("between between", "notBetween not_between", shape="pair", types=_ORDERED),
        *_pair("isNotEmpty is_not_empty", "isEmpty is_empty", shape="none", types=_LEAVES),
        *_pair("isNotNull is_not_null", "isNull is_null", shape="none", types=_ALL),
        *_pair("matches matches", "notMatches not_matches", shape="scalar", types=_TEXTUAL),
    ]
}


def lookup(name: object, *, argument: str) -> Operator:
    """Find an operator by its name in the specification.

    Parameters
    ----------
    name : str
        Such as ``notEquals``.
    argument : str
        Name of the argument in an error message.

    Returns
    -------
    Operator
        The operator.

    Raises
    ------
    InvalidRequest
        If there is no such operator.

    Examples
    --------
    >>> lookup("notEquals", argument="operator").complement
    'equals'
    """
    operator = OPERATORS.get(name) if isinstance(name, str) else None
    if operator is None:
        raise InvalidRequest.choice(argument, name, OPERATORS)
    return operator


def applying_to(field_type: FieldType) -> list[Operator]:
    """List the operators that apply to a type of field.

    Parameters
    ----------
    field_type : FieldType
        The type of the field.

    Returns
    -------
    list of Operator
        In the order of ``OPERATORS``.

    Examples
    --------
    >>> [operator.name for operator in applying_to(FieldType.OBJECT)]
    ['isNotNull', 'isNull']
    """
    return [operator for operator in OPERATORS.values() if field_type in operator.types]


def check_type(operator: Operator, field_type: FieldType, *, argument: str) -> None:
    """Refuse an operator that does not apply to a type of field.

    Parameters
    ----------
    operator : Operator
        The operator.
    field_type : FieldType
        The type of the field.
    argument : str
        Name of the argument in an error message.

    Raises
    ------
    InvalidRequest
        If it does not apply; the message lists the operators that do.

    Examples
    --------
    >>> check_type(OPERATORS["equals"], FieldType.FLAG, argument="isBot")
    """
    if field_type in operator.types:
        return
    allowed = ", ".join(f"{other.name} ({other.python})" for other in applying_to(field_type))
    raise InvalidRequest(
        f"{argument}: {operator.name} ({operator.python}) does not apply to a field of type "
        f"{field_type.value}; allowed: {allowed}",
        field=argument,
    )
