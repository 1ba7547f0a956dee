"""Recognises browsers that keep no id until the day ends, and joins their visits to an id that lasts."""

import hmac
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

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


class Arrivals(NamedTuple):
    """What hits tell about visitors beside their tracker id.

    Parameters
    ----------
    pages : tuple of tuple of str
        Tracker ids of a page and of the day. A page that is open while its address changes has several.
    browsers : dict of str to str
        Tracker id of the day of the earliest hit, by one that the browser keeps.
    """

    pages: tuple[tuple[str, str], ...] = ()
    browsers: Mapping[str, str] = MappingProxyType({})


def read_trackers(texts: Iterable[str]) -> Arrivals:
    """Return what the tracker ids of accepted hits, in the order of their dates, tell beside the first one.

    Examples
    --------
    >>> read_trackers(["day.5f p-1", "c-1 day.5f", "c-1 day.8a", "c-2"])
    Arrivals(pages=(('p-1', 'day.5f'),), browsers={'c-1': 'day.5f'})
    """
    pages: dict[tuple[str, str], None] = {}
    browsers: dict[str, str] = {}
    for text in texts:
        tracker, _, second = text.partition(" ")
        if second and tracker.startswith((_DAY, _PAGE)):
            pages[second, tracker] = None
        elif second:
            browsers.setdefault(tracker, second)
    return Arrivals(tuple(pages), browsers)


def assign_pages(connection: Connection, pages: Sequence[tuple[str, str]], now: datetime) -> None:
    """Give the tracker ids of pages, which events have, to the users of the ids of the day."""
    holders = _holders(connection, list(dict.fromkeys(id for pair in pages for id in pair)))
    suspects = [
        page
        for page, visitor in pages
        if visitor not in holders or holders.get(page) not in (None, holders[visitor])
    ]
    kept: set[str] = set()
    if suspects:
        # An id that a browser keeps by now stays apart.
        query = "SELECT DISTINCT trackerId FROM hits WHERE trackerId IN (SELECT unnest(?))"
        kept = {page for (page,) in connection.execute(query, [suspects]).fetchall()}
    new, apart = [], []
    for page, visitor in sorted(pages, key=lambda pair: pair[1] not in holders):
        if page in kept:
            continue
        # An id of the day without a user had a repeated hit only: it is the same browser at another address.
        for id, other in ((page, visitor), (visitor, page)):
            if id not in holders and other in holders:
                holders[id] = holders[other]
                new.append((id, holders[id]))
        if holders.get(page) != holders.get(visitor):
            # An event came before the page view, or the address has changed.
            apart.append((holders[page], holders[visitor]))
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
        From :func:`read_trackers`, of ids that nobody had before.
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
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in found or [("",) * 5])
    ((count,),) = connection.execute(
        f"""
        CREATE TEMP TABLE joined_visits AS
        WITH asked AS (SELECT * REPLACE (agreed::TIMESTAMP AS agreed)
            FROM (VALUES {values}) AS asked (sessionId, visitor, trackerId, hitId, agreed)
            WHERE sessionId <> ''
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
    elsewhere = (
        "SELECT 1 FROM hits WHERE trackerId = $visitor UNION ALL SELECT 1 FROM temp.arrived_hits "
        "WHERE trackerId = $visitor AND formerId IS NOT NULL LIMIT 1"
    )
    others = sql_results.read_row(connection, elsewhere, {"visitor": visitor})
    if of_day is not None and is_whole and others is None:
        # Whoever has this address and user agent from now on is somebody else.
        connection.execute(
            "DELETE FROM identities WHERE kind = ? AND value = ?", [identities.TRACKER, visitor]
        )
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
