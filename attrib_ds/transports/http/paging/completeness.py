"""Checks that the pages of a search are complete, and reads parts again that are not."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final, Protocol

from attrib_ds.errors import ServiceFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from attrib_ds.transports.http.paging.search import Pages, Search

#: How often a part is read before missing rows are an error.
_ATTEMPTS: Final = 3
#: Pages of a part that are held back until the part is known to be complete.
_PAGES_HELD: Final = 2


class Changed(Exception):
    """The rows moved between two pages."""


class Part(Protocol):
    """A part of the records, read once from its beginning to its end."""

    #: Number of its records, as its first page says.
    total: int
    #: Number of these that arrived.
    rows: int

    def pages(self) -> Pages:
        """Yield the pages; raise :class:`Changed` if rows moved so that reading cannot continue."""
        ...

    def recount(self) -> int:
        """Ask how many there are now."""
        ...


def verified(make: Callable[[], Part], search: Search, *, is_whole: bool = False) -> Pages:
    """Yield the pages of a part; read it again if rows are missing, as long as none of it was yielded.

    Parameters
    ----------
    make : callable
        Returns the part, to be read from its beginning.
    search : Search
        What it is a part of.
    is_whole : bool, default False
        Whether the whole part may be held back; otherwise a few pages of it.

    Yields
    ------
    Table
        Its pages.

    Raises
    ------
    ServiceFailure
        If rows are still missing; the message says how many.
    """
    problem = ""
    for _ in range(_ATTEMPTS):
        part = make()
        held: list[pa.Table] = []
        is_yielded = False
        try:
            for table in part.pages():
                held.append(table)
                if is_yielded or (not is_whole and part.total > _PAGES_HELD * search.page_size):
                    is_yielded = True
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
        if is_yielded:
            break
    raise ServiceFailure(f"{search.operation.name}: {problem}; try again, or ask for less at once")


def counted(tables: Pages, search: Search, recount: Callable[[], int]) -> Pages:
    """Yield the pages of all parts, and check that they have as many rows as the service stated.

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
    if search.total is not None and rows < search.total:
        missing = recount() - rows
        if missing > 0:
            raise ServiceFailure(
                f"{search.operation.name}: {missing} of {search.total} records are missing in what the "
                "service answered; try again, or ask for less at once"
            )
