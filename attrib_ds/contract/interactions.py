"""Requests about interactions and nodes, and the hits and opportunities that pages send."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

import pyarrow as pa
from pydantic import ValidationError, model_validator

from attrib_ds import instants, schema
from attrib_ds.contract import administration, events, identifiers, json_values, request, values

# ruff: noqa: N815  (attributes carry the specification's names)


MOST_SEGMENTS: Final = 1_000
MOST_STEPS: Final = 10
_LONGEST_WINDOW: Final = timedelta(days=366)
_SECONDS: Final = {"s": 1, "min": 60, "h": 3_600, "D": 86_400}
_A_PAGE: Final = "the path of a page, such as '/thank-you' or '/blog/*', with at most 20 *"

#: Ids, by which counters cannot be grouped.
_UNGROUPED: Final = {"_id", "firstHitId"}

#: Columns to sort by: those with one value per record.
SORTABLE: Final = tuple(column.name for column in schema.INTERACTION if not schema.is_json(column))

#: Columns to group by: no ids, no continuous numbers, no dates.
GROUPABLE: Final = tuple(
    column.name
    for column in schema.INTERACTION
    if column.name not in _UNGROUPED
    and not schema.is_json(column)
    and not pa.types.is_floating(column.type)
    and not pa.types.is_timestamp(column.type)
)


def _check_group(value: Any) -> str:
    if isinstance(value, str) and value in GROUPABLE:
        return str(value)
    problem = f"{json_values.shown(value)} is not allowed"
    if isinstance(value, str) and value in schema.properties(schema.INTERACTION):
        problem = f"{value!r} is not a single column of names or counts"
    raise json_values.Refused(
        f"{problem}{json_values.nearest(value, GROUPABLE)}; allowed: {json_values.listed(GROUPABLE)}"
    )


def is_page(step: str) -> bool:
    """Return whether a step of a funnel is a page, and not an event type."""
    return "/" in step or "*" in step


def window_of(text: str) -> timedelta | None:
    """Return the length of the window of a funnel; None for a session.

    Examples
    --------
    >>> window_of("36h"), window_of("session")
    (datetime.timedelta(days=1, seconds=43200), None)
    """
    if text == "session":
        return None
    unit = text.lstrip("0123456789")
    return timedelta(seconds=int(text.removesuffix(unit)) * _SECONDS[unit])


def _check_window(value: Any) -> str:
    is_whole = isinstance(value, timedelta) and not value.microseconds
    text = f"{value // timedelta(seconds=1)}s" if is_whole else value
    if not isinstance(text, str) or not re.fullmatch("session|[1-9][0-9]{0,7}(s|min|h|D)", text):
        raise json_values.Refused
    if (window_of(text) or timedelta()) > _LONGEST_WINDOW:
        raise json_values.Refused
    return text


def _check_node_data(value: Any) -> dict[str, Any]:
    node_data = values.check_json_object(value)
    if not isinstance(node_data.get("vendorId"), str):
        raise json_values.Refused(
            "has no vendorId; expected an object with the vendorId (text) of an integration"
        )
    return node_data


def _check_user_data(value: Any) -> dict[str, Any]:
    user_data = values.check_json_object(value)
    if all(field is None or (isinstance(field, str) and not field.strip()) for field in user_data.values()):
        raise json_values.Refused("identifies no user; expected at least one identity field, such as email")
    return user_data


Projection = Annotated[
    tuple[Annotated[str, json_values.choice(*schema.properties(schema.INTERACTION))], ...], values.FILLED
]
InteractionSort = Annotated[dict[str, int], values.sorting(SORTABLE)]
InsightSort = Annotated[dict[str, int], values.sorting(tuple(schema.INTERACTION_INSIGHT.names))]
Group = Annotated[
    str,
    json_values.Rule(
        _check_group,
        "a property of interactions with a column of its own",
        {"type": "string", "enum": list(GROUPABLE)},
    ),
]
Interval = Annotated[str, json_values.choice(*events.LINEAR, "hourOfDay", *events.CYCLIC, "custom")]
LEVELS: Final = ("channel", "campaign")
#: Groups of visits: a level of their traffic source, or a property.
VisitGroup = Annotated[str, json_values.choice(*LEVELS, *GROUPABLE)]
CalendarInterval = Annotated[str, json_values.choice(*events.LINEAR, "hourOfDay", *events.CYCLIC)]
PageSort = Annotated[dict[str, int], values.sorting(tuple(schema.PAGE_INSIGHT.names))]
_PAGE: Final = r"(?!(?:[^*]*\*){21})[^\s\x00\ud800-\udfff]*[/*][^\s\x00\ud800-\udfff]*"
Page = Annotated[str, json_values.pattern(_PAGE, _A_PAGE, longest=2_048)]
Step = Annotated[
    str,
    json_values.pattern(
        f"(?:{_PAGE}|[a-z0-9]+(?:[-_][a-z0-9]+)*)",
        f"{_A_PAGE}, or the reference of an event type",
        longest=2_048,
    ),
]
FunnelWindow = Annotated[
    str,
    json_values.Rule(
        _check_window,
        "'session', or a time such as '30min', '12h' or '7D' (whole s, min, h, D), up to 366 days",
        {"type": "string", "pattern": "^(session|[1-9][0-9]*(s|min|h|D))$"},
    ),
]
NodeData = Annotated[
    dict[str, Any],
    json_values.Rule(
        _check_node_data,
        "an object with the vendorId of an integration and the properties of its node",
        {"type": "object", "required": ["vendorId"], "properties": {"vendorId": {"type": "string"}}},
    ),
]
UserData = Annotated[
    dict[str, Any],
    json_values.Rule(
        _check_user_data, "an object with at least one identity field", {"type": "object", "minProperties": 1}
    ),
]


class Population(request.ProjectRequest):
    """The selection of interactions that searches and insights share."""

    null_counts: ClassVar[frozenset[str]] = frozenset({"filtered", "isBot"})

    since: values.Instant | None = None
    until: values.Instant | None = None
    interactionFilter: request.InteractionFilter | None = None
    nodeFilter: request.NodeFilter | None = None
    filtered: values.ThreeState = False
    isBot: values.ThreeState = False


class SearchInteractions(request.PageRequest, Population):
    """Search the interactions of a project, one page at a time."""

    projection: Projection | None = None
    sort: InteractionSort | None = None


class GetInteraction(request.ProjectRequest):
    """Get an interaction with all properties."""

    id: identifiers.HexId


class ListHits(request.ProjectRequest):
    """List the hits of a session, identified by its first hit."""

    firstHitId: identifiers.Uuid


class InteractionInsights(Population):
    """Count interactions by group and interval."""

    group: Group | None = None
    interval: Interval | None = None
    segmentCount: values.SegmentCount | None = None
    sort: InsightSort | None = None
    timezone: values.TimeZone | None = None

    @model_validator(mode="after")
    def _check_segments(self) -> Self:
        if self.interval != "custom":
            return self
        required = ("segmentCount", "since", "until")
        missing = [name for name in required if getattr(self, name) is None]
        if missing:
            raise request.disagreement(
                *((name, "is required when {interval} is 'custom'") for name in missing)
            )
        if not 1 <= (self.segmentCount or 0) <= MOST_SEGMENTS:
            expected = f"a whole number from 1 to {MOST_SEGMENTS}"
            problem = f"{json_values.shown(self.segmentCount)} is not allowed; expected {expected}"
            raise request.disagreement(("segmentCount", problem))
        return self


class _Views(Population):
    """The selection of views that insights and funnels share."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.since is not None and self.until is not None and self.since > self.until:
            since, until = map(instants.format, (self.since, self.until))
            raise request.disagreement(("until", f"{until} is before {{since}}, {since}"))
        return self


