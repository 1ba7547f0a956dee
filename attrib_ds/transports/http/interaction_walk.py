"""Walks through interactions by slices of time."""

from __future__ import annotations

import itertools
from contextlib import closing
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
from attrib_ds.transports.http.lanes import in_order
from attrib_ds.transports.http.walking import ByOffset, Changed, counted, verified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attrib_ds.transports.http.walking import Pages, Source

_START: Final = "startDate"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
#: Services may write instants without what is below.
_MILLISECOND: Final = timedelta(milliseconds=1)
#: Intervals that are counted for each page that is left, so that slices come out even.
_COUNTED_PER_PAGE: Final = 8
#: Pages that are not worth being divided.
_FEW: Final = 2
_ATTEMPTS: Final = 3


def is_by_time(sort: Mapping[str, int] | None) -> bool:
    """Say whether an order is by startDate, then by id: the one in which time slices follow each other.

    Examples
    --------
    >>> is_by_time(None), is_by_time({"startDate": 1, "_id": -1}), is_by_time({"hitCount": 1})
    (True, True, False)
    """
    return list(sort or {_START: -1}) in ([_START], [_START, "_id"])


def walk_interactions(source: Source, request: Any) -> Pages:
    """Go through interactions in the order of time, several slices of it at once.

    Parameters
    ----------
    source : Source
        Where they are read from.
    request : SearchInteractions
        In an order by time; its offset and limit are left to others.

    Returns
    -------
    generator of Table
        Pages, none of which depends on an offset.
    """
    order = {"_id": 1} | (request.sort or {_START: -1})
    request = request.model_copy(update={"sort": {_START: order[_START], "_id": order["_id"]}, "offset": 0})
    is_added = request.projection is not None and _START not in request.projection
    if is_added:
        request = request.model_copy(update={"projection": (*request.projection, _START)})

    def parts() -> Pages:
        whole = _Slice(source, _Place(request), is_all=True)
        first = next(whole.pages())
        yield first
        if whole.is_done:
            return
        if whole.place.bound is None:
            raise ServiceFailure(
                f"{source.operation.name}: the service answered none of {whole.total} interactions"
            )
        lanes = [
            verified(lambda each=each: _Slice(source, each), source)  # type: ignore[misc]
            for each in _divided(source, whole)
        ]
        yield from in_order(lanes, workers=source.workers, stop=source.stop)

    tables = counted(parts(), source, _Slice(source, _Place(request)).recount)
    return _without_start(tables) if is_added else tables


def _without_start(tables: Pages) -> Pages:
    with closing(tables):
        for table in tables:
            yield table.drop_columns([_START])


@dataclass(frozen=True)
class _Place:
    """Where a slice is to be read on.

    Parameters
    ----------
    request : SearchInteractions
        Its bounds are those of what is left.
    bound : datetime, optional
        Millisecond of the last interaction that was read.
    seen : frozenset of str
        Those of this millisecond that were read.
    """

    request: Any
    bound: datetime | None = None
    seen: frozenset[str] = frozenset()

    @property
    def is_descending(self) -> bool:
        return bool(self.request.sort[_START] == -1)

    def within(self, begin: datetime | None, end: datetime | None) -> _Place:
        """Return the place with narrower bounds, as far as they are given; they never become wider."""
        since = max((each for each in (self.request.since, begin) if each is not None), default=None)
        until = min((each for each in (self.request.until, end) if each is not None), default=None)
        return replace(self, request=self.request.model_copy(update={"since": since, "until": until}))

    def at(self, bound: datetime, seen: frozenset[str]) -> _Place:
        """Return the place from a millisecond on, of which some were seen."""
        begin, end = (None, bound + _MILLISECOND - _MICROSECOND) if self.is_descending else (bound, None)
        return replace(self.within(begin, end), bound=bound, seen=seen)

    def behind(self, bound: datetime) -> _Place:
        """Return the place after a millisecond."""
        begin, end = (None, bound - _MICROSECOND) if self.is_descending else (bound + _MILLISECOND, None)
        return replace(self.within(begin, end), bound=None, seen=frozenset())

    @property
    def is_empty(self) -> bool:
        since, until = self.request.since, self.request.until
        return since is not None and until is not None and since > until


