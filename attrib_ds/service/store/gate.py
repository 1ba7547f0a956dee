"""Lets many work on a project at once, or one alone."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrib_ds.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Gate:
    """Counts who works on something, so that it can be changed while nobody does.

    Who has come in to work with others must not ask to be alone.

    Examples
    --------
    >>> gate = Gate()
    >>> leave = gate.enter()
    >>> with gate.alone(timeout=0.01):
    ...     pass
    Traceback (most recent call last):
        ...
    attrib_ds.errors.Unavailable: requests are still being worked on; try again later
    >>> leave()
    >>> with gate.alone(timeout=0.01):
    ...     pass
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._is_wanted = False

    def enter(self) -> Callable[[], None]:
        """Come in, after whoever is or wants to be alone; return what lets one leave, once."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_wanted)
            self._inside += 1
        is_inside = True

        def leave() -> None:
            nonlocal is_inside
            with self._changed:
                self._inside -= is_inside
                is_inside = False
                self._changed.notify_all()

        return leave

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Work with others, until the block ends."""
        leave = self.enter()
        try:
            yield
        finally:
            leave()

    @contextmanager
    def alone(self, *, timeout: float) -> Iterator[None]:
        """Work alone, until the block ends; nobody comes in from now on.

        Parameters
        ----------
        timeout : float
            Seconds to wait for those who are inside.

        Raises
        ------
        Unavailable
            If they do not leave in time.
        """
        last = time.monotonic() + timeout
        busy = Unavailable("requests are still being worked on; try again later")
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_wanted, timeout):
                raise busy
            self._is_wanted = True
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: not self._inside, max(last - time.monotonic(), 0)):
                    raise busy
            yield
        finally:
            with self._changed:
                self._is_wanted = False
                self._changed.notify_all()