class PageInsights(_Views):
    """Count the views of pages; the bounds are those of the views' dates."""

    page: Page | None = None
    group: VisitGroup | None = None
    interval: CalendarInterval | None = None
    sort: PageSort | None = None
    limit: values.Limit | None = None
    timezone: values.TimeZone | None = None


class Funnel(_Views):
    """Count who takes steps in their order; the bounds are those of the first step's date."""

    steps: Annotated[tuple[Step, ...], json_values.Size(lowest=2, highest=MOST_STEPS)]
    window: FunnelWindow = "1D"
    group: VisitGroup | None = None


class PageConversions(Population):
    """Get the first view of a page in each visit that has one."""

    page: Page


class CreateOfflineInteraction(request.ProjectRequest):
    """Create an offline interaction, such as a call or a visit to a store."""

    date: values.PastInstant
    userData: UserData
    nodeData: NodeData
    externalId: identifiers.Name | None = None


NodeType = Annotated[str, json_values.choice(*schema.NODE_TYPES)]


class ListNodes(request.PageRequest):
    """List the nodes of a project's traffic-source tree."""

    type: NodeType | None = None
    search: identifiers.Text | None = None


class GetNode(request.ProjectRequest):
    """Get one node."""

    id: identifiers.PathText


# ruff: noqa: N815  (attributes carry the decision's names)


Sent = TypeVar("Sent", bound=request.ProjectRequest)

#: Longest time from the page view until it is sent, such as that of a computer that slept meanwhile.
_LONGEST_DELAY: Final = timedelta(days=7)
#: Largest offset of a time zone, in minutes.
MINUTES_OF_DAY: Final = 1_440

