"""The fields of each kind of predicate and their types."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from attrib_ds.errors import InvalidRequest
from attrib_ds.schema import EVENT, INTERACTION, USER, is_json, properties

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["interaction", "node", "user", "event"]
KINDS: Final[tuple[Kind, ...]] = ("interaction", "node", "user", "event")


class FieldType(StrEnum):
    """The type of a field, named as in ``operatorType`` (G-093)."""

    TEXT = "string"
    NUMBER = "number"
    INSTANT = "date"
    FLAG = "boolean"
    TEXTS = "array"
    OBJECT = "object"


#: The ``filterId`` names of node predicates (G-090).
NODE_FIELDS: Final = (
    "nodeId",
    "nodeName",
    "nodeType",
    "channel",
    "integrationId",
    "vendorId",
    "campaignId",
    "campaignSlug",
    "campaignName",
    "adsetId",
    "adsetName",
    "adId",
    "adName",
    "keyword",
    "source",
    "medium",
    "referrerHost",
)
_EVENT_FIELDS: Final = (
    "_id",
    "userId",
    "eventDate",
    "eventType",
    "attributable",
    "createdAt",
    "updatedAt",
)
#: Aggregations of the metrics of a user, in ``metrics.<key>.<aggregation>``.
AGGREGATIONS: Final = ("sum", "max", "min", "count", "average")
_OPEN_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {"user": ("fields.",), "event": ("event.", "user.")}
_OPEN_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("fields.<key>", "eventTypesCount.<event type>", f"metrics.<key>.<{'|'.join(AGGREGATIONS)}>"),
    "event": ("event.<key>", "user.<key>"),
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
        raise InvalidRequest(
            f"{argument}: must be text, got {name!r} ({type(name).__name__})", field=argument
        )
    if name in fields:
        return fields[name]
    if is_open(kind, name):
        return None
    if kind == "user" and _is_counted(name):
        return FieldType.NUMBER
    refusal = InvalidRequest.choice(argument, name, [*fields, *_OPEN_NAMES.get(kind, ())])
    others = [other for other in KINDS if other != kind and name in _VOCABULARIES[other]]
    if others:
        owners = " or ".join(f'{other}("{name}")' for other in others)
        raise InvalidRequest(f"{refusal.message}; {owners} exists", field=argument)
    raise refusal


def read_as(declared: FieldType | None, operator_type: object, *, argument: str) -> FieldType | None:
    """Return the type to compare a field as, from its own type and the one given by the caller.

    Parameters
    ----------
    declared : FieldType or None
        Type of the field; None if the project defines it.
    operator_type : str or None
        Type given by the caller, one of ``operatorType`` (G-093).
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
