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

#: Types of user and event fields (G-049).
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
#: Types of event fields only; with ``number`` they define the metrics of an event (G-050).
METRIC_TYPES: Final = ("state", "currency")

#: Built-in metrics; no field may be stored under their names (G-155).
_EVENT_COUNT: Final = "event-count"
_STATE_DELAY: Final = "state-delay-"

CountryCode: TypeAlias = Annotated[
    str, pattern("[A-Z]{2}", shortest=2, longest=2, expected="two capital letters, as in ISO 3166-1")
]
PhoneOrder: TypeAlias = Annotated[int, whole(lowest=0, expected="a whole number, 0 or more")]
EventTypeSort: TypeAlias = Annotated[
    dict[str, int], sorting_text(tuple(column.name for column in EVENT_TYPE if not is_json(column)))
]


class EventTypeField(Part):
    """One field of the events of a type.

    ``ingestionKey`` is the key to read it from, the ``storageKey`` by default; None if only updates set it
    (G-156).
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
            problem = f"{self.storageKey!r} is the name of a built-in statistic; expected another name"
            raise disagreement(("storageKey", problem))
        if self.entity == "user" and self.type in METRIC_TYPES:
            problem = f"{self.type!r} is not a type of user fields; allowed: {', '.join(FIELD_TYPES)}"
            raise disagreement(("type", problem))
        return self


class PhoneParsing(Part):
    """A country for parsing national phone numbers; countries are tried in ascending order."""

    order: PhoneOrder
    countryCode: CountryCode


class ExpirationPolicy(Part):
    """The retention of event values, and which of them are personal (G-208).

    None applies the settings of the project.
    """

    retentionDurationInDays: RetentionDays | None = None
    piiFields: Annotated[tuple[StorageKey, ...], BOUNDED] | None = None


class ListEventTypes(ProjectRequest):
    """List the event types of a project."""

    search: Text | None = None
    archived: Flag | None = None
    storageKey: Text | None = None
    reference: Text | None = None
    sort: EventTypeSort | None = None
    offset: Offset = 0
    limit: Limit | None = None


class CreateEventType(ProjectRequest):
    """Create an event type."""

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
    """Get an event type by its reference."""

    id: PathText


class ArchiveEventType(GetEventType):
    """Archive an event type: its new events are refused (G-077)."""


class RestoreEventType(GetEventType):
    """Restore an archived event type: its events are accepted again (G-077)."""


class UpdateEventType(GetEventType):
    """Update an event type; attributes that are not given stay as they are (G-158).

    A field replaces the existing field with the same storage key, or is added. An expiration policy replaces
    the previous one, and applies to new events.
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
    keys: set[str] = set()
    repeated = []
    for index, field in enumerate(fields):
        if field.storageKey in keys:
            problem = f"{field.storageKey!r} is used twice; expected a different key for each field"
            repeated.append((f"fields/{index}/storageKey", problem))
        keys.add(field.storageKey)
    if repeated:
        raise disagreement(*repeated)
