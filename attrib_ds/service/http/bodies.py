"""Read and parse request bodies within limits of size and time."""

from __future__ import annotations

import gc
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect

from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.records.json_records import decode
from attrib_ds.service.http.error_responses import HttpError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.requests import Request

    from attrib_ds.service.http.body_memory import BodyMemory
    from attrib_ds.service.http.thread_pool import ThreadPool

MEBIBYTE: Final = 2**20
#: Maximum number of commas and opening brackets in a JSON body, which bounds the number of its values. No
#: other thread runs while they are parsed, which takes up to a fifth of a second.
_MOST_VALUES: Final = 250_000
#: Memory of a parsed value, about.
_BYTES_PER_VALUE: Final = 64
_MOST_PARAMETERS: Final = 100


async def read(request: Request, *, most_bytes: int, memory: BodyMemory) -> bytes:
    """Return the body of a request.

    Parameters
    ----------
    request : Request
        Its body has not been read.
    most_bytes : int
        Maximum size of the body (G-136, G-228).
    memory : BodyMemory
        Memory of the request; the body is counted as it arrives.

    Returns
    -------
    bytes
        The whole body.

    Raises
    ------
    HttpError
        With 413 as soon as the body is too large; with 503 if the memory for bodies is used up.
    """
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > most_bytes:
        raise _too_large(most_bytes)
    body = bytearray()
    has_more = True
    while has_more:
        # `request.stream()` takes several times as long.
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        memory.take(len(chunk))
        body += chunk
        if len(body) > most_bytes:
            raise _too_large(most_bytes)
        has_more = message.get("more_body", False)
    return bytes(body)


def _too_large(most_bytes: int) -> HttpError:
    return HttpError(413, f"body: is too large; allowed: {most_bytes:,} bytes")


async def receive(request: Request, file: Path, *, pool: ThreadPool, memory: BodyMemory) -> None:
    """Stream the body of a request to a file.

    Parameters
    ----------
    request : Request
        Its body has not been read.
    file : Path
        A new file.
    pool : ThreadPool
        Threads that write the file.
    memory : BodyMemory
        Memory of the request, for what is not written yet.

    Raises
    ------
    HttpError
        With 413 if the body is larger than the free disk space; with 503 if the memory for bodies is used up.
    Unavailable
        If the file cannot be written.
    """
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > shutil.disk_usage(file.parent).free:
        raise HttpError(413, "body: is larger than the disk of the service has room for")
    memory.take(MEBIBYTE)
    try:
        sink = await pool.run(file.open, "xb")
        try:
            buffer = bytearray()
            async for chunk in request.stream():
                buffer += chunk
                if len(buffer) >= MEBIBYTE:
                    await pool.run(sink.write, bytes(buffer))
                    buffer.clear()
            await pool.run(sink.write, bytes(buffer))
        finally:
            await pool.run(sink.close)
    except OSError as error:
        raise Unavailable(f"the body cannot be written: {error}") from error


def check_values(content: bytes, *, memory: BodyMemory) -> None:
    """Check the number of values of a JSON body before it is parsed, and count their memory.

    Parameters
    ----------
    content : bytes
        The body. Commas and brackets inside its texts count as well.
    memory : BodyMemory
        Memory of the request.

    Raises
    ------
    HttpError
        With 413 if there are too many; with 503 if the memory for bodies is used up.
    """
    values = content.count(b",") + content.count(b"[") + content.count(b"{")
    if values > _MOST_VALUES:
        raise HttpError(413, f"body: has too many values; allowed: {_MOST_VALUES:,} commas and brackets")
    memory.take(values * _BYTES_PER_VALUE)


def parse(content: bytes, *, is_array: bool = False) -> Any:
    """Parse a JSON object or array; None for an empty body.

    Parameters
    ----------
    content : bytes
        The body.
    is_array : bool, default False
        Whether to expect an array instead of an object.

    Returns
    -------
    mapping or list, optional
        The object or array.

    Raises
    ------
    InvalidRequest
        If it is not JSON or of the wrong kind (R321).

    Examples
    --------
    >>> parse(b'{"limit": 1}')
    {'limit': 1}
    >>> parse(b"null")
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: body: null is not allowed; expected an object
    """
    if not content.strip():
        return None
    with _paused_collection():
        value = decode(content)
    expected, allowed = (list, "an array") if is_array else (dict, "an object")
    if not isinstance(value, expected):
        kinds = {
            "NoneType": "null",
            "list": "an array",
            "dict": "an object",
            "str": "text",
            "bool": "a boolean",
        }
        kind = kinds.get(type(value).__name__, "a number")
        raise InvalidRequest(f"body: {kind} is not allowed; expected {allowed}", field="body")
    return value


@contextmanager
def _paused_collection() -> Iterator[None]:
    """Pause garbage collection: over many new lists it takes ten times as long as parsing them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def parse_query(query: bytes) -> dict[str, str]:
    """Parse the query string; of two parameters with the same name the last one counts.

    Raises
    ------
    InvalidRequest
        If there are more than a hundred.

    Examples
    --------
    >>> parse_query(b"since=2025-01-31T12:00:00%2B01:00&limit=")
    {'since': '2025-01-31T12:00:00+01:00', 'limit': ''}
    """
    if not query:
        return {}
    try:
        pairs = parse_qsl(
            query.decode("latin-1"),
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        raise InvalidRequest(
            f"query: at most {_MOST_PARAMETERS} parameters are allowed", field="query"
        ) from None
    return dict(pairs)
