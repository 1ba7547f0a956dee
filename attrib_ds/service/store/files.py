"""The files of a project: their names and permissions, the counter of writes, and advice on errors.

A folder is readable by its owner only (0700), and so is every file in it (0600). DuckDB and SQLite open a
file whose write-ahead log was cut or removed without an error. So a counter beside the file has the number of
acknowledged writes: of transactions, and of records that the queue accepted.
"""

import os
import re
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import duckdb

from attrib_ds import errors, local_files

#: Advice for a file that cannot be read any more.
DAMAGED: Final = "the file is damaged; put a backup in its place with `attrib-ds restore`"
_FULL: Final = "the disk is full; free some space, then try again: nothing that was accepted is lost"
#: Advice by the pattern of the error message.
_ADVICE: Final = {
    "No space left on device|File too large|Disk quota exceeded|not enough space|"
    "SQLITE_FULL|SQLITE_IOERR_WRITE": _FULL,
    "Read-only file system|Permission denied|Operation not permitted|SQLITE_(READONLY|CANTOPEN)": (
        "the file or its folder is not writable, or another program has it open; change the permissions or "
        "close the program, then try again"
    ),
    # A file from which not all bytes can be read is shorter than it says.
    "[Cc]hecksum|[Cc]orrupt|Could not read (enough|all) bytes|SQLITE_CORRUPT|SQLITE_NOTADB": DAMAGED,
    "Out of Memory|failed to allocate|could not allocate": (
        "there is not enough memory; ask for less at once, or set ATTRIB_DS_MEMORY to more, such as 4GB"
    ),
}
_OTHERS: Final = 0o077
#: Place of the release in the header of a file.
_RELEASE: Final = slice(52, 84)
_umask_lock: Final = threading.Lock()
_WIDTH: Final = 20
_CONTENT: Final = re.compile(rb"[0-9]{%d}\n" % _WIDTH)
_creation_lock: Final = threading.Lock()


def log_of(file: Path) -> Path:
    """Return the path of DuckDB's write-ahead log of a file."""
    return _beside(file, ".wal")


def queue_of(file: Path) -> Path:
    """Return the path of the queue of a file."""
    return _beside(file, ".queue")


def counter_of(file: Path) -> Path:
    """Return the path of the write counter of a file."""
    return _beside(file, ".writes")


def earlier_log_of(file: Path) -> Path:
    """Return the path of the log in which releases before the queue kept accepted events."""
    return _beside(file, ".intake")


def queue_files(file: Path) -> list[Path]:
    """Return the paths of the queue of a file and of SQLite's files beside it."""
    return [_beside(file, f".queue{ending}") for ending in ("", "-wal", "-shm")]


def logs_of(file: Path) -> list[Path]:
    """Return the paths of all files with writes that the file itself may lack.

    DuckDB has further logs during a checkpoint and a recovery.
    """
    logs = [_beside(file, f".wal{ending}") for ending in ("", ".checkpoint", ".recovery")]
    return [*logs, *queue_files(file), earlier_log_of(file)]


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(f"{file.name}{ending}")


def written_by(file: Path) -> str:
    """Return the release of DuckDB that created a file, which its header names."""
    with file.open("rb") as source:
        header = source.read(_RELEASE.stop)
    return header[_RELEASE].rstrip(b"\0").decode("ascii", "replace").removeprefix("v")


def with_advice(error: Exception) -> str:
    """Return the message of an error, followed by advice if its cause is known.

    Examples
    --------
    >>> with_advice(OSError(28, "No space left on device"))  # doctest: +NORMALIZE_WHITESPACE
    '[Errno 28] No space left on device (the disk is full; free some space, then try again:
     nothing that was accepted is lost)'
    """
    message = str(error)
    if isinstance(error, sqlite3.Error):
        message = f"{message} ({getattr(error, 'sqlite_errorname', 'SQLITE_ERROR')})"
    advice = next((advice for pattern, advice in _ADVICE.items() if re.search(pattern, message)), None)
    return message if advice is None else f"{message} ({advice})"


def is_of_file(error: BaseException | None) -> bool:
    """Whether an error is about the file, not about what was asked of it.

    DuckDB 2 has no class of its own for a damaged block.
    """
    return isinstance(error, duckdb.IOException) or "Corrupt database" in str(error)


def failure(problem: str, error: Exception) -> errors.AttribError:
    """Return the error of a database that failed: the service can be asked again when the disk has room.

    Examples
    --------
    >>> failure("the file could not be written", OSError(28, "No space left on device")).status
    503
    >>> failure("the file could not be read", OSError(5, "Input/output error")).status
    500
    """
    message = with_advice(error)
    kind = errors.Unavailable if _FULL in message else errors.ServiceFailure
    return kind(f"{problem}: {message}")


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


