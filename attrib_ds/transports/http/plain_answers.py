"""Read responses that hold a plain value instead of records: ids, counts, files, outcomes of batches."""

from __future__ import annotations

import re
import tempfile
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.contract import OPERATIONS, File
from attrib_ds.errors import ServiceFailure
from attrib_ds.json_numbers import whole
from attrib_ds.local_files import writing_temporarily
from attrib_ds.records.json_records import decode
from attrib_ds.transports.http.bodies import MEDIUM, SMALL, Unreadable
from attrib_ds.transports.http.remote_errors import item_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.contract import Operation
    from attrib_ds.errors import AttribError
    from attrib_ds.transports.http.session import Response

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def read_value(response: Response, operation: Operation, request: Any) -> object:
    """Read the value of a successful response.

    Parameters
    ----------
    response : Response
        Its body has not been read.
    operation : Operation
        The operation.
    request : Request
        Its request.

    Returns
    -------
    object
        The same as from an embedded project.

    Raises
    ------
    Unreadable, InvalidRequest
        If the body is not a value of this kind.
    ServiceFailure
        If there are more or fewer outcomes than events.
    """
    value = _READERS[operation.answer.kind](response)
    if operation.answer.kind == "outcomes" and isinstance(value, list) and len(value) != len(request.events):
        raise ServiceFailure(f"the response has {len(value)} outcomes of {len(request.events)} events")
    return value


def _id(response: Response) -> str:
    return str(_member(response, "id", str))


def _modified(response: Response) -> int:
    number = whole(_object(response).get("modifiedCount"))
    if number is None:
        raise Unreadable("its modifiedCount is not a whole number")
    return number


def _errors(response: Response) -> list[Any]:
    errors: list[Any] = _member(response, "errors", list)
    return errors


def _object(response: Response, most: int = MEDIUM) -> dict[str, Any]:
    body = decode(response.content(most))
    if not isinstance(body, dict):
        raise Unreadable("it is not an object")
    return body


def _counts(response: Response) -> dict[str, int]:
    counts = {name: whole(value) for name, value in _object(response, SMALL).items()}
    return {name: value for name, value in counts.items() if value is not None}


def _member(response: Response, name: str, kind: Any) -> Any:
    body = _object(response, SMALL)
    if not isinstance(body.get(name), kind):
        raise Unreadable(f"it has no {name}")
    return body[name]


def _uuid(response: Response) -> str:
    # Some servers send plain text, others JSON.
    text = response.beginning().decode("utf-8", "replace").strip().removeprefix('"').removesuffix('"')
    if not _UUID.fullmatch(text):
        raise Unreadable("it is not a UUID")
    return text


def _outcomes(response: Response) -> list[str | AttribError]:
    items = decode(response.content(MEDIUM))
    if not isinstance(items, list):
        raise Unreadable("it is not an array")
    return [_outcome(item) for item in items]


def _outcome(item: Any) -> str | AttribError:
    if isinstance(item, dict) and isinstance(item.get("id"), str):
        return str(item["id"])
    if isinstance(item, dict) and isinstance(item.get("error"), dict):
        return item_error(item["error"], OPERATIONS["create_event"])
    raise Unreadable("an item is neither an id nor an error")


def _file(response: Response) -> File:
    """Spool a file to disk, so that a truncated download can be retried."""
    with writing_temporarily():
        spool = tempfile.TemporaryFile()  # noqa: SIM115  (the reader closes it, which deletes it)
    try:
        for piece in response.pieces(None):
            with writing_temporarily():
                spool.write(piece)
        with writing_temporarily():
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
