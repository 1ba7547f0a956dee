"""Finds the user behind what identifies one: an email, a phone number, a tracker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.service.batches import insert_records, lent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from attrib_ds.service.ids import HexIds

    #: Kind and value of what identifies a user: ``("email", "anna@example.com")``.
    Pair = tuple[str, str]

#: Identifies a browser, not a person: it follows whoever used it last (G-147).
TRACKER: Final = "trackerId"


def resolve(connection: duckdb.DuckDBPyConnection, ids: HexIds, pairs: Sequence[Pair]) -> str:
    """Return the user whom identities belong to, a new one where none is known.

    Identities that nobody holds are the user's from then on.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    ids : HexIds
        Makes the id of a new user.
    pairs : sequence of tuple
        Kind and value of each identity, those that count most first (G-145). Values are normalised.

    Returns
    -------
    str
        Id of the user.

    Examples
    --------
    >>> from attrib_ds.service.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> anna = [("email", "anna@example.com"), ("trackerId", "t1")]
    >>> first = store.write(lambda connection: resolve(connection, store.ids, anna))
    >>> first == store.write(lambda connection: resolve(connection, store.ids, anna[1:]))
    True
    >>> store.close()
    """
    return resolve_many(connection, ids, [pairs])[0]


def resolve_many(
    connection: duckdb.DuckDBPyConnection, ids: HexIds, people: Sequence[Sequence[Pair]]
) -> list[str]:
    """Resolve the identities of several records in order, each seeing what those before it made known.

    Parameters
    ----------
    connection, ids
        As for :func:`resolve`.
    people : sequence of sequence of tuple
        The identities of each record.

    Returns
    -------
    list of str
        One user per record.
    """
    known, identified = _read(connection, people)
    before = dict(known)
    users = [_resolve_one(known, identified, ids, pairs) for pairs in people]
    new = [(*pair, user) for pair, user in known.items() if pair not in before]
    columns = ("kind", "value", "userId")
    insert_records(connection, "identities", [dict(zip(columns, each, strict=True)) for each in new])
    for (kind, value), user in known.items():
        if before.get((kind, value), user) != user:
            connection.execute(
                "UPDATE identities SET userId = ? WHERE kind = ? AND value = ?", [user, kind, value]
            )
    return users


def _resolve_one(known: dict[Pair, str], identified: set[str], ids: HexIds, pairs: Sequence[Pair]) -> str:
    personal = [pair for pair in pairs if pair[0] != TRACKER]
    holders = [known[pair] for pair in personal if pair in known]
    # Someone whose identities are new is the person behind the browser, unless that is known as another.
    browsers = [known[pair] for pair in pairs if pair[0] == TRACKER and pair in known]
    candidates = holders or [user for user in browsers if not (personal and user in identified)]
    user = candidates[0] if candidates else ids.new()
    for pair in pairs:
        if pair[0] == TRACKER:
            known[pair] = user
        else:
            known.setdefault(pair, user)
    if personal:
        identified.add(user)
    return user


def _read(
    connection: duckdb.DuckDBPyConnection, people: Sequence[Sequence[Pair]]
) -> tuple[dict[Pair, str], set[str]]:
    """Return the users of the identities, and which of them are known by more than a browser."""
    asked = list(dict.fromkeys(pair for pairs in people for pair in pairs))
    if not asked:
        return {}, set()
    wanted = pa.table(
        {
            "kind": pa.array([kind for kind, _ in asked], pa.string()),
            "value": pa.array([value for _, value in asked], pa.string()),
        }
    )
    with lent(connection, wanted) as view:
        found = connection.execute(
            f"SELECT kind, value, userId FROM identities SEMI JOIN {view} USING (kind, value)"
        ).fetchall()
    known = {(kind, value): user for kind, value, user in found}
    users = list(dict.fromkeys(known.values()))
    if not users:
        return known, set()
    named = connection.execute(
        "SELECT DISTINCT userId FROM identities WHERE kind <> ? AND userId IN (SELECT unnest(?))",
        [TRACKER, users],
    ).fetchall()
    return known, {user for (user,) in named}
