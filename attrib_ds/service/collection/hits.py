"""Accepts the hits of pages, stores them, and recomputes the sessions around them."""

import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import instants, schema, sql_results
from attrib_ds.contract.interactions import CollectHit
from attrib_ds.errors import ServiceFailure
from attrib_ds.instants import naive
from attrib_ds.records import sources
from attrib_ds.service.campaigns import integrations_of
from attrib_ds.service.collection import daily_visitors, traffic_sources
from attrib_ds.service.identity import identities, merging, tombstones
from attrib_ds.service.interactions import id_of_session
from attrib_ds.service.store import intake, tables
from attrib_ds.service.store.queue import HITS
from attrib_ds.service.store.settings import read_settings
from attrib_ds.service.store.store import Store
from attrib_ds.traffic import agents, sessions
from attrib_ds.traffic.sources import LONGEST_SENT_URL, TrafficSource

_MOST_WAITING: Final = 50_000
#: Most hits that one transaction puts into sessions.
_LARGEST_PORTION: Final = 5_000
#: A transaction costs about the same for one hit and for hundreds, so that hits gather while nobody reads.
_ENOUGH: Final = 1_000
_SECONDS_TO_GATHER: Final = 300.0
_log: Final = logging.getLogger(__name__)


def pending_hit(
    hit: CollectHit,
    *,
    id: str,
    tracker_id: str,
    user_agent: str,
    is_bot: bool = False,
    address: str | None = None,
    received: datetime | None = None,
) -> dict[str, Any]:
    """Return the row of the table ``pending_hits`` for a hit, received now by default.

    The address is that of a client whom a traffic filter captures, and None for others.
    """
    now = instants.now()
    longest = LONGEST_SENT_URL
    url, referrer = hit.pageUrl, hit.referrer
    return {
        "id": id,
        "trackerId": tracker_id,
        # A browser may tell microseconds, which no instant keeps.
        "serverDate": naive(instants.truncate(hit.happened(received or now))),
        "ingestedAt": naive(now),
        "timezoneOffset": hit.timezoneOffset,
        "isBot": is_bot,
        "truncated": max(len(url), len(referrer)) > longest or len(user_agent) > agents.LONGEST_AGENT,
        "userAgent": user_agent[: agents.LONGEST_AGENT],
        "pageUrl": url[:longest],
        # A visit without one has the same as a loaded hit without one.
        "referrer": referrer[:longest] or None,
        "hitType": hit.hitType,
        "address": address,
    }


