"""Processes accepted events: each becomes a computed event or a trashed one."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import duckdb

from attrib_ds import instants
from attrib_ds.contract.json_values import encode
from attrib_ds.errors import AttribError, ServiceFailure, Unavailable
from attrib_ds.instants import naive
from attrib_ds.service.events.event_types import read_event_types
from attrib_ds.service.events.portions import Portions
from attrib_ds.service.events.retention import FOR_EVER, read_policies
from attrib_ds.service.events.validation import InvalidEvent, RawEvent, ValidEvent, processing_error, validate
from attrib_ds.service.identity.registry import register
from attrib_ds.service.identity.resolution import resolve_many
from attrib_ds.service.identity.tombstones import NONCE, bury, find_buried, identity_kind
from attrib_ds.service.store.background_threads import start_thread
from attrib_ds.service.store.cursors import CLOSED
from attrib_ds.service.store.file_errors import with_advice
from attrib_ds.service.store.forks import abandon_after_fork
from attrib_ds.service.store.settings import read_settings
from attrib_ds.service.store.table_access import insert_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from attrib_ds.service.events.event_types import EventType
    from attrib_ds.service.events.retention import Policies
    from attrib_ds.service.store.store import Store

_SECONDS_TO_STOP: Final = 10.0
_SECONDS_TO_BATCH: Final = 0.2
#: Time after the last accepted event during which further ones are expected.
_SECONDS_OF_ARRIVALS: Final = 1.0
_PENDING: Final = (
    "SELECT raw._id, eventType, trackerId, createdAt, eventDate, data FROM raw_events AS raw "
    "JOIN pending_events AS pending ON raw._id = pending._id "
    "WHERE raw._id NOT IN (SELECT unnest(?)) ORDER BY pending.rowid LIMIT ?"
)

#: JSON text of the errors of a trashed event; None for a processed event.
Outcome = str | None


class Processing:
    """Processes the accepted events of a project in a background thread, which ends when none is left.

    Accepted events are listed in the table ``pending_events``. An event is removed in the transaction that
    writes its result, so a crash leaves it either pending or processed, and the next process resumes with
    the pending events.

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
        self._woken_at = -math.inf
        self._portions = Portions()
        self._is_stopped = False
        self._is_closing = False
        self._expected: defaultdict[str, list[Future[Outcome]]] = defaultdict(list)
        abandon_after_fork(self)

    def wake(self) -> None:
        """Start processing pending events; returns at once."""
        with self._changed:
            self._is_woken = True
            self._woken_at = time.monotonic()
            if self._thread is None and not self._is_stopped:
                # The next process resumes what an exiting interpreter leaves.
                name = f"processing of {self._store.meta.project_id}"
                self._thread = start_thread(self, self._work, name=name)
        if self._is_stopped:
            self._fail(list(self._expected), Unavailable(CLOSED))

    @property
    def is_busy(self) -> bool:
        """Whether events may be pending."""
        return self._thread is not None

    def has_pending(self) -> bool:
        """Return whether events are pending."""
        if self.is_busy:
            return True
        with self._store.cursor() as cursor:
            return bool(cursor.execute("SELECT 1 FROM pending_events LIMIT 1").fetchall())

    def expect(self, id: str) -> Future[Outcome]:
        """Return a future of the outcome of an event that is about to be processed."""
        future: Future[Outcome] = Future()
        with self._changed:
            self._expected[id].append(future)
            self._changed.notify_all()
        return future

    def forget(self, id: str, future: Future[Outcome]) -> None:
        """Cancel :meth:`expect`."""
        with self._changed:
            others = [waiting for waiting in self._expected.pop(id, []) if waiting is not future]
            if others:
                self._expected[id] = others

    def close(self, *, timeout: float) -> None:
        """Process pending events, then stop.

        Parameters
        ----------
        timeout : float
            Seconds after which the remaining events are left to the next process.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._thread is None, timeout)
        self.stop()
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, _SECONDS_TO_STOP)

    def stop(self) -> None:
        """Tell the thread to end after the current transaction."""
        with self._changed:
            self._is_closing = self._is_stopped = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Refuse any further event, in a forked process: the thread exists in its parent only."""
        self._changed = threading.Condition()
        self._is_stopped = True
        self._thread = None

    def _work(self) -> None:
        failed_ids: set[str] = set()
        while True:
            with self._changed:
                self._is_woken = False
            try:
                while not self._is_stopped:
                    others_wait = time.monotonic() < self._woken_at + _SECONDS_OF_ARRIVALS
                    size = self._portions.size(others_wait=others_wait)
                    batch = self._next(failed_ids, size)
                    if not batch:
                        break
                    failed_ids |= self._process(batch)
                    if len(batch) < size:
                        self._wait_for_more()
            # The project was closed, or its file is unusable.
            except AttribError as error:
                self._fail(list(self._expected), error)
            except duckdb.Error as error:
                failure = ServiceFailure(f"the database failed: {with_advice(error)}")
                failure.__cause__ = error
                self._fail(list(self._expected), failure)
            with self._changed:
                if not self._is_woken or self._is_stopped:
                    self._thread = None
                    self._changed.notify_all()
                    return

    def _wait_for_more(self) -> None:
        """Wait for more events, unless a caller waits for an outcome: batches are cheap."""
        with self._changed:
            self._changed.wait_for(lambda: self._expected or self._is_closing, _SECONDS_TO_BATCH)

    def _next(self, failed_ids: set[str], size: int) -> list[RawEvent]:
        with self._store.cursor() as cursor:
            rows = cursor.execute(_PENDING, [list(failed_ids), size]).fetchall()
        return [
            RawEvent(id, reference, tracker_id, created_at.replace(tzinfo=UTC), date, data)
            for id, reference, tracker_id, created_at, date, data in rows
        ]

    def _process(self, batch: Sequence[RawEvent]) -> set[str]:
        """Process a batch in one transaction; return the ids of events that could not be written."""
        event_types, lenient = self._rules(batch)
        results = [self._validate(raw, event_types, lenient=lenient) for raw in batch]
        failed_ids = set()
        try:
            self._commit(results)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001  (one event must not block the others)
            for result in results:
                try:
                    self._commit_alone(result, event_types)
                except Unavailable:
                    raise
                except Exception as error:  # noqa: BLE001
                    failed_ids.add(result.raw.id)
                    self._fail([result.raw.id], error)
        return failed_ids

    def errors_of(self, record: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
        """Validate a row of the table of raw events without storing anything; return its errors."""
        raw = _raw_event(record)
        event_types, lenient = self._rules([raw])
        result = self._validate(raw, event_types, lenient=lenient)
        return result.errors if isinstance(result, InvalidEvent) else ()

    def _rules(self, batch: Sequence[RawEvent]) -> tuple[dict[str, EventType], bool]:
        """Return the event types of a batch by reference, and whether optional fields may be invalid."""
        with self._store.cursor() as cursor:
            event_types = read_event_types(cursor, {raw.reference for raw in batch})
            return event_types, read_settings(cursor).lenient_optional_fields

    def _validate(
        self, raw: RawEvent, event_types: Mapping[str, EventType], *, lenient: bool
    ) -> ValidEvent | InvalidEvent:
        try:
            return validate(raw, event_types, self._store.meta.currency, lenient=lenient)
        except Exception:  # noqa: BLE001  (no event may stop the thread)
            return _internal_error(raw, event_types)

    def _commit_alone(self, result: ValidEvent | InvalidEvent, event_types: Mapping[str, EventType]) -> None:
        try:
            self._commit([result])
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001
            self._commit([_internal_error(result.raw, event_types)])

    def _commit(self, results: Sequence[ValidEvent | InvalidEvent]) -> None:
        prepared = self._with_rows(results)

        def write(connection: duckdb.DuckDBPyConnection) -> float:
            start = time.monotonic()
            _write_pending(connection, self._store, prepared)
            return time.monotonic() - start

        self._portions.record(len(prepared), seconds=self._store.write(write))
        self.settle(prepared)

    def prepare(self, records: Sequence[Mapping[str, Any]]) -> list[Prepared]:
        """Validate rows of the table of raw events for :meth:`write_new`."""
        raws = [_raw_event(record) for record in records]
        event_types, lenient = self._rules(raws)
        results = [self._validate(raw, event_types, lenient=lenient) for raw in raws]
        return self._with_rows(results)

    def _with_rows(self, results: Sequence[ValidEvent | InvalidEvent]) -> list[Prepared]:
        now = naive(instants.now())
        return [_prepare(result, self._store, now) for result in results]

    def write_new(self, connection: duckdb.DuckDBPyConnection, prepared: Sequence[Prepared]) -> None:
        """Write the results of raw events that the same transaction inserted and did not list as pending."""
        _write(connection, self._store, prepared)

    def settle(self, prepared: Sequence[Prepared]) -> None:
        """Set the outcomes of events whose results were committed."""
        for event in prepared:
            for future in self._pop_futures(event.result.raw.id):
                future.set_result(event.outcome)

    def _fail(self, ids: Sequence[str], error: BaseException) -> None:
        for id in ids:
            for future in self._pop_futures(id):
                future.set_exception(error)

    def _pop_futures(self, id: str) -> list[Future[Outcome]]:
        with self._changed:
            return self._expected.pop(id, [])


def _internal_error(raw: RawEvent, event_types: Mapping[str, EventType]) -> InvalidEvent:
    event_type = event_types.get(raw.reference)
    return processing_error(raw, event_type.id if event_type else None)


@dataclass(frozen=True, eq=False)
class Prepared:
    """The result of an event with the rows to write, made outside of the transaction.

    Parameters
    ----------
    result : ValidEvent or InvalidEvent
        The result.
    row : dict
        The row of ``trashed_events``, or that of ``events`` without user and expiration.
    metrics : list of dict
        Rows of ``metrics``.
    outcome : str or None
        Errors as JSON.
    """

    result: ValidEvent | InvalidEvent
    row: dict[str, Any]
    metrics: list[dict[str, Any]]
    outcome: Outcome


def _prepare(result: ValidEvent | InvalidEvent, store: Store, now: datetime) -> Prepared:
    project_id = store.meta.project_id
    if isinstance(result, InvalidEvent):
        row = _trashed(result, project_id, now)
        return Prepared(result, row, [], row["errors"])
    return Prepared(result, _event(result, project_id, now), _metrics(result, store, now), None)


def _raw_event(record: Mapping[str, Any]) -> RawEvent:
    return RawEvent(
        record["_id"],
        record["eventType"],
        record["trackerId"],
        record["createdAt"].replace(tzinfo=UTC),
        record["eventDate"],
        record["data"],
    )


def _write_pending(connection: duckdb.DuckDBPyConnection, store: Store, prepared: Sequence[Prepared]) -> None:
    """Write the results of events that are still pending; idempotent."""
    rows = connection.execute(
        "DELETE FROM pending_events WHERE _id IN (SELECT unnest(?)) RETURNING _id",
        [[event.result.raw.id for event in prepared]],
    ).fetchall()
    pending = {id for (id,) in rows}
    # A replayed event is in the trash, and stays there only if it is still invalid (G-057).
    connection.execute("DELETE FROM trashed_events WHERE _id IN (SELECT unnest(?))", [list(pending)])
    _write(connection, store, [event for event in prepared if event.result.raw.id in pending])


def _write(connection: duckdb.DuckDBPyConnection, store: Store, prepared: Sequence[Prepared]) -> None:
    now = naive(instants.now())
    trash = [event.row for event in prepared if isinstance(event.result, InvalidEvent)]
    rows = {event.result.raw.id: event for event in prepared}
    valid = [event.result for event in prepared if isinstance(event.result, ValidEvent)]
    valid = _without_erased(connection, valid, now)
    users = resolve_many(connection, store.ids, [result.identities for result in valid])
    policies = read_policies(connection) if valid else None
    events = [
        rows[result.raw.id].row | {"userId": user} | _expiration(result, policies)
        for result, user in zip(valid, users, strict=True)
    ]
    insert_records(connection, "events", events)
    if events:
        seen = [event["createdAt"] for event in events]
        seen_users = "(SELECT unnest(?::VARCHAR[]) AS userId, unnest(?::TIMESTAMP[]) AS seen)"
        register(connection, seen_users, [users, seen])
    insert_records(connection, "metrics", [row for result in valid for row in rows[result.raw.id].metrics])
    insert_records(connection, "trashed_events", trash)


def _without_erased(
    connection: duckdb.DuckDBPyConnection, valid: list[ValidEvent], now: datetime
) -> list[ValidEvent]:
    """Drop events, and their raw events, of people who were erased after the date of the event (G-209)."""
    marks = {
        event.raw.id: [(identity_kind(kind), value) for kind, value in event.identities] for event in valid
    }
    erased = find_buried(connection, [mark for event_marks in marks.values() for mark in event_marks])
    earliest = datetime.min
    dropped = [
        event.raw.id
        for event in valid
        if any(naive(event.date) <= erased.get(mark, earliest) for mark in marks[event.raw.id])
    ]
    if not dropped:
        return valid
    nonces = connection.execute(
        "DELETE FROM raw_events WHERE _id IN (SELECT unnest(?)) RETURNING nonce", [dropped]
    ).fetchall()
    bury(connection, [(NONCE, nonce) for (nonce,) in nonces], now)
    return [event for event in valid if event.raw.id not in set(dropped)]


def _expiration(valid: ValidEvent, policies: Policies | None) -> dict[str, Any]:
    policy = policies.of(valid.raw.reference) if policies else None
    return FOR_EVER if policy is None else policy.columns(naive(valid.date))


def _event(valid: ValidEvent, project_id: str, now: datetime) -> dict[str, Any]:
    return {
        "_id": valid.raw.id,
        "projectId": project_id,
        "eventDate": naive(valid.date),
        "eventType": valid.raw.reference,
        "event": encode(valid.event),
        "user": encode(valid.user),
        "createdAt": naive(valid.raw.created_at),
        "updatedAt": now,
        "eventTypeVersion": valid.event_type.version,
    }


def _trashed(trash: InvalidEvent, project_id: str, now: datetime) -> dict[str, Any]:
    return {
        "_id": trash.raw.id,
        "projectId": project_id,
        "errors": encode(trash.errors),
        "eventTypeId": trash.event_type_id,
        "eventTypeRef": trash.raw.reference,
        "processingDate": now,
        "rawEventDate": naive(trash.date),
    }


def _metrics(valid: ValidEvent, store: Store, now: datetime) -> list[dict[str, Any]]:
    """Return the rows of an event's metrics, including built-in ones (G-072, G-073)."""
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
    for metric in valid.metrics:
        value = {"number": metric.number, "amount": metric.amount, "currency": metric.currency}
        rows.append(row(metric.key, metric.kind, **value, invalid=metric.invalid))
        if metric.kind == "state" and metric.number == 1:
            rows.append(row(f"state-delay-{metric.key}", "number", number=0.0))
    return rows
