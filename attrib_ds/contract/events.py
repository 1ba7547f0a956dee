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

Nonce: TypeAlias = Annotated[str, text(allowed="1 to 256 characters", shortest=1, longest=256)]
Grouping: TypeAlias = Annotated[str, choice("project", "event-type")]

#: The intervals that follow each other in time, from the finest.
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
    """One event as its sender has it.

    Only the envelope is checked here: what ``data`` holds, whether the type exists and what the date says
    is found out later, by the processing (G-127).
    """

    eventType: Text
    nonce: Nonce
    data: EventData
    eventDate: EventDate | None = None
    trackerId: Text | None = None


class ValidateEvent(CreateEvent):
    """One event as its sender has it, to be checked and not to be stored (G-138)."""


@dataclass(frozen=True)
class Misfit:
    """What stands in a batch and is no event.

    Parameters
    ----------
    given : object
        What came.
    error : InvalidRequest
        Why it is none.
    """

    given: Any
    error: InvalidRequest


def _check_envelope(value: Any) -> CreateEvent | Misfit:
    if isinstance(value, CreateEvent | Misfit):
        return value
    if not isinstance(value, Mapping):
        return Misfit(value, InvalidRequest(f"event: {shown(value)} is not allowed; allowed: an object"))
    try:
        return CreateEvent.model_validate({name: each for name, each in value.items() if each is not None})
    except ValidationError as error:
        return Misfit(value, translate(error, CreateEvent, call=lambda attribute: f"/{attribute}"))


def _write_envelope(value: CreateEvent | Misfit) -> Any:
    return value.given if isinstance(value, Misfit) else value.model_dump(exclude_unset=True)


#: An event, or what stands in its place: one that is wrong does not spoil the others (G-137).
Envelope: TypeAlias = Annotated[
    CreateEvent | Misfit,
    Rule(
        check=_check_envelope,
        allowed="an object",
        json_schema=CreateEvent.model_json_schema(schema_generator=Untitled),
        write=_write_envelope,
    ),
]


class CreateEvents(Request):
    """Many events as their senders have them, in one request (G-137).

    ``projectId`` is the project of those that name none. With ``wait`` the answer comes when they are
    processed, and tells what is wrong with those that are not valid.
    """

    events: Annotated[tuple[Envelope, ...], Size(highest=1_000)]
    projectId: ProjectId | None = None
    wait: Flag = False

    @property
    def project_ids(self) -> list[str]:
        """The projects of the events, each once."""
        return list(dict.fromkeys(each.projectId for each in self.events if isinstance(each, CreateEvent)))

    def of_project(self, project_id: str) -> Self:
        """Return the same request for the events of one project alone."""
        events = [
            each for each in self.events if isinstance(each, CreateEvent) and each.projectId == project_id
        ]
        return self.model_copy(update={"events": tuple(events), "projectId": project_id})

    @model_validator(mode="before")
    @classmethod
    def _add_project(cls, values: Any) -> Any:
        project_id, events = values.get("projectId"), values.get("events")
        if project_id is None or not isinstance(events, list | tuple):
            return values
        named = [
            {**each, "projectId": project_id}
            if isinstance(each, Mapping) and each.get("projectId") is None
            else each
            for each in events
        ]
        return {**values, "events": named}


class ReplayEvent(ProjectRequest):
    """A trashed event that is to be processed again (G-057)."""

    id: Uuid


class GetEvent(ProjectRequest):
    """One event, raw or computed."""

    id: Uuid


class ListTrashedEvents(ProjectRequest):
    """The events that could not be processed."""

    since: Instant | None = None
    until: Instant | None = None
    offset: Offset = 0
    limit: Limit | None = None


class EventInsights(ProjectRequest):
    """Metrics of events in time, by project or event type."""

    since: Instant
    until: Instant
    metrics: Annotated[tuple[Text, ...], BOUNDED]
    groupBy: Grouping
    interval: Interval
    filter: EventTypes | None = None
    timezone: TimeZone | None = None


class UpdateEventState(ProjectRequest):
    """A state that an event has reached (1) or left (0)."""

    id: Uuid
    storageKey: PathText
    value: StateValue
    date: Instant | None = None


class UpdateEventStatistic(ProjectRequest):
    """A number that an event is worth."""

    id: Uuid
    storageKey: PathText
    value: Amount
    date: Instant | None = None
