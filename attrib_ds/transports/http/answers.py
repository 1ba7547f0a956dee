"""Reads what the service answers."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds.contract import Answer
from attrib_ds.contract.columns import columns
from attrib_ds.errors import InvalidRequest, ServiceFailure
from attrib_ds.records.json_pages import read_page
from attrib_ds.records.json_records import decode, from_json
from attrib_ds.schema import RESOURCES
from attrib_ds.transports.http.arrow_spool import ArrowSpool
from attrib_ds.transports.http.json_stream import Unreadable, read_records
from attrib_ds.transports.http.retrying import Failed
from attrib_ds.transports.http.values import read_value, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from attrib_ds.contract import Operation, Request
    from attrib_ds.transports.http.session import Response

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
#: Bytes of JSON that are read at once.
_AT_ONCE: Final = 2**26
#: Arrow where the service offers it, otherwise JSON.
EITHER: Final = f"{ARROW}, {JSON};q=0.9"


def read_answer(response: Response, operation: Operation, request: Request) -> Answer:
    """Read an answer of success.

    Parameters
    ----------
    response : Response
        Of which the body is not read.
    operation : Operation
        What was asked.
    request : Request
        With what.

    Returns
    -------
    Answer
        As an embedded project would give it.

    Raises
    ------
    Failed
        If it is not the answer of this operation.
    """
    try:
        if operation.answer.resource is not None:
            return _records(response, operation, request)
        return Answer(value=read_value(response, operation))
    except ServiceFailure as failure:
        problem, is_broken = failure.message, False
    except (Unreadable, InvalidRequest, pa.ArrowInvalid) as error:
        # What broke off may come whole the next time; a page of another kind comes again.
        problem, is_broken = _described(response, error), "html" not in response.media
    raise Failed(ServiceFailure(f"{operation.name}: {problem}"), "if safe" if is_broken else "never")


def _records(response: Response, operation: Operation, request: Request) -> Answer:
    kind, expected = operation.answer.kind, columns(operation, request)
    if response.media == ARROW:
        table, told = _arrow(response, expected)
    elif kind == "record":
        table, told = _one(response, expected), {}
    else:
        table, told = _json(response, expected, RESOURCES[str(operation.answer.resource)])
        count = whole(told.get("count"))
        if count is not None and count != table.num_rows:
            raise ServiceFailure(f"the service answered {table.num_rows} records and says they are {count}")
    if kind == "record":
        if table.num_rows != 1:
            raise ServiceFailure(f"the service answered {table.num_rows} records where one was asked for")
        # 200 in place of 201: it was there before, nothing was created (G-143).
        may_be_present = operation.success == 201 and 200 in operation.also
        return Answer(table=table, value=response.status == 201 if may_be_present else None)
    if kind == "array":
        return Answer(table=table)
    asked: Any = request
    return Answer(table=table, total=whole(told.get("total")), offset=asked.offset, limit=asked.limit)


def _arrow(response: Response, expected: pa.Schema) -> tuple[pa.Table, dict[str, Any]]:
    told: dict[str, Any] = {}
    tables = list(_arrow_tables(response, expected, told))
    return pa.concat_tables([expected.empty_table(), *tables]), told


def spool_answer(
    response: Response, operation: Operation, request: Request, *, advance: Callable[[int], None]
) -> ArrowSpool | None:
    """Read a long answer of success to the disk, which is whole then.

    Parameters
    ----------
    response : Response
        Of which the body is not read.
    operation : Operation
        What was asked.
    request : Request
        With what.
    advance : callable
        Takes how many more rows have come.

    Returns
    -------
    ArrowSpool, optional
        To be closed; None if the answer is no Arrow.

    Raises
    ------
    Failed
        If it is not the answer of this operation, or breaks off.
    """
    if response.media != ARROW:
        return None
    expected = columns(operation, request)

    def tables() -> Iterator[pa.Table]:
        for table in _arrow_tables(response, expected, {}):
            yield table
            advance(table.num_rows)

    spool = ArrowSpool(expected)
    try:
        spool.fill(tables())
    except ServiceFailure as failure:
        problem, is_broken = failure.message, False
    except (Unreadable, pa.ArrowInvalid) as error:
        problem, is_broken = _described(response, error), True
    else:
        return spool
    raise Failed(ServiceFailure(f"{operation.name}: {problem}"), "if safe" if is_broken else "never")


def _arrow_tables(response: Response, expected: pa.Schema, told: dict[str, Any]) -> Iterator[pa.Table]:
    """Read tables as they come; what the answer tells beside them is put into ``told``."""
    rows = 0
    try:
        with pa.ipc.open_stream(pa.PythonFile(response.file(), mode="r")) as reader:
            numbers = (reader.schema.metadata or {}).items()
            told |= {name.decode(): int(number) for name, number in numbers if number.isdigit()}
            for batch in reader:
                rows += batch.num_rows
                yield _as_expected(batch, expected)
    except OSError as error:
        # Of Arrow itself; those of the connection are of kinds of their own.
        if type(error) is not OSError:
            raise
        raise Unreadable(str(error)) from None
    if "total" in told:
        # A stream that ends between two batches looks whole.
        left = max(told["total"] - told.get("offset", 0), 0)
        if rows != min(left, told.get("limit", left)):
            raise Unreadable("it breaks off")


def _as_expected(batch: pa.RecordBatch, expected: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches([batch])
    arrays = []
    for field in expected:
        held = table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        try:
            arrays.append(held.cast(field.type))
        except pa.ArrowException:
            raise ServiceFailure(
                f"the service answered {field.name} as {held.type}, not as {field.type}"
            ) from None
    return pa.table(arrays, schema=expected)


def _json(response: Response, expected: pa.Schema, known: pa.Schema) -> tuple[pa.Table, dict[str, Any]]:
    """Read records at once if they are few; of many the text is never held as a whole."""
    chunks = response.chunks()
    begun: list[bytes] = []
    while sum(map(len, begun)) < _AT_ONCE:
        chunk = next(chunks, None)
        if chunk is None:
            break
        begun.append(chunk)
    else:
        return read_records(itertools.chain(begun, chunks), expected)
    content = b"".join(begun)
    with suppress(ServiceFailure):
        is_array = content.lstrip()[:1] == b"["
        page = read_page(content, expected, kind="array" if is_array else "page", known=known)
        table = page.table
        for field, texts in zip(page.unknown.schema, page.unknown.columns, strict=True):
            table = table.append_column(field, texts)
        return table, {"total": page.total, "count": page.count}
    # What is wrong with it is told by the slow reader, which also knows whether it merely breaks off.
    return read_records([content], expected)


def _one(response: Response, expected: pa.Schema) -> pa.Table:
    record = decode(response.content())
    if not isinstance(record, dict):
        raise Unreadable("it is no object")
    return from_json([record], expected)


def _described(response: Response, error: Exception) -> str:
    if response.media == "text/html":
        return "the address answers with a web page; check url="
    media = response.media or "an answer without a content type"
    problem = (
        error.message.partition(": is not JSON: ")[2] if isinstance(error, InvalidRequest) else str(error)
    )
    return f"the service answered {media} that cannot be read: {problem[:200]}"
