"""Gives out and erases all data of a user."""

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import instants, json_numbers, schema, sql_results
from attrib_ds.contract import Answer
from attrib_ds.contract import users as contract
from attrib_ds.records import json_records, sources
from attrib_ds.service.events import retention, states
from attrib_ds.service.identity import identities, merging, tombstones
from attrib_ds.service.store import tables
from attrib_ds.service.store.store import Store, writes
from attrib_ds.service.users.search import get_user, in_order

_EVENTS: Final = "SELECT _id FROM events WHERE userId = ? ORDER BY eventDate, _id"
_HISTORY: Final = (
    "SELECT * FROM metric_history WHERE eventId IN (SELECT unnest(?)) ORDER BY eventId, key, updatedAt"
)


def export_user_data(store: Store, request: contract.ExportUserData) -> Answer:
    """Return all data of a user as one object.

    ``user``, ``identities``, ``mergedUserIds``, ``interactions``, ``hits``, ``events``, ``rawEvents`` and
    ``earlierMetrics`` (values replaced by updates), each as in its resource.
    """
    user = get_user(store, request).read()
    with store.read() as backend:
        connection = backend.con
        of_user = [merging.find_survivor(connection, request.id)]
        ids = [id for (id,) in connection.execute(_EVENTS, of_user).fetchall()]
        names = connection.execute(
            "SELECT kind, value FROM identities WHERE userId = ? ORDER BY kind, value", of_user
        ).fetchall()
        merged = connection.execute("SELECT _id FROM merged_users WHERE userId = ? ORDER BY _id", of_user)
        own = "interactions WHERE userId = ? ORDER BY startDate, _id"
        own_hits = (
            "hits WHERE sessionId IN (SELECT _id FROM interactions WHERE userId = ?) ORDER BY serverDate, id"
        )
        sent = f"raw_events WHERE _id IN ({_EVENTS}) ORDER BY createdAt, _id"
        data = {
            "user": _records(user, "User")[0],
            "identities": [{"kind": kind, "value": value} for kind, value in names],
            "mergedUserIds": [id for (id,) in merged.fetchall()],
            "interactions": _records(
                tables.read_table(connection, own, of_user, schema.INTERACTION), "Interaction"
            ),
            "hits": _records(tables.read_table(connection, own_hits, of_user, schema.HIT), "Hit"),
            "events": _records(in_order(states.read_events(connection, ids), ids), "Event"),
            "rawEvents": _records(tables.read_table(connection, sent, of_user, schema.RAW_EVENT), "RawEvent"),
        }
        earlier = sql_results.read_arrow(connection, _HISTORY, [ids]).to_pylist()
    return Answer(value={**data, "earlierMetrics": _records(states.as_resource(earlier), "Metric")})


def _records(table: pa.Table, resource: str) -> list[Any]:
    texts = [text for batch in table.to_batches() for text in json_records.to_json(batch, resource=resource)]
    return [json_numbers.load_exact(text) for text in texts]


#: Columns with locations or text of users, by table.
_REVEALING: Final = {
    "interactions": (
        *("userData", "rawUserData", "externalId", "firstPage", "referrer"),
        *("firstPageUrl.search", "firstPageUrl.hash", "userAgent.ua"),
        *("geo.latitude", "geo.longitude", "geo.zipcode"),
    ),
    "hits": (
        *("pageUrl.search", "pageUrl.hash", "userAgent", "trackerId", "referrer"),
        *("geo.latitude", "geo.longitude", "geo.zipcode"),
    ),
}
#: Setting of the project: time of the first erasure since the files were compacted.
ERASED_SINCE: Final = "erasedSince"
_TIME_TO_COMPACT: Final = timedelta(days=1)
#: Of a millisecond, for the clock to advance; it may have been set back.
_MOST_WAITS: Final = 50
_OWN: Final = "CREATE TEMP TABLE {name} AS SELECT _id AS id FROM {table} WHERE userId = ?"


