"""The service running inside this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from attrib_ds.attribution.paths.tables import Tables
from attrib_ds.contract import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from attrib_ds.contract import Answer, Operation, Request


class Rows(Protocol):
    """Rows on their way out of the embedded service."""

    @property
    def columns(self) -> pa.Schema:
        """Of every batch."""
        ...

    @property
    def batches(self) -> Iterable[pa.RecordBatch]:
        """Gone through once."""
        ...

    @property
    def hidden(self) -> frozenset[str]:
        """Columns that are not for those who asked."""
        ...

    @property
    def total(self) -> int | None:
        """All that match."""
        ...

    @property
    def close(self) -> Callable[[], None]:
        """Lets go of what the batches are read from."""
        ...


class Service(Protocol):
    """What the embedded service offers to its transport."""

    @property
    def address(self) -> str:
        """The project's file."""
        ...

    @property
    def currency(self) -> str:
        """The project's currency."""
        ...

    @property
    def timezone(self) -> str:
        """The project's time zone."""
        ...

    def answer(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation."""
        ...

    def stream(self, operation: Operation, request: Request) -> Rows:
        """Carry out an operation that answers with records."""
        ...

    def tables(self) -> dict[str, Any]:
        """Return the store's tables by name."""
        ...

    def close(self) -> None:
        """Finish what is queued and let go of the file."""
        ...


class Embedded:
    """Hand requests to a service in this process; tables come back as they are."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def address(self) -> str:
        """The project's file."""
        return self._service.address

    def send(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation."""
        return self._service.answer(operation, request)

    def stream(self, operation: Operation, request: Request) -> Stream:
        """Carry out one operation that answers with records, from one snapshot."""
        rows = self._service.stream(operation, request)
        shown = [name for name in rows.columns.names if name not in rows.hidden]
        tables = _tables(rows, shown)

        def close() -> None:
            tables.close()
            # A generator that was not begun does not do it.
            rows.close()

        return Stream(pa.schema([rows.columns.field(name) for name in shown]), tables, rows.total, close)

    def tables(self) -> Tables:
        """Return the tables that attribution reads."""
        service = self._service
        return Tables(**service.tables(), currency=service.currency, timezone=service.timezone)

    def close(self) -> None:
        """Let go of the service."""
        self._service.close()


def _tables(rows: Rows, shown: list[str]) -> Generator[pa.Table, None, None]:
    try:
        for batch in rows.batches:
            yield pa.Table.from_batches([batch]).select(shown)
    finally:
        rows.close()
