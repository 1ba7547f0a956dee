"""Rules for filters in requests: predicates in Python, the specification's JSON over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from attrib_ds.contract.rule import Refused, Rule, shown, text
from attrib_ds.filters import Comparison, Predicate, as_condition, from_json, to_json

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
#: References, or a comparison of the event type (G-118).
EventTypes: TypeAlias = Annotated[
    tuple[str, ...] | Predicate,
    Rule(
        check=_check_event_types,
        expected="a list of event type references, or a predicate on event('eventType')",
        json_schema={"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object"}]},
        write=_write_event_types,
    ),
]