class HitIntake(intake.TableIntake[dict[str, Any], None, dict[str, Any]]):
    """The hits of a project on their way into sessions; those of one browser are processed one at a time."""

    def __init__(self, store: Store) -> None:
        super().__init__(
            store,
            HITS,
            most_waiting=_MOST_WAITING,
            most=_LARGEST_PORTION,
            enough=_ENOUGH,
            seconds_to_gather=_SECONDS_TO_GATHER,
        )

    def resume(self) -> None:
        """Move what an earlier process accepted, and what it or a release before the queue set aside."""
        queue = self._store.queue
        with self._store.cursor() as cursor:
            kept = sql_results.read_arrow(cursor, "FROM pending_hits ORDER BY rowid").to_pylist()
        if kept:
            with queue.transaction():
                self._put(kept)
            ids = [[record["id"] for record in kept]]
            remove = "DELETE FROM pending_hits WHERE id IN (SELECT unnest(?))"
            self._store.write(lambda connection: connection.execute(remove, ids))
        super().resume()

    def _put(self, items: Sequence[dict[str, Any]]) -> list[None]:
        queue = self._store.queue
        for record in items:
            # One that comes again counts once, but which of them is decided when they are stored.
            queue.put(HITS, None, msgspec.json.encode(record))
        return [None] * len(items)

    def _read(self, contents: Sequence[bytes]) -> list[dict[str, Any]]:
        decoded = [msgspec.json.decode(content) for content in contents]
        records = [{name: record.get(name) for name in tables.TABLES["pending_hits"]} for record in decoded]
        for record in records:
            dates = [name for name in ("serverDate", "ingestedAt") if record.get(name)]
            record |= {name: datetime.fromisoformat(record[name]) for name in dates}
        return records

    def _prepare(self, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        # A hit sent by a server without databases of places has fewer columns.
        records = [dict.fromkeys(tables.TABLES["pending_hits"]) | record for record in entries]
        with self._store.cursor() as cursor:
            rules = traffic_sources.Rules.read(cursor, self._store.catalog)
        with self._store.scratch() as connection:
            taken = tables.as_arrow("pending_hits", records).append_column("row", [range(len(records))])
            with tables.arrow_view(connection, taken, "taken_hits"):
                resolved = traffic_sources.resolve_hits(
                    connection, _raw_hits(), rules=rules, span=sessions.SPAN
                )
                rows = sql_results.read_arrow(connection, f"FROM {resolved.whole}")
        positions = {row: position for position, row in enumerate(rows["row"].to_pylist())}
        portion = _Portion(rows, replace(resolved, whole="temp.taken_hits"))
        return [
            record | {"portion": portion, "position": positions[row]} for row, record in enumerate(records)
        ]

    def _write(self, connection: Connection, entries: Sequence[dict[str, Any]]) -> None:
        portion: _Portion = entries[0]["portion"]
        rows = portion.rows.take([entry["position"] for entry in entries])
        with tables.arrow_view(connection, rows) as view:
            connection.execute(f"CREATE TEMP TABLE taken_hits AS FROM {view}")
        _collect(connection, portion, project_id=self._store.meta.project_id, ids=self._store.ids)
        connection.execute("DROP TABLE temp.taken_hits")

    def _set_aside(self, connection: Connection, entry: dict[str, Any]) -> None:
        # Tried again when the project is opened.
        tables.insert_records(connection, "pending_hits", [entry])


class _Portion(NamedTuple):
    """Hits whose texts were read together."""

    rows: pa.Table
    resolved: traffic_sources.ResolvedHits


def _collect(connection: Connection, portion: _Portion, *, project_id: str, ids: tables.HexIds) -> None:
    """Put the taken hits into sessions, inside a transaction; hits that the tables have are left out."""
    erased = erased_hits(connection, "temp.taken_hits")
    if erased is not None:
        # Of a person who was erased meanwhile.
        connection.execute(f"DELETE FROM temp.taken_hits WHERE row IN ({erased})")
    now = instants.now().strftime("TIMESTAMP '%Y-%m-%d %H:%M:%S.%f'")
    if portion.rows["problem"].null_count < portion.rows.num_rows:
        # They are not tried again.
        trashed = _trash(connection, "temp.taken_hits WHERE problem IS NOT NULL", now, reason="problem")
        if trashed:
            _log.error("%d hits could not be read; the table trashed_hits has them with the reason", trashed)
            connection.execute("DELETE FROM temp.taken_hits WHERE problem IS NOT NULL")
    collect_arrivals(
        connection,
        "temp.taken_hits",
        portion.resolved,
        project_id=project_id,
        now=now,
        ids=ids,
    )


def erased_hits(connection: Connection, hits: str) -> str | None:
    """Return the query of the rows of people who were erased after their date; None if nobody ever was."""
    kinds = {tombstones.identity_kind(identities.TRACKER): "trackerId", tombstones.HIT: "id"}
    marks = (
        f"SELECT row, {sources.literal(kind)} AS kind, {name} AS value, serverDate AS seen FROM {hits}"
        for kind, name in kinds.items()
    )
    return tombstones.buried_rows(connection, f"({' UNION ALL '.join(marks)})")


def collect_arrivals(
    connection: Connection,
    hits: str,
    resolved: traffic_sources.ResolvedHits,
    *,
    project_id: str,
    now: str,
    ids: tables.HexIds,
    is_anonymous: bool = True,
) -> dict[str, int]:
    """Store hits as :func:`collect` does, let the best of those with one id count, and join visits.

    Parameters
    ----------
    connection, hits, resolved, project_id, now, ids, is_anonymous
        As for :func:`collect`. Anonymous hits have ``otherTrackerId``, the second word of their tracker id.

    Returns
    -------
    dict of str to int
        As :func:`collect`.
    """
    received = naive(instants.now())
    where = {"project_id": project_id, "now": now}
    _find_known(connection, hits)
    total: Counter[str] = Counter()
    browsers = daily_visitors.new_browsers(connection, hits) if is_anonymous else {}
    rounds = daily_visitors.in_rounds(connection, hits, browsers) if is_anonymous else [hits]
    for number, arrived in enumerate(rounds):
        browsers = daily_visitors.new_browsers(connection, arrived) if number else {}
        stored = collect(connection, arrived, resolved, ids=ids, is_anonymous=is_anonymous, **where)
        whole = arrived
        if resolved.whole != hits:
            whole = f"(SELECT * FROM {resolved.whole} AS whole SEMI JOIN {arrived} AS hit USING (row))"
        ((count,),) = connection.execute(f"SELECT count(*) FROM {arrived}").fetchall()
        is_repeated = stored["hits"] < count
        changes = 0
        users: list[str] = []
        if is_repeated or browsers:
            changes += daily_visitors.find_joining(
                connection, whole, browsers, is_repeated=is_repeated, timeout=sessions.TIMEOUT
            )
            changes += _find_better(connection, arrived)
        if changes:
            better = f"(SELECT * FROM {arrived} SEMI JOIN temp.better_hits USING (row))"
            stored["implicit_nodes"] += _place(
                connection, better, resolved, is_anonymous=is_anonymous, **where
            )
            connection.execute("ALTER TABLE temp.arrived_hits RENAME TO placed_hits")
            users = daily_visitors.take_visits(connection, whole, ids, received)
            _recompute(connection, replace(resolved, whole="temp.arrived_hits"), ids=ids, **where)
            _restore_openings(connection)
        if is_repeated or browsers:
            for table in ("placed_hits", "joined_visits", "better_hits"):
                connection.execute(f"DROP TABLE IF EXISTS temp.{table}")
        if is_anonymous:
            daily_visitors.assign_pages(connection, arrived, received)
        if users:
            left = f"(SELECT unnest([{', '.join(map(sources.literal, users))}]::VARCHAR[]) AS userId)"
            merging.renumber(connection, f"SELECT userId FROM {left}")
            merging.remove_absent(connection, left, forgotten=identities.UNLINKED)
        if len(rounds) > 1:
            connection.execute(f"INSERT INTO temp.known_hits SELECT id, trackerId FROM {arrived}")
        total.update(stored)
    connection.execute("DROP TABLE temp.known_hits")
    return dict(total)


def rank(hit: str = "") -> str:
    """Return SQL for what decides which of the hits with one id counts: the first in this order.

    One with an id that its browser keeps comes before one of the day, then the earliest. The texts decide
    among tries of one browser, which have one date.
    """
    tracker = f"{hit}trackerId"
    agent = f"coalesce({hit}userAgent, '')"
    return f"NOT {daily_visitors.is_kept(tracker)}, {hit}serverDate, {tracker}, {agent}"


def beats(hit: str, stored: str) -> str:
    """Return SQL for whether a hit counts in place of the stored one with its id.

    Stored hits without a tracker were loaded with their sessions, which are not computed.
    """
    return f"{stored}.trackerId IS NOT NULL AND ({rank(f'{hit}.')}) < ({rank(f'{stored}.')})"


def _find_better(connection: Connection, hits: str) -> int:
    """Create ``better_hits``, arrivals that count in place of the stored hit of their id; return how many."""
    best = f"(SELECT * FROM {hits} QUALIFY row_number() OVER (PARTITION BY id ORDER BY {rank()}, row) = 1)"
    ((count,),) = connection.execute(
        "CREATE TEMP TABLE better_hits AS SELECT best.row, best.id, stored.sessionId, stored.isOpening, "
        "stored.trackerId = best.trackerId AS is_of_tracker "
        f"FROM {best} AS best JOIN hits AS stored USING (id) WHERE {beats('best', 'stored')}"
    ).fetchall()
    return int(count)


def derive_again(
    connection: Connection, trackers: str, *, project_id: str, now: str, ids: tables.HexIds
) -> list[str]:
    """Compute the sessions of trackers again from their stored hits, each of which must be there once.

    Parameters
    ----------
    connection, project_id, now, ids
        As for :func:`collect`.
    trackers : str
        SQL query of tracker ids.

    Returns
    -------
    list of str
        Ids of the sessions that the hits had.
    """
    connection.execute(
        "CREATE TEMP TABLE arrived_hits AS SELECT row_number() OVER (ORDER BY rowid) AS row, *, "
        f"sessionId AS formerId FROM hits WHERE trackerId IN ({trackers})"
    )
    connection.execute(
        "CREATE TEMP TABLE openings_before AS SELECT id FROM temp.arrived_hits WHERE isOpening"
    )
    former = connection.execute("SELECT DISTINCT formerId FROM temp.arrived_hits ORDER BY 1").fetchall()
    connection.execute("DELETE FROM hits WHERE id IN (SELECT id FROM temp.arrived_hits)")
    resolved = traffic_sources.ResolvedHits("", "temp.arrived_hits", (), agents.agent_table([]))
    _recompute(connection, resolved, project_id=project_id, now=now, ids=ids)
    _restore_openings(connection)
    return [session for (session,) in former]


def _restore_openings(connection: Connection) -> None:
    """Mark the hits of ``openings_before``, which have opened a session once."""
    connection.execute("UPDATE hits SET isOpening = true WHERE id IN (SELECT id FROM temp.openings_before)")
    connection.execute("DROP TABLE temp.openings_before")


def _trash(connection: Connection, hits: str, now: str, *, reason: str) -> int:
    """Set hits aside with a reason; return how many."""
    names = [name for name in tables.TABLES["trashed_hits"] if name not in {"pageUrl", "reason", "trashedAt"}]
    kept = ", ".join(names)
    trashed = connection.execute(
        f"INSERT INTO trashed_hits ({kept}, pageUrl, reason, trashedAt) "
        f"SELECT {kept}, {_PAGE}, {reason}, {now} FROM {hits}"
    )
    return int(trashed.fetchall()[0][0])


def _raw_hits() -> str:
    """Return the taken hits with the columns that raw hits have."""
    given = {name: sources.quoted(name) for name in tables.TABLES["pending_hits"]}
    given["trackerId"] = "split_part(trackerId, ' ', 1)"
    columns = [
        f"{given.get(name, f'CAST(NULL AS {kind})')} AS {sources.quoted(name)}" for name, kind in RAW.items()
    ]
    return (
        f"(SELECT row, split_part(trackerId, ' ', 2) AS otherTrackerId, {', '.join(columns)} FROM taken_hits)"
    )


#: Wide rows that one statement joins and inserts, so that its memory does not grow with the hits. Each leaves
#: groups of rows that are not full, which are written twice.
_LARGEST_INSERT: Final = 1 << 20


def split_into_sessions(connection: Connection, hits: str, *, into: str) -> None:
    """Create a table of hits with the first hit of their session, both by numbers.

    The result depends on the set of hits only. A block is a run of hits without the timeout between them;
    blocks do not depend on each other, so that blocks without a new hit are left out.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection that can create temporary tables.
    hits : str
        Relation in SQL, for a FROM clause, with ``row``, ``id``, ``trackerId``, ``serverDate``, ``nodeId`` of
        its traffic source, ``isBot``, ``isCampaign`` (whether it may open a session because its node is
        another one), ``referrerType``, ``sessionId``, null for new hits, and ``formerId``.
    into : str
        Name of the temporary table to create: the columns of ``hits``, ``hit_number`` and ``session``, the
        number of the first hit of its session.

    Examples
    --------
    >>> import duckdb
    >>> connection = duckdb.connect()
    >>> rows = "('a', '10:00'), ('b', '10:29'), ('c', '10:59')"
    >>> _ = connection.execute("CREATE TABLE hits AS SELECT 0 AS row, id, 't' AS trackerId, "
    ...     "'direct' AS nodeId, NULL::VARCHAR AS formerId, "
    ...     "false AS isBot, false AS isCampaign, 'direct' AS referrerType, NULL::VARCHAR AS sessionId, "
    ...     f"CAST('2025-01-31 ' || time AS TIMESTAMP) AS serverDate FROM (VALUES {rows}) AS rows (id, time)")
    >>> split_into_sessions(connection, "hits", into="split_hits")
    >>> first = "any_value(id) FILTER (hit_number = session) OVER (PARTITION BY session)"
    >>> connection.execute(f"SELECT id, {first} FROM split_hits ORDER BY id").fetchall()
    [('a', 'a'), ('b', 'a'), ('c', 'c')]
    """
    split = sessions.split_sql("given_hits", ("hit_number", *_SPLIT))
    connection.execute(
        f"""
        CREATE TEMP TABLE numbered_hits AS
        WITH given_hits AS (SELECT *, row_number() OVER () AS hit_number FROM {hits})
        SELECT * EXCLUDE (is_opening),
            last_value(CASE WHEN is_opening THEN hit_number END IGNORE NULLS) OVER (
                PARTITION BY trackerId ORDER BY {", ".join(sessions.ORDERED)}) AS session
        FROM ({split})
        """
    )
    if sql_results.read_row(
        connection, "SELECT 1 FROM temp.numbered_hits WHERE sessionId IS NOT NULL LIMIT 1"
    ):
        connection.execute(
            "DELETE FROM temp.numbered_hits WHERE (trackerId, block) NOT IN "
            "(SELECT (trackerId, block) FROM temp.numbered_hits WHERE sessionId IS NULL)"
        )
    _split_long_blocks(connection)
    connection.execute(f"ALTER TABLE temp.numbered_hits RENAME TO {into}")


def _split_long_blocks(connection: Connection) -> None:
    """Apply the limits of length to blocks with a session that exceeds one."""
    limits = {"longest": sessions.LONGEST, "most_hits": sessions.MOST_HITS}
    long = sessions.long_blocks_sql("numbered_hits", **limits)
    ((count,),) = connection.execute(f"CREATE TEMP TABLE long_blocks AS {long}").fetchall()
    if count:
        of_long = "FROM temp.numbered_hits SEMI JOIN temp.long_blocks USING (trackerId, block)"
        order = ", ".join(sessions.ORDERED)
        connection.execute(
            "SELECT trackerId, block, instant, isCampaign, nodeId, hit_number "
            f"{of_long} ORDER BY trackerId, {order}"
        )
        rows = chain.from_iterable(iter(partial(connection.fetchmany, _LARGEST_PORTION), []))
        opened = pa.table({"opening": pa.array(sessions.openings(rows, **limits), pa.int64())})
        with tables.arrow_view(connection, opened) as view:
            connection.execute(
                f"UPDATE temp.numbered_hits AS hit SET session = split.session FROM (SELECT hit_number, "
                f"last_value(opening IGNORE NULLS) OVER (PARTITION BY trackerId, block ORDER BY {order}) AS "
                f"session {of_long} LEFT JOIN {view} ON opening = hit_number) AS split "
                "WHERE hit.hit_number = split.hit_number"
            )
    connection.execute("DROP TABLE temp.long_blocks")


#: Columns of ``hits`` that the service computes.
_COMPUTED: Final = frozenset(
    {"projectId", "sessionId", "referrerType", "nodeId", "isCampaign", "isOpening", "trafficFilterId"}
    | {f"pageUrl.{part}" for part in schema.URL_PARTS}
)
#: Columns of hits before their texts are read; the address is not stored.
RAW: Final = {
    **{name: kind for name, kind in tables.TABLES["hits"].items() if name not in _COMPUTED},
    **dict.fromkeys(("pageUrl", "address"), "VARCHAR"),
}
_OF_SESSIONS: Final = ("id", "trackerId", "serverDate", "nodeId", "isBot", "isCampaign", "referrerType")
#: Columns of hits that are split.
_SPLIT: Final = ("row", *_OF_SESSIONS, "sessionId", "formerId")
_FIRST: Final = f"({sessions.ORDER})"
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
    f"coalesce({sources.quoted(f'pageUrl.{part}')}, '')" for part in ("origin", "pathname", "search", "hash")
)


