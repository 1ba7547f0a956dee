"""Loads events with their states and statistics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from attrib_ds import instants, schema
from attrib_ds.errors import InvalidRequest
from attrib_ds.instants import naive
from attrib_ds.records.sources import Source, literal, quoted
from attrib_ds.service.events.retention import assign_policies
from attrib_ds.service.identity.loaded_identities import assign_identities, of_events
from attrib_ds.service.identity.merging import surviving
from attrib_ds.service.identity.registry import register, remove_absent
from attrib_ds.service.loading import metrics
from attrib_ds.service.loading.batch import Batch, Project, ValidRows
from attrib_ds.service.loading.checks import Checks, is_json, labelled_value, not_json, original
from attrib_ds.service.loading.erased import reject_erased
from attrib_ds.service.store.ids import HEX_ID, UUID

if TYPE_CHECKING:
    import duckdb

#: Pattern of references of event types (G-155).
_REFERENCE: Final = "[a-z0-9]+([-_][a-z0-9]+)*"
_REFERENCE_FORM: Final = "lower-case letters and digits with single - or _ between them"
#: Maps of keys to typed values (G-051).
_MAPS: Final = ("event", "user")
_OBJECTS: Final = ("states", "statistics", "expirationPolicy")


def check(connection: duckdb.DuckDBPyConnection, source: Source, project: Project) -> Batch:
    """Validate rows and stage them for insertion.

    Besides the columns of the resource, the source may have ``event.<key>`` and ``user.<key>`` (text),
    ``states.<key>`` (0 or 1) with ``states.<key>.date``, and ``statistics.<key>`` (a number) or
    ``statistics.<key>.amount`` with ``statistics.<key>.currency``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to the temporary database with the source.
    source : Source
        The rows.
    project : Project
        Their project.

    Returns
    -------
    Batch
        With the counts ``events`` and ``metrics``.

    Raises
    ------
    InvalidRequest
        If a column is unknown, or a key is not allowed.
    """
    checks = Checks(source, argument="events")
    keyed = [
        name for name in source.columns if metrics.is_metric(name) or name.startswith(("event.", "user."))
    ]
    checks.refuse_unknown([*schema.EVENT.names, *keyed], _OBJECTS)
    checks.project(project.project_id)
    checks.word("_id", pattern=UUID, form="a UUID", lower=True, default="CAST(uuidv7() AS VARCHAR)")
    checks.word("userId", pattern=HEX_ID, form="24 lower-case hexadecimal digits", required=True)
    checks.instant("eventDate", required=True, recent=True)
    checks.word("eventType", pattern=_REFERENCE, form=_REFERENCE_FORM, required=True)
    checks.rule(f"length({quoted('eventType')}) > 64", "'eventType: is longer than 64 characters'")
    for name in ("expirationPolicy.expiresAt", "expirationPolicy.anonimizedAt"):
        checks.instant(name)
    checks.count("expirationPolicy.retentionDurationInDays")
    checks.texts("expirationPolicy.piiFields")
    for name in ("createdAt", "updatedAt"):
        checks.instant(name, default=project.now)
    for name in _MAPS:
        _add_map(checks, name)
    keys = metrics.add_columns(checks)
    staged = checks.stage(connection)
    checks.unique(connection, staged, "_id")
    table = metrics.stage(connection, staged, keys, project)
    count = connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]

    def insert(writer: duckdb.DuckDBPyConnection, valid: ValidRows) -> dict[str, int]:
        valid.reject_stored(writer, "events", "_id")
        reject_erased(writer, valid, of_events(valid.rows))
        differing = metrics.differing(valid, table)
        with valid.replace_stored(
            writer, "events", "_id", changed="updatedAt", differing=differing
        ) as replaced:
            writer.execute(f"DELETE FROM metrics WHERE eventId IN (SELECT _id FROM {replaced})")
            rows = surviving(writer, valid.rows)
            loaded = valid.insert(writer, "events", rows=rows)
            register(writer, f"(SELECT userId, createdAt AS seen FROM {rows})")
            remove_absent(writer, replaced)
        # Replacing records come from a service that has merged users already.
        assign_identities(writer, of_events(rows), naive(instants.now()), may_merge=not valid.is_replacing)
        assign_policies(writer)
        return {"events": loaded, "metrics": metrics.insert(writer, valid, table, project, count=count)}

    return Batch(staged, "_id", insert)


def _add_map(checks: Checks, name: str) -> None:
    """Add a map column, from a JSON object and from columns per key."""
    text = checks.source.word(name) if checks.has(name) else "CAST(NULL AS VARCHAR)"
    is_object = f"CASE WHEN {is_json(text)} THEN json_type({text}) = 'OBJECT' END"
    entries = f"TRY_CAST(CASE WHEN {is_object} THEN {text} END AS JSON)"
    checks.value(f"{name} entries", f"TRY_CAST({entries} AS MAP(VARCHAR, JSON))")
    if checks.has(name):
        wrong = f"{original(name)} <> 'null' AND {quoted(f'{name} entries')} IS NULL"
        checks.rule(
            wrong,
            f"{labelled_value(name)} || {not_json(original(name), 'a JSON object with one value per key')}",
        )
    single = []
    for column in checks.source.columns:
        if column.startswith(f"{name}."):
            key = column.removeprefix(f"{name}.")
            if not re.fullmatch(metrics.KEY, key):
                raise InvalidRequest(
                    f"events: the key {key!r} of the column {column!r} is not allowed; "
                    "allowed: a letter, then up to 63 letters, digits, _ and -",
                    field="events",
                )
            cell = original(column)
            wrapped = f"CASE WHEN {cell} IS NOT NULL THEN {_typed(cell, cell)} END"
            single.append(f"{{'key': {literal(key)}, 'value': {wrapped}}}")
    has_shape = "(json_exists(entry.value, '$.current') OR json_exists(entry.value, '$.raw'))"
    plain = _typed("entry.value", "json_extract_string(entry.value, '$')")
    value = f"CASE WHEN json_type(entry.value) = 'OBJECT' AND {has_shape} THEN entry.value ELSE {plain} END"
    entries = quoted(f"{name} entries")
    whole = f"list_transform(map_entries({entries}), lambda entry: {{'key': entry.key, 'value': {value}}})"
    keyed = f"list_filter([{', '.join(single)}], lambda entry: entry.value IS NOT NULL)" if single else ""
    parts = [f"to_json(map_from_entries({part}))" for part in (whole, keyed) if part]
    merged = f"json_merge_patch(coalesce({parts[0]}, '{{}}'), {parts[1]})" if single else parts[0]
    checks.derive(name, f"CAST(coalesce({merged}, '{{}}') AS VARCHAR)")


def _typed(raw: str, current: str) -> str:
    date = f"strftime({quoted('eventDate')}, '%Y-%m-%dT%H:%M:%S.%gZ')"
    return (
        f"json_object('raw', {raw}, 'current', {current}, 'type', 'string', 'date', {date}, "
        "'anonymized', false, 'invalid', false)"
    )
