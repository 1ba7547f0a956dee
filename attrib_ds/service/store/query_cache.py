"""A cache of compiled queries."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_CAPACITY: Final = 256


class QueryCache:
    """A bounded cache of SQL queries that are slow to compile; safe for use by many threads.

    Examples
    --------
    >>> queries = QueryCache()
    >>> queries.get("one", lambda: "SELECT 1"), queries.get("one", lambda: "SELECT 2")
    ('SELECT 1', 'SELECT 1')
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[Hashable, str] = {}

    def get(self, key: Hashable, compile_query: Callable[[], str]) -> str:
        """Return the cached query of a key; compile it on a miss.

        Parameters
        ----------
        key : hashable
            All values that the query depends on.
        compile_query : callable
            Returns the query; called on a miss.

        Returns
        -------
        str
            SQL.
        """
        with self._lock:
            cached = self._queries.get(key)
        if cached is not None:
            return cached
        query = compile_query()
        with self._lock:
            self._queries[key] = query
            while len(self._queries) > _CAPACITY:
                del self._queries[next(iter(self._queries))]
        return query
