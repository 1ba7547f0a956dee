"""Create local files, privately where needed, and translate errors such as a full disk."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from typing import Final

from attrib_ds.errors import AttribError, Unavailable

_OWNER_ONLY: Final = 0o600


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


def flush_folder(folder: str | PathLike[str]) -> None:
    """Make the names of new files in a folder durable."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
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
