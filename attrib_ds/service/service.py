"""The embedded service: carries out operations on the store of one project."""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, TypeVar

import duckdb
import pyarrow as pa
from pydantic.alias_generators import to_camel

from attrib_ds import errors, instants, sql_results
from attrib_ds.attribution.engines.engine import DuckDB
from attrib_ds.attribution.paths.project_tables import Tables
from attrib_ds.contract import OPERATIONS, Answer, File, Operation, administration, events
from attrib_ds.contract.identifiers import with_lower_uuids
from attrib_ds.contract.interactions import opportunity_type
from attrib_ds.contract.request import in_milliseconds
from attrib_ds.service import (
    account_keys,
    backup,
    campaigns,
    compaction,
    consistency_check,
    interactions,
    mirroring,
    outlays,
)
from attrib_ds.service.collection import daily_visitors, hits
from attrib_ds.service.events import event_types, ingestion, retention, states
from attrib_ds.service.identity import merging
from attrib_ds.service.loading import load, load_records
from attrib_ds.service.store import audit, connections, files, settings, threads
from attrib_ds.service.store.audit import AuditEntry
from attrib_ds.service.store.settings import ProjectSettings
from attrib_ds.service.store.store import MEMORY, Store
from attrib_ds.service.users import audiences, exports, personal_data, search

Handler: TypeAlias = Callable[["Service", Any, AuditEntry | None, connections.Cancellation | None], Answer]
T = TypeVar("T")
_LOG: Final = logging.getLogger(__name__)

#: Operations that accept events, or read none.
_ACCEPTING: Final = frozenset({"create_event", "create_event_sync", "create_events", "validate_event"})
#: Operations on events that no session changes, and that come in haste.
_WITHOUT_SESSIONS: Final = _ACCEPTING | {"update_event_state", "update_event_statistic"}
#: How long a restore waits for running requests.
_SECONDS_TO_BE_ALONE: Final = 30.0
_SECONDS_TO_INTERRUPT: Final = 0.1
_SECONDS_TO_CLOSE: Final = 30.0


