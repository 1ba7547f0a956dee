"""Reads the body of a request, within bounds."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.records.json_records import decode
from attrib_ds.service.http.failures import Failed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request

    from attrib_ds.service.http.workers import Workers

MEBIBYTE: Final = 2**20
#: Without a byte of the body for so long, the sender is taken for gone.
_SECONDS_TO_SEND: Final = 60
_MOST_PARAMETERS: Final = 100


async def read(request: Request, *, most_bytes: int) -> bytes:
    """Return the body of a request.

    Parameters
    ----------
    request : Request
        Of which nothing is read yet.
    most_bytes : int
        Bound of the body (G-136).

    Returns
    -------
    bytes
        All of it.

    Raises
    ------
    Failed
        With 413 if it is larger, as soon as that is known; with 400 if it does not come.
    """
    too_large = Failed(413, f"body: is too large; allowed: {most_bytes:,} bytes")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > most_bytes:
        raise too_large
    body = bytearray()
    async for chunk in _chunks(request):
        body += chunk
        if len(body) > most_bytes:
            raise too_large
    return bytes(body)


async def receive(request: Request, file: Path, *, workers: Workers) -> None:
    """Write the body of a request to a file, never holding much of it.

    Parameters
    ----------
    request : Request
        Of which nothing is read yet.
    file : Path
        A file that is not there yet.
    workers : Workers
        Where it is written.

    Raises
    ------
    Failed
        With 413 if it is larger than the disk has room for; with 400 if it does not come.
    Unavailable
        If it cannot be written.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > shutil.disk_usage(file.parent).free:
        raise Failed(413, "body: is larger than the disk of the service has room for")
    try:
        sink = await workers.run(file.open, "xb")
        try:
            waiting = bytearray()
            async for chunk in _chunks(request):
                waiting += chunk
                if len(waiting) >= MEBIBYTE:
                    await workers.run(sink.write, bytes(waiting))
                    waiting.clear()
            await workers.run(sink.write, bytes(waiting))
        finally:
            await workers.run(sink.close)
    except OSError as error:
        raise Unavailable(f"the body cannot be written: {error}") from error


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    chunks = request.stream()
    while True:
        try:
            chunk = await asyncio.wait_for(anext(chunks, None), _SECONDS_TO_SEND)
        except TimeoutError:
            raise Failed(400, "body: did not come in time", headers={"Connection": "close"}) from None
        if chunk is None:
            return
        yield chunk


def parse(content: bytes, *, is_array: bool = False) -> Any:
    """Read a JSON object or array; nothing at all is None.

    Parameters
    ----------
    content : bytes
        The body.
    is_array : bool, default False
        Whether it must be an array; otherwise it must be an object.

    Returns
    -------
    mapping or list, optional
        Its members or items.

    Raises
    ------
    InvalidRequest
        If it is no JSON, or JSON of another kind (R321).

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
    value = decode(content)
    wanted, expected = (list, "an array") if is_array else (dict, "an object")
    if not isinstance(value, wanted):
        kind = {
            "NoneType": "null",
            "list": "an array",
            "dict": "an object",
            "str": "text",
            "bool": "a boolean",
        }
        came = kind.get(type(value).__name__, "a number")
        raise InvalidRequest(f"body: {came} is not allowed; expected {expected}", field="body")
    return value


def parse_query(query: bytes) -> dict[str, str]:
    """Read the parameters behind the question mark; of two with one name the last counts.

    Raises
    ------
    InvalidRequest
        If there are more than a hundred.

    Examples
    --------
    >>> parse_query(b"since=2025-01-31T12:00:00%2B01:00&limit=")
    {'since': '2025-01-31T12:00:00+01:00', 'limit': ''}
    """
    try:
        pairs = parse_qsl(
            query.decode("latin-1"),
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        raise InvalidRequest(f"query: allowed are {_MOST_PARAMETERS} parameters", field="query") from None
    return dict(pairs)
