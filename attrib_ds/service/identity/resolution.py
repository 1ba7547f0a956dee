"""Identity resolution: finds or creates the user of emails, phone numbers and browsers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds import instants
from attrib_ds.instants import naive
from attrib_ds.service.identity.merging import merge
from attrib_ds.service.store.table_access import arrow_view, insert_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb

    from attrib_ds.service.store.ids import HexIds

    #: Kind and value of an identity: ``("email", "anna@example.com")``.
    Pair = tuple[str, str]

#: Identifies a browser, not a person: it follows whoever used it last (G-147).
TRACKER: Final = "trackerId"
VENDOR: Final = "vendorUserId"


def resolve(connection: duckdb.DuckDBPyConnection, ids: HexIds, pairs: Sequence[Pair]) -> str:
    """Return the user of a record's identities, or a new user if all of them are unknown.

    Unknown identities are assigned to the user. An anonymous user of the same browser is merged into the
    user of the personal identities (G-147).

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    ids : HexIds
        Generates the id of a new user.
    pairs : sequence of tuple
        Identities with normalised values, by priority (G-145).

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
    """Resolve the identities of several records in order.

    Parameters
    ----------
    connection, ids
        As for :func:`resolve`.
    people : sequence of sequence of tuple
        Identities of each record.

    Returns
    -------
    list of str
        One user per record, after all merges.
    """
    identities = list(dict.fromkeys(pair for pairs in people for pair in pairs))
    before = _holders(connection, identities)
    resolution = _Resolution(dict(before), read_identified(connection, before.values()))
    users = [resolution.resolve(ids, pairs) for pairs in people]
    # Users created and merged within this batch were never stored.
    stored = resolution.merged.keys() & set(before.values())
    merge(connection, {gone: resolution.final(gone) for gone in stored}, naive(instants.now()))
    _store(connection, resolution, before)
    return [resolution.final(user) for user in users]


@dataclass
class _Resolution:
    """Users by identity, while a batch is resolved."""

    holders: dict[Pair, str]
    identified: set[str]
    #: Surviving user by merged user.
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
        # New personal identities belong to the user of the browser, unless that user is identified.
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


def _store(connection: duckdb.DuckDBPyConnection, resolution: _Resolution, before: dict[Pair, str]) -> None:
    """Store new identities, and trackers that moved to another user."""
    now_held = {pair: resolution.final(user) for pair, user in resolution.holders.items()}
    columns = ("kind", "value", "userId")
    new = [(*pair, user) for pair, user in now_held.items() if pair not in before]
    insert_records(connection, "identities", [dict(zip(columns, row, strict=True)) for row in new])
    # Merges have moved identities to the survivor already.
    moved = [
        (*pair, user)
        for pair, user in now_held.items()
        if pair in before and resolution.final(before[pair]) != user
    ]
    if moved:
        rows = [pa.array(row, pa.string()) for row in zip(*moved, strict=True)]
        with arrow_view(connection, pa.table(rows, names=["kind", "value", "holder"])) as view:
            connection.execute(
                f"UPDATE identities SET userId = holder FROM {view} AS moved "
                "WHERE identities.kind = moved.kind AND identities.value = moved.value"
            )


def _holders(connection: duckdb.DuckDBPyConnection, pairs: Sequence[Pair]) -> dict[Pair, str]:
    """Return the users of stored identities."""
    if not pairs:
        return {}
    wanted = set(pairs)
    # By value alone, which is faster; few values have several kinds.
    rows = connection.execute(
        "SELECT kind, value, userId FROM identities WHERE value IN (SELECT unnest(?))",
        [[value for _, value in wanted]],
    ).fetchall()
    return {(kind, value): user for kind, value, user in rows if (kind, value) in wanted}


def read_identified(connection: duckdb.DuckDBPyConnection, users: Iterable[str]) -> set[str]:
    """Return the users who have a personal identity."""
    ids = list(dict.fromkeys(users))
    if not ids:
        return set()
    named = connection.execute(
        "SELECT DISTINCT userId FROM identities WHERE kind <> ? AND userId IN (SELECT unnest(?))",
        [TRACKER, ids],
    ).fetchall()
    return {user for (user,) in named}