def collect(
    connection: Connection,
    hits: str,
    resolved: traffic_sources.ResolvedHits,
    *,
    project_id: str,
    now: str,
    ids: tables.HexIds,
    is_anonymous: bool = False,
) -> dict[str, int]:
    """Store new hits, and recompute the sessions of their trackers around their times.

    Sessions, users' counters and nodes depend on the hits alone, not on the order or the portions in which
    they arrive. A session has the id of its first hit, hashed, and keeps it while it has that hit, although
    an earlier one arrives.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    hits : str
        Those of the resolved hits to store, a relation in SQL for a FROM clause; stored ones are skipped.
    resolved : ResolvedHits
        From :func:`.traffic_sources.resolve_hits`; readable here.
    project_id : str
        The project.
    now : str
        SQL for the time of receipt.
    ids : HexIds
        Generates the ids of new users.
    is_anonymous : bool, default False
        Whether anybody may have sent them, so that the number of new nodes of a day is bounded.

    Returns
    -------
    dict of str to int
        Numbers of new ``hits``, ``interactions`` (the difference) and ``implicit_nodes``.
    """
    new_hits = _find_new(connection, hits)
    if new_hits is None:
        return {"hits": 0, "interactions": 0, "implicit_nodes": 0}
    nodes = _place(connection, new_hits, resolved, project_id=project_id, now=now, is_anonymous=is_anonymous)
    counts = _recompute(connection, resolved, project_id=project_id, now=now, ids=ids)
    return counts | {"implicit_nodes": nodes}


