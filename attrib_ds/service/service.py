"""The embedded service: answers operations from the store of one project."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import ibis

from attrib_ds import schema
from attrib_ds.contract import Answer, File
from attrib_ds.errors import AttribError, InvalidRequest, NotSupported, ServiceFailure
from attrib_ds.service.campaigns.campaigns import (
    create_campaign,
    get_campaign,
    list_campaigns,
    update_campaign,
)
from attrib_ds.service.campaigns.integrations import create_integration, list_integrations
from attrib_ds.service.campaigns.outlays import (
    create_outlay,
    delete_outlay,
    get_outlay,
    list_outlays,
    update_outlay,
)
from attrib_ds.service.campaigns.rates import list_rates, set_rates
from attrib_ds.service.events.event_types import (
    archive_event_type,
    create_event_type,
    get_event_type,
    list_event_types,
    restore_event_type,
    update_event_type,
)
from attrib_ds.service.events.ingestion import Ingestion
from attrib_ds.service.events.insights import event_insights
from attrib_ds.service.events.reading import get_event, get_raw_event, list_trashed_events
from attrib_ds.service.events.retention import Expirations, anonymise_expired
from attrib_ds.service.events.states import States
from attrib_ds.service.identity.merging import merge_users, split_user
from attrib_ds.service.interactions.insights import interaction_insights
from attrib_ds.service.interactions.nodes import get_node, list_nodes
from attrib_ds.service.interactions.offline import create_offline_interaction
from attrib_ds.service.interactions.search import (
    get_interaction,
    list_hits,
    open_interactions,
    search_interactions,
)
from attrib_ds.service.loading import load_records
from attrib_ds.service.loading.mirroring import begin_mirror, keep_mirror, mirror_records
from attrib_ds.service.store import audit
from attrib_ds.service.store.file_errors import explained, is_final
from attrib_ds.service.store.gate import Gate
from attrib_ds.service.store.rows import of_table
from attrib_ds.service.store.settings import get_settings, read_settings, update_settings
from attrib_ds.service.store.store import MEMORY, Store
from attrib_ds.service.upkeep.backup import back_up_project
from attrib_ds.service.upkeep.checking import check_project
from attrib_ds.service.upkeep.restoring import exchange, prepared
from attrib_ds.service.users.audiences import create_audience, delete_audience, get_audience, list_audiences
from attrib_ds.service.users.data_export import export_user_data
from attrib_ds.service.users.erasure import delete_user
from attrib_ds.service.users.events_of_user import (
    list_user_events,
    list_user_metrics,
    open_user_events,
    open_user_metrics,
)
from attrib_ds.service.users.exports import export_users
from attrib_ds.service.users.records import get_user
from attrib_ds.service.users.search import open_users, search_users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import ibis.expr.types as ir

    from attrib_ds.contract import Operation
    from attrib_ds.contract.administration import RestoreProject
    from attrib_ds.contract.loading import LoadRecords
    from attrib_ds.service.store.audit import Line
    from attrib_ds.service.store.rows import Rows
    from attrib_ds.service.store.settings import ProjectSettings

#: How long a restoration waits for the requests that are worked on.
_SECONDS_TO_BE_ALONE: Final = 30.0
#: How long the choices of a project are taken for known.
_SECONDS_TO_REMEMBER: Final = 1.0
#: Tables that attribution reads, with the columns it is promised; None for all.
_READ: Final[dict[str, list[str] | None]] = {
    "interactions": None,
    "events": None,
    "metrics": None,
    "nodes": schema.NODE.names,
    "outlays": None,
    "metric_history": None,
    "rates": None,
}


class Service:
    """The service of one project, inside this process.

    Made by :meth:`open`. Its methods may be called from any thread.
    """

    def __init__(self, store: Store, address: str) -> None:
        self._address = address
        self._gate = Gate()
        self._is_broken = False
        self._use(store)

    def _use(self, store: Store) -> None:
        self._store = store
        self._ingestion = Ingestion(store)
        self._states = States(store)
        self._expirations = Expirations(store)
        self._of_thread = threading.local()
        self._chosen: tuple[float, ProjectSettings | None] = (0.0, None)

    @classmethod
    def open(
        cls,
        project_id: str,
        path: str | Path,
        read_only: bool = False,
        *,
        currency: str = "EUR",
        timezone: str = "UTC",
    ) -> Service:
        """Open a project; a new one is made.

        Parameters
        ----------
        project_id : str
            The project.
        path : str or Path
            Its file, or ``":memory:"``.
        read_only : bool, default False
            Several processes may read one file at once, as long as none writes.
        currency, timezone : str
            Of a new project.

        Returns
        -------
        Service
            To be closed.

        Raises
        ------
        InvalidRequest
            If the file holds something else, or another project.
        NotFound
            If there is no file to read.
        ProjectInUse
            If another process holds the file.
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
        service = cls(store, str(path))
        if not read_only:
            service._resume()
        return service

    def _resume(self) -> None:
        self._ingestion.resume()
        self._expirations.start()

    @property
    def address(self) -> str:
        """The project's file."""
        return self._address

    @property
    def currency(self) -> str:
        """The project's currency."""
        return self._store.meta.currency

    @property
    def timezone(self) -> str:
        """The project's time zone."""
        return self._store.meta.timezone

    def answer(self, operation: Operation, request: Any, account: str | None = None) -> Answer:
        """Carry out one operation, and write down what is to be (G-211).

        Parameters
        ----------
        operation : Operation
            From ``OPERATIONS``.
        request : Request
            Of the operation.
        account : str, optional
            The client who asks; None for whoever has the file.

        Returns
        -------
        Answer
            Tables are in the Arrow schemas of the resources.

        Raises
        ------
        InvalidRequest
            If the request is about another project, or not allowed.
        NotFound
            If the record asked for is not there.
        NotSupported
            If the operation is not built yet.
        Unavailable
            If the project is closed.
        ServiceFailure
            If the database failed.

        Examples
        --------
        >>> from attrib_ds.contract import OPERATIONS, build
        >>> service = Service.open("shop", ":memory:")
        >>> search = OPERATIONS["search_interactions"]
        >>> service.answer(search, build(search, project_id="shop")).total
        0
        >>> service.close()
        """
        line = audit.line_of(operation.name, request, account)
        if operation.name == "restore_project":
            self._check_project(request)
            return self._restore(request, line)
        with self._working():
            carry_out = self._handler(operation.name, line)
            self._check_project(request)
            answer = carry_out(request)
            try:
                self._write_down(line)
            except BaseException:
                if isinstance(answer.value, File):
                    answer.value.close()
                raise
            return answer

    def stream(self, operation: Operation, request: Any, account: str | None = None) -> Rows:
        """Carry out an operation that answers with records, which are read while they are handed on.

        Parameters
        ----------
        operation, request, account
            As for :meth:`answer`, which raises the same errors.

        Returns
        -------
        Rows
            To be closed. Answers that are small by nature are whole already.
        """
        if operation.name not in _STREAMING:
            return of_table(self.answer(operation, request, account))
        self._check_project(request)
        line = audit.line_of(operation.name, request, account)
        with self._working():
            # Nobody is alone before the rows are closed too.
            leave = self._gate.enter()
            try:
                rows = _STREAMING[operation.name](self._store, request)
                try:
                    self._write_down(line)
                except BaseException:
                    rows.close()
                    raise
            except BaseException:
                leave()
                raise

        def close() -> None:
            try:
                # A reader that is left would keep the file open, whoever still has the rows.
                if isinstance(rows.batches, Generator):
                    rows.batches.close()
                rows.close()
            finally:
                leave()

        return replace(rows, close=close)

    def settings(self) -> ProjectSettings:
        """Return what the project has chosen, as it was at most a second ago."""
        until, chosen = self._chosen
        if chosen is None or time.monotonic() > until:
            with self._gate.shared(), self._store.cursor() as cursor:
                chosen = read_settings(cursor)
            self._chosen = (time.monotonic() + _SECONDS_TO_REMEMBER, chosen)
        return chosen

    def beat(self) -> None:
        """Commit a transaction, which counts itself, and read; raises where one of them fails."""
        with self._working():
            self._store.write(lambda connection: connection.execute("SELECT writes FROM meta").fetchone())
            with self._store.read() as backend:
                backend.table("meta").count().to_pyarrow()

    def _write_down(self, line: Line | None) -> None:
        """Write down what has only read, before it is handed out; who may only read the file cannot."""
        if line is not None and line.is_read and not self._store.is_read_only:
            self._store.write(lambda connection: audit.append(connection, [line]))

    def _restore(self, request: RestoreProject, line: Line | None) -> Answer:
        """Put a backup in the project's place, while nobody works on it; a failure leaves it as it was."""
        self._store.require_writing()
        if self._address == MEMORY:
            raise NotSupported("a project in memory has no file to be restored; connect to one with a path")
        target = Path(self._address).expanduser()
        meta = self._store.meta
        with (
            prepared(request.source, target, meta.project_id) as (part, counts),
            self._gate.alone(timeout=_SECONDS_TO_BE_ALONE),
        ):
            self._is_broken = True
            self._let_go()
            try:
                exchange(part, target, line)
            finally:
                self._open_again()
        return Answer(value=counts)

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Work with others, on a file that is open: one that the database ended is opened again."""
        if self._is_broken:
            with self._gate.alone(timeout=_SECONDS_TO_BE_ALONE):
                if self._is_broken:
                    self._let_go()
                    self._open_again()
        with self._gate.shared():
            try:
                yield
            except (AttribError, duckdb.Error) as error:
                self._is_broken |= is_final(error) and self._address != MEMORY
                if isinstance(error, duckdb.Error):
                    raise ServiceFailure(f"the database failed: {explained(error)}") from error
                raise

    def _open_again(self) -> None:
        self._use(Store.open(self._address, self._store.meta.project_id))
        self._is_broken = False
        self._resume()

    def _check_project(self, request: Any) -> None:
        project_id = self._store.meta.project_id
        if request.projectId != project_id:
            raise InvalidRequest(
                f"project_id: {request.projectId!r} is not the project of this service, {project_id!r}",
                field="project_id",
            )

    def _handler(self, name: str, line: Line | None) -> Callable[[Any], Answer]:
        if name in _INGESTING:
            return partial(_INGESTING[name], self._ingestion, line=line)
        if name in _UPDATING:
            return partial(_UPDATING[name], self._states, line=line)
        if name in _HANDLERS:
            store = self._store
            if line is not None and not line.is_read:
                # Whatever it writes, one line of it is in the same transaction.
                store = store.beside(lambda connection: audit.append(connection, [line]))
            return partial(_HANDLERS[name], store)
        raise NotSupported(f"{name}: an embedded project of this version cannot do it yet")

    def tables(self) -> dict[str, ir.Table]:
        """Return the store's tables, lazily; each query sees what is committed when it runs.

        Returns
        -------
        dict of str to ibis.Table
            ``interactions``, ``events``, ``metrics``, ``nodes``, ``outlays``, ``metric_history`` and
            ``rates``, for use in the calling thread until the service is closed. Instants are in UTC, without
            a zone.
        """
        # One connection per thread: the tables of several calls can be joined, and threads do not wait.
        backend = getattr(self._of_thread, "backend", None)
        if backend is None:
            backend = ibis.duckdb.from_connection(self._store.open_cursor())
            self._of_thread.backend = backend
        tables = {}
        for name, columns in _READ.items():
            table = backend.table(name)
            tables[name] = table.select(columns) if columns else table
        return tables

    def close(self) -> None:
        """Write what waits, then let go of the file; closing again does nothing."""
        self._let_go()

    def _let_go(self) -> None:
        self._expirations.close()
        self._ingestion.close()
        # What threads still hold of it ends with its last user.
        self._of_thread = threading.local()
        self._store.close()


def _load(store: Store, request: LoadRecords) -> Answer:
    counts, rejected = load_records(store, request.resource, request.source, replace=request.replace)
    return Answer(table=rejected, value=counts)


_HANDLERS: Final[dict[str, Callable[[Store, Any], Answer]]] = {
    "search_interactions": search_interactions,
    "get_interaction": get_interaction,
    "list_hits": list_hits,
    "interaction_insights": interaction_insights,
    "get_event": get_event,
    "get_raw_event": get_raw_event,
    "list_trashed_events": list_trashed_events,
    "event_insights": event_insights,
    "list_event_types": list_event_types,
    "create_event_type": create_event_type,
    "get_event_type": get_event_type,
    "update_event_type": update_event_type,
    "archive_event_type": archive_event_type,
    "restore_event_type": restore_event_type,
    "create_offline_interaction": create_offline_interaction,
    "list_campaigns": list_campaigns,
    "create_campaign": create_campaign,
    "get_campaign": get_campaign,
    "update_campaign": update_campaign,
    "list_outlays": list_outlays,
    "create_outlay": create_outlay,
    "get_outlay": get_outlay,
    "update_outlay": update_outlay,
    "delete_outlay": delete_outlay,
    "get_settings": get_settings,
    "update_settings": update_settings,
    "list_rates": list_rates,
    "set_rates": set_rates,
    "create_integration": create_integration,
    "list_integrations": list_integrations,
    "list_nodes": list_nodes,
    "get_node": get_node,
    "list_audit": audit.list_audit,
    "check_project": check_project,
    "back_up_project": back_up_project,
    "search_users": search_users,
    "export_users": export_users,
    "get_user": get_user,
    "create_audience": create_audience,
    "list_audiences": list_audiences,
    "get_audience": get_audience,
    "delete_audience": delete_audience,
    "list_user_events": list_user_events,
    "list_user_metrics": list_user_metrics,
    "merge_users": merge_users,
    "split_user": split_user,
    "delete_user": delete_user,
    "export_user_data": export_user_data,
    "anonymise_expired": anonymise_expired,
    "load_records": _load,
    "begin_mirror": begin_mirror,
    "keep_mirror": keep_mirror,
    "mirror_records": mirror_records,
}
#: Searches, whose answers may be larger than memory.
_STREAMING: Final[dict[str, Callable[[Store, Any], Rows]]] = {
    "search_interactions": open_interactions,
    "search_users": open_users,
    "list_user_events": open_user_events,
    "list_user_metrics": open_user_metrics,
}
_INGESTING: Final[dict[str, Callable[..., Answer]]] = {
    "create_event": Ingestion.create_event,
    "create_event_sync": Ingestion.create_event_sync,
    "create_events": Ingestion.create_events,
    "validate_event": Ingestion.validate_event,
    "replay_event": Ingestion.replay_event,
}
_UPDATING: Final[dict[str, Callable[..., Answer]]] = {
    "update_event_state": States.update_event_state,
    "update_event_statistic": States.update_event_statistic,
}
