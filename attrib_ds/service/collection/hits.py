"""Accepts the hits of pages, and puts them into sessions soon after."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import duckdb
import msgspec

from attrib_ds import instants
from attrib_ds.contract.hits import CollectHit
from attrib_ds.instants import naive
from attrib_ds.records.export_tables import url_parts
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.collection.sessions import RAW, collect
from attrib_ds.service.identity.identities import TRACKER
from attrib_ds.service.identity.tombstones import buried_rows, identity_kind
from attrib_ds.service.store.intake import Intake
from attrib_ds.service.store.queue import HITS
from attrib_ds.service.store.store import Store
from attrib_ds.service.store.tables import TABLES, HexIds, arrow_view, as_arrow, insert_records

_MOST_WAITING: Final = 50_000
#: Number of hits that one transaction puts into sessions.
_LARGEST_PORTION: Final = 5_000
#: A transaction costs about the same for one hit and for hundreds.
_SECONDS_TO_GATHER: Final = 0.5
_SECONDS_TO_CLOSE: Final = 10.0


def pending_hit(
    hit: CollectHit,
    *,
    id: str,
    tracker_id: str,
    user_agent: str,
    is_bot: bool = False,
    address: str | None = None,
) -> dict[str, Any]:
    """Return the row of the table ``pending_hits`` for a hit received now.

    The address is that of a client whom a traffic filter captures, and None for others.
    """
    return {
        "id": id,
        "trackerId": tracker_id,
        # A browser may tell microseconds, which no instant keeps.
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


class HitIntake(Intake[dict[str, Any], None, dict[str, Any]]):
    """The hits of a project on their way into sessions; those of one browser are processed one at a time."""

    def __init__(self, store: Store) -> None:
        super().__init__(
            store,
            HITS,
            most_waiting=_MOST_WAITING,
            most=_LARGEST_PORTION,
            seconds_to_gather=_SECONDS_TO_GATHER,
        )

    def resume(self) -> None:
        """Move what an earlier process accepted, and what it or a release before the queue set aside."""
        queue = self._store.queue
        with self._store.cursor() as cursor:
            kept = cursor.execute("FROM pending_hits ORDER BY rowid").to_arrow_table().to_pylist()
        if kept:
            with queue.transaction():
                self._put(kept)
            ids = [[record["id"] for record in kept]]
            remove = "DELETE FROM pending_hits WHERE id IN (SELECT unnest(?))"
            self._store.write(lambda connection: connection.execute(remove, ids))
        super().resume()

    def close(self, *, timeout: float = _SECONDS_TO_CLOSE) -> None:
        """Move what was accepted, then stop; after a timeout the next process goes on."""
        super().close(timeout=timeout)

    def _put(self, items: Sequence[dict[str, Any]]) -> list[None]:
        queue = self._store.queue
        for record in items:
            queue.put(HITS, record["id"], msgspec.json.encode(record))
        return [None] * len(items)

    def _read(self, contents: Sequence[bytes]) -> list[dict[str, Any]]:
        records = [msgspec.json.decode(content) for content in contents]
        return [record | {"serverDate": datetime.fromisoformat(record["serverDate"])} for record in records]

    def _write(self, connection: duckdb.DuckDBPyConnection, entries: Sequence[dict[str, Any]]) -> None:
        # A hit sent by a server without databases of places has fewer columns.
        records = [dict.fromkeys(TABLES["pending_hits"]) | record for record in entries]
        _collect(connection, records, project_id=self._store.meta.project_id, ids=self._store.ids)

    def _set_aside(self, connection: duckdb.DuckDBPyConnection, entry: dict[str, Any]) -> None:
        # Tried again when the project is opened.
        insert_records(connection, "pending_hits", [entry])


def _collect(
    connection: duckdb.DuckDBPyConnection, records: Sequence[dict[str, Any]], *, project_id: str, ids: HexIds
) -> None:
    """Put hits into sessions, inside a transaction; hits that the tables have are left out."""
    with arrow_view(connection, as_arrow("pending_hits", records)) as view:
        connection.execute(f"CREATE TEMP TABLE taken_hits AS FROM {view}")
    marks = (
        f"SELECT id AS row, {literal(identity_kind(TRACKER))} AS kind, trackerId AS value, serverDate AS seen"
    )
    erased = buried_rows(connection, f"({marks} FROM temp.taken_hits)")
    if erased is not None:
        # Of a person who was erased meanwhile.
        connection.execute(f"DELETE FROM temp.taken_hits WHERE id IN ({erased})")
    now = instants.now().strftime("TIMESTAMP '%Y-%m-%d %H:%M:%S.%f'")
    collect(connection, f"({_raw_hits()}) AS raw", project_id=project_id, now=now, ids=ids)
    connection.execute("DROP TABLE temp.taken_hits")


def _raw_hits() -> str:
    """Return the query of the taken hits with the columns that raw hits have."""
    given = {name: quoted(name) for name in TABLES["pending_hits"]} | url_parts(quoted("pageUrl"), "pageUrl")
    columns = [f"{given.get(name, f'CAST(NULL AS {kind})')} AS {quoted(name)}" for name, kind in RAW.items()]
    return f"SELECT {', '.join(columns)} FROM temp.taken_hits"
