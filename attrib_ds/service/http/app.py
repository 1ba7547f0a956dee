"""The service as an ASGI application: routes, the token route, request ids, errors and common headers."""

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from attrib_ds.contract import BASES, OPERATIONS, Operation, administration, from_wire, openapi
from attrib_ds.errors import InvalidRequest, NotSupported, Unavailable
from attrib_ds.service.accounts import Accounts, OAuthError, exchange
from attrib_ds.service.collection.collector import Collector
from attrib_ds.service.collection.visitors import AddressLookup
from attrib_ds.service.http import dispatch, errors, limits, reads
from attrib_ds.service.http.errors import HttpError
from attrib_ds.service.http.limits import BodyBudget, BodyMemory, Buckets, ServerOptions, ServiceRequest
from attrib_ds.service.http.pages import Pages, tracking_script
from attrib_ds.service.http.projects import Health, Projects
from attrib_ds.service.store.tables import Uuids

Answer = Callable[[ServiceRequest], Awaitable[Response]]

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_PLACEHOLDER: Final = re.compile(r"{(\w+)}")
#: Status in the log of a request whose client has gone before the response.
_CLIENT_HAS_GONE: Final = 499
_SECONDS_TO_HEAR: Final = 1.0
#: Share of the connections from which on none is kept for a next request.
_CROWDED: Final = 0.5
#: Headers of every response, unless it has others. Any origin is allowed, since no cookie gives access.
_COMMON: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"access-control-allow-origin", b"*"),
    (
        b"access-control-expose-headers",
        b"X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Content-Disposition",
    ),
)
_PREFLIGHT: Final = {
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept, X-Request-Id, X-Ingest-Key, "
    "X-Trashed-Field",
    "Access-Control-Max-Age": "7200",
}
#: Of the token route (RFC 6749, RFC 7523).
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_BYTES_OF_FORM: Final = 64 * 1024
_MOST_PARAMETERS: Final = 20
#: Characters not allowed in an error_description (RFC 6749, section 5.2).
_DISALLOWED: Final = re.compile(r"[^\x20-\x21\x23-\x5B\x5D-\x7E]+")
_HEADERS: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_log: Final = logging.getLogger(__name__)


