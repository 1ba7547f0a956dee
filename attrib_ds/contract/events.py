"""Requests about events, their states and statistics."""

# ruff: noqa: N815  (attributes carry the specification's names)

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import ValidationError, model_validator

from attrib_ds.contract.identifiers import PathText, ProjectId, Text, Uuid
from attrib_ds.contract.predicates import EventTypes
from attrib_ds.contract.request import ProjectRequest, Request, Untitled
from attrib_ds.contract.rule import Rule, Size, choice, shown, text
from attrib_ds.contract.values import (
    BOUNDED,
    Amount,
    EventData,
    EventDate,
    Flag,
    Instant,
    Limit,
    Offset,
    StateValue,
    TimeZone,
)
from attrib_ds.contract.violations import translate
from attrib_ds.errors import InvalidRequest

Nonce: TypeAlias = Annotated[str, text(expected="1 to 256 characters", shortest=1, longest=256)]
Grouping: TypeAlias = Annotated[str, choice("project", "event-type")]

#: Consecutive intervals, shortest first; the others are cyclic.
LINEAR: Final = ("day", "week", "month", "quarter", "semester", "year")
Interval: TypeAlias = Annotated[
    str,
    choice(
        *LINEAR,
        "dayOfWeek",
        "dayOfMonth",
        "dayOfYear",
        "weekOfYear",
        "monthOfYear",
        "quarterOfYear",
        "semesterOfYear",
    ),
]


class CreateEvent(ProjectRequest):
    """Create an event.

    Only the envelope is checked here; processing checks the ``data``, the event type and the date (G-127).
    """

    eventType: Text
    nonce: Nonce
    data: EventData
    eventDate: EventDate | None = None
    trackerId: Text | None = None


class ValidateEvent(CreateEvent):
    """Check an event without storing it (G-138)."""


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
    error: InvalidRequest


def _check_envelope(value: Any) -> CreateEvent | Misfit:
    if isinstance(value, CreateEvent | Misfit):
        return value
    if not isinstance(value, Mapping):
        return Misfit(value, InvalidRequest(f"event: {shown(value)} is not allowed; expected an object"))
    try:
        given = {name: member for name, member in value.items() if member is not None}
        return CreateEvent.model_validate(given)
    except ValidationError as error:
        return Misfit(value, translate(error, CreateEvent, call=lambda attribute: f"/{attribute}"))


def _write_envelope(value: CreateEvent | Misfit) -> Any:
    return value.given if isinstance(value, Misfit) else value.model_dump(exclude_unset=True)


#: An event or an invalid item; an invalid item does not affect the others (G-137).
Envelope: TypeAlias = Annotated[
    CreateEvent | Misfit,
    Rule(
        check=_check_envelope,
        expected="an object",
        json_schema=CreateEvent.model_json_schema(schema_generator=Untitled),
        write=_write_envelope,
    ),
]


class CreateEvents(Request):
    """Create many events in one request (G-137).

    ``projectId`` is the project of events without one. With ``wait`` the answer comes after processing and
    includes the errors of invalid events.
    """

    events: Annotated[tuple[Envelope, ...], Size(highest=1_000)]
    projectId: ProjectId | None = None
    wait: Flag = False

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


class ReplayEvent(ProjectRequest):
    """Process a trashed event again (G-057)."""

    id: Uuid


class GetEvent(ProjectRequest):
    """Get an event, raw or computed."""

    id: Uuid


class ListTrashedEvents(ProjectRequest):
    """List the events that could not be processed."""

    since: Instant | None = None
    until: Instant | None = None
    offset: Offset = 0
    limit: Limit | None = None


class EventInsights(ProjectRequest):
    """Compute metrics of events over time, by project or event type."""

    since: Instant
    until: Instant
    metrics: Annotated[tuple[Text, ...], BOUNDED]
    groupBy: Grouping
    interval: Interval
    filter: EventTypes | None = None
    timezone: TimeZone | None = None


class UpdateEventState(ProjectRequest):
    """Record that an event reached (1) or left (0) a state."""

    id: Uuid
    storageKey: PathText
    value: StateValue
    date: Instant | None = None


class UpdateEventStatistic(ProjectRequest):
    """Record the value of a statistic of an event."""

    id: Uuid
    storageKey: PathText
    value: Amount
    date: Instant | None = None
