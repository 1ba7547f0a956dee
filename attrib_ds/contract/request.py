"""Base classes of request models, their filters, and their validation errors as one ``InvalidRequest``."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import singledispatch
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from attrib_ds import instants
from attrib_ds.contract import values
from attrib_ds.contract.identifiers import ProjectId
from attrib_ds.contract.json_values import Refused, Rule, shown, text
from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Comparison, Condition, Predicate, as_condition, from_json, to_json, vocabulary


class Untitled(GenerateJsonSchema):
    """Generate JSON Schema without titles made from attribute names."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002  (pydantic's signature)
        """Return False: no titles."""
        return False


class Part(BaseModel):
    """Base of requests and of the objects inside them: frozen, unknown properties ignored."""

    # Secret attributes have `repr=False`; error messages never show their values.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Request(Part):
    """The request of an operation; attributes have the names of the specification.

    Attributes
    ----------
    null_counts : frozenset of str
        Attributes with None as a value; for all others None means "not given".
    lower_bounds : frozenset of str
        Attributes that records may equal; of those that they must exceed, digits are cut.
    """

    null_counts: ClassVar[frozenset[str]] = frozenset()
    lower_bounds: ClassVar[frozenset[str]] = frozenset({"since", "changedSince"})


class ProjectRequest(Request):
    """A request about one project."""

    projectId: ProjectId  # noqa: N815  (the specification's name)


class PageRequest(ProjectRequest):
    """Base of requests for a page of a list."""

    offset: values.Offset = 0
    limit: values.Limit | None = None


def disagreement(*violations: tuple[str, str]) -> PydanticCustomError:
    """Return the error for attributes that contradict each other.

    Parameters
    ----------
    *violations : tuple of str
        An attribute and its problem; ``{name}`` in the problem is replaced with the name that the reader
        uses for the attribute ``name``.

    Returns
    -------
    PydanticCustomError
        For a validator of the model to raise.
    """
    return PydanticCustomError("disagreement", "contradictory properties", {"violations": violations})


_MOST_DETAILS: Final = 20
_LONGEST_PROBLEM: Final = 4_000
_MISSING: Final = "is required"
#: Expected types, by the error of pydantic's own check.
_EXPECTED_TYPES: Final = {"tuple_type": "a list", "model_type": "an object"}


def translate(
    error: ValidationError, request: type[Request], *, call: Callable[[str], str]
) -> InvalidRequest:
    """Return one error that lists all violations.

    Parameters
    ----------
    error : ValidationError
        From pydantic.
    request : type
        The request that pydantic checked.
    call : callable
        Takes an attribute of the request, with ``/`` before nested parts, and returns its name for the
        reader: an argument in Python, a JSON pointer over HTTP.

    Returns
    -------
    InvalidRequest
        Its message joins the violations with ``; ``. ``details`` has one entry per violation: ``field`` (name
        for the reader), ``attribute`` (the specification's name), ``problem``, and ``got`` (the value,
        shortened) unless it is missing or secret. Only the first twenty violations are included.
    """
    details: list[dict[str, Any]] = []
    for violation in error.errors(include_url=False):
        for attribute, problem, got in _violations(violation):
            if _is_secret(attribute, request):
                problem, got = _without_value(violation), None
            if violation["type"] == "disagreement":
                problem = re.sub(r"\{([A-Za-z/]+)\}", lambda match: call(match[1]), problem)
            entry = {"field": call(attribute), "attribute": attribute, "problem": _shortened(problem)}
            details.append(entry if got is None else {**entry, "got": got})
    problems = [f"{entry['field']}: {entry['problem']}" for entry in details[:_MOST_DETAILS]]
    if len(details) > _MOST_DETAILS:
        problems.append(f"and {len(details) - _MOST_DETAILS:,} more")
    return InvalidRequest("; ".join(problems), field=details[0]["field"], details=details[:_MOST_DETAILS])


