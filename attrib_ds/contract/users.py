"""Requests about users: searches, audiences, identities and exports."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import model_validator

from attrib_ds import instants, schema
from attrib_ds.contract import identifiers, json_values, request, values
from attrib_ds.filters import Predicate, from_json, predicates, to_json, vocabulary, wire

#: Properties of the user that are keys by themselves, including whole maps.
PLAIN: Final = tuple(
    name for name in dict.fromkeys(column.split(".")[0] for column in schema.USER.names) if name != "fields"
)
#: Keys are as wide as the specification types them.
_FIELD: Final = re.compile(r"(?:fields|eventTypesCount)\.[^\x00\ud800-\udfff]+")
_METRIC: Final = re.compile(r"metrics\.[^\x00\ud800-\udfff]+\.([^.]*)")
_FORMS: Final = (
    "fields.<field>",
    "eventTypesCount.<event type>",
    f"metrics.<metric>.<{'|'.join(vocabulary.AGGREGATIONS)}>",
)


def _check_key(value: Any) -> str:
    if not isinstance(value, str):
        raise json_values.Refused
    metric = _METRIC.fullmatch(value)
    if metric and metric[1] not in vocabulary.AGGREGATIONS:
        raise json_values.Refused(
            f"{json_values.shown(value)} has an unknown "
            f"aggregation{json_values.nearest(metric[1], vocabulary.AGGREGATIONS)}; "
            f"allowed: {', '.join(vocabulary.AGGREGATIONS)}"
        )
    if not metric and not _FIELD.fullmatch(value) and value not in PLAIN:
        raise json_values.Refused(
            f"{json_values.shown(value)} is not a key{json_values.nearest(value, PLAIN)}; allowed: {_ALLOWED}"
        )
    return str(value)


_ALLOWED: Final = json_values.listed((*_FORMS, *PLAIN))

UserKey = Annotated[
    str, json_values.Rule(_check_key, f"one of {_ALLOWED}", {"type": "string", "minLength": 1})
]


_DEEPEST: Final = 10
_MOST_NODES: Final = 200
_MOST_VALUES: Final = 10_000
_USER_TYPES: Final = ("fields", "eventTypesCount", "metrics", "counters")
_COMPARISONS: Final = (
    "equals", "notEquals", "greaterThan", "greaterThanOrEquals", "lessThan", "lessThanOrEquals",
)  # fmt: skip
_COUNT: Final = values.whole("a whole number, 0 or more", lowest=0)
#: Conditions that count records, which a filter may select.
_FILTERED: Final = ("event", "interaction")
_TYPES: Final = ("audience", "event", "interaction", "condition", "operation", *_USER_TYPES)


def _check_condition(value: Any) -> dict[str, Any]:
    if isinstance(value, Predicate):
        if value.kind != "user":
            raise json_values.Refused(
                f"filters {value.kind}s; expected a predicate that starts with user(...)"
            )
        return to_json(value)
    if not isinstance(value, Mapping):
        raise json_values.Refused
    if _check_node(value, level=1) > _MOST_NODES:
        raise json_values.Refused(f"has too many nodes; expected at most {_MOST_NODES}")
    predicates.check_values(_predicates(value))
    return dict(value)


def _predicates(node: Mapping[str, Any]) -> Iterator[Predicate]:
    """Yield the predicates in a valid condition."""
    if node["type"] in _USER_TYPES:
        yield from_json(dict(node), kind="user")
    elif node["type"] in _FILTERED and node.get("filter") is not None:
        yield from_json(node["filter"], kind=node["type"])
    for rule in node.get(wire.CONDITION_PARTS.get(node["type"], ("", ""))[1], ()):
        yield from _predicates(rule)


def _check_node(node: Any, *, level: int) -> int:
    """Check every node of a condition and return their number."""
    if level > _DEEPEST:
        raise json_values.Refused(f"is nested too deeply; expected at most {_DEEPEST} levels")
    if not isinstance(node, Mapping):
        raise json_values.Refused(
            f"contains the condition {json_values.shown(node)}; expected an object with a type"
        )
    kind = _name(node, "type", _TYPES)
    if kind in _USER_TYPES:
        from_json(dict(node), kind="user")
    elif kind == "audience":
        _check_audience(node)
    elif kind == "event":
        _check_event(node)
        return 1 + _check_filter(node, "event")
    elif kind == "interaction":
        _check_count(node)
        return 1 + _check_filter(node, "interaction")
    else:
        return 1 + _check_rules(node, kind, level)
    return 1


def _check_rules(node: Mapping[str, Any], kind: str, level: int) -> int:
    combinator, members = wire.CONDITION_PARTS[kind]
    _name(node, combinator, ("AND", "OR"))
    rules = node.get(members)
    if not isinstance(rules, list | tuple):
        raise json_values.Refused(f"has {members} {json_values.shown(rules)}; expected a list of conditions")
    if not isinstance(node.get("not", False), bool):
        raise json_values.Refused(f"has 'not' {json_values.shown(node['not'])}; expected true or false")
    return sum(_check_node(rule, level=level + 1) for rule in rules)


def _check_audience(node: Mapping[str, Any]) -> None:
    _name(node, "operator", ("in", "notIn"))
    ids = node.get("value")
    if not isinstance(ids, list | tuple) or not all(isinstance(audience_id, str) for audience_id in ids):
        raise json_values.Refused(
            f"has the audiences {json_values.shown(ids)}; expected a list of audience ids"
        )
    if not 1 <= len(ids) <= _MOST_VALUES:
        raise json_values.Refused(f"has {len(ids):,} audience ids; expected 1 to {_MOST_VALUES:,}")


def _check_event(node: Mapping[str, Any]) -> None:
    if not isinstance(node.get("eventType"), str):
        raise json_values.Refused(
            f"has the eventType {json_values.shown(node.get('eventType'))}; expected an event type reference"
        )
    _check_count(node)
    for bound in ("since", "until"):
        if node.get(bound) is not None:
            instants.parse(node[bound], argument=bound)


def _check_filter(node: Mapping[str, Any], kind: vocabulary.Kind) -> int:
    """Check the filter of the records that a condition counts and return the number of its nodes."""
    if node.get("filter") is None:
        return 0
    predicate = from_json(node["filter"], kind=kind)
    for leaf in predicates.comparisons(predicate):
        if kind == "event" and (vocabulary.is_open(kind, leaf.field) or leaf.field == "attributable"):
            raise json_values.Refused(
                f"filters events by {leaf.field!r}; expected a statistic, such as "
                f"'{vocabulary.STATISTICS}turnover', or a property of all events"
            )
    _, nodes = predicates.measure(predicate)
    return nodes


def _check_count(node: Mapping[str, Any]) -> None:
    _name(node, "operator", _COMPARISONS)
    try:
        _COUNT.check(node.get("value"))
    except json_values.Refused:
        raise json_values.Refused(
            f"compares a count with {json_values.shown(node.get('value'))}; expected {_COUNT.expected}"
        ) from None


def _name(node: Mapping[str, Any], member: str, allowed: tuple[str, ...]) -> str:
    value = node.get(member)
    if not isinstance(value, str) or value not in allowed:
        raise json_values.Refused(
            f"has {member} {json_values.shown(value)}{json_values.nearest(value, allowed)}; allowed: "
            f"{json_values.listed(allowed)}"
        )
    return value


AudienceCondition = Annotated[
    dict[str, Any], json_values.Rule(_check_condition, "a condition on users", {"type": "object"})
]


def _check_reference(value: Any) -> str | dict[str, Any]:
    if isinstance(value, str):
        if not value:
            raise json_values.Refused
        return str(value)
    return _check_condition(value)


#: The id of an audience, or a condition.
Audience = Annotated[
    str | dict[str, Any],
    json_values.Rule(
        _check_reference,
        "the id of an audience, or a condition on users",
        {"oneOf": [{"type": "string", "minLength": 1}, {"type": "object"}]},
    ),
]


class CreateAudience(request.ProjectRequest):
    """Create an audience: the users who meet a condition."""

    name: identifiers.Name
    condition: AudienceCondition


class ListAudiences(request.PageRequest):
    """List the audiences of a project."""


class GetAudience(request.ProjectRequest):
    """Get one audience."""

    id: identifiers.PathText


class DeleteAudience(GetAudience):
    """Delete an audience."""


# ruff: noqa: N815  (attributes carry the specification's names)


Query = Annotated[str, json_values.text("one SELECT of 1 to 8192 characters", shortest=1, longest=8_192)]
MultiFieldMode = Annotated[str, json_values.choice("latest", "earliest", "alphabetical")]
EventSort = Annotated[str, json_values.choice("eventDate", "createdAt", "updatedAt", "_id")]
MetricSort = Annotated[str, json_values.choice("createdAt", "updatedAt", "metricDate")]
MetricType = Annotated[str, json_values.choice("state", "statistic")]


class SearchUsers(request.PageRequest):
    """Search users, one page at a time; they must meet all given conditions."""

    fields: Annotated[tuple[UserKey, ...], values.BOUNDED]
    filters: request.UserFilter | None = None
    audienceCondition: AudienceCondition | None = None
    sqlQuery: Query | None = None
    sort: UserKey | None = None
    order: values.Order | None = None
    idAfter: identifiers.HexId | None = None
    idFrom: identifiers.HexId | None = None
    idTo: identifiers.HexId | None = None
    multiFieldMode: MultiFieldMode = "latest"


class GetUser(request.ProjectRequest):
    """Get a user with all properties."""

    id: identifiers.HexId


class ListUserEvents(request.PageRequest):
    """List the events of a user."""

    id: identifiers.UserIdOrUnknown
    attributable: values.Flag | None = None
    since: values.Instant | None = None
    until: values.Instant | None = None
    sort: EventSort | None = None
    order: values.Order | None = None


class SearchEvents(request.PageRequest):
    """Search the events of a project, newest first, one page at a time."""

    userIds: Annotated[tuple[identifiers.UserIdOrUnknown, ...], json_values.Size(highest=10_000)] | None = (
        None
    )
    filter: request.EventTypes | None = None
    since: values.Instant | None = None
    until: values.Instant | None = None
    changedSince: values.Instant | None = None


class ListUserMetrics(request.PageRequest):
    """List the states and statistics of a user's events."""

    id: identifiers.UserIdOrUnknown
    type: MetricType | None = None
    since: values.Instant | None = None
    until: values.Instant | None = None
    sort: MetricSort | None = None
    order: values.Order | None = None


