"""What every walk through many pages needs: pages by offset, checks of what arrived, repetition."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from attrib_ds.errors import ServiceFailure

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Generator

    import pyarrow as pa

    from attrib_ds.contract import Answer, Operation
    from attrib_ds.transports.http.arrow_spool import ArrowSpool

    Pages: TypeAlias = Generator[pa.Table, None, None]

#: How often a part is read before it is told that rows are missing.
_ATTEMPTS: Final = 3
#: Pages of a part that are held until it is known to be whole.
_PAGES_HELD: Final = 2


class Changed(Exception):
    """The rows moved between two pages."""


@dataclass
class Source:
    """Where the pages of one walk come from.

    Parameters
    ----------
    operation : Operation
        What is asked.
    ask : callable
        Carries out one operation with one request, with patience.
    page : int
        Records of a page.
    workers : int
        Pages that are read at one time.
    stop : threading.Event
        Set when nobody wants further pages.
    spool : callable
        Reads a whole answer of Arrow to the disk; takes a request, and what is told of the rows that come.
    gives_arrow : callable
        Tells whether the service answers in Arrow; None as long as it is not known.
    total : int, optional
        All matching records, as the first answer tells it.
    """

    operation: Operation
    ask: Callable[[Operation, Any], Answer]
    page: int
    workers: int
    stop: threading.Event
    spool: Callable[[Any, Callable[[int], None]], ArrowSpool | None]
    gives_arrow: Callable[[], bool | None]
    total: int | None = None

    def fetch(self, request: Any, *, limit: int | None = None, **changes: Any) -> tuple[pa.Table, int]:
        """Return one page of a request, with some of its attributes changed, and the total it tells."""
        limit = self.page if limit is None else limit
        answer = self.ask(self.operation, request.model_copy(update={**changes, "limit": limit}))
        table, total = answer.table, answer.total
        assert table is not None  # noqa: S101  (the operation answers with records)
        if total is None and table.num_rows == limit:
            raise ServiceFailure(
                f"{self.operation.name}: the service does not tell how many there are; ask for "
                "less at once (limit=)"
            )
        if self.total is None:
            self.total = total
        return table, answer.offset + table.num_rows if total is None else total


class Part(Protocol):
    """A part of the records, read once from its beginning to its end."""

    #: As its first page told it.
    total: int
    #: How many of these arrived.
    rows: int

    def pages(self) -> Pages:
        """Go through the pages; raises :class:`Changed` where it cannot go on."""
        ...

    def recount(self) -> int:
        """Ask how many there are now."""
        ...


def verified(make: Callable[[], Part], source: Source, *, is_whole: bool = False) -> Pages:
    """Go through a part again where rows of it did not arrive, as long as none of it was handed on.

    Parameters
    ----------
    make : callable
        Returns the part, to be read from its beginning.
    source : Source
        Where it is read from.
    is_whole : bool, default False
        Whether the part may be held as a whole; otherwise a few pages of it.

    Yields
    ------
    Table
        Its pages.

    Raises
    ------
    ServiceFailure
        If rows are missing all the same; the message tells how many.
    """
    problem = ""
    for _ in range(_ATTEMPTS):
        part = make()
        held: list[pa.Table] = []
        is_handed_on = False
        try:
            for table in part.pages():
                held.append(table)
                if is_handed_on or (not is_whole and part.total > _PAGES_HELD * source.page):
                    is_handed_on = True
                    yield from held
                    held.clear()
            missing = part.total - part.rows
            if missing > 0:
                # Fewer where some were deleted meanwhile.
                missing = part.recount() - part.rows
            if missing <= 0:
                yield from held
                return
            problem = f"{missing} of {part.total} records are missing in what the service answered"
        except Changed:
            problem = f"the records changed while they were read, after {part.rows} of {part.total}"
        if is_handed_on:
            break
    raise ServiceFailure(f"{source.operation.name}: {problem}; try again, or ask for less at once")


class ByOffset:
    """Records by a growing offset; each page begins with the last record of the one before.

    Parameters
    ----------
    source : Source
        Where they are read from.
    request : Request
        With an order that does not change; its offset and limit count.
    """

    def __init__(self, source: Source, request: Any) -> None:
        self._source = source
        self._request = request
        self.total = 0
        self.rows = 0

    def pages(self) -> Pages:
        """Go through the pages; raises :class:`Changed` where the rows before a page moved."""
        last: object = None
        while True:
            overlap = 1 if self.rows else 0
            asked = self._source.page + overlap
            wanted = None if self._request.limit is None else self._request.limit - self.rows
            at = self._request.offset + self.rows - overlap
            limit = asked if wanted is None else min(asked, wanted + overlap)
            table, total = self._source.fetch(self._request, offset=at, limit=limit)
            left = max(total - self._request.offset, 0)
            self.total = left if self._request.limit is None else min(left, self._request.limit)
            if overlap:
                if not table.num_rows or _identity(table, 0) != last:
                    raise Changed
                table = table.slice(1)
            if table.num_rows:
                last = _identity(table, table.num_rows - 1)
                self.rows += table.num_rows
            yield table
            if self.rows >= self.total or not table.num_rows:
                return

    def recount(self) -> int:
        """Ask how many there are now."""
        _, total = self._source.fetch(self._request, offset=0, limit=0)
        left: int = max(total - self._request.offset, 0)
        return left if self._request.limit is None else min(left, int(self._request.limit))


def counted(tables: Pages, source: Source, recount: Callable[[], int]) -> Pages:
    """Hand on all parts of a walk, and check that together they are as many as the service told.

    Raises
    ------
    ServiceFailure
        If some are missing.
    """
    rows = 0
    with closing(tables):
        for table in tables:
            rows += table.num_rows
            yield table
    if source.total is not None and rows < source.total:
        missing = recount() - rows
        if missing > 0:
            raise ServiceFailure(
                f"{source.operation.name}: {missing} of {source.total} records are missing in what the "
                "service answered; try again, or ask for less at once"
            )


def cut(tables: Pages, *, offset: int, limit: int | None) -> Pages:
    """Leave out so many rows at the beginning, and end after so many.

    Examples
    --------
    >>> import pyarrow as pa
    >>> numbers = (pa.table({"n": [each, each + 1]}) for each in (1, 3, 5))
    >>> [table["n"].to_pylist() for table in cut(numbers, offset=1, limit=2)]
    [[2], [3]]
    """
    left = limit
    with closing(tables):
        for table in tables:
            skipped = min(offset, table.num_rows)
            offset -= skipped
            rest = table.slice(skipped, left)
            left = None if left is None else left - rest.num_rows
            yield rest
            if left == 0:
                return


def _identity(table: pa.Table, row: int) -> object:
    """Return what tells a record from others: its id, otherwise all of it."""
    return table["_id"][row].as_py() if "_id" in table.column_names else table.slice(row, 1).to_pylist()
