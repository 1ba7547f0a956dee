"""Creates events: accepts each nonce once, validates what came, and moves it into the tables."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from json.encoder import encode_basestring_ascii
from typing import Any, Final, NamedTuple

import duckdb
import msgspec

from attrib_ds import instants, json_numbers, local_files, sql_results
from attrib_ds.contract import Answer, json_values
from attrib_ds.contract.events import CreateEvent, CreateEvents, Misfit, ReplayEvent, ValidateEvent
from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound, ServiceFailure
from attrib_ds.service.events import processing, validation
from attrib_ds.service.identity.tombstones import NONCE, find_erased, hidden_forms, read_salts
from attrib_ds.service.store import audit, files, intake, tables
from attrib_ds.service.store.audit import AuditEntry
from attrib_ds.service.store.queue import EVENTS, read_earlier_log, read_moved
from attrib_ds.service.store.store import Store


class Stored(NamedTuple):
    """The event with a nonce; without its fingerprint if its content was erased."""

    id: str
    fingerprint: str | None


def find_stored(connection: duckdb.DuckDBPyConnection, nonces: Sequence[str]) -> dict[str, Stored]:
    """Return the events that the tables have, or had before they were erased, by nonce."""
    rows = connection.execute(
        "SELECT nonce, _id, fingerprint FROM raw_events SEMI JOIN (SELECT unnest(?) AS nonce) USING (nonce)",
        [nonces],
    ).fetchall()
    stored = {nonce: Stored(id, fingerprint) for nonce, id, fingerprint in rows}
    # The content was erased, so it cannot be compared.
    return stored | {nonce: Stored(id, None) for nonce, id in find_erased(connection, nonces).items()}


def raw_event(request: CreateEvent, ids: tables.Uuids, *, is_anonymous: bool = False) -> dict[str, Any]:
    """Return the row of the table ``raw_events`` for an event sent now, without a token if anonymous."""
    now = instants.now()
    date = kept = request.eventDate
    if isinstance(date, datetime) and request.sentAt is not None:
        offset = instants.difference_of_clocks(request.sentAt, told=request.clockOffset, now=now)
        date = min(date, request.sentAt)
        if request.clockOffset is None and request.sentAt - date < _SECONDS_OF_ANSWER:
            # The page has ended before the answer to its view, which may arrive later and has then that date.
            date = request.sentAt + _LATEST_VIEW
        # A page that is loaded again sends the same event with another date.
        date, kept = instants.format(instants.truncate(date + offset)), None
    elif isinstance(date, datetime):
        # Sends that differ only in digits that are not kept have the same content.
        truncated = instants.truncate(date)
        kept = instants.format(truncated)
        date = kept if truncated == date else instants.format(date)
    content = [request.eventType, kept, request.trackerId, request.data.members]
    return {
        "_id": ids.new(),
        "projectId": request.projectId,
        "nonce": request.nonce,
        "eventType": request.eventType,
        "trackerId": request.trackerId,
        "createdAt": instants.naive(now),
        "data": request.data.text,
        "eventDate": None if date is None else json_values.encode(date),
        "fingerprint": fingerprint(content),
        "isAnonymous": is_anonymous,
    }


def fingerprint(content: object) -> str:
    """Return a hash of a JSON value; equal values have the same, however numbers are written.

    Examples
    --------
    >>> fingerprint({"value": 10, "of": "a"}) == fingerprint({"of": "a", "value": Decimal("1.0e1")})
    True
    """
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def _canonical(value: Any) -> str:
    """Return the canonical JSON text of a value, in which numbers are text."""
    if isinstance(value, str):
        return encode_basestring_ascii(f"text {value}")
    if isinstance(value, dict):
        members = [f"{encode_basestring_ascii(key)}: {_canonical(value[key])}" for key in sorted(value)]
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join([_canonical(member) for member in value])}]"
    if value is None or isinstance(value, bool):
        return json_values.encode(value)
    if type(value) is int:
        # As below, without the detour over Decimal.
        plain = str(abs(value))
        whole = plain.rstrip("0")
        return f'"number {int(value < 0)} {whole} {len(plain) - len(whole) if whole else 0}"'
    if isinstance(value, json_numbers.ExtremeNumber):
        return f'"number {value.text.lower()}"'
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    plain = "".join(map(str, digits)).lstrip("0")
    whole = plain.rstrip("0")
    return (
        f'"number {sign if whole else 0} {whole} {int(exponent) + len(plain) - len(whole) if whole else 0}"'
    )


#: How long a synchronous call waits until the tables have its event.
_SECONDS_TO_WAIT: Final = 30.0
#: For which an event waits in a page for the answer to the page view.
_SECONDS_OF_ANSWER: Final = timedelta(seconds=10)
#: A page view may arrive this much after an event that its page sent when it ended (0.9 s on busy cores).
_LATEST_VIEW: Final = timedelta(seconds=2)
_MOST_WAITING: Final = 50_000
#: Portions of half this size take a third more processor time per event.
_LARGEST_PORTION: Final = 1_000
_SECONDS_TO_GATHER: Final = 0.25
_LARGEST_BATCH: Final = 100_000
_LARGEST_HASH: Final = 2**63 - 1
#: Hashes of the nonces of events, and of the hashes that replace those of erased events.
_NONCES: Final = (
    f"SELECT CAST(md5_number_lower(nonce) & {_LARGEST_HASH} AS BIGINT) FROM (SELECT nonce FROM raw_events "
    f"UNION ALL SELECT 'erased ' || hash FROM tombstones WHERE kind = '{NONCE}') ORDER BY 1"
)


class _Accepted(NamedTuple):
    """The event stored for a nonce, and what became of the one sent.

    Whether it is new, and its content that of the first event of the nonce; and its errors, if it is new and
    its sender waits for them.
    """

    id: str
    is_new: bool
    agrees: bool
    outcome: processing.Outcome = None


class _Sent(NamedTuple):
    """The raw events of one request, its audit entry, and whether it waits for their outcome."""

    records: Sequence[dict[str, Any]]
    line: AuditEntry | None
    is_awaited: bool
    #: Makes the answer of what was accepted; may raise.
    answer: Callable[[list[_Accepted]], Any]

    def entry(self) -> dict[str, Any] | None:
        """Return the audit entry with the id of the event, or the number of events."""
        if self.line is None:
            return None
        is_one = len(self.records) == 1
        change = {"subject": self.records[0]["_id"]} if is_one else {"details": {"events": len(self.records)}}
        return audit.rows_of([replace(self.line, **change)])[0]


class _Entry(NamedTuple):
    """A raw event with its result, or an audit entry."""

    raw: dict[str, Any] | None
    audit: dict[str, Any] | None
    prepared: processing.Prepared | None


class EventIntake(intake.TableIntake[_Sent, Any, _Entry]):
    """The events of a project on their way into the tables.

    An event whose sender waits for the outcome is validated before it is accepted. Validation alone decides
    the outcome, so the sender is answered before the tables have the event.
    """

    def __init__(self, store: Store) -> None:
        sizes = {"most_waiting": _MOST_WAITING, "most": _LARGEST_PORTION}
        super().__init__(store, EVENTS, **sizes, seconds_to_gather=_SECONDS_TO_GATHER)
        #: Results of awaited events, by id.
        self._prepared: dict[str, processing.Prepared] = {}
        #: Salts of the hashes that stand for the nonces of erased events where the queue never saw these.
        self._salts: list[str] = []
        if not store.is_read_only:
            self._know_nonces()

    def _know_nonces(self) -> None:
        """Give the queue the nonces of the tables, if it is new."""
        with self._store.cursor() as cursor:
            self._salts = read_salts(cursor)
            if self._store.queue.has_nonces:
                return
            batches = sql_results.read_batches(cursor, _NONCES, _LARGEST_BATCH)
            self._store.queue.set_nonces(
                number for batch in batches for number in batch.column(0).to_pylist()
            )

    def take_over(self) -> None:
        """Put what the log of a release before the queue holds into the queue."""
        queue, file = self._store.queue, self._store.path
        groups = [] if file is None else read_earlier_log(files.earlier_log_of(file))
        if file is None or not groups:
            return
        with self._store.cursor() as cursor:
            moved = read_moved(cursor)[EVENTS]
        with queue.transaction():
            for number, content in groups:
                if number > moved:
                    queue.are_new([_hash(record["nonce"]) for record in content["records"]])
                    for record in content["records"]:
                        queue.put(EVENTS, record["nonce"], msgspec.json.encode([record, None]))
                    for entry in content["audit"]:
                        queue.put(EVENTS, None, msgspec.json.encode([None, entry]))
        local_files.remove(files.earlier_log_of(file))

    def _put(self, items: Sequence[_Sent]) -> list[Any]:
        queue = self._store.queue
        awaited = [record for sent in items if sent.is_awaited for record in sent.records]
        prepared = {event.result.raw.id: event for event in processing.prepare(self._store, awaited)}
        records = [record for sent in items for record in sent.records]
        stored = self._put_events(records)
        for record in records:
            if stored[record["nonce"]].id == record["_id"] and record["_id"] in prepared:
                self._prepared[record["_id"]] = prepared[record["_id"]]
        results = []
        for sent in items:
            accepted = [_accepted(record, stored[record["nonce"]], prepared) for record in sent.records]
            try:
                results.append(sent.answer(accepted))
            except AttribError as error:
                results.append(error)
            entry = sent.entry()
            if entry is not None:
                queue.put(EVENTS, None, msgspec.json.encode([None, entry]))
        return results

    def _put_events(self, records: Sequence[dict[str, Any]]) -> dict[str, Stored]:
        """Put events with new nonces into the queue; return the event of each nonce."""
        queue = self._store.queue
        nonces = [record["nonce"] for record in records]
        contents = [msgspec.json.encode([record, None]) for record in records]
        hidden = [_hash(form) for nonce in nonces for form in hidden_forms(self._salts, nonce)]
        if queue.are_new([_hash(nonce) for nonce in nonces]) and not (hidden and queue.knows_any(hidden)):
            queue.put_new(EVENTS, list(zip(nonces, contents, strict=True)))
            return {record["nonce"]: Stored(record["_id"], record["fingerprint"]) for record in records}
        # The tables first, since the queue keeps an event until they have it.
        with self._store.cursor() as cursor:
            stored = find_stored(cursor, nonces)
        for nonce, content in zip(nonces, contents, strict=True):
            if nonce not in stored:
                queue.put(EVENTS, nonce, content)
                first, _ = msgspec.json.decode(queue.find(EVENTS, nonce))
                stored[nonce] = Stored(first["_id"], first["fingerprint"])
        return stored

    def _read(self, contents: Sequence[bytes]) -> list[_Entry]:
        decoded = [_decode(content) for content in contents]
        known = {raw["_id"]: self._prepared.pop(raw["_id"], None) for raw, _ in decoded if raw is not None}
        others = [raw for raw, _ in decoded if raw is not None and known[raw["_id"]] is None]
        known |= {event.result.raw.id: event for event in processing.prepare(self._store, others)}
        return [_Entry(raw, entry, None if raw is None else known[raw["_id"]]) for raw, entry in decoded]

    def _write(self, connection: duckdb.DuckDBPyConnection, entries: Sequence[_Entry]) -> None:
        raws = [entry.raw for entry in entries if entry.raw is not None]
        # The log of a release before the queue may repeat what the tables have.
        stored = find_stored(connection, [raw["nonce"] for raw in raws]) if raws else {}
        new = [raw for raw in raws if raw["nonce"] not in stored]
        ids = {raw["_id"] for raw in new}
        results = [entry.prepared for entry in entries if entry.raw is not None and entry.raw["_id"] in ids]
        tables.insert_records(connection, "raw_events", new)
        processing.write(connection, self._store, [result for result in results if result is not None])
        tables.insert_records(
            connection, "audit", [entry.audit for entry in entries if entry.audit is not None]
        )

    def _set_aside(self, connection: duckdb.DuckDBPyConnection, entry: _Entry) -> None:
        if entry.raw is not None:
            (failed,) = processing.prepare(self._store, [entry.raw], have_failed=True)
            self._write(connection, [entry._replace(prepared=failed)])


def _accepted(
    record: dict[str, Any], stored: Stored, prepared: Mapping[str, processing.Prepared]
) -> _Accepted:
    id = record["_id"]
    if stored.id != id:
        return _Accepted(stored.id, is_new=False, agrees=stored.fingerprint in {None, record["fingerprint"]})
    return _Accepted(id, is_new=True, agrees=True, outcome=prepared[id].outcome if id in prepared else None)


def _hash(nonce: str) -> int:
    """Return what :data:`_NONCES` reads of a nonce."""
    digest = hashlib.md5(nonce.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:], "little") & _LARGEST_HASH


def _decode(content: bytes) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    raw, entry = msgspec.json.decode(content)
    if raw is not None:
        raw["createdAt"] = datetime.fromisoformat(raw["createdAt"])
        raw.setdefault("isAnonymous", False)
    if entry is not None:
        entry["date"] = datetime.fromisoformat(entry["date"])
    return raw, entry


class Ingestion:
    """Creates the events of a project, validates them and replays trashed ones.

    Parameters
    ----------
    store : Store
        Store of the events.
    is_served : bool, default False
        Whether to answer a new event with its outcome before the tables have it; every operation that could
        show the event waits for them.

    Attributes
    ----------
    intake : EventIntake
        Accepts the events.
    nonce_conflicts : int
        Repeated nonces with other content, which were answered with the id of the first event.
    """

    def __init__(self, store: Store, *, is_served: bool = False) -> None:
        self.intake = EventIntake(store)
        self.nonce_conflicts = 0
        self._store = store
        self._is_served = is_served
        self._ids = tables.Uuids()

    def resume(self) -> None:
        """Take over what an earlier process accepted and did not process."""
        self.intake.take_over()
        with self._store.cursor() as cursor:
            has_pending = bool(cursor.execute("SELECT 1 FROM pending_events LIMIT 1").fetchall())
        if has_pending:
            self._process_pending()
        self.intake.resume()

    def close(self, *, timeout: float) -> None:
        """Move what was accepted, then stop; after a timeout the next process goes on."""
        self.intake.close(timeout=timeout)

    def settle(self) -> None:
        """Wait until the tables have all accepted events."""
        self.intake.settle()

    def start_event(self, request: CreateEvent, line: AuditEntry | None = None) -> Future[Answer]:
        """Start to create an event, which is validated later; the future is set once it is durable."""
        return self._submit([request], line, self._answer)

    def start_event_sync(self, request: CreateEvent, line: AuditEntry | None = None) -> Future[Answer | None]:
        """Start to create an event that is validated at once.

        The future is None if the nonce is known: a thread that can wait has to look up the outcome.
        """
        return self._submit([request], line, _answer_of_new, is_awaited=True)

    def create_event(self, request: CreateEvent, line: AuditEntry | None = None) -> Answer:
        """Accept an event and return its id without validation; it is processed later."""
        return self.start_event(request, line).result()

    def create_event_sync(self, request: CreateEvent, line: AuditEntry | None = None) -> Answer:
        """Accept an event and return its id once it is processed; an invalid one is trashed and raises."""
        (outcome,) = self._create_and_wait([request], line)
        if isinstance(outcome, AttribError):
            raise outcome
        return Answer(value=outcome)

    def create_events(self, request: CreateEvents, line: AuditEntry | None = None) -> Answer:
        """Accept many events and return the id or the error of each; errors do not affect other events."""
        events = [event for event in request.events if isinstance(event, CreateEvent)]
        results: Iterable[str | AttribError] = ()
        if events and request.wait:
            results = self._create_and_wait(events, line)
        elif events:
            results = [self._id_of(accepted) for accepted in self._submit(events, line, list).result()]
        left = iter(results)
        return Answer(
            value=[event.error if isinstance(event, Misfit) else next(left) for event in request.events]
        )

    def validate_event(self, request: ValidateEvent, line: AuditEntry | None = None) -> Answer:  # noqa: ARG002
        """Return the errors that would trash an event; nothing is stored."""
        (prepared,) = processing.prepare(self._store, [raw_event(request, self._ids)])
        result = prepared.result
        return Answer(value=list(result.errors) if isinstance(result, validation.InvalidEvent) else [])

    def replay_event(self, request: ReplayEvent, line: AuditEntry | None = None) -> Answer:
        """Process a trashed event again, as it was sent, and return its id.

        Raises
        ------
        NotFound
            If there is no such trashed event, or its raw event was erased.
        InvalidRequest
            If it is still invalid; it stays in the trash with its present errors.
        """
        id = request.id

        def process(connection: duckdb.DuckDBPyConnection) -> processing.Outcome:
            trashed = connection.execute("SELECT 1 FROM trashed_events WHERE _id = ?", [id]).fetchall()
            raws = _read_raw(connection, "WHERE raw._id = ?", [id]) if trashed else []
            if not raws:
                raise NotFound(f"id: there is no trashed event {id!r} that could be replayed")
            (prepared,) = processing.prepare(self._store, raws)
            connection.execute("DELETE FROM trashed_events WHERE _id = ?", [id])
            processing.write(connection, self._store, [prepared])
            audit.append(connection, [] if line is None else [line])
            return prepared.outcome

        outcome = self._store.write(process)
        if outcome is not None:
            raise _refusal(id, outcome)
        return Answer(value=id)

    def _process_pending(self) -> None:
        """Process what a release before the queue accepted and did not process."""

        def process(connection: duckdb.DuckDBPyConnection) -> None:
            pending = "JOIN pending_events AS pending ON raw._id = pending._id ORDER BY pending.rowid"
            prepared = processing.prepare(self._store, _read_raw(connection, pending, []))
            ids = [[event.result.raw.id for event in prepared]]
            connection.execute("DELETE FROM trashed_events WHERE _id IN (SELECT unnest(?))", ids)
            connection.execute("DELETE FROM pending_events")
            processing.write(connection, self._store, prepared)

        self._store.write(process)

    def _submit(
        self,
        events: Sequence[CreateEvent],
        line: AuditEntry | None,
        answer: Callable[[list[_Accepted]], Any],
        *,
        is_awaited: bool = False,
    ) -> Future[Any]:
        # Over HTTP, what comes without a token has no entry in the audit log.
        is_anonymous = self._is_served and line is None
        records = [raw_event(event, self._ids, is_anonymous=is_anonymous) for event in events]
        return self.intake.submit(_Sent(records, line, is_awaited, answer), size=len(records))

    def _answer(self, accepted: Sequence[_Accepted]) -> Answer:
        return Answer(value=self._id_of(accepted[0]))

    def _id_of(self, accepted: _Accepted) -> str:
        self.nonce_conflicts += not accepted.agrees
        return accepted.id

    def _create_and_wait(
        self, events: Sequence[CreateEvent], line: AuditEntry | None
    ) -> list[str | AttribError]:
        """Accept events and wait until the tables have them; return the id or the error of each."""
        results: list[_Accepted] = self._submit(events, line, list, is_awaited=True).result()
        is_answered = self._is_served and all(accepted.is_new for accepted in results)
        is_stored = is_answered or self.intake.wait(_SECONDS_TO_WAIT)
        return [
            self._error_of(event, accepted, is_stored=is_stored) or accepted.id
            for event, accepted in zip(events, results, strict=True)
        ]

    def _error_of(self, event: CreateEvent, accepted: _Accepted, *, is_stored: bool) -> AttribError | None:
        id = accepted.id
        if not accepted.agrees:
            return Conflict(
                f"nonce: {json_values.shown(event.nonce)} is the nonce of the event {id!r}, which has other "
                "content; give each event a nonce of its own"
            )
        if not is_stored and accepted.is_new:
            return ServiceFailure(
                f"the event was accepted as {id!r} and will be processed; sending it again with the same "
                "nonce is safe",
                details=[{"eventId": id}],
            )
        if not is_stored:
            return Conflict(
                f"nonce: the event {id!r} with this nonce is still being processed; ask again later",
                details=[{"eventId": id}],
            )
        outcome = accepted.outcome
        if not accepted.is_new:
            with self._store.cursor() as cursor:
                row = sql_results.read_row(cursor, "SELECT errors FROM trashed_events WHERE _id = ?", [id])
            outcome = row[0] if row else None
        return None if outcome is None else _refusal(id, outcome)


def _answer_of_new(accepted: Sequence[_Accepted]) -> Answer | None:
    id, is_new, _, outcome = accepted[0]
    if outcome is not None:
        raise _refusal(id, outcome)
    return Answer(value=id) if is_new else None


def _read_raw(
    connection: duckdb.DuckDBPyConnection, relation: str, values: Sequence[object]
) -> list[dict[str, Any]]:
    query = f"SELECT raw.* FROM raw_events AS raw {relation}"
    rows: list[dict[str, Any]] = sql_results.read_arrow(connection, query, values).to_pylist()
    return rows


def _refusal(id: str, outcome: str) -> InvalidRequest:
    """Return the error of a trashed event; the message describes the first problem."""
    errors = json_numbers.load_exact(outcome)
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
        return where, f"{json_values.shown(value)} is not of the type {error['field']['type']!r}"
    return {
        "unknown-event-type": ("eventType", f"there is no event type {json_values.shown(value)}"),
        "archived-event-type": ("eventType", f"the event type {json_values.shown(value)} is archived"),
        "invalid-event-date": (
            "eventDate",
            f"{json_values.shown(value)} is not allowed; "
            "allowed: an instant of RFC 3339, from 1990 to 24 hours ahead",
        ),
    }.get(kind, ("data", "the event could not be processed"))
