"""The fields of each kind of predicate with their types, and the 22 operators of the specification."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

import pyarrow as pa

from attrib_ds.errors import InvalidRequest
from attrib_ds.schema import EVENT, INTERACTION, USER, is_json, properties

Kind = Literal["interaction", "node", "user", "event"]
KINDS: Final[tuple[Kind, ...]] = ("interaction", "node", "user", "event")


class FieldType(StrEnum):
    """The type of a field, named as in ``operatorType``."""

    TEXT = "string"
    NUMBER = "number"
    INSTANT = "date"
    FLAG = "boolean"
    TEXTS = "array"
    OBJECT = "object"


#: The ``filterId`` names of node predicates.
NODE_FIELDS: Final = (
    "nodeId", "nodeName", "nodeType", "channel", "integrationId", "vendorId", "campaignId", "campaignSlug",
    "campaignName", "adsetId", "adsetName", "adId", "adName", "keyword", "source", "medium", "referrerHost",
)  # fmt: skip
_EVENT_FIELDS: Final = ("_id", "userId", "eventDate", "eventType", "attributable", "createdAt", "updatedAt")
#: Prefix of the statistics of events, in conversion_paths.
STATISTICS: Final = "statistics."
#: Aggregations of the metrics of a user, in ``metrics.<key>.<aggregation>``.
AGGREGATIONS: Final = ("sum", "max", "min", "count", "average")
_OPEN_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {"user": ("fields.",), "event": ("event.", "user.")}
_OPEN_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("fields.<key>", "eventTypesCount.<event type>", f"metrics.<key>.<{'|'.join(AGGREGATIONS)}>"),
    "event": ("event.<key>", "user.<key>", f"{STATISTICS}<key>"),
}


def _type_of(schema: pa.Schema, name: str) -> FieldType:
    index = schema.get_field_index(name)
    # A name without a column of its own is an object with members.
    if index < 0 or is_json(schema.field(index)):
        return FieldType.OBJECT
    column = schema.field(index).type
    if pa.types.is_string(column):
        return FieldType.TEXT
    if pa.types.is_timestamp(column):
        return FieldType.INSTANT
    if pa.types.is_boolean(column):
        return FieldType.FLAG
    if pa.types.is_list(column):
        return FieldType.TEXTS if pa.types.is_string(column.value_type) else FieldType.OBJECT
    return FieldType.NUMBER


_VOCABULARIES: Final[Mapping[str, Mapping[str, FieldType]]] = {
    "interaction": {name: _type_of(INTERACTION, name) for name in properties(INTERACTION)},
    "node": dict.fromkeys(NODE_FIELDS, FieldType.TEXT),
    "user": {name: _type_of(USER, name) for name in properties(USER)},
    "event": {name: _type_of(EVENT, name) for name in _EVENT_FIELDS},
}


def refused(argument: str, problem: str) -> InvalidRequest:
    """Return the error of an argument, whose name may have spaces."""
    return InvalidRequest(f"{argument}: {problem}", field=argument)


def vocabulary(kind: Kind) -> dict[str, FieldType]:
    """Return the fields with fixed names of a kind, with their types.

    Parameters
    ----------
    kind : {"interaction", "node", "user", "event"}
        Kind of record.

    Returns
    -------
    dict of str to FieldType
        In the order of the schema. Further fields depend on the project: ``fields.<key>``,
        ``eventTypesCount.<event type>`` and ``metrics.<key>.<aggregation>`` of users, ``event.<key>`` and
        ``user.<key>`` of events.

    Raises
    ------
    InvalidRequest
        If there is no such kind.

    Examples
    --------
    >>> vocabulary("event")["attributable"]
    <FieldType.FLAG: 'boolean'>
    """
    return dict(_VOCABULARIES[check_kind(kind)])


def check_kind(kind: object) -> Kind:
    """Return the kind, or refuse an unknown one.

    Parameters
    ----------
    kind : str
        One of ``KINDS``.

    Returns
    -------
    str
        The kind.

    Raises
    ------
    InvalidRequest
        If there is no such kind.

    Examples
    --------
    >>> check_kind("node")
    'node'
    """
    for name in KINDS:
        if kind == name:
            return name
    raise InvalidRequest.choice("kind", kind, KINDS)


def is_open(kind: Kind, name: str) -> bool:
    """Return whether the project defines the type of a field.

    Parameters
    ----------
    kind : {"interaction", "node", "user", "event"}
        Kind of record.
    name : str
        Name of the field.

    Returns
    -------
    bool
        True for ``fields.<key>`` of users, and ``event.<key>`` and ``user.<key>`` of events.

    Examples
    --------
    >>> is_open("user", "fields.email"), is_open("user", "eventCount")
    (True, False)
    """
    return any(name.startswith(prefix) and name != prefix for prefix in _OPEN_PREFIXES.get(kind, ()))


def resolve(kind: Kind, name: object, *, argument: str) -> FieldType | None:
    """Return the type of a field.

    Parameters
    ----------
    kind : {"interaction", "node", "user", "event"}
        Kind of record.
    name : str
        Name of the field.
    argument : str
        Name of the argument in an error message.

    Returns
    -------
    FieldType or None
        None if the project defines the type, see :func:`is_open`.

    Raises
    ------
    InvalidRequest
        If the kind has no such field; the message names the closest one.

    Examples
    --------
    >>> resolve("interaction", "geo.latitude", argument="field")
    <FieldType.NUMBER: 'number'>
    >>> resolve("user", "metrics.revenue.sum", argument="field")
    <FieldType.NUMBER: 'number'>
    """
    fields = _VOCABULARIES[kind]
    if not isinstance(name, str):
        raise refused(argument, f"must be text, got {name!r} ({type(name).__name__})")
    if name in fields:
        return fields[name]
    if is_open(kind, name):
        return None
    if (kind == "user" and _is_counted(name)) or (kind == "event" and _is_statistic(name, argument)):
        return FieldType.NUMBER
    refusal = InvalidRequest.choice(argument, name, [*fields, *_OPEN_NAMES.get(kind, ())])
    others = {other: name for other in KINDS if other != kind and name in _VOCABULARIES[other]}
    # Names as in URLs and files.
    plain = name.removeprefix("utm_")
    of_nodes = [each for each in NODE_FIELDS if kind != "node" and each in (plain, f"{plain}Name")]
    others |= {"node": of_nodes[0]} if of_nodes else {}
    if kind == "user" and re.search("ltv|lifetime_?value", name.lower()):
        advice = "the lifetime value of a user is metrics.<statistic>.sum, such as metrics.turnover.sum"
        raise InvalidRequest(f"{refusal.message}; {advice}", field=argument)
    if others:
        owners = " or ".join(f'{other}("{similar}")' for other, similar in others.items())
        raise InvalidRequest(f"{refusal.message}; {owners} exists", field=argument)
    raise refusal


def _is_statistic(name: str, argument: str) -> bool:
    """Return whether a name is one of a statistic; refuse its members, such as its currency."""
    _, prefix, key = name.partition(STATISTICS)
    if not name.startswith(STATISTICS) or not key:
        return False
    if "." in key:
        raise InvalidRequest(
            f"{argument}: {name!r} is not allowed; {prefix}{key.partition('.')[0]} is an amount in its own "
            "currency. Currencies are not compared: credits have rows for each, and "
            "conversion_paths(in_currency=…, rates=…) converts amounts to one",
            field=argument,
        )
    return True


def read_as(declared: FieldType | None, operator_type: object, *, argument: str) -> FieldType | None:
    """Return the type to compare a field as, from its own type and the one given by the caller.

    Parameters
    ----------
    declared : FieldType or None
        Type of the field; None if the project defines it.
    operator_type : str or None
        Type given by the caller, one of ``operatorType``.
    argument : str
        Name of the argument in an error message.

    Returns
    -------
    FieldType or None
        None if neither is known.

    Raises
    ------
    InvalidRequest
        If there is no such type, or the two contradict each other.

    Examples
    --------
    >>> read_as(None, "date", argument="operator_type")
    <FieldType.INSTANT: 'date'>
    """
    if operator_type is None or operator_type == declared:
        return declared
    # Operators on objects have no value, and a list may be compared as the type of its items.
    stated_types: tuple[FieldType, ...]
    if declared is FieldType.TEXTS:
        stated_types = (FieldType.TEXTS, FieldType.TEXT)
    elif declared in {None, FieldType.OBJECT}:
        stated_types = tuple(option for option in FieldType if option is not FieldType.OBJECT)
    else:
        stated_types = (declared,)
    stated = next((option for option in stated_types if option == operator_type), None)
    if stated is None:
        raise InvalidRequest.choice(argument, operator_type, stated_types)
    return declared or stated


def _is_counted(name: str) -> bool:
    group, _, key = name.partition(".")
    if group == "eventTypesCount":
        return bool(key)
    metric, _, aggregation = key.rpartition(".")
    return group == "metrics" and bool(metric) and aggregation in AGGREGATIONS


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
        Whether it is defined as "not ``complement``". ``isNull`` and ``isEmpty`` are, so that of
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


#: Every operator by its name in the specification.
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
