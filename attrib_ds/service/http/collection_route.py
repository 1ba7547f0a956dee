"""The collection route: stores the hits of tracking scripts and pixels (G-189)."""

from __future__ import annotations

import logging
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from attrib_ds.contract.hits import read_hit
from attrib_ds.errors import InvalidRequest
from attrib_ds.service.collection.address_lookup import COLUMNS
from attrib_ds.service.collection.pending_hits import pending_hit
from attrib_ds.service.collection.traffic_filters import captures_address
from attrib_ds.service.http import bodies
from attrib_ds.service.http.page_requests import is_prefetch, refuses_id
from attrib_ds.service.store.ids import new_uuid

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from attrib_ds.contract.hits import CollectHit
    from attrib_ds.service.collection.address_lookup import AddressLookup
    from attrib_ds.service.http.page_requests import PageRequests
    from attrib_ds.service.http.service_request import ServiceRequest
    from attrib_ds.service.store.settings import ProjectSettings

PATH: Final = b"/c"
METHODS: Final = ("GET", "POST")
_MOST_BYTES: Final = 16 * 1024
_LONGEST_AGENT: Final = 1_024
#: A transparent image of one pixel.
_PIXEL: Final = b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
_log: Final = logging.getLogger(__name__)


class CollectionRoute:
    """Stores hits; a request takes no thread while its hit waits for the writer.

    Parameters
    ----------
    pages : PageRequests
        Admits requests of pages.
    lookup : AddressLookup
        Databases of places and networks.
    """

    def __init__(self, pages: PageRequests, *, lookup: AddressLookup) -> None:
        self._pages = pages
        self._lookup = lookup

    async def answer(self, request: ServiceRequest) -> Response:
        """Answer one request once its hit is durable.

        Parameters
        ----------
        request : starlette.requests.Request
            GET with the members of the hit in its query, for a pixel; or POST with a JSON body of any content
            type, since browsers send text/plain to other origins without asking first.

        Raises
        ------
        HttpError, AttribError
            If a check fails or the hit cannot be stored; then nothing is stored.
        """
        if request.method == "HEAD":
            return _pixel()
        address = self._pages.count_address(request)
        hit = await self._read(request)
        service, settings = await self._pages.open(request, hit.projectId, ingest_key=hit.ingestKey)
        await self._pages.store(
            lambda: service.start_hit(_record(hit, request.headers, settings, address) | self._place(address))
        )
        return _pixel() if request.method == "GET" else Response(status_code=202)

    async def _read(self, request: ServiceRequest) -> CollectHit:
        query = bodies.parse_query(request.scope["query_string"])
        if request.method == "GET":
            # A pixel is on the page that it counts.
            page = {"pageUrl": request.headers["referer"]} if "referer" in request.headers else {}
            return read_hit(page | query, is_query=True)
        return read_hit(await self._pages.read(request, most_bytes=_MOST_BYTES))

    def _place(self, address: str) -> dict[str, Any]:
        """Look up the place and the network of a client; nothing without databases."""
        if not self._lookup:
            return {}
        try:
            return self._lookup.find(address)
        except InvalidRequest as error:
            # The hit counts all the same.
            _log.warning("%s", error.message)
            return dict.fromkeys(COLUMNS)


def _record(hit: CollectHit, headers: Headers, settings: ProjectSettings, address: str) -> dict[str, Any]:
    id = (hit.hitId or new_uuid()).lower()
    # Without an id that the browser may keep, the hit is a visitor of its own (G-200).
    tracker_id = None if hit.isPersistent and refuses_id(headers, settings) else hit.trackerId
    return pending_hit(
        hit,
        id=id,
        tracker_id=tracker_id or f"hit.{id}",
        user_agent=headers.get("user-agent", "")[:_LONGEST_AGENT],
        is_bot=is_prefetch(headers),
        address=address if captures_address(settings.traffic_filters, address) else None,
    )


def _pixel() -> Response:
    return Response(_PIXEL, media_type="image/gif")
