"""What pages send without a token: hits to ``/c``, requests for a holdout to ``/show``; and their script."""

import gzip
import logging
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha384
from importlib.resources import files
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response

from attrib_ds.contract import OPERATIONS, administration, events, interactions
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.service.collection import daily_visitors, visitors
from attrib_ds.service.collection.hits import pending_hit
from attrib_ds.service.http import errors, limits, reads
from attrib_ds.service.http.limits import BodyBudget, Buckets, Claim, ServiceRequest, network_of
from attrib_ds.service.http.projects import Projects, check_page
from attrib_ds.service.service import Service
from attrib_ds.service.store.settings import ProjectSettings
from attrib_ds.service.store.tables import new_uuid

_MOST_BYTES_OF_HIT: Final = 16 * 1024
_MOST_HITS: Final = 50
_MOST_BYTES_OF_OPPORTUNITY: Final = 4 * 1024
_PREFETCH: Final = ("purpose", "sec-purpose", "x-moz")
#: A transparent image of one pixel.
_PIXEL: Final = b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
#: Comments of the script that fill their lines, and indentation.
_UNSERVED: Final = re.compile(r"^ *(?:/\*\*(?:[^*]|\*(?!/))*\*/|//[^\n]*)\n|^ +", re.MULTILINE)
_SECONDS_TO_CACHE: Final = 3_600
_CREATE: Final = OPERATIONS["create_event"]
_log: Final = logging.getLogger(__name__)


