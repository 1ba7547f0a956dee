"""Build the HTTP response for the answer of an operation: JSON, Arrow or a file."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
from starlette.datastructures import Headers
from starlette.responses import Response

from attrib_ds.contract import OPERATIONS, Answer, Answering, Operation
from attrib_ds.contract.identifiers import slug_of
from attrib_ds.contract.json_values import encode
from attrib_ds.errors import AttribError
from attrib_ds.json_numbers import load_exact
from attrib_ds.records.json_records import to_json
from attrib_ds.service.http import errors
from attrib_ds.service.http.reads import Read, StreamedResponse
from attrib_ds.service.store.connections import BATCH_ROWS

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
#: Member of the body that holds the value, by kind of answer; others are the body.
_MEMBERS: Final = {"id": "id", "modified": "modifiedCount", "errors": "errors"}
_FILES: Final = {
    "csv": "text/csv; charset=utf-8; header=present",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def with_records(operation: Operation, answer: Answer, *, accept: str, read: Read) -> Response:
    """Build a response of records, streamed if there are many.

    Parameters
    ----------
    operation : Operation
        The operation.
    answer : Answer
        The records; closed here or at the end of the response. Its value is False if the record that was to
        be created existed already.
    accept : str
        ``Accept`` header: Arrow if it is preferred, otherwise JSON.
    read : Read
        The request.

    Returns
    -------
    Response
        JSON or Arrow.
    """
    is_arrow = errors.prefers(accept, ARROW)
    chunks = arrow_chunks(answer) if is_arrow else json_chunks(answer, operation.answer)
    headers = {"Content-Type": ARROW if is_arrow else JSON, "Vary": "Accept"}
    if answer.value is False:
        headers["X-Existing"] = "true"
    if (answer.count or 0) > BATCH_ROWS:
        return _streamed(chunks, answer.close, read, headers)
    with closing(answer):
        content = b"".join(chunks)
    return Response(content, 200 if answer.value is False else operation.success, headers)


def with_value(operation: Operation, arguments: Any, answer: Answer, *, read: Read | None = None) -> Response:
    """Build a response of a plain value.

    Parameters
    ----------
    operation : Operation
        The operation.
    arguments : Request
        Its request, which names a file to download.
    answer : Answer
        The value.
    read : Read, optional
        The request, to stream a file; by default the file is read as a whole.

    Returns
    -------
    Response
        JSON or a file.
    """
    value: Any = answer.value
    kind = operation.answer.kind
    if kind == "file":
        form = getattr(arguments, "outputFormatConfig", None)
        name = f"{arguments.filename}.{form.type}" if form else f"{arguments.projectId}.duckdb"
        media = _FILES[form.type] if form else "application/octet-stream"
        headers = {"Content-Type": media, "Content-Disposition": attachment(name)}
        if read is not None:
            return _streamed(value.pieces, value.close, read, headers)
        with closing(value):
            return Response(b"".join(value.pieces), headers=headers)
    if kind == "outcomes":
        value = [{"id": each} if isinstance(each, str) else {"error": _error(each)} for each in value]
    body = {_MEMBERS[kind]: value} if kind in _MEMBERS else value
    if operation.name == "create_campaign" and slug_of(arguments.campaignSlug) != arguments.campaignSlug:
        body = {**body, "campaignSlug": slug_of(arguments.campaignSlug)}
    return Response(encode(body), operation.success, media_type=JSON)


def _streamed(
    chunks: Iterator[bytes], close: Any, read: Read, headers: Mapping[str, str]
) -> StreamedResponse:
    try:
        # Before the first chunk, a failure is still an error response.
        first = next(chunks, b"")
    except BaseException:
        close()
        raise
    return StreamedResponse(first, chunks, read=read, close=close, headers=headers)


def _error(error: Exception) -> dict[str, Any]:
    """Return the error body of one event of a batch."""
    if isinstance(error, AttribError):
        error = errors.with_wire_names(error, OPERATIONS["create_event"])
    return errors.body(errors.to_http_error(error))


def attachment(filename: str) -> str:
    r"""Return the Content-Disposition header of a file (RFC 6266).

    Examples
    --------
    >>> print(attachment('çay.csv'))
    attachment; filename="_ay.csv"; filename*=UTF-8''%C3%A7ay.csv
    """
    plain = "".join(char if " " <= char <= "~" and char not in '"\\%' else "_" for char in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"


def json_chunks(answer: Answer, shape: Answering) -> Iterator[bytes]:
    """Serialize records as JSON according to the specification.

    Parameters
    ----------
    answer : Answer
        The records; the caller closes it.
    shape : Answering
        Kind of the answer (page, array or record) and its resource.

    Yields
    ------
    bytes
        Chunks of one JSON text.
    """
    opening, end = _frame(answer, shape)
    before = opening
    for table in answer.tables:
        hidden = set(table.column_names) - set(answer.columns.names)
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            if batch.num_rows:
                records = to_json(batch, resource=shape.resource, hidden=hidden)
                yield f"{before}{','.join(records)}".encode()
                before = ","
    yield (end if before == "," else opening + end).encode()


def _frame(answer: Answer, shape: Answering) -> tuple[str, str]:
    """Return the JSON before and after the records."""
    if shape.kind == "record":
        return "", ""
    if shape.kind == "array":
        return "[", "]"
    counts = {"count": answer.count, "total": answer.total}
    if shape.echo:
        counts = {"offset": answer.offset, "limit": answer.limit, **counts}
    return f'{json.dumps(counts, separators=(",", ":"))[:-1]},"data":[', "]}"


def arrow_chunks(answer: Answer) -> Iterator[bytes]:
    """Serialize records as an Arrow IPC stream of flat columns.

    Parameters
    ----------
    answer : Answer
        The records; the caller closes it.

    Yields
    ------
    bytes
        Chunks of one stream. The schema metadata of a page holds ``total``, ``offset`` and ``limit`` in
        decimal digits.
    """
    page = {"total": answer.total, "offset": answer.offset, "limit": answer.limit}
    has_counters = answer.total is not None
    metadata = {name: str(number) for name, number in page.items() if has_counters and number is not None}
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, answer.columns.with_metadata(metadata)) as writer:
        for table in answer:
            writer.write_table(table.replace_schema_metadata(metadata), max_chunksize=BATCH_ROWS)
            yield _drain(sink)
    yield _drain(sink)


def _drain(sink: io.BytesIO) -> bytes:
    chunk = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return chunk


def wants_text(headers: Headers) -> bool:
    """Return whether a request has the header ``X-Trashed-Field: string``.

    The errors of trashed events then name their fields by storage key alone, as a later version will.
    """
    return headers.get("x-trashed-field", "").strip().lower() == "string"


def with_text_fields(operation: Operation, answer: Answer) -> Answer:
    """Return an answer whose errors name their fields by storage key."""
    if operation.answer.kind == "errors":
        value: Any = answer.value
        return replace(answer, value=text_fields(value))
    if operation.answer.resource != "TrashedEvent":
        return answer
    return replace(answer, tables=(_with_text_fields(table) for table in answer.tables))


def with_names_of_client(error: AttribError, operation: Operation, headers: Headers) -> AttribError:
    """Return an error that names arguments as the API does, and fields as the request asks for."""
    if error.details and wants_text(headers):
        error.details = text_fields(error.details)
    return errors.with_wire_names(error, operation)


def text_fields(errors: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return errors with the storage key in the place of the field.

    Examples
    --------
    >>> text_fields([{"type": "missing-field", "field": {"storageKey": "email"}, "value": None}])
    [{'type': 'missing-field', 'field': 'email', 'value': None}]
    """
    fields = [error.get("field") for error in errors]
    texts = [field["storageKey"] if isinstance(field, Mapping) else field for field in fields]
    return [{**error, "field": text} for error, text in zip(errors, texts, strict=True)]


def _with_text_fields(table: pa.Table) -> pa.Table:
    texts = [encode(text_fields(load_exact(text))) for text in table["errors"].to_pylist()]
    position = table.schema.get_field_index("errors")
    return table.set_column(position, table.schema.field("errors"), pa.array(texts, pa.string()))