HitId = Annotated[
    str,
    json_values.pattern(
        "[a-fA-F0-9]{8}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{12}", "a UUID"
    ),
]
TrackerId = Annotated[
    str, json_values.pattern(r"[^\s\x00\ud800-\udfff]{1,128}", "1 to 128 characters without spaces")
]
PageUrl = Annotated[
    str,
    json_values.pattern(
        r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s\x00\ud800-\udfff]+", "a URL, such as 'https://shop.example/'"
    ),
]
Referrer = Annotated[str, json_values.text()]
LinkValue = Annotated[str, json_values.pattern("[A-Za-z0-9_=-]{1,1024}", "a value that /link has signed")]
HitType = Annotated[str, json_values.pattern("[a-zA-Z0-9_.-]{1,64}", "1 to 64 letters, digits and _ . -")]
Minutes = Annotated[
    int,
    values.whole(
        "a whole number of minutes, as of Date.getTimezoneOffset()",
        lowest=-MINUTES_OF_DAY,
        highest=MINUTES_OF_DAY,
    ),
]


class CollectHit(request.ProjectRequest):
    """A hit of a page.

    ``date`` and ``sentAt`` are of the browser's clock; only their difference counts. ``clockOffset`` is what
    the answer to an earlier hit of the page has told. ``isPersistent`` tells whether the browser keeps the
    tracker id beyond the page, ``hasConsent`` that consent stood when it sent the hit, ``cookieDomain`` of
    which domain its cookie is; empty is the host alone. A pixel leaves out what it does not know.
    """

    pageUrl: PageUrl
    hitId: HitId | None = None
    trackerId: TrackerId | None = None
    isPersistent: values.Flag = True
    isAutomated: values.Flag = False
    hasConsent: values.Flag = False
    cookieDomain: Referrer | None = None
    referrer: Referrer = ""
    timezoneOffset: Minutes | None = None
    hitType: HitType = "pageview"
    date: values.Instant | None = None
    sentAt: values.Instant | None = None
    clockOffset: values.ClockOffset | None = None
    ingestKey: administration.IngestKey | None = None

    @property
    def delay(self) -> timedelta:
        """Time from the hit until it was sent; zero if unknown, or if the clock was set back meanwhile."""
        if self.date is None or self.sentAt is None:
            return timedelta()
        return max(self.sentAt - self.date, timedelta())

    def happened(self, received: datetime) -> datetime:
        """Return when the page was viewed, by the clock of the service."""
        return (
            received - self.delay if self.sentAt is None else self.sentAt - self.delay + self.offset(received)
        )

    def offset(self, received: datetime) -> timedelta:
        """Return how far the clock of the service is ahead of that of the page; zero if it tells no time."""
        if self.sentAt is None:
            return timedelta()
        return instants.difference_of_clocks(self.sentAt, told=self.clockOffset, now=received)

    @model_validator(mode="after")
    def _check_delay(self) -> Self:
        if self.delay > _LONGEST_DELAY:
            raise request.disagreement(("date", f"is more than {_LONGEST_DELAY.days} days before {{sentAt}}"))
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
    attrib_ds.errors.InvalidRequest: /pageUrl: 'boots' is not allowed; expected a URL, such as ...
    """
    return read_sent(CollectHit, values, is_query=is_query)


def read_sent(model: type[Sent], values: Mapping[str, Any], *, is_query: bool = False) -> Sent:
    """Return what a page sends, as a model; unknown members are ignored.

    Raises
    ------
    InvalidRequest
        If a value is not allowed; members of a body are named by JSON pointers.
    """
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return model.model_validate(given, context={"query": is_query})
    except ValidationError as error:
        # Not chained: the pydantic error contains every value.
        slash = "" if is_query else "/"
        raise request.translate(error, model, call=lambda attribute: f"{slash}{attribute}") from None


#: Event type of opportunities, and the types of its fields.
OPPORTUNITY: Final = "holdout-opportunity"
_FIELDS: Final = {"holdout": "string", "node": "string", "withheld": "boolean"}


class CollectOpportunity(request.ProjectRequest):
    """A page could show the placement of a holdout, and asks whether to.

    ``opportunityId`` keeps a repeated request from counting twice; ``isPersistent`` and ``referrer`` as for
    hits.
    """

    holdout: administration.HoldoutName
    trackerId: TrackerId
    opportunityId: HitId
    isPersistent: values.Flag = True
    referrer: Referrer = ""
    ingestKey: administration.IngestKey | None = None


class SignLink(request.ProjectRequest):
    """A page asks for the value of a link to another domain of its site, or for the tracker id in one."""

    trackerId: TrackerId | None = None
    link: LinkValue | None = None
    referrer: Referrer = ""
    ingestKey: administration.IngestKey | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.trackerId is None) == (self.link is None):
            raise request.disagreement(("trackerId", "or {link} is required, and not both"))
        return self


def opportunity_type(project_id: str) -> events.CreateEventType:
    """Return the event type that a project needs for its first holdout."""
    fields = [
        events.EventTypeField(type=kind, entity="event", storageKey=key) for key, kind in _FIELDS.items()
    ]
    return events.CreateEventType(
        projectId=project_id, reference=OPPORTUNITY, name="Holdout opportunity", fields=tuple(fields)
    )
