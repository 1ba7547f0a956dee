"""Stores raw events once per nonce and lists them for processing, all that wait in one transaction."""

from __future__ import annotations

import hashlib
import json
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants
from attrib_ds.contract.json_text import encode
from attrib_ds.errors import AttribError, ServiceFailure, Unavailable
from attrib_ds.instants import naive
from attrib_ds.json_numbers import ExtremeNumber
from attrib_ds.service.identity.tombstones import find_erased
from attrib_ds.service.store import audit
from attrib_ds.service.store.background_threads import start_thread
from attrib_ds.service.store.cursors import CLOSED
from attrib_ds.service.store.forks import FORKED, abandon_after_fork
from attrib_ds.service.store.table_access import insert_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from attrib_ds.contract.events import CreateEvent
    from attrib_ds.service.events.processing import Prepared, Processing
    from attrib_ds.service.store.audit import Line
    from attrib_ds.service.store.ids import Uuids
    from attrib_ds.service.store.store import Store

_MOST_WAITING: Final = 50_000
#: Events from which on a transaction takes no further request.
_LARGEST_GROUP: Final = 1_000
#: How long the first request of a group waits for as many others as the last group had, at most this many.
_SECONDS_TO_GROUP: Final = 0.01
_LARGEST_TO_EXPECT: Final = 256
#: Time without a request after which the thread ends.
_SECONDS_TO_IDLE: Final = 1.0


@dataclass(frozen=True)
class Accepted:
    """The event stored for a nonce, the id given to the event sent, and whether their contents agree."""

    id: str
    sent_id: str
    agrees: bool

    @property
    def is_new(self) -> bool:
        """Whether the event sent was stored, rather than an earlier one with its nonce."""
        return self.sent_id == self.id


@dataclass(frozen=True, eq=False)
class _Sent:
    """The raw events of one request, its audit entry, and the future of the result."""

    records: Sequence[dict[str, Any]]
    line: Line | None
    is_urgent: bool
    future: Future[list[Accepted]] = field(default_factory=Future)

    @property
    def entry(self) -> Line | None:
        """The audit entry with the id of the event, or the number of events."""
        if self.line is None:
            return None
        if len(self.records) == 1:
            return replace(self.line, subject=self.records[0]["_id"])
        return replace(self.line, details={"events": len(self.records)})


