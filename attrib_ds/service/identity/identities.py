"""Identities of users: finds users by them and makes new ones, for single events and loaded records."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import instants
from attrib_ds.records.sources import literal
from attrib_ds.service.identity.merging import merge
from attrib_ds.service.store.tables import HexIds, arrow_view, insert_records

#: Kind and value of an identity: ``("email", "anna@example.com")``.
Pair = tuple[str, str]


#: Identifies a browser, not a person: it follows whoever used it last.
TRACKER: Final = "trackerId"
#: SQL condition of identities that go when the hits of their user turn out to be another browser's.
#: Tracker ids of one browser stay together, so that its events may come before or after that.
UNLINKED: Final = (
    f"kind <> '{TRACKER}' OR userId NOT IN "
    f"(SELECT userId FROM identities WHERE kind = '{TRACKER}' GROUP BY userId HAVING count(*) > 1)"
)
VENDOR: Final = "vendorUserId"
#: Prefix of the kinds of identities that anonymous records without a tracker claim.
CLAIMED: Final = "claimed:"


class Person(NamedTuple):
    """The identities of a record.

    Parameters
    ----------
    identities : sequence of tuple
        With normalised values, by priority.
    is_anonymous : bool, default False
        Whether the record came without a token, so that nobody vouches for them.
    """

    identities: Sequence[Pair]
    is_anonymous: bool = False


def resolve(connection: Connection, ids: HexIds, pairs: Sequence[Pair]) -> str:
    """Return the user of a record's identities, or a new user if all of them are unknown.

    Unknown identities are assigned to the user. An anonymous user of the same browser is merged into the
    user of the personal identities.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    ids : HexIds
        Generates the id of a new user.
    pairs : sequence of tuple
        Identities with normalised values, by priority.

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
    return resolve_many(connection, ids, [Person(pairs)])[0]


def resolve_many(connection: Connection, ids: HexIds, people: Sequence[Person]) -> list[str]:
    """Resolve the identities of several records in order.

    An anonymous record creates a user, or belongs to one whom only anonymous records have identified, or to
    the one whose browser sent it. With a personal identity of any other user, it belongs to a pending user:
    that of the browser, or without one, that of all records with the same claim.

    Parameters
    ----------
    connection, ids
        As for :func:`resolve`.
    people : sequence of Person
        Identities of each record.

    Returns
    -------
    list of str
        One user per record, after all merges.
    """
    wanted = {pair for person in people for pair in person.identities}
    wanted |= {
        (f"{CLAIMED}{kind}", value)
        for person in people
        if person.is_anonymous
        for kind, value in person.identities
    }
    before = _holders(connection, wanted)
    stored_users = [user for user, _ in before.values()]
    resolution = _Resolution(
        {pair: user for pair, (user, _) in before.items()},
        read_identified(connection, stored_users),
        read_identified(connection, stored_users, confirmed=True),
    )
    users = [
        (resolution.resolve_anonymous if person.is_anonymous else resolution.resolve)(ids, person.identities)
        for person in people
    ]
    # Users created and merged within this batch were never stored.
    stored = resolution.merged.keys() & set(stored_users)
    merge(connection, {gone: resolution.final(gone) for gone in stored}, instants.naive(instants.now()))
    _store(connection, resolution, before)
    return [resolution.final(user) for user in users]