class Service:
    """The embedded service of one project, itself a :class:`~attrib_ds.transports.Transport`.

    Created by :meth:`open`. Thread-safe.
    """

    def __init__(self, store: Store, address: str, *, is_served: bool = False) -> None:
        self.address = address
        self._is_served = is_served
        self._lock = threads.ReadersWriterLock()
        self._is_broken = False
        #: Held while the files are rewritten, and by who closes the project.
        self._maintenance = threading.Lock()
        self._closing = connections.Cancellation()
        self.salt = daily_visitors.DailySalt(store.meta.project_id, store.meta.timezone)
        self._use(store)

    def _use(self, store: Store) -> None:
        self._store = store
        self.currency, self.timezone = store.meta.currency, store.meta.timezone
        self._ingestion = ingestion.Ingestion(store, is_served=self._is_served)
        self._hits = hits.HitIntake(store)
        self._states = states.States(store)
        self._expirations = retention.Expirations(store, weakref.WeakMethod(self._compact_if_due))
        self._thread_local = threading.local()
        self._settings: ProjectSettings | None = None
        self._settings_lock = threading.Lock()

    @classmethod
    def open(
        cls,
        project_id: str,
        path: str | Path,
        read_only: bool = False,
        *,
        currency: str = "EUR",
        timezone: str = "UTC",
        is_served: bool = False,
    ) -> Self:
        """Open a project, or create it.

        Parameters
        ----------
        project_id : str
            Id of the project.
        path : str or Path
            File of the project, or ``":memory:"``.
        read_only : bool, default False
            Whether to open it read-only; several processes may read a file while none writes.
        currency, timezone : str
            Currency and time zone of a new project.
        is_served : bool, default False
            Whether clients come over HTTP; they are told the outcome of an event before the tables have it.

        Returns
        -------
        Service
            To be closed by the caller.

        Raises
        ------
        InvalidRequest
            If the file is not a project, or another one.
        NotFound
            If ``read_only`` and the file does not exist.
        ProjectInUse
            If another process has opened the file.
        Unavailable
            If the file cannot be opened.

        Examples
        --------
        >>> service = Service.open("shop", ":memory:")
        >>> service.address, service.currency
        (':memory:', 'EUR')
        >>> service.close()
        """
        store = Store.open(path, project_id, read_only=read_only, currency=currency, timezone=timezone)
        service = cls(store, str(path), is_served=is_served)
        if not read_only:
            service._resume()
        return service

    def _resume(self) -> None:
        self._ingestion.resume()
        self._hits.resume()
        self._expirations.start()

    def send(self, operation: Operation, request: Any, account: str | None = None) -> Answer:
        """Carry out one operation and read the whole answer.

        Parameters
        ----------
        operation : Operation
            From ``OPERATIONS``.
        request : Request
            Request of the operation.
        account : str, optional
            Client who sent the request, for the audit log; None for the owner of the file.

        Returns
        -------
        Answer
            In memory; its records are in the Arrow schema of the resource.

        Raises
        ------
        InvalidRequest
            If the request is invalid or for another project.
        NotFound
            If the record does not exist.
        NotSupported
            If the operation is not available in embedded projects.
        Unavailable
            If the project is closed.
        ServiceFailure
            If the database failed.

        Examples
        --------
        >>> from attrib_ds.contract import OPERATIONS, build
        >>> service = Service.open("shop", ":memory:")
        >>> search = OPERATIONS["search_interactions"]
        >>> service.send(search, build(search, project_id="shop")).total
        0
        >>> service.close()
        """
        return self.stream(operation, request, account).whole()

    def stream(
        self,
        operation: Operation,
        request: Any,
        account: str | None = None,
        *,
        cancellation: connections.Cancellation | None = None,
    ) -> Answer:
        """Carry out one operation and stream its records.

        Parameters
        ----------
        operation, request, account
            As for :meth:`send`, which raises the same errors.
        cancellation : Cancellation, optional
            Interrupts its queries, which then fail.

        Returns
        -------
        Answer
            To be closed by the caller; until then the project cannot be restored. Its tables raise
            :exc:`ServiceFailure` if the database fails.
        """
        request = with_lower_uuids(request)
        line = audit.line_of(operation.name, request, account)
        if operation.name == "restore_project":
            self._check_project(request)
            return self._restore(request, line)
        if operation.name == "compact_project":
            self._check_project(request)
            return self._compact(line)
        leave = self._enter()
        try:
            with self._translated_errors():
                answer = self._carry_out(operation.name, request, line, cancellation)
        except BaseException:
            leave()
            raise
        tables = self._read(answer)

        def close() -> None:
            try:
                # An open reader would keep the file open for as long as the answer is referenced.
                for reader in (tables, answer.tables):
                    if isinstance(reader, Generator):
                        reader.close()
                answer.close()
            finally:
                leave()

        return replace(answer, tables=tables, close=close)

    def start(
        self, operation: Operation, request: events.CreateEvent, account: str | None = None
    ) -> Future[Answer | None] | None:
        """Start to create one event, without making the thread wait.

        Parameters
        ----------
        operation : Operation
            ``create_event`` or ``create_event_sync``.
        request : CreateEvent
            Its request.
        account : str, optional
            As for :meth:`send`, which raises the same errors.

        Returns
        -------
        Future of Answer, or None
            Set once the event is durable, in another thread. No future if the project is being restored or
            has to be opened again, no answer if the nonce is known and its outcome has to be looked up:
            :meth:`send` waits for both.
        """

        def begin() -> Future[Any]:
            self._check_project(request)
            line = audit.line_of(operation.name, request, account)
            if operation.name == "create_event":
                return self._ingestion.start_event(request, line)
            return self._ingestion.start_event_sync(request, line)

        return self._start(begin)

    def start_hit(self, record: dict[str, Any]) -> Future[None] | None:
        """Start to store a hit, without making the thread wait; see :meth:`start`.

        Parameters
        ----------
        record : dict
            From :func:`~attrib_ds.service.collection.hits.pending_hit`.

        Returns
        -------
        Future, or None
            Set once the hit is durable. None if the project is being restored or has to be opened again.
        """
        return self._start(lambda: self._hits.submit(record))

    def renew_salt(self) -> None:
        """Take the salt of today."""
        with self._shared_access():
            self.salt.renew(self._store)

    def kept_out(self) -> dict[str, dict[str, str]]:
        """Return what a mirror lacks of its source: reasons by id, by kind of record."""
        with self._translated_errors(), self._store.cursor() as cursor:
            return mirroring.kept_out(cursor)

    def waiting(self) -> dict[str, int]:
        """Return the number of accepted events and hits that are not yet in the tables."""
        return {"events": self._ingestion.intake.waiting, "hits": self._hits.waiting}

    def _start(self, begin: Callable[[], Future[T]]) -> Future[T] | None:
        """Begin something with shared access, which is released when its future is set."""
        for intake in (self._ingestion.intake, self._hits):
            self._note(intake.failure)
        leave = None if self._is_broken else self._lock.try_acquire_shared()
        if leave is None:
            return None
        try:
            future = begin()
        except BaseException:
            leave()
            raise

        def end(done: Future[Any]) -> None:
            self._note(done.exception())
            leave()

        future.add_done_callback(end)
        return future

    def wait(self) -> None:
        """Wait while the project is restored or compacted; open it again if the database has shut down."""
        self._enter()()

    def _note(self, error: BaseException | None) -> None:
        """Remember that the database has shut down, if an error says so."""
        self._is_broken |= error is not None and files.is_final(error) and self.address != MEMORY

    def _carry_out(
        self, name: str, request: Any, line: AuditEntry | None, cancellation: connections.Cancellation | None
    ) -> Answer:
        handler = _HANDLERS.get(name)
        if handler is None:
            raise errors.NotSupported(f"{name}: not supported by embedded projects in this version")
        self._check_project(request)
        if name not in _ACCEPTING:
            # Every other operation finds the events that were accepted before it.
            self._ingestion.settle()
        if name == "back_up_project":
            self._hits.settle()
        elif name not in _WITHOUT_SESSIONS:
            self._hits.catch_up()
        answer = handler(self, request, line, cancellation)
        try:
            # Before the answer is returned.
            if line is not None and line.is_read and not self._store.is_read_only:
                self._store.write(lambda connection: audit.append(connection, [line]))
        except BaseException:
            answer.close()
            if isinstance(answer.value, File):
                answer.value.close()
            raise
        return answer

    def _read(self, answer: Answer) -> Generator[pa.Table, None, None]:
        with self._translated_errors():
            yield from answer.tables

    def cached_settings(self) -> ProjectSettings | None:
        """Return what :meth:`settings` would return without reading the database, if there is such."""
        return self._settings

    def settings(self) -> ProjectSettings:
        """Return the project's settings, cached until they change."""
        cached = self._settings
        if cached is None:
            # Whoever forgets the settings waits until a reader of the old ones has stored them.
            with self._shared_access(), self._settings_lock, self._store.cursor() as cursor:
                cached = self._settings = settings.read_settings(cursor)
        return cached

    def _forget_settings(self) -> None:
        with self._settings_lock:
            self._settings = None

    def probe(self) -> None:
        """Commit a transaction and run a query; raises if either fails."""
        with self._shared_access():
            self._store.write(lambda connection: sql_results.read_row(connection, "SELECT writes FROM meta"))
            with self._store.read() as backend:
                backend.table("meta").count().to_pyarrow()

    def _restore(self, request: administration.RestoreProject, line: AuditEntry | None) -> Answer:
        """Replace the project by a backup, with exclusive access; a failure leaves the project unchanged."""
        self._store.require_writing()
        if self.address == MEMORY:
            raise errors.NotSupported(
                "a project in memory has no file to restore; connect to one with a path"
            )
        target = Path(self.address).expanduser()
        meta = self._store.meta
        with backup.prepared(request.source, target, meta.project_id) as (part, counts), self._alone():
            backup.exchange(part, target, line)
        return Answer(value=counts)

    def _compact(self, line: AuditEntry | None, *, timeout: float = _SECONDS_TO_BE_ALONE) -> Answer:
        """Rewrite the files of the project, with exclusive access; a failure leaves them as they are."""
        self._store.require_writing()
        if self.address == MEMORY:
            raise errors.NotSupported(
                "a project in memory has no files to compact; connect to one with a path"
            )
        if not self._maintenance.acquire(blocking=False):
            raise errors.Unavailable("the project is being compacted or closed")
        try:
            with self._alone(timeout=timeout):
                sizes = compaction.compact(Path(self.address).expanduser(), self._closing, line)
        finally:
            self._maintenance.release()
        return Answer(value=sizes)

    @contextmanager
    def _alone(self, *, timeout: float = _SECONDS_TO_BE_ALONE) -> Iterator[None]:
        """Close the file while the block runs, with exclusive access."""
        with self._lock.exclusive(timeout=timeout):
            self._is_broken = True
            self._release()
            try:
                yield
            finally:
                self._reopen()

    def _compact_if_due(self) -> None:
        """Rewrite the files if persons were erased from the tables half a day ago."""
        try:
            self.salt.destroy_past(self._store)
            if self.address != MEMORY and compaction.is_due(self._store, instants.now()):
                self._compact(None, timeout=_SECONDS_TO_BE_ALONE / 10)
        except errors.AttribError as error:
            # Tried again in an hour, or when the project is opened again.
            if not (self._closing.is_cancelled or threads.is_closed(error)):
                _LOG.warning("%s could not be compacted: %s", self._store.meta.project_id, error)

    @contextmanager
    def _shared_access(self) -> Iterator[None]:
        """Hold shared access to the open file."""
        leave = self._enter()
        try:
            with self._translated_errors():
                yield
        finally:
            leave()

    def _enter(self) -> Callable[[], None]:
        """Acquire shared access and return the function that releases it.

        Reopens the file first if the database closed it after a failure.
        """
        if self._is_broken:
            with self._lock.exclusive(timeout=_SECONDS_TO_BE_ALONE):
                if self._is_broken:
                    self._release()
                    self._reopen()
        return self._lock.acquire_shared()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise database errors as :exc:`ServiceFailure`, and note those that closed the file."""
        try:
            yield
        except (errors.AttribError, duckdb.Error) as error:
            self._note(error)
            if isinstance(error, duckdb.Error):
                raise files.failure("the database failed", error) from error
            raise

    def _reopen(self) -> None:
        self._use(Store.open(self.address, self._store.meta.project_id))
        self._is_broken = False
        self._resume()

    def _check_project(self, request: Any) -> None:
        project_id = self._store.meta.project_id
        if request.projectId != project_id:
            raise errors.InvalidRequest(
                f"project_id: {request.projectId!r} is not the project of this service ({project_id!r})"
            )

    def tables(self) -> Tables:
        """Return the lazy tables that attribution reads; each query sees the data committed when it runs.

        Returns
        -------
        Tables
            For the calling thread until the service is closed. Instants are in UTC, without a zone.
        """
        self._hits.catch_up()
        # One connection per thread: tables of several calls can be joined, and threads do not block.
        backend = getattr(self._thread_local, "backend", None)
        if backend is None:
            backend = DuckDB.from_connection(self._store.open_cursor())
            self._thread_local.backend = backend
        return Tables(
            interactions=backend.table("interactions"),
            events=backend.table("events"),
            metrics=backend.table("metrics"),
            nodes=interactions.node_table(backend),
            outlays=backend.table("outlays"),
            metric_history=backend.table("metric_history"),
            rates=backend.table("rates"),
            currency=self.currency,
            timezone=self.timezone,
        )

    def close(self, *, timeout: float = _SECONDS_TO_CLOSE) -> None:
        """Write queued events and hits, for some seconds at most, then close the file; idempotent.

        The queue keeps what is left for whoever opens the project next.
        """
        self._closing.cancel()
        # DuckDB forgets an interrupt that arrives just before a query.
        while not self._maintenance.acquire(timeout=_SECONDS_TO_INTERRUPT):
            self._closing.cancel()
        try:
            self._release(timeout)
        finally:
            self._maintenance.release()

    def _release(self, timeout: float = _SECONDS_TO_CLOSE) -> None:
        ends = time.monotonic() + timeout
        self._expirations.close()
        self._hits.close(timeout=ends - time.monotonic())
        self._ingestion.close(timeout=ends - time.monotonic())
        # Connections of other threads end with their last reference.
        self._thread_local = threading.local()
        self._store.close()


def _load(store: Store, request: administration.LoadRecords) -> Answer:
    options = {"geo": request.geo, "asn": request.asn}
    options |= {"replace": request.replace, "mirrored": request.mirrored}
    counts, rejected = load_records(store, request.resource, request.source, **options)
    return Answer.of(rejected, value=counts)


def _get_collector(service: Service, _: Any, line: AuditEntry | None, *__: Any) -> Answer:
    if line is not None:
        # A collector reads them every minute.
        query = "SELECT 1 FROM audit WHERE operation = ? AND account = ? AND date >= CAST(? AS DATE)"
        with service._store.cursor() as cursor:
            known = sql_results.read_row(cursor, query, [line.operation, line.account, instants.now().date()])
        if known is None:
            service._store.write(lambda connection: audit.append(connection, [line]))
    chosen = service.settings()
    # The holdouts and their key stay here: they are drawn by the service.
    held = {to_camel(name): value for name, value in asdict(chosen).items() if not name.startswith("holdout")}
    value: dict[str, Any] = {**held, "timezone": service.timezone}
    if chosen.visitor_of_the_day:
        value["day"], value["salt"] = service.salt.today(service._store)
    return Answer(value=value)


def _with_store(handle: Callable[[Store, Any], Answer]) -> Handler:
    def handler(
        service: Service, request: Any, line: AuditEntry | None, cancellation: connections.Cancellation | None
    ) -> Answer:
        store = service._store
        if cancellation is not None:
            store = store.with_cancellation(cancellation)
        if line is not None and not line.is_read:
            # The audit line is written in the same transaction.
            store = store.with_extra_job(lambda connection: audit.append(connection, [line]))
        return handle(store, in_milliseconds(request))

    return handler


def _with_accounts(handle: Callable[[Path, Store, Any, AuditEntry | None], Answer]) -> Handler:
    def handler(
        service: Service, request: Any, line: AuditEntry | None, _: connections.Cancellation | None
    ) -> Answer:
        if service.address == MEMORY:
            raise errors.NotSupported("a project in memory has no keys; connect to one with a path")
        # A server of this folder has its accounts in the same file.
        home = Path(service.address).expanduser().absolute().parent
        return handle(home, service._store, in_milliseconds(request), line)

    return handler


def _with_settings(handle: Callable[[Store, Any], Answer]) -> Handler:
    """Return the handler of an operation that changes settings."""

    def handler(
        service: Service, request: Any, line: AuditEntry | None, cancellation: connections.Cancellation | None
    ) -> Answer:
        if isinstance(request, administration.CreateHoldout):
            with suppress(errors.Conflict):  # the event type exists
                event_types.create_event_type(service._store, opportunity_type(request.projectId))
        try:
            return _with_store(handle)(service, request, line, cancellation)
        finally:
            service._forget_settings()

    return handler


def _with_ingestion(handle: Callable[..., Answer]) -> Handler:
    return lambda service, request, line, _: handle(service._ingestion, request, line=line)


def _with_states(handle: Callable[..., Answer]) -> Handler:
    return lambda service, request, line, _: handle(service._states, in_milliseconds(request), line=line)


#: Functions with the names of operations, which take the store and the request.
_MODULES: Final = (
    audiences, audit, backup, campaigns, consistency_check, event_types, exports, interactions, merging,
    mirroring, outlays, personal_data, retention, search, settings, states,
)  # fmt: skip


def _handlers(wrap: Callable[[Any], Handler], *owners: object) -> dict[str, Handler]:
    return {
        name: wrap(vars(owner)[name]) for owner in owners for name in OPERATIONS.keys() & vars(owner).keys()
    }


#: The handler of every operation of an open project.
_HANDLERS: Final[dict[str, Handler]] = {
    **_handlers(_with_store, *_MODULES),
    **_handlers(_with_accounts, account_keys),
    **_handlers(_with_ingestion, ingestion.Ingestion),
    **_handlers(_with_states, states.States),
    "load_records": _with_store(_load),
    "send_hits": _with_store(load.send_hits),
    "get_collector": _get_collector,
    "update_settings": _with_settings(settings.update_settings),
    "create_holdout": _with_settings(settings.create_holdout),
    "delete_holdout": _with_settings(settings.delete_holdout),
}
