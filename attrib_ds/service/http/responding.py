"""Turns the answer of an operation into an HTTP response."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.responses import Response

from attrib_ds.contract import OPERATIONS
from attrib_ds.contract.json_text import encode
from attrib_ds.errors import AttribError
from attrib_ds.service.http import failures, writing
from attrib_ds.service.http.accepting import prefers
from attrib_ds.service.http.sending import Streamed
from attrib_ds.service.store.cursors import BATCH_ROWS

if TYPE_CHECKING:
    from attrib_ds.contract import Answer, File, Operation
    from attrib_ds.service.http.workers import Workers

_FILES: Final = {
    "csv": "text/csv; charset=utf-8; header=present",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def with_records(operation: Operation, answer: Answer, *, accept: str, workers: Workers) -> Response:
    """Return a response of records: complete if they are few, otherwise written while it is sent.

    Parameters
    ----------
    operation : Operation
        The operation that answered.
    answer : Answer
        The records; closed here or at the end of the response.
    accept : str
        The header Accept: JSON, or Arrow if that is preferred.
    workers : Workers
        Where the records are written.

    Returns
    -------
    Response
        To be sent.
    """
    media, pieces = writing.JSON, writing.json_pieces(answer, operation.answer)
    if prefers(accept, writing.ARROW):
        media, pieces = writing.ARROW, writing.arrow_pieces(answer)
    headers = {"Content-Type": media, "Vary": "Accept"}
    try:
        if (answer.count or 0) > BATCH_ROWS:
            first = next(pieces)
            return Streamed(first, pieces, workers=workers, close=answer.close, headers=headers)
        content = b"".join(pieces)
    except BaseException:
        answer.close()
        raise
    answer.close()
    return Response(content, operation.success, headers)


def with_value(
    operation: Operation, asked: Any, answer: Answer, *, workers: Workers | None = None
) -> Response:
    """Return a response of a plain value.

    Parameters
    ----------
    operation : Operation
        The operation that answered.
    asked : Request
        Its request, which names the file where that is the answer.
    answer : Answer
        With a value.
    workers : Workers, optional
        Where a file is written while it is sent; by default it is whole before.

    Returns
    -------
    Response
        To be sent.
    """
    value: Any = answer.value
    if operation.answer.kind == "file":
        form = getattr(asked, "outputFormatConfig", None)
        name = f"{asked.filename}.{form.type}" if form else f"{asked.projectId}.duckdb"
        media = _FILES[form.type] if form else "application/octet-stream"
        named = {"Content-Disposition": attachment(name)}
        return _with_file(value, {"Content-Type": media, **named}, workers)
    shapes = {"id": {"id": value}, "modified": {"modifiedCount": value}, "errors": {"errors": value}}
    told = shapes.get(operation.answer.kind, value)
    if operation.answer.kind == "outcomes":
        told = [{"id": each} if isinstance(each, str) else {"error": _error(each)} for each in value]
    return Response(encode(told), operation.success, media_type=writing.JSON)


def _with_file(file: File, headers: dict[str, str], workers: Workers | None) -> Response:
    if workers is None:
        with closing(file):
            return Response(b"".join(file.pieces), headers=headers)
    try:
        # Until there is a piece a failure is told as one.
        first = next(file.pieces, b"")
    except BaseException:
        file.close()
        raise
    return Streamed(first, file.pieces, workers=workers, close=file.close, headers=headers)


def _error(error: Exception) -> dict[str, Any]:
    """Return what is told of one event of many."""
    if isinstance(error, AttribError):
        error = failures.renamed(error, OPERATIONS["create_event"])
    return failures.body(failures.failed(error))


def attachment(filename: str) -> str:
    r"""Return the header Content-Disposition of a file (RFC 6266).

    Examples
    --------
    >>> print(attachment('çay.csv'))
    attachment; filename="_ay.csv"; filename*=UTF-8''%C3%A7ay.csv
    """
    plain = "".join(each if " " <= each <= "~" and each not in '"\\%' else "_" for each in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