@dataclass
class _Resolution:
    """Users by identity, while a batch is resolved."""

    holders: dict[Pair, str]
    identified: set[str]
    #: Users whom a record with a token has identified.
    confirmed: set[str]
    #: Surviving user by merged user.
    merged: dict[str, str] = field(default_factory=dict)
    #: Personal identities that a record with a token has shown.
    shown: set[Pair] = field(default_factory=set)

    def final(self, user: str) -> str:
        while user in self.merged:
            user = self.merged[user]
        return user

    def resolve(self, ids: HexIds, pairs: Sequence[Pair]) -> str:
        personal, people, browsers = self._known(pairs)
        people.sort(key=lambda user: user not in self.confirmed)
        anonymous = [user for user in browsers if user not in self.identified]
        # New personal identities belong to the user of the browser, unless that user is identified.
        candidates = people or (anonymous if personal else browsers)
        user = candidates[0] if candidates else ids.new()
        if people:
            # Whom only anonymous records have identified joins, too.
            joining = anonymous + [other for other in people if other not in self.confirmed]
            self.merged |= {other: user for other in joining if other != user}
        for pair in pairs:
            if pair[0] == TRACKER:
                self.holders[pair] = user
            else:
                self.holders.setdefault(pair, user)
        if personal:
            self.identified.add(user)
            self.confirmed.add(user)
            self.shown |= {pair for pair in personal if self.final(self.holders[pair]) == user}
        return user

    def resolve_anonymous(self, ids: HexIds, pairs: Sequence[Pair]) -> str:
        personal, people, browsers = self._known(pairs)
        is_of_another = not self.confirmed.isdisjoint(browsers)
        if any(user in self.confirmed and user not in browsers for user in people):
            # Pending, with nothing but the browser; or without one, with the claim.
            keys = [] if is_of_another else [pair for pair in pairs if pair[0] == TRACKER]
            keys = keys or [(f"{CLAIMED}{kind}", value) for kind, value in personal]
            known = [self.final(self.holders[key]) for key in keys if key in self.holders]
            user = next((user for user in known if user not in self.confirmed), None) or ids.new()
            self.holders |= dict.fromkeys(keys, user)
            return user
        nameless = [user for user in browsers if user not in self.identified]
        candidates = people or (nameless if personal else browsers)
        user = candidates[0] if candidates else ids.new()
        if user in self.confirmed:
            return user
        if people:
            self.merged |= {other: user for other in nameless if other != user}
        if personal:
            self.identified.add(user)
        self.holders |= {pair: user for pair in personal if pair not in self.holders}
        if not is_of_another:
            self.holders |= {pair: user for pair in pairs if pair[0] == TRACKER}
        return user

    def _known(self, pairs: Sequence[Pair]) -> tuple[list[Pair], list[str], list[str]]:
        """Return the personal identities, the users who hold one of them, and the users of the browser."""
        personal = [pair for pair in pairs if pair[0] != TRACKER]
        people, browsers = (
            [self.final(self.holders[pair]) for pair in some if pair in self.holders]
            for some in (personal, [pair for pair in pairs if pair[0] == TRACKER])
        )
        return personal, people, browsers


def _store(connection: Connection, resolution: _Resolution, before: dict[Pair, tuple[str, bool]]) -> None:
    """Store new identities, those that are shown with a token, and trackers that moved to another user."""
    now_held = {pair: resolution.final(user) for pair, user in resolution.holders.items()}
    columns = ("kind", "value", "userId", "isAnonymous")
    new = [
        (*pair, user, pair[0] != TRACKER and pair not in resolution.shown)
        for pair, user in now_held.items()
        if pair not in before
    ]
    insert_records(connection, "identities", [dict(zip(columns, row, strict=True)) for row in new])
    # Merges have moved identities to the survivor already.
    moved = [
        (*pair, user)
        for pair, user in now_held.items()
        if pair in before and resolution.final(before[pair][0]) != user
    ]
    confirmed = [list(pair) for pair in resolution.shown if pair in before and before[pair][1]]
    if confirmed:
        connection.execute(
            "UPDATE identities SET isAnonymous = false WHERE [kind, value] IN (SELECT unnest(?))", [confirmed]
        )
    if moved:
        rows = [pa.array(row, pa.string()) for row in zip(*moved, strict=True)]
        with arrow_view(connection, pa.table(rows, names=["kind", "value", "holder"])) as view:
            connection.execute(
                f"UPDATE identities SET userId = holder FROM {view} AS moved "
                "WHERE identities.kind = moved.kind AND identities.value = moved.value"
            )


