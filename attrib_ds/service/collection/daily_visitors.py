"""Recognises browsers that keep no id until the day ends, and joins their visits to an id that lasts."""

import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, Final

from duckdb import DuckDBPyConnection as Connection

from attrib_ds import instants, sql_results
from attrib_ds.attribution import calendar
from attrib_ds.contract.json_values import encode
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import literal
from attrib_ds.service.identity import identities, merging
from attrib_ds.service.store import tables
from attrib_ds.service.store.store import Store

_SETTING: Final = "visitorSalt"
_BYTES: Final = 32
_DAY: Final = "day."
#: Of a page whose browser keeps no id, where the project recognises no visitor of the day.
_PAGE: Final = "page."
#: Pairs of rounds. Each round takes some 100 ms, and senders decide how many they need. What is left comes in
#: the last one.
_MOST_ROUNDS: Final = 32


class DailySalt:
    """The secret of a day, by which visitors are recognised until the day ends; thread-safe.

    Parameters
    ----------
    project_id, timezone : str
        Of the project; the day is one of its time zone.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store, salt = Store.open(":memory:", "shop"), DailySalt("shop", "UTC")
    >>> salt.visitor("203.0.113.7", "Firefox") is None
    True
    >>> salt.renew(store)
    >>> first = salt.visitor("203.0.113.7", "Firefox")
    >>> first == salt.visitor("203.0.113.7", "Firefox"), first == salt.visitor("203.0.113.8", "Firefox")
    (True, False)
    >>> store.close()
    """

    def __init__(self, project_id: str, timezone: str) -> None:
        self._project_id = project_id
        self._zone = calendar.zone_of(timezone)
        self._of_day: tuple[str, bytes] | None = None

    def _today(self) -> str:
        return str(instants.now().astimezone(self._zone).date())

    def visitor(self, address: str, user_agent: str) -> str | None:
        """Return the tracker id of a visitor until the day ends; None if the salt has to be renewed first."""
        of_day = self._of_day
        if of_day is None or of_day[0] != self._today():
            return None
        text = json.dumps([self._project_id, address, user_agent])
        return _DAY + hmac.digest(of_day[1], text.encode(), "sha256").hex()[:32]

    def renew(self, store: Store) -> None:
        """Take the salt of today from the project, where a new one overwrites that of another day."""
        today = self._today()

        def write(connection: Connection) -> str:
            row = sql_results.read_row(connection, "SELECT value FROM settings WHERE name = ?", [_SETTING])
            day, salt = json.loads(row[0]) if row else (None, "")
            if day != today:
                salt = secrets.token_hex(_BYTES)
                connection.execute("DELETE FROM settings WHERE name = ?", [_SETTING])
                connection.execute("INSERT INTO settings VALUES (?, ?)", [_SETTING, encode([today, salt])])
            return str(salt)

        self._of_day = today, bytes.fromhex(store.write(write))

    def take(self, day: Any, salt: Any) -> None:
        """Take the salt of a day, which the project's service has given; raises InvalidRequest otherwise."""
        try:
            of_day = str(date.fromisoformat(day)), bytes.fromhex(salt)
        except (TypeError, ValueError):
            of_day = "", b""
        if len(of_day[1]) != _BYTES:
            # Without the salt, which is a secret.
            raise InvalidRequest(
                f"day: {day!r} and its salt must be a date and {2 * _BYTES} hexadecimal digits"
            )
        self._of_day = of_day

    def today(self, store: Store) -> tuple[str, str]:
        """Return the day and its salt, for a process that recognises the same visitors."""
        if self._of_day is None or self._of_day[0] != self._today():
            self.renew(store)
        day, salt = self._of_day or ("", b"")
        return day, salt.hex()

    def destroy_past(self, store: Store) -> None:
        """Remove the salt of a day that has ended, on a site that nobody has visited since."""
        query, today = "SELECT value FROM settings WHERE name = ?", self._today()
        if self._of_day is not None and self._of_day[0] != today:
            self._of_day = None
        with store.cursor() as cursor:
            row = sql_results.read_row(cursor, query, [_SETTING])
        if row and json.loads(row[0])[0] != today:
            store.write(forget_salt)