def _recompute(
    connection: Connection,
    resolved: traffic_sources.ResolvedHits,
    *,
    project_id: str,
    now: str,
    ids: tables.HexIds,
) -> dict[str, int]:
    """Store the hits of ``arrived_hits``, which have nodes, and recompute the sessions around them.

    Wide rows are copied only where they are stored.
    """
    _assign_trackers(connection, ids)
    since = _since(connection)
    while True:
        split_into_sessions(connection, _nearby(since), into="session_hits")
        _create_sessions(connection, project_id, since)
        connection.execute("DROP TABLE temp.session_hits")
        if not _set_repeated_aside(connection, resolved.whole, since=since, now=now):
            break
        for table in ("sessions", "assignments"):
            connection.execute(f"DROP TABLE temp.{table}")
    hits = _store_hits(connection, resolved.whole, project_id=project_id, now=now, since=since)
    interactions = _store_sessions(connection, resolved, project_id=project_id, now=now, since=since)
    for table in ("arrived_hits", "sessions", "assignments"):
        connection.execute(f"DROP TABLE temp.{table}")
    return {"hits": hits, "interactions": interactions}


#: Setting with a day, and the number of nodes that anonymous hits have created on it.
_ANONYMOUS_NODES: Final = "anonymousNodes"


def _place(
    connection: Connection,
    hits: str,
    resolved: traffic_sources.ResolvedHits,
    *,
    project_id: str,
    now: str,
    is_anonymous: bool,
) -> int:
    """Create ``arrived_hits``, new hits with the node of their source; return the number of new nodes."""
    numbers = [n for (n,) in connection.execute(f"SELECT DISTINCT source FROM {hits} ORDER BY 1").fetchall()]
    found = {n: source for n in numbers if isinstance(source := resolved.sources[n], TrafficSource)}
    used, today = 0, str(instants.now().date())
    room = None
    if is_anonymous:
        stored = sql_results.read_row(
            connection, "SELECT value FROM settings WHERE name = ?", [_ANONYMOUS_NODES]
        )
        day, count = json.loads(stored[0]) if stored else (today, 0)
        used = count if day == today else 0
        room = max(read_settings(connection).anonymous_nodes_per_day - used, 0)
    leaves, inserted = traffic_sources.place_sources(
        connection, found, project_id=project_id, now=now, most_new=room
    )
    if is_anonymous and inserted:
        connection.execute("DELETE FROM settings WHERE name = ?", [_ANONYMOUS_NODES])
        value = json.dumps([today, used + inserted])
        connection.execute("INSERT INTO settings VALUES (?, ?)", [_ANONYMOUS_NODES, value])
    columns = {"source": pa.array(leaves, pa.int64()), "nodeId": pa.array(leaves.values(), pa.string())}
    with tables.arrow_view(connection, pa.table(columns)) as view:
        connection.execute(
            f"CREATE TEMP TABLE arrived_hits AS SELECT row, {', '.join(_OF_SESSIONS)}, "
            "CAST(NULL AS VARCHAR) AS formerId "
            f"FROM {hits} JOIN {view} AS placed USING (source)"
        )
    return inserted


