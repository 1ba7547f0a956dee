"""Read successful responses as answers."""

from __future__ import annotations

import itertools
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from attrib_ds.contract import Answer
from attrib_ds.contract.columns import columns
from attrib_ds.errors import InvalidRequest, ServiceFailure
from attrib_ds.json_numbers import whole
from attrib_ds.records.json_pages import read_page
from attrib_ds.records.json_records import decode, from_json
from attrib_ds.schema import RESOURCES
from attrib_ds.transports.http.arrow_spool import ArrowSpool
from attrib_ds.transports.http.json_stream import Unreadable, read_records
from attrib_ds.transports.http.plain_answers import read_value
from attrib_ds.transports.http.retrying import AttemptFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from attrib_ds.contract import Operation, Request
    from attrib_ds.transports.http.session import Response

T = TypeVar("T")

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
#: JSON bodies of up to this many bytes are parsed as a whole.
_MOST_BYTES_AT_ONCE: Final = 2**26
#: Arrow if the service offers it, otherwise JSON.
EITHER: Final = f"{ARROW}, {JSON};q=0.9"


def read_answer(response: Response, operation: Operation, request: Request) -> Answer:
    """Read a successful response.

    Parameters
    ----------
    response : Response
        Its body has not been read.
    operation : Operation
        The operation.
    request : Request
        Request of the operation.

    Returns
    -------
    Answer
        The same as from an embedded project.

    Raises
    ------
    AttemptFailed
        If the body is not an answer of this operation.
    """

    def read() -> Answer:
        if operation.answer.resource is not None:
            return _records(response, operation, request)
        return Answer(value=read_value(response, operation))

    return _readable(response, operation, read)


def read_first_page(response: Response, operation: Operation, request: Request) -> Answer | None:
    """Read the first page of a search, unless it is in Arrow and more records follow.

    In that case its rows stay unread, since all records are then requested in one Arrow response.

    Parameters
    ----------
    response, operation, request
        As for :func:`read_answer`, which raises the same errors.

    Returns
    -------
    Answer, optional
        None if more records follow in Arrow.
    """
    if response.media != ARROW:
        return read_answer(response, operation, request)
    page: Any = request

    def read() -> Answer | None:
        expected = columns(operation, request)
        with _arrow_reader(response) as (reader, counters):
            total = counters.get("total")
            if total is not None and total - page.offset > page.limit:
                return None
            table = pa.concat_tables([expected.empty_table(), *_tables(reader, counters, expected)])
        return Answer.of(table, total=total, offset=page.offset, limit=page.limit)

    return _readable(response, operation, read)


def _readable(response: Response, operation: Operation, read: Callable[[], T]) -> T:
    """Return what ``read`` returns; raise :exc:`AttemptFailed` if the body is not a valid answer."""
    try:
        return read()
    except ServiceFailure as failure:
        problem, is_transient = failure.message, False
    except (Unreadable, InvalidRequest, pa.ArrowInvalid) as error:
        # A truncated response may be complete the next time; a web page stays a web page.
        problem, is_transient = _describe(response, error), "html" not in response.media
    raise AttemptFailed(
        ServiceFailure(f"{operation.name}: {problem}"), "if safe" if is_transient else "never"
    )


def _records(response: Response, operation: Operation, request: Request) -> Answer:
    kind, expected = operation.answer.kind, columns(operation, request)
    if response.media == ARROW:
        table, counters = _arrow(response, expected)
    elif kind == "record":
        table, counters = _one(response, expected), {}
    else:
        table, counters = _json(response, expected, RESOURCES[str(operation.answer.resource)])
        count = whole(counters.get("count"))
        if count is not None and count != table.num_rows:
            raise ServiceFailure(f"the response has {table.num_rows} records, but its count is {count}")
    if kind == "record":
        if table.num_rows != 1:
            raise ServiceFailure(f"the response has {table.num_rows} records; expected one")
        # 200 instead of 201: the record existed already (G-143).
        may_be_present = operation.success == 201 and 200 in operation.also
        return Answer.of(table, value=response.status == 201 if may_be_present else None)
    if kind == "array":
        return Answer.of(table)
    page: Any = request
    return Answer.of(table, total=whole(counters.get("total")), offset=page.offset, limit=page.limit)


def _arrow(response: Response, expected: pa.Schema) -> tuple[pa.Table, dict[str, Any]]:
    with _arrow_reader(response) as (reader, counters):
        table = pa.concat_tables([expected.empty_table(), *_tables(reader, counters, expected)])
    return table, counters


