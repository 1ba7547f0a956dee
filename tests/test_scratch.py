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


def test_a_database_is_dropped_with_its_connection():
    connection, other = scratch.open_database(), scratch.open_database()
    names = {each.execute("SELECT current_database()").fetchall()[0] for each in (connection, other)}
    for each in (connection, other):
        each.execute("CREATE TABLE rows AS SELECT 1 AS visits")
    assert len(names) == 2
    assert names <= _databases()
    other.close()
    del connection, other, each
    assert not names & _databases()


def _databases():
    return set(scratch.connect().execute("SELECT database_name FROM duckdb_databases()").fetchall())


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


@pytest.mark.slow
def test_a_result_that_waits_on_the_users_own_connection_stays():
    program = (
        "import duckdb, pandas as pd, attrib_ds as at\n"
        "rules = pd.DataFrame({'channel': ['Search'], 'source': ['goo.*']})\n"
        "duckdb.execute('SELECT 42')\n"
        "clicks = pd.DataFrame({'user': ['u'], 'source': ['google'], 'medium': ['cpc'],\n"
        "                       'time (Europe/Paris)': ['2025-09-01 10:00']})\n"
        "orders = pd.DataFrame({'order_id': [7], 'user': ['u'], 'date': ['2025-09-02 10:00'], 'total': [5.0]})\n"
        "at.read_journeys(clicks, orders, channels=rules, currency='EUR')\n"
        "print(duckdb.fetchall())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("[(42,)]\n"), done.stderr
