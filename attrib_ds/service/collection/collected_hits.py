"""Stores raw hits and recomputes the sessions around them (G-190 to G-192)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.campaigns import INTEGRATIONS
from attrib_ds.service.collection.resolution import resolve_hits
from attrib_ds.service.collection.session_breaks import LONGEST, TIMEOUT, split_into_sessions
from attrib_ds.service.collection.user_agents import COLUMNS, describe
from attrib_ds.service.identity.lifetime_index import renumber
from attrib_ds.service.identity.registry import register, remove_absent
from attrib_ds.service.identity.resolution import TRACKER
from attrib_ds.service.store.table_access import arrow_view
from attrib_ds.service.store.table_definitions import TABLES

if TYPE_CHECKING:
    import duckdb

    from attrib_ds.service.store.ids import HexIds

#: Columns of ``hits`` that the service computes.
_COMPUTED: Final = frozenset(
    {"projectId", "sessionId", "referrerType", "nodeId", "isCampaign", "trafficFilterId"}
)
#: Columns of hits that :func:`collect` takes; the address is not stored.
RAW: Final = {
    **{name: kind for name, kind in TABLES["hits"].items() if name not in _COMPUTED},
    "address": "VARCHAR",
}
_OF_SESSIONS: Final = ("id", "trackerId", "serverDate", "nodeId", "isBot", "isCampaign")
#: Columns of a session with the value of its first hit, by column of the hit.
_OF_FIRST_HIT: Final = {
    "nodeId": "nodeId",
    "referrer": "referrer",
    "referrerType": "referrerType",
    "trafficFilterId": "trafficFilterId",
    "userAgent.ua": "userAgent",
    **{f"firstPageUrl.{part}": f"pageUrl.{part}" for part in schema.URL_PARTS},
    **{name: name for group in ("asn", "geo") for name in schema.leaves(schema.HIT, group)},
}
_PAGE: Final = " || ".join(
    f"coalesce({quoted(f'pageUrl.{part}')}, '')" for part in ("origin", "pathname", "search", "hash")
)


def collect(
    connection: duckdb.DuckDBPyConnection, hits: str, *, project_id: str, now: str, ids: HexIds
) -> dict[str, int]:
    """Store new hits, and recompute the sessions of their trackers around their times.

    Sessions, their ids, users' counters and nodes depend on the hits alone, not on the order or the portions
    in which they arrive. A session has the id of its first hit, hashed.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    hits : str
        Relation in SQL, for a FROM clause, with the columns :data:`RAW`; hits that are stored are skipped.
    project_id : str
        The project.
    now : str
        SQL for the time of receipt.
    ids : HexIds
        Generates the ids of new users.

    Returns
    -------
    dict of str to int
        Numbers of new ``hits``, ``interactions`` (the difference) and ``implicit_nodes``.
    """
    new_hits = _find_new(connection, hits)
    nodes = resolve_hits(connection, new_hits, project_id=project_id, now=now, into="arrived_hits")
    _assign_trackers(connection, ids)
    since = _since(connection)
    _gather_nearby(connection, since)
    split_into_sessions(connection, "temp.nearby_hits", into="session_hits")
    connection.execute("DROP TABLE temp.nearby_hits")
    _create_sessions(connection, project_id, since)
    counts = {"hits": _store_hits(connection, project_id, since), "interactions": 0, "implicit_nodes": nodes}
    # After the new hits are stored, which may be the first of their session.
    connection.execute(
        "CREATE TEMP TABLE first_hits AS "
        f"SELECT hits.* FROM hits SEMI JOIN temp.sessions ON firstHitId = hits.id WHERE serverDate >= {since}"
    )
    _describe_agents(connection)
    counts["interactions"] = _store_sessions(connection, project_id=project_id, now=now, since=since)
    for table in ("known_hits", "arrived_hits", "session_hits", "sessions", "first_hits", "session_agents"):
        connection.execute(f"DROP TABLE temp.{table}")
    return counts


def _find_new(connection: duckdb.DuckDBPyConnection, hits: str) -> str:
    """Return the hits that are not stored, each once; creates ``known_hits``, the ids of the others."""
    # Stored ids are read once. A join, which hashes the few new ids; IN would hash all stored ones.
    connection.execute(
        f"CREATE TEMP TABLE known_hits AS SELECT DISTINCT id FROM hits SEMI JOIN {hits} USING (id)"
    )
    new = f"(SELECT * FROM {hits} ANTI JOIN temp.known_hits USING (id)) AS new_hits"
    repeated = f"SELECT 1 FROM {new} GROUP BY id HAVING count(*) > 1 LIMIT 1"
    if connection.execute(repeated).fetchone() is None:
        return new
    first = "row_number() OVER (PARTITION BY id ORDER BY serverDate, trackerId) = 1"
    return f"(SELECT * FROM {new} QUALIFY {first}) AS new_hits"


def _since(connection: duckdb.DuckDBPyConnection) -> str:
    """Return SQL for an instant before every session that new hits can change.

    Tables are read from there on, which skips most of them when hits arrive as they happen. A session that
    began earlier ended more than the timeout before the first new hit. Its later hits may be read, but no
    session of a run of hits without a new one is recomputed.
    """
    margin = LONGEST + TIMEOUT
    ((since,),) = connection.execute(
        f"SELECT min(serverDate) - to_milliseconds({margin}) FROM temp.arrived_hits"
    ).fetchall()
    return "CAST(NULL AS TIMESTAMP)" if since is None else f"TIMESTAMP '{since}'"


def _gather_nearby(connection: duckdb.DuckDBPyConnection, since: str) -> None:
    """Create ``nearby_hits``: the new hits, and the stored ones that may change their session.

    The sessions of a tracker are settled up to the last one that opened before its first new hit.
    """
    names = ", ".join(_OF_SESSIONS)
    connection.execute(
        f"""
        CREATE TEMP TABLE nearby_hits AS
        WITH arrivals AS (
            SELECT trackerId, min(serverDate) AS first_arrival FROM temp.arrived_hits GROUP BY trackerId
        ), stored AS (
            SELECT {names}, sessionId FROM hits
            WHERE serverDate >= {since} AND trackerId IN (SELECT trackerId FROM arrivals)
        ), openings AS (
            SELECT trackerId, min((serverDate, id)) AS opening, min(serverDate) AS opened
            FROM stored GROUP BY trackerId, sessionId
        ), settled AS (
            SELECT trackerId, max(opening) AS opening FROM openings JOIN arrivals USING (trackerId)
            WHERE opened < first_arrival GROUP BY trackerId
        )
        SELECT stored.* FROM stored LEFT JOIN settled USING (trackerId)
        WHERE opening IS NULL OR (serverDate, stored.id) >= opening
        UNION ALL SELECT {names}, NULL FROM temp.arrived_hits
        """
    )


def _assign_trackers(connection: duckdb.DuckDBPyConnection, ids: HexIds) -> None:
    """Give each unknown tracker a new user (G-146)."""
    unknown = (
        "(SELECT DISTINCT trackerId AS value FROM temp.arrived_hits ANTI JOIN "
        f"(SELECT value AS trackerId FROM identities WHERE kind = {literal(TRACKER)}) USING (trackerId))"
    )
    ((count,),) = connection.execute(f"SELECT count(*) FROM {unknown}").fetchall()
    id = ids.many("row_number() OVER (ORDER BY value) - 1", count=count)
    connection.execute(
        f"INSERT INTO identities SELECT {literal(TRACKER)}, value, {id} FROM {unknown} AS unknown"
    )


def _create_sessions(connection: duckdb.DuckDBPyConnection, project_id: str, since: str) -> None:
    """Create ``sessions``: the recomputed sessions with the user and dates of the stored ones."""
    stored = f"(SELECT * FROM interactions WHERE startDate >= {since})"
    holder = f"(SELECT value AS trackerId, userId AS holder FROM identities WHERE kind = {literal(TRACKER)})"
    connection.execute(
        f"""
        CREATE TEMP TABLE sessions AS
        WITH grouped AS (
            SELECT firstHitId, any_value(trackerId) AS trackerId, min(serverDate) AS startDate,
                max(serverDate) AS endDate, count(*) AS hitCount, bool_and(isBot) AS isBot,
                -- The stored session that goes on in this one.
                arg_min(sessionId, (serverDate, id)) FILTER (sessionId IS NOT NULL) AS storedId
            FROM temp.session_hits GROUP BY firstHitId
        )
        SELECT left(sha256({literal(f"{project_id} ")} || grouped.firstHitId), 24) AS _id,
            grouped.*, coalesce(stored.userId, holder) AS userId, stored.ingestedAt, stored.updateDate,
            stored.endDate IS NOT DISTINCT FROM grouped.endDate
                AND stored.hitCount IS NOT DISTINCT FROM grouped.hitCount AS is_unchanged
        FROM grouped JOIN {holder} USING (trackerId)
        LEFT JOIN {stored} AS stored ON stored._id = grouped.storedId
        """
    )


def _store_hits(connection: duckdb.DuckDBPyConnection, project_id: str, since: str) -> int:
    """Insert the new hits, and move stored hits to their session; return the number of new ones."""
    # A table, whose size the optimizer knows: the join below then hashes it, and not the wide rows of hits.
    connection.execute(
        "CREATE TEMP TABLE assignments AS SELECT hit.id, hit.sessionId AS former, sessions._id AS sessionId "
        "FROM temp.session_hits AS hit JOIN temp.sessions USING (firstHitId)"
    )
    values = {"projectId": literal(project_id), "sessionId": "session.sessionId"}
    columns = ", ".join(quoted(name) for name in TABLES["hits"])
    selected = ", ".join(values.get(name, f"hit.{quoted(name)}") for name in TABLES["hits"])
    inserted = connection.execute(
        f"INSERT INTO hits ({columns}) SELECT {selected} FROM temp.arrived_hits AS hit "
        "JOIN temp.assignments AS session USING (id)"
    ).fetchall()[0][0]
    moved = "(SELECT id, sessionId FROM temp.assignments WHERE former <> sessionId)"
    connection.execute(
        f"UPDATE hits SET sessionId = moved.sessionId FROM {moved} AS moved "
        f"WHERE hits.id = moved.id AND hits.serverDate >= {since}"
    )
    connection.execute("DROP TABLE temp.assignments")
    return int(inserted)


def _describe_agents(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``session_agents``: the properties of each distinct user agent of the sessions."""
    texts = [
        text
        for (text,) in connection.execute(
            "SELECT DISTINCT userAgent FROM temp.first_hits WHERE userAgent IS NOT NULL"
        ).fetchall()
    ]
    described = [describe(text) for text in texts]
    columns = {name: [row[position] for row in described] for position, name in enumerate(COLUMNS)}
    arrays = {name: pa.array(values, pa.string()) for name, values in ({"ua": texts} | columns).items()}
    with arrow_view(connection, pa.table(arrays)) as view:
        connection.execute(f"CREATE TEMP TABLE session_agents AS FROM {view}")


