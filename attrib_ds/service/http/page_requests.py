"""What every request of a page goes through: rate limits, body, project, keys and origins (G-189)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrib_ds.errors import Unavailable
from attrib_ds.service.http import bodies, rate_limits
from attrib_ds.service.http.client_addresses import address_of_client, network_of
from attrib_ds.service.http.error_responses import HttpError
from attrib_ds.service.http.rate_limits import Claim
from attrib_ds.service.http.senders import check_page
from attrib_ds.service.http.single_events import Arrivals

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from starlette.datastructures import Headers

    from attrib_ds.service import Service
    from attrib_ds.service.http.body_memory import BodyBudget
    from attrib_ds.service.http.projects import Projects
    from attrib_ds.service.http.server_options import ServerOptions
    from attrib_ds.service.http.service_request import ServiceRequest
    from attrib_ds.service.http.thread_pool import ThreadPool
    from attrib_ds.service.store.settings import ProjectSettings

_PREFETCH: Final = ("purpose", "sec-purpose", "x-moz")


class PageRequests:
    """Admits requests of pages, which have no token, and waits until what they send is durable.

    Parameters
    ----------
    projects : Projects
        Projects of the server.
    pool : ThreadPool
        Threads that open projects; counts the requests.
    budget : BodyBudget
        Memory for request bodies.
    options : ServerOptions
        Rate limits and trusted proxies.
    """

    def __init__(
        self, projects: Projects, *, pool: ThreadPool, budget: BodyBudget, options: ServerOptions
    ) -> None:
        self._projects = projects
        self._pool = pool
        self._budget = budget
        self._limits = options.rate_limits
        self._trusted_proxies = options.trusted_proxies
        self._buckets = rate_limits.Buckets()
        self._arrivals = Arrivals()

    def count_address(self, request: ServiceRequest) -> str:
        """Count a request of its address, and return the address; raises 429 if there are too many."""
        address = address_of_client(request, self._trusted_proxies)
        self._count(request, by_address=network_of(address))
        return address

    async def read(self, request: ServiceRequest, *, most_bytes: int) -> Any:
        """Return the JSON value of a body; an empty object for none."""
        with self._budget.request(has_token=False) as memory:
            return bodies.parse(await bodies.read(request, most_bytes=most_bytes, memory=memory)) or {}

    async def open(
        self, request: ServiceRequest, project_id: str, *, ingest_key: str | None
    ) -> tuple[Service, ProjectSettings]:
        """Return the project of a request and its settings, once the page may send to it."""
        service = self._projects.find_open(project_id)
        if service is None:
            service = await self._pool.run_or_reject(self._projects.get, project_id)
        settings = service.cached_settings()
        if settings is None:
            settings = await self._pool.run_or_reject(service.settings)
        check_page(
            request.headers, settings, ingest_key=ingest_key or request.headers.get("x-ingest-key", "")
        )
        self._count(request, project_id=project_id)
        return service, settings

    async def store(self, start: Callable[[], Future[Any] | None]) -> None:
        """Wait until something is durable, taking no thread.

        Parameters
        ----------
        start : callable
            Takes no arguments and starts to store it; returns its future, or None if the project is busy.
        """
        with self._pool.admission():
            future = start()
            if future is None:
                raise Unavailable("the project is being restored or opened again; try again later")
            await self._arrivals.wait(future, None, None)

    def _count(self, request: ServiceRequest, *, by_address: str = "", project_id: str = "") -> None:
        """Count a request of its address, or of its project."""
        if self._limits is None:
            return
        limit = self._limits.hits if project_id else self._limits.hits_by_address
        claim = Claim(limit, project_id or by_address)
        quotas = self._buckets.take([claim])
        request.quotas = quotas
        if any(quota.seconds_to_wait for quota in quotas):
            raise HttpError(429, headers=rate_limits.headers(quotas))


def is_prefetch(headers: Headers) -> bool:
    """Return whether the browser fetches a page that the visitor may never see (G-197)."""
    return any("prefetch" in headers.get(name, "").lower() for name in _PREFETCH)


def refuses_id(headers: Headers, settings: ProjectSettings) -> bool:
    """Return whether the browser asks not to be recognised again, and the project respects it (G-200)."""
    return (settings.respect_gpc and headers.get("sec-gpc") == "1") or (
        settings.respect_dnt and headers.get("dnt") == "1"
    )
