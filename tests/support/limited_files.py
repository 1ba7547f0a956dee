"""Limits the size of files, as a full disk would."""

from contextlib import contextmanager

import pytest


@contextmanager
def full_disk(*, room: int):
    """Let no file of this process grow beyond a size while the block runs."""
    resource = pytest.importorskip("resource", reason="Windows has no limit of file sizes")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
