"""Read successful responses as answers."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.contract import Answer
from attrib_ds.contract.build import columns
from attrib_ds.contract.json_values import shown
from attrib_ds.errors import InvalidRequest, ServiceFailure
from attrib_ds.json_numbers import whole
from attrib_ds.records.json_pages import read_page
from attrib_ds.records.json_records import decode, from_json
from attrib_ds.schema import RESOURCES
from attrib_ds.transports.http.arrow_spool import ArrowSpool
from attrib_ds.transports.http.arrow_stream import open_stream
from attrib_ds.transports.http.bodies import LARGE, MEDIUM, Unreadable
from attrib_ds.transports.http.json_stream import read_records
from attrib_ds.transports.http.plain_answers import read_value
from attrib_ds.transports.http.retrying import AttemptFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from attrib_ds.contract import Operation, Request
    from attrib_ds.transports.http.arrow_stream import ArrowStream
    from attrib_ds.transports.http.session import Response

T = TypeVar("T")

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
#: JSON bodies of up to this many bytes are parsed as a whole.
_MOST_BYTES_AT_ONCE: Final = 2**26
#: Maximum number of records of an answer that states no limit.
_MOST_RECORDS: Final = 2**20
#: Maximum number of bytes that the columns of a page may take in Arrow, by the number of its braces.
_MOST_CELL_BYTES: Final = 2**30
_CELL_BYTES: Final = 8
#: Counters are 64-bit integers.
_COUNTER_END: Final = 2**63
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
        return Answer(value=read_value(response, operation, request))

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
        stream = open_stream(response.pieces(LARGE))
        total = stream.counters.get("total")
        if total is not None and total - page.offset > page.limit:
            return None
        table = pa.concat_tables([expected.empty_table(), *_tables(stream, expected, most=page.limit)])
        check_keys(table)
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
    page: Any = request if kind == "page" else None
    most = _MOST_RECORDS if page is None or page.limit is None else page.limit
    if response.media == ARROW:
        stream = open_stream(response.pieces(LARGE))
        table = pa.concat_tables([expected.empty_table(), *_tables(stream, expected, most=most)])
        counters, is_json_object = stream.counters, False
    elif kind == "record":
        table, counters, is_json_object = _one(response, expected), {}, True
    else:
        head, rest = _beginning(response.pieces(LARGE))
        is_json_object = head.lstrip()[:1] != b"["
        record_schema = RESOURCES[str(operation.answer.resource)]
        table, counters = _json(head, rest, expected, record_schema, most=most)
    check_keys(table)
    if kind == "record":
        if table.num_rows != 1:
            raise ServiceFailure(f"the response has {table.num_rows} records; expected one")
        # 200 instead of 201: the record existed already (G-143).
        may_be_present = operation.success == 201 and 200 in operation.also
        return Answer.of(table, value=response.status == 201 if may_be_present else None)
    if page is None:
        return Answer.of(table)
    if is_json_object and counters.get("total") is None:
        # Anything with an empty "data" would pass for an empty page.
        raise ServiceFailure("the response has no total; expected a page of records with count and total")
    total = _check_counters(counters, page, table.num_rows)
    return Answer.of(table, total=total, offset=page.offset, limit=page.limit)


def check_keys(table: pa.Table) -> None:
    """Raise :exc:`ServiceFailure` if records lack their id, or if two have the same.

    Examples
    --------
    >>> check_keys(pa.table({"_id": ["a", "b"]}))
    """
    name = next((name for name in ("_id", "id") if name in table.column_names), None)
    if name is None:
        return
    keys = table[name]
    if keys.null_count:
        raise ServiceFailure(f"the response has {keys.null_count} of {len(keys)} records without {name}")
    if pc.count_distinct(keys).as_py() < len(keys):
        counts = keys.value_counts()
        repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py()
        raise ServiceFailure(f"the response has {name} {shown(repeated)} more than once")


def _counter(counters: Mapping[str, Any], name: str) -> int | None:
    value = counters.get(name)
    number = whole(value)
    if value is not None and (number is None or abs(number) >= _COUNTER_END):
        raise ServiceFailure(f"the response has the {name} {shown(value)}; expected a whole number")
    return number


def _check_counters(counters: Mapping[str, Any], page: Any, rows: int) -> int | None:
    """Return the total; raise if the counters of a page contradict its records or its request."""
    count, offset, total = (_counter(counters, name) for name in ("count", "offset", "total"))
    if count is not None and count != rows:
        raise ServiceFailure(f"the response has {rows} records, but its count is {count}")
    if rows and offset is not None and offset != page.offset:
        raise ServiceFailure(f"the response begins at offset {offset}, but {page.offset} was requested")
    if total is not None and (total < 0 or (rows and total < page.offset + rows)):
        raise ServiceFailure(
            f"the response has {rows} records from offset {page.offset} on, but its total is {total}"
        )
    return total


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

    def read() -> Answer:
        stream = open_stream(response.pieces(None))
        spool = ArrowSpool(expected)
        total = stream.counters.get("total")

        def tables() -> Iterator[pa.Table]:
            for table in _tables(stream, expected, most=page.limit):
                check_keys(table)
                yield table
                advance(table.num_rows, total)

        rows = spool.fill(tables())
        return Answer(expected, spool.tables(), rows, total, page.offset, page.limit, close=spool.close)

    return _readable(response, operation, read)


def _tables(stream: ArrowStream, expected: pa.Schema, *, most: int | None) -> Iterator[pa.Table]:
    """Yield the tables of an Arrow stream as they arrive; at most ``most`` rows in all."""
    rows = 0
    total = stream.counters.get("total")
    if total is not None:
        left = max(total - stream.counters.get("offset", 0), 0)
        promised = min(left, stream.counters.get("limit", left))
        most = promised if most is None else min(promised, most)
    for batch in stream.batches:
        rows += batch.num_rows
        if most is not None and rows > most:
            raise ServiceFailure(f"the response has more than the {most} records that were requested")
        yield _as_expected(batch, expected)
    if total is not None and rows != promised:
        # A stream truncated between two batches looks complete.
        raise Unreadable("it is truncated")


def _as_expected(batch: pa.RecordBatch, expected: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches([batch])
    arrays = []
    for field in expected:
        array = (
            table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        )
        try:
            # Arrow would make text of numbers, and instants of text.
            if not pa.types.is_null(array.type) and _family(array.type) != _family(field.type):
                raise pa.ArrowInvalid
            arrays.append(array.cast(field.type))
        except pa.ArrowException:
            raise ServiceFailure(
                f"the response has {field.name} as {array.type}; expected {field.type}"
            ) from None
    return pa.table(arrays, schema=expected)


def _family(kind: pa.DataType) -> str:
    """Return what values of an Arrow type are, whatever their width."""
    if pa.types.is_list(kind):
        return f"list of {_family(kind.value_type)}"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "instant" if pa.types.is_timestamp(kind) else str(kind)


def _beginning(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the whole of a short body, or the first part of a long one with the rest."""
    head = bytearray()
    for piece in pieces:
        head += piece
        if len(head) >= _MOST_BYTES_AT_ONCE:
            break
    return bytes(head), pieces


