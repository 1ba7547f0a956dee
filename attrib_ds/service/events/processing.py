"""Processes accepted events: each ends as a computed event or in the trash."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from attrib_ds.contract.json_text import encode
from attrib_ds.errors import AttribError, Unavailable
from attrib_ds.service.events.event_types import read_event_types
from attrib_ds.service.events.retention import FOR_EVER, read_policies
from attrib_ds.service.events.validation import Raw, Trash, Valid, examine, failed
from attrib_ds.service.identity.registry import register
from attrib_ds.service.identity.resolution import resolve_many
from attrib_ds.service.identity.tombstones import NONCE, bury, find_buried, identity_kind
from attrib_ds.service.store.batches import insert_records, lent, naive
from attrib_ds.service.store.cursors import CLOSED
from attrib_ds.service.store.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from attrib_ds.service.events.event_types import EventType
    from attrib_ds.service.events.retention import Policies
    from attrib_ds.service.store.store import Store

_LARGEST_BATCH: Final = 500
_SECONDS_TO_STOP: Final = 10.0
_SECONDS_TO_GATHER: Final = 0.05
_PENDING: Final = (
    "SELECT raw._id, eventType, trackerId, createdAt, eventDate, data FROM raw_events AS raw "
    "JOIN pending_events AS pending ON raw._id = pending._id "
    f"WHERE raw._id NOT IN (SELECT unnest(?)) ORDER BY pending.rowid LIMIT {_LARGEST_BATCH}"
)

#: JSON text of the errors of a trashed event; None when it was processed.
Outcome = str | None


class Processing:
    """Works through the accepted events of a project, in a thread that lives as long as there are any.

    What is accepted is listed in the table ``pending_events``. An event leaves it in the transaction that
    writes what became of it, so that a process that dies at any moment leaves it either as it was or
    processed; and the next one goes on with what is listed.

    Parameters
    ----------
    store : Store
        Where the events are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_woken = False
        self._is_stopped = False
        self._is_closing = False
        self._expected: defaultdict[str, list[Future[Outcome]]] = defaultdict(list)

    def wake(self) -> None:
        """Process what is pending; returns at once."""
        with self._changed:
            self._is_woken = True
            if self._thread is None and not self._is_stopped:
                # A daemon: an interpreter that ends leaves the rest to the next one.
                name = f"processing of {self._store.meta.project_id}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()
        if self._is_stopped:
            self._fail(list(self._expected), Unavailable(CLOSED))

    def expect(self, id: str) -> Future[Outcome]:
        """Return what will hold the outcome of an event that is processed from now on."""
        future: Future[Outcome] = Future()
        with self._changed:
            self._expected[id].append(future)
            self._changed.notify_all()
        return future

    def forget(self, id: str, future: Future[Outcome]) -> None:
        """Expect the outcome no longer."""
        with self._changed:
            others = [each for each in self._expected.pop(id, []) if each is not future]
            if others:
                self._expected[id] = others

    def close(self, *, timeout: float) -> None:
        """Finish what is pending, then stop.

        Parameters
        ----------
        timeout : float
            Seconds after which the rest is left to the next process that opens the project.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._thread is None, timeout)
            self._is_stopped = True
            self._changed.wait_for(lambda: self._thread is None, _SECONDS_TO_STOP)

    def _work(self) -> None:
        given_up: set[str] = set()
        while True:
            with self._changed:
                self._is_woken = False
            try:
                while not self._is_stopped and (batch := self._next(given_up)):
                    given_up |= self._process(batch)
                    self._linger()
            # The project was closed, or its file fails: nothing more can be done.
            except (AttribError, duckdb.Error) as error:
                self._fail(list(self._expected), error)
            with self._changed:
                if not self._is_woken or self._is_stopped:
                    self._thread = None
                    self._changed.notify_all()
                    return

    def _linger(self) -> None:
        """Let events gather while nobody waits for one: many together cost little more than one."""
        with self._changed:
            self._changed.wait_for(lambda: self._expected or self._is_closing, _SECONDS_TO_GATHER)

    def _next(self, given_up: set[str]) -> list[Raw]:
        with self._store.cursor() as cursor:
            rows = cursor.execute(_PENDING, [list(given_up)]).fetchall()
        return [
            Raw(id, reference, tracker_id, created_at.replace(tzinfo=UTC), date, data)
            for id, reference, tracker_id, created_at, date, data in rows
        ]

    def _process(self, batch: Sequence[Raw]) -> set[str]:
        """Process a batch in one transaction; return those events of which nothing could be written."""
        with self._store.cursor() as cursor:
            event_types = read_event_types(cursor, {each.reference for each in batch})
            lenient = read_settings(cursor).lenient_optional_fields
        results = [self._examine(each, event_types, lenient=lenient) for each in batch]
        given_up = set()
        try:
            self._settle(results)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001  (one event must not hold up the others)
            for result in results:
                try:
                    self._settle_alone(result, event_types)
                except Unavailable:
                    raise
                except Exception as error:  # noqa: BLE001
                    given_up.add(result.raw.id)
                    self._fail([result.raw.id], error)
        return given_up

    def errors_of(self, record: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
        """Return what would trash an event, a row of the table of raw events; nothing is stored."""
        raw = Raw(
            record["_id"],
            record["eventType"],
            record["trackerId"],
            record["createdAt"].replace(tzinfo=UTC),
            record["eventDate"],
            record["data"],
        )
        with self._store.cursor() as cursor:
            event_types = read_event_types(cursor, {raw.reference})
            lenient = read_settings(cursor).lenient_optional_fields
        result = self._examine(raw, event_types, lenient=lenient)
        return result.errors if isinstance(result, Trash) else ()

    def _examine(self, raw: Raw, event_types: Mapping[str, EventType], *, lenient: bool) -> Valid | Trash:
        try:
            return examine(raw, event_types, self._store.meta.currency, lenient=lenient)
        except Exception:  # noqa: BLE001  (whatever came in must not stop the processing)
            return _failed(raw, event_types)

    def _settle_alone(self, result: Valid | Trash, event_types: Mapping[str, EventType]) -> None:
        try:
            self._settle([result])
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001
            self._settle([_failed(result.raw, event_types)])

    def _settle(self, results: Sequence[Valid | Trash]) -> None:
        self._store.write(lambda connection: _write(connection, self._store, results))
        for result in results:
            outcome = encode(result.errors) if isinstance(result, Trash) else None
            for future in self._taken(result.raw.id):
                future.set_result(outcome)

    def _fail(self, ids: Sequence[str], error: BaseException) -> None:
        for id in ids:
            for future in self._taken(id):
                future.set_exception(error)

    def _taken(self, id: str) -> list[Future[Outcome]]:
        with self._changed:
            return self._expected.pop(id, [])


def _failed(raw: Raw, event_types: Mapping[str, EventType]) -> Trash:
    event_type = event_types.get(raw.reference)
    return failed(raw, event_type.id if event_type else None)


def _write(connection: duckdb.DuckDBPyConnection, store: Store, results: Sequence[Valid | Trash]) -> None:
    """Write what became of events that are pending still; doing so again changes nothing."""
    taken = connection.execute(
        "DELETE FROM pending_events WHERE _id IN (SELECT unnest(?)) RETURNING _id",
        [[each.raw.id for each in results]],
    ).fetchall()
    pending = {id for (id,) in taken}
    # What is replayed is in the trash, and stays there only with what is wrong with it now (G-057).
    connection.execute("DELETE FROM trashed_events WHERE _id IN (SELECT unnest(?))", [list(pending)])
    now = naive(datetime.now(UTC))
    valid = [each for each in results if isinstance(each, Valid) and each.raw.id in pending]
    trash = [each for each in results if isinstance(each, Trash) and each.raw.id in pending]
    valid = _without_erased(connection, valid, now)
    users = resolve_many(connection, store.ids, [each.identities for each in valid])
    project_id = store.meta.project_id
    policies = read_policies(connection)
    events = [
        _event(each, user, project_id, now) | _expiration(each, policies)
        for each, user in zip(valid, users, strict=True)
    ]
    insert_records(connection, "events", events)
    if events:
        with lent(
            connection, pa.table({"userId": users, "seen": [each["createdAt"] for each in events]})
        ) as rows:
            register(connection, rows)
    insert_records(connection, "metrics", [row for each in valid for row in _metrics(each, store, now)])
    insert_records(connection, "trashed_events", [_trashed(each, project_id, now) for each in trash])


def _without_erased(connection: duckdb.DuckDBPyConnection, valid: list[Valid], now: datetime) -> list[Valid]:
    """Drop, with what was sent, the events of people who were erased after those events (G-209)."""
    marks = {each.raw.id: [(identity_kind(kind), value) for kind, value in each.identities] for each in valid}
    erased = find_buried(connection, [mark for each in marks.values() for mark in each])
    earliest = datetime.min
    dropped = [
        each.raw.id
        for each in valid
        if any(naive(each.date) <= erased.get(mark, earliest) for mark in marks[each.raw.id])
    ]
    if not dropped:
        return valid
    nonces = connection.execute(
        "DELETE FROM raw_events WHERE _id IN (SELECT unnest(?)) RETURNING nonce", [dropped]
    ).fetchall()
    bury(connection, [(NONCE, nonce) for (nonce,) in nonces], now)
    return [each for each in valid if each.raw.id not in set(dropped)]


def _expiration(valid: Valid, policies: Policies) -> dict[str, Any]:
    policy = policies.of(valid.raw.reference)
    return FOR_EVER if policy is None else policy.columns(naive(valid.date))


def _event(valid: Valid, user_id: str, project_id: str, now: datetime) -> dict[str, Any]:
    return {
        "_id": valid.raw.id,
        "projectId": project_id,
        "userId": user_id,
        "eventDate": naive(valid.date),
        "eventType": valid.raw.reference,
        "event": encode(valid.event),
        "user": encode(valid.user),
        "createdAt": naive(valid.raw.created_at),
        "updatedAt": now,
        "eventTypeVersion": valid.event_type.version,
    }


def _trashed(trash: Trash, project_id: str, now: datetime) -> dict[str, Any]:
    return {
        "_id": trash.raw.id,
        "projectId": project_id,
        "errors": encode(trash.errors),
        "eventTypeId": trash.event_type_id,
        "eventTypeRef": trash.raw.reference,
        "processingDate": now,
        "rawEventDate": naive(trash.date),
    }


def _metrics(valid: Valid, store: Store, now: datetime) -> list[dict[str, Any]]:
    """Return the rows of an event's metrics, the built-in ones among them (G-072, G-073)."""
    date = naive(valid.date)

    def row(key: str, kind: str, **value: Any) -> dict[str, Any]:
        return {
            "_id": store.ids.new(),
            "projectId": store.meta.project_id,
            "eventId": valid.raw.id,
            "key": key,
            "type": "state" if kind == "state" else "statistic",
            "dataType": kind,
            "date": date,
            "number": value.get("number"),
            "amount": value.get("amount"),
            "currency": value.get("currency"),
            "anonymized": False,
            "invalid": value.get("invalid", False),
            "createdAt": now,
            "updatedAt": now,
            "deletedAt": None,
        }

    rows = [row("event-count", "number", number=1.0)]
    for each in valid.measures:
        value = {"number": each.number, "amount": each.amount, "currency": each.currency}
        rows.append(row(each.key, each.kind, **value, invalid=each.invalid))
        if each.kind == "state" and each.number == 1:
            rows.append(row(f"state-delay-{each.key}", "number", number=0.0))
    return rows
