"""Appends lines to a file that one run holds, so that they are there after a crash."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrib_ds.errors import InvalidRequest, Unavailable

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BINARY: Final = getattr(os, "O_BINARY", 0)
#: Where Windows locks a byte: far behind the last line, since nobody could read a locked one.
_LOCKED_BYTE: Final = 2**31 - 2


class JournalFile:
    """Hold a file of lines, from :func:`open_journal_file`.

    Any number of threads may append to it. A last line that a crash cut off is not among its lines, and is
    gone after :meth:`repair`.

    Attributes
    ----------
    lines : list of bytes
        What was in it, without line breaks.
    rest : bytes
        What stands behind the last line break.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._appended = self._synced = 0
        self._is_whole = True
        with os.fdopen(os.dup(descriptor), "rb") as file:
            content = file.read()
        whole, _, self.rest = content.rpartition(b"\n")
        self.lines = whole.split(b"\n") if whole else []

    def repair(self) -> None:
        """Cut off the line that was not finished, and put the others on the disk."""
        with self._told():
            if self.rest:
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - len(self.rest))
            os.fsync(self._descriptor)
        self.rest = b""

    def append(self, lines: Sequence[bytes]) -> int:
        """Append lines, which are safe from the end of this process, not yet from that of the machine.

        Parameters
        ----------
        lines : sequence of bytes
            Without line breaks.

        Returns
        -------
        int
            For :meth:`sync`.

        Raises
        ------
        Unavailable
            If the file cannot be written, or could not be before: no line may follow half of one.
        """
        content = memoryview(b"".join(line + b"\n" for line in lines))
        with self._lock:
            if not self._is_whole:
                raise Unavailable(f"journal: {str(self._path)!r} could not be written; begin the run again")
            # An interrupt in between leaves half a line, behind which nothing must be written.
            self._is_whole = False
            with self._told():
                while content:
                    content = content[os.write(self._descriptor, content) :]
            self._is_whole = True
            self._appended += 1
            return self._appended

    def sync(self, appended: int) -> None:
        """Return when what was appended until then is on the disk; threads that wait share one flush."""
        with self._sync_lock:
            if self._synced >= appended:
                return
            reached = self._appended
            with self._told():
                os.fsync(self._descriptor)
            self._synced = reached

    def sync_folder(self) -> None:
        """Put the name of a new file on the disk, where the system can do that."""
        with contextlib.suppress(OSError):
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def close(self) -> None:
        """Flush the file and let go of it."""
        with self._lock:
            self._is_whole = False
        try:
            if self._appended > self._synced:
                with self._told():
                    os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(
                f"journal: {str(self._path)!r} cannot be written: {error.strerror}", field="journal"
            ) from error


def open_journal_file(path: str | Path) -> JournalFile:
    """Open a file of lines, or make it, for this run alone.

    Parameters
    ----------
    path : str or Path
        Its folder must be there. A new file can be read by its owner only.

    Returns
    -------
    JournalFile
        To be closed.

    Raises
    ------
    InvalidRequest
        If it is no file, or cannot be opened.
    Unavailable
        If another run holds it.
    """
    path = Path(path).expanduser().absolute()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, 0o600)
    except OSError as error:
        raise InvalidRequest(
            f"journal: {str(path)!r} cannot be opened: {error.strerror}", field="journal"
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidRequest(f"journal: {str(path)!r} is no file", field="journal")
        _lock(path, descriptor)
        return JournalFile(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def _lock(path: Path, descriptor: int) -> None:
    """Hold the file until it is closed, or the process ends, in whatever way."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Unavailable(
            f"journal: {str(path)!r} is in use by another run; wait for its end, or name another file",
            field="journal",
        ) from error
