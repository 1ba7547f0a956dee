"""Ways to reach the service: one method, whichever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from attrib_ds.attribution.paths.tables import Tables
    from attrib_ds.contract import Answer, Operation, Request, Stream


class Transport(Protocol):
    """What a project needs of a service."""

    @property
    def address(self) -> str:
        """Where the service is, for people to read."""
        ...

    def send(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation."""
        ...

    def stream(self, operation: Operation, request: Request) -> Stream:
        """Carry out one operation that answers with records, never all of them held."""
        ...

    def tables(self) -> Tables:
        """Return the tables that attribution reads."""
        ...

    def close(self) -> None:
        """Let go of the service."""
        ...