class Acceptance:
    """Accepts raw events from any thread without making it wait.

    A thread writes all requests that wait in one transaction; those that arrive meanwhile wait for the
    next one. So a durable commit costs each of many concurrent requests a fraction of itself. The thread
    ends when no request has come for a while.

    Parameters
    ----------
    store : Store
        Store of the events.
    processing : Processing
        Told of pending events. It processes events with a waiting caller in the transaction that stores
        them, if no earlier event is pending.
    most_waiting : int, default 50,000
        Number of waiting events from which on requests are refused (G-140).
    """

    def __init__(self, store: Store, processing: Processing, *, most_waiting: int = _MOST_WAITING) -> None:
        self._store = store
        self._processing = processing
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: list[_Sent] = []
        self._waiting_events = 0
        #: Number of waiting requests from which on the thread goes on without further delay.
        self._enough = 1
        self._is_closed = False
        self._is_forked = False
        abandon_after_fork(self)

    def submit(
        self, records: Sequence[dict[str, Any]], line: Line | None, *, is_urgent: bool = False
    ) -> Future[list[Accepted]]:
        """Store the raw events of one request.

        Parameters
        ----------
        records : sequence of dict
            From :func:`raw_event`.
        line : Line, optional
            Audit entry of the request.
        is_urgent : bool, default False
            Whether a caller waits until the events are processed.

        Returns
        -------
        Future of list of Accepted
            Set once the events are durable, in the order of the events; its callbacks run in the thread
            that writes.

        Raises
        ------
        Unavailable
            If too many events wait, or the project is closed.
        """
        sent = _Sent(records, line, is_urgent)
        with self._changed:
            if self._is_closed:
                raise Unavailable(FORKED if self._is_forked else CLOSED)
            if self._waiting_events >= self._most_waiting:
                raise Unavailable(f"{self._waiting_events:,} events wait to be stored; try again later")
            self._waiting.append(sent)
            self._waiting_events += len(records)
            if self._thread is None:
                name = f"acceptance of {self._store.meta.project_id}"
                self._thread = start_thread(self, self._work, name=name)
            elif len(self._waiting) in (1, self._enough):
                self._changed.notify()
        return sent.future

    def close(self, *, timeout: float) -> None:
        """Store the waiting events, for some seconds at most; further ones are refused."""
        self.stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def stop(self) -> None:
        """Tell the thread to end once it has stored the waiting events; further ones are refused."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Refuse any further event, in a forked process: the thread exists in its parent only."""
        self._changed = threading.Condition()
        self._is_forked = self._is_closed = True
        self._waiting = []
        self._thread = None

    def _work(self) -> None:
        while group := self._next_group():
            self._store_group(group)

    def _next_group(self) -> list[_Sent]:
        """Wait for requests and take those of one transaction; none if none comes."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed, _SECONDS_TO_IDLE)
            if not self._waiting:
                self._thread = None
                return []
            # Clients that were answered together send their next events together.
            self._changed.wait_for(
                lambda: len(self._waiting) >= self._enough or self._is_closed, _SECONDS_TO_GROUP
            )
            group = []
            events = 0
            for sent in self._waiting:
                if events >= _LARGEST_GROUP:
                    break
                group.append(sent)
                events += len(sent.records)
            del self._waiting[: len(group)]
            self._waiting_events -= events
            self._enough = min(len(group), _LARGEST_TO_EXPECT)
            return group

    def _store_group(self, group: Sequence[_Sent]) -> None:
        """Write the requests of a group in one transaction and set their futures."""
        is_urgent = any(sent.is_urgent for sent in group) and not self._processing.is_busy
        try:
            if is_urgent and self._store_and_process(group):
                return
            accepted = self._store.write(lambda connection: _write_group(connection, group))
        except BaseException as error:  # noqa: BLE001  (raised to the submitter)
            is_shared = isinstance(error, AttribError) and not isinstance(error, ServiceFailure)
            if len(group) == 1 or is_shared:
                for sent in group:
                    sent.future.set_exception(error)
            else:
                # One request may have failed the others; each gets a transaction of its own.
                for sent in group:
                    self._store_group([sent])
            return
        self._resolve(group, accepted)

    def _store_and_process(self, group: Sequence[_Sent]) -> bool:
        """Write the requests of a group together with the results of their events.

        If earlier events are pending, these become pending too, since events are processed in order.
        Returns False if the results cannot be written; then nothing is.
        """

        def write(connection: duckdb.DuckDBPyConnection) -> tuple[list[Accepted], list[Prepared]]:
            if connection.execute("SELECT 1 FROM pending_events LIMIT 1").fetchall():
                return _write_group(connection, group), []
            accepted = _write_group(connection, group, is_pending=False)
            new = {result.id for result in accepted if result.is_new}
            results = [event for event in prepared if event.result.raw.id in new]
            self._processing.write_new(connection, results)
            return accepted, results

        try:
            prepared = self._processing.prepare([record for sent in group for record in sent.records])
            accepted, results = self._store.write(write)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001  (processing finds out which event cannot be written)
            return False
        self._resolve(group, accepted, results)
        return True

    def _resolve(
        self, group: Sequence[_Sent], accepted: Sequence[Accepted], processed: Sequence[Prepared] = ()
    ) -> None:
        if not processed and any(result.is_new for result in accepted):
            self._processing.wake()
        results = iter(accepted)
        for sent in group:
            sent.future.set_result([next(results) for _ in sent.records])
        self._processing.settle(processed)


def _write_group(
    connection: duckdb.DuckDBPyConnection, group: Sequence[_Sent], *, is_pending: bool = True
) -> list[Accepted]:
    records = [record for sent in group for record in sent.records]
    lines = [sent.entry for sent in group if sent.entry is not None]
    return _write(connection, records, lines, is_pending=is_pending)


def _write(
    connection: duckdb.DuckDBPyConnection,
    records: Sequence[dict[str, Any]],
    lines: Sequence[Line],
    *,
    is_pending: bool = True,
) -> list[Accepted]:
    """Store raw events with new nonces and list them as pending, in one transaction (G-129)."""
    places = ", ".join("?" for _ in records)
    rows = connection.execute(
        f"SELECT nonce, _id, fingerprint FROM raw_events WHERE nonce IN ({places})",
        [record["nonce"] for record in records],
    ).fetchall()
    first = {nonce: (id, fingerprint) for nonce, id, fingerprint in rows}
    erased = find_erased(connection, [record["nonce"] for record in records])
    new = []
    accepted = []
    for record in records:
        if record["nonce"] in erased:
            # The content was erased, so it cannot be compared (G-210).
            accepted.append(Accepted(erased[record["nonce"]], record["_id"], agrees=True))
            continue
        if record["nonce"] not in first:
            first[record["nonce"]] = record["_id"], record["fingerprint"]
            new.append(record)
        id, fingerprint = first[record["nonce"]]
        accepted.append(Accepted(id, record["_id"], fingerprint == record["fingerprint"]))
    insert_records(connection, "raw_events", new)
    if is_pending:
        insert_records(connection, "pending_events", [{"_id": record["_id"]} for record in new])
    audit.append(connection, lines)
    return accepted


def raw_event(request: CreateEvent, ids: Uuids) -> dict[str, Any]:
    """Return the row of the table ``raw_events`` for an event sent now."""
    date = kept = request.eventDate
    if isinstance(date, datetime):
        # Sends that differ only in digits that are not kept have the same content (G-224).
        kept = instants.format(instants.truncate(date))
        date = instants.format(date)
    content = [request.eventType, kept, request.trackerId, request.data.members]
    return {
        "_id": ids.new(),
        "projectId": request.projectId,
        "nonce": request.nonce,
        "eventType": request.eventType,
        "trackerId": request.trackerId,
        "createdAt": naive(instants.now()),
        "data": request.data.text,
        "eventDate": None if date is None else encode(date),
        "fingerprint": hashlib.sha256(json.dumps(_canonical(content)).encode()).hexdigest(),
    }


def _canonical(value: Any) -> Any:
    """Return a canonical form: equal JSON values have equal forms, however numbers are written."""
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_canonical(member) for member in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return f"text {value}"
    if type(value) is int:
        # As below, without the detour over Decimal.
        plain = str(abs(value))
        whole = plain.rstrip("0")
        return f"number {int(value < 0)} {whole} {len(plain) - len(whole) if whole else 0}"
    if isinstance(value, ExtremeNumber):
        return f"number {value.text.lower()}"
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    plain = "".join(map(str, digits)).lstrip("0")
    whole = plain.rstrip("0")
    return f"number {sign if whole else 0} {whole} {int(exponent) + len(plain) - len(whole) if whole else 0}"
