"""Error responses: what exceptions look like to a client."""

import errno
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from starlette.responses import Response

from attrib_ds.contract import Operation, json_values, openapi
from attrib_ds.errors import AttribError

PROBLEM: Final = "application/problem+json"
#: Messages of statuses whose cause goes to the log only.
_FIXED: Final = {
    401: "Unauthorized",
    403: "Forbidden resource",
    429: "Too Many Requests",
    500: "Internal server error",
    503: "The service cannot do this now; try again later",
}
_SECONDS_TO_RETRY: Final = "5"
#: Errors of a disk without room.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class HttpError(Exception):
    """An error response.

    Parameters
    ----------
    status : int
        HTTP status.
    message : str, optional
        Description for the client; by default the standard text of the status.
    details : sequence of dict, optional
        One entry per violation.
    more : mapping, optional
        Further members of the body.
    headers : mapping, optional
        Further headers.
    """

    def __init__(
        self,
        status: int,
        message: str = "",
        *,
        details: Sequence[dict[str, Any]] = (),
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message or _FIXED.get(status, openapi.PHRASES[status])
        self.details = list(details)
        self.more = dict(more or {})
        self.headers = dict(headers or {})


def busy() -> HttpError:
    """Return the error of a request for which there is no room now, but soon."""
    return HttpError(503, headers={"Retry-After": "1"})


def to_http_error(error: Exception) -> HttpError:
    """Translate an exception into an error response, hiding internal details.

    Examples
    --------
    >>> from attrib_ds.errors import NotFound, ServiceFailure
    >>> to_http_error(NotFound("id: there is no node 'x'")).message
    "id: there is no node 'x'"
    >>> to_http_error(ServiceFailure("SELECT failed in /home/anna")).message
    'Internal server error'
    """
    if isinstance(error, HttpError):
        return error
    retry = {"Retry-After": _SECONDS_TO_RETRY}
    if not isinstance(error, AttribError):
        return HttpError(503, headers=retry) if getattr(error, "errno", None) in _FULL else HttpError(500)
    retry = retry if error.status in (429, 503) else {}
    event_ids = [entry["eventId"] for entry in error.details if "eventId" in entry]
    if event_ids:
        # The event is stored despite the errors.
        more: dict[str, Any] = {"eventId": event_ids[0]}
        if errors := [entry for entry in error.details if entry.keys() != {"eventId"}]:
            more["errors"] = [{name: entry[name] for name in entry if name != "eventId"} for entry in errors]
        return HttpError(error.status, error.message, more=more, headers=retry)
    message = "" if error.status in _FIXED else error.message
    return HttpError(error.status, message, details=error.details, headers=retry)


def with_wire_names(error: AttribError, operation: Operation) -> AttribError:
    """Return an error with the field's name in the HTTP interface instead of the Python argument.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS
    >>> from attrib_ds.errors import InvalidRequest
    >>> error = InvalidRequest("node_data/vendorId: there is no 'ads'", field="node_data/vendorId")
    >>> with_wire_names(error, OPERATIONS["create_offline_interaction"]).message
    "/nodeData/vendorId: there is no 'ads'"
    """
    name = error.field or ""
    first, slash, rest = name.partition("/")
    attributes = {argument: attribute for attribute, argument in operation.arguments.items()}
    attribute = first if first in operation.request.model_fields else attributes.get(first)
    if attribute is None:
        return error
    field = operation.pointer(f"{attribute}{slash}{rest}")
    message = error.message
    if message.startswith(f"{name}: "):
        message = field + message.removeprefix(name)
    return type(error)(message, field=field, request_id=error.request_id, details=error.details)


def response(failure: HttpError, *, request_id: str, accept: str) -> Response:
    """Build an error response: JSON, or problem details if the client prefers them (RFC 9457)."""
    media, content = "application/json", body(failure)
    if failure.status != 401:
        content["requestId"] = request_id
    if prefers(accept, PROBLEM):
        title, status = openapi.PHRASES[failure.status], failure.status
        members = {"type": "about:blank", "title": title, "status": status, "detail": failure.message}
        members |= {"errors": failure.details} if failure.details else {}
        media, content = PROBLEM, {**members, **failure.more, "requestId": request_id}
    headers = dict(failure.headers)
    if failure.status == 401:
        headers.setdefault("WWW-Authenticate", "Bearer")
    try:
        text = json_values.encode(content)
    except json_values.Refused:
        # A lone surrogate from the request; decimals become text.
        text = json.dumps(content, default=str)
    return Response(text, failure.status, headers, media_type=media)


def body(failure: HttpError) -> dict[str, Any]:
    """Return the body of an error response, without the request id."""
    members: dict[str, Any] = {"statusCode": failure.status, "message": failure.message}
    if failure.status == 401:
        return members
    members |= {"error": openapi.PHRASES[failure.status]}
    members |= {"details": failure.details} if failure.details else {}
    return {**members, **failure.more}


def prefers(accept: str, media: str) -> bool:
    """Return whether a client accepts a media type explicitly and at least as gladly as JSON.

    Wildcards are ignored: a client that accepts anything gets JSON.

    Examples
    --------
    >>> prefers("application/json;q=0.9, application/problem+json", "application/problem+json")
    True
    >>> prefers("*/*", "application/problem+json")
    False
    """
    weights: dict[str, float] = {}
    for item in accept.lower().replace(" ", "").split(","):
        name, *parameters = item.split(";")
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        weights[name] = 0.0
        with suppress(ValueError):
            weights[name] = float(weight)
    return weights.get(media, 0.0) > 0 and weights[media] >= weights.get("application/json", 0.0)
