"""Build the HTTP response for the answer of an operation."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.responses import Response

from attrib_ds.contract import OPERATIONS
from attrib_ds.contract.json_values import encode
from attrib_ds.errors import AttribError
from attrib_ds.service.http import error_responses, serialization
from attrib_ds.service.http.negotiation import prefers
from attrib_ds.service.http.streaming import StreamedResponse
from attrib_ds.service.store.cursors import BATCH_ROWS

if TYPE_CHECKING:
    from attrib_ds.contract import Answer, File, Operation
    from attrib_ds.service.http.reads import Read

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
        The records; closed here or at the end of the response.
    accept : str
        ``Accept`` header: Arrow if it is preferred, otherwise JSON.
    read : Read
        The request.

    Returns
    -------
    Response
        JSON or Arrow.
    """
    media, chunks = serialization.JSON, serialization.json_chunks(answer, operation.answer)
    if prefers(accept, serialization.ARROW):
        media, chunks = serialization.ARROW, serialization.arrow_chunks(answer)
    headers = {"Content-Type": media, "Vary": "Accept"}
    try:
        if (answer.count or 0) > BATCH_ROWS:
            first = next(chunks)
            return StreamedResponse(first, chunks, read=read, close=answer.close, headers=headers)
        content = b"".join(chunks)
    except BaseException:
        answer.close()
        raise
    answer.close()
    return Response(content, operation.success, headers)


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
    if operation.answer.kind == "file":
        form = getattr(arguments, "outputFormatConfig", None)
        name = f"{arguments.filename}.{form.type}" if form else f"{arguments.projectId}.duckdb"
        media = _FILES[form.type] if form else "application/octet-stream"
        headers = {"Content-Type": media, "Content-Disposition": attachment(name)}
        return _with_file(value, headers, read)
    member = _MEMBERS.get(operation.answer.kind)
    body = {member: value} if member else value
    if operation.answer.kind == "outcomes":
        body = [
            {"id": outcome} if isinstance(outcome, str) else {"error": _error(outcome)} for outcome in value
        ]
    return Response(encode(body), operation.success, media_type=serialization.JSON)


def _with_file(file: File, headers: dict[str, str], read: Read | None) -> Response:
    if read is None:
        with closing(file):
            return Response(b"".join(file.pieces), headers=headers)
    try:
        # Before the first chunk, a failure is still an error response.
        first = next(file.pieces, b"")
    except BaseException:
        file.close()
        raise
    return StreamedResponse(first, file.pieces, read=read, close=file.close, headers=headers)


def _error(error: Exception) -> dict[str, Any]:
    """Return the error body of one event of a batch."""
    if isinstance(error, AttribError):
        error = error_responses.with_wire_names(error, OPERATIONS["create_event"])
    return error_responses.body(error_responses.to_http_error(error))


def attachment(filename: str) -> str:
    r"""Return the Content-Disposition header of a file (RFC 6266).

    Examples
    --------
    >>> print(attachment('çay.csv'))
    attachment; filename="_ay.csv"; filename*=UTF-8''%C3%A7ay.csv
    """
    plain = "".join(char if " " <= char <= "~" and char not in '"\\%' else "_" for char in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
