"""The database for temporary tables that a process shares."""

import subprocess
import sys

import duckdb
import pytest

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


@pytest.mark.slow
def test_duckdb_draws_no_bar_where_python_is_interactive():
    """As in notebooks, which have no file of the main module either."""
    program = (
        "from attrib_ds import scratch\n"
        "from attrib_ds.service.store.store import Store\n"
        "query = \"SELECT current_setting('enable_progress_bar')\"\n"
        "store = Store.open(':memory:', 'shop')\n"
        "with store.cursor() as cursor:\n"
        "    connections = [cursor, scratch.connect(), scratch.open_database()]\n"
        "    print([connection.execute(query).fetchall()[0][0] for connection in connections])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert said.stdout == "[False, False, False]\n"
