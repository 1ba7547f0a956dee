"""The embedded service: answers operations from the store of one project."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import ibis

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.errors import InvalidRequest, NotSupported
from attrib_ds.service.campaigns import create_campaign, get_campaign, list_campaigns, update_campaign
from attrib_ds.service.event_insights import event_insights
from attrib_ds.service.event_types import create_event_type, get_event_type, list_event_types
from attrib_ds.service.events import get_event, get_raw_event, list_trashed_events
from attrib_ds.service.ingestion import Ingestion
from attrib_ds.service.insights import interaction_insights
from attrib_ds.service.integrations import create_integration, list_integrations
from attrib_ds.service.interactions import (
    get_interaction,
    list_hits,
    open_interactions,
    search_interactions,
)
from attrib_ds.service.loading import load_records
from attrib_ds.service.nodes import get_node, list_nodes
from attrib_ds.service.offline import create_offline_interaction
from attrib_ds.service.outlays import create_outlay, get_outlay, list_outlays, update_outlay
from attrib_ds.service.rows import of_table
from attrib_ds.service.states import update_event_state, update_event_statistic
from attrib_ds.service.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import ibis.expr.types as ir

    from attrib_ds.contract import Operation
    from attrib_ds.contract.loading import LoadRecords
    from attrib_ds.service.rows import Rows

#: Tables that attribution reads, with the columns it is promised; None for all.
_READ: Final[dict[str, list[str] | None]] = {
    "interactions": None,
    "events": None,
    "metrics": None,
    "nodes": schema.NODE.names,
    "outlays": None,
}


class Service:
    """The service of one project, inside this process.

    Made by :meth:`open`. Its methods may be called from any thread.
    """

    def __init__(self, store: Store, address: str) -> None:
        self._store = store
        self._address = address
        self._ingestion = Ingestion(store)
        self._of_thread = threading.local()

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
            service._ingestion.resume()
        return service

    @property
    def address(self) -> str:
        """The project's file."""
        return self._address

    @property
    def currency(self) -> str:
        """The project's currency."""
        return self._store.meta.currency

    def answer(self, operation: Operation, request: Any) -> Answer:
        """Carry out one operation.

        Parameters
        ----------
        operation : Operation
            From ``OPERATIONS``.
        request : Request
            Of the operation.

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
        carry_out = self._handler(operation.name)
        self._check_project(request)
        return carry_out(request)

    def stream(self, operation: Operation, request: Any) -> Rows:
        """Carry out an operation that answers with records, which are read while they are handed on.

        Parameters
        ----------
        operation, request
            As for :meth:`answer`, which raises the same errors.

        Returns
        -------
        Rows
            To be closed. Answers that are small by nature are whole already.
        """
        if operation.name not in _STREAMING:
            return of_table(self.answer(operation, request))
        self._check_project(request)
        return _STREAMING[operation.name](self._store, request)

    def beat(self) -> None:
        """Commit a transaction, which counts itself, and read; raises where one of them fails."""
        self._store.write(lambda connection: connection.execute("SELECT writes FROM meta").fetchone())
        with self._store.read() as backend:
            backend.table("meta").count().to_pyarrow()

    def _check_project(self, request: Any) -> None:
        project_id = self._store.meta.project_id
        if request.projectId != project_id:
            raise InvalidRequest(
                f"project_id: {request.projectId!r} is not the project of this service, {project_id!r}",
                field="project_id",
            )

    def _handler(self, name: str) -> Callable[[Any], Answer]:
        if name in _INGESTING:
            return partial(_INGESTING[name], self._ingestion)
        if name in _HANDLERS:
            return partial(_HANDLERS[name], self._store)
        raise NotSupported(f"{name}: an embedded project of this version cannot do it yet")

    def tables(self) -> dict[str, ir.Table]:
        """Return the store's tables, lazily; each query sees what is committed when it runs.

        Returns
        -------
        dict of str to ibis.Table
            ``interactions``, ``events``, ``metrics``, ``nodes`` and ``outlays``, for use in the calling
            thread until the service is closed. Instants are in UTC, without a zone.
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
        self._ingestion.close()
        # What threads still hold of it ends with its last user.
        self._of_thread = threading.local()
        self._store.close()


def _load(store: Store, request: LoadRecords) -> Answer:
    counts, rejected = load_records(store, request.resource, request.source)
    return Answer(table=rejected, value=counts)


_HANDLERS: Final[dict[str, Callable[[Store, Any], Answer]]] = {
    "search_interactions": search_interactions,
    "get_interaction": get_interaction,
    "list_hits": list_hits,
    "interaction_insights": interaction_insights,
    "get_event": get_event,
    "get_raw_event": get_raw_event,
    "list_trashed_events": list_trashed_events,
    "update_event_state": update_event_state,
    "update_event_statistic": update_event_statistic,
    "event_insights": event_insights,
    "list_event_types": list_event_types,
    "create_event_type": create_event_type,
    "get_event_type": get_event_type,
    "create_offline_interaction": create_offline_interaction,
    "list_campaigns": list_campaigns,
    "create_campaign": create_campaign,
    "get_campaign": get_campaign,
    "update_campaign": update_campaign,
    "list_outlays": list_outlays,
    "create_outlay": create_outlay,
    "get_outlay": get_outlay,
    "update_outlay": update_outlay,
    "create_integration": create_integration,
    "list_integrations": list_integrations,
    "list_nodes": list_nodes,
    "get_node": get_node,
    "load_records": _load,
}
#: Searches, whose answers may be larger than memory.
_STREAMING: Final[dict[str, Callable[[Store, Any], Rows]]] = {"search_interactions": open_interactions}
_INGESTING: Final[dict[str, Callable[[Ingestion, Any], Answer]]] = {
    "create_event": Ingestion.create_event,
    "create_event_sync": Ingestion.create_event_sync,
}
