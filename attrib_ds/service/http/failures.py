"""Turns errors into answers (G-180 to G-182)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from attrib_ds.contract.json_text import encode
from attrib_ds.contract.rule import Refused
from attrib_ds.errors import AttribError
from attrib_ds.service.http.accepting import prefers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from attrib_ds.contract import Operation

PROBLEM: Final = "application/problem+json"
#: Written out, since those of ``http.HTTPStatus`` change with the version of Python.
PHRASES: Final = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}
#: Messages that tell nothing more: what went wrong inside is for the log alone (R323).
_FIXED: Final = {
    401: "Unauthorized",
    403: "Forbidden resource",
    429: "Too Many Requests",
    500: "Internal server error",
    503: "The service cannot do this now; try again later",
}
_SECONDS_TO_RETRY: Final = "5"


class Failed(Exception):
    """A request is answered with an error.

    Parameters
    ----------
    status : int
        Of :data:`PHRASES`.
    message : str, optional
        What went wrong, for the caller; by default what always stands with the status.
    details : sequence of dict, optional
        One entry per violation.
    more : mapping, optional
        Further members of the body.
    headers : mapping, optional
        Further headers of the answer.
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
        self.message = message or _FIXED.get(status, PHRASES[status])
        self.details = list(details)
        self.more = dict(more or {})
        self.headers = dict(headers or {})


def failed(error: Exception) -> Failed:
    """Return what the caller is told about an error; of one that was not meant, nothing.

    Examples
    --------
    >>> from attrib_ds.errors import NotFound, ServiceFailure
    >>> failed(NotFound("id: there is no node 'x'")).message
    "id: there is no node 'x'"
    >>> failed(ServiceFailure("SELECT failed in /home/anna")).message
    'Internal server error'
    """
    if isinstance(error, Failed):
        return error
    if not isinstance(error, AttribError):
        return Failed(500)
    retry = {"Retry-After": _SECONDS_TO_RETRY} if error.status in (429, 503) else {}
    event_ids = [each["eventId"] for each in error.details if "eventId" in each]
    if event_ids:
        # The event is stored, and the caller is told what became of it (G-132, G-133).
        told = [{name: value for name, value in each.items() if name != "eventId"} for each in error.details]
        errors = [each for each in told if each]
        more = {"eventId": event_ids[0]} | ({"errors": errors} if errors else {})
        return Failed(error.status, error.message, more=more, headers=retry)
    message = "" if error.status in _FIXED else error.message
    return Failed(error.status, message, details=error.details, headers=retry)


def renamed(error: AttribError, operation: Operation) -> AttribError:
    """Return an error of a service with the field's name over HTTP in place of that in Python.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS
    >>> from attrib_ds.errors import InvalidRequest
    >>> error = InvalidRequest("node_data/vendorId: there is no 'ads'", field="node_data/vendorId")
    >>> renamed(error, OPERATIONS["create_offline_interaction"]).message
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


def response(failure: Failed, *, request_id: str, accept: str) -> Response:
    """Return the answer that tells a failure.

    Parameters
    ----------
    failure : Failed
        What went wrong.
    request_id : str
        Of the request.
    accept : str
        Its header Accept.

    Returns
    -------
    Response
        JSON, or problem details where they are asked for (RFC 9457).
    """
    status = failure.status
    media, told = "application/json", body(failure)
    if status != 401:
        told["requestId"] = request_id
    if prefers(accept, PROBLEM):
        media, told = PROBLEM, _problem(failure, request_id)
    headers = dict(failure.headers)
    if status == 401:
        headers.setdefault("WWW-Authenticate", "Bearer")
    return Response(_encoded(told), status, headers, media_type=media)


def _encoded(body: dict[str, Any]) -> str:
    try:
        return encode(body)
    except Refused:
        # Half a surrogate pair that came back; a decimal beside it becomes text.
        return json.dumps(body, default=str)


def body(failure: Failed) -> dict[str, Any]:
    """Return what the body of an answer tells of a failure, without the id of the request."""
    told: dict[str, Any] = {"statusCode": failure.status, "message": failure.message}
    if failure.status == 401:
        return told
    told |= {"error": PHRASES[failure.status]}
    told |= {"details": failure.details} if failure.details else {}
    return {**told, **failure.more}


def _problem(failure: Failed, request_id: str) -> dict[str, Any]:
    phrase = PHRASES[failure.status]
    body: dict[str, Any] = {"type": "about:blank", "title": phrase, "status": failure.status}
    body |= {"detail": failure.message}
    body |= {"errors": failure.details} if failure.details else {}
    return {**body, **failure.more, "requestId": request_id}
