"""The route that tells a page whether to show the placement of a holdout, and logs the opportunity."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from attrib_ds.contract import OPERATIONS
from attrib_ds.contract.events import CreateEvent
from attrib_ds.contract.hits import OPPORTUNITY, read_opportunity
from attrib_ds.contract.settings import find_holdout
from attrib_ds.service.collection.traffic_filters import captures
from attrib_ds.service.collection.user_agents import is_bot
from attrib_ds.service.http.error_responses import HttpError
from attrib_ds.service.http.page_requests import is_prefetch, refuses_id

if TYPE_CHECKING:
    from concurrent.futures import Future

    from starlette.datastructures import Headers
    from starlette.responses import Response

    from attrib_ds.contract.hits import CollectOpportunity
    from attrib_ds.contract.settings import Holdout
    from attrib_ds.service import Service
    from attrib_ds.service.http.page_requests import PageRequests
    from attrib_ds.service.http.service_request import ServiceRequest
    from attrib_ds.service.store.settings import ProjectSettings

PATH: Final = b"/show"
METHODS: Final = ("POST",)
_MOST_BYTES: Final = 4 * 1024
_CREATE: Final = OPERATIONS["create_event"]


class OpportunityRoute:
    """Draws who is withheld; the answer is sent once the opportunity is durable.

    Parameters
    ----------
    pages : PageRequests
        Admits requests of pages.
    """

    def __init__(self, pages: PageRequests) -> None:
        self._pages = pages

    async def answer(self, request: ServiceRequest) -> Response:
        """Answer one request with ``{"show": true}`` or ``{"show": false}``.

        Visitors outside the experiment see the placement, and no opportunity is logged: bots, filtered
        traffic, pages that are fetched in advance, browsers that refuse a lasting id, and everyone outside
        the period.

        Raises
        ------
        HttpError, AttribError
            If a check fails, there is no such holdout, or the opportunity cannot be stored; then nothing is
            stored, and the page shows the placement.
        """
        address = self._pages.count_address(request)
        opportunity = read_opportunity(await self._pages.read(request, most_bytes=_MOST_BYTES))
        service, settings = await self._pages.open(
            request, opportunity.projectId, ingest_key=opportunity.ingestKey
        )
        holdout = find_holdout(settings.holdouts, opportunity.holdout)
        if holdout is None:
            raise HttpError(404, f"there is no holdout {opportunity.holdout!r}")
        if (
            not holdout.is_running(datetime.now(UTC))
            or (opportunity.isPersistent and refuses_id(request.headers, settings))
            or is_bot(request.headers.get("user-agent", ""))
            or is_prefetch(request.headers)
            or _is_filtered(request.headers, settings, opportunity, address=address)
        ):
            return JSONResponse({"show": True})
        is_withheld = holdout.withholds(opportunity.trackerId, key=settings.holdout_key)
        event = _event(opportunity, holdout, is_withheld=is_withheld)
        await self._pages.store(lambda: _start(service, event))
        return JSONResponse({"show": not is_withheld})


def _start(service: Service, event: CreateEvent) -> Future[Any] | None:
    started = service.start(_CREATE, event)
    return None if started is None else started.future


def _is_filtered(
    headers: Headers, settings: ProjectSettings, opportunity: CollectOpportunity, *, address: str
) -> bool:
    # Browsers send the origin of the page, except where the page hides it.
    origin = headers.get("origin", "")
    return captures(
        settings.traffic_filters,
        address=address,
        user_agent=headers.get("user-agent", ""),
        page=origin if "://" in origin else headers.get("referer", ""),
        referrer=opportunity.referrer,
    )


def _event(opportunity: CollectOpportunity, holdout: Holdout, *, is_withheld: bool) -> CreateEvent:
    # With everything that the page chooses: an id that others used keeps no opportunity out of the log.
    nonce = f"opportunity:{opportunity.opportunityId.lower()}:{holdout.name}:{opportunity.trackerId}"
    return CreateEvent(
        projectId=opportunity.projectId,
        eventType=OPPORTUNITY,
        nonce=nonce,
        data={"holdout": holdout.name, "node": holdout.node_id, "withheld": is_withheld},
        trackerId=opportunity.trackerId,
    )
