"""Pages of users by ranges of their ids, several of which are read concurrently."""

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
#: Most ranges of one search.
_MOST: Final = 512
#: So few pages are not worth dividing.
_FEW: Final = 2


def is_by_id(request: Any) -> bool:
    """Say whether users are asked for in the order of their ids."""
    return request.sort in (None, "_id")


def in_order_of_id(request: Any) -> Any:
    """Return the request in an explicit order by id, from the beginning."""
    # `sort` only with `order`: without either, the service sorts by id by default.
    return request.model_copy(update={"sort": "_id", "order": request.order or "ASC", "offset": 0})


def read_by_id(search: Search, request: Any) -> Pages:
    """Read users in the order of their ids.

    Parameters
    ----------
    search : Search
        What to read.
    request : SearchUsers
        From :func:`in_order_of_id`. Its limit does not apply.

    Returns
    -------
    generator of Table
        Pages, none of which depends on an offset.
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
            for part in _divided(search, whole)
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
        """Yield the pages; each starts after the last id of the one before."""
        while not self.is_done:
            table, total = self._search.page(self.request)
            if not self.rows:
                self.total = total
            self.is_done = table.num_rows >= total
            ids = table["_id"].combine_chunks()
            if table.num_rows and not (self.is_done and self._is_all):
                # Nothing depends on the order of a single page.
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
        """Refuse users in another order, since some of them would be lost."""
        follows = pc.less if self.is_descending else pc.greater
        asked = self.request
        inside = pc.min(ids).as_py() > (asked.idAfter or "") and (
            not asked.idTo or pc.max(ids).as_py() < asked.idTo
        )
        if not inside or pc.all(follows(ids[1:], ids[:-1])).as_py() is False:
            raise ServiceFailure(
                f"{self._search.operation.name}: the service does not answer in the order and "
                "the bounds that were asked for (sort, idAfter, idTo)"
            )


def _divided(search: Search, first: _Range) -> list[Any]:
    """Divide the rest into ranges of about one page if ids are evenly spread, in their order."""
    request = first.request
    pages = -(-(first.total - first.rows) // search.page_size)
    if pages <= _FEW:
        return [request]
    # The other end.
    table, _ = search.page(request, limit=1, order="ASC" if first.is_descending else "DESC")
    near = request.idTo if first.is_descending else request.idAfter
    far = table["_id"][0].as_py() if table.num_rows else near
    if not _HEX.fullmatch(near) or not _HEX.fullmatch(far) or near == far:
        return [request]
    low, high = sorted((int(near, 16), int(far, 16)))
    count = min(pages, _MOST)
    cuts = sorted({f"{low + (high - low) * number // count:024x}" for number in range(1, count)} - {near})
    bounds = [None, *cuts, None]
    ranges = []
    for begin, end in itertools.pairwise(bounds):
        changes: dict[str, Any] = {} if begin is None else {"idFrom": begin, "idAfter": None}
        ranges.append(request.model_copy(update=changes | ({} if end is None else {"idTo": end})))
    return ranges[::-1] if first.is_descending else ranges
