"""Page through users by id: ranges of ids are read concurrently (keyset pagination)."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from attrib_ds.errors import ServiceFailure
from attrib_ds.transports.http.paging.completeness import counted, verified
from attrib_ds.transports.http.paging.in_order import in_order

if TYPE_CHECKING:
    import pyarrow as pa

    from attrib_ds.transports.http.paging.search import Pages, Search

_HEX: Final = re.compile("[0-9a-f]{24}")
#: Maximum number of ranges per search.
_MOST_RANGES: Final = 512
#: This many pages are read as one range.
_PAGES_UNDIVIDED: Final = 2


def is_by_id(request: Any) -> bool:
    """Return whether users are sorted by id."""
    return request.sort in (None, "_id")


def in_order_of_id(request: Any) -> Any:
    """Return the request sorted explicitly by id, from offset 0."""
    # `sort` only with `order`: without either, the service sorts by id by default.
    return request.model_copy(update={"sort": "_id", "order": request.order or "ASC", "offset": 0})


def read_by_id(search: Search, request: Any) -> Pages:
    """Read users in the order of their ids.

    Parameters
    ----------
    search : Search
        The search.
    request : SearchUsers
        From :func:`in_order_of_id`. Its limit is ignored.

    Returns
    -------
    generator of Table
        Pages, independent of offsets.
    """

    def parts() -> Pages:
        whole = _Range(search, request, is_all=True)
        first = next(whole.pages())
        yield first
        if whole.is_done:
            return
        if not first.num_rows:
            raise ServiceFailure(f"{search.operation.name}: the service answered none of {whole.total} users")
        ranges = [
            verified(lambda part=part: _Range(search, part), search)  # type: ignore[misc]
            for part in _divide(search, whole)
        ]
        yield from in_order(ranges, workers=search.workers, stop=search.stop)

    return counted(parts(), search, _Range(search, request).recount)


class _Range:
    """Users between two ids."""

    def __init__(self, search: Search, request: Any, *, is_all: bool = False) -> None:
        self._search = search
        self._is_all = is_all
        self._start = request
        self.request = request
        self.total = 0
        self.rows = 0
        self.is_done = False

    @property
    def is_descending(self) -> bool:
        return bool(self.request.order == "DESC")

    def pages(self) -> Pages:
        """Yield the pages; each starts after the last id of the previous one."""
        while not self.is_done:
            table, total = self._search.page(self.request)
            if not self.rows:
                self.total = total
            self.is_done = table.num_rows >= total
            ids = table["_id"].combine_chunks()
            if table.num_rows and not (self.is_done and self._is_all):
                # A single page needs no particular order.
                self._check(ids)
                last = ids[-1].as_py()
                self.request = self.request.model_copy(
                    update={"idTo": last} if self.is_descending else {"idAfter": last}
                )
            self.rows += table.num_rows
            yield table
            if not table.num_rows:
                return

    def recount(self) -> int:
        """Return the current number of records."""
        return self._search.page(self._start, limit=0)[1]

    def _check(self, ids: pa.Array) -> None:
        """Raise if users are out of order or out of bounds, since some would be lost."""
        follows = pc.less if self.is_descending else pc.greater
        request = self.request
        is_within = pc.min(ids).as_py() > (request.idAfter or "") and (
            not request.idTo or pc.max(ids).as_py() < request.idTo
        )
        if not is_within or pc.all(follows(ids[1:], ids[:-1])).as_py() is False:
            raise ServiceFailure(
                f"{self._search.operation.name}: the service ignores the requested order or bounds "
                "(sort, idAfter, idTo)"
            )


def _divide(search: Search, first: _Range) -> list[Any]:
    """Divide the rest into consecutive ranges of about one page, assuming evenly spread ids."""
    request = first.request
    pages = -(-(first.total - first.rows) // search.page_size)
    if pages <= _PAGES_UNDIVIDED:
        return [request]
    table, _ = search.page(request, limit=1, order="ASC" if first.is_descending else "DESC")
    near = request.idTo if first.is_descending else request.idAfter
    far = table["_id"][0].as_py() if table.num_rows else near
    if not _HEX.fullmatch(near) or not _HEX.fullmatch(far) or near == far:
        return [request]
    low, high = sorted((int(near, 16), int(far, 16)))
    count = min(pages, _MOST_RANGES)
    cuts = sorted({f"{low + (high - low) * number // count:024x}" for number in range(1, count)} - {near})
    bounds = [None, *cuts, None]
    ranges = []
    for begin, end in itertools.pairwise(bounds):
        changes: dict[str, Any] = {} if begin is None else {"idFrom": begin, "idAfter": None}
        ranges.append(request.model_copy(update=changes | ({} if end is None else {"idTo": end})))
    return ranges[::-1] if first.is_descending else ranges