def spool_answer(
    response: Response,
    operation: Operation,
    request: Request,
    *,
    advance: Callable[[int, int | None], None],
) -> Answer | None:
    """Read a long Arrow response to disk.

    Parameters
    ----------
    response, operation, request
        As for :func:`read_answer`, which raises the same errors.
    advance : callable
        Called with the number of new rows and the total.

    Returns
    -------
    Answer, optional
        To be closed by the caller; its tables are on disk. None if the response is not Arrow.
    """
    if response.media != ARROW:
        return None
    page: Any = request
    expected = columns(operation, request)
    spool = ArrowSpool(expected)

    def read() -> Answer:
        with _arrow_reader(response) as (reader, counters):
            total = counters.get("total")

            def tables() -> Iterator[pa.Table]:
                for table in _tables(reader, counters, expected):
                    yield table
                    advance(table.num_rows, total)

            rows = spool.fill(tables())
        return Answer(expected, spool.tables(), rows, total, page.offset, page.limit, close=spool.close)

    return _readable(response, operation, read)


@contextmanager
def _arrow_reader(response: Response) -> Iterator[tuple[pa.RecordBatchStreamReader, dict[str, int]]]:
    """Open an Arrow stream; yield its reader and the counters in its schema metadata."""
    try:
        with pa.ipc.open_stream(pa.PythonFile(response.file(), mode="r")) as reader:
            metadata = (reader.schema.metadata or {}).items()
            yield (
                reader,
                {
                    name.decode(): int(number)
                    for name, number in metadata
                    if len(number) < 20 and number.isdigit()
                },
            )
    except OSError as error:
        # Arrow raises OSError itself; connection errors are subclasses.
        if type(error) is not OSError:
            raise
        raise Unreadable(str(error)) from None


def _tables(
    reader: pa.RecordBatchStreamReader, counters: Mapping[str, int], expected: pa.Schema
) -> Iterator[pa.Table]:
    """Yield the tables of an Arrow stream as they arrive."""
    rows = 0
    for batch in reader:
        rows += batch.num_rows
        yield _as_expected(batch, expected)
    if "total" in counters:
        # A stream truncated between two batches looks complete.
        left = max(counters["total"] - counters.get("offset", 0), 0)
        if rows != min(left, counters.get("limit", left)):
            raise Unreadable("it is truncated")


def _as_expected(batch: pa.RecordBatch, expected: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches([batch])
    arrays = []
    for field in expected:
        array = (
            table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        )
        try:
            arrays.append(array.cast(field.type))
        except pa.ArrowException:
            raise ServiceFailure(
                f"the response has {field.name} as {array.type}; expected {field.type}"
            ) from None
    return pa.table(arrays, schema=expected)


def _json(
    response: Response, expected: pa.Schema, record_schema: pa.Schema
) -> tuple[pa.Table, dict[str, Any]]:
    """Parse a short body as a whole and a long one as a stream, to bound memory."""
    chunks = response.chunks()
    head: list[bytes] = []
    while sum(map(len, head)) < _MOST_BYTES_AT_ONCE:
        chunk = next(chunks, None)
        if chunk is None:
            break
        head.append(chunk)
    else:
        return read_records(itertools.chain(head, chunks), expected)
    content = b"".join(head)
    with suppress(ServiceFailure):
        is_array = content.lstrip()[:1] == b"["
        page = read_page(content, expected, kind="array" if is_array else "page", known=record_schema)
        table = page.table
        for field, texts in zip(page.unknown.schema, page.unknown.columns, strict=True):
            table = table.append_column(field, texts)
        return table, {"total": page.total, "count": page.count}
    # The slow parser finds out what is wrong, and whether the body is merely truncated.
    return read_records([content], expected)


def _one(response: Response, expected: pa.Schema) -> pa.Table:
    record = decode(response.content())
    if not isinstance(record, dict):
        raise Unreadable("it is not an object")
    return from_json([record], expected)


def _describe(response: Response, error: Exception) -> str:
    if response.media == "text/html":
        return "the response is a web page; check url="
    media = response.media or "a response without a content type"
    problem = (
        error.message.partition(": is not JSON: ")[2] if isinstance(error, InvalidRequest) else str(error)
    )
    return f"the service sent {media} that cannot be read: {problem[:200]}"
