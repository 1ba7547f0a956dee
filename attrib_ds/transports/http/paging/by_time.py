"""Page through interactions by time: time slices are read concurrently (keyset pagination)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import instants
from attrib_ds.contract import OPERATIONS
from attrib_ds.contract.interactions import MOST_SEGMENTS, InteractionInsights
from attrib_ds.errors import AttribError, ServiceFailure, TooManyRequests, Unavailable
from attrib_ds.transports.http.answers import read_answer
from attrib_ds.transports.http.paging.by_offset import ByOffset
from attrib_ds.transports.http.paging.completeness import Changed, counted, verified
from attrib_ds.transports.http.paging.in_order import in_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attrib_ds.transports.http.paging.search import Pages, Search

_START: Final = "startDate"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
#: Services may truncate instants to milliseconds.
_MILLISECOND: Final = timedelta(milliseconds=1)
#: Intervals counted per remaining page, so that slices are of equal size.
_COUNTED_PER_PAGE: Final = 8
#: This many pages are read as one slice.
_PAGES_UNDIVIDED: Final = 2
_ATTEMPTS: Final = 3


def is_by_time(sort: Mapping[str, int] | None) -> bool:
    """Return whether the sort order is by startDate, then by id, as paging by time requires.

    Examples
    --------
    >>> is_by_time(None), is_by_time({"startDate": 1, "_id": -1}), is_by_time({"hitCount": 1})
    (True, True, False)
    """
    return list(sort or {_START: -1}) in ([_START], [_START, "_id"])


def in_order_of_time(request: Any) -> Any:
    """Return the request sorted explicitly by time, from offset 0, with startDate in its projection."""
    order = {"_id": 1} | (request.sort or {_START: -1})
    changes = {"sort": {_START: order[_START], "_id": order["_id"]}, "offset": 0}
    if request.projection is not None and _START not in request.projection:
        changes["projection"] = (*request.projection, _START)
    return request.model_copy(update=changes)


def read_by_time(search: Search, request: Any) -> Pages:
    """Read interactions in the order of time.

    Parameters
    ----------
    search : Search
        The search.
    request : SearchInteractions
        From :func:`in_order_of_time`. Its limit is ignored.

    Returns
    -------
    generator of Table
        Pages, independent of offsets.
    """

    def parts() -> Pages:
        whole = _Slice(search, _Position(request), is_all=True)
        first = next(whole.pages())
        yield first
        if whole.is_done:
            return
        if whole.position.bound is None:
            raise ServiceFailure(
                f"{search.operation.name}: the service answered none of {whole.total} interactions"
            )
        slices = [
            verified(lambda position=position: _Slice(search, position), search)  # type: ignore[misc]
            for position in _divide(search, whole)
        ]
        yield from in_order(slices, workers=search.workers, stop=search.stop)

    return counted(parts(), search, _Slice(search, _Position(request)).recount)


@dataclass(frozen=True)
class _Position:
    """Where to continue reading a slice of time.

    Parameters
    ----------
    request : SearchInteractions
        Its bounds cover the unread rest of the slice.
    bound : datetime, optional
        Millisecond of the last interaction read.
    seen : frozenset of str
        Ids already read within this millisecond.
    """

    request: Any
    bound: datetime | None = None
    seen: frozenset[str] = frozenset()

    @property
    def is_descending(self) -> bool:
        return bool(self.request.sort[_START] == -1)

    def within(self, begin: datetime | None, end: datetime | None) -> _Position:
        """Return the position with its bounds narrowed to the given ones."""
        since = max((bound for bound in (self.request.since, begin) if bound is not None), default=None)
        until = min((bound for bound in (self.request.until, end) if bound is not None), default=None)
        return replace(self, request=self.request.model_copy(update={"since": since, "until": until}))

    def at(self, bound: datetime, seen: frozenset[str]) -> _Position:
        """Return the position from a millisecond on, with the ids already read in it."""
        begin, end = (None, bound + _MILLISECOND - _MICROSECOND) if self.is_descending else (bound, None)
        return replace(self.within(begin, end), bound=bound, seen=seen)

    def after(self, bound: datetime) -> _Position:
        """Return the position after a millisecond."""
        begin, end = (None, bound - _MICROSECOND) if self.is_descending else (bound + _MILLISECOND, None)
        return replace(self.within(begin, end), bound=None, seen=frozenset())

    @property
    def is_empty(self) -> bool:
        since, until = self.request.since, self.request.until
        return since is not None and until is not None and since > until


class _Slice:
    """Interactions of a time slice; each page starts at the last startDate of the previous one."""

    def __init__(self, search: Search, position: _Position, *, is_all: bool = False) -> None:
        self._search = search
        self._is_all = is_all
        self._start = position
        self.position = position
        self.total = 0
        # The total of the first page includes those already read.
        self.rows = len(position.seen)
        self.is_done = False
        self._is_first = True

    def pages(self) -> Pages:
        """Yield the pages."""
        while not self.is_done and not self.position.is_empty:
            position = self.position
            table, total = self._search.page(position.request)
            if self._is_first:
                self._is_first, self.total = False, total
            self.is_done = table.num_rows >= total
            if not table.num_rows or (self.is_done and self._is_all):
                # A single page needs no particular order.
                self.rows += table.num_rows
                yield table
                return
            moments = self._moments(table)
            last = _EPOCH + int(moments[-1]) * _MILLISECOND
            ids = np.array(table["_id"].to_pylist(), dtype=object)
            of_last = frozenset(ids[moments == moments[-1]])
            new = _unseen(table, position.seen)
            self.rows += new.num_rows
            if last == position.bound:
                self.position = replace(position, seen=position.seen | of_last)
                yield new
                if not self.is_done:
                    yield from self._instant(last)
                    self.position = self.position.after(last)
            else:
                self.position = position.at(last, of_last)
                yield new

    def recount(self) -> int:
        """Return the current number of records."""
        return self._search.page(self._start.request, limit=0)[1]

    def _instant(self, moment: datetime) -> Pages:
        """Read one millisecond of more than a page by offset; start over if rows move."""
        position = self.position.within(moment, moment + _MILLISECOND - _MICROSECOND)
        seen = set(position.seen)
        for attempt in range(_ATTEMPTS):
            try:
                for table in ByOffset(
                    self._search, position.request.model_copy(update={"limit": None})
                ).pages():
                    new = _unseen(table, seen)
                    seen.update(new["_id"].to_pylist())
                    self.rows += new.num_rows
                    yield new
            except Changed:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def _moments(self, table: pa.Table) -> Any:
        """Return the milliseconds of a page; raise if they are out of order or out of bounds."""
        starts = table[_START].combine_chunks()
        moments = np.floor_divide(pc.fill_null(starts.cast(pa.int64()), 0).to_numpy(), 1_000)
        request = self.position.request
        steps = np.diff(moments) * request.sort[_START]
        low, high = _milliseconds(request.since), _milliseconds(request.until)
        is_within = (low is None or moments.min() >= low) and (high is None or moments.max() <= high)
        if starts.null_count or (steps < 0).any() or not is_within:
            raise ServiceFailure(
                f"{self._search.operation.name}: the service ignores the requested order or bounds "
                "(sort, since, until)"
            )
        return moments


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MILLISECOND


def _unseen(table: pa.Table, seen: frozenset[str] | set[str]) -> pa.Table:
    """Return the rows with new ids, without duplicates."""
    ids = table["_id"].to_pylist()
    if seen.isdisjoint(ids) and len(set(ids)) == len(ids):
        return table
    all_seen = set(seen)
    is_new = []
    for id in ids:
        is_new.append(id not in all_seen)
        all_seen.add(id)
    return table.filter(pa.array(is_new, pa.bool_()))


def _divide(search: Search, first: _Slice) -> list[_Position]:
    """Divide the rest into consecutive slices of about one page."""
    position = first.position
    pages = -(-(first.total - first.rows) // search.page_size)
    if pages <= _PAGES_UNDIVIDED or position.bound is None:
        return [position]
    direction = position.request.sort[_START]
    table, _ = search.page(position.request, limit=1, sort={_START: -direction, "_id": 1})
    if not table.num_rows:
        return [position]
    low, high = sorted((position.bound, table[_START][0].as_py()))
    if high - low < _MILLISECOND:
        return [position]
    cuts = _cuts(search, position.request, low, high, pages)
    bounds = [None, *cuts, None]
    slices = []
    for begin, end in itertools.pairwise(bounds):
        part = position.within(begin, None if end is None else end - _MICROSECOND)
        # Only the slice that continues the first page has ids already read.
        is_next = (end if position.is_descending else begin) is None
        slices.append(part if is_next else replace(part, bound=None, seen=frozenset()))
    return slices[::-1] if position.is_descending else slices


def _cuts(search: Search, request: Any, low: datetime, high: datetime, pages: int) -> list[datetime]:
    """Return instants about one page apart, from interaction counts; none if counting fails."""
    insights = InteractionInsights(
        projectId=request.projectId,
        since=low,
        until=high,
        interactionFilter=request.interactionFilter,
        nodeFilter=request.nodeFilter,
        filtered=request.filtered,
        isBot=request.isBot,
        interval="custom",
        segmentCount=min(pages * _COUNTED_PER_PAGE, MOST_SEGMENTS),
    )
    try:
        counts = search.fetch(OPERATIONS["interaction_insights"], insights, read_answer).read()
        labels = counts["interval"].to_pylist()
        begins = [instants.parse_exact(label, argument="interval") for label in labels]
    except (TooManyRequests, Unavailable):
        raise
    except AttribError:
        # Counting may be forbidden, or labels differ: a single slice is slower but correct.
        return []
    cuts, rows = [], 0
    for begin, count in sorted(zip(begins, counts["sessionCount"].to_pylist(), strict=True)):
        begin = _EPOCH + (begin - _EPOCH) // _MILLISECOND * _MILLISECOND
        if rows and rows + count > search.page_size and low + _MILLISECOND <= begin <= high:
            cuts.append(begin)
            rows = 0
        rows += count
    return sorted(set(cuts))