def create_private_folder(folder: Path) -> None:
    """Create a folder, and those above it, for its owner only; an existing folder keeps its permissions."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def create_private_file(file: Path) -> None:
    """Create an empty file for its owner only, unless it exists."""
    # On Windows, a file that DuckDB has open cannot be opened again.
    if not file.exists():
        os.close(local_files.open_private(file, os.O_CREAT | os.O_RDWR))


@contextmanager
def locked(file: Path, *, insist: bool = True) -> Iterator[None]:
    """Keep DuckDB of other processes from opening a file while the block runs.

    DuckDB of this process must not have it open: its own lock would be lost. A virus scanner may
    have it open for a moment, so it is tried again unless ``insist`` is False.

    Raises
    ------
    ProjectInUse
        If a process has it open, or it cannot be written.
    """
    with ExitStack() as stack:
        try:
            # On Windows, DuckDB lets nobody else open its file.
            opened = local_files.insist(lambda: file.open("r+b")) if insist else file.open("r+b")
            handle = stack.enter_context(opened)
            if os.name == "posix":
                import fcntl

                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                # An open file cannot be replaced there, by this process or by any other.
                stack.close()
        except OSError as error:
            raise errors.ProjectInUse(f"path: {str(file)!r} is in use, or not writable: {error}") from error
        yield


def is_held(file: Path) -> bool:
    """Return whether another process has a database file open, for which DuckDB did not open it.

    It may be written, and nevertheless cannot be locked. The error of the system is in the user's language.
    """
    try:
        with locked(file, insist=False):
            return False
    except errors.ProjectInUse:
        return file.is_file() and os.access(file, os.R_OK | os.W_OK)


@contextmanager
def private_creation() -> Iterator[None]:
    """Make files that a library creates inside the block readable by their owner only.

    The mask holds for the whole process. Another thread that creates a file meanwhile gets one that is
    readable by its owner only, too.
    """
    with _umask_lock:
        before = os.umask(_OTHERS)
        try:
            yield
        finally:
            os.umask(before)


def withdraw_permissions(file: Path) -> None:
    """Withdraw the permissions of others on an existing file, if this user may; devices keep theirs."""
    with suppress(OSError):
        mode = file.stat().st_mode
        if stat.S_ISREG(mode) and mode & _OTHERS:
            file.chmod(mode & ~_OTHERS & 0o777)


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
        raise errors.Unavailable(
            f"path: the write counter {str(path)!r} cannot be read: {with_advice(error)}"
        ) from error
    if content == b"":
        return None
    if content is None or not _CONTENT.fullmatch(content):
        raise _unreadable(path, f"expected a file of {_WIDTH} digits")
    return int(content)


def _unreadable(path: Path, problem: str) -> errors.Unavailable:
    return errors.Unavailable(
        f"path: the write counter {str(path)!r} cannot be read: {problem}. Without it, lost writes cannot be "
        "detected; remove it to open the project nevertheless"
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
        Transactions in the file, and records that its queue accepted.

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
        raise errors.Unavailable(
            f"path: {str(file)!r} lacks {counted - writes:,} of {counted:,} acknowledged writes; its "
            "write-ahead log or its queue was cut, removed or replaced. Put it back, or a backup "
            f"(`attrib-ds restore`). To go on without those writes, remove {str(counter_of(file))!r}"
        )


class WriteCounter:
    """Writes the number of acknowledged writes beside a file; thread-safe.

    Parameters
    ----------
    file : Path
        File of the project, open for writing.
    writes : int
        Transactions in the file.
    accepted : int
        Records that its queue accepted.
    """

    def __init__(self, file: Path, *, writes: int, accepted: int) -> None:
        path = _create_counter(counter_of(file), writes + accepted)
        self._sink = local_files.insist(lambda: path.open("r+b", buffering=0))
        self._lock = threading.Lock()
        self._writes = writes
        self._accepted = accepted

    def set_writes(self, writes: int) -> None:
        """Record a commit, after it is durable.

        The counter is not flushed to the disk. After a power failure it may be too low, and never too high.
        """
        with self._lock:
            self._writes = writes
            self._write()

    def set_accepted(self, accepted: int) -> None:
        """Record what the queue has accepted, after it is durable."""
        with self._lock:
            self._accepted = accepted
            self._write()

    def _write(self) -> None:
        # What was written stands even if it cannot be counted; ValueError if the file is closed.
        with suppress(OSError, ValueError):
            self._sink.seek(0)
            self._sink.write(_content(self._writes + self._accepted))

    def close(self) -> None:
        """Close the file; it stays beside that of the project."""
        self._sink.close()


def _content(writes: int) -> bytes:
    return b"%0*d\n" % (_WIDTH, writes)


def _create_counter(path: Path, writes: int) -> Path:
    """Create a counter unless there is one.

    It is never empty, not even after a power failure: that would refuse a file with transactions.
    """
    # Other threads of this process may open the file at the same time; other processes cannot.
    with _creation_lock:
        if not path.exists():
            with local_files.replacing(path, private=True) as sink:
                sink.write(_content(writes))
    return path
