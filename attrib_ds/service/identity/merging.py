"""Users: their register, the numbering of their interactions, merges and splits."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import instants, sql_results
from attrib_ds.contract.users import MergeUsers, SplitUser
from attrib_ds.errors import Conflict, InvalidRequest, NotFound
from attrib_ds.service.store.store import Store, writes
from attrib_ds.service.store.tables import arrow_view


def renumber(connection: Connection, users: str) -> None:
    """Recompute ``userLifetimeIndex`` of the interactions of users.

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


def register(connection: Connection, rows: str, values: Sequence[object] = ()) -> None:
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


def remove_absent(connection: Connection, rows: str, *, forgotten: str = "true") -> None:
    """Remove users without records from the list, with their identities.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that deleted or moved records.
    rows : str
        Relation in SQL, for a FROM clause, with the column ``userId``: former users of the records.
    forgotten : str, default "true"
        SQL condition of the identities to remove; the others lead to the user again when it has a record.

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
    ((count,),) = connection.execute(
        # Joins, which hash the few users; NOT IN would hash those of all records.
        f"CREATE TEMP TABLE absent AS SELECT DISTINCT userId FROM {rows} "
        "ANTI JOIN interactions USING (userId) ANTI JOIN events USING (userId)"
    ).fetchall()
    if count:
        absent = "IN (SELECT userId FROM temp.absent)"
        connection.execute(f"DELETE FROM identities WHERE userId {absent} AND ({forgotten})")
        connection.execute(f"DELETE FROM merged_users WHERE userId {absent}")
        connection.execute(f"DELETE FROM users WHERE _id {absent}")
    connection.execute("DROP TABLE temp.absent")


#: Queries of the records of a user before a merge, by part of the undo data.
_RECORDS: Final = {
    "events": "SELECT userId, list(_id ORDER BY _id) AS records FROM events",
    "interactions": "SELECT userId, list(_id ORDER BY _id) AS records FROM interactions",
    "identities": "SELECT userId, list([kind, value] ORDER BY kind, value) AS records FROM identities",
    "merged": "SELECT userId, list(_id ORDER BY _id) AS records FROM merged_users",
}
#: Users in stored records, and the dates of these.
SEEN: Final = (
    "(SELECT userId, createdAt AS seen FROM events UNION ALL "
    "SELECT userId, coalesce(ingestedAt, startDate) FROM interactions)"
)


def find_survivors(connection: Connection, ids: Collection[str]) -> dict[str, str]:
    """Return the surviving users of merged ids; ids that were not merged are left out.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.
    ids : collection of str
        Ids of users.

    Returns
    -------
    dict of str to str
        Survivors by merged id.
    """
    rows = connection.execute(
        "SELECT _id, userId FROM merged_users WHERE _id IN (SELECT unnest(?))", [list(ids)]
    )
    return dict(rows.fetchall())


def find_survivor(connection: Connection, id: str) -> str:
    """Return the surviving user of an id: the id itself unless it was merged."""
    return find_survivors(connection, [id]).get(id, id)


def surviving(connection: Connection, rows: str) -> str:
    """Return rows with ``userId`` replaced by the surviving user.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read with.
    rows : str
        Relation in SQL, for a FROM clause, with a column ``userId``.

    Returns
    -------
    str
        Relation in SQL; the same text if no user was merged.
    """
    if sql_results.read_row(connection, "SELECT 1 FROM merged_users LIMIT 1") is None:
        return rows
    return (
        "(SELECT records.* REPLACE (coalesce(merged.userId, records.userId) AS userId) "
        f"FROM {rows} AS records LEFT JOIN merged_users AS merged ON merged._id = records.userId)"
    )


def merge(connection: Connection, survivors: Mapping[str, str], now: datetime) -> None:
    """Move all records of users to their survivors, and store the data to undo it.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    survivors : mapping of str to str
        Surviving user by merged user; no user is both.
    now : datetime
        Current time, naive, in UTC.
    """
    if not survivors:
        return
    pairs = pa.table(
        {
            "gone": pa.array(survivors.keys(), pa.string()),
            "survivor": pa.array(survivors.values(), pa.string()),
        }
    )
    with arrow_view(connection, pairs) as view:
        # Copied, since DuckDB cannot reliably join a Python table in an UPDATE.
        connection.execute(f"CREATE TEMP TABLE merging AS FROM {view}")
    joins = " ".join(
        f"LEFT JOIN ({query} WHERE userId IN (SELECT gone FROM temp.merging) GROUP BY userId) AS {part} "
        f"ON {part}.userId = merging.gone"
        for part, query in _RECORDS.items()
    )
    parts = ", ".join(f"'{part}': coalesce({part}.records, [])" for part in _RECORDS)
    connection.execute(
        f"INSERT INTO merged_users SELECT gone, survivor, ?, CAST(to_json({{{parts}}}) AS VARCHAR) "
        f"FROM temp.merging {joins}",
        [now],
    )
    for table in ("merged_users", "identities", "interactions"):
        connection.execute(f"UPDATE {table} SET userId = survivor FROM temp.merging WHERE userId = gone")
    connection.execute(
        "UPDATE events SET userId = survivor, updatedAt = greatest(updatedAt, ?) FROM temp.merging "
        "WHERE userId = gone",
        [now],
    )
    connection.execute(
        "CREATE TEMP TABLE earliest AS SELECT survivor, min(createdAt) AS seen FROM users "
        "JOIN temp.merging ON _id = gone GROUP BY survivor"
    )
    connection.execute(
        "UPDATE users SET createdAt = least(createdAt, seen) FROM temp.earliest WHERE _id = survivor"
    )
    connection.execute("DELETE FROM users WHERE _id IN (SELECT gone FROM temp.merging)")
    register(connection, "(SELECT survivor AS userId, seen FROM temp.earliest)")
    renumber(connection, "SELECT survivor FROM temp.merging")
    connection.execute("DROP TABLE temp.earliest")
    connection.execute("DROP TABLE temp.merging")


def split(connection: Connection, id: str, now: datetime) -> None:
    """Move the records that a merged user had before the merge back to them; later ones stay.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    id : str
        The merged user.
    now : datetime
        Current time, naive, in UTC.

    Raises
    ------
    Conflict
        If none of these records exists any more.
    """
    survivor, undo = connection.execute(
        "SELECT userId, undo FROM merged_users WHERE _id = ?", [id]
    ).fetchall()[0]
    before: dict[str, list[Any]] = json.loads(undo or "{}")
    moved = 0
    for table in ("events", "interactions"):
        later = ", updatedAt = greatest(updatedAt, $now)" if table == "events" else ""
        values = {"id": id, "ids": before.get(table, []), "survivor": survivor}
        updated = connection.execute(
            f"UPDATE {table} SET userId = $id{later} "
            "WHERE _id IN (SELECT unnest($ids)) AND userId = $survivor",
            values | ({"now": now} if later else {}),
        )
        moved += updated.fetchall()[0][0]
    if not moved:
        raise Conflict(
            f"user_id: {id!r} cannot be split: none of its records from before the merge exist any more"
        )
    connection.execute(
        "UPDATE identities SET userId = ? WHERE userId = ? "
        "AND [kind, value] IN (SELECT unnest(CAST(? AS VARCHAR[][])))",
        [id, survivor, before["identities"]],
    )
    connection.execute("DELETE FROM merged_users WHERE _id = ?", [id])
    connection.execute(
        "UPDATE merged_users SET userId = ? WHERE userId = ? AND _id IN (SELECT unnest(?))",
        [id, survivor, before["merged"]],
    )
    connection.execute("DELETE FROM users WHERE _id = ?", [survivor])
    register(connection, f"(SELECT * FROM {SEEN} WHERE userId IN ('{id}', '{survivor}'))")
    renumber(connection, f"VALUES ('{id}'), ('{survivor}')")


def split_off(connection: Connection, id: str, now: datetime) -> bool:
    """Split a merged user as :func:`split` does; return whether any of their records existed."""
    try:
        split(connection, id, now)
    except Conflict:
        return False
    return True


@writes
def merge_users(connection: Connection, _: Store, request: MergeUsers) -> int:
    """Merge a user into another one by request; return 1."""
    survivor = existing(connection, request.id, argument="id")
    gone = existing(connection, request.userId, argument="user_id")
    if gone == survivor:
        raise InvalidRequest(
            f"user_id: {request.userId!r} and {request.id!r} are one user; allowed: another one"
        )
    merge(connection, {gone: survivor}, instants.naive(instants.now()))
    return 1


@writes
def split_user(connection: Connection, _: Store, request: SplitUser) -> int:
    """Split a merged user from its survivor; return 1."""
    survivor = existing(connection, request.id, argument="id")
    merged = find_survivors(connection, [request.userId])
    if merged.get(request.userId) != survivor:
        raise NotFound(f"user_id: {request.userId!r} was not merged into {request.id!r}")
    split(connection, request.userId, instants.naive(instants.now()))
    return 1


def existing(connection: Connection, id: str, *, argument: str = "id") -> str:
    """Return the surviving user of an id; raises NotFound if it does not exist."""
    survivor = find_survivor(connection, id)
    if sql_results.read_row(connection, "SELECT 1 FROM users WHERE _id = ?", [survivor]) is None:
        raise NotFound(f"{argument}: there is no user {id!r}")
    return survivor
