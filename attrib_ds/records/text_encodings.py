"""Encodings of text files: those marked or valid by their bytes, and names of others."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.numbered_rows import BLOCK_BYTES, open_binary

if TYPE_CHECKING:
    from pathlib import Path

_START_BYTES: Final = 4_096


def marked_encoding(path: Path) -> str | None:
    """Return the encoding of a file in UTF-16, with or without a byte order mark; None for any other."""
    with open_binary(path) as file:
        start = file.read(_START_BYTES)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Latin letters have a zero byte in UTF-16, before or after their own.
    if 0 in start[:2]:
        return "utf-16-be" if start[0] == 0 else "utf-16-le"
    return None


def first_foreign_line(path: Path) -> int | None:
    """Return the number of the first line that is not UTF-8, from 1; None if all are."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines = 1
    with open_binary(path) as file:
        while True:
            block = file.read(BLOCK_BYTES)
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                return lines + error.object[: error.start].count(b"\n")
            if not block:
                return None
            lines += block.count(b"\n")


def checked_encoding(encoding: str | None) -> str | None:
    """Check the name of an encoding.

    Raises
    ------
    InvalidRequest
        If Python has no such codec of text.
    """
    if encoding is None:
        return None
    try:
        "".encode(encoding)
    except (LookupError, TypeError) as error:
        raise InvalidRequest(
            f"encoding: {encoding!r} is not allowed; allowed: the name of a codec, such as 'cp1252' or "
            "'utf-16'",
            field="encoding",
        ) from error
    return encoding