@writes
def delete_user(connection: Connection, store: Store, request: contract.DeleteUser) -> dict[str, Any]:
    """Erase a user; return their number and the time until which the files may have their data."""
    now = instants.naive(instants.now())
    erase(connection, merging.existing(connection, request.id), request.mode, now)
    # What comes after the answer is later than the erasure, also by clocks that advance every 16 ms.
    for _ in range(_MOST_WAITS):
        if instants.naive(instants.now()) > now:
            break
        time.sleep(0.001)
    until = None if store.path is None else instants.format((now + _TIME_TO_COMPACT).replace(tzinfo=UTC))
    return {"modifiedCount": 1, "inFilesUntil": until}


def erase(connection: Connection, id: str, mode: str, date: datetime) -> None:
    """Erase a user, and bury everything that could bring them back.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    id : str
        An existing user.
    mode : {"anonymise", "delete"}
        As in the request.
    date : datetime
        Date of the erasure, naive, in UTC; later records belong to a new user.
    """
    connection.execute(_OWN.format(name="own_events", table="events"), [id])
    connection.execute(_OWN.format(name="own_interactions", table="interactions"), [id])
    marks, others, claims = _read_person(connection, id)
    tombstones.bury(connection, marks, date)
    _delete_raw(connection, others)
    erase_events(connection, claims, date)
    trackers = [value for kind, value in marks if kind == tombstones.identity_kind(identities.TRACKER)]
    for table in ("pending_hits", "trashed_hits"):
        # Waiting hits have the id of the day or of the page in a second word.
        connection.execute(
            f"DELETE FROM {table} WHERE split_part(trackerId, ' ', 1) IN (SELECT unnest(?))", [trackers]
        )
    connection.execute(
        "DELETE FROM identities WHERE starts_with(kind, ?) AND value IN (SELECT unnest(?))",
        [identities.CLAIMED, [value for _, value in marks]],
    )
    if mode == "delete":
        _delete(connection, id)
    else:
        _anonymise(connection, id, date)
    connection.execute("DELETE FROM identities WHERE userId = ?", [id])
    connection.execute("DROP TABLE temp.own_events")
    connection.execute("DROP TABLE temp.own_interactions")


def erase_events(connection: Connection, ids: list[str], date: datetime) -> None:
    """Erase the content of computed events, and delete raw events without a computed one.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    ids : list of str
        The events.
    date : datetime
        Current time, naive, in UTC.
    """
    if tables.read_setting(connection, ERASED_SINCE) is None:
        tables.write_setting(connection, ERASED_SINCE, instants.format(date.replace(tzinfo=UTC)))
    computed = connection.execute("SELECT _id FROM events WHERE _id IN (SELECT unnest(?))", [ids]).fetchall()
    computed_ids = [id for (id,) in computed]
    _hide(connection, computed_ids, date)
    _delete_raw(connection, set(ids) - set(computed_ids))


def _read_person(connection: Connection, id: str) -> tuple[set[tuple[str, str]], list[str], list[str]]:
    """Return the marks of a user, and the ids of others' events that mention them.

    These are raw events without a computed event, and anonymous events that claim an identity of theirs.
    """
    names = set(connection.execute("SELECT kind, value FROM identities WHERE userId = ?", [id]).fetchall())
    for of_rows, table in ((identities.of_events, "events"), (identities.of_interactions, "interactions")):
        source = of_rows(f"(SELECT * FROM {table} WHERE _id IN (SELECT id FROM temp.own_{table}))")
        query = f"SELECT DISTINCT kind, value FROM ({identities.identities_query(connection, source)})"
        names |= set(connection.execute(query).fetchall())
    names = _not_of_others(connection, id, names)
    others = _mentioning(connection, names)
    nonces = connection.execute(
        "SELECT nonce FROM raw_events WHERE _id IN (SELECT id FROM temp.own_events) "
        "OR _id IN (SELECT unnest(?))",
        [others],
    ).fetchall()
    merged = connection.execute("SELECT _id FROM merged_users WHERE userId = ?", [id]).fetchall()
    marks = {(tombstones.identity_kind(kind), value) for kind, value in names}
    marks |= {(tombstones.NONCE, nonce) for (nonce,) in nonces if not tombstones.is_hidden(nonce)}
    # A hit that is sent again may have another tracker id.
    hits = connection.execute(
        "SELECT id FROM hits WHERE sessionId IN (SELECT id FROM temp.own_interactions)"
    ).fetchall()
    marks |= {(tombstones.HIT, hit) for (hit,) in hits}
    marks |= {(tombstones.USER, user) for user in (id, *(merged_id for (merged_id,) in merged))}
    anonymous = "SELECT * FROM events WHERE isAnonymous AND _id NOT IN (SELECT id FROM temp.own_events)"
    query = identities.identities_query(connection, identities.of_events(f"({anonymous})"), also="_id")
    rows = connection.execute(
        f"SELECT _id, kind, value FROM ({query}) WHERE value IN (SELECT unnest(?))",
        [[value for _, value in names]],
    ).fetchall()
    return marks, others, [event for event, *pair in rows if tuple(pair) in names]


