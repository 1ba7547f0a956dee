"""Page by offset, for sort orders without a key to continue from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.transports.http.paging.completeness import Changed

if TYPE_CHECKING:
    import pyarrow as pa

    from attrib_ds.transports.http.paging.search import Pages, Search


class ByOffset:
    """Records read by offset; pages overlap by one record, which shows whether rows moved.

    Parameters
    ----------
    search : Search
        The search.
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
            limit = self._search.page_size + overlap
            if self._request.limit is not None:
                limit = min(limit, self._request.limit - self.rows + overlap)
            offset = self._request.offset + self.rows - overlap
            table, total = self._search.page(self._request, offset=offset, limit=limit)
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
    """Return the id of a record, or the whole record if it has no id."""
    return table["_id"][row].as_py() if "_id" in table.column_names else table.slice(row, 1).to_pylist()