def _holders(connection: Connection, wanted: Collection[Pair]) -> dict[Pair, tuple[str, bool]]:
    """Return the users of stored identities, and whether only anonymous records have shown these."""
    if not wanted:
        return {}
    # By value alone, which is faster; few values have several kinds.
    rows = connection.execute(
        "SELECT kind, value, userId, isAnonymous FROM identities WHERE value IN (SELECT unnest(?))",
        [[value for _, value in wanted]],
    ).fetchall()
    return {
        (kind, value): (user, bool(anonymous))
        for kind, value, user, anonymous in rows
        if (kind, value) in wanted
    }


def read_identified(connection: Connection, users: Iterable[str], *, confirmed: bool = False) -> set[str]:
    """Return the users who have a personal identity, or one that was shown with a token."""
    ids = list(dict.fromkeys(users))
    if not ids:
        return set()
    named = connection.execute(
        "SELECT DISTINCT userId FROM identities WHERE kind <> ? AND NOT starts_with(kind, ?) "
        "AND userId IN (SELECT unnest(?)) AND NOT (? AND coalesce(isAnonymous, false))",
        [TRACKER, CLAIMED, ids, confirmed],
    ).fetchall()
    return {user for (user,) in named}


_PHONE: Final = r"\+[0-9]{6,15}"
#: Kind of identity by member of user data, in every project.
_ALWAYS: Final = {"email": "email", VENDOR: VENDOR, TRACKER: TRACKER}
#: Users without loaded records, whose ids the service generated.
_GENERATED: Final = (
    "SELECT _id FROM users WHERE _id IN (SELECT holder FROM temp.contested) "
    "AND _id NOT IN (SELECT userId FROM events WHERE _id NOT IN (SELECT _id FROM raw_events)) "
    "AND _id NOT IN (SELECT userId FROM interactions WHERE type <> 'offline' OR rawUserData IS NULL)"
)


@dataclass(frozen=True)
class IdentitySource:
    """Records and their columns with identities.

    Parameters
    ----------
    rows : str
        Relation in SQL, for a FROM clause, with the columns ``userId`` and those below.
    data, date : str
        Column of a JSON object with identities, and column of the record's date.
    member : str
        JSON path from a member of the object to its value.
    """

    rows: str
    data: str
    date: str
    member: str = ""


def of_interactions(rows: str) -> IdentitySource:
    """Return interactions as a source of identities; ``rows`` is a relation in SQL."""
    return IdentitySource(rows, "userData", "startDate")


def of_events(rows: str) -> IdentitySource:
    """Return events as a source of identities; ``rows`` is a relation in SQL."""
    return IdentitySource(rows, '"user"', "eventDate", ".current")


def identities_query(connection: Connection, source: IdentitySource, *, also: str = "") -> str:
    """Return the query of the identities in records.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to read the declarations of event types.
    source : IdentitySource
        The records.
    also : str, optional
        A further column to select.

    Returns
    -------
    str
        SQL: ``userId``, ``kind``, ``value`` (normalised) and ``seen``, one row per record and identity.
    """
    pairs = []
    further = f"{also}, " if also else ""
    for member, kind in _identity_kinds(connection).items():
        path = literal(f'$."{member}"{source.member}')
        text = f"trim(json_extract_string({source.data}, {path}))"
        if kind == "email":
            value = f"CASE WHEN contains({text}, '@') THEN lower({text}) END"
        elif kind == "phone":
            digits = f"regexp_replace({text}, '[ ().-]', '', 'g')"
            value = f"CASE WHEN regexp_full_match({digits}, {literal(_PHONE)}) THEN {digits} END"
        else:
            value = f"NULLIF({text}, '')"
        pairs.append(f"{{'kind': {literal(kind)}, 'value': {value}}}")
    return (
        f"SELECT {further}userId, pair.kind AS kind, pair.value AS value, seen FROM ("
        f"SELECT {further}userId, {source.date} AS seen, unnest([{', '.join(pairs)}]) AS pair "
        f"FROM {source.rows} "
        f"WHERE {source.data} IS NOT NULL AND {source.data} <> '{{}}') WHERE pair.value IS NOT NULL"
    )


