"""Requests about events, their states and statistics, and about event types."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from attrib_ds import errors, schema
from attrib_ds.contract import administration, identifiers, json_values, request, values

# ruff: noqa: N815  (attributes carry the specification's names)


Nonce = Annotated[str, json_values.text("1 to 256 characters", shortest=1, longest=256)]
Grouping = Annotated[str, json_values.choice("project", "event-type")]

#: Consecutive intervals, shortest first; the others are cyclic.
LINEAR: Final = ("day", "week", "month", "quarter", "semester", "year")
CYCLIC: Final = (
    "dayOfWeek", "dayOfMonth", "dayOfYear", "weekOfYear", "monthOfYear", "quarterOfYear", "semesterOfYear",
)  # fmt: skip
Interval = Annotated[str, json_values.choice(*LINEAR, *CYCLIC)]


class CreateEvent(request.ProjectRequest):
    """Create an event.

    Only the envelope is checked here; processing checks the ``data``, the event type and the date. With
    ``sentAt``, as the tracking script sends it, ``eventDate`` is of the page's clock, as for hits.
    """

    eventType: identifiers.Text
    nonce: Nonce
    data: values.EventData
    eventDate: values.EventDate | None = None
    trackerId: identifiers.Text | None = None
    sentAt: values.Instant | None = None
    clockOffset: values.ClockOffset | None = None


class ValidateEvent(CreateEvent):
    """Check an event without storing it."""


@dataclass(frozen=True)
class Misfit:
    """An invalid item in a batch of events.

    Parameters
    ----------
    given : object
        The item.
    error : InvalidRequest
        Its problem.
    """

    given: Any
    error: errors.InvalidRequest


def _check_envelope(value: Any) -> CreateEvent | Misfit:
    if isinstance(value, CreateEvent | Misfit):
        return value
    if not isinstance(value, Mapping):
        return Misfit(
            value,
            errors.InvalidRequest(f"event: {json_values.shown(value)} is not allowed; expected an object"),
        )
    try:
        given = {name: member for name, member in value.items() if member is not None}
        return CreateEvent.model_validate(given)
    except ValidationError as error:
        return Misfit(value, request.translate(error, CreateEvent, call=lambda attribute: f"/{attribute}"))


#: An event or an invalid item; an invalid item does not affect the others.
Envelope = Annotated[
    CreateEvent | Misfit,
    json_values.Rule(
        _check_envelope,
        "an object",
        CreateEvent.model_json_schema(schema_generator=request.Untitled),
        write=lambda event: (
            event.given if isinstance(event, Misfit) else event.model_dump(exclude_unset=True)
        ),
    ),
]


class CreateEvents(request.Request):
    """Create many events in one request.

    ``projectId`` is the project of events without one. With ``wait`` the answer comes after processing and
    includes the errors of invalid events.
    """

    events: Annotated[tuple[Envelope, ...], json_values.Size(highest=1_000)]
    projectId: identifiers.ProjectId | None = None
    wait: values.Flag = False

    @property
    def project_ids(self) -> list[str]:
        """The distinct projects of the events."""
        return list(dict.fromkeys(event.projectId for event in self.events if isinstance(event, CreateEvent)))

    def of_project(self, project_id: str) -> Self:
        """Return the same request with the events of one project only."""
        events = [
            event for event in self.events if isinstance(event, CreateEvent) and event.projectId == project_id
        ]
        return self.model_copy(update={"events": tuple(events), "projectId": project_id})

    @model_validator(mode="before")
    @classmethod
    def _add_project(cls, values: Any) -> Any:
        project_id, events = values.get("projectId"), values.get("events")
        if project_id is None or not isinstance(events, list | tuple):
            return values
        completed = [
            {**event, "projectId": project_id}
            if isinstance(event, Mapping) and event.get("projectId") is None
            else event
            for event in events
        ]
        return {**values, "events": completed}


class ReplayEvent(request.ProjectRequest):
    """Process a trashed event again."""

    id: identifiers.Uuid


class GetEvent(request.ProjectRequest):
    """Get an event, raw or computed."""

    id: identifiers.Uuid


class ListTrashedEvents(request.PageRequest):
    """List the events that could not be processed."""

    since: values.Instant | None = None
    until: values.Instant | None = None


class EventInsights(request.ProjectRequest):
    """Compute metrics of events over time, by project or event type."""

    since: values.Instant
    until: values.Instant
    metrics: Annotated[tuple[identifiers.Text, ...], values.BOUNDED]
    groupBy: Grouping
    interval: Interval
    filter: request.EventTypes | None = None
    timezone: values.TimeZone | None = None


class UpdateEventState(request.ProjectRequest):
    """Record that an event reached (1) or left (0) a state."""

    id: identifiers.Uuid
    storageKey: identifiers.PathText
    value: values.StateValue
    date: values.Instant | None = None


class UpdateEventStatistic(request.ProjectRequest):
    """Record the value of a statistic of an event."""

    id: identifiers.Uuid
    storageKey: identifiers.PathText
    value: values.Amount
    date: values.Instant | None = None


# ruff: noqa: N815  (attributes carry the specification's names)


#: Types of user and event fields.
FIELD_TYPES: Final = (
    "string", "message", "email", "phone", "location", "number", "boolean", "date", "url", "country",
)  # fmt: skip
#: Types of event fields only; with ``number`` they define the metrics of an event.
METRIC_TYPES: Final = ("state", "currency")

#: Built-in metrics; no field may be stored under their names.
_EVENT_COUNT: Final = "event-count"
_STATE_DELAY: Final = "state-delay-"

CountryCode = Annotated[
    str, json_values.pattern("[A-Z]{2}", "two capital letters, as in ISO 3166-1", shortest=2, longest=2)
]
PhoneOrder = Annotated[int, values.whole("a whole number, 0 or more", lowest=0)]
EventTypeSort = Annotated[
    dict[str, int],
    values.sorting_text(tuple(column.name for column in schema.EVENT_TYPE if not schema.is_json(column))),
]


class EventTypeField(request.Part):
    """One field of the events of a type.

    ``ingestionKey`` is the key to read it from, the ``storageKey`` by default; None if only updates set it.
    """

    type: Annotated[str, json_values.choice(*FIELD_TYPES, *METRIC_TYPES)]
    entity: Annotated[str, json_values.choice("user", "event")]
    storageKey: identifiers.StorageKey
    ingestionKey: identifiers.Name | None = None
    discriminant: values.Flag = False
    isPii: values.Flag = False
    isMostProbableLocation: values.Flag = False
    optional: values.Flag = False

    @model_validator(mode="before")
    @classmethod
    def _read_from_storage_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and "ingestionKey" not in value and "storageKey" in value:
            return {**value, "ingestionKey": value["storageKey"]}
        return value

    @model_validator(mode="after")
    def _check_entity(self) -> Self:
        if self.storageKey == _EVENT_COUNT or self.storageKey.startswith(_STATE_DELAY):
            problem = f"{self.storageKey!r} is the name of a built-in statistic; expected another name"
            raise request.disagreement(("storageKey", problem))
        if self.entity == "user" and self.type in METRIC_TYPES:
            problem = f"{self.type!r} is not a type of user fields; allowed: {', '.join(FIELD_TYPES)}"
            raise request.disagreement(("type", problem))
        return self


class PhoneParsing(request.Part):
    """A country for parsing national phone numbers; countries are tried in ascending order."""

    order: PhoneOrder
    countryCode: CountryCode


class ExpirationPolicy(request.Part):
    """The retention of event values, and which of them are personal.

    None applies the settings of the project.
    """

    retentionDurationInDays: administration.RetentionDays | None = None
    piiFields: Annotated[tuple[identifiers.StorageKey, ...], values.BOUNDED] | None = None


class ListEventTypes(request.PageRequest):
    """List the event types of a project."""

    search: identifiers.Text | None = None
    archived: values.Flag | None = None
    storageKey: identifiers.Text | None = None
    reference: identifiers.Text | None = None
    sort: EventTypeSort | None = None


def _refuse_repeated(fields: tuple[EventTypeField, ...]) -> tuple[EventTypeField, ...]:
    keys: set[str] = set()
    repeated = []
    for index, field in enumerate(fields):
        if field.storageKey in keys:
            problem = f"{field.storageKey!r} is used twice; expected a different key for each field"
            repeated.append((f"{index}/storageKey", problem))
        keys.add(field.storageKey)
    if repeated:
        raise request.disagreement(*repeated)
    return fields


EventTypeFields = Annotated[tuple[EventTypeField, ...], values.BOUNDED, AfterValidator(_refuse_repeated)]


class CreateEventType(request.ProjectRequest):
    """Create an event type."""

    reference: identifiers.PathText
    name: identifiers.Name
    fields: EventTypeFields = ()
    metadata: values.JsonObject = Field(default_factory=dict)
    phoneParsingConfig: Annotated[tuple[PhoneParsing, ...], values.BOUNDED] = ()
    expirationPolicy: ExpirationPolicy | None = None


class GetEventType(request.ProjectRequest):
    """Get an event type by its reference."""

    id: identifiers.PathText


class ArchiveEventType(GetEventType):
    """Archive an event type: its new events are refused."""


class RestoreEventType(GetEventType):
    """Restore an archived event type: its events are accepted again."""


class UpdateEventType(GetEventType):
    """Update an event type; attributes that are not given stay as they are.

    A field replaces the existing field with the same storage key, or is added. An expiration policy replaces
    the previous one, and applies to new events.
    """

    name: identifiers.Name | None = None
    fields: EventTypeFields = ()
    metadata: values.JsonObject | None = None
    phoneParsingConfig: Annotated[tuple[PhoneParsing, ...], values.BOUNDED] | None = None
    expirationPolicy: ExpirationPolicy | None = None