class App:
    """The ASGI application of one server, with lifespan events.

    Parameters
    ----------
    projects : Projects or Collector
        Projects of the server. A collector answers pages only, and has no placements of holdouts.
    accounts : Accounts, optional
        Service accounts, of projects.
    token_urls : collection of str
        URLs of the token route as clients see it.
    options : ServerOptions
        Limits of the server.
    ready : callable
        Called once the server answers requests.
    count : callable, optional
        Called with the operation, the status and the seconds of each request.
    crowd : callable, optional
        Returns how many connections there are, as a share of those that may be. From half of them on, clients
        are asked to close theirs; from all of them on, requests are refused.
    """

    def __init__(
        self,
        projects: Projects | Collector,
        accounts: Accounts | None,
        *,
        token_urls: Collection[str],
        options: ServerOptions,
        ready: Callable[[], object],
        count: Callable[[str, int, float], object] | None = None,
        crowd: Callable[[], float] = lambda: 0,
    ) -> None:
        self._ready = ready
        self._count = count
        self._crowd = crowd
        self._lookup = AddressLookup.open(geo=options.geo, asn=options.asn)
        self._pool = reads.ThreadPool(threads=options.threads, most_waiting=options.most_waiting)
        self._reads = reads.Reads(
            threads=options.reads, most_waiting=options.most_waiting, seconds=options.seconds_to_read
        )
        budget, buckets = BodyBudget(options.body_mebibytes * limits.MEBIBYTE), Buckets(options.rate_limits)
        pages = Pages(projects, pool=self._pool, budget=budget, buckets=buckets, lookup=self._lookup)
        self._ids = Uuids()
        #: Answers of paths without placeholders, by path and method.
        self._fixed: dict[bytes, dict[str, Answer]] = {
            b"/c": {"GET": pages.collect, "POST": pages.collect},
            b"/t.js": {"GET": tracking_script().answer},
            b"/health/live": {"GET": _constant('{"status":"live"}')},
            b"/health/ready": {"GET": self._answer_readiness},
        }
        self._routes = Routes([])
        if isinstance(projects, Collector) or accounts is None:
            self._is_ready: Callable[[], bool] = lambda: True
            return
        self._is_ready = Health(projects, accounts).is_ready
        self._dispatcher = dispatch.Dispatcher(
            projects, accounts, self._pool, self._reads, budget=budget, buckets=buckets, options=options
        )
        tokens = TokenRoute(accounts, audiences=token_urls, pool=self._pool, budget=budget)
        self._fixed |= {
            b"/auth/oidc/token": {"POST": tokens.answer},
            b"/link": {"POST": pages.link},
            b"/show": {"POST": pages.show},
            b"/api/openapi.json": {"GET": _constant(json.dumps(openapi.document(), separators=(",", ":")))},
        }
        self._routes = Routes(
            operation for operation in OPERATIONS.values() if operation.base in ("v1", "v2")
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or the events of the server's life."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._serve(ServiceRequest(scope, receive), send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        self._ready()
        await receive()
        self._reads.close()
        self._pool.close()
        self._lookup.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, request: ServiceRequest, send: Send) -> None:
        started_at = time.monotonic()
        sent = request.headers.get("x-request-id", "")
        request.id = sent if _REQUEST_ID.fullmatch(sent) else self._ids.new()
        status = 0

        async def reply(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                rates = [
                    (name.lower().encode(), text.encode()) for name, text in request.rate_headers.items()
                ]
                date = (b"date", formatdate(usegmt=True).encode())
                added = [*_COMMON, date, (b"x-request-id", request.id.encode()), *rates]
                added += [(b"connection", b"close")] * (self._crowd() >= _CROWDED)
                message["headers"] += [header for header in added if header[0] not in present]
            await send(message)

        try:
            response = await self._respond(request)
            await response(request.scope, request.receive, reply)
        except ClientDisconnect:
            pass
        except Exception as error:  # noqa: BLE001  (the client always gets a response)
            failure = _logged(request, error)
            # A stream that fails is left incomplete.
            if not status:
                response = errors.response(
                    failure, request_id=request.id, accept=request.headers.get("accept", "")
                )
                with contextlib.suppress(ClientDisconnect):
                    await response(request.scope, request.receive, reply)
        status, seconds = status or _CLIENT_HAS_GONE, time.monotonic() - started_at
        if self._count is not None:
            self._count(request.operation, status, seconds)
        if _log.isEnabledFor(logging.INFO):
            path = request.scope["raw_path"].decode("ascii", "backslashreplace")
            _log.info("%s %s %s %d %.0f ms", request.id, request.method, path, status, seconds * 1_000)

    async def _respond(self, request: ServiceRequest) -> Response:
        answers = self._find(request)
        if self._crowd() >= 1 and request.operation != "/health/live":
            # The connection ends with the response, which a client that is still sending would not see.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_HEAR):
                    while (await request.receive()).get("more_body"):
                        pass
            raise errors.busy()
        method = "GET" if request.method == "HEAD" else request.method
        if method in answers:
            return await answers[method](request)
        methods = {*answers, "OPTIONS"} | ({"HEAD"} if "GET" in answers else set())
        allowed = ", ".join(sorted(methods))
        if method != "OPTIONS":
            message = f"{request.method} is not allowed here; allowed: {allowed}"
            raise HttpError(405, message, headers={"Allow": allowed})
        return Response(None, 204, {"Allow": allowed, "Access-Control-Allow-Methods": allowed, **_PREFLIGHT})

    def _find(self, request: ServiceRequest) -> dict[str, Answer]:
        """Return the answers at the path of a request, by method."""
        raw_path = request.scope["raw_path"]
        if raw_path in self._fixed:
            request.operation = raw_path.decode()
            return self._fixed[raw_path]
        found = self._routes.find(raw_path)
        if found is None:
            raise HttpError(404, "There is nothing at this path; /api/openapi.json lists all operations")
        operations, values = found
        request.operation = operations[request.method].name if request.method in operations else "none"
        answers: dict[str, Answer] = {}
        for method, operation in operations.items():
            path = dict(zip(_PLACEHOLDER.findall(operation.path), values, strict=True))
            answers[method] = partial(self._dispatcher.answer, operation=operation, path=path)
        return answers

    async def _answer_readiness(self, _: ServiceRequest) -> Response:
        is_ready = await self._pool.run_or_reject(self._is_ready)
        content = b'{"status":"ready"}' if is_ready else b'{"status":"unavailable"}'
        return Response(content, 200 if is_ready else 503, media_type="application/json")


def _logged(request: ServiceRequest, error: Exception) -> HttpError:
    """Log an exception and translate it into an error response."""
    failure = errors.to_http_error(error)
    if isinstance(error, HttpError):
        # A limit, such as a full queue or a deadline: no fault, so no traceback.
        if failure.status >= 500:
            _log.warning("request %s: %s", request.id, failure.message)
    elif isinstance(error, Unavailable):
        _log.warning("request %s: %s", request.id, error.message)
    # An operation that is not supported is not a fault of the server.
    elif failure.status >= 500 and not isinstance(error, NotSupported):
        _log.error("request %s failed", request.id, exc_info=error)
    return failure


@dataclass
class TokenRoute:
    """Issue access tokens for assertions.

    Parameters
    ----------
    accounts : Accounts
        Service accounts.
    audiences : collection of str
        URLs of the route; an assertion must name one as its audience.
    pool : ThreadPool
        Threads that do the work.
    budget : BodyBudget
        Memory for request bodies.
    """

    accounts: Accounts
    audiences: Collection[str]
    pool: reads.ThreadPool
    budget: BodyBudget

    async def answer(self, request: ServiceRequest) -> Response:
        """Answer one request; errors have the codes of RFC 6749."""
        headers: dict[str, str] = {}
        try:
            with self.budget.request(has_token=False) as memory:
                form = await _read_form(request, memory)
            token = await self.pool.run_or_reject(
                exchange,
                self.accounts,
                client_id=form["client_id"],
                assertion=form["assertion"],
                audiences=self.audiences,
            )
            scope = " ".join(token.scopes)
            body: dict[str, Any] = {"access_token": token.text, "token_type": "Bearer", "scope": scope}
            status, body["expires_in"] = 200, token.seconds
        except OAuthError as error:
            status = 400
            body = {"error": error.code, "error_description": _DISALLOWED.sub(" ", error.description)}
            if error.code == "invalid_client":
                status, headers = 401, {"WWW-Authenticate": 'Bearer error="invalid_client"'}
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001  (answered by status, and logged by class alone)
            failure = errors.to_http_error(error)
            status, headers = failure.status, failure.headers
            if status >= 500 and not isinstance(error, HttpError):
                # Without message and traceback, which may contain secrets.
                _log.error("request %s failed: %s", request.id, type(error).__name__)
            fault = "temporarily_unavailable" if status == 503 else "server_error"
            body = {"error": "invalid_request" if status < 500 else fault}
        return Response(json.dumps(body), status, _HEADERS | headers, media_type="application/json")


async def _read_form(request: ServiceRequest, memory: BodyMemory) -> dict[str, str]:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != _FORM:
        raise OAuthError("invalid_request", f"the content type is not {_FORM}")
    content = await limits.read(request, most_bytes=_MOST_BYTES_OF_FORM, memory=memory)
    try:
        pairs = parse_qsl(content.decode("ascii"), errors="strict", max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise OAuthError("invalid_request", "the body is not a form in UTF-8") from None
    form = dict(pairs)
    if len(form) < len(pairs):
        raise OAuthError("invalid_request", "a parameter is repeated")
    if form.get("grant_type", administration.JWT_BEARER) != administration.JWT_BEARER:
        raise OAuthError("unsupported_grant_type", f"the grant_type is not {administration.JWT_BEARER}")
    try:
        from_wire(OPERATIONS["exchange_token"], body=form)
    except InvalidRequest as error:
        names = ", ".join(sorted({str(entry["attribute"]) for entry in error.details}))
        raise OAuthError("invalid_request", f"missing or not allowed: {names}") from None
    return form


class Routes:
    """The paths of operations; a literal segment takes precedence over a placeholder.

    Paths are split before decoding, so that an id may contain an encoded slash.

    Parameters
    ----------
    operations : iterable of Operation
        Operations of the HTTP interface.

    Examples
    --------
    >>> routes = Routes([OPERATIONS["get_node"], OPERATIONS["list_nodes"]])
    >>> operations, values = routes.find(b"/api/v1/projects/shop/nodes/a%2Fb")
    >>> operations["GET"].name, values
    ('get_node', ['shop', 'a/b'])
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        #: Operations by method, at the segments of their path; None stands for a placeholder.
        paths: dict[tuple[str | None, ...], dict[str, Operation]] = {}
        for operation in operations:
            parts = f"{BASES[operation.base]}{operation.path}".split("/")
            pattern = tuple(None if _PLACEHOLDER.fullmatch(part) else part for part in parts)
            methods = (operation.method, *operation.synonyms)
            paths.setdefault(pattern, {}).update(dict.fromkeys(methods, operation))
        self._paths = sorted(paths.items(), key=lambda entry: [part is None for part in entry[0]])

    def find(self, raw_path: bytes) -> tuple[dict[str, Operation], list[str]] | None:
        """Return the operations at a percent-encoded path by method, and the values of its placeholders."""
        # Bytes that are not UTF-8 become lone surrogates, which validation rejects.
        parts = [unquote_to_bytes(part).decode("utf-8", "surrogateescape") for part in raw_path.split(b"/")]
        for pattern, operations in self._paths:
            if len(pattern) == len(parts):
                pairs = list(zip(pattern, parts, strict=True))
                if all(part if expected is None else part == expected for expected, part in pairs):
                    return operations, [part for expected, part in pairs if expected is None]
        return None


def _constant(content: str) -> Answer:
    async def answer(_: ServiceRequest) -> Response:
        return Response(content, media_type="application/json")

    return answer
