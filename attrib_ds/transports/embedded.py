"""The service running inside this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrib_ds.attribution.tables import Tables

if TYPE_CHECKING:
    from attrib_ds.contract import Answer, Operation, Request


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

    def answer(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation."""
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

    def tables(self) -> Tables:
        """Return the tables that attribution reads."""
        return Tables(**self._service.tables(), currency=self._service.currency)

    def close(self) -> None:
        """Let go of the service."""
        self._service.close()
