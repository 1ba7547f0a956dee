"""Translate errors of writing a local file, such as on a full disk."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrib_ds.errors import AttribError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike


@contextmanager
def writing(path: str | PathLike[str], *, argument: str) -> Iterator[None]:
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
    try:
        yield
    except AttribError:
        # Some are an OSError too.
        raise
    except OSError as error:
        problem = error.strerror or error
        raise Unavailable(
            f"{argument}: {str(path)!r} cannot be written: {problem}", field=argument
        ) from error


@contextmanager
def writing_temporarily() -> Iterator[None]:
    """Raise :exc:`Unavailable` for a temporary file that cannot be written in the block."""
    try:
        yield
    except AttribError:
        raise
    except OSError as error:
        raise Unavailable(
            f"a file in the temporary folder {tempfile.gettempdir()!r} cannot be written: "
            f"{error.strerror or error}; free space there, or set TMPDIR to another folder"
        ) from error
