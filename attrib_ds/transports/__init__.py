"""The interface between a project and its service; the embedded service implements it directly."""

from typing import Protocol

from attrib_ds.attribution.paths.project_tables import Tables
from attrib_ds.contract import Answer, Operation, Request


class Transport(Protocol):
    """Operations that a project requires of a service."""

    @property
    def address(self) -> str:
        """Location of the service, for display."""
        ...

    @property
    def timezone(self) -> str | None:
        """The project's time zone, where it is available without a request."""
        ...

    def send(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation and read the whole answer."""
        ...

    def stream(self, operation: Operation, request: Request) -> Answer:
        """Carry out one operation and stream its records; the caller closes the answer."""
        ...

    def tables(self) -> Tables:
        """Return the tables for attribution."""
        ...

    def close(self) -> None:
        """Close the connection to the service."""
        ...