@dataclass
class Pages:
    """Answers pages; a request takes no thread while it waits until what it sends is durable.

    Parameters
    ----------
    projects : Projects
        Projects of the server.
    pool : ThreadPool
        Threads that open projects; counts the requests.
    budget : BodyBudget
        Memory for request bodies.
    buckets : Buckets
        Rate limits.
    lookup : AddressLookup
        Databases of places and networks.
    """

    projects: Projects
    pool: reads.ThreadPool
    budget: BodyBudget
    buckets: Buckets
    lookup: visitors.AddressLookup
    arrivals: reads.Arrivals = field(default_factory=reads.Arrivals)

    async def collect(self, request: ServiceRequest) -> Response:
        """Store a hit, or several of one page, and answer once they are durable.

        Parameters
        ----------
        request : ServiceRequest
            GET with the members of the hit in its query, for a pixel; or POST with a JSON body of any content
            type, since browsers send text/plain to other origins without asking first: a hit, or an array of
            up to 50 of one project.

        Raises
        ------
        HttpError, AttribError
            If a check fails or the hit cannot be stored; then nothing is stored.
        """
        if request.method == "HEAD":
            return _pixel()
        self._count(request, "hits-by-address", network_of(request.address))
        query = limits.parse_query(request.scope["query_string"])
        if request.method == "GET":
            # A pixel is on the page that it counts.
            page = {"pageUrl": request.headers["referer"]} if "referer" in request.headers else {}
            hits = [interactions.read_hit(page | query, is_query=True)]
        else:
            body = await self._body(request, _MOST_BYTES_OF_HIT, may_be_array=True)
            hits = [interactions.read_hit(each) for each in _listed(body)]
        first = hits[0]
        if any((hit.projectId, hit.ingestKey) != (first.projectId, first.ingestKey) for hit in hits):
            raise InvalidRequest("the hits of one request must be of one project, with the same ingestKey")
        service, settings = await self._open(request, first.projectId, first.ingestKey, hits=len(hits))
        place = self._place(request.address)
        visitor = await self._visitor(request, service, settings)
        for hit in hits:
            record = _record(hit, request, settings, visitor) | place
            await self._store(service, partial(service.start_hit, record))
        return _pixel() if request.method == "GET" else Response(status_code=202)

    async def show(self, request: ServiceRequest) -> Response:
        """Tell whether to show the placement of a holdout, once the opportunity is durable.

        Visitors outside the experiment see the placement, and no opportunity is logged: bots, filtered
        traffic, pages that are fetched in advance, browsers that refuse a lasting id, and everyone outside
        the period.

        Raises
        ------
        HttpError, AttribError
            If a check fails, there is no such holdout, or the opportunity cannot be stored; then nothing is
            stored, and the page shows the placement.
        """
        self._count(request, "hits-by-address", network_of(request.address))
        opportunity = interactions.read_opportunity(await self._body(request, _MOST_BYTES_OF_OPPORTUNITY))
        service, settings = await self._open(request, opportunity.projectId, opportunity.ingestKey)
        holdout = administration.find_holdout(settings.holdouts, opportunity.holdout)
        if holdout is None:
            raise errors.HttpError(404, f"there is no holdout {opportunity.holdout!r}")
        if (
            not holdout.is_running(datetime.now(UTC))
            or (opportunity.isPersistent and _refuses_id(request.headers, settings))
            or visitors.is_bot(request.headers.get("user-agent", ""))
            or _is_prefetch(request.headers)
            or _is_filtered(request, settings, opportunity)
        ):
            return JSONResponse({"show": True})
        is_withheld = holdout.withholds(opportunity.trackerId, key=settings.holdout_key)
        event = _event(opportunity, holdout, is_withheld=is_withheld)
        await self._store(service, lambda: service.start(_CREATE, event))
        return JSONResponse({"show": not is_withheld})

    def _count(self, request: ServiceRequest, name: str, caller: str) -> None:
        request.rate_headers = self.buckets.take([Claim(name, caller)])

    async def _body(self, request: ServiceRequest, most_bytes: int, *, may_be_array: bool = False) -> Any:
        with self.budget.request(has_token=False) as memory:
            content = await limits.read(request, most_bytes=most_bytes, memory=memory)
            return limits.parse(content, is_array=may_be_array and content.lstrip()[:1] == b"[") or {}

    async def _open(
        self, request: ServiceRequest, project_id: str, ingest_key: str | None, *, hits: int = 1
    ) -> tuple[Service, ProjectSettings]:
        """Return the project of a request and its settings, once the page may send to it."""
        service = self.projects.find_open(project_id)
        if service is None:
            service = await self.pool.run_or_reject(self.projects.get, project_id)
        settings = service.cached_settings()
        if settings is None:
            settings = await self.pool.run_or_reject(service.settings)
        check_page(request.headers, settings, ingest_key=ingest_key)
        further = [Claim("hits-by-address", network_of(request.address), hits - 1)] if hits > 1 else []
        request.rate_headers = self.buckets.take([Claim("hits", project_id, hits), *further])
        return service, settings

    async def _visitor(
        self, request: ServiceRequest, service: Service, settings: ProjectSettings
    ) -> str | None:
        """Return the visitor's id of the day, unless the project or the browser wants none."""
        if not settings.visitor_of_the_day or _refuses_id(request.headers, settings):
            return None
        client = request.address, request.headers.get("user-agent", "")
        if service.salt.visitor(*client) is None:
            await self.pool.run_or_reject(service.renew_salt)
        return service.salt.visitor(*client)

    async def _store(self, service: Service, start: Callable[[], Future[Any] | None]) -> None:
        with self.pool.admission():
            future = start()
            if future is None:
                await self.pool.run(service.wait)
                future = start()
            if future is None:
                raise Unavailable("the project is being restored or opened again; try again later")
            await self.arrivals.wait(future)

    def _place(self, address: str) -> dict[str, Any]:
        """Look up the place and the network of a client; nothing without databases."""
        if not self.lookup:
            return {}
        try:
            return self.lookup.find(address)
        except InvalidRequest as error:
            # The hit counts all the same.
            _log.warning("%s", error.message)
            return dict.fromkeys(visitors.PLACE_COLUMNS)


def _listed(body: Any) -> list[Any]:
    """Return the hits of a body, which is one or an array of them."""
    hits = body if isinstance(body, list) else [body]
    if len(hits) > _MOST_HITS or not all(isinstance(hit, dict) for hit in hits):
        raise InvalidRequest(f"the body must be a hit, or an array of 1 to {_MOST_HITS} hits")
    return hits


