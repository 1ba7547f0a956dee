"""Loads interactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds import instants, schema
from attrib_ds.instants import naive
from attrib_ds.records.sources import quoted
from attrib_ds.service.campaigns.node_integrations import INTEGRATIONS
from attrib_ds.service.identity.lifetime_index import renumber
from attrib_ds.service.identity.loaded_identities import assign_identities, of_interactions
from attrib_ds.service.identity.merging import surviving
from attrib_ds.service.identity.registry import register, remove_absent
from attrib_ds.service.loading.batch import Batch, Project, ValidRows, insert_implicit_nodes
from attrib_ds.service.loading.checks import NAME, NAME_FORM, Checks, labelled_value, truncated
from attrib_ds.service.loading.erased import reject_erased
from attrib_ds.service.store.ids import HEX_ID, UUID

if TYPE_CHECKING:
    import duckdb

    from attrib_ds.records.sources import Source

_HEX_FORM: Final = "24 lower-case hexadecimal digits"
_WORDS: Final = {"_id", "userId", "nodeId", "type", "firstHitId"}
# Durations may be rounded to milliseconds.
_TOLERANCE: Final = 0.001
_SESSION_ONLY: Final = [
    column for name in sorted(schema.SESSION_ONLY) for column in schema.leaves(schema.INTERACTION, name)
]


def check(connection: duckdb.DuckDBPyConnection, source: Source, project: Project) -> Batch:
    """Validate rows and stage them for insertion.

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
        With the counts ``interactions`` and ``implicit_nodes``.

    Raises
    ------
    InvalidRequest
        If a column is unknown.
    """
    checks = Checks(source, argument="interactions")
    checks.refuse_unknown(schema.INTERACTION.names, schema.properties(schema.INTERACTION))
    checks.project(project.project_id)
    numbered = source.rows + source.unreadable.num_rows
    checks.word("_id", pattern=HEX_ID, form=_HEX_FORM, default=project.ids.many("row", count=numbered))
    checks.choice("type", ("session", "offline"), default="session")
    checks.word("userId", pattern=HEX_ID, form=_HEX_FORM, required=True)
    checks.word("nodeId", pattern=NAME, form=NAME_FORM, required=True)
    checks.word("firstHitId", pattern=UUID, form="a UUID", lower=True)
    _check_times(checks)
    _check_properties(checks)
    checks.instant("ingestedAt", default=project.now)
    is_offline = f"{quoted('type')} = 'offline'"
    # Offline interactions always have a creation date (R025).
    created = f"coalesce({quoted('createdAt')}, CASE WHEN {is_offline} THEN {project.now} END)"
    checks.instant("createdAt")
    checks.derive("createdAt", created)
    checks.rule(f"{is_offline} AND {quoted('isBot')}", "'isBot: is true on an offline interaction'")
    for name in _SESSION_ONLY:
        if checks.has(name):
            checks.derive(name, f"CASE WHEN {is_offline} IS NOT TRUE THEN {quoted(name)} END")
    staged = checks.stage(connection)
    checks.unique(connection, staged, "_id")
    return Batch(staged, "_id", lambda writer, valid: _insert(writer, valid, project))


def _check_times(checks: Checks) -> None:
    checks.instant("startDate", required=True, recent=True)
    checks.instant("endDate", recent=True)
    checks.number("duration", low=0)
    start, end, duration = quoted("startDate"), quoted("endDate"), quoted("duration")
    checks.rule(f"{start} > {end}", f"'startDate: is later than ' || {labelled_value('endDate')}")
    length = f"(epoch_us({end}) - epoch_us({start})) / 1e6"
    checks.rule(
        f"{start} <= {end} AND abs({length} - {duration}) > {_TOLERANCE}",
        f"{labelled_value('duration')} || ' is not the ' || {length} || ' seconds from startDate to endDate'",
    )
    # Truncated too, so that duration is exactly endDate minus startDate.
    microseconds = f"TRY_CAST(round(CASE WHEN isfinite({duration}) THEN {duration} END * 1e6) AS BIGINT)"
    by_duration = truncated(f"TRY({start} + to_microseconds({microseconds}))")
    ending = f"coalesce({end}, {by_duration}, {start})"
    checks.derive("endDate", ending)
    checks.derive("duration", f"(epoch_us({ending}) - epoch_us({start})) / 1e6")


def _check_properties(checks: Checks) -> None:
    checks.flag("isBot", default="false")
    checks.count("hitCount")
    checks.number("geo.latitude", low=-90, high=90)
    checks.number("geo.longitude", low=-180, high=180)
    for field in schema.INTERACTION:
        if schema.is_json(field):
            checks.json(field.name)
        elif field.name in {"updateDate", "vendorUpdateDate"}:
            checks.instant(field.name)
        elif pa.types.is_string(field.type) and field.name not in _WORDS | {"projectId"}:
            checks.text(field.name)


def _insert(connection: duckdb.DuckDBPyConnection, valid: ValidRows, project: Project) -> dict[str, int]:
    valid.reject_stored(connection, "interactions", "_id")
    reject_erased(connection, valid, of_interactions(valid.rows))
    with valid.replace_stored(
        connection, "interactions", "_id", changed="updateDate", filled=("integrationId",)
    ) as replaced:
        _delete_hits(connection, valid, replaced)
        implicit = insert_implicit_nodes(connection, valid, project, column="nodeId", kind="channel")
        rows = surviving(connection, valid.rows)
        connection.execute(
            "CREATE TEMP TABLE returning_users AS SELECT DISTINCT userId FROM interactions "
            f"WHERE userId IN (SELECT userId FROM {rows}) UNION SELECT userId FROM {replaced}"
        )
        position = 'row_number() OVER (PARTITION BY "userId" ORDER BY "startDate", "_id")'
        values = {"userLifetimeIndex": position, "integrationId": _integration(valid)}
        loaded = valid.insert(connection, "interactions", values=values, rows=rows)
        register(connection, f"(SELECT userId, ingestedAt AS seen FROM {rows})")
        # Renumber users who have stored interactions.
        renumber(connection, "SELECT userId FROM temp.returning_users")
        connection.execute("DROP TABLE temp.returning_users")
        remove_absent(connection, replaced)
    if "userData" in valid.staged.columns:
        # Replacing records come from a service that has merged users already.
        assign_identities(
            connection, of_interactions(rows), naive(instants.now()), may_merge=not valid.is_replacing
        )
    return {"interactions": loaded, "implicit_nodes": implicit}


def _integration(valid: ValidRows) -> str:
    """Return SQL for the integration of a row: its own, else that of a session's node (G-225)."""
    of_node = (
        f"CASE WHEN valid.type = 'session' THEN (SELECT owner.integrationId FROM {INTEGRATIONS} AS owner "
        "WHERE owner._id = valid.nodeId) END"
    )
    return f"coalesce(valid.integrationId, {of_node})" if "integrationId" in valid.staged.columns else of_node


def _delete_hits(connection: duckdb.DuckDBPyConnection, valid: ValidRows, replaced: str) -> None:
    """Delete hits of replaced sessions with other counts; they are loaded again, or unknown (R036)."""
    if not valid.is_replacing:
        return
    counts = {
        name: f"loaded.{quoted(name)}" if name in valid.staged.columns else "NULL"
        for name in ("hitCount", "firstHitId")
    }
    differs = " OR ".join(f"stored.{quoted(name)} IS DISTINCT FROM {value}" for name, value in counts.items())
    connection.execute(
        f"DELETE FROM hits WHERE sessionId IN (SELECT stored._id FROM {replaced} AS stored "
        f"JOIN {valid.rows} AS loaded USING (_id) WHERE {differs})"
    )
