"""Translate error responses of the service into the exceptions of this package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Any, Final

from attrib_ds.contract import Operation
from attrib_ds.contract.operation import DEADLINE_EXCEEDED
from attrib_ds.errors import (
    AttribError,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    NotSupported,
    ServiceFailure,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from attrib_ds.keys import Secret
from attrib_ds.records.json_records import decode
from attrib_ds.transports.http.session import AttemptFailed, Response, Retry

_KINDS: Final[dict[int, type[AttribError]]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: NotSupported,
    408: Unavailable,
    409: Conflict,
    410: NotFound,
    413: InvalidRequest,
    422: InvalidRequest,
    429: TooManyRequests,
    501: NotSupported,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
#: Statuses of transient failures, after which a retry may succeed.
_TRANSIENT: Final = frozenset({408, 425, 500, 502, 503, 504})
_ADVICE: Final[dict[int, str]] = {
    401: "the access token was rejected; check that the key is not revoked",
    403: "the service account lacks permission in this project; ask for the grant or the scope",
    429: "send fewer requests",
}
_LONGEST: Final = 4_000
_MOST_PARTS: Final = 100
_LONGEST_FOREIGN: Final = 200
#: Characters of a web page in which its title is searched; in longer ones, a search could take minutes.
_LONGEST_HEAD: Final = 8_192
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_POINTER: Final = re.compile(r"(/?)([A-Za-z]\w*)((?:/[^:;\s]*)?)(?=: )")


def read_failure(
    response: Response,
    operation: Operation,
    *,
    url: str,
    request_id: str,
    secrets: list[Secret[str]],
) -> AttemptFailed:
    """Read an error response.

    Parameters
    ----------
    response : Response
        Its status is not a success; its body has not been read.
    operation : Operation
        The operation.
    url : str
        URL of the request.
    request_id : str
        Request id that was sent, used if the response has none.
    secrets : list of Secret
        Values to redact in messages, in case the service repeats them.

    Returns
    -------
    AttemptFailed
        Its error has the same message as in an embedded project if the service sends one.
    """
    body = _read_body(response, secrets) or {}
    status = response.status
    message = _message(body)
    if 300 <= status < 400:
        advice = f"it has moved to {_location(response)}; pass that address as url="
    elif not message and status in (404, 405, 501):
        advice = "check url=, or give the path of this operation in routes="
    else:
        advice = _ADVICE.get(status, "")
    text = (
        _with_arguments(operation, message) if message else f"HTTP {status} from {url}{_foreign_error(body)}"
    )
    error = _error(
        status,
        _redact(f"{text}; {advice}" if advice else text, secrets),
        body,
        operation,
        request_id=_redact(_request_id(body, response, request_id), secrets),
        retry_after=response.retry_after if status in (429, 503) else None,
    )
    # The same request would exceed the deadline again.
    is_too_long = any(entry.get("type") == DEADLINE_EXCEEDED for entry in error.details)
    retry: Retry = "never" if is_too_long else _retry(status)
    return AttemptFailed(error, retry, reached_service=status != 429)


def item_error(body: Mapping[str, Any], operation: Operation) -> AttribError:
    """Return the error of one item of a batch, from a successful response.

    Parameters
    ----------
    body : mapping
        Error body of the item.
    operation : Operation
        The operation for a single item.

    Returns
    -------
    AttribError
        With the same message as in an embedded project.
    """
    status = body.get("statusCode")
    message = _message(body) or "the service does not say what is wrong"
    if not (isinstance(status, int) and 400 <= status < 600):
        status = 500
    return _error(status, _with_arguments(operation, message), body, operation)


def _error(
    status: int,
    text: str,
    body: Mapping[str, Any],
    operation: Operation,
    *,
    request_id: str | None = None,
    retry_after: float | None = None,
) -> AttribError:
    details = _details(body, operation)
    return _error_class(status)(
        text,
        field=_field(details, text, operation),
        request_id=request_id,
        details=details,
        retry_after=retry_after,
    )


def _message(body: Mapping[str, Any]) -> str:
    message = body.get("message")
    if isinstance(message, list):
        return "; ".join(part[:_LONGEST] for part in message[:_MOST_PARTS] if isinstance(part, str))
    return message if isinstance(message, str) else ""


def _error_class(status: int) -> type[AttribError]:
    if 300 <= status < 400:
        return InvalidRequest
    return _KINDS.get(status, InvalidRequest if status < 500 else ServiceFailure)


def _retry(status: int) -> Retry:
    if status == 429:
        # A rate-limited request was not started.
        return "always"
    return "if safe" if status in _TRANSIENT else "never"


def _read_body(response: Response, secrets: list[Secret[str]]) -> dict[str, Any] | None:
    content = _redact(response.beginning().decode("utf-8", "replace"), secrets)
    if "json" not in response.media and not content.lstrip().startswith("{"):
        # Kept for the title of the page.
        return {"": content} if response.media == "text/html" else None
    try:
        body = decode(content.encode())
    except InvalidRequest:
        return None
    return body if isinstance(body, dict) else None


def _foreign_error(body: Mapping[str, Any]) -> str:
    """Describe an error that does not come from the service, such as the page of a proxy."""
    page = body.get("")
    title = _TITLE.search(page[:_LONGEST_HEAD]) if isinstance(page, str) else None
    if title:
        return f": {' '.join(unescape(title[1]).split())[:_LONGEST_FOREIGN]}"
    for name in ("error_description", "error", "detail", "title"):
        value = body.get(name)
        if isinstance(value, str) and value:
            return f": {value[:_LONGEST_FOREIGN]}"
    return ""


def _location(response: Response) -> str:
    location = response.headers.get("Location", "")
    return location.partition("?")[0][:_LONGEST_FOREIGN] or "an unnamed address"


def _with_arguments(operation: Operation, message: str) -> str:
    """Replace names of the HTTP interface in a message by arguments of the Python function."""

    def argument(match: re.Match[str]) -> str:
        attribute = f"{match[2]}{match[3]}"
        is_attribute = match[2] in operation.request.model_fields
        return operation.argument(attribute) if is_attribute else match[0]

    parts = message[:_LONGEST].split("; ")
    return "; ".join(
        _POINTER.sub(argument, part, count=1) if _POINTER.match(part) else part for part in parts
    )


def _details(body: Mapping[str, Any], operation: Operation) -> list[dict[str, Any]]:
    """Return the violations, or the errors of an event that was stored nevertheless."""
    entries = body.get("details") or body.get("errors") or []
    details = (
        [dict(entry) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    )
    for entry in details:
        if isinstance(entry.get("attribute"), str):
            entry["field"] = operation.argument(entry["attribute"])
    if isinstance(body.get("eventId"), str):
        return [{**entry, "eventId": body["eventId"]} for entry in details or [{}]]
    return details


def _field(details: list[dict[str, Any]], text: str, operation: Operation) -> str | None:
    first = details[0].get("field") if details else None
    if isinstance(first, str):
        return first
    named = re.match(r"([a-z_]+(?:/[^:;\s]*)?): ", text)
    arguments = set(operation.arguments.values())
    return named[1] if named and named[1].partition("/")[0] in arguments else None


def _request_id(body: Mapping[str, Any], response: Response, sent: str) -> str:
    for request_id in (body.get("requestId"), response.headers.get("X-Request-Id")):
        if isinstance(request_id, str) and request_id:
            return request_id[:128]
    return sent


def _redact(text: str, secrets: list[Secret[str]]) -> str:
    for secret in secrets:
        text = secret.redact(text)
    return text