def _json(
    content: bytes, rest: Iterator[bytes], expected: pa.Schema, record_schema: pa.Schema, *, most: int
) -> tuple[pa.Table, dict[str, Any]]:
    """Parse a short body as a whole and a long one as a stream, to bound memory."""
    # Records such as {} take a hundred times their bytes in Arrow; their number is checked on the way.
    takes_more = content.count(b"{") * len(expected) * _CELL_BYTES > _MOST_CELL_BYTES
    if len(content) >= _MOST_BYTES_AT_ONCE or takes_more:
        return read_records(itertools.chain([content], rest), expected, most=most)
    with suppress(ServiceFailure):
        is_array = content.lstrip()[:1] == b"["
        page = read_page(content, expected, kind="array" if is_array else "page", known=record_schema)
        table = page.table
        if table.num_rows > most:
            raise Unreadable(f"it has more than the {most} records that were requested")
        for field, texts in zip(page.unknown.schema, page.unknown.columns, strict=True):
            table = table.append_column(field, texts)
        return table, {"total": page.total, "count": page.count, "offset": page.offset}
    # The slow parser finds out what is wrong, and whether the body is merely truncated.
    return read_records([content], expected, most=most)


def _one(response: Response, expected: pa.Schema) -> pa.Table:
    record = decode(response.content(MEDIUM))
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
