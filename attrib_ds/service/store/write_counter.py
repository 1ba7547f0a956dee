"""Counts the committed transactions of a store beside its file, to detect that some were lost (G-233).

DuckDB opens a file whose write-ahead log was cut or removed without an error. The file then counts fewer
transactions than the counter beside it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import Unavailable
from attrib_ds.service.store.private_files import create_private_file

if TYPE_CHECKING:
    from pathlib import Path

_WIDTH: Final = 20


def counter_of(file: Path) -> Path:
    """Return the path of the write counter of a file."""
    return file.with_name(f"{file.name}.writes")


def read_counter(file: Path) -> int:
    """Return the number of transactions counted beside a file; 0 if it is new, or was copied alone."""
    try:
        if not file.exists():
            return 0
        return int(counter_of(file).read_bytes()[:_WIDTH])
    except (OSError, ValueError):
        return 0


def check_complete(file: Path, *, counted: int, writes: int) -> None:
    """Refuse a file that lacks transactions.

    Parameters
    ----------
    file : Path
        File of the project.
    counted : int
        Transactions counted beside it, read before `writes`.
    writes : int
        Transactions in the file.

    Raises
    ------
    Unavailable
        If the file has fewer than were counted.
    """
    if counted > writes:
        raise Unavailable(
            f"path: {str(file)!r} lacks {counted - writes:,} of {counted:,} acknowledged writes; its "
            "write-ahead log was cut or removed. Put it back, or a backup (`attrib-ds restore`). To go on "
            f"without those writes, remove {str(counter_of(file))!r}",
            field="path",
        )


class WriteCounter:
    """Writes the number of committed transactions beside a file.

    Parameters
    ----------
    file : Path
        File of the project.
    """

    def __init__(self, file: Path) -> None:
        path = counter_of(file)
        create_private_file(path)
        self._sink = path.open("r+b", buffering=0)

    def set(self, writes: int) -> None:
        """Record a commit, after it is durable.

        The counter is not flushed to the disk. After a power failure it may be too low, and never too high.
        """
        # The commit stands even if it cannot be counted.
        with suppress(OSError):
            self._sink.seek(0)
            self._sink.write(f"{writes:0{_WIDTH}d}\n".encode())

    def close(self) -> None:
        """Close the file; it stays beside that of the project."""
        self._sink.close()