def _store_sessions(connection: duckdb.DuckDBPyConnection, *, project_id: str, now: str, since: str) -> int:
    """Replace the stored sessions by the recomputed ones; return how many more there are."""
    connection.execute(
        "CREATE TEMP TABLE former_sessions AS SELECT _id, userId FROM interactions "
        f"WHERE startDate >= {since} "
        "AND _id IN (SELECT sessionId FROM temp.session_hits WHERE sessionId IS NOT NULL)"
    )
    removed = connection.execute(
        f"DELETE FROM interactions WHERE startDate >= {since} "
        "AND _id IN (SELECT _id FROM temp.former_sessions)"
    ).fetchall()[0][0]
    connection.execute(
        "CREATE TEMP TABLE returning_users AS SELECT DISTINCT userId FROM interactions "
        "WHERE userId IN (SELECT userId FROM temp.sessions UNION SELECT userId FROM temp.former_sessions)"
    )
    values = {
        "projectId": literal(project_id),
        "type": "'session'",
        "userLifetimeIndex": "row_number() OVER (PARTITION BY userId ORDER BY startDate, session._id)",
        "duration": "(epoch_us(endDate) - epoch_us(startDate)) / 1e6",
        "ingestedAt": f"coalesce(session.ingestedAt, {now})",
        "updateDate": f"CASE WHEN storedId IS NULL OR is_unchanged THEN session.updateDate ELSE {now} END",
        "userData": "CAST(json_object('trackerId', session.trackerId) AS VARCHAR)",
        "integrationId": "owner.integrationId",
        "firstPage": f"NULLIF({_PAGE}, '')",
        **{name: f"session.{name}" for name in ("_id", "userId", "startDate", "endDate", "firstHitId")},
        **{name: f"session.{name}" for name in ("hitCount", "isBot")},
        **{name: f"hit.{quoted(column)}" for name, column in _OF_FIRST_HIT.items()},
        **{name: f"agent.{quoted(name)}" for name in COLUMNS},
    }
    columns = ", ".join(quoted(name) for name in values)
    inserted = connection.execute(
        f"INSERT INTO interactions ({columns}) SELECT {', '.join(values.values())} "
        "FROM temp.sessions AS session JOIN temp.first_hits AS hit ON hit.id = session.firstHitId "
        "LEFT JOIN temp.session_agents AS agent ON agent.ua = hit.userAgent "
        f"LEFT JOIN {INTEGRATIONS} AS owner ON owner._id = hit.nodeId"
    ).fetchall()[0][0]
    register(connection, f"(SELECT userId, {now} AS seen FROM temp.sessions)")
    renumber(connection, "SELECT userId FROM temp.returning_users")
    remove_absent(connection, "temp.former_sessions")
    for table in ("former_sessions", "returning_users"):
        connection.execute(f"DROP TABLE temp.{table}")
    return int(inserted - removed)
