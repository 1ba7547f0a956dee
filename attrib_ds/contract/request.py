"""Base classes of request models, and their validation errors as one ``InvalidRequest``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from attrib_ds.contract.identifiers import ProjectId
from attrib_ds.contract.json_values import shown
from attrib_ds.errors import InvalidRequest


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
    """

    null_counts: ClassVar[frozenset[str]] = frozenset()


class ProjectRequest(Request):
    """A request about one project."""

    projectId: ProjectId  # noqa: N815  (the specification's name)


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
_EXPECTED_TYPES: Final = {
    "tuple_type": "a list",
    "model_type": "an object",
}


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
    where = "/".join(_escaped(part) for part in error["loc"])
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


def _escaped(part: str | int) -> str:
    """Escape one step of a JSON pointer (RFC 6901)."""
    return str(part).replace("~", "~0").replace("/", "~1")
