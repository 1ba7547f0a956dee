"""The service as an ASGI application."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from attrib_ds.contract import OPERATIONS
from attrib_ds.errors import NotSupported
from attrib_ds.service.http import failures, pages
from attrib_ds.service.http.failures import Failed
from attrib_ds.service.http.health import Health
from attrib_ds.service.http.operating import Operating
from attrib_ds.service.http.routes import Route, Routes, allowed
from attrib_ds.service.http.settings import Settings
from attrib_ds.service.http.token_route import TokenRoute
from attrib_ds.service.http.workers import Workers
from attrib_ds.service.store.ids import new_uuid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from attrib_ds.service.accounts import Accounts
    from attrib_ds.service.http.projects import Projects

_TOKEN: Final = OPERATIONS["exchange_token"]
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_EXPOSED: Final = "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Content-Disposition"
_SAFE: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_log: Final = logging.getLogger(__name__)


def make_app(
    projects: Projects,
    accounts: Accounts,
    *,
    token_urls: Collection[str],
    settings: Settings | None = None,
) -> ASGIApp:
    """Return the service over HTTP.

    Parameters
    ----------
    projects : Projects
        What is served; stays open when the application ends.
    accounts : Accounts
        Who may ask; stays open too.
    token_urls : collection of str
        URLs under which clients know the token route.
    settings : Settings, optional
        What the operator chose.

    Returns
    -------
    ASGI application
        To be run by one server, with its lifespan.
    """
    return _Application(projects, accounts, token_urls, settings or Settings())


class _Application:
    def __init__(
        self, projects: Projects, accounts: Accounts, token_urls: Collection[str], settings: Settings
    ) -> None:
        self._workers = Workers(threads=settings.threads, most_waiting=settings.most_waiting)
        self._operating = Operating(projects, accounts, workers=self._workers, settings=settings)
        self._tokens = TokenRoute(accounts, audiences=token_urls, workers=self._workers)
        self._health = Health(projects, accounts)
        self._routes = Routes(OPERATIONS.values())
        described, overview = pages.openapi(), pages.overview()
        self._fixed: dict[bytes, Callable[[], Awaitable[Response]]] = {
            b"/api/openapi.json": _always(described, "application/json"),
            b"/api/docs": _always(overview, "text/html", {"Content-Security-Policy": pages.POLICY}),
            b"/health/live": _always(b'{"status":"live"}', "application/json"),
            b"/health/ready": self._ready,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(Request(scope, receive), send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._workers.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, request: Request, send: Send) -> None:
        began = time.monotonic()
        sent = request.headers.get("x-request-id", "")
        request.state.request_id = sent if _REQUEST_ID.fullmatch(sent) else new_uuid()
        request.state.headers = {}
        reply = _Reply(request, send)
        try:
            await self._reply(request, reply)
        except ClientDisconnect:
            return
        _log.info(
            "%s %s %s %d %.0f ms",
            request.state.request_id,
            request.method,
            request.scope["raw_path"].decode("ascii", "backslashreplace"),
            reply.status,
            (time.monotonic() - began) * 1_000,
        )

    async def _reply(self, request: Request, reply: _Reply) -> None:
        """Answer, or tell why not; what breaks off on its way is left without an end (G-126)."""
        try:
            response = await self._respond(request)
            await response(request.scope, request.receive, reply.send)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001  (whatever it is, the caller gets an answer)
            failure = failures.failed(error)
            # What is not built yet is no fault.
            if failure.status >= 500 and not isinstance(error, NotSupported):
                _log.error("request %s failed", request.state.request_id, exc_info=error)
            if not reply.status:
                accept = request.headers.get("accept", "")
                told = failures.response(failure, request_id=request.state.request_id, accept=accept)
                await told(request.scope, request.receive, reply.send)

    async def _respond(self, request: Request) -> Response:
        raw_path, method = request.scope["raw_path"], request.method
        fixed = self._fixed.get(raw_path)
        route = self._routes.find(raw_path) if fixed is None else None
        if fixed is None and route is None:
            raise Failed(404, "There is nothing at this path; /api/docs lists what there is")
        methods = route.allowed if route else allowed(["GET"])
        if method == "OPTIONS":
            return _preflight(methods)
        if fixed is not None and method in ("GET", "HEAD"):
            return await fixed()
        operation = route.operation(method) if isinstance(route, Route) else None
        if operation is None or route is None:
            raise Failed(405, f"{method} is not allowed here; allowed: {methods}", headers={"Allow": methods})
        if operation is _TOKEN:
            return await self._tokens.answer(request)
        return await self._operating.answer(request, operation, route.parameters(operation))

    async def _ready(self) -> Response:
        is_ready = await self._workers.begin(self._health.is_ready)
        content = b'{"status":"ready"}' if is_ready else b'{"status":"unavailable"}'
        return Response(content, 200 if is_ready else 503, media_type="application/json")


class _Reply:
    """Puts the headers that every answer has before its start, and remembers its status."""

    def __init__(self, request: Request, send: Send) -> None:
        self._request = request
        self._send = send
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name for name, _ in message["headers"]}
            common = {
                **_SAFE,
                "X-Request-Id": self._request.state.request_id,
                "Access-Control-Allow-Origin": "*",
                "Access-Control-Expose-Headers": _EXPOSED,
                **self._request.state.headers,
            }
            added = [(name.lower().encode(), value.encode()) for name, value in common.items()]
            message["headers"] = [*message["headers"], *(each for each in added if each[0] not in present)]
        await self._send(message)


def _always(
    content: bytes, media: str, headers: dict[str, str] | None = None
) -> Callable[[], Awaitable[Response]]:
    async def respond() -> Response:
        return Response(content, headers=headers, media_type=media)

    return respond


def _preflight(methods: str) -> Response:
    """Answer what a browser asks before it calls; no cookie is ever looked at, so any origin may."""
    return Response(
        status_code=204,
        headers={
            "Allow": methods,
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept, X-Request-Id",
            "Access-Control-Max-Age": "7200",
        },
    )
