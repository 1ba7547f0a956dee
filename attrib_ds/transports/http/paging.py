"""Read a search in pages that lose and repeat no record: by id, by time or by offset."""

from __future__ import annotations

import itertools
import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.contract import Answer, Operation
from attrib_ds.errors import AttribError, ServiceFailure, warn
from attrib_ds.transports.http.answers import read_answer
from attrib_ds.transports.http.remote_errors import PAGE_TOO_LARGE, noted
from attrib_ds.transports.http.session import Response

T = TypeVar("T")
Pages: TypeAlias = Generator[pa.Table, None, None]

_START: Final = "startDate"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
#: Services may truncate instants to milliseconds.
_MILLISECOND: Final = timedelta(milliseconds=1)
_HEX: Final = re.compile("[0-9a-f]{24}")
#: Totals that services do not count beyond are multiples of it.
_ROUND: Final = 1_000
#: Maximum number of ranges per search.
_MOST_RANGES: Final = 512
#: This many pages are read as one range.
_PAGES_UNDIVIDED: Final = 2
#: Attempts to read records that move while they are read.
_ATTEMPTS: Final = 3
#: Parts of which a page is read ahead, per worker.
_AHEAD: Final = 2
#: Seconds to wait for pages that are no longer wanted.
_SECONDS_TO_END: Final = 10.0


@dataclass
class Search:
    """A search in progress.

    Parameters
    ----------
    operation : Operation
        The search operation.
    fetch : callable
        Sends a request of an operation, retrying if that is safe, and returns what its last argument reads of
        the response.
    page_sizes : dict of str to int
        Records per page by operation, which are remembered for the next search.
    workers : int
        Number of pages read concurrently.
    stop : threading.Event
        Set when no further pages are wanted.
    first : Answer, optional
        The first page, if already fetched; :meth:`page` returns it instead of fetching it again.
    total : int, optional
        Number of matching records according to the first response.
    missing : int, default 0
        Number of records that the last walk lacked of the total.
    is_read_once : bool, default False
        Whether pages are used before all are read, so that they cannot be read again.
    moves : bool, default False
        Whether records were seen to move, as those of one instant do in services that do not order ties.
    warned : set of str
        Unknown fields that the connection has warned of.
    """

    operation: Operation
    fetch: Callable[[Operation, Any, Callable[[Response, Operation, Any], Any]], Any]
    page_sizes: dict[str, int]
    workers: int
    stop: threading.Event
    first: Answer | None = None
    total: int | None = None
    missing: int = 0
    is_read_once: bool = False
    moves: bool = False
    warned: set[str] = field(default_factory=set)

    @property
    def page_size(self) -> int:
        """Records per page; only ever made smaller."""
        return self.page_sizes[self.operation.name]

    @page_size.setter
    def page_size(self, size: int) -> None:
        self.page_sizes[self.operation.name] = min(size, self.page_size)

    def page(self, request: Any, *, limit: int | None = None, **changes: Any) -> tuple[pa.Table, int | None]:
        """Fetch one page of a request with some attributes changed; return it with the stated total."""
        answer, self.first = self.first, None
        if answer is None:
            answer = self.fetch_page(request.model_copy(update=changes), read_answer, limit=limit)
        table = answer.read()
        if self.total is None:
            self.total = answer.total
        return table, answer.total

    def fetch_page(self, request: Any, read: Callable[..., Any], *, limit: int | None = None) -> Any:
        """Fetch a page, with fewer records as long as it is too large for the service or a gateway."""
        while True:
            size = self.page_size if limit is None else min(limit, self.page_size)
            try:
                return self.fetch(self.operation, request.model_copy(update={"limit": size}), read)
            except AttribError as error:
                smaller = noted(error, PAGE_TOO_LARGE)
                if smaller is None:
                    raise
                self.page_size = smaller

    def ends(self, rows: int, read: int, total: int | None, *, overlap: int = 0) -> bool:
        """Return whether a page is the last one: it is empty, or all that the service counts have been read.

        A full page, with its overlap, is not the last one if its total is round (the service may count no
        further), is the number of its own records, or is less than what has been read.
        """
        counted, size = total or 0, rows + overlap
        is_bound = size >= self.page_size and (counted % _ROUND == 0 or counted == size or counted < read)
        return not rows or (total is not None and read >= total and not is_bound)

    def report_missing(self, missing: int) -> None:
        """Raise :exc:`_Moved` if records are missing, and warn if reading again has not found them."""
        if missing <= 0:
            return
        problem = f"{missing} of {self.total} records are missing in the service's responses"
        if missing != self.missing and not self.is_read_once:
            self.missing, self.moves = missing, True
            raise _Moved(problem)
        warn(f"{self.operation.name}: {problem}; its total may be an estimate")

    def check_growth(self, rows: int) -> None:
        """Raise if there are many more rows than the first page said: new records do not explain them."""
        if self.total is not None and rows > 2 * self.total + self.page_size:
            growth = f"it was {self.total:,}, and {rows:,} have come so far"
            raise self.failure(f"records arrive faster than they can be read: {growth}")

    def failure(self, problem: str) -> ServiceFailure:
        """Return the error of an answer that cannot be right."""
        return ServiceFailure(f"{self.operation.name}: {problem}")


