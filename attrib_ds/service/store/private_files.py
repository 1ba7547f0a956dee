"""Creates files and folders that only their owner may read, durably (G-233)."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from attrib_ds.local_files import open_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OTHERS: Final = 0o077
_umask_lock: Final = threading.Lock()


def create_private_folder(folder: Path) -> None:
    """Create a folder, and those above it, for its owner only; an existing folder keeps its permissions."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def create_private_file(file: Path) -> None:
    """Create an empty file for its owner only, unless it exists."""
    os.close(open_private(file, os.O_CREAT | os.O_RDWR))


def flush_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
