"""Remembers queries that took long to compile."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_MOST: Final = 256


class Compiled:
    """The SQL of queries by what they were compiled for, the latest of them.

    May be used from any thread.

    Examples
    --------
    >>> queries = Compiled()
    >>> queries.get("one", lambda: "SELECT 1"), queries.get("one", lambda: "SELECT 2")
    ('SELECT 1', 'SELECT 1')
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[Hashable, str] = {}

    def get(self, key: Hashable, compile_anew: Callable[[], str]) -> str:
        """Return the query of a key.

        Parameters
        ----------
        key : hashable
            Everything that the query depends on.
        compile_anew : callable
            Returns the query, where it is not known.

        Returns
        -------
        str
            SQL.
        """
        with self._lock:
            known = self._queries.get(key)
        if known is not None:
            return known
        query = compile_anew()
        with self._lock:
            self._queries[key] = query
            while len(self._queries) > _MOST:
                del self._queries[next(iter(self._queries))]
        return query
