"""Walks through users by ranges of their ids."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from attrib_ds.errors import ServiceFailure
from attrib_ds.transports.http.lanes import in_order
from attrib_ds.transports.http.walking import counted, verified

if TYPE_CHECKING:
    import pyarrow as pa

    from attrib_ds.transports.http.walking import Pages, Source

_HEX: Final = re.compile("[0-9a-f]{24}")
#: Ranges of one walk.
_MOST: Final = 512
#: Pages that are not worth being divided.
_FEW: Final = 2


def is_by_id(request: Any) -> bool:
    """Say whether users are asked for in the order of their ids."""
    return request.sort in (None, "_id")


def walk_users(source: Source, request: Any) -> Pages:
    """Go through users in the order of their ids, several ranges of these at once.

    Parameters
    ----------
    source : Source
        Where they are read from.
    request : SearchUsers
        Sorted by id; its offset and limit are left to others.

    Returns
    -------
    generator of Table
        Pages, none of which depends on an offset.
    """
    # `sort` only with an order: both by default are what the service does by itself.
    request = request.model_copy(update={"sort": "_id", "order": request.order or "ASC", "offset": 0})

    def parts() -> Pages:
        whole = _Range(source, request, is_all=True)
        first = next(whole.pages())
        yield first
        if whole.is_done:
            return
        if not first.num_rows:
            raise ServiceFailure(f"{source.operation.name}: the service answered none of {whole.total} users")
        lanes = [
            verified(lambda each=each: _Range(source, each), source)  # type: ignore[misc]
            for each in _divided(source, whole)
        ]
        yield from in_order(lanes, workers=source.workers, stop=source.stop)

    return counted(parts(), source, _Range(source, request).recount)


class _Range:
    """Users between two ids."""

    def __init__(self, source: Source, request: Any, *, is_all: bool = False) -> None:
        self._source = source
        self._is_all = is_all
        self._begun = request
        self.request = request
        self.total = 0
        self.rows = 0
        self.is_done = False

    @property
    def is_descending(self) -> bool:
        return bool(self.request.order == "DESC")

    def pages(self) -> Pages:
        """Go through the pages, each after the last id of the one before."""
        while not self.is_done:
            table, total = self._source.fetch(self.request)
            if not self.rows:
                self.total = total
            self.is_done = table.num_rows >= total
            ids = table["_id"].combine_chunks()
            if table.num_rows and not (self.is_done and self._is_all):
                # On the order of a page that is all nothing depends.
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
        """Ask how many there are now."""
        return self._source.fetch(self._begun, limit=0)[1]

    def _check(self, ids: pa.Array) -> None:
        """Refuse users in another order: the walk would lose some of them."""
        follows = pc.less if self.is_descending else pc.greater
        asked = self.request
        inside = pc.min(ids).as_py() > (asked.idAfter or "") and (
            not asked.idTo or pc.max(ids).as_py() < asked.idTo
        )
        if not inside or pc.all(follows(ids[1:], ids[:-1])).as_py() is False:
            raise ServiceFailure(
                f"{self._source.operation.name}: the service does not answer in the order and "
                "the bounds that were asked for (sort, idAfter, idTo)"
            )


def _divided(source: Source, begun: _Range) -> list[Any]:
    """Return requests for what is left, in their order, each for about one page if ids are even."""
    request = begun.request
    pages = -(-(begun.total - begun.rows) // source.page)
    if pages <= _FEW:
        return [request]
    # The other end.
    table, _ = source.fetch(request, limit=1, order="ASC" if begun.is_descending else "DESC")
    near = request.idTo if begun.is_descending else request.idAfter
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
    return ranges[::-1] if begun.is_descending else ranges
