"""Retention: anonymises events, valid and trashed, when their period ends."""

import json
import logging
import threading
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa

from attrib_ds import instants
from attrib_ds.contract import Answer, json_values, users
from attrib_ds.json_numbers import load_exact
from attrib_ds.service.events.event_types import read_declarations
from attrib_ds.service.identity.identities import identities_query, of_events, of_interactions
from attrib_ds.service.store import tables, threads
from attrib_ds.service.store.settings import read_settings
from attrib_ds.service.store.store import Store

#: Types of values that identify a person, or may do so in free text.
_PERSONAL: Final = frozenset({"email", "phone", "location", "message"})
#: Types whose values are not text, such as an address or a date of birth.
_PLAIN: Final = frozenset({"number", "currency", "boolean"})
_ANONYMISED: Final = {"raw": None, "current": None, "anonymized": True}


class Field(NamedTuple):
    """A value of an event, as input of the decision whether it is personal.

    Parameters
    ----------
    event_id, event_type, entity, key, type : str
        The event and its type, ``user`` or ``event``, and the value's storage key and type.
    is_declared_personal : bool
        Whether the event type declares it personal.
    """

    event_id: str
    event_type: str
    entity: str
    key: str
    type: str
    is_declared_personal: bool


def is_identifying(field: Field) -> bool:
    """Return whether a value may identify a person."""
    return field.entity == "user" or field.is_declared_personal or field.type in _PERSONAL


def redact(
    connection: duckdb.DuckDBPyConnection,
    ids: list[str],
    now: datetime,
    *,
    is_personal: Callable[[Field], bool],
    whole: bool = False,
) -> None:
    """Replace the personal values of events by null.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    ids : list of str
        The events.
    now : datetime
        Current time, naive, in UTC; stored as ``anonimizedAt`` of events with an expiration policy.
    is_personal : callable
        Takes a :class:`Field`.
    whole : bool, default False
        Whether to redact all raw data and all that no field declares but numbers and flags, too.
    """
    events = connection.execute(
        'SELECT events._id, events.eventType, eventTypeVersion, events.createdAt, event, "user", raw.data '
        "FROM events LEFT JOIN raw_events AS raw ON raw._id = events._id "
        "WHERE events._id IN (SELECT unnest(?)) ORDER BY events._id",
        [ids],
    ).fetchall()
    declarations = read_declarations(connection, {reference for _, reference, *_ in events})
    rows = []
    for id, reference, version, created_at, event, user, data in events:
        fields = {
            (field["entity"], field["storageKey"]): field
            for field in declarations.fields(reference, version, created_at)
        }
        texts = {"event": event, "user": user}
        sent = _loaded(data)
        for entity, text in texts.items():
            values = _loaded(text)
            for key, value in values.items():
                declared = fields.get((entity, key), {})
                is_typed = isinstance(value, dict)
                kind = str(value.get("type")) if is_typed else ""
                is_plain = kind in _PLAIN or isinstance(value, int | float | None)
                own = Field(id, reference, entity, key, kind, bool(declared.get("isPii")))
                if is_personal(own) or not (is_plain or declared or not whole):
                    values[key] = {**value, **_ANONYMISED} if is_typed else None
                    sent = _without(sent, declared.get("ingestionKey", key))
            texts[entity] = None if text is None else json_values.encode(values)
        # Raw values without a normalised value may be personal too.
        for (entity, key), field in fields.items():
            if is_personal(Field(id, reference, entity, key, field["type"], field["isPii"])):
                sent = _without(sent, field["ingestionKey"])
        raw_data = dict.fromkeys(sent) if whole else sent
        rows.append(
            (id, texts["event"], texts["user"], None if data is None else json_values.encode(raw_data))
        )
    if rows:
        _write(connection, rows, now)


