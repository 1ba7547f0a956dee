"""Requests about users: searches, audiences, identities and exports."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import model_validator

from attrib_ds import instants
from attrib_ds.contract.identifiers import HexId, Name, PathText, UserIdOrUnknown
from attrib_ds.contract.json_values import Refused, Rule, choice, listed, nearest, pattern, shown, text
from attrib_ds.contract.request import Part, ProjectRequest, UserFilter, disagreement
from attrib_ds.contract.values import BOUNDED, FILLED, Flag, Instant, Limit, Offset, Order, whole
from attrib_ds.filters import Predicate, from_json, to_json
from attrib_ds.filters.predicates import check_values, measure
from attrib_ds.filters.vocabulary import AGGREGATIONS
from attrib_ds.schema import USER

#: Properties of the user that are keys by themselves, including whole maps.
PLAIN: Final = tuple(
    name for name in dict.fromkeys(column.split(".")[0] for column in USER.names) if name != "fields"
)
_FIELD: Final = re.compile(r"fields\.[A-Za-z][A-Za-z0-9_-]{0,63}")
_TYPE_COUNT: Final = re.compile(r"eventTypesCount\.[a-z0-9]+(?:[-_][a-z0-9]+)*")
_METRIC: Final = re.compile(r"metrics\.[A-Za-z][A-Za-z0-9_-]{0,127}\.([^.]*)")
_FORMS: Final = (
    "fields.<field>",
    "eventTypesCount.<event type>",
    f"metrics.<metric>.<{'|'.join(AGGREGATIONS)}>",
)


def _check_key(value: Any) -> str:
    if not isinstance(value, str):
        raise Refused
    metric = _METRIC.fullmatch(value)
    if metric and metric[1] not in AGGREGATIONS:
        raise Refused(
            f"{shown(value)} has an unknown aggregation{nearest(metric[1], AGGREGATIONS)}; "
            f"allowed: {', '.join(AGGREGATIONS)}"
        )
    if not metric and not _FIELD.fullmatch(value) and not _TYPE_COUNT.fullmatch(value) and value not in PLAIN:
        raise Refused(f"{shown(value)} is not a key{nearest(value, PLAIN)}; allowed: {_ALLOWED}")
    return str(value)


_ALLOWED: Final = listed((*_FORMS, *PLAIN))

UserKey = Annotated[str, Rule(_check_key, f"one of {_ALLOWED}", {"type": "string", "minLength": 1})]


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
_COUNT: Final = whole("a whole number, 0 or more", lowest=0)
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


AudienceCondition = Annotated[
    dict[str, Any], Rule(_check_condition, "a condition on users", {"type": "object"})
]


def _check_reference(value: Any) -> str | dict[str, Any]:
    if isinstance(value, str):
        if not value:
            raise Refused
        return str(value)
    return _check_condition(value)


#: The id of an audience, or a condition.
Audience = Annotated[
    str | dict[str, Any],
    Rule(
        _check_reference,
        "the id of an audience, or a condition on users",
        {"oneOf": [{"type": "string", "minLength": 1}, {"type": "object"}]},
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


# ruff: noqa: N815  (attributes carry the specification's names)


Query = Annotated[str, text("one SELECT of 1 to 8192 characters", shortest=1, longest=8_192)]
MultiFieldMode = Annotated[str, choice("latest", "earliest", "alphabetical")]
EventSort = Annotated[str, choice("eventDate", "createdAt", "updatedAt", "_id")]
MetricSort = Annotated[str, choice("createdAt", "updatedAt", "metricDate")]
MetricType = Annotated[str, choice("state", "statistic")]


class SearchUsers(ProjectRequest):
    """Search users, one page at a time; they must meet all given conditions."""

    fields: Annotated[tuple[UserKey, ...], BOUNDED]
    filters: UserFilter | None = None
    audienceCondition: AudienceCondition | None = None
    sqlQuery: Query | None = None
    sort: UserKey | None = None
    order: Order | None = None
    idAfter: HexId | None = None
    idFrom: HexId | None = None
    idTo: HexId | None = None
    multiFieldMode: MultiFieldMode = "latest"
    offset: Offset = 0
    limit: Limit | None = None


class GetUser(ProjectRequest):
    """Get a user with all properties."""

    id: HexId


class ListUserEvents(ProjectRequest):
    """List the events of a user."""

    id: UserIdOrUnknown
    attributable: Flag | None = None
    since: Instant | None = None
    until: Instant | None = None
    sort: EventSort | None = None
    order: Order | None = None
    offset: Offset = 0
    limit: Limit | None = None


class ListUserMetrics(ProjectRequest):
    """List the states and statistics of a user's events."""

    id: UserIdOrUnknown
    type: MetricType | None = None
    since: Instant | None = None
    until: Instant | None = None
    sort: MetricSort | None = None
    order: Order | None = None
    offset: Offset = 0
    limit: Limit | None = None