def assign_identities(
    connection: Connection, source: IdentitySource, now: datetime, *, may_merge: bool = True
) -> None:
    """Assign the identities in loaded records to their users.

    An identity belongs to its first user, a browser to its last one. Users loaded under different ids are
    never merged; but a user whose id the service generated for an identity is merged with the loaded user who
    has that identity.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that wrote the records, after them.
    source : IdentitySource
        The records.
    now : datetime
        Current time, naive, in UTC.
    may_merge : bool, default True
        Whether users may be merged.
    """
    connection.execute(
        "CREATE TEMP TABLE loaded_identities AS "
        "SELECT kind, value, userId, min(seen) AS earliest, max(seen) AS latest "
        f"FROM ({identities_query(connection, source)}) GROUP BY ALL"
    )
    # Identities that belong to other users.
    connection.execute(
        "CREATE TEMP TABLE contested AS SELECT kind, value, "
        "arg_max(loaded_identities.userId, (latest, loaded_identities.userId)) AS userId, "
        "identities.userId AS holder "
        "FROM temp.loaded_identities JOIN identities USING (kind, value) "
        "GROUP BY ALL HAVING bool_and(loaded_identities.userId <> identities.userId)"
    )
    connection.execute(
        "INSERT INTO identities (kind, value, userId) SELECT kind, value, "
        f"CASE WHEN kind = {literal(TRACKER)} THEN arg_max(userId, (latest, userId)) "
        "ELSE arg_min(userId, (earliest, userId)) END "
        "FROM temp.loaded_identities ANTI JOIN identities USING (kind, value) "
        "GROUP BY kind, value ORDER BY kind, value"
    )
    contested = connection.execute(
        f"SELECT userId, holder FROM temp.contested WHERE holder IN ({_GENERATED}) "
        f"ORDER BY kind = 'email' DESC, kind = {literal(TRACKER)}, kind, value"
    ).fetchall()
    connection.execute("DROP TABLE temp.contested")
    if may_merge:
        merge(connection, find_merges(connection, contested), now)
    connection.execute(
        "UPDATE identities SET isAnonymous = false FROM temp.loaded_identities AS loaded "
        "WHERE isAnonymous AND identities.kind = loaded.kind AND identities.value = loaded.value"
    )
    connection.execute("DROP TABLE temp.loaded_identities")


def find_merges(connection: Connection, contested: list[tuple[str, str]]) -> dict[str, str]:
    """Return the surviving user by merged user, for pairs of which at most one is identified with a token."""
    people = [user for pair in contested for user in pair]
    identified = read_identified(connection, people, confirmed=True)
    created = connection.execute(
        "SELECT _id, (createdAt, _id) FROM users WHERE _id IN (SELECT unnest(?))", [people]
    )
    # Those who have no record now come last.
    ages: Mapping[str, Any] = {user: (datetime.max, user) for user in people} | dict(created.fetchall())
    survivors: dict[str, str] = {}

    def final(user: str) -> str:
        while user in survivors:
            user = survivors[user]
        return user

    for pair in contested:
        first, second = (final(user) for user in pair)
        if first != second and not {first, second} <= identified:
            older, younger = sorted((first, second), key=lambda user: (user not in identified, ages[user]))
            survivors[younger] = older
    return {gone: final(gone) for gone in survivors}


def _identity_kinds(connection: Connection) -> dict[str, str]:
    """Return the kind of identity by member of user data."""
    declared = connection.execute("SELECT fields FROM event_types ORDER BY createdAt, reference").fetchall()
    kinds = dict(_ALWAYS)
    for (fields,) in declared:
        for declaration in json.loads(fields):
            key, kind = declaration["storageKey"], declaration["type"]
            if declaration["entity"] != "user" or key in kinds:
                continue
            if kind == "email" or declaration["discriminant"]:
                kinds[key] = kind if kind in {"email", "phone"} else key
    return kinds