def _find_known(connection: Connection, hits: str) -> None:
    """Create ``known_hits``, the ids of hits that are stored, with the stored tracker."""
    # Stored ids are read once. A join, which hashes the few new ids; IN would hash all stored ones.
    connection.execute(
        f"CREATE TEMP TABLE known_hits AS SELECT DISTINCT id, trackerId FROM hits SEMI JOIN {hits} USING (id)"
    )


def _find_new(connection: Connection, hits: str) -> str | None:
    """Return the hits that are not stored, each once; None if all are."""
    new = f"(SELECT * FROM {hits} ANTI JOIN temp.known_hits USING (id)) AS new_hits"
    ((count, distinct),) = connection.execute(f"SELECT count(*), count(DISTINCT id) FROM {new}").fetchall()
    if count == distinct:
        return new if count else None
    first = f"row_number() OVER (PARTITION BY id ORDER BY {rank()}, row) = 1"
    return f"(SELECT * FROM {new} QUALIFY {first}) AS new_hits"


def _set_repeated_aside(connection: Connection, whole: str, *, since: str, now: str) -> bool:
    """Set hits aside whose id, or whose session, would be stored twice; return whether there were any.

    None of them should get here: this keeps a mistake, or a session that was loaded from another project,
    from spoiling the tables.
    """
    stored_hits = f"SELECT id FROM hits SEMI JOIN temp.arrived_hits USING (id) WHERE serverDate >= {since}"
    stored_sessions = (
        f"SELECT _id FROM interactions SEMI JOIN temp.sessions USING (_id) WHERE startDate >= {since} "
        "AND _id NOT IN (SELECT former FROM temp.assignments WHERE former IS NOT NULL)"
    )
    found = connection.execute(
        f"SELECT (SELECT count(*) FROM ({stored_hits})) + (SELECT count(*) FROM ({stored_sessions})) + "
        "(SELECT count(*) - count(DISTINCT id) FROM temp.arrived_hits) + "
        "(SELECT count(*) - count(DISTINCT _id) FROM temp.sessions)"
    ).fetchall()
    if found == [(0,)]:
        return False
    of_sessions = (
        "SELECT row, 'its session ' || _id || ' is stored already' FROM temp.assignments JOIN ("
        "SELECT session, _id, row_number() OVER (PARTITION BY _id ORDER BY session) AS place "
        "FROM temp.sessions) USING (session) WHERE row IS NOT NULL "
        f"AND (place > 1 OR _id IN ({stored_sessions}))"
    )
    connection.execute(
        "CREATE TEMP TABLE repeated_hits AS SELECT row, any_value(reason) AS reason FROM ("
        "SELECT row, 'its id is stored already' AS reason FROM temp.arrived_hits "
        "QUALIFY row_number() OVER (PARTITION BY id ORDER BY row) > 1 "
        f"OR id IN ({stored_hits}) UNION ALL {of_sessions}) GROUP BY row"
    )
    count = _trash(connection, f"{whole} AS hit JOIN temp.repeated_hits USING (row)", now, reason="reason")
    if not count:
        raise ServiceFailure("sessions would be stored twice, and no new hit is the reason")
    _log.error("%d hits would be stored twice; the table trashed_hits has them with the reason", count)
    connection.execute("DELETE FROM temp.arrived_hits WHERE row IN (SELECT row FROM temp.repeated_hits)")
    connection.execute("DROP TABLE temp.repeated_hits")
    return True


