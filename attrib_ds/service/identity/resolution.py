"""Finds the user behind what identifies one: an email, a phone number, a tracker."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.service.identity.merging import merge
from attrib_ds.service.store.batches import insert_records, lent, naive

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb

    from attrib_ds.service.store.ids import HexIds

    #: Kind and value of what identifies a user: ``("email", "anna@example.com")``.
    Pair = tuple[str, str]

#: Identifies a browser, not a person: it follows whoever used it last (G-147).
TRACKER: Final = "trackerId"


def resolve(connection: duckdb.DuckDBPyConnection, ids: HexIds, pairs: Sequence[Pair]) -> str:
    """Return the user whom identities belong to, a new one where none is known.

    Identities that nobody holds are the user's from then on. An anonymous user of the same browser is
    merged into the holder of the others (G-147).

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
    >>> from attrib_ds.service.store.store import Store
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
        One user per record: who it is when all of them are resolved.
    """
    asked = list(dict.fromkeys(pair for pairs in people for pair in pairs))
    before = _holders(connection, asked)
    known = _Known(dict(before), read_identified(connection, before.values()))
    users = [known.resolve(ids, pairs) for pairs in people]
    # Who was new in this batch and merged at once has left no trace.
    stored = known.merged.keys() & set(before.values())
    merge(connection, {gone: known.final(gone) for gone in stored}, naive(datetime.now(UTC)))
    _keep(connection, known, before)
    return [known.final(user) for user in users]


@dataclass
class _Known:
    """Who holds which identities, while the records of a batch are resolved."""

    holders: dict[Pair, str]
    identified: set[str]
    #: Who survives whom.
    merged: dict[str, str] = field(default_factory=dict)

    def final(self, user: str) -> str:
        while user in self.merged:
            user = self.merged[user]
        return user

    def resolve(self, ids: HexIds, pairs: Sequence[Pair]) -> str:
        personal = [pair for pair in pairs if pair[0] != TRACKER]
        people = [self.final(self.holders[pair]) for pair in personal if pair in self.holders]
        browsers = [
            self.final(self.holders[pair]) for pair in pairs if pair[0] == TRACKER and pair in self.holders
        ]
        anonymous = [user for user in browsers if user not in self.identified]
        # Someone whose identities are new is the person behind the browser, unless that is known as another.
        candidates = people or (anonymous if personal else browsers)
        user = candidates[0] if candidates else ids.new()
        if people:
            self.merged |= {other: user for other in anonymous if other != user}
        for pair in pairs:
            if pair[0] == TRACKER:
                self.holders[pair] = user
            else:
                self.holders.setdefault(pair, user)
        if personal:
            self.identified.add(user)
        return user


def _keep(connection: duckdb.DuckDBPyConnection, known: _Known, before: dict[Pair, str]) -> None:
    """Store the identities that are new, and the trackers that others have used."""
    now_held = {pair: known.final(user) for pair, user in known.holders.items()}
    columns = ("kind", "value", "userId")
    new = [(*pair, user) for pair, user in now_held.items() if pair not in before]
    insert_records(connection, "identities", [dict(zip(columns, each, strict=True)) for each in new])
    # What was merged away has given its identities to the survivor already.
    moved = [
        (*pair, user)
        for pair, user in now_held.items()
        if pair in before and known.final(before[pair]) != user
    ]
    if moved:
        rows = [pa.array(each, pa.string()) for each in zip(*moved, strict=True)]
        with lent(connection, pa.table(rows, names=["kind", "value", "holder"])) as view:
            connection.execute(
                f"UPDATE identities SET userId = holder FROM {view} AS moved "
                "WHERE identities.kind = moved.kind AND identities.value = moved.value"
            )


def _holders(connection: duckdb.DuckDBPyConnection, asked: Sequence[Pair]) -> dict[Pair, str]:
    """Return the users of those identities that somebody holds."""
    if not asked:
        return {}
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
    return {(kind, value): user for kind, value, user in found}


def read_identified(connection: duckdb.DuckDBPyConnection, users: Iterable[str]) -> set[str]:
    """Return which users are known by more than a browser or by what was loaded without a name."""
    asked = list(dict.fromkeys(users))
    if not asked:
        return set()
    named = connection.execute(
        "SELECT DISTINCT userId FROM identities WHERE kind <> ? AND userId IN (SELECT unnest(?))",
        [TRACKER, asked],
    ).fetchall()
    return {user for (user,) in named}
