"""Translate error responses of the service into the exceptions of this package."""

import re
from collections.abc import Callable, Mapping
from html import unescape
from typing import Any, Final
from urllib.parse import urljoin, urlsplit, urlunsplit

from attrib_ds import errors
from attrib_ds.contract import Operation, Request
from attrib_ds.contract.operation import DEADLINE_EXCEEDED
from attrib_ds.records.json_records import decode
from attrib_ds.transports.http.session import PROXY_ADVICE, AttemptFailed, Call, Response, Retry

_KINDS: Final[dict[int, type[errors.AttribError]]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    409: errors.Conflict,
    429: errors.TooManyRequests,
    **dict.fromkeys((404, 410), errors.NotFound),
    **dict.fromkeys((405, 501), errors.NotSupported),
    **dict.fromkeys((407, 408, 425, 502, 503, 504), errors.Unavailable),
}
#: Statuses of transient failures, after which a retry may succeed.
_TRANSIENT: Final = frozenset({408, 425, 500, 502, 503, 504})
NO_KEY: Final = "requires a service-account key; pass key='key.json' or set ATTRIB_DS_KEY to its path"
_ADVICE: Final[dict[int, str]] = {
    401: "the access token was rejected; check that the key is not revoked",
    403: "the service account lacks permission in this project; ask for the grant or the scope",
    407: PROXY_ADVICE,
    429: "send fewer requests",
}
#: Type of the entry in the details of an error that a smaller page may avoid.
PAGE_TOO_LARGE: Final = "page-too-large"
#: Type of the entry in the details of an error that may mean that the service lacks an operation.
LACKS: Final = "operation-lacking"
LACKING: Final = frozenset({401, 403, 404, 405, 410, 501})
#: What routers and pages that know no such path answer besides.
_MAY_LACK: Final = frozenset({301, 302, 303, 307, 308, 400, 406, 415, 422, 500, 502})
#: Additions whose work other operations do; it is safe to do it again.
_REPLACEABLE: Final = frozenset({"create_events", "search_events"})
_NAMES_LIMIT: Final = re.compile(r"\blimit|page.?size|per.?page|too (?:large|many)", re.IGNORECASE)
#: Records of a page that no gateway gives up on for their number.
_SMALLEST: Final = 100
_NUMBER: Final = re.compile(r"(?<![\w.-])[0-9]{1,9}(?![\w.])")
#: Words in the names of members with the text of an error, the most telling first.
_TELLING: Final = "message msg faultstring detail description errors error reason title fault exception data"
#: Names of the members that say which argument an error is about.
_PLACES: Final = ("loc", "field", "param", "property")
_BARE: Final = frozenset({"Bad Request", "Internal Server Error", "Not Found"})
#: Characters of a message of our own service, and of what another service says.
_LONGEST: Final = 600
_LONGEST_FOREIGN: Final = 300
_MOST_PARTS: Final = 100
#: Characters of a web page in which its title is searched; in longer ones, a search could take minutes.
_LONGEST_HEAD: Final = 8_192
_TITLE: Final = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_POINTER: Final = re.compile(r"(?:^|(?<=; ))/?([A-Za-z]\w*)((?:/[^:;\s]*)?)(?=: )")


