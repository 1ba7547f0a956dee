"""Keeps the event types of a project, each with the versions it went through."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.contract.event_types import GetEventType
from attrib_ds.contract.json_text import encode
from attrib_ds.errors import Conflict, NotFound
from attrib_ds.service.batches import insert_records, naive
from attrib_ds.service.interactions import ordering
from attrib_ds.service.records import insert_record, read_record
from attrib_ds.service.selection import answered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import duckdb

    from attrib_ds.contract.event_types import CreateEventType, EventTypeField, ListEventTypes
    from attrib_ds.service.store import Store


@dataclass(frozen=True)
class EventType:
    """What events of a type carry.

    Parameters
    ----------
    id, reference : str
        The event type.
    version : int
        Of its fields, from 1.
    is_archived : bool
        Whether events of the type are refused.
    fields : tuple of dict
        Event-type fields, as the resource shows them.
    countries : tuple of str
        Countries to read national phone numbers in, in the order in which they are tried.
    """

    id: str
    reference: str
    version: int
    is_archived: bool
    fields: tuple[dict[str, Any], ...]
    countries: tuple[str, ...]


def list_event_types(store: Store, request: ListEventTypes) -> Answer:
    """Answer one page of event types, by reference unless another order is asked for."""
    with store.read() as backend:
        found = backend.table("event_types")
        kept = [found.archivedAt.notnull() if request.archived else found.archivedAt.isnull()]
        if request.search is not None:
            wanted = request.search.lower()
            kept.append(found.name.lower().contains(wanted) | found.reference.lower().contains(wanted))
        if request.reference is not None:
            kept.append(found.reference == request.reference)
        if request.storageKey is not None:
            # Inside a JSON string these quotes would be escaped, so that the text is that of a member.
            kept.append(found.fields.contains(encode({"storageKey": request.storageKey})[1:-1]))
        found = found.filter(kept)
        total = found.count().to_pyarrow().as_py()
        ordered = found.order_by(ordering(found, request.sort or {"reference": 1}))
        page = ordered.select(schema.EVENT_TYPE.names).limit(request.limit, offset=request.offset)
        table = answered(page, schema.EVENT_TYPE)
    return Answer(table=table, total=total, offset=request.offset, limit=request.limit)


def get_event_type(store: Store, request: GetEventType) -> Answer:
    """Answer one event type, archived or not, by its reference (R276)."""
    with store.read() as backend:
        types = backend.table("event_types")
        found = types.filter(types.reference == request.id).select(schema.EVENT_TYPE.names)
        table = answered(found, schema.EVENT_TYPE)
    if not table.num_rows:
        raise NotFound(f"id: there is no event type {request.id!r}", field="id")
    return Answer(table=table)


def create_event_type(store: Store, request: CreateEventType) -> Answer:
    """Make an event type, and answer it; a reference is taken for ever, archived or not (G-155)."""
    now = naive(datetime.now(UTC))
    fields = encode([_shown(each) for each in request.fields])
    record = {
        "_id": store.ids.new(),
        "createdAt": now,
        "updatedAt": now,
        "projectId": request.projectId,
        "reference": request.reference,
        "name": request.name,
        "fields": fields,
        "metadata": encode(request.metadata),
        "phoneParsingConfig": encode([each.model_dump() for each in request.phoneParsingConfig]),
        "version": 1,
    }

    def write(connection: duckdb.DuckDBPyConnection) -> None:
        if _find(connection, request.reference) is not None:
            raise Conflict(
                f"reference: the event type {request.reference!r} exists already; choose another reference",
                field="reference",
            )
        insert_record(connection, "event_types", record)
        _keep_version(connection, record["_id"], request.reference, 1, fields, now)

    store.write(write)
    return get_event_type(store, GetEventType(projectId=request.projectId, id=request.reference))


def add_fields(store: Store, reference: str, fields: Sequence[EventTypeField]) -> int:
    """Declare more fields on an event type and return its new version (G-158).

    Events that are there keep the version they were checked against (G-076).

    Parameters
    ----------
    store : Store
        Where the event type is.
    reference : str
        The event type.
    fields : sequence of EventTypeField
        New fields, whose storage keys the event type does not have.

    Returns
    -------
    int
        The version.

    Raises
    ------
    NotFound
        If there is no such event type.
    Conflict
        If a storage key is in use.
    """
    now = naive(datetime.now(UTC))

    def write(connection: duckdb.DuckDBPyConnection) -> int:
        found = _existing(connection, reference)
        held = json.loads(found["fields"])
        taken = {each["storageKey"] for each in held} & {each.storageKey for each in fields}
        if taken:
            raise Conflict(f"fields: {', '.join(sorted(taken))} is in use already", field="fields")
        text = encode([*held, *(_shown(each) for each in fields)])
        version: int = found["version"] + 1
        connection.execute(
            "UPDATE event_types SET fields = ?, version = ?, updatedAt = ? WHERE reference = ?",
            [text, version, now, reference],
        )
        _keep_version(connection, found["_id"], reference, version, text, now)
        return version

    return store.write(write)


def set_archived(store: Store, reference: str, *, archived: bool) -> None:
    """Archive an event type or restore it (G-077).

    Parameters
    ----------
    store : Store
        Where the event type is.
    reference : str
        The event type.
    archived : bool
        Whether its events are refused from now on.

    Raises
    ------
    NotFound
        If there is no such event type.
    """
    now = naive(datetime.now(UTC))

    def write(connection: duckdb.DuckDBPyConnection) -> None:
        if (_existing(connection, reference)["archivedAt"] is not None) != archived:
            connection.execute(
                "UPDATE event_types SET archivedAt = ?, updatedAt = ? WHERE reference = ?",
                [now if archived else None, now, reference],
            )

    store.write(write)


def read_event_types(
    connection: duckdb.DuckDBPyConnection, references: Collection[str]
) -> dict[str, EventType]:
    """Return event types by reference, those that are there."""
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


def read_declared(
    connection: duckdb.DuckDBPyConnection, reference: str, version: int | None, created_at: datetime
) -> list[dict[str, Any]]:
    """Return the fields that an event type declared when an event was created.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        To read with.
    reference : str
        The event type.
    version : int or None
        The version that the event stores; loaded events store none.
    created_at : datetime
        When the event was created, which tells the version of a loaded event.

    Returns
    -------
    list of dict
        Empty if the event type is not declared, or was not yet.
    """
    found = read_record(
        connection,
        "SELECT fields FROM event_type_versions WHERE reference = ? "
        "AND coalesce(version = ?, createdAt <= ?) ORDER BY version DESC LIMIT 1",
        reference,
        version,
        created_at.replace(tzinfo=None),
    )
    return [] if found is None else list(json.loads(found["fields"]))


def _countries(phones: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(each["countryCode"] for each in sorted(phones, key=lambda each: int(each["order"])))


def _shown(field: EventTypeField) -> dict[str, Any]:
    return field.model_dump()


def _find(connection: duckdb.DuckDBPyConnection, reference: str) -> dict[str, Any] | None:
    return read_record(connection, "SELECT * FROM event_types WHERE reference = ?", reference)


def _existing(connection: duckdb.DuckDBPyConnection, reference: str) -> dict[str, Any]:
    found = _find(connection, reference)
    if found is None:
        raise NotFound(f"reference: there is no event type {reference!r}", field="reference")
    return found


def _keep_version(
    connection: duckdb.DuckDBPyConnection, id: Any, reference: str, version: int, fields: str, now: datetime
) -> None:
    kept = {"eventTypeId": id, "reference": reference, "version": version, "fields": fields, "createdAt": now}
    insert_records(connection, "event_type_versions", [kept])
