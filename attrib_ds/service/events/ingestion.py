"""Creates events: accepts them, and waits for their processing where the caller asks for it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract import Answer
from attrib_ds.contract.events import CreateEvent, Misfit
from attrib_ds.contract.json_values import shown
from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound, ServiceFailure
from attrib_ds.json_numbers import load_exact
from attrib_ds.service.events.acceptance import Acceptance
from attrib_ds.service.events.logged_events import LoggedEvents, replay
from attrib_ds.service.events.processing import Processing
from attrib_ds.service.events.raw_events import raw_event
from attrib_ds.service.store import audit
from attrib_ds.service.store.append_log import AppendLog, append_log_of, is_open, read_applied
from attrib_ds.service.store.ids import Uuids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import duckdb

    from attrib_ds.contract.events import CreateEvents, ReplayEvent, ValidateEvent
    from attrib_ds.service.events.processing import Outcome
    from attrib_ds.service.events.raw_events import Accepted
    from attrib_ds.service.store.audit import Line
    from attrib_ds.service.store.store import Store

#: How long a synchronous call waits for its event (G-133).
_SECONDS_TO_WAIT: Final = 30.0
_SECONDS_TO_CLOSE: Final = 30.0


@dataclass(frozen=True)
class Started:
    """An event whose creation was started.

    Parameters
    ----------
    future : Future of Answer
        The answer; None if the nonce is known and the request must be carried out by a thread that can
        wait. Its callbacks run in other threads.
    patience : float, optional
        Seconds after which to call ``expire``.
    expire : callable, optional
        Sets the error of an event that was not processed in time.
    """

    future: Future[Answer | None]
    patience: float | None = None
    expire: Callable[[], None] = lambda: None


class Ingestion:
    """Accepts the events of a project, validates them and replays trashed ones.

    Parameters
    ----------
    store : Store
        Store of the events.
    patience : float, default 30
        Seconds that a synchronous call waits for its event to be processed.
    has_log : bool, default False
        Whether to append accepted events to a log first. That is faster for single events; without it, they
        are stored in the tables at once.

    Attributes
    ----------
    nonce_conflicts : int
        Repeated nonces with other content, which were answered with the id of the first event (G-131).
    """

    def __init__(self, store: Store, *, patience: float = _SECONDS_TO_WAIT, has_log: bool = False) -> None:
        self.nonce_conflicts = 0
        self._store = store
        self._patience = patience
        self._processing = Processing(store)
        self._lock = threading.Lock()
        self._ids = Uuids()
        self._logged = _open_log(store, self._processing, has_log=has_log)
        self._acceptance = Acceptance(store, self._processing, self._logged)

    def resume(self) -> None:
        """Process events that an earlier process accepted and left pending."""
        if self._processing.has_pending():
            self._processing.wake()

    def close(self) -> None:
        """Store and process waiting events, then stop; after a timeout the next process goes on."""
        self._acceptance.close(timeout=_SECONDS_TO_CLOSE)
        if self._logged is not None:
            self._logged.close(timeout=_SECONDS_TO_CLOSE)
        self._processing.close(timeout=_SECONDS_TO_CLOSE)

    def settle(self) -> None:
        """Wait until the tables have all accepted events."""
        if self._logged is not None:
            self._logged.settle()

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

    def start_event(self, request: CreateEvent, line: Line | None = None) -> Started:
        """Start :meth:`create_event` without waiting for it."""
        record = raw_event(request, self._ids)
        return Started(self._acceptance.submit([record], line, answer=self._answer))

    def start_event_sync(self, request: CreateEvent, line: Line | None = None) -> Started:
        """Start :meth:`create_event_sync` without waiting for it; a repeated nonce is left to that method."""
        record = raw_event(request, self._ids)
        id = record["_id"]
        # Before it is accepted, so that no outcome is missed.
        outcome = self._processing.expect(id)
        future: Future[Answer | None] = Future()

        def on_accepted(done: Future[list[Accepted]]) -> None:
            error = done.exception()
            if error is None and done.result()[0].is_new:
                outcome.add_done_callback(on_processed)
                return
            self._processing.forget(id, outcome)
            _settle(future, error)

        def on_processed(done: Future[Outcome]) -> None:
            error = done.exception()
            errors = None if error else done.result()
            if error is None and errors is not None:
                error = _refusal(id, errors)
            _settle(future, error or Answer(value=id))

        try:
            accepted: Future[list[Accepted]] = self._acceptance.submit([record], line, is_urgent=True)
        except BaseException:
            self._processing.forget(id, outcome)
            raise
        accepted.add_done_callback(on_accepted)
        return Started(future, self._patience, lambda: _settle(future, _late(id)))

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
        return Answer(value=list(self._processing.errors_of(raw_event(request, self._ids))))

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
        accepted = self._accept([raw_event(event, self._ids) for event in events], line)
        return [self._acknowledge(result) for result in accepted]

    def _answer(self, accepted: Sequence[Accepted]) -> Answer:
        return Answer(value=self._acknowledge(accepted[0]))

    def _acknowledge(self, accepted: Accepted) -> str:
        if not accepted.agrees:
            with self._lock:
                self.nonce_conflicts += 1
        return accepted.id

    def _accept_and_wait(self, events: Sequence[CreateEvent], line: Line | None) -> list[str | AttribError]:
        """Accept events and wait; return the ids of processed events and the errors of others."""
        records = [raw_event(event, self._ids) for event in events]
        # Before they are accepted, so that no outcome is missed.
        expected = {record["_id"]: self._processing.expect(record["_id"]) for record in records}
        try:
            accepted = self._accept(records, line, is_urgent=True)
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
        self, event: CreateEvent, accepted: Accepted, future: Future[Outcome], *, until: float
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
        self.settle()
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
            if is_repeat:
                raise Conflict(
                    f"nonce: the event {id!r} with this nonce is still being processed; ask again later",
                    field="nonce",
                    details=[{"eventId": id}],
                ) from None
            raise _late(id) from None

    def _accept(
        self, records: Sequence[dict[str, Any]], line: Line | None, *, is_urgent: bool = False
    ) -> list[Accepted]:
        """Store raw events, in one transaction with those that other threads submit meanwhile."""
        if not records:
            return []
        return self._acceptance.submit(records, line, is_urgent=is_urgent).result()


def _open_log(store: Store, processing: Processing, *, has_log: bool) -> LoggedEvents | None:
    """Replay the log that an earlier process left; then open a new one or remove it."""
    if store.path is None or store.is_read_only:
        return None
    path = append_log_of(store.path)
    if is_open(path):
        return None
    if store.unapplied:
        replay(store, store.unapplied)
    if not has_log:
        path.unlink(missing_ok=True)
        return None
    with store.cursor() as cursor:
        last = read_applied(cursor)
    return LoggedEvents(store, processing, AppendLog(path, last=last))


def _late(id: str) -> ServiceFailure:
    return ServiceFailure(
        f"the event was accepted as {id!r} and will be processed; sending it again with the same "
        "nonce is safe",
        details=[{"eventId": id}],
    )


def _settle(future: Future[Answer | None], outcome: Answer | BaseException | None) -> None:
    """Set the answer or the error of a request, unless it has one: the caller may have given up meanwhile."""
    with suppress(InvalidStateError):
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


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