@dataclass(frozen=True)
class Paging:
    """How the pages of a request are read.

    Parameters
    ----------
    ordered : Request
        The request in the order in which its pages are read.
    by_key : type, optional
        The key from which a page continues; None for paging by offset.
    """

    ordered: Any
    by_key: type[_ById | _ByTime] | None

    @classmethod
    def of(cls, operation: Operation, request: Any) -> Paging:
        """Page by time or by id if the sort order allows it, otherwise by offset."""
        if operation.name == "search_interactions" and is_by_time(request.sort):
            order = request.sort or {_START: -1}
            # The specification shows no direction but -1, so none is sent that nobody has asked for.
            changes: dict[str, Any] = {"sort": order, "offset": 0}
            if request.projection is not None and _START not in request.projection:
                changes["projection"] = (*request.projection, _START)
            return cls(request.model_copy(update=changes), _ByTime)
        if operation.name == "search_users" and request.sort in (None, "_id"):
            # `sort` only with `order`: without either, the service sorts by id by default.
            changes = {"sort": "_id", "order": request.order or "ASC", "offset": 0}
            return cls(request.model_copy(update=changes), _ById)
        return cls(request, None)

    def pages(self, search: Search, request: Any, *, is_whole: bool, advance: Callable[[int], None]) -> Pages:
        """Read the pages of a request.

        Parameters
        ----------
        search : Search
            The search.
        request : Request
            Its offset and limit apply.
        is_whole : bool
            Whether no page is used before all are read, so that reading can start over.
        advance : callable
            Called with the number of rows of each page as it arrives; a negative one if reading starts over.

        Raises
        ------
        ServiceFailure
            If records are missing, or move while they are read.
        """
        problem = ""
        search.is_read_once = not is_whole
        for _ in range(_ATTEMPTS if is_whole else 1):
            search.stop.clear()
            pages = _by_offset(search, request)
            if self.by_key is not None:
                walked = _by_key(search, self.ordered, self.by_key)
                pages = cut(walked, offset=request.offset, limit=request.limit)
            tables: list[pa.Table] = []
            try:
                with closing(pages):
                    for table in pages:
                        advance(table.num_rows)
                        if is_whole:
                            tables.append(table)
                        else:
                            yield table
            except _Moved as moved:
                problem = str(moved)
                advance(-sum(table.num_rows for table in tables))
            else:
                yield from tables
                return
        raise search.failure(f"{problem}; try again, or request fewer records")


def is_by_time(sort: Mapping[str, int] | None) -> bool:
    """Return whether the sort order is by startDate, then by id, as paging by time requires.

    Examples
    --------
    >>> is_by_time(None), is_by_time({"startDate": 1, "_id": -1}), is_by_time({"hitCount": 1})
    (True, True, False)
    """
    return list(sort or {_START: -1}) in ([_START], [_START, "_id"])


