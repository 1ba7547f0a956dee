"""Turns what pydantic found into one error of this package."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract.rule import shown
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from attrib_ds.contract.request import Request

_MOST_TOLD: Final = 20
_LONGEST_PROBLEM: Final = 4_000
_MISSING: Final = "missing; it is required"
#: What is allowed where pydantic's own check of a container failed.
_CONTAINERS: Final = {
    "tuple_type": "a list",
    "model_type": "an object",
}


def translate(
    error: ValidationError, request: type[Request], *, call: Callable[[str], str]
) -> InvalidRequest:
    """Return the one error that tells every violation.

    Parameters
    ----------
    error : ValidationError
        What pydantic found.
    request : type
        The request that was to be built.
    call : callable
        Takes an attribute of the request, with ``/`` before nested parts, and returns what the reader
        calls it.

    Returns
    -------
    InvalidRequest
        Its message joins the violations by ``; ``. ``details`` has one entry per violation: ``field`` (what
        the reader calls it), ``attribute`` (the specification's name), ``problem``, and ``got`` (a short
        text) unless nothing came or it is secret. The first twenty violations are told.
    """
    details: list[dict[str, Any]] = []
    for each in error.errors(include_url=False):
        for attribute, problem, got in _violations(each):
            if _is_secret(attribute, request):
                problem, got = _without_value(each), None
            if each["type"] == "disagreement":
                problem = re.sub(r"\{([A-Za-z/]+)\}", lambda match: call(match[1]), problem)
            entry = {"field": call(attribute), "attribute": attribute, "problem": _shortened(problem)}
            details.append(entry if got is None else {**entry, "got": got})
    told = [f"{each['field']}: {each['problem']}" for each in details[:_MOST_TOLD]]
    rest = [f"{len(details) - _MOST_TOLD:,} more"] if len(details) > _MOST_TOLD else []
    return InvalidRequest("; ".join(told + rest), field=details[0]["field"], details=details[:_MOST_TOLD])


def _violations(error: ErrorDetails) -> Iterator[tuple[str, str, str | None]]:
    """Yield attribute, problem and what came."""
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
        yield where, f"{got} is not allowed; allowed: {_allowed(error)}", got


def _allowed(error: ErrorDetails) -> str:
    if error["type"] == "not_allowed":
        return str(error["ctx"]["allowed"])
    return _CONTAINERS.get(error["type"], error["msg"])


def _without_value(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return _MISSING
    allowed = f"; allowed: {_allowed(error)}" if error["type"] == "not_allowed" else ""
    return f"the value is not allowed{allowed}"


def _is_secret(attribute: str, request: type[Request]) -> bool:
    known = request.model_fields.get(attribute.partition("/")[0])
    return known is not None and not known.repr


def _shortened(problem: str) -> str:
    """Cut a value that a check of another layer has shown whole; what is allowed stands at the end."""
    half = _LONGEST_PROBLEM // 2
    return problem if len(problem) <= _LONGEST_PROBLEM else f"{problem[:half]}…{problem[-half:]}"


def _escaped(part: str | int) -> str:
    """Write one step of a JSON pointer (RFC 6901)."""
    return str(part).replace("~", "~0").replace("/", "~1")
