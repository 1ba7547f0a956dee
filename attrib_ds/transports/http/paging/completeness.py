"""Check that the pages of a search are complete, and read incomplete parts again."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final, Protocol

from attrib_ds.errors import ServiceFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from attrib_ds.transports.http.paging.search import Pages, Search

#: Attempts to read a part before missing rows are an error.
_ATTEMPTS: Final = 3
#: Pages of a part that are buffered until the part is complete.
_PAGES_BUFFERED: Final = 2
#: Growth of the total, by records that are added while others are read, until it is an error.
_MOST_GROWTH: Final = 2


class Changed(Exception):
    """Rows moved between two pages."""


class Part(Protocol):
    """A part of the records, read once from beginning to end."""

    #: Number of records according to the first page.
    total: int
    #: Number of records received.
    rows: int

    def pages(self) -> Pages:
        """Yield the pages; raise :class:`Changed` if rows moved so that reading cannot continue."""
        ...

    def recount(self) -> int:
        """Request the current number of records."""
        ...


def verified(make: Callable[[], Part], search: Search, *, is_whole: bool = False) -> Pages:
    """Yield the pages of a part; read it again if rows are missing and none was yielded yet.

    Parameters
    ----------
    make : callable
        Returns the part, to be read from its beginning.
    search : Search
        The search.
    is_whole : bool, default False
        Whether to buffer the whole part before yielding; otherwise a few pages.

    Yields
    ------
    Table
        Pages.

    Raises
    ------
    ServiceFailure
        If rows are still missing, of which the message states the number, or never end.
    """
    problem = ""
    for _ in range(_ATTEMPTS):
        part = make()
        buffered: list[pa.Table] = []
        is_yielded = False
        first_total: int | None = None
        try:
            for table in part.pages():
                first_total = part.total if first_total is None else first_total
                _check_growth(part.rows, first_total, search)
                buffered.append(table)
                if is_yielded or (not is_whole and part.total > _PAGES_BUFFERED * search.page_size):
                    is_yielded = True
                    yield from buffered
                    buffered.clear()
            missing = part.total - part.rows
            if missing > 0:
                # Some may have been deleted meanwhile.
                missing = part.recount() - part.rows
            if missing <= 0:
                yield from buffered
                return
            problem = f"{missing} of {part.total} records are missing in the service's responses"
        except Changed:
            problem = f"the records changed while they were read, after {part.rows} of {part.total}"
        if is_yielded:
            break
    raise ServiceFailure(f"{search.operation.name}: {problem}; try again, or request fewer records")


def counted(tables: Pages, search: Search, recount: Callable[[], int]) -> Pages:
    """Yield the pages of all parts, and check their number of rows against the stated total.

    Raises
    ------
    ServiceFailure
        If rows are missing, or never end.
    """
    rows = 0
    with closing(tables):
        for table in tables:
            rows += table.num_rows
            if search.total is not None:
                _check_growth(rows, search.total, search)
            yield table
    if search.total is not None and rows < search.total:
        missing = recount() - rows
        if missing > 0:
            raise ServiceFailure(
                f"{search.operation.name}: {missing} of {search.total} records are missing in the service's "
                "responses; try again, or request fewer records"
            )


def _check_growth(rows: int, first_total: int, search: Search) -> None:
    """Raise if there are many more rows than the first page said, as new records alone would not explain."""
    if rows > _MOST_GROWTH * first_total + search.page_size:
        raise ServiceFailure(
            f"{search.operation.name}: the total grows faster than its records are read: it was "
            f"{first_total:,}, and {rows:,} have come so far"
        )
