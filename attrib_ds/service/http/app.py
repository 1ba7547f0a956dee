"""The service as an ASGI application."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from attrib_ds.contract import OPERATIONS
from attrib_ds.errors import NotSupported
from attrib_ds.service.collection.address_lookup import AddressLookup
from attrib_ds.service.http import (
    collection_route,
    documentation,
    error_responses,
    opportunity_route,
    tracker,
)
from attrib_ds.service.http.bodies import MEBIBYTE
from attrib_ds.service.http.body_memory import BodyBudget
from attrib_ds.service.http.collection_route import CollectionRoute
from attrib_ds.service.http.dispatch import Dispatcher
from attrib_ds.service.http.error_responses import HttpError
from attrib_ds.service.http.health import Health
from attrib_ds.service.http.opportunity_route import OpportunityRoute
from attrib_ds.service.http.page_requests import PageRequests
from attrib_ds.service.http.reads import Reads
from attrib_ds.service.http.routing import Routes, allowed
from attrib_ds.service.http.server_options import ServerOptions
from attrib_ds.service.http.service_request import ServiceRequest
from attrib_ds.service.http.thread_pool import ThreadPool
from attrib_ds.service.http.token_route import TokenRoute
from attrib_ds.service.store.ids import Uuids

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from attrib_ds.service.accounts import Accounts
    from attrib_ds.service.http.projects import Projects

_TOKEN: Final = OPERATIONS["exchange_token"]
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_EXPOSED: Final = "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Content-Disposition"
#: Methods of fixed paths; GET for the others.
_METHODS: Final = {
    collection_route.PATH: collection_route.METHODS,
    opportunity_route.PATH: opportunity_route.METHODS,
}
#: Status in the log of a request whose client has gone before the response.
_CLIENT_HAS_GONE: Final = 499
#: Headers of every response, unless it has others.
_COMMON: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", _EXPOSED.encode()),
)
_log: Final = logging.getLogger(__name__)


def make_app(
    projects: Projects,
    accounts: Accounts,
    *,
    token_urls: Collection[str],
    options: ServerOptions | None = None,
) -> ASGIApp:
    """Build the ASGI application.

    Parameters
    ----------
    projects : Projects
        Projects to serve; the caller closes them.
    accounts : Accounts
        Service accounts; the caller closes them.
    token_urls : collection of str
        URLs of the token route as clients see it.
    options : ServerOptions, optional
        Limits of the server.

    Returns
    -------
    ASGI application
        For one server, with lifespan events.
    """
    return _Application(projects, accounts, token_urls, options or ServerOptions())


class _Application:
    def __init__(
        self, projects: Projects, accounts: Accounts, token_urls: Collection[str], options: ServerOptions
    ) -> None:
        self._pool = ThreadPool(threads=options.threads, most_waiting=options.most_waiting)
        self._reads = Reads(options)
        budget = BodyBudget(options.body_mebibytes * MEBIBYTE)
        self._dispatcher = Dispatcher(
            projects, accounts, pool=self._pool, reads=self._reads, budget=budget, options=options
        )
        self._tokens = TokenRoute(accounts, audiences=token_urls, pool=self._pool, budget=budget)
        self._lookup = AddressLookup.open(geo=options.geo, asn=options.asn)
        pages = PageRequests(projects, pool=self._pool, budget=budget, options=options)
        collection = CollectionRoute(pages, lookup=self._lookup)
        opportunities = OpportunityRoute(pages)
        self._health = Health(projects, accounts)
        self._ids = Uuids()
        self._routes = Routes(OPERATIONS.values())
        openapi, overview = documentation.openapi(), documentation.overview()
        self._fixed: dict[bytes, Callable[[ServiceRequest], Awaitable[Response]]] = {
            b"/api/openapi.json": _fixed_response(openapi, "application/json"),
            b"/api/docs": _fixed_response(
                overview, "text/html", {"Content-Security-Policy": documentation.POLICY}
            ),
            b"/health/live": _fixed_response(b'{"status":"live"}', "application/json"),
            b"/health/ready": self._ready,
            collection_route.PATH: collection.answer,
            opportunity_route.PATH: opportunities.answer,
            tracker.PATH: tracker.tracking_script().answer,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._serve(ServiceRequest(scope, receive), send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._reads.close()
        self._pool.close()
        self._lookup.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, request: ServiceRequest, send: Send) -> None:
        started_at = time.monotonic()
        sent = request.headers.get("x-request-id", "")
        request.id = sent if _REQUEST_ID.fullmatch(sent) else self._ids.new()
        reply = _Reply(request, send)
        try:
            response = await self._respond(request)
            await response(request.scope, request.receive, reply.send)
        except ClientDisconnect:
            pass
        except Exception as error:  # noqa: BLE001  (the client always gets a response)
            with contextlib.suppress(ClientDisconnect):
                await _reply_with_error(request, reply, error)
        if _log.isEnabledFor(logging.INFO):
            _log.info(
                "%s %s %s %d %.0f ms",
                request.id,
                request.method,
                request.scope["raw_path"].decode("ascii", "backslashreplace"),
                reply.status or _CLIENT_HAS_GONE,
                (time.monotonic() - started_at) * 1_000,
            )

    async def _respond(self, request: ServiceRequest) -> Response:
        raw_path, method = request.scope["raw_path"], request.method
        fixed = self._fixed.get(raw_path)
        if fixed is not None:
            return await self._respond_to_fixed(request, raw_path, fixed)
        route = self._routes.find(raw_path)
        if route is None:
            raise HttpError(404, "There is nothing at this path; /api/docs lists all operations")
        operation = route.operation(method)
        if operation is None:
            return _preflight_or_refuse(method, route.allowed)
        if operation is _TOKEN:
            return await self._tokens.answer(request)
        return await self._dispatcher.answer(request, operation, route.parameters(operation))

    async def _respond_to_fixed(
        self,
        request: ServiceRequest,
        raw_path: bytes,
        answer: Callable[[ServiceRequest], Awaitable[Response]],
    ) -> Response:
        methods = allowed(_METHODS.get(raw_path, ("GET",)))
        if request.method != "OPTIONS" and request.method in methods.split(", "):
            return await answer(request)
        return _preflight_or_refuse(request.method, methods)

    async def _ready(self, _: ServiceRequest) -> Response:
        is_ready = await self._pool.run_or_reject(self._health.is_ready)
        content = b'{"status":"ready"}' if is_ready else b'{"status":"unavailable"}'
        return Response(content, 200 if is_ready else 503, media_type="application/json")


class _Reply:
    """Adds the common headers to a response and records its status."""

    def __init__(self, request: ServiceRequest, send: Send) -> None:
        self._request = request
        self._send = send
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name for name, _ in message["headers"]}
            added = [*_COMMON, (b"x-request-id", self._request.id.encode()), *self._request.added_headers()]
            message["headers"] += [header for header in added if header[0] not in present]
        await self._send(message)


async def _reply_with_error(request: ServiceRequest, reply: _Reply, error: Exception) -> None:
    """Log an error and send it; a failed stream is left incomplete (G-126)."""
    failure = error_responses.to_http_error(error)
    if isinstance(error, HttpError):
        # A limit, such as a full queue or a deadline: no fault, so no traceback.
        if failure.status >= 500:
            _log.warning("request %s: %s", request.id, failure.message)
    # An operation that is not supported is not a fault of the server.
    elif failure.status >= 500 and not isinstance(error, NotSupported):
        _log.error("request %s failed", request.id, exc_info=error)
    if not reply.status:
        accept = request.headers.get("accept", "")
        response = error_responses.response(failure, request_id=request.id, accept=accept)
        await response(request.scope, request.receive, reply.send)


def _fixed_response(
    content: bytes, media: str, headers: dict[str, str] | None = None
) -> Callable[[ServiceRequest], Awaitable[Response]]:
    async def respond(_: ServiceRequest) -> Response:
        return Response(content, headers=headers, media_type=media)

    return respond


def _preflight_or_refuse(method: str, methods: str) -> Response:
    """Answer a CORS preflight request, or raise 405 for another method.

    Any origin is allowed, since cookies are never used.
    """
    if method != "OPTIONS":
        raise HttpError(405, f"{method} is not allowed here; allowed: {methods}", headers={"Allow": methods})
    return Response(
        status_code=204,
        headers={
            "Allow": methods,
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept, X-Request-Id, "
            "X-Ingest-Key, X-Trashed-Field",
            "Access-Control-Max-Age": "7200",
        },
    )