def _record(
    hit: interactions.CollectHit,
    request: ServiceRequest,
    settings: ProjectSettings,
    visitor: str | None,
) -> dict[str, Any]:
    headers, address = request.headers, request.address
    id = (hit.hitId or new_uuid()).lower()
    tracker_id = hit.trackerId
    if _refuses_id(headers, settings):
        # Without an id that the browser may keep, the hit is a visitor of its own.
        tracker_id = (None if hit.isPersistent else tracker_id) or f"hit.{id}"
    elif not hit.isPersistent or tracker_id is None:
        tracker_id = daily_visitors.tracker_of(tracker_id, visitor=visitor, hit_id=id)
    elif visitor is not None:
        tracker_id = f"{tracker_id} {visitor}"
    return pending_hit(
        hit,
        id=id,
        tracker_id=tracker_id,
        user_agent=headers.get("user-agent", ""),
        is_bot=hit.isAutomated or _is_prefetch(headers),
        address=address if visitors.captures_address(settings.traffic_filters, address) else None,
    )


def _event(
    opportunity: interactions.CollectOpportunity, holdout: administration.Holdout, *, is_withheld: bool
) -> events.CreateEvent:
    # With everything that the page chooses: an id that others used keeps no opportunity out of the log.
    nonce = f"opportunity:{opportunity.opportunityId.lower()}:{holdout.name}:{opportunity.trackerId}"
    return events.CreateEvent(
        projectId=opportunity.projectId,
        eventType=interactions.OPPORTUNITY,
        nonce=nonce,
        data={"holdout": holdout.name, "node": holdout.node_id, "withheld": is_withheld},
        trackerId=opportunity.trackerId,
    )


def _is_filtered(
    request: ServiceRequest, settings: ProjectSettings, opportunity: interactions.CollectOpportunity
) -> bool:
    # Browsers send the origin of the page, except where the page hides it.
    origin = request.headers.get("origin", "")
    return visitors.captures(
        settings.traffic_filters,
        address=request.address,
        user_agent=request.headers.get("user-agent", ""),
        page=origin if "://" in origin else request.headers.get("referer", ""),
        referrer=opportunity.referrer,
    )


def _is_prefetch(headers: Headers) -> bool:
    """Return whether the browser fetches a page that the visitor may never see."""
    return any("prefetch" in headers.get(name, "").lower() for name in _PREFETCH)


def _refuses_id(headers: Headers, settings: ProjectSettings) -> bool:
    """Return whether the browser asks not to be recognised again, and the project respects it."""
    return (settings.respect_gpc and headers.get("sec-gpc") == "1") or (
        settings.respect_dnt and headers.get("dnt") == "1"
    )


def _pixel() -> Response:
    return Response(_PIXEL, media_type="image/gif")


@dataclass(frozen=True)
class Script:
    """The tracking script as it is served.

    Parameters
    ----------
    content, compressed : bytes
        As it is, and in gzip format.
    integrity : str
        Value of the attribute ``integrity`` of a script tag (Subresource Integrity).
    """

    content: bytes
    compressed: bytes
    integrity: str

    async def answer(self, request: ServiceRequest) -> Response:
        """Answer a request for the script; without content if the client has it already."""
        etag = f'W/"{self.integrity.partition("-")[2][:16]}"'
        headers = {
            "Cache-Control": f"public, max-age={_SECONDS_TO_CACHE}",
            "ETag": etag,
            "Vary": "Accept-Encoding",
            # Pages that isolate themselves load only what allows it.
            "Cross-Origin-Resource-Policy": "cross-origin",
        }
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        content = self.content
        if "gzip" in request.headers.get("accept-encoding", ""):
            content, headers["Content-Encoding"] = self.compressed, "gzip"
        return Response(content, headers=headers, media_type="text/javascript; charset=utf-8")


@cache
def tracking_script() -> Script:
    """Return the script of this package, without comments.

    Examples
    --------
    >>> script = tracking_script()
    >>> len(script.compressed) < 4_000, script.integrity[:7]
    (True, 'sha384-')
    """
    source = files("attrib_ds.service.http").joinpath("tracker/t.js").read_text(encoding="utf-8")
    content = _UNSERVED.sub("", source.replace("/// ", "// ")).encode()
    compressed = gzip.compress(content, 9, mtime=0)
    return Script(content, compressed, f"sha384-{b64encode(sha384(content).digest()).decode()}")
