"""Requests about event types."""

# ruff: noqa: N815  (attributes carry the specification's names)

from collections.abc import Iterable
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import Field, model_validator

from attrib_ds.contract.identifiers import Name, PathText, Reference, StorageKey, Text
from attrib_ds.contract.request import Part, ProjectRequest, disagreement
from attrib_ds.contract.rule import choice, pattern
from attrib_ds.contract.settings import RetentionDays
from attrib_ds.contract.values import BOUNDED, Flag, JsonObject, Limit, Offset, sorting_text, whole
from attrib_ds.schema import EVENT_TYPE, is_json

#: Types of the values that users and events carry (G-049).
FIELD_TYPES: Final = (
    "string",
    "message",
    "email",
    "phone",
    "location",
    "number",
    "boolean",
    "date",
    "url",
    "country",
)
#: Types that only fields of the event have; with ``number`` they make its metrics (G-050).
METRIC_TYPES: Final = ("state", "currency")

#: Metrics that every project has, so that no field may be stored under their names (G-155).
_EVENT_COUNT: Final = "event-count"
_STATE_DELAY: Final = "state-delay-"

CountryCode: TypeAlias = Annotated[
    str, pattern("[A-Z]{2}", shortest=2, longest=2, allowed="two capital letters, as in ISO 3166-1")
]
PhoneOrder: TypeAlias = Annotated[int, whole(lowest=0, allowed="a whole number of 0 or more")]
EventTypeSort: TypeAlias = Annotated[
    dict[str, int], sorting_text(tuple(each.name for each in EVENT_TYPE if not is_json(each)))
]


class EventTypeField(Part):
    """One value that events of the type carry.

    ``ingestionKey`` is the key it is read from: without one the ``storageKey``; None when it is never read
    but set by updates (G-156).
    """

    type: Annotated[str, choice(*FIELD_TYPES, *METRIC_TYPES)]
    entity: Annotated[str, choice("user", "event")]
    storageKey: StorageKey
    ingestionKey: Name | None = None
    discriminant: Flag = False
    isPii: Flag = False
    isMostProbableLocation: Flag = False
    optional: Flag = False

    @model_validator(mode="before")
    @classmethod
    def _read_from_storage_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and "ingestionKey" not in value and "storageKey" in value:
            return {**value, "ingestionKey": value["storageKey"]}
        return value

    @model_validator(mode="after")
    def _check_entity(self) -> Self:
        if self.storageKey == _EVENT_COUNT or self.storageKey.startswith(_STATE_DELAY):
            problem = f"{self.storageKey!r} is the name of a built-in statistic; allowed: any other name"
            raise disagreement(("storageKey", problem))
        if self.entity == "user" and self.type in METRIC_TYPES:
            problem = f"{self.type!r} is no type of a user field; allowed: {', '.join(FIELD_TYPES)}"
            raise disagreement(("type", problem))
        return self


class PhoneParsing(Part):
    """One country to read national phone numbers in, tried in ascending order."""

    order: PhoneOrder
    countryCode: CountryCode


class ExpirationPolicy(Part):
    """How long values of the type's events are kept, and which of them are personal (G-208).

    What is None is as the project chose.
    """

    retentionDurationInDays: RetentionDays | None = None
    piiFields: Annotated[tuple[StorageKey, ...], BOUNDED] | None = None


class ListEventTypes(ProjectRequest):
    """The event types of a project."""

    search: Text | None = None
    archived: Flag | None = None
    storageKey: Text | None = None
    reference: Text | None = None
    sort: EventTypeSort | None = None
    offset: Offset = 0
    limit: Limit | None = None


class CreateEventType(ProjectRequest):
    """A new kind of event."""

    reference: Reference
    name: Name
    fields: Annotated[tuple[EventTypeField, ...], BOUNDED] = ()
    metadata: JsonObject = Field(default_factory=dict)
    phoneParsingConfig: Annotated[tuple[PhoneParsing, ...], BOUNDED] = ()
    expirationPolicy: ExpirationPolicy | None = None

    @model_validator(mode="after")
    def _check_storage_keys(self) -> Self:
        _refuse_repeated(self.fields)
        return self


class GetEventType(ProjectRequest):
    """One event type, by its reference."""

    id: PathText


class ArchiveEventType(GetEventType):
    """An event type whose events are to be refused from now on (G-077)."""


class RestoreEventType(GetEventType):
    """An archived event type whose events are to be taken again (G-077)."""


class UpdateEventType(GetEventType):
    """Changes of an event type; what is not given stays (G-158).

    A field with a storage key that the event type has takes the place of that one; the other ones are added.
    An expiration policy takes the place of the one before, and counts for events that come later.
    """

    name: Name | None = None
    fields: Annotated[tuple[EventTypeField, ...], BOUNDED] = ()
    metadata: JsonObject | None = None
    phoneParsingConfig: Annotated[tuple[PhoneParsing, ...], BOUNDED] | None = None
    expirationPolicy: ExpirationPolicy | None = None

    @model_validator(mode="after")
    def _check_storage_keys(self) -> Self:
        _refuse_repeated(self.fields)
        return self


def _refuse_repeated(fields: Iterable[EventTypeField]) -> None:
    seen: set[str] = set()
    repeated = []
    for index, each in enumerate(fields):
        if each.storageKey in seen:
            repeated.append((f"fields/{index}/storageKey", f"{each.storageKey!r} is there twice"))
        seen.add(each.storageKey)
    if repeated:
        raise disagreement(*repeated)
