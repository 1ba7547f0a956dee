"""Accepts events: stores each raw event once per nonce and lists it for processing."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants
from attrib_ds.contract import Answer
from attrib_ds.contract.events import CreateEvent, Misfit
from attrib_ds.contract.json_text import encode
from attrib_ds.contract.rule import shown
from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound, ServiceFailure
from attrib_ds.instants import naive
from attrib_ds.json_numbers import ExtremeNumber, load_exact
from attrib_ds.service.events.processing import Processing
from attrib_ds.service.identity.tombstones import find_erased
from attrib_ds.service.store import audit
from attrib_ds.service.store.batching import Batcher
from attrib_ds.service.store.ids import new_uuid
from attrib_ds.service.store.table_access import insert_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    import duckdb

    from attrib_ds.contract.events import CreateEvents, ReplayEvent, ValidateEvent
    from attrib_ds.service.events.processing import Outcome
    from attrib_ds.service.store.audit import Line
    from attrib_ds.service.store.store import Store

#: How long a synchronous call waits for its event (G-133).
_SECONDS_TO_WAIT: Final = 30.0
_SECONDS_TO_CLOSE: Final = 30.0


@dataclass(frozen=True)
class _Accepted:
    """The event stored for a nonce, the id given to the event sent, and whether their contents agree."""

    id: str
    sent_id: str
    agrees: bool

    @property
    def is_new(self) -> bool:
        """Whether the event sent was stored, rather than an earlier one with its nonce."""
        return self.sent_id == self.id


@dataclass(frozen=True)
class _Sent:
    """The raw events of one request, and its audit entry."""

    records: list[dict[str, Any]]
    line: Line | None

    @property
    def entry(self) -> Line | None:
        """The audit entry with the id of the event, or the number of events."""
        if self.line is None:
            return None
        if len(self.records) == 1:
            return replace(self.line, subject=self.records[0]["_id"])
        return replace(self.line, details={"events": len(self.records)})


class Ingestion:
    """Accepts the events of a project, validates them and replays trashed ones.

    Parameters
    ----------
    store : Store
        Store of the events.
    patience : float, default 30
        Seconds that a synchronous call waits for its event to be processed.

    Attributes
    ----------
    nonce_conflicts : int
        Repeated nonces with other content, which were answered with the id of the first event (G-131).
    """

    def __init__(self, store: Store, *, patience: float = _SECONDS_TO_WAIT) -> None:
        self.nonce_conflicts = 0
        self._store = store
        self._patience = patience
        self._processing = Processing(store)
        self._lock = threading.Lock()
        self._acceptance: Batcher[_Sent, list[_Accepted]] = Batcher(self._accept_all)

    def resume(self) -> None:
        """Process events that an earlier process accepted and left pending."""
        with self._store.cursor() as cursor:
            if cursor.execute("SELECT 1 FROM pending_events LIMIT 1").fetchall():
                self._processing.wake()

    def close(self) -> None:
        """Process pending events, then stop; after a timeout the rest is left to the next process."""
        self._processing.close(timeout=_SECONDS_TO_CLOSE)

    def create_event(self, request: CreateEvent, line: Line | None = None) -> Answer:
        """Accept an event and return its id without validation; it is processed later."""
        (id,) = self._accept_only([request], line)
        return Answer(value=id)

    def create_event_sync(self, request: CreateEvent, line: Line | None = None) -> Answer:
        """Accept an event and return its id once it is processed; an invalid one is trashed and raises."""
        (outcome,) = self._accept_and_wait([request], line)
        if isinstance(outcome, AttribError):
            raise outcome
        return Answer(value=outcome)

    def create_events(self, request: CreateEvents, line: Line | None = None) -> Answer:
        """Accept many events and return the id or the error of each; errors do not affect other events."""
        outcomes: list[str | AttribError] = [
            event.error if isinstance(event, Misfit) else "" for event in request.events
        ]
        places = [place for place, event in enumerate(request.events) if isinstance(event, CreateEvent)]
        events = [event for event in request.events if isinstance(event, CreateEvent)]
        accept = self._accept_and_wait if request.wait else self._accept_only
        for place, outcome in zip(places, accept(events, line), strict=True):
            outcomes[place] = outcome
        return Answer(value=outcomes)

    def validate_event(self, request: ValidateEvent, line: Line | None = None) -> Answer:  # noqa: ARG002
        """Return the errors that would trash an event; nothing is stored (G-138)."""
        return Answer(value=list(self._processing.errors_of(_record(request))))

    def replay_event(self, request: ReplayEvent, line: Line | None = None) -> Answer:
        """Process a trashed event again, as it was sent, and return its id (G-057).

        Raises
        ------
        NotFound
            If there is no such trashed event, or its raw event was erased.
        InvalidRequest
            If it is still invalid; it stays in the trash with its present errors.
        """
        id = request.id

        def mark_pending(connection: duckdb.DuckDBPyConnection) -> None:
            trashed = connection.execute(
                "SELECT 1 FROM trashed_events AS trashed JOIN raw_events AS raw ON trashed._id = raw._id "
                "WHERE trashed._id = ?",
                [id],
            ).fetchall()
            if not trashed:
                raise NotFound(f"id: there is no trashed event {id!r} that could be replayed", field="id")
            connection.execute(
                "INSERT INTO pending_events SELECT ? WHERE ? NOT IN (SELECT _id FROM pending_events)",
                [id, id],
            )
            audit.append(connection, [] if line is None else [line])

        expected = self._processing.expect(id)
        try:
            self._store.write(mark_pending)
        except BaseException:
            self._processing.forget(id, expected)
            raise
        self._processing.wake()
        outcome = self._wait(id, expected, until=time.monotonic() + self._patience, is_repeat=False)
        if outcome is not None:
            raise _refusal(id, outcome)
        return Answer(value=id)

    def _accept_only(self, events: Sequence[CreateEvent], line: Line | None) -> list[str | AttribError]:
        """Accept events and return their ids; repeats with other content are counted (G-131)."""
        accepted = self._accept(_Sent([_record(event) for event in events], line))
        with self._lock:
            self.nonce_conflicts += sum(not result.agrees for result in accepted)
        return [result.id for result in accepted]

    def _accept_and_wait(self, events: Sequence[CreateEvent], line: Line | None) -> list[str | AttribError]:
        """Accept events and wait; return the ids of processed events and the errors of others."""
        records = [_record(event) for event in events]
        # Before they are accepted, so that no outcome is missed.
        expected = {record["_id"]: self._processing.expect(record["_id"]) for record in records}
        try:
            accepted = self._accept(_Sent(records, line))
        except BaseException:
            for id, future in expected.items():
                self._processing.forget(id, future)
            raise
        for result in accepted:
            if not result.is_new:
                self._processing.forget(result.sent_id, expected[result.sent_id])
        until = time.monotonic() + self._patience
        outcomes: list[str | AttribError] = []
        for event, result in zip(events, accepted, strict=True):
            try:
                outcomes.append(self._settled(event, result, expected[result.sent_id], until=until))
            except AttribError as error:
                outcomes.append(error)
        return outcomes

    def _settled(
        self, event: CreateEvent, accepted: _Accepted, future: Future[Outcome], *, until: float
    ) -> str:
        """Return the id of an event once it is processed; raise its error if it is invalid."""
        if accepted.is_new:
            outcome = self._wait(accepted.id, future, until=until, is_repeat=False)
        elif accepted.agrees:
            outcome = self._outcome_of_repeat(accepted.id, until=until)
        else:
            raise Conflict(
                f"nonce: {shown(event.nonce)} is the nonce of the event {accepted.id!r}, which has other "
                "content; give each event a nonce of its own",
                field="nonce",
            )
        if outcome is not None:
            raise _refusal(accepted.id, outcome)
        return accepted.id

    def _outcome_of_repeat(self, id: str, *, until: float) -> Outcome:
        expected = self._processing.expect(id)
        with self._store.cursor() as cursor:
            is_pending = cursor.execute("SELECT 1 FROM pending_events WHERE _id = ?", [id]).fetchall()
            if not is_pending:
                self._processing.forget(id, expected)
                trashed = cursor.execute("SELECT errors FROM trashed_events WHERE _id = ?", [id]).fetchall()
                return trashed[0][0] if trashed else None
        self._processing.wake()
        return self._wait(id, expected, until=until, is_repeat=True)

    def _wait(self, id: str, expected: Future[Outcome], *, until: float, is_repeat: bool) -> Outcome:
        try:
            return expected.result(max(until - time.monotonic(), 0))
        except TimeoutError:
            details = [{"eventId": id}]
            if is_repeat:
                raise Conflict(
                    f"nonce: the event {id!r} with this nonce is still being processed; ask again later",
                    field="nonce",
                    details=details,
                ) from None
            raise ServiceFailure(
                f"the event was accepted as {id!r} and will be processed; sending it again with the same "
                "nonce is safe",
                details=details,
            ) from None

    def _accept(self, sent: _Sent) -> list[_Accepted]:
        """Store raw events, in one batch with those that other threads submit meanwhile."""
        if not sent.records:
            return []
        accepted = self._acceptance.submit(sent)
        if any(result.is_new for result in accepted):
            self._processing.wake()
        return accepted

    def _accept_all(self, requests: Sequence[_Sent]) -> list[list[_Accepted]]:
        records = [record for sent in requests for record in sent.records]
        entries = [sent.entry for sent in requests if sent.entry is not None]
        accepted = iter(self._store.write(lambda connection: _write(connection, records, entries)))
        return [[next(accepted) for _ in sent.records] for sent in requests]


def _write(
    connection: duckdb.DuckDBPyConnection, records: Sequence[dict[str, Any]], lines: Sequence[Line]
) -> list[_Accepted]:
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
            accepted.append(_Accepted(erased[record["nonce"]], record["_id"], agrees=True))
            continue
        if record["nonce"] not in first:
            first[record["nonce"]] = record["_id"], record["fingerprint"]
            new.append(record)
        id, fingerprint = first[record["nonce"]]
        accepted.append(_Accepted(id, record["_id"], fingerprint == record["fingerprint"]))
    insert_records(connection, "raw_events", new)
    insert_records(connection, "pending_events", [{"_id": record["_id"]} for record in new])
    audit.append(connection, lines)
    return accepted


def _record(request: CreateEvent) -> dict[str, Any]:
    date = kept = request.eventDate
    if isinstance(date, datetime):
        # Sends that differ only in digits that are not kept have the same content (G-224).
        kept = instants.format(instants.truncate(date))
        date = instants.format(date)
    content = [request.eventType, kept, request.trackerId, request.data.members]
    return {
        "_id": new_uuid(),
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
    if isinstance(value, ExtremeNumber):
        return f"number {value.text.lower()}"
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    plain = "".join(map(str, digits)).lstrip("0")
    whole = plain.rstrip("0")
    return f"number {sign if whole else 0} {whole} {int(exponent) + len(plain) - len(whole) if whole else 0}"


def _refusal(id: str, outcome: str) -> InvalidRequest:
    """Return the error of a trashed event; the message describes the first problem (G-132)."""
    errors = load_exact(outcome)
    where, problem = _explanation(errors[0])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    message = f"{where}: {problem}{more}; the event was trashed as {id!r}"
    details = [{**error, "eventId": id} for error in errors]
    return InvalidRequest(message, field=where, details=details)


def _explanation(error: Mapping[str, Any]) -> tuple[str, str]:
    """Return the argument and the description of a problem."""
    kind, value = error["type"], error["value"]
    if error["field"] is not None:
        where = f"data/{error['field']['ingestionKey']}"
        if kind == "missing-field":
            return where, "missing; the event type requires it"
        return where, f"{shown(value)} is not of the type {error['field']['type']!r}"
    return {
        "unknown-event-type": ("eventType", f"there is no event type {shown(value)}"),
        "archived-event-type": ("eventType", f"the event type {shown(value)} is archived"),
        "invalid-event-date": (
            "eventDate",
            f"{shown(value)} is not allowed; allowed: an instant of RFC 3339, from 1990 to 24 hours ahead",
        ),
    }.get(kind, ("data", "the event could not be processed"))
