"""Maintains ``userLifetimeIndex``, the position of interactions among those of their user."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def renumber(connection: duckdb.DuckDBPyConnection, users: str) -> None:
    """Recompute ``userLifetimeIndex`` of the interactions of users (G-061).

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that changed interactions.
    users : str
        SQL query of user ids.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> visits = "('2', 'anna', TIMESTAMP '2025-01-01'), ('1', 'anna', TIMESTAMP '2025-01-02')"
    >>> def job(connection):
    ...     connection.execute(f"INSERT INTO interactions (_id, userId, startDate) VALUES {visits}")
    ...     renumber(connection, "SELECT 'anna'")
    ...     return connection.execute("SELECT _id, userLifetimeIndex FROM interactions ORDER BY 2").fetchall()
    >>> store.write(job)
    [('2', 1), ('1', 2)]
    >>> store.close()
    """
    connection.execute(
        "UPDATE interactions SET userLifetimeIndex = ranked.position FROM ("
        'SELECT _id, row_number() OVER (PARTITION BY "userId" ORDER BY "startDate", _id) AS position '
        f"FROM interactions WHERE userId IN ({users})) AS ranked WHERE interactions._id = ranked._id "
        "AND interactions.userLifetimeIndex IS DISTINCT FROM ranked.position"
    )
