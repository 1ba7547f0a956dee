"""An append-only log beside the file of a project: what it holds is durable before the tables have it.

One flush of a small file makes a group of records durable, where a transaction of DuckDB costs several
milliseconds of processor time. The records are moved into the tables later, many at a time. A transaction
that moves groups stores the number of the last one, so that a process that finds groups after a crash moves
exactly those that the tables lack.
"""

from __future__ import annotations

import os
import struct
import threading
import weakref
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import ServiceFailure
from attrib_ds.service.store.file_errors import with_advice
from attrib_ds.service.store.forks import abandon_after_fork
from attrib_ds.service.store.private_files import create_private_file, flush_folder, withdraw_permissions

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

#: Number, length and checksum of a group.
_HEAD: Final = struct.Struct(">QII")
#: Size from which on the log is emptied before it grows further.
_LARGEST: Final = 16 * 2**20
#: Setting with the number of the last group that the tables have.
_APPLIED: Final = "appliedLogGroup"
_flush: Final = getattr(os, "fdatasync", os.fsync)
#: Logs that are open in this process. DuckDB keeps other processes away from the project, but not another
#: service of this one, which must not take the groups for those of a crash. Nothing is kept alive.
_OPEN: Final[weakref.WeakSet[AppendLog]] = weakref.WeakSet()


@dataclass(frozen=True)
class Group:
    """Records that were appended together.

    Parameters
    ----------
    number : int
        One more than that of the group before it.
    content : bytes
        The records, in a form that their owner chooses.
    """

    number: int
    content: bytes


def append_log_of(file: Path) -> Path:
    """Return the path of the append-only log of a project's file."""
    return file.with_name(f"{file.name}.intake")


def read_groups(path: Path) -> list[Group]:
    """Return the groups of a log up to the first that is incomplete or damaged.

    A process that is killed while it appends leaves an incomplete group, which it has not acknowledged. That
    groups were acknowledged and are gone shows in the write counter.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    groups: list[Group] = []
    start = 0
    while len(content) - start >= _HEAD.size:
        number, length, checksum = _HEAD.unpack_from(content, start)
        start += _HEAD.size
        part = content[start : start + length]
        follows = not groups or number == groups[-1].number + 1
        if len(part) < length or not follows or _checksum(number, part) != checksum:
            break
        groups.append(Group(number, part))
        start += length
    return groups


def read_applied(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the number of the last group that the tables have; 0 if there never was one."""
    rows = connection.execute("SELECT value FROM settings WHERE name = ?", [_APPLIED]).fetchall()
    return int(rows[0][0]) if rows else 0


def set_applied(connection: duckdb.DuckDBPyConnection, number: int) -> None:
    """Store the number of a group in the transaction that moves it into the tables."""
    connection.execute("DELETE FROM settings WHERE name = ?", [_APPLIED])
    connection.execute("INSERT INTO settings VALUES (?, ?)", [_APPLIED, str(number)])


def is_open(path: Path) -> bool:
    """Return whether a service of this process appends to a log."""
    resolved = path.resolve()
    return any(log.path == resolved for log in list(_OPEN))


class AppendLog:
    """Appends groups of records; thread-safe.

    Parameters
    ----------
    path : Path
        The log. What it holds has been moved into the tables, and is dropped.
    last : int
        Number of the last group that was moved.

    Attributes
    ----------
    path : Path
        As above, without links.
    last : int
        Number of the last group that was appended.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     log = AppendLog(Path(folder, "shop.duckdb.intake"), last=6)
    ...     log.append(b"a record")
    ...     log.close()
    ...     read_groups(Path(folder, "shop.duckdb.intake"))
    7
    [Group(number=7, content=b'a record')]
    """

    def __init__(self, path: Path, *, last: int) -> None:
        self.path = path.resolve()
        self.last = last
        self._lock = threading.Lock()
        self._failure: OSError | None = None
        create_private_file(path)
        withdraw_permissions(path)
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
        self._end = 0
        os.ftruncate(self._file, 0)
        flush_folder(path.parent)
        _OPEN.add(self)
        abandon_after_fork(self)

    @property
    def is_large(self) -> bool:
        """Whether the groups should be moved before others are appended."""
        return self._end > _LARGEST

    def append(self, content: bytes) -> int:
        """Append a group and return its number once it is durable.

        Raises
        ------
        ServiceFailure
            If it cannot be written; then it is not in the log.
        """
        with self._lock:
            number = self.last + 1
            try:
                if self._failure is not None:
                    raise self._failure
                self._write(_HEAD.pack(number, len(content), _checksum(number, content)) + content)
            except OSError as error:
                raise ServiceFailure(f"the events could not be written: {with_advice(error)}") from error
            self.last = number
            return number

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
            _flush(self._file)
        except OSError:
            try:
                os.ftruncate(self._file, self._end)
            except OSError as error:
                # Groups behind an incomplete one could not be read.
                self._failure = error
            raise
        self._end += len(data)

    def drop(self, number: int) -> None:
        """Empty the log if the group is its last: the tables have all of them."""
        with self._lock:
            if number == self.last and self._end:
                os.ftruncate(self._file, 0)
                self._end = 0

    def close(self) -> None:
        """Close the log; an empty one is removed. Idempotent."""
        with self._lock:
            if self not in _OPEN:
                return
            _OPEN.discard(self)
            self._failure = OSError("the log is closed")
            os.close(self._file)
            if not self._end:
                self.path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Forget the log in a forked process: it belongs to the parent."""
        # A thread of the parent may have held the lock.
        self._lock = threading.Lock()
        _OPEN.discard(self)


def _checksum(number: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(number.to_bytes(8, "big")))
