"""What pages send without a token: hits to ``/c``, questions to ``/show`` and ``/link``; and their script."""

import gzip
import json
import logging
import re
from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha384
from importlib.resources import files
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from cryptography.fernet import Fernet, InvalidToken
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response

from attrib_ds import instants
from attrib_ds.contract import OPERATIONS, administration, events, interactions
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.service.collection import daily_visitors, visitors
from attrib_ds.service.collection.collector import Collector
from attrib_ds.service.collection.hits import pending_hit
from attrib_ds.service.http import errors, limits, reads
from attrib_ds.service.http.limits import BodyBudget, Buckets, Claim, ServiceRequest, network_of
from attrib_ds.service.http.projects import Projects, check_page
from attrib_ds.service.service import Service
from attrib_ds.service.store.settings import ProjectSettings
from attrib_ds.service.store.tables import new_uuid
from attrib_ds.traffic import agents, channel_rules

_MOST_BYTES_OF_HIT: Final = 16 * 1024
_MOST_HITS: Final = 50
_MOST_BYTES_OF_QUESTION: Final = 4 * 1024
_PREFETCH: Final = ("purpose", "sec-purpose", "x-moz")
#: A transparent image of one pixel.
_PIXEL: Final = b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
#: Comments that fill their lines, except a hint to browsers; those of types, blank lines and indentation.
_UNSERVED: Final = re.compile(
    r"^ *(?:/\*\*(?:[^*]|\*(?!/))*\*/|//(?!#)[^\n]*)\n|/\*\* @(?:[^*]|\*(?!/))*\*/ ?|^ +|^\n", re.MULTILINE
)
_GZIP: Final = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE)
_SECONDS_TO_CACHE: Final = 3_600
#: Thirteen months: the lifetime of the cookie, and the tracker ids that the script makes.
_SECONDS_OF_COOKIE: Final = 34_128_000
_OF_SCRIPT: Final = re.compile(r"[\w-]{36}", re.ASCII)
_DOMAIN: Final = re.compile(r"(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)+)?")
#: For which a link is valid, and number of links in that time that can be followed.
_SECONDS_OF_LINK: Final = 120
_MOST_FOLLOWED: Final = 100_000
_CREATE: Final = OPERATIONS["create_event"]
_log: Final = logging.getLogger(__name__)


class Links:
    """Signs tracker ids for links to another domain of a site, and reads each link once.

    The key ends with the process, so that no link of an earlier one can be read again. The tracker id is
    encrypted: a link may be in logs and messages.

    Examples
    --------
    >>> links = Links()
    >>> link = links.sign("shop", "t-1", "Firefox")
    >>> links.read(link, "shop", "Safari"), links.read(link, "shop", "Firefox")
    (None, 't-1')
    >>> links.read(link, "shop", "Firefox")
    """

    def __init__(self) -> None:
        self._fernet = Fernet(Fernet.generate_key())
        #: Dates of links that were followed, by signature; oldest first, nearly.
        self._followed: dict[bytes, int] = {}

    def sign(self, project_id: str, tracker_id: str, user_agent: str) -> str:
        """Return the value of a link for a tracker id, which the same browser can follow."""
        content = json.dumps([tracker_id, project_id, _digest(user_agent)]).encode()
        return self._fernet.encrypt_at_time(content, _now()).decode()

    def read(self, link: str, project_id: str, user_agent: str) -> str | None:
        """Return the tracker id in a link; None unless it is valid and followed for the first time."""
        now = _now()
        try:
            content = self._fernet.decrypt_at_time(link, _SECONDS_OF_LINK, now)
        except InvalidToken:
            return None
        tracker_id, *rest = json.loads(content)
        if rest != [project_id, _digest(user_agent)]:
            return None
        for signature, date in list(islice(self._followed.items(), 2)):
            if date < now - _SECONDS_OF_LINK:
                del self._followed[signature]
        # A text may write the same bytes in several ways.
        signature = urlsafe_b64decode(link)[-32:]
        if signature in self._followed or len(self._followed) >= _MOST_FOLLOWED:
            return None
        self._followed[signature] = now
        return str(tracker_id)


def _now() -> int:
    return int(instants.now().timestamp())


def _digest(text: str) -> str:
    return sha384(text.encode()).hexdigest()[:16]


