"""The condition that describes an audience (G-094), and requests about audiences (G-048)."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

from attrib_ds import instants
from attrib_ds.contract.identifiers import Name, PathText
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import Refused, Rule, listed, nearest, shown
from attrib_ds.contract.values import Limit, Offset, whole
from attrib_ds.filters import Predicate, from_json, to_json
from attrib_ds.filters.predicates import check_values, measure

_DEEPEST: Final = 10
_MOST_NODES: Final = 200
_MOST_VALUES: Final = 10_000
_USER_TYPES: Final = ("fields", "eventTypesCount", "metrics", "counters")
_COMPARISONS: Final = (
    "equals",
    "notEquals",
    "greaterThan",
    "greaterThanOrEquals",
    "lessThan",
    "lessThanOrEquals",
)
#: Members with the rules, by type of node.
_PARTS: Final = {"condition": "rules", "operation": "operands"}
_COUNT: Final = whole(lowest=0, expected="a whole number, 0 or more")
_TYPES: Final = ("audience", "event", "interaction", "condition", "operation", *_USER_TYPES)


def _check_condition(value: Any) -> dict[str, Any]:
    if isinstance(value, Predicate):
        if value.kind != "user":
            raise Refused(f"filters {value.kind}s; expected a predicate that starts with user(...)")
        return to_json(value)
    if not isinstance(value, Mapping):
        raise Refused
    if _check_node(value, level=1) > _MOST_NODES:
        raise Refused(f"has too many nodes; expected at most {_MOST_NODES}")
    check_values(_predicates(value))
    return dict(value)


def _predicates(node: Mapping[str, Any]) -> Iterator[Predicate]:
    """Yield the predicates in a valid condition."""
    if node["type"] in _USER_TYPES:
        yield from_json(dict(node), kind="user")
    elif node["type"] == "interaction" and node.get("filter") is not None:
        yield from_json(node["filter"], kind="interaction")
    for rule in node.get(_PARTS.get(node["type"], ""), ()):
        yield from _predicates(rule)


def _check_node(node: Any, *, level: int) -> int:
    """Check every node of a condition and return their number."""
    if level > _DEEPEST:
        raise Refused(f"is nested too deeply; expected at most {_DEEPEST} levels")
    if not isinstance(node, Mapping):
        raise Refused(f"contains the condition {shown(node)}; expected an object with a type")
    kind = _name(node, "type", _TYPES)
    if kind in _USER_TYPES:
        from_json(dict(node), kind="user")
    elif kind == "audience":
        _check_audience(node)
    elif kind == "event":
        _check_event(node)
    elif kind == "interaction":
        return 1 + _check_interaction(node)
    else:
        return 1 + _check_rules(node, kind, level)
    return 1


def _check_rules(node: Mapping[str, Any], kind: str, level: int) -> int:
    combinator, members = ("condition", "rules") if kind == "condition" else ("operator", "operands")
    _name(node, combinator, ("AND", "OR"))
    rules = node.get(members)
    if not isinstance(rules, list | tuple):
        raise Refused(f"has {members} {shown(rules)}; expected a list of conditions")
    if not isinstance(node.get("not", False), bool):
        raise Refused(f"has 'not' {shown(node['not'])}; expected true or false")
    return sum(_check_node(rule, level=level + 1) for rule in rules)


def _check_audience(node: Mapping[str, Any]) -> None:
    _name(node, "operator", ("in", "notIn"))
    ids = node.get("value")
    if not isinstance(ids, list | tuple) or not all(isinstance(audience_id, str) for audience_id in ids):
        raise Refused(f"has the audiences {shown(ids)}; expected a list of audience ids")
    if not 1 <= len(ids) <= _MOST_VALUES:
        raise Refused(f"has {len(ids):,} audience ids; expected 1 to {_MOST_VALUES:,}")


def _check_event(node: Mapping[str, Any]) -> None:
    if not isinstance(node.get("eventType"), str):
        raise Refused(f"has the eventType {shown(node.get('eventType'))}; expected an event type reference")
    _check_count(node)
    for bound in ("since", "until"):
        if node.get(bound) is not None:
            instants.parse(node[bound], argument=bound)


def _check_interaction(node: Mapping[str, Any]) -> int:
    """Check a count of interactions and return the number of nodes of its filter."""
    _check_count(node)
    if node.get("filter") is None:
        return 0
    _, nodes = measure(from_json(node["filter"], kind="interaction"))
    return nodes


def _check_count(node: Mapping[str, Any]) -> None:
    _name(node, "operator", _COMPARISONS)
    try:
        _COUNT.check(node.get("value"))
    except Refused:
        raise Refused(
            f"compares a count with {shown(node.get('value'))}; expected {_COUNT.expected}"
        ) from None


def _name(node: Mapping[str, Any], member: str, allowed: tuple[str, ...]) -> str:
    value = node.get(member)
    if not isinstance(value, str) or value not in allowed:
        raise Refused(f"has {member} {shown(value)}{nearest(value, allowed)}; allowed: {listed(allowed)}")
    return value


AudienceCondition: TypeAlias = Annotated[
    dict[str, Any],
    Rule(check=_check_condition, expected="a condition on users", json_schema={"type": "object"}),
]


def _check_reference(value: Any) -> str | dict[str, Any]:
    if isinstance(value, str):
        if not value:
            raise Refused
        return str(value)
    return _check_condition(value)


#: The id of an audience, or a condition.
Audience: TypeAlias = Annotated[
    str | dict[str, Any],
    Rule(
        check=_check_reference,
        expected="the id of an audience, or a condition on users",
        json_schema={"oneOf": [{"type": "string", "minLength": 1}, {"type": "object"}]},
    ),
]


class CreateAudience(ProjectRequest):
    """Create an audience: the users who meet a condition."""

    name: Name
    condition: AudienceCondition


class ListAudiences(ProjectRequest):
    """List the audiences of a project."""

    offset: Offset = 0
    limit: Limit | None = None


class GetAudience(ProjectRequest):
    """Get one audience."""

    id: PathText


class DeleteAudience(ProjectRequest):
    """Delete an audience."""

    id: PathText
