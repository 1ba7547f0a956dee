"""Translates DuckDB errors into advice for the file's owner."""

from __future__ import annotations

from typing import Final

import duckdb

#: Advice for a file that cannot be read any more.
DAMAGED: Final = "the file is damaged; put a backup in its place with `attrib-ds restore`"

#: Advice by parts of the error message.
_ADVICE: Final = (
    (
        ("No space left on device", "File too large", "Disk quota exceeded", "not enough space"),
        "the disk is full; free some space, then try again: nothing that was accepted is lost",
    ),
    (
        ("Read-only file system", "Permission denied", "Operation not permitted"),
        "the file or its folder is not writable; change the permissions, then try again",
    ),
    (
        (
            "does not match stored checksum",
            "Checksum",
            "Corrupt database file",
            "corrupt",
            # The file is shorter than it says.
            "Could not read enough bytes",
            "Could not read all bytes",
        ),
        DAMAGED,
    ),
    (
        ("Out of Memory", "failed to allocate", "could not allocate"),
        "there is not enough memory; ask for less at once, or give the process more",
    ),
)


def with_advice(error: Exception) -> str:
    """Return the message of an error, followed by advice if its cause is known.

    Examples
    --------
    >>> with_advice(OSError(28, "No space left on device"))  # doctest: +NORMALIZE_WHITESPACE
    '[Errno 28] No space left on device (the disk is full; free some space, then try again:
     nothing that was accepted is lost)'
    """
    message = str(error)
    for parts, advice in _ADVICE:
        if any(part in message for part in parts):
            return f"{message} ({advice})"
    return message


def is_final(error: BaseException) -> bool:
    """Return whether the database has shut down after a fatal error and must be opened again.

    DuckDB shuts down when it cannot checkpoint committed data from the write-ahead log; the log keeps it.

    Examples
    --------
    >>> is_final(duckdb.FatalException("no space")), is_final(duckdb.IOException("no space"))
    (True, False)
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, duckdb.FatalException) or "database has been invalidated" in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
