"""Processes accepted events: each becomes a computed event or a trashed one."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import duckdb

from attrib_ds import instants
from attrib_ds.contract.json_values import encode
from attrib_ds.service.events import retention, states, validation
from attrib_ds.service.events.event_types import CLICKS, declare_clicks, read_event_types, type_of_clicks
from attrib_ds.service.identity import identities, merging, tombstones
from attrib_ds.service.store import settings, tables
from attrib_ds.service.store.store import Store

#: JSON text of the errors of a trashed event; None for a processed event.
Outcome = str | None


class Prepared(NamedTuple):
    """The result of an event with the rows to write, made outside of the transaction.

    Parameters
    ----------
    result : ValidEvent or InvalidEvent
        The result.
    row : dict
        The row of ``trashed_events``, or that of ``events`` without user and expiration.
    metrics : list of dict
        Rows of ``metrics``.
    outcome : str or None
        Errors as JSON.
    """

    result: validation.ValidEvent | validation.InvalidEvent
    row: dict[str, Any]
    metrics: list[dict[str, Any]]
    outcome: Outcome


def prepare(
    store: Store, records: Sequence[Mapping[str, Any]], *, have_failed: bool = False
) -> list[Prepared]:
    """Validate rows of the table of raw events; :func:`write` writes the results.

    Events that have failed before, since they could not be written, are trashed because of an internal error.
    """
    if not records:
        return []
    raws = [_raw_event(record) for record in records]
    anonymous = {record["_id"] for record in records if record.get("isAnonymous")}
    references = {raw.reference for raw in raws}
    with store.cursor() as cursor:
        event_types = read_event_types(cursor, references)
        rules = settings.read_settings(cursor)
    event_types |= {click: type_of_clicks(click) for click in (CLICKS & references) - event_types.keys()}
    now = instants.naive(instants.now())

    def prepared(raw: validation.RawEvent) -> Prepared:
        result: validation.ValidEvent | validation.InvalidEvent | None = None
        if not have_failed:
            with suppress(Exception):  # one event must not block the others
                result = validation.validate(
                    raw, event_types, store.meta.currency, lenient=rules.lenient_optional_fields
                )
        if result is None:
            event_type = event_types.get(raw.reference)
            result = validation.processing_error(raw, event_type.id if event_type else None)
        if isinstance(result, validation.InvalidEvent):
            row = _trashed(result, store.meta.project_id, now)
            return Prepared(result, row, [], row["errors"])
        row = _event(result, store.meta.project_id, now)
        row["isAnonymous"] = raw.id in anonymous and not rules.anonymous_identification
        return Prepared(result, row, _metrics(result, store, now), None)

    return [prepared(raw) for raw in raws]


def _raw_event(record: Mapping[str, Any]) -> validation.RawEvent:
    return validation.RawEvent(
        record["_id"],
        record["eventType"],
        record["trackerId"],
        record["createdAt"].replace(tzinfo=UTC),
        record["eventDate"],
        record["data"],
    )


def write(connection: duckdb.DuckDBPyConnection, store: Store, prepared: Sequence[Prepared]) -> None:
    """Write the results of events inside a transaction; their raw events are in the table already."""
    now = instants.naive(instants.now())
    trash = [event.row for event in prepared if isinstance(event.result, validation.InvalidEvent)]
    rows = {event.result.raw.id: event for event in prepared}
    valid = [event.result for event in prepared if isinstance(event.result, validation.ValidEvent)]
    declare_clicks(connection, store, {one.raw.reference for one in valid if not one.event_type.id})
    valid = _without_erased(connection, valid, now)
    people = [
        identities.Person(result.identities, is_anonymous=rows[result.raw.id].row["isAnonymous"])
        for result in valid
    ]
    users = identities.resolve_many(connection, store.ids, people)
    events = []
    if valid:
        policies = retention.read_policies(connection)
        for result, user in zip(valid, users, strict=True):
            policy = policies.get(result.raw.reference, policies[None])
            expiration = retention.FOR_EVER if policy is None else policy.columns(instants.naive(result.date))
            events.append(rows[result.raw.id].row | {"userId": user} | expiration)
        tables.insert_records(connection, "events", events)
        seen = [event["createdAt"] for event in events]
        seen_users = "(SELECT unnest(?::VARCHAR[]) AS userId, unnest(?::TIMESTAMP[]) AS seen)"
        merging.register(connection, seen_users, [users, seen])
    tables.insert_records(
        connection, "metrics", [row for result in valid for row in rows[result.raw.id].metrics]
    )
    tables.insert_records(connection, "trashed_events", trash)


def _without_erased(
    connection: duckdb.DuckDBPyConnection, valid: list[validation.ValidEvent], now: datetime
) -> list[validation.ValidEvent]:
    """Drop events, and their raw events, of people who were erased after the date of the event."""
    marks = {
        event.raw.id: [(tombstones.identity_kind(kind), value) for kind, value in event.identities]
        for event in valid
    }
    erased = tombstones.find_buried(
        connection, [mark for event_marks in marks.values() for mark in event_marks]
    )
    earliest = datetime.min
    dropped = [
        event.raw.id
        for event in valid
        if any(instants.naive(event.date) <= erased.get(mark, earliest) for mark in marks[event.raw.id])
    ]
    if not dropped:
        return valid
    nonces = connection.execute(
        "DELETE FROM raw_events WHERE _id IN (SELECT unnest(?)) RETURNING nonce", [dropped]
    ).fetchall()
    tombstones.bury(connection, [(tombstones.NONCE, nonce) for (nonce,) in nonces], now)
    return [event for event in valid if event.raw.id not in set(dropped)]


def _event(valid: validation.ValidEvent, project_id: str, now: datetime) -> dict[str, Any]:
    return {
        "_id": valid.raw.id,
        "projectId": project_id,
        "eventDate": instants.naive(valid.date),
        "eventType": valid.raw.reference,
        "event": encode(valid.event),
        "user": encode(valid.user),
        "createdAt": instants.naive(valid.raw.created_at),
        "updatedAt": now,
        "eventTypeVersion": valid.event_type.version,
    }


def _trashed(trash: validation.InvalidEvent, project_id: str, now: datetime) -> dict[str, Any]:
    return {
        "_id": trash.raw.id,
        "projectId": project_id,
        "errors": encode(trash.errors),
        "eventTypeId": trash.event_type_id or None,
        "eventTypeRef": trash.raw.reference,
        "processingDate": now,
        "rawEventDate": instants.naive(trash.date),
    }


def _metrics(valid: validation.ValidEvent, store: Store, now: datetime) -> list[dict[str, Any]]:
    """Return the rows of an event's metrics, including built-in ones."""
    metrics = [validation.Metric("event-count", "number", 1.0)]
    for metric in valid.metrics:
        metrics.append(metric)
        if metric.kind == "state" and metric.number == 1:
            metrics.append(validation.Metric(f"state-delay-{metric.key}", "number", 0.0))
    date = instants.naive(valid.date)
    return [
        states.metric_row(store, valid.raw.id, now=now, date=date, **metric._asdict()) for metric in metrics
    ]
