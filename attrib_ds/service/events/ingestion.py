"""Accepts events: each raw event with its nonce, once, before anything else is done with it."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants
from attrib_ds.contract import Answer
from attrib_ds.contract.events import CreateEvent, Misfit
from attrib_ds.contract.json_text import encode
from attrib_ds.contract.rule import shown
from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound, ServiceFailure
from attrib_ds.instants import naive
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
    """Which event a nonce stands for, the id of the one sent, and whether their contents agree."""

    id: str
    sent: str
    agrees: bool

    @property
    def is_new(self) -> bool:
        """Whether it is the event that was sent, and not one that was there before."""
        return self.sent == self.id


@dataclass(frozen=True)
class _Sent:
    """The raw events of one request, and what is written down of it."""

    records: list[dict[str, Any]]
    line: Line | None

    @property
    def told(self) -> Line | None:
        """The line, which names the event as it was sent, or how many there are."""
        if self.line is None:
            return None
        if len(self.records) == 1:
            return replace(self.line, subject=self.records[0]["_id"])
        return replace(self.line, details={"events": len(self.records)})


class Ingestion:
    """Takes in the events of a project.

    Parameters
    ----------
    store : Store
        Where they go.
    patience : float, default 30
        Seconds that a synchronous call waits for its event to be processed.

    Attributes
    ----------
    nonce_conflicts : int
        Repeats of a nonce with other content that were answered with the first event (G-131).
    """

    def __init__(self, store: Store, *, patience: float = _SECONDS_TO_WAIT) -> None:
        self.nonce_conflicts = 0
        self._store = store
        self._patience = patience
        self._processing = Processing(store)
        self._lock = threading.Lock()
        self._acceptance: Batcher[_Sent, list[_Accepted]] = Batcher(self._accept_all)

    def resume(self) -> None:
        """Process what an earlier process accepted and did not get to."""
        with self._store.cursor() as cursor:
            if cursor.execute("SELECT 1 FROM pending_events LIMIT 1").fetchall():
                self._processing.wake()

    def close(self) -> None:
        """Process what was accepted, then stop; what takes too long is left for the next opening."""
        self._processing.close(timeout=_SECONDS_TO_CLOSE)

    def create_event(self, request: CreateEvent, line: Line | None = None) -> Answer:
        """Accept an event and answer its id, whatever it holds; it is processed later."""
        (id,) = self._accept_only([request], line)
        return Answer(value=id)

    def create_event_sync(self, request: CreateEvent, line: Line | None = None) -> Answer:
        """Accept an event and answer its id once it is processed; an invalid one is refused, and trashed."""
        (told,) = self._accept_and_wait([request], line)
        if isinstance(told, AttribError):
            raise told
        return Answer(value=told)

    def create_events(self, request: CreateEvents, line: Line | None = None) -> Answer:
        """Accept many events and answer the id or the error of each; one that is wrong spoils no other."""
        told: list[str | AttribError] = [
            each.error if isinstance(each, Misfit) else "" for each in request.events
        ]
        places = [place for place, each in enumerate(request.events) if isinstance(each, CreateEvent)]
        events = [each for each in request.events if isinstance(each, CreateEvent)]
        accept = self._accept_and_wait if request.wait else self._accept_only
        for place, outcome in zip(places, accept(events, line), strict=True):
            told[place] = outcome
        return Answer(value=told)

    def validate_event(self, request: ValidateEvent, line: Line | None = None) -> Answer:  # noqa: ARG002
        """Answer the errors that would trash an event; nothing is stored (G-138)."""
        return Answer(value=list(self._processing.errors_of(_record(request))))

    def replay_event(self, request: ReplayEvent, line: Line | None = None) -> Answer:
        """Process a trashed event again, as it was sent, and answer its id (G-057).

        Raises
        ------
        NotFound
            If there is no such trashed event, or what was sent is not kept any more.
        InvalidRequest
            If it is not valid now either; it stays in the trash, with what is wrong with it now.
        """
        id = request.id

        def list_again(connection: duckdb.DuckDBPyConnection) -> None:
            found = connection.execute(
                "SELECT 1 FROM trashed_events AS trashed JOIN raw_events AS raw ON trashed._id = raw._id "
                "WHERE trashed._id = ?",
                [id],
            ).fetchall()
            if not found:
                raise NotFound(f"id: there is no trashed event {id!r} that could be replayed", field="id")
            connection.execute(
                "INSERT INTO pending_events SELECT ? WHERE ? NOT IN (SELECT _id FROM pending_events)",
                [id, id],
            )
            audit.append(connection, [] if line is None else [line])

        expected = self._processing.expect(id)
        try:
            self._store.write(list_again)
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
        accepted = self._accept(_Sent([_record(each) for each in events], line))
        with self._lock:
            self.nonce_conflicts += sum(not each.agrees for each in accepted)
        return [each.id for each in accepted]

    def _accept_and_wait(self, events: Sequence[CreateEvent], line: Line | None) -> list[str | AttribError]:
        """Accept events; return the id of each that is processed, and the error of each that is not."""
        records = [_record(each) for each in events]
        # Expected before they are accepted, so that no outcome can be missed.
        expected = {each["_id"]: self._processing.expect(each["_id"]) for each in records}
        try:
            accepted = self._accept(_Sent(records, line))
        except BaseException:
            for id, future in expected.items():
                self._processing.forget(id, future)
            raise
        for each in accepted:
            if not each.is_new:
                self._processing.forget(each.sent, expected[each.sent])
        until = time.monotonic() + self._patience
        told: list[str | AttribError] = []
        for event, each in zip(events, accepted, strict=True):
            try:
                told.append(self._settled(event, each, expected[each.sent], until=until))
            except AttribError as error:
                told.append(error)
        return told

    def _settled(
        self, event: CreateEvent, accepted: _Accepted, expected: Future[Outcome], *, until: float
    ) -> str:
        """Return the id of an event once it is processed; raise what is wrong with it."""
        if accepted.is_new:
            outcome = self._wait(accepted.id, expected, until=until, is_repeat=False)
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
        """Store raw events, together with those of other threads that arrive meanwhile."""
        if not sent.records:
            return []
        accepted = self._acceptance.submit(sent)
        if any(each.is_new for each in accepted):
            self._processing.wake()
        return accepted

    def _accept_all(self, requests: Sequence[_Sent]) -> list[list[_Accepted]]:
        records = [each for sent in requests for each in sent.records]
        lines = [sent.told for sent in requests if sent.told is not None]
        accepted = iter(self._store.write(lambda connection: _write(connection, records, lines)))
        return [[next(accepted) for _ in sent.records] for sent in requests]


def _write(
    connection: duckdb.DuckDBPyConnection, records: Sequence[dict[str, Any]], lines: Sequence[Line]
) -> list[_Accepted]:
    """Store the raw events whose nonces are new, and list them as pending, in one transaction (G-129)."""
    places = ", ".join("?" for _ in records)
    found = connection.execute(
        f"SELECT nonce, _id, fingerprint FROM raw_events WHERE nonce IN ({places})",
        [each["nonce"] for each in records],
    ).fetchall()
    known = {nonce: (id, fingerprint) for nonce, id, fingerprint in found}
    erased = find_erased(connection, [each["nonce"] for each in records])
    new = []
    accepted = []
    for each in records:
        if each["nonce"] in erased:
            # What it held is not known any more, so that it cannot differ (G-210).
            accepted.append(_Accepted(erased[each["nonce"]], each["_id"], agrees=True))
            continue
        if each["nonce"] not in known:
            known[each["nonce"]] = each["_id"], each["fingerprint"]
            new.append(each)
        id, fingerprint = known[each["nonce"]]
        accepted.append(_Accepted(id, each["_id"], fingerprint == each["fingerprint"]))
    insert_records(connection, "raw_events", new)
    insert_records(connection, "pending_events", [{"_id": each["_id"]} for each in new])
    audit.append(connection, lines)
    return accepted


def _record(request: CreateEvent) -> dict[str, Any]:
    date = request.eventDate
    if isinstance(date, datetime):
        date = instants.format(date)
    content = [request.eventType, date, request.trackerId, request.data.members]
    return {
        "_id": new_uuid(),
        "projectId": request.projectId,
        "nonce": request.nonce,
        "eventType": request.eventType,
        "trackerId": request.trackerId,
        "createdAt": naive(datetime.now(UTC)),
        "data": request.data.text,
        "eventDate": None if date is None else encode(date),
        "fingerprint": hashlib.sha256(json.dumps(_canonical(content)).encode()).hexdigest(),
    }


def _canonical(value: Any) -> Any:
    """Return a value such that two have the same text when they are the same JSON."""
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return f"text {value}"
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    plain = "".join(map(str, digits)).lstrip("0")
    whole = plain.rstrip("0")
    return f"number {sign if whole else 0} {whole} {int(exponent) + len(plain) - len(whole) if whole else 0}"


def _refusal(id: str, outcome: str) -> InvalidRequest:
    """Return the error of a trashed event: its message names the first thing that is wrong (G-132)."""
    errors = json.loads(outcome, parse_float=Decimal)
    where, problem = _told(errors[0])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    message = f"{where}: {problem}{more}; the event was stored as trashed, as {id!r}"
    details = [{**each, "eventId": id} for each in errors]
    return InvalidRequest(message, field=where, details=details)


def _told(error: Mapping[str, Any]) -> tuple[str, str]:
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
