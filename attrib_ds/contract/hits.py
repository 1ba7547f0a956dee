"""What pages send: hits of a tracking script or a pixel, and opportunities to show a placement."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Self, TypeAlias, TypeVar

from pydantic import ValidationError, model_validator

from attrib_ds.contract.administration import HoldoutName, IngestKey
from attrib_ds.contract.events import CreateEventType, EventTypeField
from attrib_ds.contract.json_values import pattern, text
from attrib_ds.contract.request import ProjectRequest, disagreement, translate
from attrib_ds.contract.values import Flag, Instant, whole

# ruff: noqa: N815  (attributes carry the decision's names)


Sent = TypeVar("Sent", bound=ProjectRequest)

_LONGEST_URL: Final = 4_096
#: Longest time from the page view until it is sent, such as that of a computer that slept meanwhile.
_LONGEST_DELAY: Final = timedelta(days=7)
#: Largest offset of a time zone, in minutes.
MINUTES_OF_DAY: Final = 1_440

HitId: TypeAlias = Annotated[
    str,
    pattern("[a-fA-F0-9]{8}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{12}", expected="a UUID"),
]
TrackerId: TypeAlias = Annotated[
    str, pattern(r"[^\s\x00\ud800-\udfff]{1,128}", expected="1 to 128 characters without spaces")
]
PageUrl: TypeAlias = Annotated[
    str,
    pattern(
        r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s\x00\ud800-\udfff]+",
        longest=_LONGEST_URL,
        expected=f"a URL of at most {_LONGEST_URL:,} characters, such as 'https://shop.example/'",
    ),
]
Referrer: TypeAlias = Annotated[
    str, text(longest=_LONGEST_URL, expected=f"text of at most {_LONGEST_URL:,} characters")
]
HitType: TypeAlias = Annotated[
    str, pattern("[a-zA-Z0-9_.-]{1,64}", expected="1 to 64 letters, digits and _ . -")
]
Minutes: TypeAlias = Annotated[
    int,
    whole(
        lowest=-MINUTES_OF_DAY,
        highest=MINUTES_OF_DAY,
        expected="a whole number of minutes, as of Date.getTimezoneOffset()",
    ),
]


class CollectHit(ProjectRequest):
    """A hit of a page.

    ``date`` and ``sentAt`` are of the browser's clock; only their difference counts. ``isPersistent`` tells
    whether the browser keeps the tracker id beyond the page. A pixel leaves out what it does not know.
    """

    pageUrl: PageUrl
    hitId: HitId | None = None
    trackerId: TrackerId | None = None
    isPersistent: Flag = True
    referrer: Referrer = ""
    timezoneOffset: Minutes | None = None
    hitType: HitType = "pageview"
    date: Instant | None = None
    sentAt: Instant | None = None
    ingestKey: IngestKey | None = None

    @property
    def delay(self) -> timedelta:
        """Time from the hit until it was sent; zero if unknown, or if the clock was set back meanwhile."""
        if self.date is None or self.sentAt is None:
            return timedelta()
        return max(self.sentAt - self.date, timedelta())

    @model_validator(mode="after")
    def _check_delay(self) -> Self:
        if self.delay > _LONGEST_DELAY:
            raise disagreement(("date", f"is more than {_LONGEST_DELAY.days} days before {{sentAt}}"))
        return self


def read_hit(values: Mapping[str, Any], *, is_query: bool = False) -> CollectHit:
    """Return the hit of a body or of a query string; unknown members are ignored.

    Parameters
    ----------
    values : mapping of str to object
        Parsed JSON, or the parameters of the query.
    is_query : bool, default False
        Whether the values are texts of a query.

    Raises
    ------
    InvalidRequest
        If a value is not allowed; members of a body are named by JSON pointers.

    Examples
    --------
    >>> hit = read_hit({"projectId": "shop", "pageUrl": "https://shop.example/"})
    >>> hit.hitType, hit.delay
    ('pageview', datetime.timedelta(0))
    >>> read_hit({"projectId": "shop", "pageUrl": "boots"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: /pageUrl: 'boots' is not allowed; expected a URL of at most ...
    """
    return _read(CollectHit, values, is_query=is_query)


def _read(request: type[Sent], values: Mapping[str, Any], *, is_query: bool = False) -> Sent:
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return request.model_validate(given, context={"query": is_query})
    except ValidationError as error:
        # Not chained: the pydantic error contains every value.
        slash = "" if is_query else "/"
        raise translate(error, request, call=lambda attribute: f"{slash}{attribute}") from None


#: Event type of opportunities, and the types of its fields.
OPPORTUNITY: Final = "holdout-opportunity"
_FIELDS: Final = {"holdout": "string", "node": "string", "withheld": "boolean"}


class CollectOpportunity(ProjectRequest):
    """A page could show the placement of a holdout, and asks whether to.

    ``opportunityId`` keeps a repeated request from counting twice; ``isPersistent`` and ``referrer`` as for
    hits.
    """

    holdout: HoldoutName
    trackerId: TrackerId
    opportunityId: HitId
    isPersistent: Flag = True
    referrer: Referrer = ""
    ingestKey: IngestKey | None = None


def opportunity_type(project_id: str) -> CreateEventType:
    """Return the event type that a project needs for its first holdout."""
    fields = [EventTypeField(type=kind, entity="event", storageKey=key) for key, kind in _FIELDS.items()]
    return CreateEventType(
        projectId=project_id, reference=OPPORTUNITY, name="Holdout opportunity", fields=tuple(fields)
    )


def read_opportunity(values: Mapping[str, Any]) -> CollectOpportunity:
    """Return the opportunity of a body; unknown members are ignored.

    Raises
    ------
    InvalidRequest
        If a value is not allowed; members are named by JSON pointers.
    """
    return _read(CollectOpportunity, values)
