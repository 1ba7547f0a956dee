"""Turns error answers of the service into the errors of this package."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any, Final

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
from attrib_ds.records.json_records import decode
from attrib_ds.transports.http.retrying import Failed, seconds_asked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attrib_ds.contract import Operation
    from attrib_ds.transports.http.retrying import Again
    from attrib_ds.transports.http.secret import Secret
    from attrib_ds.transports.http.session import Response

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
#: Statuses after which a request may be carried out if it comes again.
_PASSING: Final = frozenset({408, 425, 500, 502, 503, 504})
_ADVICE: Final[dict[int, str]] = {
    401: "the access token was not accepted; check that the key is not revoked",
    403: "the service account may not do this in this project; ask for the grant or the scope",
    429: "ask less often",
}
_LONGEST: Final = 4_000
_LONGEST_FOREIGN: Final = 200
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_POINTER: Final = re.compile(r"(/?)([A-Za-z]\w*)((?:/[^:;\s]*)?)(?=: )")


def failed(
    response: Response,
    operation: Operation,
    *,
    url: str,
    request_id: str,
    now: float,
    secrets: list[Secret[str]],
) -> Failed:
    """Return the failure that an answer tells.

    Parameters
    ----------
    response : Response
        Of which the body is not read; its status is not one of success.
    operation : Operation
        What was asked.
    url : str
        Where it was asked.
    request_id : str
        As it was sent, in case the answer has none.
    now : float
        Seconds since 1970 by the service's clock.
    secrets : list of Secret
        What no message may show though the service repeats it.

    Returns
    -------
    Failed
        With an error in the words that an embedded project would use, as far as the service gives them.
    """
    told = _members(response, secrets) or {}
    status = response.status
    message = _message(told)
    if 300 <= status < 400:
        advice = f"it has moved to {_place(response)}; give that address as url="
    elif not message and status in (404, 405, 501):
        advice = "check url=, or give the path of this operation in routes="
    else:
        advice = _ADVICE.get(status, "")
    text = _worded(operation, message) if message else f"HTTP {status} from {url}{_foreign(told)}"
    asked = seconds_asked(response.headers.get("Retry-After"), now=now)
    error = _error(
        status,
        _blotted(f"{text}; {advice}" if advice else text, secrets),
        told,
        operation,
        request_id=_blotted(_request_id(told, response, request_id), secrets),
        retry_after=asked if status in (429, 503) else None,
    )
    return Failed(error, _again(status), began=status != 429)


def error_of(told: Mapping[str, Any], operation: Operation) -> AttribError:
    """Return the error that the service tells about one of many in an answer of success.

    Parameters
    ----------
    told : mapping
        The body that an answer for this one alone would have.
    operation : Operation
        What was asked for this one.

    Returns
    -------
    AttribError
        In the words that an embedded project would use.
    """
    status = told.get("statusCode")
    message = _message(told) or "the service does not say what is wrong"
    known = status if isinstance(status, int) and 400 <= status < 600 else 500
    return _error(known, _worded(operation, message), told, operation)


def _error(
    status: int,
    text: str,
    told: Mapping[str, Any],
    operation: Operation,
    *,
    request_id: str | None = None,
    retry_after: float | None = None,
) -> AttribError:
    details = _details(told, operation)
    return _kind(status)(
        text,
        field=_field(details, text, operation),
        request_id=request_id,
        details=details,
        retry_after=retry_after,
    )


def _message(told: Mapping[str, Any]) -> str:
    message = told.get("message")
    if isinstance(message, list):
        return "; ".join(map(str, message))
    return message if isinstance(message, str) else ""


def _kind(status: int) -> type[AttribError]:
    if 300 <= status < 400:
        return InvalidRequest
    return _KINDS.get(status, InvalidRequest if status < 500 else ServiceFailure)


def _again(status: int) -> Again:
    if status == 429:
        # What was refused was not begun.
        return "always"
    return "if safe" if status in _PASSING else "never"


def _members(response: Response, secrets: list[Secret[str]]) -> dict[str, Any] | None:
    content = _blotted(response.beginning().decode("utf-8", "replace"), secrets)
    if "json" not in response.media and not content.lstrip().startswith("{"):
        # Kept for the title of a page.
        return {"": content} if response.media == "text/html" else None
    try:
        told = decode(content.encode())
    except InvalidRequest:
        return None
    return told if isinstance(told, dict) else None


def _foreign(told: Mapping[str, Any]) -> str:
    """Tell what came in place of an error of the service: a page of a proxy, an error of another kind."""
    page = told.get("", "")
    title = _TITLE.search(page)
    if title:
        return f": {' '.join(unescape(title[1]).split())[:_LONGEST_FOREIGN]}"
    for name in ("error_description", "error", "detail", "title"):
        each = told.get(name)
        if isinstance(each, str) and each:
            return f": {each[:_LONGEST_FOREIGN]}"
    return ""


def _place(response: Response) -> str:
    location = response.headers.get("Location", "")
    return location.partition("?")[0][:_LONGEST_FOREIGN] or "an address that is not told"


def _worded(operation: Operation, message: str) -> str:
    """Return a message with arguments of Python in place of names over HTTP."""

    def argument(match: re.Match[str]) -> str:
        attribute = f"{match[2]}{match[3]}"
        is_known = match[2] in operation.request.model_fields
        return operation.argument(attribute) if is_known else match[0]

    parts = message[:_LONGEST].split("; ")
    return "; ".join(
        _POINTER.sub(argument, part, count=1) if _POINTER.match(part) else part for part in parts
    )


def _details(told: Mapping[str, Any], operation: Operation) -> list[dict[str, Any]]:
    """Return the violations, or what is wrong with an event that was stored all the same (G-132)."""
    listed = told.get("details") or told.get("errors") or []
    details = [dict(each) for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    for each in details:
        if isinstance(each.get("attribute"), str):
            each["field"] = operation.argument(each["attribute"])
    if isinstance(told.get("eventId"), str):
        return [{**each, "eventId": told["eventId"]} for each in details or [{}]]
    return details


def _field(details: list[dict[str, Any]], text: str, operation: Operation) -> str | None:
    first = details[0].get("field") if details else None
    if isinstance(first, str):
        return first
    named = re.match(r"([a-z_]+(?:/[^:;\s]*)?): ", text)
    known = set(operation.arguments.values())
    return named[1] if named and named[1].partition("/")[0] in known else None


def _request_id(told: Mapping[str, Any], response: Response, sent: str) -> str:
    for each in (told.get("requestId"), response.headers.get("X-Request-Id")):
        if isinstance(each, str) and each:
            return each[:128]
    return sent


def _blotted(text: str, secrets: list[Secret[str]]) -> str:
    for each in secrets:
        text = each.blot(text)
    return text