def _write(
    connection: duckdb.DuckDBPyConnection, rows: list[tuple[str, str, str, str | None]], now: datetime
) -> None:
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    with tables.arrow_view(connection, pa.table(columns, names=["id", "event", "user", "data"])) as view:
        connection.execute(
            f'UPDATE events SET event = redacted.event, "user" = redacted."user", '
            'updatedAt = greatest(updatedAt, $now), "expirationPolicy.anonimizedAt" = '
            'CASE WHEN "expirationPolicy.expiresAt" IS NOT NULL THEN $now END '
            f"FROM {view} AS redacted WHERE events._id = redacted.id",
            {"now": now},
        )
        connection.execute(
            f"UPDATE raw_events SET data = redacted.data FROM {view} AS redacted "
            "WHERE raw_events._id = redacted.id"
        )
        for table in ("metrics", "metric_history"):
            connection.execute(
                f"UPDATE {table} SET raw = NULL WHERE raw IS NOT NULL AND eventId IN (SELECT id FROM {view})"
            )


def _loaded(text: str | None) -> dict[str, Any]:
    return dict(load_exact(text or "{}"))


def _without(sent: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    return {name: None if name == key else value for name, value in sent.items()}


#: Events anonymised in one transaction.
_EVENTS_AT_ONCE: Final = 1_000
_LOG: Final = logging.getLogger(__name__)
_SECONDS_OF_AN_HOUR: Final = 3_600.0
_SECONDS_TO_STOP: Final = 30.0


class Policy(NamedTuple):
    """The retention policy of an event.

    Parameters
    ----------
    days : int
        Retention period, from the date of the event.
    fields : tuple of str
        Storage keys of the values to anonymise.
    """

    days: int
    fields: tuple[str, ...]

    def columns(self, date: datetime) -> dict[str, Any]:
        """Return the columns of the table ``events`` for an event of a date."""
        values = (date + timedelta(days=self.days), self.days, list(self.fields))
        return dict(zip(FOR_EVER, values, strict=True))


#: Columns of an event without a policy.
FOR_EVER: Final = dict.fromkeys(
    ("expirationPolicy.expiresAt", "expirationPolicy.retentionDurationInDays", "expirationPolicy.piiFields")
)


def read_policies(connection: duckdb.DuckDBPyConnection) -> dict[str | None, Policy | None]:
    """Return the retention policies: those of the event types, by default that of the project.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.

    Returns
    -------
    dict of str to Policy
        By reference of the event type; by None that of undeclared types. None for unlimited retention. The
        fields of a type that lists none are those of the project or, if it lists none either, those that the
        type declares as personal.
    """
    settings = read_settings(connection)
    rows = connection.execute(
        "SELECT reference, retentionDurationInDays, piiFields, fields FROM event_types"
    ).fetchall()
    policies: dict[str | None, Policy | None] = {}
    for reference, days, listed, text in [(None, None, None, None), *rows]:
        period = settings.retention_duration_in_days if days is None else days
        personal = [field["storageKey"] for field in json.loads(text or "[]") if field.get("isPii")]
        fields = listed if listed is not None else settings.pii_fields or personal
        policies[reference] = Policy(period, tuple(fields)) if period else None
    return policies


def read_personal(connection: duckdb.DuckDBPyConnection) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    """Return the storage keys that the project and its event types list as personal.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.

    Returns
    -------
    project : frozenset of str
        Keys for all events.
    by_type : dict of str to frozenset
        Further keys by reference of the event type, for types that list any.
    """
    rows = connection.execute(
        "SELECT reference, piiFields FROM event_types WHERE piiFields IS NOT NULL"
    ).fetchall()
    by_type = {reference: frozenset(fields) for reference, fields in rows}
    return frozenset(read_settings(connection).pii_fields), by_type


def assign_policies(connection: duckdb.DuckDBPyConnection) -> None:
    """Assign the policy of their type to events without a policy.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    """
    for reference, policy in _lacking(connection).items():
        connection.execute(
            'UPDATE events SET "expirationPolicy.expiresAt" = eventDate + to_days(CAST($days AS INTEGER)), '
            '"expirationPolicy.retentionDurationInDays" = $days, '
            '"expirationPolicy.piiFields" = CAST($fields AS VARCHAR[]) '
            'WHERE eventType = $reference AND "expirationPolicy.expiresAt" IS NULL',
            {"days": policy.days, "fields": list(policy.fields), "reference": reference},
        )


def _lacking(connection: duckdb.DuckDBPyConnection) -> dict[str, Policy]:
    """Return the policies of event types with events that have no policy yet."""
    return _policies_of(
        connection, 'SELECT DISTINCT eventType FROM events WHERE "expirationPolicy.expiresAt" IS NULL'
    )


def _policies_of(connection: duckdb.DuckDBPyConnection, references: str) -> dict[str, Policy]:
    """Return the policies of the event types that a query finds, without those that have none."""
    policies = read_policies(connection)
    if not any(policies.values()):
        return {}
    found = {
        reference: policies.get(reference, policies[None])
        for (reference,) in connection.execute(references).fetchall()
    }
    return {reference: policy for reference, policy in found.items() if policy is not None}


def anonymise_expired(store: Store, request: users.AnonymiseExpired) -> Answer:
    """Anonymise expired events; return their number."""
    return Answer(value=anonymise(store, request.now or instants.now()))


def anonymise(store: Store, now: datetime) -> int:
    """Anonymise the personal values of expired events.

    Parameters
    ----------
    store : Store
        Store of the events.
    now : datetime
        Current time, aware.

    Returns
    -------
    int
        Number of anonymised events.
    """
    cutoff = instants.naive(now.astimezone(UTC))
    store.write(assign_policies)
    total = 0
    for anonymise_next in (_anonymise, _anonymise_trashed):
        while count := store.write(partial(anonymise_next, now=cutoff)):
            total += count
    return total


def is_due(store: Store, now: datetime) -> bool:
    """Return whether events have expired, or have no policy yet; reads only."""
    cutoff = instants.naive(now.astimezone(UTC))
    with store.cursor() as cursor:
        return bool(
            _lacking(cursor)
            or _find_expired(cursor, cutoff)
            or _find_trashed(cursor, _policies_of_trashed(cursor), cutoff)
        )


def _find_expired(connection: duckdb.DuckDBPyConnection, now: datetime) -> list[str]:
    query = (
        'SELECT _id FROM events WHERE "expirationPolicy.expiresAt" <= ? '
        f'AND "expirationPolicy.anonimizedAt" IS NULL ORDER BY _id LIMIT {_EVENTS_AT_ONCE}'
    )
    return [id for (id,) in connection.execute(query, [now]).fetchall()]


def _anonymise(connection: duckdb.DuckDBPyConnection, now: datetime) -> int:
    """Anonymise some expired events; return their number."""
    ids = _find_expired(connection, now)
    if not ids:
        return 0
    rows = connection.execute(
        'SELECT _id, "expirationPolicy.piiFields" FROM events WHERE _id IN (SELECT unnest(?))', [ids]
    ).fetchall()
    personal = {id: frozenset(fields or ()) for id, fields in rows}
    connection.execute("CREATE TEMP TABLE expired AS SELECT unnest(?) AS id", [ids])
    events = of_events("(SELECT * FROM events WHERE _id IN (SELECT id FROM temp.expired))")
    before = f"SELECT DISTINCT userId, kind, value FROM ({identities_query(connection, events)})"
    connection.execute(f"CREATE TEMP TABLE identities_before AS {before}")
    redact(connection, ids, now, is_personal=lambda field: field.key in personal[field.event_id])
    _forget_identities(connection)
    connection.execute("DROP TABLE temp.identities_before")
    connection.execute("DROP TABLE temp.expired")
    return len(ids)


def _forget_identities(connection: duckdb.DuckDBPyConnection) -> None:
    """Delete identities of expired events that no other record of their user contains."""
    of_users = "(SELECT * FROM {table} WHERE userId IN (SELECT userId FROM temp.identities_before))"
    remaining = " UNION ALL ".join(
        f"SELECT userId, kind, value FROM ({identities_query(connection, source)})"
        for source in (
            of_events(of_users.format(table="events")),
            of_interactions(of_users.format(table="interactions")),
        )
    )
    connection.execute(
        "DELETE FROM identities WHERE (userId, kind, value) IN "
        f"(SELECT userId, kind, value FROM temp.identities_before EXCEPT ({remaining}))"
    )


def _policies_of_trashed(connection: duckdb.DuckDBPyConnection) -> dict[str, Policy]:
    return _policies_of(
        connection, "SELECT DISTINCT eventTypeRef FROM trashed_events WHERE eventTypeRef IS NOT NULL"
    )


def _find_trashed(
    connection: duckdb.DuckDBPyConnection, policies: Mapping[str, Policy], now: datetime
) -> list[tuple[str, str]]:
    """Return ids and event types of expired trashed events that still have personal values."""
    sent_keys = _sent_keys(connection, policies)
    found: list[tuple[str, str]] = []
    for reference, policy in policies.items():
        pointers = [f"/{key.replace('~', '~0').replace('/', '~1')}" for key in sent_keys[reference]]
        is_left = (
            " OR ".join("coalesce(json_type(raw.data, ?), 'NULL') <> 'NULL'" for _ in pointers) or "false"
        )
        rows = connection.execute(
            "SELECT trashed._id FROM trashed_events AS trashed JOIN raw_events AS raw USING (_id) "
            "WHERE trashed.eventTypeRef = ? AND coalesce(trashed.rawEventDate, trashed.processingDate) "
            f"+ to_days(CAST(? AS INTEGER)) <= ? AND ({is_left}) ORDER BY 1 LIMIT {_EVENTS_AT_ONCE}",
            [reference, policy.days, now, *pointers],
        ).fetchall()
        found += [(id, reference) for (id,) in rows]
    return found[:_EVENTS_AT_ONCE]


def _anonymise_trashed(connection: duckdb.DuckDBPyConnection, now: datetime) -> int:
    """Anonymise some expired trashed events, in what was sent and in their errors; return their number."""
    policies = _policies_of_trashed(connection)
    sent_keys = _sent_keys(connection, policies)
    expired = _find_trashed(connection, policies, now)
    for id, reference in expired:
        ((data, errors),) = connection.execute(
            "SELECT raw.data, errors FROM trashed_events JOIN raw_events AS raw USING (_id) WHERE _id = ?",
            [id],
        ).fetchall()
        sent = {
            key: None if key in sent_keys[reference] else value for key, value in load_exact(data).items()
        }
        personal = policies[reference].fields
        redacted = [
            {**error, "value": None} if (error["field"] or {}).get("storageKey") in personal else error
            for error in load_exact(errors)
        ]
        connection.execute("UPDATE raw_events SET data = ? WHERE _id = ?", [json_values.encode(sent), id])
        connection.execute(
            "UPDATE trashed_events SET errors = ? WHERE _id = ?", [json_values.encode(redacted), id]
        )
    return len(expired)


def _sent_keys(
    connection: duckdb.DuckDBPyConnection, policies: Mapping[str, Policy]
) -> dict[str, frozenset[str]]:
    """Return the keys under which personal values are sent, by event type."""
    declared = {
        reference: {field["storageKey"]: field["ingestionKey"] for field in load_exact(fields or "[]")}
        for reference, fields in connection.execute("SELECT reference, fields FROM event_types").fetchall()
    }
    return {
        reference: frozenset(declared.get(reference, {}).get(key) or key for key in policy.fields)
        for reference, policy in policies.items()
    }


class Expirations:
    """Anonymises expired events when a project is opened and hourly after that, in a background thread.

    Parameters
    ----------
    store : Store
        Store of the events; the thread only holds a weak reference to it.
    afterwards : callable, optional
        Returns a function to call afterwards, or None if it is gone; may close the project and open it again.
    seconds : float, optional
        Interval; an hour by default.
    """

    def __init__(
        self,
        store: Store,
        afterwards: Callable[[], Callable[[], object] | None] = lambda: None,
        *,
        seconds: float = _SECONDS_OF_AN_HOUR,
    ) -> None:
        self._afterwards = afterwards
        self._store = weakref.ref(store, lambda _: ended.set())
        self._seconds = seconds
        self._ended = ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        # The next process resumes what an exiting interpreter leaves.
        self._thread = threads.start_thread(self, self._work, name="expiration")

    def stop(self) -> None:
        """Tell the thread to end after the current transaction."""
        self._ended.set()

    def close(self) -> None:
        """Stop after the current transaction; closing again does nothing."""
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_SECONDS_TO_STOP)

    def _work(self) -> None:
        while not self._ended.is_set():
            store = self._store()
            if store is None:
                return
            try:
                now = instants.now()
                if is_due(store, now):
                    anonymise(store, now)
            except Exception as error:  # noqa: BLE001  (retried at the next interval)
                if threads.is_closed(error):
                    return
                _LOG.exception("expired events could not be anonymised")
            del store
            afterwards = self._afterwards()
            if afterwards is not None:
                afterwards()
            del afterwards
            self._ended.wait(self._seconds)