def forget_salt(connection: Connection, table: str = "settings") -> None:
    """Remove the salt from the settings of a project, or of a copy, which may outlive the day."""
    connection.execute(f"DELETE FROM {table} WHERE name = ?", [_SETTING])


def tracker_of(page: str | None, *, visitor: str | None, hit_id: str) -> str:
    """Return the tracker id under which a hit is accepted whose browser keeps none.

    Parameters
    ----------
    page : str or None
        Tracker id of the page, which events name, too; None for a pixel.
    visitor : str or None
        From :meth:`DailySalt.visitor`; None where visitors of the day are not recognised.
    hit_id : str
        Id of the hit.

    Examples
    --------
    >>> tracker_of("p-1", visitor="day.5f", hit_id="1"), tracker_of(None, visitor=None, hit_id="1")
    ('day.5f p-1', 'hit.1')
    """
    if page is None:
        return visitor or f"hit.{hit_id}"
    return f"{visitor or _PAGE + page} {page}"


def is_kept(tracker: str) -> str:
    """Return SQL for whether a browser keeps its tracker id."""
    return f"NOT regexp_matches({tracker}, '^(day|page|hit)[.]')"


def new_browsers(connection: Connection, hits: str) -> dict[str, str]:
    """Return the day's ids that are known or arrive now, by lasting ones that have no hit yet."""
    told = (
        f"SELECT trackerId, arg_min(otherTrackerId, (ingestedAt, serverDate, otherTrackerId)) FROM {hits} "
        f"WHERE otherTrackerId <> '' AND {is_kept('trackerId')} GROUP BY trackerId ORDER BY trackerId"
    )
    browsers = dict(connection.execute(told).fetchall())
    if not browsers:
        return {}
    query = (
        "SELECT value FROM identities WHERE kind = $kind AND value IN (SELECT unnest($visitors)) "
        f"UNION SELECT trackerId FROM {hits} WHERE trackerId IN (SELECT unnest($visitors))"
    )
    parameters = {"kind": identities.TRACKER, "visitors": list(browsers.values())}
    known = {visitor for (visitor,) in connection.execute(query, parameters).fetchall()}
    candidates = {tracker: visitor for tracker, visitor in browsers.items() if visitor in known}
    if not candidates:
        return {}
    query = "SELECT DISTINCT trackerId FROM hits WHERE trackerId IN (SELECT unnest(?))"
    seen = {tracker for (tracker,) in connection.execute(query, [list(candidates)]).fetchall()}
    return {tracker: visitor for tracker, visitor in candidates.items() if tracker not in seen}


