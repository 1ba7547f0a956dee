"""Turns what an operation answers into a response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.responses import Response

from attrib_ds.contract.json_text import encode
from attrib_ds.service.http import writing
from attrib_ds.service.http.accepting import prefers
from attrib_ds.service.http.sending import Streamed
from attrib_ds.service.rows import BATCH_ROWS

if TYPE_CHECKING:
    from attrib_ds.contract import Answer, Operation
    from attrib_ds.service.http.workers import Workers
    from attrib_ds.service.rows import Rows

_FILES: Final = {
    "csv": "text/csv; charset=utf-8; header=present",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def with_rows(operation: Operation, rows: Rows, *, accept: str, workers: Workers) -> Response:
    """Return a response of records: at once if they are few, otherwise written while it is sent.

    Parameters
    ----------
    operation : Operation
        What was answered.
    rows : Rows
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
    media, pieces = writing.JSON, writing.json_pieces(rows, operation.answer)
    if prefers(accept, writing.ARROW):
        media, pieces = writing.ARROW, writing.arrow_pieces(rows)
    headers = {"Content-Type": media, "Vary": "Accept"}
    try:
        if rows.count > BATCH_ROWS:
            first = next(pieces)
            return Streamed(first, pieces, workers=workers, close=rows.close, headers=headers)
        content = b"".join(pieces)
    except BaseException:
        rows.close()
        raise
    rows.close()
    return Response(content, operation.success, headers)


def with_value(operation: Operation, asked: Any, answer: Answer) -> Response:
    """Return a response of what is no record.

    Parameters
    ----------
    operation : Operation
        What was answered.
    asked : Request
        What was asked; it names the file, where that is the answer.
    answer : Answer
        With a value.

    Returns
    -------
    Response
        To be sent.
    """
    value: Any = answer.value
    if operation.answer.kind == "file":
        ending = asked.outputFormatConfig.type
        named = {"Content-Disposition": attachment(f"{asked.filename}.{ending}")}
        return Response(value, headers={"Content-Type": _FILES[ending], **named})
    shapes = {"id": {"id": value}, "modified": {"modifiedCount": value}}
    content = encode(shapes.get(operation.answer.kind, value))
    return Response(content, operation.success, media_type=writing.JSON)


def attachment(filename: str) -> str:
    r"""Return the header Content-Disposition of a file (RFC 6266).

    Examples
    --------
    >>> print(attachment('çay.csv'))
    attachment; filename="_ay.csv"; filename*=UTF-8''%C3%A7ay.csv
    """
    plain = "".join(each if " " <= each <= "~" and each not in '"\\%' else "_" for each in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