def read_failure(response: Response, operation: Operation, request: Request, call: Call) -> AttemptFailed:
    """Read an error response.

    Parameters
    ----------
    response : Response
        Its status is not a success; its body has not been read.
    operation, request : Operation, Request
        The operation and its request.
    call : Call
        What was sent: its request id is used if the response has none.

    Returns
    -------
    AttemptFailed
        Its error has the same message as in an embedded project if the service sends one.
    """
    redact, url = response.redact, call.url
    body, status = read_body(response.beginning(), redact), response.status
    message, said, is_ours = _message(body), told(body), "requestId" in body
    advice = NO_KEY if status == 401 and call.token is None else _ADVICE.get(status, "")
    if 300 <= status < 400:
        advice = _redirection(response.headers.get("Location", ""), url)
    elif (not is_ours and status == 405) or (not message and status in (404, 501)):
        advice = "check url=, or give the path of this operation in routes="
    text = f"HTTP {status} from {url}{f': {said}' if said else ''}"
    if not is_ours and message in _BARE:
        text = f"{operation.name}: {text}"
    elif message:
        text = _with_arguments(operation, message)
        if not is_ours:
            more = told(body.get("errors"))
            text += f" ({more})" if more and more not in text else ""
            is_named = _field([], text, operation) is not None
            text = text if is_named else f"{operation.name}: {text}"
    ids = (body.get("requestId"), response.headers.get("X-Request-Id"))
    id = redact(next((id[:128] for id in ids if isinstance(id, str) and id), call.headers["X-Request-Id"]))
    error = _error(status, redact(f"{text}; {advice}" if advice else text), body, operation, request_id=id)
    error.retry_after = response.retry_after if status in (429, 503) else None
    retry: Retry = "if safe" if status in _TRANSIENT else "never"
    if status == 429 or (status == 503 and error.retry_after is not None):
        # The request was not started.
        retry = "always"
    if 300 <= status < 400:
        error.details.append({"type": "moved"})
    # Our own service says in details what is wrong.
    words = "" if body.get("details") or status not in (400, 422) else f"{message} {said}"
    limit = getattr(request, "limit", None) or 0
    # A gateway also gives up on a service that is down, whatever the size of the page.
    is_too_large = status == 413 or (status == 504 and limit > _SMALLEST) or _NAMES_LIMIT.search(words)
    if limit > 1 and is_too_large:
        numbers = map(int, _NUMBER.findall(f"{message} {said}"))
        named = [number for number in numbers if 0 < number < limit]
        error.details.append({"type": PAGE_TOO_LARGE, "value": max(named, default=limit // 2)})
        retry = "never"
    # Our own service names its request when it forbids one, and the argument of what it does not find.
    is_own = is_ours and status in {403, *_MAY_LACK}
    is_own |= status == 404 and error.field is not None
    lacking = LACKING | _MAY_LACK if may_be_lacking(operation) else LACKING
    if operation.extension and status in lacking and not is_own:
        error.details.append({"type": LACKS, "value": status})
    if any(entry.get("type") == DEADLINE_EXCEEDED for entry in error.details):
        # The same request would exceed the deadline again.
        retry = "never"
    return AttemptFailed(error, retry, reached_service=status != 429)


def _redirection(location: str, url: str) -> str:
    """Return advice on a redirect, which is not followed."""
    location = urljoin(url, location.partition("?")[0])[:_LONGEST_FOREIGN]
    old, new = urlsplit(url), urlsplit(location)
    if location == url:
        return "it redirects to an unnamed address; check url="
    if new.path == old.path and new.netloc:
        base = urlunsplit((new.scheme, new.netloc, new.path.partition("/api/")[0], "", ""))
        return f"it has moved to {location}; pass url={base!r}"
    return f"it redirects to {location}, which is not followed; check url= and the key"


def may_be_lacking(operation: Operation) -> bool:
    """Return whether any failure may mean that a service lacks an operation, which it has not carried out."""
    return operation.extension and (operation.method == "GET" or operation.name in _REPLACEABLE)


def noted(error: errors.AttribError, kind: str) -> int | None:
    """Return the size of a page that may succeed, or the status that says that an operation is lacking."""
    return next((entry["value"] for entry in error.details if entry.get("type") == kind), None)


def item_error(body: Mapping[str, Any], operation: Operation) -> errors.AttribError:
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
    status: int, text: str, body: Mapping[str, Any], operation: Operation, *, request_id: str | None = None
) -> errors.AttribError:
    details = _details(body, operation)
    kind = _KINDS.get(status, errors.InvalidRequest if status < 500 else errors.ServiceFailure)
    field = _field(details, text, operation)
    return kind(text, field=field, request_id=request_id, details=details)


def _message(body: Mapping[str, Any]) -> str:
    message = body.get("message")
    if isinstance(message, list):
        message = "; ".join(part for part in message[:_MOST_PARTS] if isinstance(part, str))
    longest = _LONGEST if "requestId" in body else _LONGEST_FOREIGN
    return message[:longest] if isinstance(message, str) else ""


def read_body(content: bytes, redact: Callable[[str], str]) -> dict[str, Any]:
    """Return the members of a body, without a secret; what is no JSON object is the member of one."""
    text = redact(content.decode("utf-8", "replace"))
    if text.lstrip().startswith("<"):
        return {"title": title(text)}
    try:
        body = decode(text.encode())
    except errors.InvalidRequest:
        body = text
    return body if isinstance(body, dict) else {"errors": body}


def title(page: str) -> str:
    """Return the title or heading of a web page, empty if it has none, or the text of XML."""
    head = page[:_LONGEST_HEAD]
    found = _TITLE.search(head)
    text = found[2] if found else "" if "<html" in head.lower() else head
    return " ".join(unescape(_TAG.sub(" ", text)).split())[:_LONGEST_FOREIGN]


def told(body: Any, *, is_all: bool = False) -> str:
    """Return what an error says, in one line: its most telling member, or else its lists by field.

    With ``is_all``, as inside of such a member, all others are shown too.

    Examples
    --------
    >>> told({"error": {"code": 7, "message": "no such shop"}}), told({"errors": ["a", {"detail": "b"}]})
    ('no such shop', 'a; b')
    >>> told({"code": 7, "limit": ["is too large"]})
    'limit: is too large'
    """
    if isinstance(body, Mapping):
        telling = dict.fromkeys(name for word in _TELLING.split() for name in body if word in name.lower())
        text = next((text for name in telling if (text := told(body[name], is_all=True))), "")
        found = next((body[name] for name in _PLACES if isinstance(body.get(name), list | str)), "")
        place = found if isinstance(found, str) else "/".join(map(str, found[:_MOST_PARTS]))
        if text:
            return f"{place}{': ' if place else ''}{text}"[:_LONGEST_FOREIGN]
        shown = [name for name in body if name not in telling and (is_all or isinstance(body[name], list))]
        parts = [f"{name}: {text}" for name in shown if (text := told(body[name], is_all=is_all))]
        return "; ".join(parts[:_MOST_PARTS])[:_LONGEST_FOREIGN]
    if isinstance(body, list):
        parts = [text for part in body[:_MOST_PARTS] if (text := told(part, is_all=is_all))]
        return "; ".join(parts)[:_LONGEST_FOREIGN]
    return " ".join(body.split())[:_LONGEST_FOREIGN] if isinstance(body, str) else ""


def _with_arguments(operation: Operation, message: str) -> str:
    """Replace names of the HTTP interface in a message by arguments of the Python function."""

    def argument(match: re.Match[str]) -> str:
        is_attribute = match[1] in operation.request.model_fields
        return operation.argument(f"{match[1]}{match[2]}") if is_attribute else match[0]

    return _POINTER.sub(argument, message)


def _details(body: Mapping[str, Any], operation: Operation) -> list[dict[str, Any]]:
    """Return the violations, or the errors of an event that was stored nevertheless."""
    entries = body.get("details") or body.get("errors") or []
    entries = entries if isinstance(entries, list) else []
    details = [dict(entry) for entry in entries if isinstance(entry, dict)]
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
