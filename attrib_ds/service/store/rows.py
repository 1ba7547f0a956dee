"""The rows of an answer, handed on batch by batch so that never all of them are held at once."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.contract import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

#: Rows of a batch: what is held of an answer at one time.
BATCH_ROWS: Final = 2_048


def _nothing() -> None:
    """Let go of nothing: a table in memory holds no reader."""


@dataclass(frozen=True)
class Rows:
    """Rows on their way to whoever asked.

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
    value : object, optional
        What the answer says beside its records.
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
    value: object = None
    close: Callable[[], None] = field(default=_nothing)

    def answer(self) -> Answer:
        """Read all rows and let go of what they are read from."""
        try:
            table = pa.Table.from_batches(self.batches, self.columns)
        finally:
            self.close()
        shown = [name for name in self.columns.names if name not in self.hidden]
        return Answer(table=table.select(shown), total=self.total, offset=self.offset, limit=self.limit)


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
    return Rows(
        table.schema,
        batches,
        table.num_rows,
        answer.total,
        answer.offset,
        answer.limit,
        value=answer.value,
    )


def open_page(
    snapshot: AbstractContextManager[Backend],
    find: Callable[[Backend], tuple[ir.Table, int]],
    columns: pa.Schema,
    *,
    offset: int,
    limit: int | None,
    hidden: frozenset[str] = frozenset(),
) -> Rows:
    """Begin to read a page; its rows and their total are from one snapshot (G-104).

    Parameters
    ----------
    snapshot : context manager
        From :meth:`Store.read`, not entered; left when the rows are closed.
    find : callable
        Takes the backend; returns all rows in their order, with the columns below, and how many there are.
    columns : pyarrow.Schema
        Of the rows.
    offset, limit : int
        As in the request.
    hidden : frozenset of str, optional
        Columns that only the writing of JSON needs.

    Returns
    -------
    Rows
        To be closed.

    Raises
    ------
    ServiceFailure
        If the database failed.
    """
    with ExitStack() as stack:
        backend = stack.enter_context(snapshot)
        found, total = find(backend)
        # Not `to_pyarrow_batches` of Ibis 12: it calls what DuckDB 1.5 warns of.
        query = backend.compile(found.limit(limit, offset=offset))
        reader = backend.raw_sql(query).to_arrow_reader(BATCH_ROWS)
        left = max(total - offset, 0)
        return Rows(
            columns,
            (batch.cast(columns) for batch in reader),
            count=left if limit is None else min(left, limit),
            total=total,
            offset=offset,
            limit=limit,
            hidden=hidden,
            close=stack.pop_all().close,
        )