class _Slice:
    """Interactions of a time, each page from the last startDate of the one before."""

    def __init__(self, source: Source, place: _Place, *, is_all: bool = False) -> None:
        self._source = source
        self._is_all = is_all
        self._begun = place
        self.place = place
        self.total = 0
        # What was seen before counts to the total of the first page.
        self.rows = len(place.seen)
        self.is_done = False
        self._is_first = True

    def pages(self) -> Pages:
        """Go through the pages."""
        while not self.is_done and not self.place.is_empty:
            place = self.place
            table, total = self._source.fetch(place.request)
            if self._is_first:
                self._is_first, self.total = False, total
            self.is_done = table.num_rows >= total
            if not table.num_rows or (self.is_done and self._is_all):
                # Nothing depends on their order.
                self.rows += table.num_rows
                yield table
                return
            moments = self._moments(table)
            last = _EPOCH + int(moments[-1]) * _MILLISECOND
            ids = np.array(table["_id"].to_pylist(), dtype=object)
            of_last = frozenset(ids[moments == moments[-1]])
            new = _unseen(table, place.seen)
            self.rows += new.num_rows
            if last == place.bound:
                self.place = replace(place, seen=place.seen | of_last)
                yield new
                if not self.is_done:
                    yield from self._instant(last)
                    self.place = self.place.behind(last)
            else:
                self.place = place.at(last, of_last)
                yield new

    def recount(self) -> int:
        """Ask how many there are now."""
        return self._source.fetch(self._begun.request, limit=0)[1]

    def _instant(self, moment: datetime) -> Pages:
        """Go through one millisecond that holds more than a page, by offset, again where rows move."""
        place = self.place.within(moment, moment + _MILLISECOND - _MICROSECOND)
        seen = set(place.seen)
        for attempt in range(_ATTEMPTS):
            try:
                for table in ByOffset(self._source, place.request.model_copy(update={"limit": None})).pages():
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
        """Return the milliseconds of a page, which have to be in order and within the bounds."""
        starts = table[_START].combine_chunks()
        moments = np.floor_divide(pc.fill_null(starts.cast(pa.int64()), 0).to_numpy(), 1_000)
        request = self.place.request
        steps = np.diff(moments) * request.sort[_START]
        low, high = _milliseconds(request.since), _milliseconds(request.until)
        is_within = (low is None or moments.min() >= low) and (high is None or moments.max() <= high)
        if starts.null_count or (steps < 0).any() or not is_within:
            raise ServiceFailure(
                f"{self._source.operation.name}: the service does not answer in the order and "
                "the bounds that were asked for (sort, since, until)"
            )
        return moments


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MILLISECOND


def _unseen(table: pa.Table, seen: frozenset[str] | set[str]) -> pa.Table:
    """Return the rows whose ids were not seen, each once."""
    ids = table["_id"].to_pylist()
    if seen.isdisjoint(ids) and len(set(ids)) == len(ids):
        return table
    known = set(seen)
    is_new = []
    for each in ids:
        is_new.append(each not in known)
        known.add(each)
    return table.filter(pa.array(is_new, pa.bool_()))


def _divided(source: Source, begun: _Slice) -> list[_Place]:
    """Return the slices of what is left, in their order, each of about one page."""
    place = begun.place
    pages = -(-(begun.total - begun.rows) // source.page)
    if pages <= _FEW or place.bound is None:
        return [place]
    direction = place.request.sort[_START]
    table, _ = source.fetch(place.request, limit=1, sort={_START: -direction, "_id": 1})
    if not table.num_rows:
        return [place]
    low, high = sorted((place.bound, table[_START][0].as_py()))
    if high - low < _MILLISECOND:
        return [place]
    cuts = _cuts(source, place.request, low, high, pages)
    bounds = [None, *cuts, None]
    slices = []
    for begin, end in itertools.pairwise(bounds):
        each = place.within(begin, None if end is None else end - _MICROSECOND)
        # Only the slice that goes on where the first page ended has seen anything.
        is_next = (end if place.is_descending else begin) is None
        slices.append(each if is_next else replace(each, bound=None, seen=frozenset()))
    return slices[::-1] if place.is_descending else slices


def _cuts(source: Source, request: Any, low: datetime, high: datetime, pages: int) -> list[datetime]:
    """Return instants between which about one page lies, by counting; none where that is not possible."""
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
        counts = source.ask(OPERATIONS["interaction_insights"], insights).table
        if counts is None:
            return []
        begins = [instants.parse(each, argument="interval") for each in counts["interval"].to_pylist()]
    except (TooManyRequests, Unavailable):
        raise
    except AttribError:
        # The account may search and not count, or the labels are others: one slice is slower, not wrong.
        return []
    cuts, rows = [], 0
    for begin, count in sorted(zip(begins, counts["sessionCount"].to_pylist(), strict=True)):
        begin = _EPOCH + (begin - _EPOCH) // _MILLISECOND * _MILLISECOND
        if rows and rows + count > source.page and low + _MILLISECOND <= begin <= high:
            cuts.append(begin)
            rows = 0
        rows += count
    return sorted(set(cuts))
