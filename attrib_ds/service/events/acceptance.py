"""Accepts raw events of concurrent requests together: all that wait become durable at once."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrib_ds.errors import AttribError, ServiceFailure, Unavailable
from attrib_ds.service.events.known_nonces import KnownNonces
from attrib_ds.service.events.raw_events import Accepted, all_new, match_nonces, store_raw_events
from attrib_ds.service.store import audit
from attrib_ds.service.store.background_threads import start_thread
from attrib_ds.service.store.cursors import CLOSED
from attrib_ds.service.store.forks import FORKED, abandon_after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import duckdb

    from attrib_ds.service.events.logged_events import LoggedEvents
    from attrib_ds.service.events.processing import Prepared, Processing
    from attrib_ds.service.store.audit import Line
    from attrib_ds.service.store.store import Store

T = TypeVar("T")

_MOST_WAITING: Final = 50_000
#: Events from which on a transaction takes no further request.
_LARGEST_GROUP: Final = 1_000
#: How long the thread waits for as many requests as the last group had, at most this many.
_SECONDS_TO_GROUP: Final = 0.01
_LARGEST_TO_EXPECT: Final = 256
#: Time without a request after which the thread ends.
_SECONDS_TO_IDLE: Final = 1.0


def _as_is(accepted: list[Accepted]) -> Any:
    return accepted


@dataclass(eq=False)
class _Sent:
    """The raw events of one request, its audit entry, and the future of the result."""

    records: Sequence[dict[str, Any]]
    line: Line | None
    is_urgent: bool
    answer: Callable[[list[Accepted]], Any]
    future: Future[Any] = field(default_factory=Future)

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

    A thread makes all requests that wait durable at once, in the log or in one transaction; those that
    arrive meanwhile wait for the next turn. So durability costs each of many concurrent requests a fraction
    of itself. The thread ends when no request has come for a while.

    Parameters
    ----------
    store : Store
        Store of the events.
    processing : Processing
        Told of pending events. It processes events with a waiting caller in the transaction that stores
        them, if no earlier event is pending.
    logged : LoggedEvents, optional
        Takes events without a waiting caller; without it, they are stored as pending ones.
    most_waiting : int, default 50,000
        Number of waiting events from which on requests are refused (G-140).
    """

    def __init__(
        self,
        store: Store,
        processing: Processing,
        logged: LoggedEvents | None = None,
        *,
        most_waiting: int = _MOST_WAITING,
    ) -> None:
        self._store = store
        self._processing = processing
        self._logged = logged
        self._known = None if logged is None else KnownNonces(store)
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
        self,
        records: Sequence[dict[str, Any]],
        line: Line | None,
        *,
        is_urgent: bool = False,
        answer: Callable[[list[Accepted]], T] = _as_is,
    ) -> Future[T]:
        """Store the raw events of one request.

        Parameters
        ----------
        records : sequence of dict
            From :func:`raw_event`.
        line : Line, optional
            Audit entry of the request.
        is_urgent : bool, default False
            Whether a caller waits until the events are processed.
        answer : callable, optional
            Takes the list of Accepted, in the order of the events, and returns the result of the future; by
            default the list.

        Returns
        -------
        Future
            Set once the events are durable; ``answer`` and callbacks run in the thread that writes.

        Raises
        ------
        Unavailable
            If too many events wait, or the project is closed.
        """
        sent = _Sent(records, line, is_urgent, answer)
        with self._changed:
            if self._is_closed:
                raise Unavailable(FORKED if self._is_forked else CLOSED)
            waiting = self._waiting_events + (len(self._logged) if self._logged is not None else 0)
            if waiting >= self._most_waiting:
                raise Unavailable(f"{waiting:,} events wait to be stored; try again later")
            self._waiting.append(sent)
            self._waiting_events += len(records)
            if self._thread is None:
                name = f"acceptance of {self._store.meta.project_id}"
                self._thread = start_thread(self, self._work, name=name)
            elif len(self._waiting) == self._enough:
                # Once per group: to wake a thread takes longer than to accept an event.
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
        if self._known is not None:
            self._known.stop()

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
            # Clients that were answered together send their next events together.
            self._changed.wait_for(
                lambda: len(self._waiting) >= self._enough or self._is_closed, _SECONDS_TO_GROUP
            )
            if not self._waiting:
                self._enough = 1
                self._changed.wait_for(lambda: self._waiting or self._is_closed, _SECONDS_TO_IDLE)
            if not self._waiting:
                self._thread = None
                return []
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
        """Make the requests of a group durable and set their futures."""
        is_urgent = any(sent.is_urgent for sent in group)
        try:
            are_new = self._are_new(group)
            if self._logged is not None:
                # Events are processed in order.
                if not is_urgent or not self._processing.has_pending():
                    self._append_to(self._logged, group, are_new=are_new, is_urgent=is_urgent)
                    return
                # Nonces of logged events count.
                self._logged.settle()
            if is_urgent and not self._processing.is_busy and self._store_and_process(group, are_new=are_new):
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

    def _are_new(self, group: Sequence[_Sent]) -> bool:
        """Add nonces to the known ones; return whether they are certainly new."""
        if self._known is None or self._logged is None:
            return False
        return self._known.add([record["nonce"] for record in _records(group)], unstored=self._logged.nonces)

    def _append_to(
        self, logged: LoggedEvents, group: Sequence[_Sent], *, are_new: bool, is_urgent: bool
    ) -> None:
        """Append the requests of a group to the log and set their futures.

        If a caller waits for the outcome, the events are validated first. Every other operation waits until
        the tables have them, so that they are there for whoever asks.
        """
        records = _records(group)
        if are_new:
            new, accepted = records, all_new(records)
        else:
            # First, since events move from here into the tables meanwhile.
            known = logged.find([record["nonce"] for record in records])
            with self._store.cursor() as cursor:
                new, accepted = match_nonces(cursor, records, known=known)
        entries = audit.rows_of(_entries(group))
        prepared = self._processing.prepare(new) if is_urgent else None
        if new or entries:
            logged.append(new, entries, prepared)
        self._set_results(group, accepted)
        self._processing.settle(prepared or ())

    def _store_and_process(self, group: Sequence[_Sent], *, are_new: bool) -> bool:
        """Write the requests of a group together with the results of their events.

        If earlier events are pending, these become pending too, since events are processed in order.
        Returns False if the results cannot be written; then nothing is.
        """

        def write(connection: duckdb.DuckDBPyConnection) -> tuple[list[Accepted], list[Prepared]]:
            if connection.execute("SELECT 1 FROM pending_events LIMIT 1").fetchall():
                return _write_group(connection, group, are_new=are_new), []
            accepted = _write_group(connection, group, are_pending=False, are_new=are_new)
            new = {result.id for result in accepted if result.is_new}
            results = [event for event in prepared if event.result.raw.id in new]
            self._processing.write_new(connection, results)
            return accepted, results

        try:
            prepared = self._processing.prepare(_records(group))
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
        self._set_results(group, accepted)
        self._processing.settle(processed)

    def _set_results(self, group: Sequence[_Sent], accepted: Sequence[Accepted]) -> None:
        start = 0
        for sent in group:
            end = start + len(sent.records)
            sent.future.set_result(sent.answer(list(accepted[start:end])))
            start = end


def _records(group: Sequence[_Sent]) -> list[dict[str, Any]]:
    return [record for sent in group for record in sent.records]


def _entries(group: Sequence[_Sent]) -> list[Line]:
    return [sent.entry for sent in group if sent.entry is not None]


def _write_group(
    connection: duckdb.DuckDBPyConnection,
    group: Sequence[_Sent],
    *,
    are_pending: bool = True,
    are_new: bool = False,
) -> list[Accepted]:
    accepted = store_raw_events(connection, _records(group), are_pending=are_pending, are_new=are_new)
    audit.append(connection, _entries(group))
    return accepted