def _since(connection: Connection) -> str:
    """Return SQL for an instant before every session that new hits can change.

    Tables are read from there on, which skips most of them when hits arrive as they happen. A session that
    began earlier ended more than the timeout before the first new hit. Its later hits may be read, but no
    session of a run of hits without a new one is recomputed.
    """
    ((since,),) = connection.execute(
        f"SELECT min(serverDate) - to_milliseconds({sessions.SPAN}) FROM temp.arrived_hits"
    ).fetchall()
    return "CAST(NULL AS TIMESTAMP)" if since is None else f"TIMESTAMP '{since}'"


def _nearby(since: str) -> str:
    """Return the new hits, and the stored ones that may change their session, as a relation in SQL.

    The sessions of a tracker are settled up to the last one that opened before its first new hit.
    """
    names = ", ".join(_OF_SESSIONS)
    return f"""(
        WITH arrivals AS (
            SELECT trackerId, min(serverDate) AS first_arrival FROM temp.arrived_hits GROUP BY trackerId
        ), stored AS (
            SELECT NULL AS row, {names}, sessionId, sessionId AS formerId FROM hits
            WHERE serverDate >= {since} AND trackerId IN (SELECT trackerId FROM arrivals)
        ), openings AS (
            SELECT trackerId, min({_FIRST}) AS opening, min(serverDate) AS opened
            FROM stored GROUP BY trackerId, sessionId
        ), settled AS (
            SELECT trackerId, max(opening) AS opening FROM openings JOIN arrivals USING (trackerId)
            WHERE opened < first_arrival GROUP BY trackerId
        )
        SELECT stored.* FROM stored LEFT JOIN settled USING (trackerId)
        WHERE opening IS NULL OR {_FIRST} >= opening
        UNION ALL SELECT row, {names}, NULL, formerId FROM temp.arrived_hits
    )"""


