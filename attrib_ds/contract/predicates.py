"""Filters in requests: predicates in Python, the specification's JSON over HTTP, instants in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import singledispatch
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from attrib_ds import instants
from attrib_ds.contract.json_values import Refused, Rule, shown, text
from attrib_ds.contract.request import Part
from attrib_ds.filters import Comparison, Condition, Predicate, as_condition, from_json, to_json
from attrib_ds.filters.vocabulary import FieldType

Kind: TypeAlias = Literal["interaction", "node", "user", "event"]


def filtering(kind: Kind) -> Rule:
    """Return the rule for a filter on one kind of record.

    Parameters
    ----------
    kind : {"interaction", "node", "user", "event"}
        Kind of the records.

    Returns
    -------
    Rule
        Stores a predicate; accepts its JSON object too.

    Examples
    --------
    >>> written = {"type": "predicate", "field": "type", "operator": "equals", "value": "session"}
    >>> filtering("interaction").check(written)
    interaction("type") == "session"
    """

    def check(value: Any) -> Predicate:
        if isinstance(value, Predicate):
            if value.kind != kind:
                raise Refused(f"filters {value.kind}s; expected a predicate that starts with {kind}(...)")
            return value
        if not isinstance(value, Mapping):
            raise Refused
        return from_json(dict(value), kind=kind)

    return Rule(
        check=check,
        expected=f"a predicate that starts with {kind}(...), or its JSON object",
        json_schema={"type": "object"},
        write=to_json,
    )


def _check_nodes(value: Any) -> Predicate:
    # The specification allows a bare comparison for interactions only.
    return as_condition(_NODES.check(value))


def _check_event_types(value: Any) -> tuple[str, ...] | Predicate:
    if isinstance(value, Mapping) and "eventTypes" in value:
        value = value["eventTypes"]
    if isinstance(value, list | tuple):
        return tuple(_REFERENCE.check(reference) for reference in value)
    if not isinstance(value, Predicate | Mapping):
        raise Refused
    predicate: Predicate = _EVENTS.check(value)
    if not isinstance(predicate, Comparison) or predicate.field != "eventType":
        raise Refused(f"{shown(predicate)} is not allowed; expected one comparison of event('eventType')")
    return predicate


def _write_event_types(value: tuple[str, ...] | Predicate) -> Any:
    return to_json(value) if isinstance(value, Predicate) else list(value)


_NODES: Final = filtering("node")
_EVENTS: Final = filtering("event")
_REFERENCE: Final = text(expected="a list of event type references")

InteractionFilter: TypeAlias = Annotated[Predicate, filtering("interaction")]
UserFilter: TypeAlias = Annotated[Predicate, filtering("user")]
NodeFilter: TypeAlias = Annotated[
    Predicate,
    Rule(check=_check_nodes, expected=_NODES.expected, json_schema=_NODES.json_schema, write=to_json),
]
#: References, or a comparison of the event type.
EventTypes: TypeAlias = Annotated[
    tuple[str, ...] | Predicate,
    Rule(
        check=_check_event_types,
        expected="a list of event type references, or a predicate on event('eventType')",
        json_schema={"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object"}]},
        write=_write_event_types,
    ),
]


PartT = TypeVar("PartT", bound=Part)


def in_milliseconds(request: PartT) -> PartT:
    """Return a request whose bounds, dates and filters have no digits beyond milliseconds.

    A stored instant is then found by the instant that was sent.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS, build
    >>> since = "2025-01-31T12:00:00.0019Z"
    >>> search = build(OPERATIONS["search_interactions"], project_id="shop", since=since)
    >>> in_milliseconds(search).since
    datetime.datetime(2025, 1, 31, 12, 0, 0, 1000, tzinfo=datetime.timezone.utc)
    """
    given = {name: getattr(request, name) for name in request.model_fields_set}
    truncated = {name: truncate(value) for name, value in given.items()}
    changes = {name: value for name, value in truncated.items() if value is not given[name]}
    return request.model_copy(update=changes) if changes else request


@singledispatch
def truncate(value: Any) -> Any:
    """Truncate an instant, and those in a filter or in an object; return any other value unchanged."""
    return value


@truncate.register
def _(value: datetime) -> datetime:
    return instants.truncate(value)


@truncate.register
def _(value: Part) -> Part:
    return in_milliseconds(value)


@truncate.register
def _(value: tuple) -> tuple[Any, ...]:  # type: ignore[type-arg]
    return tuple(map(truncate, value)) if value and isinstance(value[0], Part) else value


@truncate.register
def _(value: Comparison) -> Comparison:
    if value.operator_type != FieldType.INSTANT or value.value is None:
        return value
    texts = value.value if isinstance(value.value, tuple) else (value.value,)
    kept = tuple(instants.format(instants.parse(text, argument="value")) for text in texts)
    return replace(value, value=kept if isinstance(value.value, tuple) else kept[0])


@truncate.register
def _(value: Condition) -> Condition:
    return replace(value, rules=tuple(map(truncate, value.rules)))