def in_rounds(connection: Connection, hits: str, browsers: Mapping[str, str]) -> list[str]:
    """Divide hits into relations that are stored one after the other.

    What a browser that agrees takes along, and what is left of the visitor of the day, depends on what the
    service knew when it agreed. So these hits come alone, in the order of receipt, between the earlier and
    the later ones of all visitors, pages and browsers that they have to do with. The result is that of hits
    that are stored one by one, unless they need more rounds than a transaction has time for.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction, with ``known_hits``.
    hits : str
        Table of the hits that arrived, a relation in SQL for a FROM clause.
    browsers : dict of str to str
        From :func:`new_browsers`.

    Returns
    -------
    list of str
        The first relation has none that comes alone, and may be all.
    """
    pages = f"(SELECT otherTrackerId AS trackerId FROM {hits} WHERE NOT {is_kept('trackerId')})"
    ordinary = (
        "SELECT count(DISTINCT id) = count(*) AND NOT EXISTS (FROM temp.known_hits) "
        f"AND NOT EXISTS (FROM {hits} SEMI JOIN {pages} USING (trackerId)) FROM {hits}"
    )
    if not browsers and connection.execute(ordinary).fetchall() == [(True,)]:
        return [hits]
    arrived = connection.execute(
        f"""
        WITH arrived AS (FROM {hits})
        SELECT row, id, arrived.trackerId, otherTrackerId, known.trackerId,
            {is_kept("arrived.trackerId")} AS is_kept
        FROM arrived LEFT JOIN temp.known_hits AS known USING (id)
        QUALIFY NOT is_kept OR known.trackerId <> arrived.trackerId OR count(*) OVER (PARTITION BY id) > 1
            OR arrived.trackerId IN (SELECT unnest(?))
            OR arrived.trackerId IN (SELECT otherTrackerId FROM arrived WHERE NOT {is_kept("trackerId")})
        ORDER BY ingestedAt, serverDate, arrived.trackerId, otherTrackerId, row
        """,
        [list(browsers)],
    ).fetchall()
    users = _holders(connection, list({text for _, _, *texts, _ in arrived for text in texts if text}))
    parents: dict[str, str] = {}
    last: dict[str, tuple[int, bool]] = {}
    rounds: dict[tuple[int, bool], list[int]] = {}
    # Trackers by id of the hit.
    senders: dict[str, set[str]] = {}
    # A browser that agrees, or that keeps the id of a page.
    new = {*browsers, *(page for _, _, _, page, _, lasts in arrived if not lasts)}

    def root_of(key: str) -> str:
        while (parent := parents.setdefault(key, key)) != key:
            key = parents[key] = parents[parent]
        return key

    for row, id, *texts, lasts in arrived:
        tracker, _, stored = texts
        known = senders.setdefault(id, {stored} - {None})
        # What one tracker sends again is the same, whenever it comes.
        is_alone = bool(known - {tracker}) or (lasts and tracker in new)
        known.add(tracker)
        new.discard(tracker)
        roots = {root_of(key) for key in (id, *(users.get(text, text) for text in texts if text))}
        number, was_alone = max(last.get(root, (0, False)) for root in roots)
        number += was_alone
        if number >= _MOST_ROUNDS:
            number, is_alone = _MOST_ROUNDS, True
        parents.update(dict.fromkeys(roots, root := min(roots)))
        last[root] = number, is_alone
        rounds.setdefault((number, is_alone), []).append(row)
    rounds.pop((0, False), None)
    later = [rows for _, rows in sorted(rounds.items())]
    first = f"row NOT IN (SELECT unnest({[row for rows in later for row in rows]}))"
    conditions = [first, *(f"row IN (SELECT unnest({rows}))" for rows in later)]
    return [f"(FROM {hits} WHERE {condition})" for condition in conditions] if later else [hits]


def assign_pages(connection: Connection, hits: str, now: datetime) -> None:
    """Give the tracker ids of pages, which events have, to the users of the ids of the day."""
    # A browser that keeps an id by now has left its address to others: its earlier page views, which come
    # again, tell nothing of who is there.
    query = (
        f"SELECT DISTINCT otherTrackerId, trackerId FROM {hits} "
        f"WHERE otherTrackerId <> '' AND NOT {is_kept('trackerId')} "
        f"AND id NOT IN (SELECT id FROM temp.known_hits WHERE {is_kept('trackerId')}) ORDER BY ALL"
    )
    pages = connection.execute(query).fetchall()
    if not pages:
        return
    holders = _holders(connection, list(dict.fromkeys(id for pair in pages for id in pair)))
    new: list[tuple[str, str]] = []
    apart: list[tuple[str, str]] = []
    query = "SELECT DISTINCT userId FROM interactions WHERE userId IN (SELECT unnest(?))"
    strangers = [holders[page] for page, visitor in pages if page in holders and visitor not in holders]
    seen = {user for (user,) in connection.execute(query, [strangers]).fetchall()} if strangers else set()
    contested = [page for page, visitor in pages if holders.get(page) not in (None, holders.get(visitor))]
    # An id that a browser keeps by now stays apart.
    query = "SELECT DISTINCT trackerId FROM hits WHERE trackerId IN (SELECT unnest(?))"
    kept = {id for (id,) in connection.execute(query, [contested]).fetchall()} if contested else set()
    for page, visitor in pages:
        user, of_day = holders.get(page, ""), holders.get(visitor, "")
        if page in kept or user == of_day:
            continue
        if user and of_day:
            # An event came before the page view, or the address has changed.
            apart.append((user, of_day))
        elif of_day or user in seen:
            # An id of the day without a user had a repeated hit only: the same browser at another address.
            new.append((page, of_day) if of_day else (visitor, user))
            holders.update(new[-1:])
    _insert(connection, new)
    merging.merge(connection, identities.find_merges(connection, apart), now)


