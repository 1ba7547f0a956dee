"""Operations of a mirror: saves its progress and stores records unchanged."""

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import errors, instants, sql_results
from attrib_ds.contract import administration as contract
from attrib_ds.contract.json_values import encode
from attrib_ds.service.campaigns import fill_text_slugs, find, insert_campaign_node, integration_record
from attrib_ds.service.events.event_types import insert_version
from attrib_ds.service.store import tables
from attrib_ds.service.store.store import Store, writes

#: Name of the setting with the state of the mirror.
_SETTING: Final = "sync"
#: Tables that may have rows in an empty project.
_ADMINISTRATION: Final = frozenset({"meta", "settings", "audit", "tombstones"})
#: Columns of an event type that updates do not change.
_FIXED: Final = frozenset({"_id", "projectId", "reference", "createdAt", "version"})
#: Members of a field, and their values where they are absent.
_MEMBERS: Final = {
    "type": "string",
    "entity": "event",
    "ingestionKey": None,
    "optional": True,
    **dict.fromkeys(("discriminant", "isPii", "isMostProbableLocation"), False),
}
_POLICY: Final = "expirationPolicy."


@writes
def begin_mirror(connection: Connection, _: Store, request: contract.BeginMirror) -> dict[str, Any]:
    """Return the state of the mirror; an empty project becomes a mirror.

    Raises
    ------
    InvalidRequest
        If the project mirrors another source, has its own records, or received events itself.
    """
    progress: dict[str, Any] | None = tables.read_setting(connection, _SETTING)
    if progress is None:
        filled = [
            table for table in tables.TABLES if table not in _ADMINISTRATION and _has_rows(connection, table)
        ]
        if filled:
            raise errors.InvalidRequest(
                f"to: the project is not a mirror: it has its own {filled[0].replace('_', ' ')}; "
                "allowed: a new file, or a mirror created by sync"
            )
        progress = {"source": request.source}
        tables.write_setting(connection, _SETTING, progress)
    elif progress["source"] != request.source:
        raise errors.InvalidRequest(
            f"to: the project mirrors {progress['source']}, not {request.source}; "
            "allowed: a new file, or a mirror of the same source"
        )
    elif _has_rows(connection, "raw_events"):
        raise errors.InvalidRequest(
            "to: events were sent to the mirror instead of its source; send them to the source, "
            "and sync into a new file"
        )
    return progress


@writes
def keep_mirror(connection: Connection, _: Store, request: contract.KeepMirror) -> dict[str, Any]:
    """Save and return the state of the mirror."""
    tables.write_setting(connection, _SETTING, request.progress)
    return request.progress


def kept_out(connection: Connection) -> dict[str, dict[str, str]]:
    """Return what a mirror lacks of its source: reasons by id, by kind of record."""
    state = tables.read_setting(connection, _SETTING) or {}
    return {kind: reasons for kind, reasons in state.get("kept_out", {}).items() if reasons}


@writes
def mirror_records(connection: Connection, store: Store, request: contract.MirrorRecords) -> int:
    """Store records as they are in the source; return their number."""
    _STORE_BY_RESOURCE[request.resource](connection, request.records, store)
    return int(request.records.num_rows)


def _has_rows(connection: Connection, table: str) -> bool:
    return sql_results.read_row(connection, f"SELECT 1 FROM {table} LIMIT 1") is not None


def _store_users(connection: Connection, users: pa.Table, store: Store) -> None:  # noqa: ARG001  (signature of all)
    """Set the creation date of users, if it is known; users without records are ignored."""
    if "createdAt" not in users.column_names:
        return
    with tables.arrow_view(connection, users.select(["_id", "createdAt"])) as view:
        connection.execute(
            "UPDATE users SET createdAt = source.created_at "
            f"FROM (SELECT _id AS id, CAST(createdAt AS TIMESTAMP) AS created_at FROM {view}) AS source "
            "WHERE users._id = source.id AND users.createdAt <> source.created_at"
        )


