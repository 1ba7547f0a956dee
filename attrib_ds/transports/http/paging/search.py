"""A search in progress: fetches its pages and keeps its total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from attrib_ds.errors import ServiceFailure
from attrib_ds.transports.http.answers import read_answer

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Generator

    import pyarrow as pa

    from attrib_ds.contract import Answer, Operation, Request
    from attrib_ds.transports.http.session import Response

    Pages: TypeAlias = Generator[pa.Table, None, None]

T = TypeVar("T")


class Fetch(Protocol):
    """Sends one request, retrying if that is safe, and returns the result of ``read`` on the response."""

    def __call__(
        self, operation: Operation, request: Any, read: Callable[[Response, Operation, Request], T], /
    ) -> T:
        """Send the request."""
        ...


@dataclass
class Search:
    """A search in progress.

    Parameters
    ----------
    operation : Operation
        The search operation.
    fetch : callable
        Sends a request and reads the response; see :class:`Fetch`.
    page_size : int
        Records per page.
    workers : int
        Number of pages read concurrently.
    stop : threading.Event
        Set when no further pages are wanted.
    first : Answer, optional
        The first page, if already fetched; :meth:`page` returns it instead of fetching it again.
    total : int, optional
        Number of matching records according to the first response.
    """

    operation: Operation
    fetch: Fetch
    page_size: int
    workers: int
    stop: threading.Event
    first: Answer | None = None
    total: int | None = None

    def page(self, request: Any, *, limit: int | None = None, **changes: Any) -> tuple[pa.Table, int]:
        """Fetch one page of a request with some attributes changed; return it with the stated total."""
        limit = self.page_size if limit is None else limit
        answer, self.first = self.first, None
        if answer is None:
            changed = request.model_copy(update={**changes, "limit": limit})
            answer = self.fetch(self.operation, changed, read_answer)
        table, total = answer.read(), answer.total
        if total is None and table.num_rows == limit:
            raise ServiceFailure(
                f"{self.operation.name}: the service does not state a total; request fewer records (limit=)"
            )
        if self.total is None:
            self.total = total
        return table, answer.offset + table.num_rows if total is None else total
