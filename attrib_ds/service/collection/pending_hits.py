"""Hits that were accepted and are not in a session yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds import instants
from attrib_ds.instants import naive
from attrib_ds.records.export_tables import url_parts
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.collection.collected_hits import RAW, collect
from attrib_ds.service.identity.resolution import TRACKER
from attrib_ds.service.identity.tombstones import buried_rows, identity_kind
from attrib_ds.service.store.table_access import insert_records
from attrib_ds.service.store.table_definitions import TABLES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    import duckdb

    from attrib_ds.contract.hits import CollectHit
    from attrib_ds.service.store.ids import HexIds


def pending_hit(
    hit: CollectHit,
    *,
    id: str,
    tracker_id: str,
    user_agent: str,
    is_bot: bool = False,
    address: str | None = None,
) -> dict[str, Any]:
    """Return the row of the table ``pending_hits`` for a hit received now (G-189).

    The address is that of a client whom a traffic filter captures, and None for others (G-199).
    """
    return {
        "id": id,
        "trackerId": tracker_id,
        # A browser may tell microseconds, which no instant keeps (G-224).
        "serverDate": naive(instants.truncate(instants.now() - hit.delay)),
        "timezoneOffset": hit.timezoneOffset,
        "isBot": is_bot,
        "userAgent": user_agent,
        "pageUrl": hit.pageUrl,
        # A visit without one has the same as a loaded hit without one.
        "referrer": hit.referrer or None,
        "hitType": hit.hitType,
        "address": address,
    }


def insert_pending(connection: duckdb.DuckDBPyConnection, records: Sequence[dict[str, Any]]) -> None:
    """Insert hits, inside a transaction."""
    insert_records(connection, "pending_hits", records)


def find_pending(connection: duckdb.DuckDBPyConnection, *, most: int, without: Collection[str]) -> list[str]:
    """Return the ids of the first pending hits, without those of some ids."""
    rows = connection.execute(
        "SELECT id FROM pending_hits WHERE id NOT IN (SELECT unnest(?)) "
        "GROUP BY id ORDER BY min(rowid) LIMIT ?",
        [list(without), most],
    ).fetchall()
    return [id for (id,) in rows]


def collect_pending(
    connection: duckdb.DuckDBPyConnection, hit_ids: Sequence[str], *, project_id: str, ids: HexIds
) -> int:
    """Put pending hits into sessions, each hit once; return the number of new hits.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    hit_ids : sequence of str
        From :func:`find_pending`. Of hits with the same id one counts.
    project_id : str
        The project.
    ids : HexIds
        Generates the ids of new users.
    """
    connection.execute(
        "CREATE TEMP TABLE taken_hits AS SELECT * FROM pending_hits WHERE id IN (SELECT unnest(?))",
        [list(hit_ids)],
    )
    marks = (
        f"SELECT id AS row, {literal(identity_kind(TRACKER))} AS kind, trackerId AS value, serverDate AS seen"
    )
    erased = buried_rows(connection, f"({marks} FROM temp.taken_hits)")
    if erased is not None:
        # Of a person who was erased meanwhile (G-209).
        connection.execute(f"DELETE FROM temp.taken_hits WHERE id IN ({erased})")
    now = instants.now().strftime("TIMESTAMP '%Y-%m-%d %H:%M:%S.%f'")
    counts = collect(connection, f"({_raw_hits()}) AS raw", project_id=project_id, now=now, ids=ids)
    connection.execute("DELETE FROM pending_hits WHERE id IN (SELECT unnest(?))", [list(hit_ids)])
    connection.execute("DROP TABLE temp.taken_hits")
    return counts["hits"]


def _raw_hits() -> str:
    """Return the query of the taken hits with the columns that raw hits have."""
    given = {name: quoted(name) for name in TABLES["pending_hits"]} | url_parts(quoted("pageUrl"), "pageUrl")
    columns = [f"{given.get(name, f'CAST(NULL AS {kind})')} AS {quoted(name)}" for name, kind in RAW.items()]
    return f"SELECT {', '.join(columns)} FROM temp.taken_hits"
