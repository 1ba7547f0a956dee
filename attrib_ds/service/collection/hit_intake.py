"""Accepts hits of concurrent requests together, and puts them into sessions soon after."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.errors import Unavailable
from attrib_ds.service.collection.pending_hits import collect_pending, find_pending, insert_pending
from attrib_ds.service.store.background_threads import start_thread
from attrib_ds.service.store.cursors import CLOSED
from attrib_ds.service.store.forks import FORKED, abandon_after_fork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.service.store.store import Store

    #: A row of the table ``pending_hits``, and the future that is set once it is durable.
    Sent = tuple[dict[str, Any], Future[None]]

_MOST_WAITING: Final = 10_000
_LARGEST_GROUP: Final = 2_000
#: Number of hits that one transaction puts into sessions.
_LARGEST_BATCH: Final = 5_000
#: Time from a hit until it is put into a session: a transaction costs about the same for one and hundreds.
_SECONDS_TO_BATCH: Final = 0.5
#: Longest time from a hit to a transaction: as long as the last one took, but no longer than this.
_MOST_SECONDS_TO_BATCH: Final = 5.0
_SECONDS_TO_IDLE: Final = 1.0
_SECONDS_TO_STOP: Final = 10.0
#: Number of hits that cannot be written from which on the fault is not theirs.
_MOST_FAILURES: Final = 10
_log: Final = logging.getLogger(__name__)


class HitIntake:
    """Accepts hits from any thread without making it wait.

    One thread makes all hits that wait durable in one transaction, and puts them into sessions in another,
    one batch after the other: so hits of one browser are processed one at a time (G-191). A crash leaves
    accepted hits in the table ``pending_hits``, and the next process resumes with them. The thread ends when
    none is left.

    Parameters
    ----------
    store : Store
        The project.
    most_waiting : int, default 10,000
        Number of waiting hits from which on further ones are refused (G-140).
    """

    def __init__(self, store: Store, *, most_waiting: int = _MOST_WAITING) -> None:
        self._store = store
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: list[Sent] = []
        # When pending hits are put into sessions; None without pending hits.
        self._due_at: float | None = None
        self._seconds_to_batch = _SECONDS_TO_BATCH
        self._failed_ids: set[str] = set()
        self._is_closed = False
        self._is_stopped = False
        self._is_forked = False
        abandon_after_fork(self)

    def submit(self, record: dict[str, Any]) -> Future[None]:
        """Store a hit.

        Parameters
        ----------
        record : dict
            From :func:`~attrib_ds.service.collection.pending_hits.pending_hit`.

        Returns
        -------
        Future
            Set once the hit is durable; its callbacks run in the thread that writes.

        Raises
        ------
        Unavailable
            If too many hits wait, or the project is closed.
        NotSupported
            If the project is read-only.
        """
        self._store.require_writing()
        future: Future[None] = Future()
        with self._changed:
            if self._is_closed:
                raise Unavailable(FORKED if self._is_forked else CLOSED)
            if len(self._waiting) >= self._most_waiting:
                raise Unavailable(f"{len(self._waiting):,} hits wait to be stored; try again later")
            self._waiting.append((record, future))
            self._wake()
        return future

    def resume(self) -> None:
        """Process hits that an earlier process accepted and left pending."""
        with self._store.cursor() as cursor:
            has_pending = bool(find_pending(cursor, most=1, without=()))
        if has_pending:
            with self._changed:
                self._due_at = time.monotonic()
                self._wake()

    def close(self, *, timeout: float) -> None:
        """Store and process the hits that wait; after some seconds the rest is left to the next process."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._thread is None, timeout)
        self.stop()
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, _SECONDS_TO_STOP)

    def stop(self) -> None:
        """Tell the thread to end once the waiting hits are stored; further ones are refused."""
        with self._changed:
            self._is_closed = self._is_stopped = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Refuse any further hit, in a forked process: the thread exists in its parent only."""
        self._changed = threading.Condition()
        self._is_forked = self._is_closed = self._is_stopped = True
        self._waiting = []
        self._thread = None

    def _wake(self) -> None:
        if self._thread is None:
            name = f"hits of {self._store.meta.project_id}"
            self._thread = start_thread(self, self._work, name=name)
        else:
            self._changed.notify_all()

    def _work(self) -> None:
        while (group := self._next_group()) is not None:
            if group:
                self._store_group(group)
            if self._is_due():
                self._process()

    def _next_group(self) -> list[Sent] | None:
        """Wait for hits to store or to process; None if the thread has to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed, self._seconds_to_wait())
            group = self._waiting[:_LARGEST_GROUP]
            del self._waiting[:_LARGEST_GROUP]
            if not group and (self._due_at is None or self._is_stopped):
                self._thread = None
                self._changed.notify_all()
                return None
            return group

    def _seconds_to_wait(self) -> float:
        return _SECONDS_TO_IDLE if self._due_at is None else max(self._due_at - time.monotonic(), 0)

    def _is_due(self) -> bool:
        if self._due_at is None or self._is_stopped:
            return False
        return self._is_closed or time.monotonic() >= self._due_at

    def _store_group(self, group: Sequence[Sent]) -> None:
        """Write hits in one transaction and set their futures."""
        try:
            self._store.write(lambda connection: insert_pending(connection, [record for record, _ in group]))
        except BaseException as error:  # noqa: BLE001  (raised to the senders)
            for _, future in group:
                future.set_exception(error)
            return
        if self._due_at is None:
            self._due_at = time.monotonic() + self._seconds_to_batch
        for _, future in group:
            future.set_result(None)

    def _process(self) -> None:
        """Put the first pending hits into sessions."""
        self._due_at = None
        started_at = time.monotonic()
        try:
            with self._store.cursor() as cursor:
                ids = find_pending(cursor, most=_LARGEST_BATCH, without=self._failed_ids)
            self._collect(ids)
        except Exception as error:  # noqa: BLE001  (the thread has other hits to store)
            # They stay pending until another one comes or the project is opened again.
            _log.warning("hits of %s are not processed: %s", self._store.meta.project_id, error)
            return
        took = time.monotonic() - started_at
        # Other requests need the writer, too.
        self._seconds_to_batch = min(max(_SECONDS_TO_BATCH, took), _MOST_SECONDS_TO_BATCH)
        if len(ids) == _LARGEST_BATCH:
            self._due_at = time.monotonic()

    def _collect(self, ids: Sequence[str]) -> None:
        """Put hits into sessions in one transaction; one that cannot be written does not block the others."""
        if not ids:
            return
        try:
            self._store.write(
                lambda connection: collect_pending(
                    connection, ids, project_id=self._store.meta.project_id, ids=self._store.ids
                )
            )
        except Unavailable:
            raise
        except Exception:
            if len(self._failed_ids) >= _MOST_FAILURES:
                raise
            if len(ids) == 1:
                self._failed_ids.add(ids[0])
                _log.exception("the hit %s cannot be put into a session", ids[0])
                return
            middle = len(ids) // 2
            self._collect(ids[:middle])
            self._collect(ids[middle:])
