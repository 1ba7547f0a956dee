"""Background threads that end before the interpreter exits.

A daemon thread that returns from DuckDB when the interpreter is gone is ended inside C++ code, and the
process aborts. The interpreter joins other threads before it runs finalizers, which would tell them to end.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS_TO_END: Final = 10.0


class Stoppable(Protocol):
    """Something that runs background threads."""

    def stop(self) -> None:
        """Tell its threads to end soon; idempotent."""
        ...


#: What runs in this process. Garbage collection does not wait for it.
_OWNERS: Final[weakref.WeakSet[Stoppable]] = weakref.WeakSet()
#: Apart from their owners: a thread may be the one that drops the last reference to its owner.
_THREADS: Final[weakref.WeakSet[threading.Thread]] = weakref.WeakSet()


def start_thread(owner: Stoppable, work: Callable[[], object], *, name: str) -> threading.Thread:
    """Start a thread that is stopped and joined when the interpreter exits."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    _OWNERS.add(owner)
    _THREADS.add(thread)
    thread.start()
    return thread


@atexit.register
def _end_all() -> None:
    for owner in list(_OWNERS):
        owner.stop()
    for thread in list(_THREADS):
        thread.join(_SECONDS_TO_END)
