"""Extracts identities from loaded records and assigns them to users."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.records.sources import literal
from attrib_ds.service.identity.merging import merge
from attrib_ds.service.identity.resolution import TRACKER, VENDOR, read_identified

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import duckdb

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


def identities_query(connection: duckdb.DuckDBPyConnection, source: IdentitySource, *, also: str = "") -> str:
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
    connection: duckdb.DuckDBPyConnection, source: IdentitySource, now: datetime, *, may_merge: bool = True
) -> None:
    """Assign the identities in loaded records to their users (R004, R005).

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
        "INSERT INTO identities SELECT kind, value, "
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
    connection.execute("DROP TABLE temp.loaded_identities")
    if may_merge:
        merge(connection, _merges(connection, contested), now)


def _merges(connection: duckdb.DuckDBPyConnection, contested: list[tuple[str, str]]) -> dict[str, str]:
    """Return the surviving user by merged user, for pairs of which at most one is identified."""
    people = [user for pair in contested for user in pair]
    identified = read_identified(connection, people)
    created = connection.execute(
        "SELECT _id, (createdAt, _id) FROM users WHERE _id IN (SELECT unnest(?))", [people]
    )
    ages: Mapping[str, Any] = dict(created.fetchall())
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


def _identity_kinds(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the kind of identity by member of user data."""
    declared = connection.execute("SELECT fields FROM event_types ORDER BY createdAt, reference").fetchall()
    kinds = dict(_ALWAYS)
    for (fields,) in declared:
        for field in json.loads(fields):
            key = field["storageKey"]
            if field["entity"] != "user" or key in kinds:
                continue
            if field["type"] == "email" or field["discriminant"]:
                kinds[key] = field["type"] if field["type"] in {"email", "phone"} else key
    return kinds