# ruff: noqa: N815  (attributes carry the specification's names)


ErasureMode = Annotated[str, choice("anonymise", "delete")]


class MergeUsers(ProjectRequest):
    """Merge a user into another one, which remains."""

    id: HexId
    userId: HexId


class SplitUser(ProjectRequest):
    """Split a user from the one it was merged into."""

    id: HexId
    userId: HexId


class DeleteUser(ProjectRequest):
    """Delete or anonymise a user.

    ``delete`` removes all records; ``anonymise`` keeps the counts and removes personal values.
    """

    id: HexId
    mode: ErasureMode = "anonymise"


class ExportUserData(ProjectRequest):
    """Export all data of a user."""

    id: HexId


class AnonymiseExpired(ProjectRequest):
    """Anonymise personal values past their retention, by default as of now."""

    now: Instant | None = None


# ruff: noqa: N815  (attributes carry the specification's names)


#: Allowed levels of each transformer.
LEVELS: Final[dict[str, Rule]] = {
    "date": choice("year", "semester", "quarter", "month", "week", "day", "hour", "minute", "second"),
    "number": whole("0 to 12 decimals", lowest=0, highest=12),
    "case": choice("upper", "lower"),
    "hash": choice("sha256"),
    "join": text("a separator of at most 16 characters", longest=16),
}

FileName = Annotated[
    str,
    pattern(
        r"[^/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,128}",
        "1 to 128 characters without slashes, backslashes and control characters",
        longest=128,
    ),
]


class Transformer(Part):
    """A transformation of one column."""

    type: Annotated[str, choice(*LEVELS)]
    key: UserKey
    level: Any = None

    @model_validator(mode="after")
    def _check_level(self) -> Self:
        rule = LEVELS[self.type]
        if self.type == "hash" and self.level is None:
            return self
        try:
            rule.check(self.level)
        except Refused:
            problem = f"{shown(self.level)} is not a level of {self.type!r}; expected {rule.expected}"
            raise disagreement(("level", problem)) from None
        return self


class ExportedData(Part):
    """The columns of the file and the selection of users."""

    columns: Annotated[tuple[UserKey, ...], FILLED]
    filters: UserFilter | None = None
    audience: Audience | None = None


class OutputFormat(Part):
    """The file format; only ``type`` is part of the specification."""

    type: Annotated[str, choice("csv", "xlsx", fold=True)]
    delimiter: Annotated[str, choice(",", ";", "\t", "|")] = ","
    encoding: Annotated[str, choice("utf-8", "utf-8-bom")] = "utf-8"
    sanitizeFormulas: Flag = True


class ExportUsers(ProjectRequest):
    """Export users of a project to a file."""

    filename: FileName
    exporterDataConfig: ExportedData
    outputFormatConfig: OutputFormat
    transformerConfig: Annotated[tuple[Transformer, ...], BOUNDED]

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        columns = self.exporterDataConfig.columns
        violations = [
            (
                f"transformerConfig/{index}/key",
                f"{change.key!r} is not among the {{exporterDataConfig/columns}}",
            )
            for index, change in enumerate(self.transformerConfig)
            if change.key not in columns
        ]
        if violations:
            raise disagreement(*violations)
        return self
