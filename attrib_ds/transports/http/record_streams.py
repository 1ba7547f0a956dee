"""Read all records of a search: in one Arrow response if the service offers that, otherwise in pages."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.contract import Answer, Operation
from attrib_ds.contract.operation import columns
from attrib_ds.display import printable, progress
from attrib_ds.errors import UnknownFields
from attrib_ds.schema import RESOURCES
from attrib_ds.transports.http.answers import check_keys, read_first_page, spool_answer
from attrib_ds.transports.http.paging import Pages, Paging, Search, is_by_time, rows_left

#: Fields that a warning names, and characters of each.
_MOST_NAMES: Final = 20
_LONGEST_NAME: Final = 80


def read_all(search: Search, request: Any, *, offers_arrow: bool | None) -> Answer:
    """Read all records of a search into memory.

    Parameters
    ----------
    search : Search
        The search.
    request : Request
        Its offset and limit apply.
    offers_arrow : bool, optional
        Whether the service answers in Arrow; None if unknown.

    Returns
    -------
    Answer
        The same as from a single response; fields missing in the schema are the last columns.
    """
    paged = request
    is_sorted_locally = search.operation.name == "search_interactions" and not is_by_time(request.sort)
    if is_sorted_locally:
        # Paging by time needs no offsets. The projection may lack the columns to sort by.
        projection = request.projection and tuple(dict.fromkeys([*request.projection, *request.sort]))
        changes = {"sort": None, "projection": projection, "offset": 0, "limit": None}
        paged = request.model_copy(update=changes)
    with _opened(search, request, paged, is_whole=True, offers_arrow=offers_arrow) as pages:
        tables, are_pages = list(pages), not isinstance(pages, Answer)
    empty = [] if tables else [columns(search.operation, request).empty_table()]
    table = pa.concat_tables([*tables, *empty], promote_options="default").combine_chunks()
    # Each page was checked alone.
    check_keys(table)
    if is_sorted_locally and are_pages:
        table = table.take(_sort_indices(table, request.sort)).slice(request.offset, request.limit)
    unknown = sorted(set(table.column_names) - set(_expected_names(search.operation, request)))
    warn_of_unknown_fields(search.operation, unknown, are_kept=True)
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
        To be closed by the caller. The first page is already loaded, so that errors of the request raise
        here; further pages are prefetched. Fields missing in the schema are left out.
    """
    expected = columns(search.operation, request)
    tables = _tables(search, request, expected, offers_arrow=offers_arrow)
    first = next(tables, expected.empty_table())

    def close() -> None:
        search.stop.set()
        tables.close()

    return Answer(
        expected,
        itertools.chain([first], tables),
        count=None if search.total is None else rows_left(search.total, request),
        total=search.total,
        offset=request.offset,
        limit=request.limit,
        close=close,
    )


def warn_of_unknown_fields(operation: Operation, unknown: Iterable[str], *, are_kept: bool) -> None:
    """Warn of fields that are missing in the schema, if there are any."""
    names = [printable(name)[:_LONGEST_NAME] for name in unknown]
    if names:
        effect = "they are the last columns, as JSON text" if are_kept else "they are left out"
        warnings.warn(
            f"{operation.name}: the response has fields that this version does not support: "
            f"{', '.join(names[:_MOST_NAMES])}{', …' if len(names) > _MOST_NAMES else ''}; {effect}",
            UnknownFields,
            stacklevel=2,
        )


@contextmanager
def _opened(
    search: Search, request: Any, paged: Any, *, is_whole: bool, offers_arrow: bool | None
) -> Iterator[Pages | Answer]:
    """Show the progress of a request, and close at the end what it reads: one Arrow answer, or its pages."""

    def expected() -> int | None:
        return None if search.total is None else rows_left(search.total, request)

    paging = Paging.of(search.operation, paged)
    with progress("records", expected, name=search.operation.name) as advance:
        whole = _read_at_once(search, request, paging, advance, offers_arrow=offers_arrow)
        if whole is None:
            whole = _counting(paging.pages(search, paged, is_whole=is_whole), advance)
        with closing(whole):
            yield whole


def _read_at_once(
    search: Search, request: Any, paging: Paging, advance: Callable[[int], None], *, offers_arrow: bool | None
) -> Answer | None:
    """Return all records of a request as one Arrow answer; None if they have to be read in pages.

    An Arrow response is one snapshot and several times as fast as pages. It is spooled to disk completely
    before use, so that it can be requested again. If it is unknown whether the service offers Arrow, the
    first page decides: it is used, unless it is in Arrow and more records follow.
    """
    if offers_arrow is False:
        return None
    if offers_arrow is None:
        page = paging.ordered.model_copy(update={"limit": search.page_size})
        search.first = search.fetch(search.operation, page, read_first_page)
        if search.first is not None:
            return None

    def count(rows: int, total: int | None) -> None:
        search.total = total
        advance(rows)

    answer = search.fetch(search.operation, request, partial(spool_answer, advance=count))
    if answer is not None:
        search.total = answer.total
    return answer


def _tables(search: Search, request: Any, expected: pa.Schema, *, offers_arrow: bool | None) -> Pages:
    names = set(_expected_names(search.operation, request))
    has_warned = False
    with _opened(search, request, request, is_whole=False, offers_arrow=offers_arrow) as pages:
        for table in pages:
            unknown = sorted(set(table.column_names) - names)
            # Once per call. All tables of a stream have the same columns, so unknown ones are left out.
            if unknown and not has_warned:
                has_warned = True
                warn_of_unknown_fields(search.operation, unknown, are_kept=False)
            yield table.select(expected.names)


def _counting(tables: Pages, advance: Callable[[int], None]) -> Pages:
    with closing(tables):
        for table in tables:
            advance(table.num_rows)
            yield table


def _sort_indices(table: pa.Table, sort: Mapping[str, int]) -> pa.Array:
    """Return the row numbers in the service's order: nulls last, ties by id."""
    keys = [(name, "ascending" if direction == 1 else "descending") for name, direction in sort.items()]
    keys += [] if "_id" in sort else [("_id", "ascending")]
    return pc.sort_indices(table, sort_keys=keys)  # nulls are last by default


def _expected_names(operation: Operation, request: Any) -> list[str]:
    """Return the names of all columns that an answer may have according to the schema."""
    return [*columns(operation, request).names, *RESOURCES[str(operation.answer.resource)].names]
