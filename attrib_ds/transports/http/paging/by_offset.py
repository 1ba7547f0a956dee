"""Pages by a growing offset, for orders in which no key tells where the next page begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.transports.http.paging.completeness import Changed

if TYPE_CHECKING:
    import pyarrow as pa

    from attrib_ds.transports.http.paging.search import Pages, Search


class ByOffset:
    """Records read by a growing offset; each page begins with the last record of the one before.

    Parameters
    ----------
    search : Search
        What to read.
    request : Request
        In a stable order; its offset and limit apply.
    """

    def __init__(self, search: Search, request: Any) -> None:
        self._search = search
        self._request = request
        self.total = 0
        self.rows = 0

    def pages(self) -> Pages:
        """Yield the pages; raise :class:`Changed` if the rows before a page moved."""
        last: object = None
        while True:
            overlap = 1 if self.rows else 0
            asked = self._search.page_size + overlap
            wanted = None if self._request.limit is None else self._request.limit - self.rows
            at = self._request.offset + self.rows - overlap
            limit = asked if wanted is None else min(asked, wanted + overlap)
            table, total = self._search.page(self._request, offset=at, limit=limit)
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
        """Return the current number of records."""
        _, total = self._search.page(self._request, offset=0, limit=0)
        left: int = max(total - self._request.offset, 0)
        return left if self._request.limit is None else min(left, int(self._request.limit))


def _identity(table: pa.Table, row: int) -> object:
    """Return the id of a record, or the whole record if it has none."""
    return table["_id"][row].as_py() if "_id" in table.column_names else table.slice(row, 1).to_pylist()