def _violations(error: ErrorDetails) -> Iterator[tuple[str, str, str | None]]:
    """Yield attribute, problem and the shortened value."""
    where = "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in error["loc"])
    context = error.get("ctx", {})
    if error["type"] == "disagreement":
        for attribute, problem in context["violations"]:
            yield "/".join(filter(None, [where, attribute])), problem, None
    elif error["type"] == "missing":
        yield where, _MISSING, None
    elif error["type"] == "explained":
        yield where + context["within"], context["problem"], shown(error["input"])
    else:
        got = shown(error["input"])
        yield where, f"{got} is not allowed; expected {_expected(error)}", got


def _expected(error: ErrorDetails) -> str:
    if error["type"] == "not_allowed":
        return str(error["ctx"]["expected"])
    return _EXPECTED_TYPES.get(error["type"], error["msg"].removeprefix("Input should be "))


def _without_value(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return _MISSING
    expected = f"; expected {_expected(error)}" if error["type"] == "not_allowed" else ""
    return f"the value is not allowed{expected}"


def _is_secret(attribute: str, request: type[Request]) -> bool:
    field = request.model_fields.get(attribute.partition("/")[0])
    return field is not None and not field.repr


def _shortened(problem: str) -> str:
    """Cut the middle of a long problem, which ends with the expected value."""
    half = _LONGEST_PROBLEM // 2
    return problem if len(problem) <= _LONGEST_PROBLEM else f"{problem[:half]}…{problem[-half:]}"


Kind = Literal["interaction", "node", "user", "event"]


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
        check,
        f"a predicate that starts with {kind}(...), or its JSON object",
        {"type": "object"},
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


_NODES: Final = filtering("node")
_EVENTS: Final = filtering("event")
_REFERENCE: Final = text("a list of event type references")

InteractionFilter = Annotated[Predicate, filtering("interaction")]
UserFilter = Annotated[Predicate, filtering("user")]
NodeFilter = Annotated[Predicate, Rule(_check_nodes, _NODES.expected, _NODES.json_schema, write=to_json)]
#: References, or a comparison of the event type.
EventTypes = Annotated[
    tuple[str, ...] | Predicate,
    Rule(
        _check_event_types,
        "a list of event type references, or a predicate on event('eventType')",
        {"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object"}]},
        write=lambda value: to_json(value) if isinstance(value, Predicate) else list(value),
    ),
]


PartT = TypeVar("PartT", bound=Part)


def in_milliseconds(request: PartT) -> PartT:
    """Return a request whose bounds, dates and filters have no digits beyond milliseconds.

    Stored instants have none: lower bounds are rounded up, upper bounds and dates down.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS, build
    >>> since = "2025-01-31T12:00:00.0019Z"
    >>> search = build(OPERATIONS["search_interactions"], project_id="shop", since=since)
    >>> in_milliseconds(search).since
    datetime.datetime(2025, 1, 31, 12, 0, 0, 2000, tzinfo=datetime.timezone.utc)
    """
    given = {name: getattr(request, name) for name in request.model_fields_set}
    lower = getattr(request, "lower_bounds", ())
    kept = {
        name: instants.round_up(value) if name in lower and value is not None else truncate(value)
        for name, value in given.items()
    }
    changes = {name: value for name, value in kept.items() if value is not given[name]}
    return request.model_copy(update=changes) if changes else request


@singledispatch
def truncate(value: Any) -> Any:
    """Truncate an instant and those in an object, round those in a filter; return other values unchanged."""
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
    if value.operator_type != vocabulary.FieldType.INSTANT or value.value is None:
        return value
    texts = value.value if isinstance(value.value, tuple) else (value.value,)
    given = [instants.parse_exact(text, argument="value") for text in texts]
    is_between = value.operator in {"between", "notBetween"}
    rounds_up = is_between or value.operator in {"greaterThanOrEquals", "lessThan"}
    kept = tuple(
        instants.format(
            instants.round_up(instant) if rounds_up and place == 0 else instants.truncate(instant)
        )
        for place, instant in enumerate(given)
    )
    return replace(value, value=kept if isinstance(value.value, tuple) else kept[0])


@truncate.register
def _(value: Condition) -> Condition:
    return replace(value, rules=tuple(map(truncate, value.rules)))