# ruff: noqa: N815  (attributes carry the specification's names)


ErasureMode = Annotated[str, json_values.choice("anonymise", "delete")]


class MergeUsers(GetUser):
    """Merge a user into another one, which remains."""

    userId: identifiers.HexId


class SplitUser(MergeUsers):
    """Split a user from the one it was merged into."""


class DeleteUser(GetUser):
    """Delete or anonymise a user.

    ``delete`` removes all records; ``anonymise`` keeps the counts and removes personal values.
    """

    mode: ErasureMode = "anonymise"


class ExportUserData(GetUser):
    """Export all data of a user."""


class AnonymiseExpired(request.ProjectRequest):
    """Anonymise personal values past their retention, by default as of now."""

    now: values.Instant | None = None


# ruff: noqa: N815  (attributes carry the specification's names)


#: Allowed levels of each transformer.
LEVELS: Final[dict[str, json_values.Rule]] = {
    "date": json_values.choice(
        "year", "semester", "quarter", "month", "week", "day", "hour", "minute", "second"
    ),
    "number": values.whole("0 to 12 decimals", lowest=0, highest=12),
    "case": json_values.choice("upper", "lower"),
    "hash": json_values.choice("sha256"),
    "join": json_values.text("a separator of at most 16 characters", longest=16),
}

