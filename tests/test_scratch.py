"""The database for temporary tables that a process shares."""

import duckdb

from attrib_ds import scratch


class Ended:
    """A connection to a database that an internal error has ended after it was opened."""

    def execute(self, query, parameters=()):
        if query == "SELECT 1":
            raise duckdb.FatalException("database has been invalidated because of a previous fatal error")

    def cursor(self):
        return self

    def close(self):
        """Close nothing."""


def test_a_database_that_an_internal_error_ended_is_replaced(monkeypatch):
    ended, connect = [Ended()], duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda: ended.pop() if ended else connect())
    scratch._database.cache_clear()
    assert scratch.connect().execute("SELECT 41 + 1").fetchall() == [(42,)]
    assert not ended
    # The new one is kept.
    assert scratch._database.cache_info().currsize == 1
