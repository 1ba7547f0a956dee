"""Keeps accepted events in the append-only log until the tables have them, with their results."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from attrib_ds.errors import ServiceFailure, Unavailable
from attrib_ds.service.events.portions import Portions
from attrib_ds.service.events.raw_events import insert_raw_events, store_raw_events
from attrib_ds.service.store.append_log import read_applied, set_applied
from attrib_ds.service.store.background_threads import start_thread
from attrib_ds.service.store.cursors import CLOSED
from attrib_ds.service.store.forks import abandon_after_fork
from attrib_ds.service.store.table_access import insert_records

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import duckdb

    from attrib_ds.service.events.processing import Prepared, Processing
    from attrib_ds.service.store.append_log import AppendLog, Group
    from attrib_ds.service.store.store import Store

#: How long events gather before they are moved, unless somebody waits for them.
_SECONDS_TO_GATHER: Final = 0.25
#: Time without an event after which the thread ends.
_SECONDS_TO_IDLE: Final = 1.0
_SECONDS_TO_RETRY: Final = 1.0
#: How long a request waits for the events before it.
_SECONDS_TO_SETTLE: Final = 30.0
_SECONDS_TO_STOP: Final = 10.0
#: Kind of the records in the log.
_KIND: Final = "events"


@dataclass(frozen=True, eq=False)
class _Logged:
    """A group of the log: rows of ``raw_events`` with new nonces, and of ``audit``.

    The results of its events are there if a caller waited for them.
    """

    number: int
    records: Sequence[dict[str, Any]]
    entries: Sequence[dict[str, Any]]
    prepared: Sequence[Prepared] | None = None


class LoggedEvents:
    """Accepted events that the log has and the tables do not have yet.

    A background thread moves them into the tables with the results of their processing, many in one
    transaction. It ends when no event has come for a while.

    Parameters
    ----------
    store : Store
        Store of the events.
    processing : Processing
        Processes the events.
    log : AppendLog
        Closed with this object.
    """

    def __init__(self, store: Store, processing: Processing, log: AppendLog) -> None:
        self._store = store
        self._processing = processing
        self._log = log
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._groups: deque[_Logged] = deque()
        self._events = 0
        self._nonces: dict[str, tuple[str, str]] = {}
        self._appended = self._applied = log.last
        #: Number of the last group that a request waits for.
        self._awaited = log.last
        self._failure: BaseException | None = None
        self._portions = Portions()
        #: Number of events from which on the thread does not wait for others.
        self._enough = 1
        self._is_closing = self._is_stopped = False
        abandon_after_fork(self)

    def __len__(self) -> int:
        return self._events

    def nonces(self) -> list[str]:
        """Return the nonces of the events."""
        with self._changed:
            return list(self._nonces)

    def find(self, nonces: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return ids and fingerprints of events by nonce; ask before the tables, so that none is missed."""
        with self._changed:
            return {nonce: self._nonces[nonce] for nonce in nonces if nonce in self._nonces}

    def append(
        self,
        records: Sequence[dict[str, Any]],
        entries: Sequence[dict[str, Any]],
        prepared: Sequence[Prepared] | None = None,
    ) -> None:
        """Make events durable; one thread at a time.

        Parameters
        ----------
        records : sequence of dict
            Rows of ``raw_events`` with new nonces.
        entries : sequence of dict
            Rows of ``audit``.
        prepared : sequence of Prepared, optional
            Results of the events, one per record, if they are known already.

        Raises
        ------
        ServiceFailure
            If the log cannot be written.
        """
        if self._log.is_large:
            self.settle()
        number = self._log.append(_encode(records, entries))
        if self._store.counter is not None:
            self._store.counter.set_appended(number)
        with self._changed:
            self._groups.append(_Logged(number, records, entries, prepared))
            self._events += len(records)
            self._nonces.update(
                (record["nonce"], (record["_id"], record["fingerprint"])) for record in records
            )
            self._appended = number
            if self._thread is None and not self._is_stopped:
                name = f"logged events of {self._store.meta.project_id}"
                self._thread = start_thread(self, self._work, name=name)
            elif len(self._groups) == 1 or self._events >= self._enough:
                self._changed.notify_all()

    def settle(self) -> None:
        """Wait until the tables have all events that were accepted before.

        Raises
        ------
        Unavailable
            If the project is being closed, or that takes too long.
        ServiceFailure
            If the database failed.
        """
        with self._changed:
            target = self._appended
            if self._applied >= target:
                return
            self._awaited = target
            self._failure = None
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._applied >= target or self._failure is not None or self._is_stopped,
                _SECONDS_TO_SETTLE,
            )
            if self._applied >= target:
                return
            if self._failure is not None:
                raise self._failure
        raise Unavailable(
            CLOSED if self._is_stopped else "accepted events wait to be stored; try again later"
        )

    def close(self, *, timeout: float) -> None:
        """Move the events, for some seconds at most; the next process moves the others."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._groups or self._failure is not None, timeout)
        self.stop()
        thread = self._thread
        if thread is not None:
            thread.join(_SECONDS_TO_STOP)
        self._log.close()

    def stop(self) -> None:
        """Tell the thread to end after the current transaction."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Refuse any further event, in a forked process: the thread exists in its parent only."""
        self._changed = threading.Condition()
        self._is_stopped = True
        self._thread = None
        self._groups = deque()

    def _work(self) -> None:
        while portion := self._next_portion():
            try:
                self._move(portion)
                self._log.drop(portion[-1].number)
            except Exception as error:  # noqa: BLE001  (raised to those who wait; the log keeps the events)
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._is_stopped, _SECONDS_TO_RETRY)
                continue
            with self._changed:
                for group in portion:
                    self._groups.popleft()
                    self._events -= len(group.records)
                    for record in group.records:
                        del self._nonces[record["nonce"]]
                self._failure = None
                self._applied = portion[-1].number
                self._changed.notify_all()

    def _next_portion(self) -> list[_Logged]:
        """Wait for events and return the groups of one transaction; none if the thread should end."""
        with self._changed:
            has_come = self._changed.wait_for(
                lambda: self._groups or self._is_stopped or self._is_closing, _SECONDS_TO_IDLE
            )
            if not has_come or not self._groups or self._is_stopped:
                self._thread = None
                return []
            self._enough = most = self._portions.size(others_wait=True)
            self._changed.wait_for(
                lambda: (
                    self._events >= most
                    or self._awaited > self._applied
                    or self._is_closing
                    or self._is_stopped
                ),
                _SECONDS_TO_GATHER,
            )
            portion: list[_Logged] = []
            events = 0
            for group in self._groups:
                if events >= most:
                    break
                portion.append(group)
                events += len(group.records)
            return portion

    def _move(self, portion: Sequence[_Logged]) -> None:
        """Move groups into the tables with the results of their events, or leave the processing for later."""
        records = [record for group in portion for record in group.records]
        entries = [entry for group in portion for entry in group.entries]
        last = portion[-1].number

        def write(connection: duckdb.DuckDBPyConnection) -> tuple[Sequence[Prepared], float]:
            start = time.monotonic()
            if read_applied(connection) != portion[0].number - 1:
                raise RuntimeError("some of these groups were moved before")
            has_pending = connection.execute("SELECT 1 FROM pending_events LIMIT 1").fetchall()
            # Events are processed in order.
            insert_raw_events(connection, records, are_pending=bool(has_pending))
            if not has_pending:
                self._processing.write_new(connection, prepared)
            insert_records(connection, "audit", entries)
            set_applied(connection, last)
            return () if has_pending else prepared, time.monotonic() - start

        try:
            prepared = self._prepare(portion)
            processed, seconds = self._store.write(write)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001  (processing finds out which event cannot be written)
            self._store.write(lambda connection: _move_raw(connection, portion))
            self._processing.wake()
            return
        self._portions.record(len(records), seconds=seconds)
        if processed or not records:
            self._processing.settle(processed)
        else:
            self._processing.wake()

    def _prepare(self, portion: Sequence[_Logged]) -> list[Prepared]:
        """Return the results of the events of groups, in order."""
        others = [record for group in portion if group.prepared is None for record in group.records]
        results = iter(self._processing.prepare(others))
        return [
            result
            for group in portion
            for result in (islice(results, len(group.records)) if group.prepared is None else group.prepared)
        ]


