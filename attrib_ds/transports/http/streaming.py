"""Reads all records of a search, in the way that suits it, and shows how far it is."""

from __future__ import annotations

import warnings
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.contract import Answer, Stream
from attrib_ds.contract.columns import columns
from attrib_ds.display import progress
from attrib_ds.errors import UnknownFields
from attrib_ds.schema import RESOURCES
from attrib_ds.transports.http.interaction_walk import is_by_time, walk_interactions
from attrib_ds.transports.http.user_walk import is_by_id, walk_users
from attrib_ds.transports.http.walking import ByOffset, cut, verified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from attrib_ds.contract import Operation
    from attrib_ds.transports.http.walking import Pages, Source

#: A search with a limit of more pages than this is read page by page too.
_MOST_AT_ONCE: Final = 4


def has_pages(operation: Operation, request: Any, *, page: int) -> bool:
    """Say whether an answer may be longer than a page or a few."""
    if operation.answer.kind != "page":
        return False
    return request.limit is None or request.limit > _MOST_AT_ONCE * page


def read_all(source: Source, request: Any) -> Answer:
    """Read all records of a search.

    Parameters
    ----------
    source : Source
        Where they are read from.
    request : Request
        With an offset and a limit, which count.

    Returns
    -------
    Answer
        As one answer with all of them would be, fields that the schema does not have behind the others.
    """
    sort: Any = getattr(request, "sort", None)
    with _bar(source, request) as bar:
        tables = _at_once(source, request, bar)
        if tables is None and source.operation.name == "search_interactions" and not is_by_time(sort):
            # The order of time needs no offsets; the other one is made here, by what may not be asked for.
            asked: Any = request.projection
            projection = None if asked is None else tuple(dict.fromkeys([*asked, *sort]))
            changes = {"sort": None, "projection": projection, "offset": 0, "limit": None}
            table = _joined(walk_interactions(source, request.model_copy(update=changes)), bar)
            table = table.take(_order(table, sort)).slice(request.offset, request.limit)
        elif tables is None:
            table = _joined(_walked(source, request, is_whole=True), bar)
        else:
            table = _joined(tables)
    expected = columns(source.operation, request)
    unknown = sorted(set(table.column_names) - set(_known(source.operation, request)))
    announce(source.operation, unknown, are_kept=True)
    return Answer(
        table=table.select([*expected.names, *unknown]),
        total=source.total,
        offset=request.offset,
        limit=request.limit,
    )


def open_stream(source: Source, request: Any) -> Stream:
    """Begin to read all records of a search, which are handed on page by page.

    Parameters
    ----------
    source : Source
        Where they are read from.
    request : Request
        With an offset and a limit, which count.

    Returns
    -------
    Stream
        The first page is there already.
    """
    expected = columns(source.operation, request)
    pages = _pages(source, request, expected)
    # What the service refuses is told at once.
    first = next(pages)
    return Stream(
        columns=expected,
        tables=_resumed(first, pages),
        total=source.total,
        close=lambda: _close(source, pages),
    )


def announce(operation: Operation, unknown: Iterable[str], *, are_kept: bool) -> None:
    """Warn of fields that the schema does not have, if there are any."""
    names = list(unknown)
    if names:
        fate = "they are the last columns, as JSON text" if are_kept else "they are left out"
        warnings.warn(
            f"{operation.name}: the service answered fields that this version does not know: "
            f"{', '.join(names)}; {fate}",
            UnknownFields,
            stacklevel=2,
        )


def _pages(source: Source, request: Any, expected: pa.Schema) -> Pages:
    known = set(_known(source.operation, request))
    is_told = False
    with _bar(source, request) as bar:
        tables = _at_once(source, request, bar)
        if tables is None:
            tables = _counting(_walked(source, request, is_whole=False), bar)
        with closing(tables):
            for table in tables:
                unknown = sorted(set(table.column_names) - known)
                # Once for each call. Chunks have the same columns, so they cannot have some of their own.
                if unknown and not is_told:
                    is_told = True
                    announce(source.operation, unknown, are_kept=False)
                yield table.select(expected.names)


def _resumed(first: pa.Table, pages: Pages) -> Pages:
    with closing(pages):
        yield first
        yield from pages


def _close(source: Source, pages: Pages) -> None:
    source.stop.set()
    pages.close()


def _at_once(source: Source, request: Any, bar: Callable[[int], None]) -> Pages | None:
    """Return all records by one answer, None where they have to be walked through.

    An answer of Arrow is of one snapshot, in any order, and several times as fast as its pages; it is on the
    disk as a whole before anything of it is handed on, so that it can be asked for again.
    """
    if source.gives_arrow() is False:
        return None
    limit = source.page if request.limit is None else min(source.page, request.limit)
    first, _ = source.fetch(request, limit=limit)
    wanted = _expected(source, request)
    if wanted is None or first.num_rows >= wanted:
        return _one(first)
    spool = source.spool(request, bar) if source.gives_arrow() else None
    return None if spool is None else spool.tables()


def _one(table: pa.Table) -> Pages:
    yield table


def _walked(source: Source, request: Any, *, is_whole: bool) -> Pages:
    """Go through the records by their keys where their order allows it, otherwise by offset."""
    name = source.operation.name
    if name == "search_interactions" and is_by_time(request.sort):
        return cut(walk_interactions(source, request), offset=request.offset, limit=request.limit)
    if name == "search_users" and is_by_id(request):
        return cut(walk_users(source, request), offset=request.offset, limit=request.limit)
    return verified(lambda: ByOffset(source, request), source, is_whole=is_whole)


def _joined(tables: Pages, bar: Callable[[int], None] | None = None) -> pa.Table:
    with closing(tables if bar is None else _counting(tables, bar)) as pages:
        return pa.concat_tables(pages, promote_options="default").combine_chunks()


def _counting(tables: Pages, bar: Callable[[int], None]) -> Pages:
    with closing(tables):
        for table in tables:
            bar(table.num_rows)
            yield table


def _bar(source: Source, request: Any) -> AbstractContextManager[Callable[[int], None]]:
    return progress("records", lambda: _expected(source, request), name=source.operation.name)


def _expected(source: Source, request: Any) -> int | None:
    if source.total is None:
        return None
    left: int = max(source.total - request.offset, 0)
    return left if request.limit is None else min(left, int(request.limit))


def _order(table: pa.Table, sort: Mapping[str, int]) -> pa.Array:
    """Return the rows in the order of the service: nulls last, ties by the id (G-099)."""
    keys = [(name, "ascending" if direction == 1 else "descending") for name, direction in sort.items()]
    keys += [] if "_id" in sort else [("_id", "ascending")]
    return pc.sort_indices(table, sort_keys=keys)  # nulls are last unless told otherwise


def _known(operation: Operation, request: Any) -> list[str]:
    """Return every name that the columns of an answer may have without being unknown."""
    return [*columns(operation, request).names, *RESOURCES[str(operation.answer.resource)].names]