@dataclass
class Pages:
    """Answers pages; a request takes no thread while it waits until what it sends is durable.

    Parameters
    ----------
    projects : Projects or Collector
        What receives the hits of the server's projects.
    pool : ThreadPool
        Threads that open projects; counts the requests.
    budget : BodyBudget
        Memory for request bodies.
    buckets : Buckets
        Rate limits.
    lookup : AddressLookup
        Databases of places and networks.
    """

    projects: Projects | Collector
    pool: reads.ThreadPool
    budget: BodyBudget
    buckets: Buckets
    lookup: visitors.AddressLookup
    arrivals: reads.Arrivals = field(default_factory=reads.Arrivals)
    links: Links = field(default_factory=Links)

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
        if request.method == "GET":
            return _pixel()
        response = _dated(hits[-1], request)
        if not _refuses_id(request.headers, settings):
            _keep_id(response, hits[-1], request)
        return response

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
        body = await self._body(request, _MOST_BYTES_OF_QUESTION)
        opportunity = interactions.read_sent(interactions.CollectOpportunity, body)
        service, settings = await self._open(request, opportunity.projectId, opportunity.ingestKey)
        holdout = administration.find_holdout(settings.holdouts, opportunity.holdout)
        if holdout is None:
            raise errors.HttpError(404, f"there is no holdout {opportunity.holdout!r}")
        if (
            not holdout.is_running(datetime.now(UTC))
            or (opportunity.isPersistent and _refuses_id(request.headers, settings))
            or agents.is_bot(request.headers.get("user-agent", ""))
            or _is_prefetch(request.headers)
            or _is_filtered(request, settings, opportunity)
        ):
            return JSONResponse({"show": True})
        is_withheld = holdout.withholds(opportunity.trackerId, key=settings.holdout_key)
        event = _event(opportunity, holdout, is_withheld=is_withheld)
        # Collectors have no such route.
        await self._store(service, lambda: cast("Service", service).start(_CREATE, event))
        return JSONResponse({"show": not is_withheld})

    async def link(self, request: ServiceRequest) -> Response:
        """Sign a tracker id for a link to another domain of the site, or answer the one in a link.

        Only a page of the setting ``domains`` gets an answer, and only if it was opened from another one of
        them: a link in a message or on another site is followed without the id.

        Raises
        ------
        HttpError, AttribError
            If a check fails, or the page is of no domain of the setting.
        """
        self._count(request, "hits-by-address", network_of(request.address))
        body = await self._body(request, _MOST_BYTES_OF_QUESTION)
        asked = interactions.read_sent(interactions.SignLink, body)
        _, settings = await self._open(request, asked.projectId, asked.ingestKey)
        if not _is_own(request.headers.get("origin", ""), settings):
            raise errors.HttpError(403, "the origin of the page is not in the setting domains")
        user_agent = request.headers.get("user-agent", "")
        if _refuses_id(request.headers, settings):
            return JSONResponse({})
        if asked.trackerId is not None:
            return JSONResponse({"link": self.links.sign(asked.projectId, asked.trackerId, user_agent)})
        if asked.link is None or not _is_own(asked.referrer, settings):
            return JSONResponse({})
        return JSONResponse({"trackerId": self.links.read(asked.link, asked.projectId, user_agent)})

    def _count(self, request: ServiceRequest, name: str, caller: str) -> None:
        request.rate_headers = self.buckets.take([Claim(name, caller)])

    async def _body(self, request: ServiceRequest, most_bytes: int, *, may_be_array: bool = False) -> Any:
        with self.budget.request(has_token=False) as memory:
            content = await limits.read(request, most_bytes=most_bytes, memory=memory)
            return limits.parse(content, is_array=may_be_array and content.lstrip()[:1] == b"[") or {}

    async def _open(
        self, request: ServiceRequest, project_id: str, ingest_key: str | None, *, hits: int = 1
    ) -> tuple[Service | Collector, ProjectSettings]:
        """Return the project of a request and its settings, once the page may send to it."""
        service: Service | Collector | None = self.projects.find_open(project_id)
        if service is None:
            find: Callable[[str], Service | Collector] = self.projects.get
            service = await self.pool.run_or_reject(find, project_id)
        settings = service.cached_settings()
        if settings is None:
            settings = await self.pool.run_or_reject(service.settings)
        check_page(request.headers, settings, ingest_key=ingest_key)
        further = [Claim("hits-by-address", network_of(request.address), hits - 1)] if hits > 1 else []
        request.rate_headers = self.buckets.take([Claim("hits", project_id, hits), *further])
        return service, settings

    async def _visitor(
        self, request: ServiceRequest, service: Service | Collector, settings: ProjectSettings
    ) -> str | None:
        """Return the visitor's id of the day, unless the project or the browser wants none."""
        if not settings.visitor_of_the_day or _refuses_id(request.headers, settings):
            return None
        client = request.address, request.headers.get("user-agent", "")
        if (visitor := service.salt.visitor(*client)) is None:
            await self.pool.run_or_reject(service.renew_salt)
            visitor = service.salt.visitor(*client)
        return visitor

    async def _store(self, service: Service | Collector, start: Callable[[], Future[Any] | None]) -> None:
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
    hit: interactions.CollectHit, request: ServiceRequest, settings: ProjectSettings, visitor: str | None
) -> dict[str, Any]:
    headers, address = request.headers, request.address
    id = (hit.hitId or new_uuid()).lower()
    tracker_id = hit.trackerId
    if _refuses_id(headers, settings):
        # Without an id that the browser may keep, the page is a visitor of its own.
        page = None if hit.isPersistent else tracker_id
        tracker_id = daily_visitors.tracker_of(page, visitor=None, hit_id=id)
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
        received=request.received,
        address=address if agents.captures_address(settings.traffic_filters, address) else None,
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
    return agents.captures(
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


def _is_own(url: str, settings: ProjectSettings) -> bool:
    """Return whether a page is of a domain of the site."""
    host = f".{channel_rules.referrer_host(url)}"
    return any(host.endswith(f".{domain}") for domain in settings.domains)


def _keep_id(response: Response, hit: interactions.CollectHit, request: ServiceRequest) -> None:
    """Keep the tracker id in a cookie of the page's own host, as the script does.

    Browsers let it live longer than one that a script has set. A page of another origin sets none: it
    would choose who the visitor is. Nor does one that neither has the cookie nor says that consent still
    stands: the visitor may have withdrawn it on another page.
    """
    tracker_id, name = hit.trackerId or "", f"attrib-{hit.projectId}"
    if (
        hit.isPersistent
        and (hit.hasConsent or request.cookies.get(name) == tracker_id)
        and _DOMAIN.fullmatch("." if hit.cookieDomain is None else hit.cookieDomain)
        and _OF_SCRIPT.fullmatch(tracker_id)
        and request.headers.get("sec-fetch-site") == "same-origin"
    ):
        response.set_cookie(
            name,
            tracker_id,
            max_age=_SECONDS_OF_COOKIE,
            domain=hit.cookieDomain or None,
            secure=request.url.scheme == "https",
            samesite="lax",
        )


def _dated(hit: interactions.CollectHit, request: ServiceRequest) -> Response:
    """Return the answer to a hit, which tells the page how far its clock is behind."""
    if hit.sentAt is None:
        return Response(status_code=202)
    # Rounded up, so that no event is before the page view.
    return JSONResponse({"clockOffset": -(-hit.offset(request.received) // instants.KEPT_RESOLUTION)}, 202)


def _pixel() -> Response:
    return Response(_PIXEL, media_type="image/gif")


class Script(NamedTuple):
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
        if _GZIP.search(request.headers.get("accept-encoding", "")):
            content, headers["Content-Encoding"] = self.compressed, "gzip"
        return Response(content, headers=headers, media_type="text/javascript; charset=utf-8")


@cache
def tracking_script() -> Script:
    """Return the script of this package, without comments.

    Examples
    --------
    >>> script = tracking_script()
    >>> len(script.compressed) < 6_000, script.integrity[:7]
    (True, 'sha384-')
    """
    source = files("attrib_ds.service.http").joinpath("tracker/t.js").read_text(encoding="utf-8")
    content = _UNSERVED.sub("", source.replace("/// ", "// ")).encode()
    compressed = gzip.compress(content, 9, mtime=0)
    return Script(content, compressed, f"sha384-{b64encode(sha384(content).digest()).decode()}")
