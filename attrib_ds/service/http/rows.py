"""The rows of an answer, handed on batch by batch so that never all of them are held at once."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.service.interactions import ordering
from attrib_ds.service.selection import select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from attrib_ds.contract import Answer
    from attrib_ds.contract.interactions import SearchInteractions
    from attrib_ds.service.store import Store

#: Rows of a batch: what is held of an answer at one time.
BATCH_ROWS: Final = 2_048
_NEWEST_FIRST: Final = {"startDate": -1}


def _nothing() -> None:
    """Let go of nothing: a table in memory holds no reader."""


@dataclass(frozen=True)
class Rows:
    """Rows on their way to a client.

    Parameters
    ----------
    columns : pyarrow.Schema
        Of every batch.
    batches : iterable of pyarrow.RecordBatch
        Gone through once, by one thread at a time.
    count : int
        Rows in all batches together.
    total : int, optional
        All that match, on a page.
    offset, limit : int
        What was asked for, on a page.
    hidden : frozenset of str
        Columns that are there for the writing of JSON alone.
    close : callable
        Lets go of what the batches are read from.
    """

    columns: pa.Schema
    batches: Iterable[pa.RecordBatch]
    count: int
    total: int | None = None
    offset: int = 0
    limit: int | None = None
    hidden: frozenset[str] = frozenset()
    close: Callable[[], None] = field(default=_nothing)


def of_table(answer: Answer) -> Rows:
    """Return the rows of an answer that is whole already.

    Parameters
    ----------
    answer : Answer
        With a table.

    Returns
    -------
    Rows
        The same rows.
    """
    table = answer.table
    assert table is not None  # noqa: S101  (the operation answers with records)
    batches = table.to_batches(max_chunksize=BATCH_ROWS)
    return Rows(table.schema, batches, table.num_rows, answer.total, answer.offset, answer.limit)


def of_search(store: Store, request: SearchInteractions) -> Rows:
    """Begin a search whose rows are read while they are sent (G-101).

    Parameters
    ----------
    store : Store
        Where the interactions are.
    request : SearchInteractions
        What is asked for.

    Returns
    -------
    Rows
        To be closed. Rows and total are from one snapshot (G-104). The type of an interaction is there in
        any case, since offline ones are written without some properties.

    Raises
    ------
    ServiceFailure
        If the database failed.
    """
    columns = _columns(request)
    hidden = frozenset({"type"} - set(columns))
    names = [*columns, *hidden]
    with ExitStack() as stack:
        backend = stack.enter_context(store.read())
        found = select(backend, request)
        total = found.count().to_pyarrow().as_py()
        page = found.order_by(ordering(found, request.sort or _NEWEST_FIRST)).select(names)
        page = page.limit(request.limit, offset=request.offset)
        target = pa.schema([schema.INTERACTION.field(name) for name in names])
        # Not `to_pyarrow_batches` of Ibis 12: it calls what DuckDB 1.5 warns of.
        reader = backend.raw_sql(backend.compile(page)).to_arrow_reader(BATCH_ROWS)
        batches = (batch.cast(target) for batch in reader)
        left = max(total - request.offset, 0)
        return Rows(
            target,
            batches,
            count=left if request.limit is None else min(left, request.limit),
            total=total,
            offset=request.offset,
            limit=request.limit,
            hidden=hidden,
            close=stack.pop_all().close,
        )


def _columns(request: SearchInteractions) -> list[str]:
    """Return the columns asked for in their order, ``_id`` first (G-058, G-059)."""
    names = schema.INTERACTION.names
    if request.projection is None:
        return [name for name in names if name not in schema.ON_REQUEST]
    asked = [column for name in request.projection for column in schema.leaves(schema.INTERACTION, name)]
    return list(dict.fromkeys(["_id", *asked]))
