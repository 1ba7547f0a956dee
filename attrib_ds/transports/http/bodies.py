"""Read the body of a response in pieces: decompressed, and within bounds."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import ServiceFailure, Unavailable
from attrib_ds.transports.http.retrying import AttemptFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Bytes of a piece. Smaller ones are joined, since a service may send single bytes.
_PIECE: Final = 2**16
#: Window of zlib, plus 16 for the format of gzip.
_GZIP: Final = zlib.MAX_WBITS + 16
#: A body that is decompressed to more than this may not exceed the ratio; JSON reaches some 50.
_SURELY_SMALL: Final = 2**26
_HIGHEST_RATIO: Final = 200

#: An id, a number, counts or an access token.
SMALL: Final = 2**20
#: One record, the outcomes of a batch, the data of a user.
MEDIUM: Final = 2**26
#: A page or a list of records.
LARGE: Final = 2**30


class Unreadable(ValueError):
    """A body is not a valid response, or is truncated."""


def read_pieces(
    chunks: Iterable[bytes], *, encoding: str, most: int | None, seconds: float | None = None
) -> Iterator[bytes]:
    """Yield a body in pieces.

    Parameters
    ----------
    chunks : iterable of bytes
        The body as it was sent.
    encoding : str
        Its Content-Encoding.
    most : int, optional
        Maximum number of bytes after decompression; unlimited for bodies that go to disk.
    seconds : float, optional
        Time within which the body must be complete; unlimited by default.

    Yields
    ------
    bytes
        64 KiB or more, except for the last piece.

    Raises
    ------
    AttemptFailed
        If the body is too large, compressed in another way than gzip, not gzip, truncated, or too slow.

    Examples
    --------
    >>> list(read_pieces([b'{"id"', b":1}"], encoding="", most=SMALL))
    [b'{"id":1}']
    """
    plain = _plain(chunks, encoding.strip().lower())
    deadline = None if seconds is None else time.monotonic() + seconds
    piece = bytearray()
    size = 0
    for part in plain:
        size += len(part)
        if most is not None and size > most:
            raise AttemptFailed(
                ServiceFailure(
                    f"the response is larger than the {most >> 20:,} MiB that are accepted; request fewer "
                    "records (limit=)"
                ),
                "never",
            )
        if deadline is not None and time.monotonic() > deadline:
            raise AttemptFailed(
                Unavailable(
                    f"the response was not complete within {seconds:g} s; request fewer records (limit=, "
                    "since=) or try again later"
                ),
                "if safe",
            )
        piece += part
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _plain(chunks: Iterable[bytes], encoding: str) -> Iterable[bytes]:
    if encoding in ("", "identity"):
        return chunks
    if encoding in ("gzip", "x-gzip"):
        return _decompressed(chunks)
    raise AttemptFailed(
        ServiceFailure(f"the response is compressed as {encoding[:40]!r}; only gzip was offered"), "never"
    )


def _decompressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress gzip in bounded steps, so that no chunk becomes a thousand times its size in memory."""
    gunzip = zlib.decompressobj(_GZIP)
    received = produced = 0
    for chunk in chunks:
        received += len(chunk)
        rest = chunk
        while rest:
            if gunzip.eof:
                # A body may have several members (RFC 1952, section 2.2).
                gunzip = zlib.decompressobj(_GZIP)
            try:
                part = gunzip.decompress(rest, _PIECE)
            except zlib.error:
                raise _broken("it is not gzip") from None
            produced += len(part)
            if received > SMALL and received > 2 * produced:
                # Members without content never end.
                raise _broken("it has hardly any content")
            if produced > _SURELY_SMALL and produced > _HIGHEST_RATIO * received:
                raise AttemptFailed(
                    ServiceFailure(
                        f"the response is compressed more than {_HIGHEST_RATIO} times; it may be meant to "
                        "exhaust this machine"
                    ),
                    "never",
                )
            if part:
                yield part
            rest = gunzip.unused_data if gunzip.eof else gunzip.unconsumed_tail
    # A member that has all its input can still hold output.
    while not gunzip.eof and received:
        part = gunzip.decompress(b"", _PIECE)
        if not part:
            raise _broken("it is truncated")
        yield part


def _broken(problem: str) -> AttemptFailed:
    return AttemptFailed(
        ServiceFailure(f"the service sent a compressed response that cannot be read: {problem}"), "if safe"
    )
