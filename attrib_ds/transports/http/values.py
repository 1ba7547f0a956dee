"""Reads answers that are no records: ids, numbers, files, what became of each of many."""

from __future__ import annotations

import re
import tempfile
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract import OPERATIONS, File
from attrib_ds.records.json_records import decode
from attrib_ds.transports.http.json_stream import Unreadable
from attrib_ds.transports.http.refusals import error_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.contract import Operation
    from attrib_ds.errors import AttribError
    from attrib_ds.transports.http.session import Response

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def read_value(response: Response, operation: Operation) -> object:
    """Read the value that an operation answers with.

    Parameters
    ----------
    response : Response
        Of which the body is not read.
    operation : Operation
        What was asked.

    Returns
    -------
    object
        As an embedded project gives it.

    Raises
    ------
    Unreadable, InvalidRequest
        If it is another one.
    """
    return _READERS[operation.answer.kind](response)


def whole(value: Any) -> int | None:
    """Return a whole number, also one that is written with a point; None if it is none.

    Examples
    --------
    >>> whole(Decimal("1.0")), whole(Decimal("1.5")), whole(True)
    (1, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or value != int(value):
        return None
    return int(value)


def _id(response: Response) -> str:
    return str(_member(response, "id", str))


def _modified(response: Response) -> int:
    number = whole(_member(response, "modifiedCount", int | Decimal))
    if number is None:
        raise Unreadable("its modifiedCount is no whole number")
    return number


def _errors(response: Response) -> list[Any]:
    errors: list[Any] = _member(response, "errors", list)
    return errors


def _object(response: Response) -> dict[str, Any]:
    told = decode(response.content())
    if not isinstance(told, dict):
        raise Unreadable("it is no object")
    return told


def _counts(response: Response) -> dict[str, int]:
    counts = {name: whole(value) for name, value in _object(response).items()}
    return {name: value for name, value in counts.items() if value is not None}


def _member(response: Response, name: str, kind: Any) -> Any:
    told = _object(response)
    if not isinstance(told.get(name), kind):
        raise Unreadable(f"it has no {name}")
    return told[name]


def _uuid(response: Response) -> str:
    # Some servers send a text as it is, others as JSON.
    text = response.beginning().decode("utf-8", "replace").strip().removeprefix('"').removesuffix('"')
    if not _UUID.fullmatch(text):
        raise Unreadable("it is no UUID")
    return text


def _outcomes(response: Response) -> list[str | AttribError]:
    told = decode(response.content())
    if not isinstance(told, list):
        raise Unreadable("it is no array")
    return [_outcome(each) for each in told]


def _outcome(told: Any) -> str | AttribError:
    if isinstance(told, dict) and isinstance(told.get("id"), str):
        return str(told["id"])
    if isinstance(told, dict) and isinstance(told.get("error"), dict):
        return error_of(told["error"], OPERATIONS["create_event"])
    raise Unreadable("an item is neither an id nor an error")


def _file(response: Response) -> File:
    """Write a file to the disk first, so that one that breaks off can be asked for again."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115  (whoever reads it closes it, which deletes it)
    try:
        for chunk in response.chunks():
            spool.write(chunk)
        spool.seek(0)
    except BaseException:
        spool.close()
        raise
    return File.of(spool)


_READERS: Final[dict[str, Callable[[Response], object]]] = {
    "counts": _counts,
    "errors": _errors,
    "file": _file,
    "id": _id,
    "modified": _modified,
    "object": _object,
    "outcomes": _outcomes,
    "uuid": _uuid,
}