def _insert(connection: Connection, holders: Iterable[tuple[str, str]]) -> None:
    kind = {"kind": identities.TRACKER, "isAnonymous": False}
    rows = [kind | {"value": tracker, "userId": user} for tracker, user in holders]
    tables.insert_records(connection, "identities", rows)


def _holders(connection: Connection, trackers: list[str]) -> dict[str, str]:
    query = "SELECT value, userId FROM identities WHERE kind = ? AND value IN (SELECT unnest(?))"
    return dict(connection.execute(query, [identities.TRACKER, trackers]).fetchall())


def find_joining(
    connection: Connection, hits: str, browsers: Mapping[str, str], *, is_repeated: bool, timeout: int
) -> int:
    """Create ``joined_visits``: visits of the day whose browser has been given a lasting id since.

    A browser proves it by sending a stored hit again, whose id nobody else knows. One that comes with a new
    id, because the page knew of the consent when it was loaded, must have come from a page of the visit.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction, after the hits were stored.
    hits : str
        Table of the hits that arrived, stored or not.
    browsers : dict of str to str
        From :func:`new_browsers`.
    is_repeated : bool
        Whether some of the hits were stored before.
    timeout : int
        Time without a hit that ends a visit, in milliseconds.

    Returns
    -------
    int
        How many there are. Columns are ``sessionId``, ``visitor``, ``trackerId``, ``hitId``, ``agreed``
        (when the visitor did: what came later belongs to nobody who keeps an id) and ``is_whole``: whether
        each page view after the first was opened from a page of the visit, so that nobody else with the same
        address and user agent takes part.
    """

    def received(date: str) -> str:
        # Loaded hits may tell no date of receipt.
        return f"coalesce({date}::VARCHAR, 'infinity')"

    repeated = (
        f"SELECT hit.sessionId, hit.trackerId, taken.trackerId, hit.id, {received('min(taken.ingestedAt)')} "
        f"FROM {hits} AS taken JOIN hits AS hit USING (id) WHERE {is_kept('taken.trackerId')} "
        "AND regexp_matches(hit.trackerId, '^(day|page)[.]') GROUP BY ALL"
    )
    found = connection.execute(repeated).fetchall() if is_repeated else []
    for tracker, visitor in browsers.items():
        row = sql_results.read_row(
            connection,
            f"""
            WITH entry AS (SELECT serverDate, ingestedAt, {_page_of("referrer")} AS page FROM {hits}
                WHERE trackerId = $tracker ORDER BY serverDate, id LIMIT 1
            ), latest AS (
                SELECT sessionId FROM hits, entry WHERE trackerId = $visitor
                AND epoch_ms(entry.serverDate) - epoch_ms(hits.serverDate) BETWEEN 0 AND {timeout - 1}
                ORDER BY hits.serverDate DESC, id DESC LIMIT 1
            )
            SELECT any_value(sessionId), (SELECT {received("ingestedAt")} FROM entry) FROM hits
            WHERE sessionId IN (SELECT sessionId FROM latest)
            AND (SELECT {_has_led(_page_of(_URL), "page")} FROM entry) HAVING count(*) > 0
            """,
            {"tracker": tracker, "visitor": visitor},
        )
        if row is not None:
            found.append((row[0], visitor, tracker, "", row[1]))
    if not found:
        connection.execute(
            "CREATE TEMP TABLE joined_visits (sessionId VARCHAR, visitor VARCHAR, trackerId VARCHAR, "
            "hitId VARCHAR, agreed TIMESTAMP, is_whole BOOLEAN)"
        )
        return 0
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in found)
    ((count,),) = connection.execute(
        f"""
        CREATE TEMP TABLE joined_visits AS
        WITH asked AS (SELECT * REPLACE (agreed::TIMESTAMP AS agreed)
            FROM (VALUES {values}) AS asked (sessionId, visitor, trackerId, hitId, agreed)
            QUALIFY row_number() OVER (PARTITION BY sessionId, hitId ORDER BY trackerId) = 1
        ), views AS (SELECT sessionId, (serverDate, id) AS position, {_page_of(_URL)} AS page,
                {_page_of("referrer")} AS source
            FROM hits WHERE sessionId IN (SELECT sessionId FROM asked)
        ), firsts AS (SELECT sessionId, page, min(position) AS seen FROM views GROUP BY ALL
        ), followed AS (
            SELECT views.sessionId, count(*) - count(seen) AS entries FROM views LEFT JOIN firsts
            ON firsts.sessionId = views.sessionId AND {_has_led("firsts.page", "source")} AND seen < position
            GROUP BY ALL
        )
        SELECT asked.*, entries = 1
            AND count(DISTINCT trackerId) OVER (PARTITION BY sessionId) = 1 AS is_whole
        FROM asked JOIN followed USING (sessionId) WHERE hitId <> '' OR entries = 1
        """
    ).fetchall()
    return int(count)