def _assign_trackers(connection: Connection, ids: tables.HexIds) -> None:
    """Give each unknown tracker a new user."""
    unknown = (
        "(SELECT DISTINCT trackerId AS value FROM temp.arrived_hits ANTI JOIN "
        f"(SELECT value AS trackerId FROM identities WHERE kind = {sources.literal(identities.TRACKER)}) "
        "USING "
        "(trackerId))"
    )
    ((count,),) = connection.execute(f"SELECT count(*) FROM {unknown}").fetchall()
    if not count:
        return
    id = ids.many("row_number() OVER (ORDER BY value) - 1", count=count)
    connection.execute(
        f"INSERT INTO identities (kind, value, userId) SELECT {sources.literal(identities.TRACKER)}, "
        f"value, {id} FROM {unknown} AS unknown"
    )


def _create_sessions(connection: Connection, project_id: str, since: str) -> None:
    """Create ``sessions``: the recomputed sessions with the user and dates of the stored ones."""
    stored = f"(SELECT * FROM interactions WHERE startDate >= {since})"
    holder = (
        "(SELECT value AS trackerId, userId AS holder FROM identities WHERE kind = "
        f"{sources.literal(identities.TRACKER)})"
    )
    connection.execute(
        f"""
        CREATE TEMP TABLE sessions AS
        WITH grouped AS (
            SELECT session, any_value(id) FILTER (hit_number = session) AS firstHitId,
                any_value(trackerId) AS trackerId, min(serverDate) AS startDate,
                max(serverDate) AS endDate, count(*) AS hitCount, bool_and(isBot) AS isBot,
                -- The stored session that goes on in this one.
                arg_min(formerId, {_FIRST}) FILTER (formerId IS NOT NULL) AS storedId,
                -- Its id, or that of one merged with it: the hit that gave the id is in one session only.
                arg_min(formerId, {_FIRST}) FILTER (CASE WHEN formerId IS NOT NULL
                    THEN formerId = {id_of_session(project_id, "id")} END) AS keptId
            FROM temp.session_hits GROUP BY session
        ), found AS (
            SELECT coalesce(keptId, {id_of_session(project_id, "grouped.firstHitId")}) AS _id,
                grouped.* EXCLUDE (keptId), coalesce(stored.userId, holder) AS userId, stored.ingestedAt,
                stored.updateDate,
                stored.endDate IS NOT DISTINCT FROM grouped.endDate
                    AND stored.hitCount IS NOT DISTINCT FROM grouped.hitCount AS is_unchanged
            FROM grouped JOIN {holder} USING (trackerId)
            LEFT JOIN {stored} AS stored ON stored._id = grouped.storedId
        )
        SELECT *, row_number() OVER (PARTITION BY userId ORDER BY startDate, _id) AS userLifetimeIndex
        FROM found
        """
    )
    # The id only of stored hits: new ones are found by their row.
    connection.execute(
        "CREATE TEMP TABLE assignments AS "
        "SELECT row, CASE WHEN row IS NULL THEN id END AS id, nodeId, session, formerId AS former, "
        "sessions._id AS sessionId, hit_number = session AS isOpening "
        "FROM temp.session_hits JOIN temp.sessions USING (session)"
    )


def _portions(connection: Connection, column: str) -> list[str]:
    """Return conditions that divide the rows of ``assignments`` by a number."""
    ((last,),) = connection.execute(f"SELECT coalesce(max({column}), -1) FROM temp.assignments").fetchall()
    starts = range(0, last + 1, _LARGEST_INSERT)
    return [f"{column} BETWEEN {start} AND {start + _LARGEST_INSERT - 1}" for start in starts]


def _store_hits(connection: Connection, whole: str, *, project_id: str, now: str, since: str) -> int:
    """Insert the new hits, and move stored hits to their session; return the number of new ones."""
    values = {
        "projectId": sources.literal(project_id),
        **{name: f"session.{name}" for name in ("sessionId", "nodeId", "isOpening")},
        "ingestedAt": f"coalesce(hit.ingestedAt, {now})",
    }
    columns = ", ".join(sources.quoted(name) for name in tables.TABLES["hits"])
    selected = ", ".join(values.get(name, f"hit.{sources.quoted(name)}") for name in tables.TABLES["hits"])
    inserted = 0
    for portion in _portions(connection, "row"):
        inserted += connection.execute(
            f"INSERT INTO hits ({columns}) SELECT {selected} FROM {whole} AS hit "
            f"JOIN temp.assignments AS session USING (row) WHERE {portion}"
        ).fetchall()[0][0]
    ((expected,),) = connection.execute("SELECT count(row) FROM temp.assignments").fetchall()
    _check_count("hits", inserted, expected)
    if sql_results.read_row(connection, "SELECT 1 FROM temp.assignments WHERE row IS NULL LIMIT 1"):
        connection.execute(
            "UPDATE hits SET sessionId = hit.sessionId, isOpening = hits.isOpening OR hit.isOpening "
            "FROM (FROM temp.assignments WHERE row IS NULL AND (former <> sessionId OR isOpening)) AS hit "
            f"WHERE hits.id = hit.id AND hits.serverDate >= {since} "
            "AND (hits.sessionId <> hit.sessionId OR hit.isOpening > hits.isOpening)"
        )
    return inserted


