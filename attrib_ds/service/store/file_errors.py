"""Says what errors of the database mean for whoever keeps its file."""

from __future__ import annotations

from typing import Final

import duckdb

#: Told of a file that cannot be read any more.
DAMAGED: Final = "the file is damaged; put a backup in its place with `attrib-ds restore`"

#: What is part of an error's text, and what to tell beside it.
_MEANINGS: Final = (
    (
        ("No space left on device", "File too large", "Disk quota exceeded", "not enough space"),
        "the disk is full; free some space, then try again: nothing that was accepted is lost",
    ),
    (
        ("Read-only file system", "Permission denied", "Operation not permitted"),
        "the file or its folder cannot be written; allow that, then try again",
    ),
    (
        ("does not match stored checksum", "Checksum", "Corrupt database file", "corrupt"),
        DAMAGED,
    ),
    (
        ("Out of Memory", "failed to allocate", "could not allocate"),
        "there is not enough memory; ask for less at once, or give the process more",
    ),
)


def explained(error: Exception) -> str:
    """Return what went wrong, with what can be done about it where that is known.

    Examples
    --------
    >>> explained(OSError(28, "No space left on device"))  # doctest: +NORMALIZE_WHITESPACE
    '[Errno 28] No space left on device (the disk is full; free some space, then try again:
     nothing that was accepted is lost)'
    """
    told = str(error)
    for parts, meaning in _MEANINGS:
        if any(part in told for part in parts):
            return f"{told} ({meaning})"
    return told


def is_final(error: BaseException) -> bool:
    """Say whether the database has ended itself: nothing can be asked of it before it is opened again.

    It does so when what is committed cannot be moved from its log to its file; the log keeps it.

    Examples
    --------
    >>> is_final(duckdb.FatalException("no space")), is_final(duckdb.IOException("no space"))
    (True, False)
    """
    told: BaseException | None = error
    while told is not None:
        if isinstance(told, duckdb.FatalException) or "database has been invalidated" in str(told):
            return True
        told = told.__cause__ or told.__context__
    return False
