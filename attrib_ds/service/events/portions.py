"""How many pending events to process in one transaction, while requests wait for the writer."""

from __future__ import annotations

from typing import Final

LARGEST: Final = 1_000
#: Portions of half this size take a third more processor time per event.
SMALLEST: Final = 500
#: How long a request may wait for a transaction of processing.
_SECONDS: Final = 0.15


class Portions:
    """Size of a portion, adjusted to the time that portions take; one thread uses it.

    Examples
    --------
    >>> portions = Portions()
    >>> portions.record(1_000, seconds=0.2)
    >>> portions.size(others_wait=True), portions.size(others_wait=False)
    (500, 1000)
    """

    def __init__(self) -> None:
        self._size = LARGEST

    def size(self, *, others_wait: bool) -> int:
        """Return the largest number of events of the next portion; the maximum if nobody waits."""
        return self._size if others_wait else LARGEST

    def record(self, events: int, *, seconds: float) -> None:
        """Learn how long a transaction took."""
        if seconds > _SECONDS:
            self._size = min(self._size, max(events // 2, SMALLEST))
        elif seconds < _SECONDS / 2 and events >= self._size:
            self._size = min(2 * self._size, LARGEST)