def _not_of_others(connection: Connection, id: str, names: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Remove identities that belong to other users."""
    if not names:
        return set()
    of_others = connection.execute(
        "SELECT kind, value FROM identities WHERE userId <> ? AND value IN (SELECT unnest(?))",
        [id, [value for _, value in names]],
    ).fetchall()
    return names - set(of_others)


def _mentioning(connection: Connection, names: Iterable[tuple[str, str]]) -> list[str]:
    """Return the raw events without a computed event that contain an identity in any field."""
    values = {value.lower() for _, value in names}
    if not values:
        return []
    cursor = connection.execute(
        "SELECT _id, trackerId, data FROM raw_events WHERE _id NOT IN (SELECT _id FROM events)"
    )
    mentioning = []
    while rows := cursor.fetchmany(1_000):
        mentioning += [
            id
            for id, tracker_id, data in rows
            if (tracker_id or "").lower() in values
            or any(text.strip().lower() in values for text in _texts(json.loads(data or "null")))
        ]
    return mentioning


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _texts(member)


def _delete_raw(connection: Connection, ids: Iterable[str]) -> None:
    for table in ("raw_events", "pending_events", "trashed_events"):
        connection.execute(f"DELETE FROM {table} WHERE _id IN (SELECT unnest(?))", [list(ids)])


def _delete(connection: Connection, id: str) -> None:
    of_events = {"metrics": "eventId", "metric_history": "eventId", "raw_events": "_id", "events": "_id"}
    for table, column in of_events.items():
        connection.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT id FROM temp.own_events)")
    for table, column in {"hits": "sessionId", "interactions": "_id"}.items():
        connection.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT id FROM temp.own_interactions)")
    connection.execute("DELETE FROM users WHERE _id = ?", [id])
    connection.execute("DELETE FROM merged_users WHERE userId = ?", [id])


def _anonymise(connection: Connection, id: str, now: datetime) -> None:
    _hide(
        connection,
        [event_id for (event_id,) in connection.execute("SELECT id FROM temp.own_events").fetchall()],
        now,
    )
    for table, column in {"interactions": "_id", "hits": "sessionId"}.items():
        revealing = ", ".join(f"{sources.quoted(name)} = NULL" for name in _REVEALING[table])
        connection.execute(
            f"UPDATE {table} SET {revealing} WHERE {column} IN (SELECT id FROM temp.own_interactions)"
        )
    # Merged ids still resolve, but cannot be split any more.
    connection.execute("UPDATE merged_users SET undo = NULL WHERE userId = ?", [id])


def _hide(connection: Connection, events: list[str], now: datetime) -> None:
    of_project, by_type = retention.read_personal(connection)

    def is_personal(field: retention.Field) -> bool:
        listed = of_project | by_type.get(field.event_type, frozenset())
        return retention.is_identifying(field) or field.key in listed

    retention.redact(connection, events, now, is_personal=is_personal, whole=True)
    nonces = connection.execute(
        "SELECT _id, nonce FROM raw_events WHERE _id IN (SELECT unnest(?))", [events]
    ).fetchall()
    for event_id, nonce in nonces:
        if tombstones.is_hidden(nonce):
            continue
        connection.execute(
            "UPDATE raw_events SET nonce = ?, trackerId = NULL, fingerprint = NULL WHERE _id = ?",
            [tombstones.hidden_nonce(connection, nonce), event_id],
        )