def replay(store: Store, groups: Sequence[Group]) -> None:
    """Move groups that an earlier process left into the tables; their events become pending.

    Parameters
    ----------
    store : Store
        The project.
    groups : sequence of Group
        Groups of its log. Those that the tables have are left out.
    """
    decoded = [_decode(group) for group in groups]
    store.write(lambda connection: _move_raw(connection, decoded))


def _move_raw(connection: duckdb.DuckDBPyConnection, groups: Sequence[_Logged]) -> None:
    applied = read_applied(connection)
    missing = [group for group in groups if group.number > applied]
    if not missing:
        return
    store_raw_events(connection, [record for group in missing for record in group.records])
    insert_records(connection, "audit", [entry for group in missing for entry in group.entries])
    set_applied(connection, missing[-1].number)


def _encode(records: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]) -> bytes:
    return msgspec.json.encode({"kind": _KIND, "records": records, "audit": entries})


def _decode(group: Group) -> _Logged:
    content = msgspec.json.decode(group.content)
    if content["kind"] != _KIND:
        raise ServiceFailure(f"the log has records of an unknown kind: {content['kind']!r}")
    records = [
        record | {"createdAt": datetime.fromisoformat(record["createdAt"])} for record in content["records"]
    ]
    entries = [entry | {"date": datetime.fromisoformat(entry["date"])} for entry in content["audit"]]
    return _Logged(group.number, records, entries)
