"""Reads all records of a search: in one Arrow answer where the service offers that, otherwise in pages."""

from __future__ import annotations

import warnings
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.contract import Answer
from attrib_ds.contract.columns import columns
from attrib_ds.display import progress
from attrib_ds.errors import UnknownFields
from attrib_ds.schema import RESOURCES
from attrib_ds.transports.http.answers import read_first_page, spool_answer
from attrib_ds.transports.http.paging.by_id import in_order_of_id, is_by_id, read_by_id
from attrib_ds.transports.http.paging.by_offset import ByOffset
from attrib_ds.transports.http.paging.by_time import in_order_of_time, is_by_time, read_by_time
from attrib_ds.transports.http.paging.completeness import verified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from attrib_ds.contract import Operation
    from attrib_ds.transports.http.paging.search import Pages, Search

#: A search with a limit of at most so many pages is one request.
_MOST_AT_ONCE: Final = 4


def has_pages(operation: Operation, request: Any, *, page_size: int) -> bool:
    """Say whether an answer may be longer than a few pages."""
    if operation.answer.kind != "page":
        return False
    return request.limit is None or request.limit > _MOST_AT_ONCE * page_size


def read_all(search: Search, request: Any, *, offers_arrow: bool | None) -> Answer:
    """Read all records of a search into memory.

    Parameters
    ----------
    search : Search
        What to read.
    request : Request
        Its offset and limit apply.
    offers_arrow : bool, optional
        Whether the service answers in Arrow; None where that is not known yet.

    Returns
    -------
    Answer
        As a single response would give it; fields missing in the schema are the last columns.
    """
    paged = request
    is_sorted_here = search.operation.name == "search_interactions" and not is_by_time(request.sort)
    if is_sorted_here:
        # Pages by time need no offsets. The columns to sort by may not be among those asked for.
        projection = request.projection and tuple(dict.fromkeys([*request.projection, *request.sort]))
        changes = {"sort": None, "projection": projection, "offset": 0, "limit": None}
        paged = request.model_copy(update=changes)
    with _progress(search, request) as advance:
        whole = _in_one_answer(search, request, paged, advance, offers_arrow=offers_arrow)
        pages = _counting(_pages(search, paged, is_whole=True), advance) if whole is None else iter(whole)
        with closing(pages):  # type: ignore[type-var]
            tables = list(pages)
    empty = [] if tables else [columns(search.operation, request).empty_table()]
    table = pa.concat_tables([*tables, *empty], promote_options="default").combine_chunks()
    if is_sorted_here and whole is None:
        table = table.take(_order(table, request.sort)).slice(request.offset, request.limit)
    unknown = sorted(set(table.column_names) - set(_known(search.operation, request)))
    announce(search.operation, unknown, are_kept=True)
    names = [*columns(search.operation, request).names, *unknown]
    return Answer.of(table.select(names), total=search.total, offset=request.offset, limit=request.limit)


def open_stream(search: Search, request: Any, *, offers_arrow: bool | None) -> Answer:
    """Read all records of a search as a stream.

    Parameters
    ----------
    search, request, offers_arrow
        As for :func:`read_all`.

    Returns
    -------
    Answer
        To be closed. Its first page is there already, so that errors of the request raise here; further
        pages are read ahead. Fields missing in the schema are left out.
    """
    expected = columns(search.operation, request)
    tables = _tables(search, request, expected, offers_arrow=offers_arrow)
    first = next(tables, expected.empty_table())

    def close() -> None:
        search.stop.set()
        tables.close()

    return Answer(
        expected,
        _resumed(first, tables),
        count=_expected(search, request),
        total=search.total,
        offset=request.offset,
        limit=request.limit,
        close=close,
    )


def announce(operation: Operation, unknown: Iterable[str], *, are_kept: bool) -> None:
    """Warn of fields that are missing in the schema, if there are any."""
    names = list(unknown)
    if names:
        fate = "they are the last columns, as JSON text" if are_kept else "they are left out"
        warnings.warn(
            f"{operation.name}: the service answered fields that this version does not know: "
            f"{', '.join(names)}; {fate}",
            UnknownFields,
            stacklevel=2,
        )


