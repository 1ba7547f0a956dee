"""Transports: the ways to reach a service. The embedded service is one itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from attrib_ds.attribution.paths.tables import Tables
    from attrib_ds.contract import Answer, Operation, Request


class Transport(Protocol):
    """What a project needs of a service."""

    @property
    def address(self) -> str:
        """Where the service is, for people to read."""
        ...

    @property
    def timezone(self) -> str | None:
        """The project's time zone, where it is available without a request."""
        ...

    def send(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation and read its answer to the end."""
        ...

    def stream(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation whose records are read while they are consumed; to be closed."""
        ...

    def tables(self) -> Tables:
        """Return the tables that attribution reads."""
        ...

    def close(self) -> None:
        """Release the service."""
        ...
