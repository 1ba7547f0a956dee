"""Redacts the personal values of trashed events whose retention period has ended (G-208)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract.json_values import encode
from attrib_ds.json_numbers import load_exact

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    import duckdb

#: Trashed events redacted in one transaction.
_EVENTS_AT_ONCE: Final = 1_000
_FIELDS: Final = "SELECT reference, fields FROM event_types"


def find_expired(
    connection: duckdb.DuckDBPyConnection, periods: Mapping[str, tuple[int, Collection[str]]], now: datetime
) -> list[tuple[str, str]]:
    """Return ids and event types of expired trashed events that still have personal values.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.
    periods : mapping of str to tuple
        Days and storage keys of personal fields, by reference of the event type.
    now : datetime
        Current time, naive, in UTC.
    """
    sent_keys = _sent_keys(connection, periods)
    found: list[tuple[str, str]] = []
    for reference, (days, _) in periods.items():
        pointers = [f"/{key.replace('~', '~0').replace('/', '~1')}" for key in sent_keys[reference]]
        is_left = (
            " OR ".join("coalesce(json_type(raw.data, ?), 'NULL') <> 'NULL'" for _ in pointers) or "false"
        )
        rows = connection.execute(
            "SELECT trashed._id FROM trashed_events AS trashed JOIN raw_events AS raw USING (_id) "
            "WHERE trashed.eventTypeRef = ? AND coalesce(trashed.rawEventDate, trashed.processingDate) "
            f"+ to_days(CAST(? AS INTEGER)) <= ? AND ({is_left}) ORDER BY 1 LIMIT {_EVENTS_AT_ONCE}",
            [reference, days, now, *pointers],
        ).fetchall()
        found += [(id, reference) for (id,) in rows]
    return found[:_EVENTS_AT_ONCE]


def redact_trashed(
    connection: duckdb.DuckDBPyConnection,
    expired: Collection[tuple[str, str]],
    periods: Mapping[str, tuple[int, Collection[str]]],
) -> None:
    """Replace the personal values of trashed events by null, in what was sent and in their errors."""
    sent_keys = _sent_keys(connection, periods)
    for id, reference in expired:
        ((data, errors),) = connection.execute(
            "SELECT raw.data, errors FROM trashed_events JOIN raw_events AS raw USING (_id) WHERE _id = ?",
            [id],
        ).fetchall()
        sent = {key: None if key in sent_keys[reference] else value for key, value in _loaded(data).items()}
        personal = frozenset(periods[reference][1])
        redacted = [
            {**error, "value": None} if (error["field"] or {}).get("storageKey") in personal else error
            for error in _loaded(errors)
        ]
        connection.execute("UPDATE raw_events SET data = ? WHERE _id = ?", [encode(sent), id])
        connection.execute("UPDATE trashed_events SET errors = ? WHERE _id = ?", [encode(redacted), id])


def _sent_keys(
    connection: duckdb.DuckDBPyConnection, periods: Mapping[str, tuple[int, Collection[str]]]
) -> dict[str, frozenset[str]]:
    """Return the keys under which personal values are sent, by event type."""
    declared = {
        reference: {field["storageKey"]: field["ingestionKey"] for field in _loaded(fields)}
        for reference, fields in connection.execute(_FIELDS).fetchall()
    }
    return {
        reference: frozenset({declared.get(reference, {}).get(key) or key for key in keys})
        for reference, (_, keys) in periods.items()
    }


def _loaded(text: str | None) -> Any:
    return load_exact(text or "[]")