FileName = Annotated[
    str,
    json_values.pattern(
        r"[^/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,128}",
        "1 to 128 characters without slashes, backslashes and control characters",
        longest=128,
    ),
]


class Transformer(request.Part):
    """A transformation of one column."""

    type: Annotated[str, json_values.choice(*LEVELS)]
    key: UserKey
    level: Any = None

    @model_validator(mode="after")
    def _check_level(self) -> Self:
        rule = LEVELS[self.type]
        if self.type == "hash" and self.level is None:
            return self
        try:
            rule.check(self.level)
        except json_values.Refused:
            problem = (
                f"{json_values.shown(self.level)} is not a level of {self.type!r}; expected {rule.expected}"
            )
            raise request.disagreement(("level", problem)) from None
        return self


class ExportedData(request.Part):
    """The columns of the file and the selection of users."""

    columns: Annotated[tuple[UserKey, ...], values.FILLED]
    filters: request.UserFilter | None = None
    audience: Audience | None = None


class OutputFormat(request.Part):
    """The file format; only ``type`` is part of the specification."""

    type: Annotated[str, json_values.choice("csv", "xlsx", fold=True)]
    delimiter: Annotated[str, json_values.choice(",", ";", "\t", "|")] = ","
    encoding: Annotated[str, json_values.choice("utf-8", "utf-8-bom")] = "utf-8"
    sanitizeFormulas: values.Flag = True


class ExportUsers(request.ProjectRequest):
    """Export users of a project to a file."""

    filename: FileName
    exporterDataConfig: ExportedData
    outputFormatConfig: OutputFormat
    transformerConfig: Annotated[tuple[Transformer, ...], values.BOUNDED]

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
            raise request.disagreement(*violations)
        return self