def cut(tables: Pages, *, offset: int, limit: int | None) -> Pages:
    """Skip the first rows and stop after a number of rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> numbers = (pa.table({"n": [number, number + 1]}) for number in (1, 3, 5))
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


def _by_key(search: Search, request: Any, kind: type[_ById | _ByTime]) -> Pages:
    """Read the first page, then ranges of about a page each, concurrently."""
    walk = kind(search, request, is_all=True)
    pages = walk.pages()
    first = next(pages)
    rows = first.num_rows
    yield first
    if 0 < rows < (search.total or 0):
        # Some services return fewer records than they are asked for.
        search.page_size = rows
    left = -(-((search.total or 0) - rows) // search.page_size)
    is_divided = rows and left > _PAGES_UNDIVIDED
    parts = [part.pages() for part in walk.divide(min(left, _MOST_RANGES))] if is_divided else [pages]
    with closing(in_order(parts, workers=search.workers, stop=search.stop)) as rest:
        for table in rest:
            rows += table.num_rows
            search.check_growth(rows)
            yield table
    if search.total is not None and rows < search.total:
        # Some may have been deleted meanwhile.
        search.report_missing((search.page(request, limit=1)[1] or 0) - rows)


class _Walk:
    """Records in the order of a key; each page continues from the key of the last record.

    Parameters
    ----------
    search : Search
        The search.
    request : Request
        Sorted by the key.
    is_all : bool, default False
        Whether these are all records: a single page of all needs no particular order.
    """

    def __init__(self, search: Search, request: Any, *, is_all: bool = False) -> None:
        self._search = search
        self._request = request
        self._is_all = is_all

    def _check_order(self, *, is_right: bool) -> None:
        """Raise if records are out of order or out of bounds, since some would be lost."""
        if not is_right:
            raise self._search.failure("the service ignores the requested order or bounds")


class _ById(_Walk):
    """Users in the order of their ids."""

    @property
    def _is_descending(self) -> bool:
        return bool(self._request.order == "DESC")

    def pages(self) -> Pages:
        is_last, repeated = False, None
        while not is_last:
            table, total = self._search.page(self._request)
            is_last = self._search.ends(table.num_rows, table.num_rows, total)
            if table.num_rows and total is None and table["_id"][0].as_py() == repeated:
                # A service that states no total may answer all records again and again.
                return
            if table.num_rows and not (is_last and self._is_all):
                repeated = table["_id"][0].as_py()
                ids = table["_id"].combine_chunks()
                after, to = self._request.idAfter or "", self._request.idTo
                follows = (pc.less_equal if self._is_descending else pc.greater_equal)(ids[1:], ids[:-1])
                is_within = pc.min(ids).as_py() > after and (not to or pc.max(ids).as_py() < to)
                self._check_order(is_right=is_within and pc.all(follows).as_py() is not False)
                last = {"idTo" if self._is_descending else "idAfter": ids[-1].as_py()}
                self._request = self._request.model_copy(update=last)
            self._is_all = False
            yield table

    def divide(self, count: int) -> Sequence[_ById]:
        """Divide the rest after the first page by id; ids are spread evenly, more or less."""
        request = self._request
        order = "ASC" if self._is_descending else "DESC"
        table, _ = self._search.page(request, limit=1, order=order)
        near = request.idTo if self._is_descending else request.idAfter
        far = table["_id"][0].as_py() if table.num_rows else near
        if not _HEX.fullmatch(near) or not _HEX.fullmatch(far):
            return [self]
        low, high = sorted((int(near, 16), int(far, 16)))
        cuts = sorted({f"{low + (high - low) * number // count:024x}" for number in range(1, count)} - {near})
        parts = []
        for begin, end in itertools.pairwise([None, *cuts, None]):
            changes: dict[str, Any] = {} if begin is None else {"idFrom": begin, "idAfter": None}
            changes |= {} if end is None else {"idTo": end}
            parts.append(_ById(self._search, request.model_copy(update=changes)))
        return parts[::-1] if self._is_descending else parts


class _ByTime(_Walk):
    """Interactions in the order of time: a page begins at the millisecond of the last record before it."""

    def __init__(self, search: Search, request: Any, *, is_all: bool = False) -> None:
        super().__init__(search, request, is_all=is_all)
        self._whole = request
        #: Millisecond of the last record, the ids that are read of it, and their number in the request.
        self._bound: datetime | None = None
        self._seen: list[str] = []
        self._position = 0

    @property
    def _is_descending(self) -> bool:
        return bool(self._request.sort[_START] == -1)

    def pages(self) -> Pages:
        attempts = 0
        is_last = False
        while not is_last:
            # The last record is read again, which shows whether records of its millisecond moved.
            overlap = min(self._position, 1, self._search.page_size - 1)
            if self._search.moves and self._position < self._search.page_size:
                # All that are read of the millisecond are read again, in whatever order they come.
                overlap = self._position
            table, total = self._search.page(self._request, offset=self._position - overlap)
            ids = np.array(table["_id"].to_pylist(), dtype=object)
            if overlap not in {0, self._position} and (not len(ids) or ids[0] != self._seen[-1]):
                self._search.moves = True
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise _Moved(f"the records changed while they were read, at {self._bound}")
                self._position = 0
                continue
            self._position += len(ids) - overlap
            is_last = self._search.ends(len(ids) - overlap, self._position, total, overlap=overlap)
            seen = set(self._seen)
            if len(ids) and not (is_last and self._is_all):
                self._continue_from(self._moments(table), ids)
            self._is_all = False
            yield table.filter(pa.array([id not in seen for id in ids], pa.bool_())) if seen else table

    def _continue_from(self, moments: Any, ids: Any) -> None:
        """Continue from the millisecond of the last record of a page."""
        of_last = ids[moments == moments[-1]].tolist()
        bound = _EPOCH + int(moments[-1]) * _MILLISECOND
        if bound == self._bound:
            self._seen = list(dict.fromkeys([*self._seen, *of_last]))
            # The last one that was read is the one that the next page repeats.
            self._seen.append(self._seen.pop(self._seen.index(of_last[-1])))
            return
        self._bound, self._seen, self._position = bound, of_last, len(of_last)
        bounds = (None, bound + _MILLISECOND) if self._is_descending else (bound, None)
        self._request = self._within(*bounds)

    def _within(self, begin: datetime | None, end: datetime | None) -> Any:
        """Return the request from an instant on, before another one."""
        request = self._request
        since = max((bound for bound in (request.since, begin) if bound is not None), default=None)
        end = None if end is None else end - _MICROSECOND
        until = min((bound for bound in (request.until, end) if bound is not None), default=None)
        return request.model_copy(update={"since": since, "until": until})

    def _moments(self, table: pa.Table) -> Any:
        """Return the milliseconds of a page."""
        starts = table[_START].combine_chunks()
        moments = np.floor_divide(pc.fill_null(starts.cast(pa.int64()), 0).to_numpy(), 1_000)
        bounds = (self._request.since, self._request.until)
        low, high = (bound and (bound - _EPOCH) // _MILLISECOND for bound in bounds)
        is_within = (low is None or moments.min() >= low) and (high is None or moments.max() <= high)
        steps = np.diff(moments) * self._request.sort[_START]
        self._check_order(is_right=is_within and not starts.null_count and not (steps < 0).any())
        return moments

    def divide(self, count: int) -> Sequence[_ByTime]:
        """Divide the time; intervals with many records are read in several pages."""
        try:
            table, _ = self._search.page(self._whole, limit=1, offset=(self._search.total or 1) - 1)
        except AttribError:
            # Not all services answer large offsets.
            return [self]
        if not table.num_rows or self._bound is None:
            return [self]
        low, high = sorted((self._bound, table[_START][0].as_py()))
        width = (high - low) // count // _MILLISECOND * _MILLISECOND
        if not width:
            return [self]
        # The range of the bound is this walk, which knows what is read of it.
        cuts = [low + number * width for number in range(1, count)]
        bounds = itertools.pairwise([None, *cuts, None])
        parts = [_ByTime(self._search, self._within(begin, end)) for begin, end in bounds]
        if self._is_descending:
            self._request = self._within(cuts[-1], None)
            return [self, *parts[-2::-1]]
        self._request = self._within(None, cuts[0])
        return [self, *parts[1:]]


class _Moved(Exception):
    """Records moved between two pages; the message says so."""


def _by_offset(search: Search, request: Any) -> Pages:
    """Yield pages that overlap by one record, which shows whether records moved."""
    rows, first, last = 0, None, None
    while True:
        # A page of one record has no room for another.
        overlap = min(rows, 1, search.page_size - 1)
        limit = search.page_size + overlap
        if request.limit is not None:
            limit = min(limit, request.limit - rows + overlap)
        table, total = search.page(request, offset=request.offset + rows - overlap, limit=limit)
        expected = None if total is None else rows_left(total, request)
        if overlap and total is None and table.num_rows == rows and _identity(table, 0) == first:
            # A service that states no total may answer all records again and again.
            break
        if overlap and (not table.num_rows or _identity(table, 0) != last):
            raise _Moved(f"the records changed while they were read, after {rows} of {expected}")
        if overlap and table.num_rows == overlap and expected is not None and rows < expected:
            search.page_size = 1
            continue
        table = table.slice(overlap)
        if table.num_rows:
            first = first if rows else _identity(table, 0)
            last = _identity(table, table.num_rows - 1)
        rows += table.num_rows
        search.check_growth(rows)
        yield table
        if rows == request.limit or search.ends(table.num_rows, rows, expected):
            break
    if expected is not None and rows < expected:
        search.report_missing(rows_left(search.page(request, offset=0, limit=1)[1] or 0, request) - rows)


def rows_left(total: int, request: Any) -> int:
    """Return the number of records of a request, by the number of matching records."""
    left: int = max(total - request.offset, 0)
    return left if request.limit is None else min(left, int(request.limit))


def _identity(table: pa.Table, row: int) -> object:
    """Return the id of a record, or the whole record if it has no id."""
    return table["_id"][row].as_py() if "_id" in table.column_names else table.slice(row, 1).to_pylist()


def in_order(
    parts: Sequence[Iterator[T]], *, workers: int, stop: threading.Event
) -> Generator[T, None, None]:
    """Yield all pages of the first part, then of the second, and so on, while the next ones are read.

    Parameters
    ----------
    parts : sequence of iterator
        The pages of each part.
    workers : int
        Number of pages read concurrently.
    stop : threading.Event
        Set when no further pages are wanted.

    Yields
    ------
    object
        The pages.

    Raises
    ------
    BaseException
        The error of a part, when its turn comes.

    Examples
    --------
    >>> list(in_order([iter([1, 2]), iter([]), iter([3])], workers=2, stop=threading.Event()))
    [1, 2, 3]
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="attrib-ds page")
    waiting = iter(parts)

    def start(part: Iterator[T] | None) -> list[tuple[Iterator[T], Future[T | None]]]:
        return [] if part is None else [(part, pool.submit(next, part, None))]

    # A page of each part is read or waits here, and nothing else is in memory.
    ahead = deque(entry for part in itertools.islice(waiting, _AHEAD * workers) for entry in start(part))
    try:
        while ahead:
            part, future = ahead[0]
            page = future.result()
            ahead.popleft()
            if page is None:
                ahead.extend(start(next(waiting, None)))
            else:
                ahead.extendleft(start(part))
                yield page
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        started = [future for _, future in ahead if not future.cancelled()]
        _, running = wait(started, timeout=_SECONDS_TO_END)
        pool.shutdown(wait=not running)
