"""Turns errors into answers (G-180 to G-182)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from attrib_ds.errors import AttribError
from attrib_ds.service.http.accepting import prefers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        What went wrong, for the caller; where the status has a fixed message, that one is sent.
    details : sequence of dict, optional
        One entry per violation.
    headers : mapping, optional
        Further headers of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str = "",
        *,
        details: Sequence[dict[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = _FIXED.get(status, message)
        self.details = list(details)
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
    return Failed(error.status, error.message, details=error.details, headers=retry)


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
    media, body = "application/json", _body(failure, request_id)
    if prefers(accept, PROBLEM):
        media, body = PROBLEM, _problem(failure, request_id)
    headers = dict(failure.headers)
    if status == 401:
        headers.setdefault("WWW-Authenticate", "Bearer")
    # Escaped, since a message may repeat half a surrogate pair.
    return Response(json.dumps(body), status, headers, media_type=media)


def _body(failure: Failed, request_id: str) -> dict[str, Any]:
    body: dict[str, Any] = {"statusCode": failure.status, "message": failure.message}
    if failure.status == 401:
        return body
    body |= {"error": PHRASES[failure.status]}
    body |= {"details": failure.details} if failure.details else {}
    return {**body, "requestId": request_id}


def _problem(failure: Failed, request_id: str) -> dict[str, Any]:
    phrase = PHRASES[failure.status]
    body: dict[str, Any] = {"type": "about:blank", "title": phrase, "status": failure.status}
    body |= {"detail": failure.message}
    body |= {"errors": failure.details} if failure.details else {}
    return {**body, "requestId": request_id}
