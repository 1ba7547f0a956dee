"""Counts the acknowledged writes of a store beside its file, to detect that some were lost (G-233).

DuckDB opens a file whose write-ahead log was cut or removed without an error. The file then counts fewer
transactions than the counter beside it. A group of the append-only log counts as one write, too.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import Unavailable
from attrib_ds.service.store.private_files import create_private_file

if TYPE_CHECKING:
    from pathlib import Path

_WIDTH: Final = 20
_CONTENT: Final = re.compile(rb"[0-9]{%d}\n" % _WIDTH)
_creation_lock: Final = threading.Lock()


def counter_of(file: Path) -> Path:
    """Return the path of the write counter of a file."""
    return file.with_name(f"{file.name}.writes")


def read_counter(file: Path) -> int | None:
    """Return the number of writes counted beside a file.

    Parameters
    ----------
    file : Path
        File of the project.

    Returns
    -------
    int, optional
        0 if there is no file yet, or no counter because the file was copied alone. None if the counter is
        empty: a process was killed before it counted anything.

    Raises
    ------
    Unavailable
        If the counter is anything else.
    """
    path = counter_of(file)
    try:
        mode = path.lstat().st_mode
    except OSError:
        return 0
    try:
        # A FIFO would never end, and a link may lead anywhere.
        is_regular = stat.S_ISREG(mode)
        if is_regular and not file.exists():
            return 0
        content = path.read_bytes() if is_regular else None
    except OSError as error:
        raise _unreadable(path, str(error)) from error
    if content == b"":
        return None
    if content is None or not _CONTENT.fullmatch(content):
        raise _unreadable(path, f"expected a file of {_WIDTH} digits")
    return int(content)


def _unreadable(path: Path, problem: str) -> Unavailable:
    return Unavailable(
        f"path: the write counter {str(path)!r} cannot be read: {problem}. Without it, lost writes cannot be "
        "detected; remove it to open the project nevertheless",
        field="path",
    )


def check_complete(file: Path, *, counted: int | None, writes: int) -> None:
    """Refuse a file that lacks writes.

    Parameters
    ----------
    file : Path
        File of the project.
    counted : int, optional
        Result of :func:`read_counter`, called before `writes` was read.
    writes : int
        Transactions in the file, and groups that were appended to its log.

    Raises
    ------
    Unavailable
        If the file has fewer than were counted, or has some although none was counted.
    """
    if counted is None:
        if writes:
            raise _unreadable(counter_of(file), "it is empty")
        return
    if counted > writes:
        raise Unavailable(
            f"path: {str(file)!r} lacks {counted - writes:,} of {counted:,} acknowledged writes; its "
            "write-ahead log was cut or removed. Put it back, or a backup (`attrib-ds restore`). To go on "
            f"without those writes, remove {str(counter_of(file))!r}",
            field="path",
        )


def create_counter(file: Path, *, writes: int) -> None:
    """Create the counter of a file that has none.

    The counter is never empty, not even after a power failure: that would refuse a file with transactions.

    Parameters
    ----------
    file : Path
        File of the project, open for writing.
    writes : int
        As for :func:`check_complete`.
    """
    path = counter_of(file)
    part = path.with_name(f"{path.name}.part")
    # Other threads of this process may open the file at the same time; other processes cannot.
    with _creation_lock:
        if path.exists():
            return
        part.unlink(missing_ok=True)
        create_private_file(part)
        with part.open("r+b") as sink:
            sink.write(_content(writes))
            sink.flush()
            os.fsync(sink.fileno())
        part.replace(path)


class WriteCounter:
    """Writes the number of acknowledged writes beside a file; thread-safe.

    Parameters
    ----------
    file : Path
        File of the project, with a counter.
    writes : int
        Transactions in the file.
    appended : int
        Number of the last group of its append-only log.
    """

    def __init__(self, file: Path, *, writes: int, appended: int) -> None:
        self._sink = counter_of(file).open("r+b", buffering=0)
        self._lock = threading.Lock()
        self._writes = writes
        self._appended = appended

    def set_writes(self, writes: int) -> None:
        """Record a commit, after it is durable.

        The counter is not flushed to the disk. After a power failure it may be too low, and never too high.
        """
        with self._lock:
            self._writes = writes
            self._write()

    def set_appended(self, appended: int) -> None:
        """Record a group of the append-only log, after it is durable."""
        with self._lock:
            self._appended = appended
            self._write()

    def _write(self) -> None:
        # What was written stands even if it cannot be counted.
        with suppress(OSError):
            self._sink.seek(0)
            self._sink.write(_content(self._writes + self._appended))

    def close(self) -> None:
        """Close the file; it stays beside that of the project."""
        self._sink.close()


def _content(writes: int) -> bytes:
    return b"%0*d\n" % (_WIDTH, writes)
