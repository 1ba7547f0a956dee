"""Accepts events: each raw event with its nonce, once, before anything else is done with it."""

from __future__ import annotations

import hashlib
import json
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from attrib_ds import instants
from attrib_ds.contract import Answer
from attrib_ds.contract.json_text import encode
from attrib_ds.contract.rule import shown
from attrib_ds.errors import Conflict, InvalidRequest, ServiceFailure
from attrib_ds.service.batches import insert_records, naive
from attrib_ds.service.ids import new_uuid
from attrib_ds.service.processing import Processing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from attrib_ds.contract.events import CreateEvent
    from attrib_ds.service.processing import Outcome
    from attrib_ds.service.store import Store

#: How long a synchronous call waits for its event (G-133).
_SECONDS_TO_WAIT: Final = 30.0
_SECONDS_TO_CLOSE: Final = 30.0


@dataclass(frozen=True)
class _Accepted:
    """Which event a nonce stands for, and whether it was sent with the same content."""

    id: str
    agrees: bool


@dataclass(frozen=True, eq=False)
class _Arrival:
    record: dict[str, Any]
    #: Holds None when it is this one's turn to write for those that wait.
    future: Future[_Accepted | None] = field(default_factory=Future)


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
        self._arrivals: list[_Arrival] = []
        self._lock = threading.Lock()
        self._is_led = False

    def resume(self) -> None:
        """Process what an earlier process accepted and did not get to."""
        with self._store.cursor() as cursor:
            if cursor.execute("SELECT 1 FROM pending_events LIMIT 1").fetchall():
                self._processing.wake()

    def close(self) -> None:
        """Process what was accepted, then stop; what takes too long is left for the next opening."""
        self._processing.close(timeout=_SECONDS_TO_CLOSE)

    def create_event(self, request: CreateEvent) -> Answer:
        """Accept an event and answer its id, whatever it holds; it is processed later."""
        record = _record(request)
        accepted = self._accept(record)
        if accepted.id == record["_id"]:
            self._processing.wake()
        elif not accepted.agrees:
            with self._lock:
                self.nonce_conflicts += 1
        return Answer(value=accepted.id)

    def create_event_sync(self, request: CreateEvent) -> Answer:
        """Accept an event and answer its id once it is processed; an invalid one is refused, and trashed."""
        record = _record(request)
        first = record["_id"]
        # Expected before it is accepted, so that its outcome cannot be missed.
        expected = self._processing.expect(first)
        try:
            accepted = self._accept(record)
        except BaseException:
            self._processing.forget(first, expected)
            raise
        if accepted.id == first:
            self._processing.wake()
            outcome = self._wait(first, expected, is_repeat=False)
        else:
            self._processing.forget(first, expected)
            if not accepted.agrees:
                raise Conflict(
                    f"nonce: {shown(request.nonce)} is the nonce of the event {accepted.id!r}, which has "
                    "other content; give each event a nonce of its own",
                    field="nonce",
                )
            outcome = self._outcome_of_repeat(accepted.id)
        if outcome is not None:
            raise _refusal(accepted.id, outcome)
        return Answer(value=accepted.id)

    def _outcome_of_repeat(self, id: str) -> Outcome:
        expected = self._processing.expect(id)
        with self._store.cursor() as cursor:
            is_pending = cursor.execute("SELECT 1 FROM pending_events WHERE _id = ?", [id]).fetchall()
            if not is_pending:
                self._processing.forget(id, expected)
                trashed = cursor.execute("SELECT errors FROM trashed_events WHERE _id = ?", [id]).fetchall()
                return trashed[0][0] if trashed else None
        self._processing.wake()
        return self._wait(id, expected, is_repeat=True)

    def _wait(self, id: str, expected: Future[Outcome], *, is_repeat: bool) -> Outcome:
        try:
            return expected.result(self._patience)
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

    def _accept(self, record: dict[str, Any]) -> _Accepted:
        """Store a raw event, together with those of other threads that arrive meanwhile."""
        arrival = _Arrival(record)
        with self._lock:
            self._arrivals.append(arrival)
            is_first, self._is_led = not self._is_led, True
        # One thread writes for all that wait, and hands over to one of those that arrived meanwhile.
        told = None if is_first else arrival.future.result()
        return self._accept_arrivals(arrival) if told is None else told

    def _accept_arrivals(self, own: _Arrival) -> _Accepted:
        with self._lock:
            group, self._arrivals = self._arrivals, []
        records = [each.record for each in group]
        try:
            accepted = self._store.write(lambda connection: _write(connection, records))
        except BaseException as error:
            for each in group:
                if each is not own:
                    each.future.set_exception(error)
            raise
        else:
            for each, told in zip(group, accepted, strict=True):
                if each is not own:
                    each.future.set_result(told)
            return accepted[group.index(own)]
        finally:
            with self._lock:
                if self._arrivals:
                    self._arrivals[0].future.set_result(None)
                else:
                    self._is_led = False


def _write(connection: duckdb.DuckDBPyConnection, records: Sequence[dict[str, Any]]) -> list[_Accepted]:
    """Store the raw events whose nonces are new, and list them as pending, in one transaction (G-129)."""
    places = ", ".join("?" for _ in records)
    found = connection.execute(
        f"SELECT nonce, _id, fingerprint FROM raw_events WHERE nonce IN ({places})",
        [each["nonce"] for each in records],
    ).fetchall()
    known = {nonce: (id, fingerprint) for nonce, id, fingerprint in found}
    new = []
    accepted = []
    for each in records:
        if each["nonce"] not in known:
            known[each["nonce"]] = each["_id"], each["fingerprint"]
            new.append(each)
        id, fingerprint = known[each["nonce"]]
        accepted.append(_Accepted(id, fingerprint == each["fingerprint"]))
    insert_records(connection, "raw_events", new)
    insert_records(connection, "pending_events", [{"_id": each["_id"]} for each in new])
    return accepted


def _record(request: CreateEvent) -> dict[str, Any]:
    date = request.eventDate
    if isinstance(date, datetime):
        date = instants.format(date)
    content = [request.eventType, date, request.trackerId, request.data]
    return {
        "_id": new_uuid(),
        "projectId": request.projectId,
        "nonce": request.nonce,
        "eventType": request.eventType,
        "trackerId": request.trackerId,
        "createdAt": naive(datetime.now(UTC)),
        "data": encode(request.data),
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
