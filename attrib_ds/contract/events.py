"""Requests about events, their states and statistics."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, Final, TypeAlias

from attrib_ds.contract.identifiers import PathText, Text, Uuid
from attrib_ds.contract.predicates import EventTypes
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import choice, text
from attrib_ds.contract.values import (
    BOUNDED,
    Amount,
    EventData,
    EventDate,
    Instant,
    Limit,
    Offset,
    StateValue,
    TimeZone,
)

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
