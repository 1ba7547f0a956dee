"""Create local files, privately where needed, and translate errors such as a full disk."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, TypeVar, cast
from uuid import uuid4

from attrib_ds.errors import AttribError, Unavailable

T = TypeVar("T")

_OWNER_ONLY: Final = 0o600
#: Pauses between attempts to replace a file, in seconds.
_PAUSES: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0)


def open_private(path: str | PathLike[str], flags: int) -> int:
    """Open a file, and let only its owner read it if it is new; also an ``opener`` of :func:`open`.

    Parameters
    ----------
    path : path-like
        The file.
    flags : int
        Flags of :func:`os.open`; with ``os.O_CREAT`` the file is created.

    Returns
    -------
    int
        The file descriptor.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "key.json"
    ...     os.close(open_private(path, os.O_CREAT | os.O_WRONLY))
    ...     print(oct(path.stat().st_mode & 0o777))
    0o600
    """
    return os.open(path, flags, _OWNER_ONLY)


def writing(path: str | PathLike[str], *, argument: str) -> AbstractContextManager[None]:
    """Raise :exc:`Unavailable` for a file that cannot be written in the block.

    Parameters
    ----------
    path : path-like
        The file.
    argument : str
        The argument with its path.

    Examples
    --------
    >>> with writing("users.csv", argument="path"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    attrib_ds.errors.Unavailable: path: 'users.csv' cannot be written: No space left on device
    """
    return _translating(
        lambda problem: Unavailable(f"{argument}: {str(path)!r} cannot be written: {problem}")
    )


def writing_temporarily() -> AbstractContextManager[None]:
    """Raise :exc:`Unavailable` for a temporary file that cannot be written in the block."""
    return _translating(
        lambda problem: Unavailable(
            f"a file in the temporary folder {tempfile.gettempdir()!r} cannot be written: {problem}; "
            "free space there, or set TMPDIR to another folder"
        )
    )


@contextmanager
def spooling() -> Iterator[BinaryIO]:
    """Open a temporary file, which closing deletes; it stays open unless the block raises."""
    with writing_temporarily():
        file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115  (closed by whoever reads it)
    try:
        yield file
    except BaseException:
        discard(file)
        raise


def replace(source: Path, target: Path, *, check: Callable[[], object] = bool) -> None:
    """Rename a file, in the place of another one if there is one.

    Windows refuses that while a program has one of them open, as virus scanners, indexers and services that
    synchronise folders do for moments. So it is tried again for some seconds.

    Parameters
    ----------
    source, target : Path
        In the same folder.
    check : callable, optional
        Called before each attempt; what it raises ends them.

    Raises
    ------
    OSError
        If the file cannot be renamed; both are as they were.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     part, path = Path(folder, ".part"), Path(folder, "users.csv")
    ...     _ = part.write_text("_id")
    ...     replace(part, path)
    ...     print(path.read_text())
    _id
    """

    def attempt() -> None:
        check()
        source.replace(target)

    insist(attempt)


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that is given a path when the block ends; if anything fails, the path stays as it was.

    Parameters
    ----------
    path : Path
        In an existing folder. A pipe or device is written directly.
    private : bool, default False
        Whether its owner only may read the file; otherwise it has the usual permissions.

    Raises
    ------
    OSError
        If the file cannot be written, or not be given the path within some seconds, as in :func:`replace`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "users.csv")) as file:
    ...         _ = file.write(b"_id")
    ...     [(path.name, path.read_bytes()) for path in Path(folder).iterdir()]
    [('users.csv', b'_id')]
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as sink:
            yield sink
        return
    part = path.with_name(f".{path.name.removeprefix('.')}.{uuid4().hex}.part")
    try:
        with open(part, "xb", opener=open_private if private else None) as sink:
            yield sink
            sink.flush()
            flush(sink.fileno())
        replace(part, path)
    finally:
        clear([part])


def remove(path: Path) -> None:
    """Remove a file, if there is one; it is tried again as in :func:`replace`.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    OSError
        If it cannot be removed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     remove(Path(folder, "users.csv"))
    """
    insist(lambda: path.unlink(missing_ok=True))


def clear(paths: Iterable[Path]) -> None:
    """Remove files that nobody needs any more; one that cannot be removed is left.

    Parameters
    ----------
    paths : iterable of Path
        The files, which need not exist.
    """
    for path in paths:
        with suppress(OSError):
            remove(path)


def insist(attempt: Callable[[], T]) -> T:
    """Return the result of opening, renaming or removing a file, tried again as in :func:`replace`.

    Parameters
    ----------
    attempt : callable
        What may fail with a :exc:`PermissionError`.

    Returns
    -------
    object
        Its result.

    Examples
    --------
    >>> insist(lambda: 1)
    1
    """
    for pause in _PAUSES:
        with suppress(PermissionError):
            return attempt()
        time.sleep(pause)
    return attempt()


def discard(file: IO[Any]) -> None:
    """Close a file that cannot be written; what it still buffers is lost."""
    with suppress(OSError):
        file.close()


def flush(descriptor: int) -> None:
    """Make what was written to a file durable."""
    if sys.platform == "darwin":
        import fcntl

        # On macOS, fsync leaves the content in the cache of the disk. Some file systems know nothing better.
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def flush_folder(folder: str | PathLike[str]) -> None:
    """Make the names of new files in a folder durable."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            flush(handle)
        finally:
            os.close(handle)


@contextmanager
def _translating(unavailable: Callable[[object], Unavailable]) -> Iterator[None]:
    """Raise ``unavailable(problem)`` for an :exc:`OSError` in the block."""
    try:
        yield
    except AttribError:
        # Some are an OSError too.
        raise
    except OSError as error:
        raise unavailable(error.strerror or error) from error
