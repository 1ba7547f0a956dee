"""Loads hits of loaded sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract.hits import MINUTES_OF_DAY
from attrib_ds.records.sources import Source, quoted
from attrib_ds.service.loading.batch import Batch, Project, ValidRows
from attrib_ds.service.loading.checks import Checks, quote_text
from attrib_ds.service.store.ids import HEX_ID, UUID

if TYPE_CHECKING:
    import duckdb


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
        With the count ``hits``.

    Raises
    ------
    InvalidRequest
        If a column is unknown.
    """
    checks = Checks(source, argument="hits")
    checks.refuse_unknown(schema.HIT.names, schema.properties(schema.HIT))
    checks.project(project.project_id)
    checks.word("id", pattern=UUID, form="a UUID", lower=True, default="CAST(uuidv7() AS VARCHAR)")
    checks.word("sessionId", pattern=HEX_ID, form="24 lower-case hexadecimal digits", required=True)
    checks.instant("serverDate", required=True, recent=True)
    checks.number("timezoneOffset", low=-MINUTES_OF_DAY, high=MINUTES_OF_DAY)
    checks.flag("isBot", default="false")
    checks.number("geo.latitude", low=-90, high=90)
    checks.number("geo.longitude", low=-180, high=180)
    checks.word("hitType", default="'pageview'")
    for field in schema.HIT:
        if pa.types.is_string(field.type) and field.name not in {"id", "projectId", "sessionId", "hitType"}:
            checks.text(field.name)
    staged = checks.stage(connection)
    checks.unique(connection, staged, "id")
    return Batch(staged, "id", _insert)


def _insert(connection: duckdb.DuckDBPyConnection, valid: ValidRows) -> dict[str, int]:
    valid.reject_stored(connection, "hits", "id")
    session = quote_text(quoted("sessionId"))
    sessions = "LEFT JOIN interactions AS session ON staged.sessionId = session._id"
    valid.reject(
        connection,
        f"SELECT row, 'sessionId: ' || {session} || ' is not an interaction of this project' "
        f"FROM {valid.staged.relation} AS staged {sessions} "
        "WHERE staged.sessionId IS NOT NULL AND session._id IS NULL",
    )
    valid.reject(
        connection,
        f"SELECT row, 'sessionId: ' || {session} || ' is offline and has no hits' "
        f"FROM {valid.staged.relation} AS staged {sessions} WHERE session.type = 'offline'",
    )
    with valid.replace_stored(connection, "hits", "id") as replaced:
        touched = f"SELECT sessionId FROM {valid.rows} UNION SELECT sessionId FROM {replaced}"
        connection.execute(f"CREATE TEMP TABLE touched_sessions AS {touched}")
        loaded = valid.insert(connection, "hits")
    # A session counts the hits that can be listed (R036) and was opened by one of them (R035).
    connection.execute(
        "UPDATE interactions SET hitCount = counted.hits, firstHitId = counted.opening FROM ("
        "SELECT hits.sessionId, count(*) AS hits, "
        "coalesce(max(hits.id) FILTER (hits.id = session.firstHitId), "
        "first(hits.id ORDER BY hits.serverDate, hits.id)) AS opening "
        "FROM hits JOIN interactions AS session ON session._id = hits.sessionId "
        "WHERE hits.sessionId IN (SELECT sessionId FROM temp.touched_sessions) GROUP BY hits.sessionId"
        ") AS counted WHERE interactions._id = counted.sessionId"
    )
    connection.execute("DROP TABLE temp.touched_sessions")
    return {"hits": loaded}