def _check_count(kind: str, inserted: int, expected: int) -> None:
    """Refuse a transaction that would store rows twice, or lose some."""
    if inserted != expected:
        raise ServiceFailure(f"{inserted:,} {kind} would be stored instead of {expected:,}")


def _with_missing(connection: Connection, described: pa.Table) -> pa.Table:
    """Return user agents with those of first hits that were stored meanwhile."""
    with tables.arrow_view(connection, described) as view:
        missing = connection.execute(
            f"SELECT DISTINCT userAgent FROM temp.first_hits ANTI JOIN {view} ON ua = userAgent "
            "WHERE userAgent IS NOT NULL"
        ).fetchall()
    further = [agents.agent_table([text for (text,) in missing])] if missing else []
    return pa.concat_tables([described, *further])


def _store_sessions(
    connection: Connection, resolved: traffic_sources.ResolvedHits, *, project_id: str, now: str, since: str
) -> int:
    """Replace the stored sessions by the recomputed ones; return how many more there are."""
    ((removed,),) = connection.execute(
        "CREATE TEMP TABLE former_sessions AS SELECT _id, userId FROM interactions "
        f"WHERE startDate >= {since} "
        "AND _id IN (SELECT former FROM temp.assignments WHERE former IS NOT NULL)"
    ).fetchall()
    if removed:
        connection.execute(
            f"DELETE FROM interactions WHERE startDate >= {since} "
            "AND _id IN (SELECT _id FROM temp.former_sessions)"
        )
    ((returning,),) = connection.execute(
        "CREATE TEMP TABLE returning_users AS SELECT DISTINCT userId FROM interactions "
        "WHERE userId IN (SELECT userId FROM temp.sessions UNION SELECT userId FROM temp.former_sessions)"
    ).fetchall()
    values = {
        "projectId": sources.literal(project_id),
        "type": "'session'",
        "duration": "(epoch_us(endDate) - epoch_us(startDate)) / 1e6",
        "ingestedAt": f"coalesce(session.ingestedAt, {now})",
        "updateDate": f"CASE WHEN storedId IS NULL OR is_unchanged THEN session.updateDate ELSE {now} END",
        "userData": "CAST(json_object('trackerId', session.trackerId) AS VARCHAR)",
        "integrationId": "owner.integrationId",
        "firstPage": f"NULLIF({_PAGE}, '')",
        **{name: f"session.{name}" for name in ("_id", "userId", "startDate", "endDate", "firstHitId")},
        **{name: f"session.{name}" for name in ("hitCount", "isBot", "userLifetimeIndex")},
        **{name: f"hit.{sources.quoted(column)}" for name, column in _OF_FIRST_HIT.items()},
        **{name: f"agent.{sources.quoted(name)}" for name in agents.COLUMNS},
    }
    columns = ", ".join(sources.quoted(name) for name in values)
    placed = "(SELECT * FROM nodes WHERE _id IN (SELECT nodeId FROM temp.first_hits))"
    stored = ", ".join(f"hits.{sources.quoted(name)}" for name in _OF_FIRST_HIT.values())
    arrived = stored.replace('hits."nodeId"', "opening.nodeId").replace("hits.", "hit.")
    inserted = 0
    for portion in _portions(connection, "session"):
        openings = f"(FROM temp.assignments WHERE isOpening AND {portion}) AS opening"
        connection.execute(
            f"CREATE TEMP TABLE first_hits AS SELECT session, {arrived} FROM {resolved.whole} AS hit "
            f"JOIN {openings} USING (row) UNION ALL SELECT session, {stored} FROM hits "
            f"JOIN {openings} USING (id) WHERE serverDate >= {since}"
        )
        with tables.arrow_view(connection, _with_missing(connection, resolved.agents)) as view:
            inserted += connection.execute(
                f"INSERT INTO interactions ({columns}) SELECT {', '.join(values.values())} "
                # DuckDB hashes the second of two tables of the same transaction: the narrow one. Rows come
                # in the order of the first, that of arrival.
                "FROM temp.first_hits AS hit JOIN temp.sessions AS session USING (session) "
                f"LEFT JOIN {view} AS agent ON agent.ua = hit.userAgent "
                f"LEFT JOIN {integrations_of(placed)} AS owner ON owner._id = hit.nodeId"
            ).fetchall()[0][0]
        connection.execute("DROP TABLE temp.first_hits")
    ((expected,),) = connection.execute("SELECT count(*) FROM temp.sessions").fetchall()
    _check_count("sessions", inserted, expected)
    merging.register(connection, f"(SELECT userId, {now} AS seen FROM temp.sessions)")
    if returning:
        merging.renumber(connection, "SELECT userId FROM temp.returning_users")
    if removed:
        merging.remove_absent(connection, "temp.former_sessions", forgotten=identities.UNLINKED)
    for table in ("former_sessions", "returning_users"):
        connection.execute(f"DROP TABLE temp.{table}")
    return int(inserted - removed)
