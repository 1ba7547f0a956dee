"""Maintains the list of users: everyone with an event or interaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb


def register(connection: duckdb.DuckDBPyConnection, rows: str, values: Sequence[object] = ()) -> None:
    """Add the users of new rows to the list.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that writes the rows.
    rows : str
        Relation in SQL, for a FROM clause, with the columns ``userId`` and ``seen``, the time of receipt.
    values : sequence of object, optional
        Parameters of the relation.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> days = "('anna', TIMESTAMP '2025-01-02'), ('anna', TIMESTAMP '2025-01-01')"
    >>> rows = f"(VALUES {days}) rows (userId, seen)"
    >>> listed = "SELECT _id, createdAt::DATE::TEXT FROM users"
    >>> for _ in range(2):
    ...     store.write(lambda connection: register(connection, rows))
    >>> store.write(lambda connection: connection.execute(listed).fetchall())
    [('anna', '2025-01-01')]
    >>> store.close()
    """
    connection.execute(
        f"INSERT INTO users SELECT userId, min(seen) FROM (SELECT * FROM {rows}) AS rows "
        "ANTI JOIN users ON users._id = rows.userId WHERE userId IS NOT NULL GROUP BY userId ORDER BY userId",
        list(values),
    )


def remove_absent(connection: duckdb.DuckDBPyConnection, rows: str) -> None:
    """Remove users without records from the list, with their identities.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that deleted or moved records.
    rows : str
        Relation in SQL, for a FROM clause, with the column ``userId``: former users of the records.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> gone = "(VALUES ('anna')) rows (userId)"
    >>> def job(connection):
    ...     register(connection, "(VALUES ('anna', TIMESTAMP '2025-01-02')) rows (userId, seen)")
    ...     remove_absent(connection, gone)
    ...     return connection.execute("SELECT count(*) FROM users").fetchall()
    >>> store.write(job)
    [(0,)]
    >>> store.close()
    """
    connection.execute(
        # Joins, which hash the few users; NOT IN would hash those of all records.
        f"CREATE TEMP TABLE absent AS SELECT DISTINCT userId FROM {rows} "
        "ANTI JOIN interactions USING (userId) ANTI JOIN events USING (userId)"
    )
    connection.execute("DELETE FROM users WHERE _id IN (SELECT userId FROM temp.absent)")
    for table in ("identities", "merged_users"):
        connection.execute(f"DELETE FROM {table} WHERE userId IN (SELECT userId FROM temp.absent)")
    connection.execute("DROP TABLE temp.absent")
