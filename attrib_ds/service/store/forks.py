"""Keep a forked process away from the database of its parent.

A fork copies the open database, but not its threads. A query in the child may wait for a thread that does not
exist there, and closing the database would write to the parent's file.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Final, Protocol

#: Message for the use of a project in a forked process.
FORKED: Final = (
    "the project was opened before this process was forked; call connect() in the process that needs it, or "
    "start processes with multiprocessing.get_context('spawn')"
)


class Forkable(Protocol):
    """Something that a forked process must not use."""

    def abandon(self) -> None:
        """Refuse any further use, without locks and without touching the database."""
        ...


#: What is open in this process. The module holds state, against the rules of this project, because a fork
#: hook is state of the process: it cannot be unregistered, so one per project would stay for ever. To compare
#: process ids on every use would not keep a destructor in the child from closing the database. Tests
#: need no reset: the set keeps nothing alive.
_OPEN: Final[weakref.WeakSet[Forkable]] = weakref.WeakSet()


def abandon_after_fork(forkable: Forkable) -> None:
    """Call ``abandon`` in every process that is forked from now on."""
    _OPEN.add(forkable)


def leak(connection: object) -> None:
    """Keep a connection for good: its destructor would close the database, even at exit."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _abandon_all() -> None:
    for forkable in list(_OPEN):
        forkable.abandon()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_abandon_all)
