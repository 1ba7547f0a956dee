"""Learns whose identities are from records that come with their user."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.records.sources import literal
from attrib_ds.service.events.validation import VENDOR
from attrib_ds.service.identity.merging import merge
from attrib_ds.service.identity.resolution import TRACKER, read_identified

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import duckdb

_PHONE: Final = r"\+[0-9]{6,15}"
#: Members of every project's user data that identify, and their kinds.
_ALWAYS: Final = {"email": "email", VENDOR: VENDOR, TRACKER: TRACKER}
#: Users of whom nothing was loaded: the service gave them their ids, not knowing better.
_MADE_HERE: Final = (
    "SELECT _id FROM users WHERE _id IN (SELECT holder FROM temp.contested) "
    "AND _id NOT IN (SELECT userId FROM events WHERE _id NOT IN (SELECT _id FROM raw_events)) "
    "AND _id NOT IN (SELECT userId FROM interactions WHERE type <> 'offline' OR rawUserData IS NULL)"
)


@dataclass(frozen=True)
class Carrying:
    """Where records carry identities.

    Parameters
    ----------
    rows : str
        SQL that stands in a FROM clause, with the columns ``userId`` and those below.
    data, date : str
        Column of the JSON object whose members identify, and column of when.
    member : str
        What follows the name of a member in a JSON path, to its value.
    """

    rows: str
    data: str
    date: str
    member: str = ""


def of_interactions(rows: str) -> Carrying:
    """Return where interactions carry identities; ``rows`` is SQL that stands in a FROM clause."""
    return Carrying(rows, "userData", "startDate")


def of_events(rows: str) -> Carrying:
    """Return where events carry identities; ``rows`` is SQL that stands in a FROM clause."""
    return Carrying(rows, '"user"', "eventDate", ".current")


def carried(connection: duckdb.DuckDBPyConnection, carrying: Carrying, *, also: str = "") -> str:
    """Return the identities that records carry.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        To read with what event types declare.
    carrying : Carrying
        The records.
    also : str, optional
        A further column of theirs.

    Returns
    -------
    str
        SQL query of ``userId``, ``kind``, ``value`` (normalised) and ``seen``, one row per record and
        identity.
    """
    given = []
    further = f"{also}, " if also else ""
    for member, kind in _identifying(connection).items():
        path = literal(f'$."{member}"{carrying.member}')
        text = f"trim(json_extract_string({carrying.data}, {path}))"
        if kind == "email":
            value = f"CASE WHEN contains({text}, '@') THEN lower({text}) END"
        elif kind == "phone":
            digits = f"regexp_replace({text}, '[ ().-]', '', 'g')"
            value = f"CASE WHEN regexp_full_match({digits}, {literal(_PHONE)}) THEN {digits} END"
        else:
            value = f"NULLIF({text}, '')"
        given.append(f"{{'kind': {literal(kind)}, 'value': {value}}}")
    return (
        f"SELECT {further}userId, pair.kind AS kind, pair.value AS value, seen FROM ("
        f"SELECT {further}userId, {carrying.date} AS seen, unnest([{', '.join(given)}]) AS pair "
        f"FROM {carrying.rows} "
        f"WHERE {carrying.data} IS NOT NULL AND {carrying.data} <> '{{}}') WHERE pair.value IS NOT NULL"
    )


def learn(
    connection: duckdb.DuckDBPyConnection, carrying: Carrying, now: datetime, *, uniting: bool = True
) -> None:
    """Make the identities that loaded records carry known (R004, R005).

    Who carried an identity first holds it, and of a browser who used it last. Users that were loaded under
    ids of their own stay apart, whatever they share; but one of whom the service knew no more than an
    identity, when it gave it an id, is merged with the loaded user who carries that.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that wrote the records, after them.
    carrying : Carrying
        The records.
    now : datetime
        The moment, naive, in UTC.
    uniting : bool, default True
        Whether users may be merged at all.
    """
    connection.execute(
        "CREATE TEMP TABLE carried AS SELECT kind, value, userId, min(seen) AS earliest, max(seen) AS latest "
        f"FROM ({carried(connection, carrying)}) GROUP BY ALL"
    )
    # What others hold, or held until somebody else was seen in the same browser.
    connection.execute(
        "CREATE TEMP TABLE contested AS SELECT kind, value, "
        "arg_max(carried.userId, (latest, carried.userId)) AS userId, identities.userId AS holder "
        "FROM temp.carried JOIN identities USING (kind, value) "
        "GROUP BY ALL HAVING bool_and(carried.userId <> identities.userId)"
    )
    connection.execute(
        "INSERT INTO identities SELECT kind, value, "
        f"CASE WHEN kind = {literal(TRACKER)} THEN arg_max(userId, (latest, userId)) "
        "ELSE arg_min(userId, (earliest, userId)) END "
        "FROM temp.carried ANTI JOIN identities USING (kind, value) GROUP BY kind, value ORDER BY kind, value"
    )
    contested = connection.execute(
        f"SELECT userId, holder FROM temp.contested WHERE holder IN ({_MADE_HERE}) "
        f"ORDER BY kind = 'email' DESC, kind = {literal(TRACKER)}, kind, value"
    ).fetchall()
    connection.execute("DROP TABLE temp.contested")
    connection.execute("DROP TABLE temp.carried")
    if uniting:
        merge(connection, _united(connection, contested), now)


def _united(connection: duckdb.DuckDBPyConnection, contested: list[tuple[str, str]]) -> dict[str, str]:
    """Return who survives whom, of pairs of users who are one unless both are known as somebody."""
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


def _identifying(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the members of user data that identify, and the kind of identity that each is."""
    declared = connection.execute("SELECT fields FROM event_types ORDER BY createdAt, reference").fetchall()
    kinds = dict(_ALWAYS)
    for (text,) in declared:
        for each in json.loads(text):
            key = each["storageKey"]
            if each["entity"] != "user" or key in kinds:
                continue
            if each["type"] == "email" or each["discriminant"]:
                kinds[key] = each["type"] if each["type"] in {"email", "phone"} else key
    return kinds
