"""Creates, updates and reads event types and their versions."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from duckdb import DuckDBPyConnection as Connection
from pydantic import TypeAdapter, ValidationError

from attrib_ds import errors, instants, schema
from attrib_ds.contract import Answer, identifiers
from attrib_ds.contract import events as contract
from attrib_ds.contract.json_values import encode
from attrib_ds.service.store import tables
from attrib_ds.service.store.store import Store, writes

#: Event types with the columns of the resource.
_RESOURCES: Final = (
    '(SELECT *, retentionDurationInDays AS "expirationPolicy.retentionDurationInDays", '
    'piiFields AS "expirationPolicy.piiFields" FROM event_types)'
)


@dataclass(frozen=True)
class EventType:
    """An event type, as needed to validate events.

    Parameters
    ----------
    id, reference : str
        Ids of the event type.
    version : int
        Version of its fields, from 1.
    is_archived : bool
        Whether events of the type are refused.
    fields : tuple of dict
        Event-type fields, as in the resource.
    countries : tuple of str
        Countries for parsing national phone numbers, in the order to try.
    """

    id: str
    reference: str
    version: int
    is_archived: bool
    fields: tuple[dict[str, Any], ...]
    countries: tuple[str, ...]


def list_event_types(store: Store, request: contract.ListEventTypes) -> Answer:
    """Return one page of event types, sorted by reference by default."""
    name = "concat_ws(chr(0), name, reference)"
    key = request.storageKey
    conditions = {
        "(archivedAt IS NOT NULL) = ?": bool(request.archived),
        f"contains(lower({name}), lower(?))": request.search,
        "reference = ?": request.reference,
        # Matches members only: quotes inside a JSON string are escaped.
        "contains(fields, ?)": None if key is None else encode({"storageKey": key})[1:-1],
    }
    sort = request.sort or {"reference": 1}
    return store.page(_RESOURCES, conditions, schema.EVENT_TYPE, request, sort=sort)


def get_event_type(store: Store, request: contract.GetEventType) -> Answer:
    """Return one event type, archived or not, by its reference."""
    with store.read() as backend:
        return _read(backend.con, request.id)


def _read(connection: Connection, reference: str) -> Answer:
    missing = f"reference: there is no event type {reference!r}"
    relation = f"{_RESOURCES} WHERE reference = ?"
    return tables.read_one(connection, relation, [reference], schema.EVENT_TYPE, missing)


#: Clicks that the tracking script counts: events that need no declared type.
CLICKS: Final = frozenset({"file-download", "outbound-link"})
_URL: Final = contract.EventTypeField(type="string", entity="event", storageKey="url", optional=True)


def type_of_clicks(reference: str) -> EventType:
    """Return the type that clicks have until :func:`declare_clicks` has stored it, without an id."""
    return EventType("", reference, 1, False, (_URL.model_dump(),), ())


def declare_clicks(connection: Connection, store: Store, references: Collection[str]) -> None:
    """Store the types of clicks that are not declared."""
    for reference in sorted(references):
        if _find(connection, reference) is None:
            name = reference.replace("-", " ").capitalize()
            request = contract.CreateEventType(
                projectId=store.meta.project_id, reference=reference, name=name, fields=(_URL,)
            )
            _create(connection, store, request)


@writes
def create_event_type(connection: Connection, store: Store, request: contract.CreateEventType) -> Answer:
    """Create and return an event type; references are never reused, even of archived types."""
    return _create(connection, store, request)


def _create(connection: Connection, store: Store, request: contract.CreateEventType) -> Answer:
    try:
        TypeAdapter(identifiers.Reference).validate_python(request.reference)
    except ValidationError as error:
        expected = error.errors()[0]["msg"].removeprefix("Input should be ")
        raise errors.InvalidRequest.value("reference", request.reference, expected) from None
    now = instants.now()
    fields = encode([field.model_dump() for field in request.fields])
    record = {
        "_id": store.ids.new(),
        "createdAt": now,
        "updatedAt": now,
        "projectId": request.projectId,
        "reference": request.reference,
        "name": request.name,
        "fields": fields,
        "metadata": encode(request.metadata),
        "phoneParsingConfig": encode([config.model_dump() for config in request.phoneParsingConfig]),
        "version": 1,
        **_policy(request.expirationPolicy, request.fields),
    }
    if _find(connection, request.reference) is not None:
        raise errors.Conflict(
            f"reference: the event type {request.reference!r} exists already; choose another reference"
        )
    tables.insert_record(connection, "event_types", record)
    insert_version(connection, record["_id"], request.reference, 1, fields, instants.naive(now))
    return _read(connection, request.reference)


@writes
def update_event_type(connection: Connection, _: Store, request: contract.UpdateEventType) -> Answer:
    """Update and return an event type; changed fields create a new version.

    Existing events keep the version they were validated against.

    Raises
    ------
    NotFound
        If there is no such event type.
    Conflict
        If the type or entity of a storage key would change.
    """
    now = instants.naive(instants.now())
    requested: dict[str, Any] = {"name": request.name}
    if request.metadata is not None:
        requested["metadata"] = encode(request.metadata)
    if request.phoneParsingConfig is not None:
        requested["phoneParsingConfig"] = encode(
            [config.model_dump() for config in request.phoneParsingConfig]
        )
    stored = _existing(connection, request.id)
    fields = encode(_with_fields(json.loads(stored["fields"]), request.fields))
    changes = tables.changes_of(stored, {**requested, "fields": fields})
    if request.expirationPolicy is not None:
        # Null is a value here: the default of the project.
        policy = _policy(request.expirationPolicy, json.loads(fields))
        changes |= {name: value for name, value in policy.items() if value != stored[name]}
    if "fields" in changes:
        changes["version"] = stored["version"] + 1
        insert_version(connection, stored["_id"], request.id, changes["version"], fields, now)
    if changes:
        changes["updatedAt"] = instants.now()
        tables.update_record(connection, "event_types", "reference", request.id, changes)
    return _read(connection, request.id)


def _policy(
    policy: contract.ExpirationPolicy | None, fields: Iterable[contract.EventTypeField | dict[str, Any]]
) -> dict[str, Any]:
    """Return the columns of a policy; refuse keys that are not fields of the type."""
    if policy is None:
        return {}
    known = {field["storageKey"] if isinstance(field, dict) else field.storageKey for field in fields}
    for position, key in enumerate(policy.piiFields or ()):
        errors.check_choice(f"expiration_policy/piiFields/{position}", key, known)
    named = None if policy.piiFields is None else list(dict.fromkeys(policy.piiFields))
    return {"retentionDurationInDays": policy.retentionDurationInDays, "piiFields": named}


@writes
def archive_event_type(connection: Connection, _: Store, request: contract.ArchiveEventType) -> Answer:
    """Archive an event type, which refuses its events from now on, and return it."""
    return _set_archived(connection, request.id, archived=True)


@writes
def restore_event_type(connection: Connection, _: Store, request: contract.RestoreEventType) -> Answer:
    """Restore an archived event type, which accepts its events again, and return it."""
    return _set_archived(connection, request.id, archived=False)


def _set_archived(connection: Connection, reference: str, *, archived: bool) -> Answer:
    now = instants.naive(instants.now())
    if (_existing(connection, reference)["archivedAt"] is not None) != archived:
        connection.execute(
            "UPDATE event_types SET archivedAt = ?, updatedAt = ? WHERE reference = ?",
            [now if archived else None, now, reference],
        )
    return _read(connection, reference)


def _with_fields(
    stored: Sequence[dict[str, Any]], fields: Sequence[contract.EventTypeField]
) -> list[dict[str, Any]]:
    """Return fields with changed ones replaced and new ones appended."""
    by_key = {field["storageKey"]: field for field in stored}
    for position, field in enumerate(fields):
        before = by_key.get(field.storageKey)
        for name in ("type", "entity"):
            if before is not None and before[name] != getattr(field, name):
                raise errors.Conflict(
                    f"fields/{position}/{name}: {field.storageKey!r} is in use with the {name} "
                    f"{before[name]!r}, which cannot change; choose another storageKey",
                    field=f"fields/{position}/{name}",
                )
        by_key[field.storageKey] = field.model_dump()
    return list(by_key.values())


def read_event_types(connection: Connection, references: Collection[str]) -> dict[str, EventType]:
    """Return existing event types by reference."""
    rows = connection.execute(
        "SELECT _id, reference, version, archivedAt IS NOT NULL, fields, phoneParsingConfig FROM event_types "
        "WHERE reference IN (SELECT unnest(?))",
        [list(references)],
    ).fetchall()
    return {
        reference: EventType(
            id, reference, version, is_archived, tuple(json.loads(fields)), _countries(json.loads(phones))
        )
        for id, reference, version, is_archived, fields, phones in rows
    }


@dataclass(frozen=True)
class Declarations:
    """The fields of event types in all versions.

    Parameters
    ----------
    versions : mapping of str to list of tuple
        By reference: version, creation date (naive, in UTC) and fields, latest version first.
    """

    versions: Mapping[str, list[tuple[int, datetime, list[dict[str, Any]]]]]

    def fields(self, reference: str, version: int | None, created_at: datetime) -> list[dict[str, Any]]:
        """Return the fields of an event type at the creation of an event.

        Parameters
        ----------
        reference : str
            The event type.
        version : int or None
            Version stored with the event; None for loaded events.
        created_at : datetime
            Creation date of the event, naive, in UTC; selects the version for a loaded event.

        Returns
        -------
        list of dict
            Empty if the event type was not declared.
        """
        for number, made_at, fields in self.versions.get(reference, []):
            if number == version or (version is None and made_at <= created_at):
                return fields
        return []


def read_declarations(connection: Connection, references: Collection[str]) -> Declarations:
    """Return the declarations of existing event types."""
    rows = connection.execute(
        "SELECT reference, version, createdAt, fields FROM event_type_versions "
        "WHERE reference IN (SELECT unnest(?)) ORDER BY version DESC",
        [list(references)],
    ).fetchall()
    versions: dict[str, list[tuple[int, datetime, list[dict[str, Any]]]]] = {}
    for reference, version, made_at, fields in rows:
        versions.setdefault(reference, []).append((version, made_at, json.loads(fields)))
    return Declarations(versions)


def _countries(phones: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(config["countryCode"] for config in sorted(phones, key=lambda config: int(config["order"])))


def _find(connection: Connection, reference: str) -> dict[str, Any] | None:
    return tables.read_record(connection, "SELECT * FROM event_types WHERE reference = ?", reference)


def _existing(connection: Connection, reference: str) -> dict[str, Any]:
    stored = _find(connection, reference)
    if stored is None:
        raise errors.NotFound(f"reference: there is no event type {reference!r}")
    return stored


def insert_version(
    connection: Connection, id: Any, reference: str, version: int, fields: str, now: datetime
) -> None:
    """Insert a version of an event type; its date is naive, in UTC."""
    record = {
        "eventTypeId": id,
        "reference": reference,
        "version": version,
        "fields": fields,
        "createdAt": now,
    }
    tables.insert_records(connection, "event_type_versions", [record])
