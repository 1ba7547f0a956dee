"""Holding up the writer of a project, so that what is accepted stays in its queue."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attrib_ds.service import Service


@contextmanager
def held(service: Service) -> Iterator[None]:
    """Hold up the writer of a service."""
    is_begun, may_end = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        is_begun.set()
        may_end.wait(30)

    thread = threading.Thread(target=service._store.write, args=(wait,))
    thread.start()
    assert is_begun.wait(30)
    try:
        yield
    finally:
        may_end.set()
        thread.join()