def _store_event_types(connection: Connection, types: pa.Table, store: Store) -> None:
    """Store event types; changed fields create a new version, as in the source."""
    for record in types.to_pylist():
        record["projectId"] = store.meta.project_id
        flat = {name.removeprefix(_POLICY): value for name, value in record.items()}
        event_type = {name: flat[name] for name in tables.TABLES["event_types"] if name in flat}
        reference = event_type["reference"]
        if reference is None:
            continue
        known = {
            "_id": reference,
            "createdAt": instants.now(),
            "updatedAt": instants.now(),
            "name": reference,
        }
        known |= {"fields": "[]", "metadata": "{}", "phoneParsingConfig": "[]"}
        event_type |= {name: value for name, value in known.items() if event_type.get(name) is None}
        event_type["fields"] = _completed(event_type["fields"])
        existing = tables.read_record(connection, "SELECT * FROM event_types WHERE reference = ?", reference)
        if existing is None:
            tables.insert_record(connection, "event_types", {**event_type, "version": 1})
            made_at = instants.naive(event_type["createdAt"])
            insert_version(connection, event_type["_id"], reference, 1, event_type["fields"], made_at)
            continue
        changes = {
            name: value
            for name, value in event_type.items()
            if name not in _FIXED and existing[name] != value
        }
        if not changes:
            continue
        version = existing["version"] + ("fields" in changes)
        tables.update_record(
            connection, "event_types", "reference", reference, {**changes, "version": version}
        )
        if version != existing["version"]:
            made_at = instants.naive(event_type["updatedAt"])
            insert_version(connection, existing["_id"], reference, version, event_type["fields"], made_at)


def _completed(fields: str) -> str:
    """Return the fields of an event type with the members that another service leaves out."""
    listed = [field for field in json.loads(fields) if isinstance(field, dict) and field.get("storageKey")]
    if all(_MEMBERS.keys() <= field.keys() for field in listed):
        return fields
    return encode([_MEMBERS | field for field in listed])


def _store_campaigns(connection: Connection, campaigns: pa.Table, store: Store) -> None:
    """Store campaigns, with their integrations, which are derived from nodes."""
    for integration_id in sorted(set(campaigns["integrationId"].to_pylist())):
        _store_integration(connection, integration_id, store)
    rows = connection.execute("SELECT _id, vendorId FROM integrations WHERE deletedAt IS NULL").fetchall()
    vendors = dict(rows)
    for campaign in campaigns.to_pylist():
        integration = find(connection, vendors[campaign["integrationId"]])
        campaign["projectId"] = store.meta.project_id
        connection.execute("DELETE FROM campaigns WHERE id = ?", [campaign["id"]])
        tables.insert_record(connection, "campaigns", campaign)
        if sql_results.read_row(connection, "SELECT 1 FROM nodes WHERE _id = ?", [campaign["id"]]) is None:
            # Created after the nodes were read; the next sync reads its node.
            assert integration is not None  # noqa: S101  (created above)
            insert_campaign_node(connection, integration, campaign)
    fill_text_slugs(connection)


def _store_integration(connection: Connection, id: str, store: Store) -> None:
    """Create an integration from the root of its nodes, unless it exists."""
    if sql_results.read_row(connection, "SELECT 1 FROM integrations WHERE _id = ?", [id]) is not None:
        return
    root = tables.read_record(
        connection,
        "SELECT _id, vendorId, name FROM nodes WHERE integrationId = ? AND vendorId IS NOT NULL "
        "ORDER BY type = 'integration' DESC, len(path), _id LIMIT 1",
        id,
    )
    if root is None:
        raise errors.InvalidRequest(f"records: no node belongs to the integration {id!r}")
    meta = store.meta
    record = integration_record(meta.project_id, root["vendorId"], root["name"], meta.currency, {})
    tables.insert_record(connection, "integrations", {"_id": id, **record, "nodeId": root["_id"]})


_STORE_BY_RESOURCE: Final[dict[str, Callable[[Connection, pa.Table, Store], None]]] = {
    "users": _store_users,
    "event-types": _store_event_types,
    "campaigns": _store_campaigns,
}