_URL: Final = """concat("pageUrl.origin", "pageUrl.pathname")"""


def _page_of(url: str) -> str:
    """Return SQL for a URL without what a page may tidy away."""
    return f"rtrim(regexp_replace(coalesce({url}, ''), '[?#].*', ''), '/')"


def _has_led(page: str, referrer: str) -> str:
    """Return SQL for whether a page was the referrer; to another origin, browsers tell the origin alone."""
    return f"({page} = {referrer} OR regexp_replace({page}, '(://[^/]*)/.*', '\\1') = {referrer})"


def take_visits(connection: Connection, whole: str, ids: tables.HexIds, now: datetime) -> list[str]:
    """Take the sessions of ``joined_visits`` and ``better_hits`` out of the tables into ``arrived_hits``.

    Hits of joined visits have their new tracker id there, and better ones, which have their nodes in
    ``placed_hits``, are in the place of those with their id. ``openings_before`` has the hits that opened a
    session.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    whole : str
        The hits that arrived, with all columns that are stored.
    ids : HexIds
        Generates the ids of new users.
    now : datetime
        Current time, naive, in UTC.

    Returns
    -------
    list of str
        Users who may have no records any more.
    """
    taken = "SELECT sessionId FROM temp.joined_visits UNION SELECT sessionId FROM temp.better_hits"
    joined = "SELECT sessionId FROM temp.joined_visits"
    connection.execute(
        f"""
        CREATE TEMP TABLE arrived_hits AS
        SELECT row_number() OVER () AS row, * FROM (
            SELECT hits.* REPLACE (coalesce(joined.trackerId, hits.trackerId) AS trackerId),
                -- A session that keeps some of its hits stays the same.
                CASE WHEN hits.sessionId NOT IN ({joined}) THEN hits.sessionId END AS formerId
            FROM hits LEFT JOIN temp.joined_visits AS joined
            ON joined.sessionId = hits.sessionId AND (is_whole AND ingestedAt <= agreed OR hitId = hits.id)
            WHERE hits.sessionId IN ({taken}) AND hits.id NOT IN (SELECT id FROM temp.better_hits)
            QUALIFY row_number() OVER (PARTITION BY hits.id) = 1
            UNION ALL BY NAME
            SELECT hit.* EXCLUDE (row), nodeId, better.isOpening,
                CASE WHEN is_of_tracker AND better.sessionId NOT IN ({joined}) THEN sessionId END AS formerId
            FROM {whole} AS hit JOIN temp.better_hits AS better USING (row)
            JOIN (SELECT row, nodeId FROM temp.placed_hits) USING (row)
        )
        """
    )
    connection.execute(
        "CREATE TEMP TABLE openings_before AS SELECT id FROM temp.arrived_hits WHERE isOpening"
    )
    visits = connection.execute(
        "SELECT sessionId, visitor, trackerId, bool_and(is_whole) FROM temp.joined_visits "
        "GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    users = connection.execute(f"SELECT DISTINCT userId FROM interactions WHERE _id IN ({taken})").fetchall()
    connection.execute(f"DELETE FROM hits WHERE sessionId IN ({taken})")
    connection.execute(
        f"DELETE FROM interactions WHERE _id IN ({taken}) "
        "AND _id NOT IN (SELECT formerId FROM temp.arrived_hits WHERE formerId IS NOT NULL)"
    )
    for _, visitor, tracker, is_whole in visits:
        _join_users(connection, visitor, tracker, is_whole=is_whole, ids=ids, now=now)
    return [user for (user,) in users]


def _join_users(
    connection: Connection, visitor: str, tracker: str, *, is_whole: bool, ids: tables.HexIds, now: datetime
) -> None:
    """Make the user of the day's id that of a lasting one, if all that is left of the day is in the visit."""
    holders = _holders(connection, [visitor, tracker])
    of_day, own = holders.get(visitor), holders.get(tracker)
    # Of this day and of others whose pages showed that they were the same browser.
    of_user = f"kind = '{identities.TRACKER}' AND userId = $user AND NOT {is_kept('value')}"
    among = f"trackerId IN (SELECT value FROM identities WHERE {of_user})"
    elsewhere = (
        f"SELECT 1 FROM hits WHERE {among} UNION ALL SELECT 1 FROM temp.arrived_hits "
        f"WHERE {among} AND formerId IS NOT NULL LIMIT 1"
    )
    others = sql_results.read_row(connection, elsewhere, {"user": of_day})
    if of_day is not None and is_whole and others is None:
        # Whoever has this address and user agent from now on is somebody else.
        connection.execute(f"DELETE FROM identities WHERE {of_user}", {"user": of_day})
        if own is None:
            _insert(connection, [(tracker, of_day)])
        elif own != of_day:
            merging.merge(connection, identities.find_merges(connection, [(own, of_day)]), now)
    elif own is not None and own == of_day:
        user = ids.new()
        connection.execute(
            "UPDATE identities SET userId = ? WHERE kind = ? AND value = ?",
            [user, identities.TRACKER, tracker],
        )
        connection.execute(
            "UPDATE events SET userId = ?, updatedAt = greatest(updatedAt, ?) "
            "WHERE _id IN (SELECT _id FROM raw_events WHERE trackerId = ?)",
            [user, now, tracker],
        )
        connection.execute(
            "UPDATE interactions SET userId = $user WHERE _id IN (SELECT sessionId FROM hits WHERE "
            "trackerId = $tracker UNION SELECT formerId FROM temp.arrived_hits WHERE trackerId = $tracker)",
            {"user": user, "tracker": tracker},
        )
        merging.register(connection, f"(SELECT * FROM {merging.SEEN} WHERE userId = ?)", [user])