def _in_one_answer(
    search: Search,
    request: Any,
    paged: Any,
    advance: Callable[[int], None],
    *,
    offers_arrow: bool | None,
) -> Answer | None:
    """Return all records of a request as one Arrow answer, None where they have to be read in pages.

    An Arrow answer is of one snapshot and several times as fast as pages. It is complete on disk before
    anything of it is used, so that it can be requested again. Where it is not known whether the service
    offers Arrow, the first page tells: it is used, unless it is in Arrow and more records follow.
    """
    if offers_arrow is False:
        return None
    if offers_arrow is None:
        page = _first_request(search.operation, paged).model_copy(update={"limit": search.page_size})
        search.first = search.fetch(search.operation, page, read_first_page)
        if search.first is not None:
            return None

    def arrived(rows: int, total: int | None) -> None:
        search.total = total
        advance(rows)

    answer = search.fetch(search.operation, request, partial(spool_answer, advance=arrived))
    if answer is not None:
        search.total = answer.total
    return answer


def _first_request(operation: Operation, request: Any) -> Any:
    """Return the request in the order in which its pages are read."""
    if operation.name == "search_interactions" and is_by_time(request.sort):
        return in_order_of_time(request)
    if operation.name == "search_users" and is_by_id(request):
        return in_order_of_id(request)
    return request


def _pages(search: Search, request: Any, *, is_whole: bool) -> Pages:
    """Read the pages of a request: by time or by id where its order allows that, otherwise by offset."""
    name = search.operation.name
    ordered = _first_request(search.operation, request)
    if name == "search_interactions" and is_by_time(request.sort):
        return cut(read_by_time(search, ordered), offset=request.offset, limit=request.limit)
    if name == "search_users" and is_by_id(request):
        return cut(read_by_id(search, ordered), offset=request.offset, limit=request.limit)
    return verified(lambda: ByOffset(search, request), search, is_whole=is_whole)


def _tables(search: Search, request: Any, expected: pa.Schema, *, offers_arrow: bool | None) -> Pages:
    known = set(_known(search.operation, request))
    is_announced = False
    with _progress(search, request) as advance:
        whole = _in_one_answer(search, request, request, advance, offers_arrow=offers_arrow)
        pages = _counting(_pages(search, request, is_whole=False), advance) if whole is None else iter(whole)
        with closing(pages):  # type: ignore[type-var]
            for table in pages:
                unknown = sorted(set(table.column_names) - known)
                # Once per call. All tables of a stream have the same columns, so unknown ones are left out.
                if unknown and not is_announced:
                    is_announced = True
                    announce(search.operation, unknown, are_kept=False)
                yield table.select(expected.names)


def _resumed(first: pa.Table, rest: Pages) -> Pages:
    with closing(rest):
        yield first
        yield from rest


def cut(tables: Pages, *, offset: int, limit: int | None) -> Pages:
    """Skip the first rows, and stop after a number of rows.

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


def _counting(tables: Pages, advance: Callable[[int], None]) -> Pages:
    with closing(tables):
        for table in tables:
            advance(table.num_rows)
            yield table


def _progress(search: Search, request: Any) -> AbstractContextManager[Callable[[int], None]]:
    return progress("records", lambda: _expected(search, request), name=search.operation.name)


def _expected(search: Search, request: Any) -> int | None:
    if search.total is None:
        return None
    left: int = max(search.total - request.offset, 0)
    return left if request.limit is None else min(left, int(request.limit))


def _order(table: pa.Table, sort: Mapping[str, int]) -> pa.Array:
    """Return the rows in the order of the service: nulls last, ties by the id (G-099)."""
    keys = [(name, "ascending" if direction == 1 else "descending") for name, direction in sort.items()]
    keys += [] if "_id" in sort else [("_id", "ascending")]
    return pc.sort_indices(table, sort_keys=keys)  # nulls are last unless told otherwise


def _known(operation: Operation, request: Any) -> list[str]:
    """Return the names of all columns that an answer may have without being unknown."""
    return [*columns(operation, request).names, *RESOURCES[str(operation.answer.resource)].names]
