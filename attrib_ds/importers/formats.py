"""Exports of other services, recognised by their columns: which rows count and where their columns are."""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

import duckdb

from attrib_ds import display
from attrib_ds.errors import InvalidRequest
from attrib_ds.importers.columns import COMMON_NAMES, folded, inner
from attrib_ds.importers.content import evidence
from attrib_ds.records import export_tables, text_files, written_values
from attrib_ds.records.sources import ROW, Source, literal, quoted, selected
from attrib_ds.traffic.agents import is_bot
from attrib_ds.traffic.sessions import TIMEOUT


@dataclass(frozen=True)
class Format:
    """An export of another service; ``formats.toml`` describes the fields."""

    name: str
    holds: str
    columns: Sequence[str]
    counted: str = "rows"
    rows: str = ""
    roles: dict[str, str | list[str]] = field(default_factory=dict)
    touches: Sequence[Sequence[str]] = ()
    visit: str = ""
    reader: str = ""
    views: bool = False
    query: str = ""
    platform: str = ""
    advice: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse an entry that could not be used."""
        kinds = {"touchpoints", "conversions", "spend", "summary", "events"}
        needed = {"touchpoints": {"date"}, "conversions": {"date"}}
        problems = [
            f"holds is {self.holds!r}; allowed: {', '.join(sorted(kinds))}"
            if self.holds not in kinds
            else "",
            *(f"role {role!r} is unknown" for role in self.roles if role not in {*COMMON_NAMES, "referrer"}),
            *(f"no column for the role {role!r}" for role in needed.get(self.holds, set()) - {*self.roles}),
            "spend needs a platform" if self.holds == "spend" and not self.platform else "",
            "events need the advice which reader to use"
            if self.holds == "events" and not self.advice
            else "",
        ]
        if found := "; ".join(filter(None, problems)):
            raise ValueError(f"the format {self.name!r}: {found}")

    def fits(self, columns: Iterable[str]) -> bool:
        """Return whether a table has the columns."""
        return all(matching(names, columns) for names in self.columns)

    def role(self, role: str, columns: Sequence[str]) -> list[str]:
        """Return the columns of a role, the best first; those of a tree from the root down."""
        names = self.roles.get(role, "")
        if isinstance(names, str):
            return matching(names, columns)
        return [column for name in names for column in matching(name, columns)[:1]]

    def applied(self, connection: duckdb.DuckDBPyConnection, source: Source) -> tuple[Source, str]:
        """Return the rows that count, and what is to be said of them."""
        total = source.rows
        source = self._spread(connection, source)
        said = f"{self.name}: {display.counted(source.rows, self.counted)}"
        if self.rows or total != source.rows:
            said += f" from {display.counted(total, self.rows or 'rows')}"
        return source, said + self.note

    def _spread(self, connection: duckdb.DuckDBPyConnection, source: Source) -> Source:
        """Return one row per touchpoint, of rows with several or of views of pages."""
        if self.query:
            return selected(connection, source, self.query.format(rows=source.relation))
        if self.touches:
            people = ", ".join(map(quoted, self.role("user", source.columns)))
            found = [[next(iter(matching(name, source.columns)), "") for name in of] for of in self.touches]
            kept = [at for at, first in enumerate(found[0]) if first]
            cells = [[source.word(of[at]) if of[at] else "NULL" for at in kept] for of in found]
            names, row = [*map(quoted, filter(None, found[0]))], quoted(ROW)
            listed = ", ".join(
                f"unnest([{', '.join(of)}]) AS {names[at]}" for at, of in enumerate(zip(*cells, strict=True))
            )
            rows = f"SELECT {row}, {people}, {listed} FROM {source.relation}"
            is_touch = f"{names[0]} IS NOT NULL AND {names[-1]} IS NOT NULL"
            query = (
                f"SELECT * EXCLUDE ({row}), min({row}) AS {row} FROM ({rows}) WHERE {is_touch} GROUP BY ALL"
            )
            source = selected(connection, source, query)
        return source


def matching(names: str, columns: Iterable[str]) -> list[str]:
    """Return the columns with one of the names ``a|b``, in their order; a currency may follow the name.

    Examples
    --------
    >>> matching("cost|amount spent", ["Day", "Amount spent (EUR)", "Cost"])
    ['Cost', 'Amount spent (EUR)']
    """
    present: dict[str, str] = {}
    # A member of the row itself goes before one of an object in it.
    for column in sorted(columns, key=lambda column: column == inner(column)):
        present.setdefault(folded(evidence.currency_at_end(column)[0]), column)
        present[folded(column)] = column
    found = (present.get(folded(name)) for name in names.split("|") if name)
    return list(dict.fromkeys(column for column in found if column is not None))


@cache
def known_formats() -> tuple[Format, ...]:
    """Return the formats."""
    table = Path(__file__).with_name("formats.toml").read_text(encoding="utf-8")
    return tuple(Format(**entry) for entry in tomllib.loads(table)["format"])


def recognised(
    columns: Sequence[str], argument: str, *, name: str, has_people: bool, is_alone: bool = True
) -> Format | None:
    """Return the format of a table for an argument, or None.

    Raises
    ------
    InvalidRequest
        If the rows of the format are something else.
    """
    fitting = {each.holds: each for each in known_formats() if each.fits(columns)}
    platforms = {each.platform for each in known_formats() if each.holds == "spend" and each.fits(columns)}
    if len(platforms) > 1:
        del fitting["spend"]
    if argument in fitting or argument not in {"touchpoints", "conversions"}:
        return fitting.get(argument)
    # Events with a source in each row are touchpoints, and so are views of pages beside conversions.
    are_touchpoints = matching("session_source" if is_alone else "session_source|page_url", columns)
    if (events := fitting.get("events")) and not are_touchpoints:
        raise InvalidRequest(
            f"{argument}: {name} has {events.name}; read them with {events.advice} in Python, which finds "
            "the visits and the conversions in them"
        )
    if (sums := fitting.get("spend") or fitting.get("summary")) and not has_people:
        advice = sums.advice or "pass it as the spend, beside touchpoints with a column of people"
        raise InvalidRequest(
            f"{argument}: {name} is a summary ({sums.name}): it has sums but no people, so there are no "
            f"paths to credit; {advice}"
        )
    return None


_SITE: Final = "https://site.invalid"
_FIRST_ROWS: Final = 50


def open_log(connection: duckdb.DuckDBPyConnection, file: str | Path, argument: str) -> Source:
    """Open an access log as page views, with the visits of visitors, apart from their campaigns."""
    path = Path(file).expanduser()
    if not path.is_file():
        raise InvalidRequest(f"{argument}: {path.name!r} does not exist")
    with text_files.open_binary(path) as lines:
        # The same file gives the same ids, which nobody can guess from an address.
        secret = lines.readline().hex()
    log = export_tables.AccessLog(path, site=_SITE)
    source, _ = export_tables.open_access_log(connection, log, secret=secret, with_people=True)
    return _with_visits(connection, source)


#: Values of the columns of a request.
_AGENT, _METHOD, _STATUS = r"(Mozilla|Opera)/\d.*", "[A-Z]{3,7}", r"[1-5]\d\d"


def with_requests(connection: duckdb.DuckDBPyConnection, source: Source) -> Source:
    """Return the page views of a table of requests as those of an access log; another table as it is.

    Its columns have addresses and browsers of visitors, instants and pages, and no ids of people.
    """
    words = {name: source.word(name) for name in source.columns}
    agents = ", ".join(f"bool_or(regexp_full_match({word}, '{_AGENT}'))" for word in words.values())
    query = f"SELECT {agents} FROM (FROM {source.relation} LIMIT {_FIRST_ROWS})"
    if not words or not any(connection.execute(query).fetchall()[0]):
        return source
    held = {each.name: each for each in evidence.profiled(connection, source).values() if each.filled}

    def like(pattern: str, *names: str) -> list[str]:
        return [
            each.name
            for each in held.values()
            if 2 * sum(bool(re.fullmatch(pattern, value)) for value in each.values if value) > each.filled
            and (not names or {*names} & {*evidence.words_of(each.name)})
        ]

    referrers = [name for name in held if any(word.startswith("refer") for word in evidence.words_of(name))]
    found = {
        "address": [name for name in held if held[name].holds("network")],
        "agent": like(_AGENT),
        "date": [name for name in held if held[name].holds("instant") or held[name].holds("moment")],
        "target": [name for name in like(r"/\S*|https?://\S+") if name not in referrers],
        "method": like(_METHOD, "method", "verb"),
        "status": like(_STATUS, "status"),
        "host": like(r"[\w-]+(\.[\w-]+)+(:\d+)?", "host", "hostname", "vhost"),
        "person": [name for name in held if "username" in evidence.words_of(name)],
        "referrer": referrers,
    }
    people = [
        name
        for name, each in held.items()
        if evidence.weight("user", name) > 3 and each.may_be_id() and name not in found["person"]
    ]
    needed = [found[part] for part in ("address", "agent", "date", "target")]
    if people or not all(needed) or not (found["method"] or found["status"]):
        return source
    parts = {part: words[names[0]] for part, names in found.items() if names}
    parts["date"] = written_values.instants(connection, source.relation, parts["date"], dayfirst=None).sql
    first = ", ".join(map(source.text, source.columns))
    ((secret,),) = connection.execute(
        f"SELECT sha256(concat_ws(' ', {first})) FROM {source.relation} ORDER BY {quoted(ROW)} LIMIT 1"
    ).fetchall()
    views = export_tables.open_requests(connection, source, parts, site=_SITE, secret=secret)
    return _with_visits(connection, replace(views, first=source.first))


def _with_visits(connection: duckdb.DuckDBPyConnection, source: Source) -> Source:
    """Return page views with the visits of visitors; none of bots."""
    agents = connection.execute(f"SELECT DISTINCT userAgent FROM {source.relation}").fetchall()
    bots = ", ".join(literal(agent) for (agent,) in agents if is_bot(agent or "")) or "NULL"
    page = "regexp_replace(pageUrl, '^[a-z]+://site[.]invalid', '')"
    visitor = f"PARTITION BY trackerId ORDER BY date, {quoted(ROW)}"
    begins = f"date - lag(date) OVER ({visitor}) < to_milliseconds({TIMEOUT})"
    return selected(
        connection,
        source,
        f"WITH human AS (SELECT *, {begins} AS goes_on FROM {source.relation} WHERE (userAgent IN ({bots})) "
        f"IS NOT TRUE) SELECT {quoted(ROW)}, trackerId AS log_visitor, trackerId || ' ' || "
        f"count(*) FILTER (goes_on IS NOT TRUE) OVER ({visitor}) AS log_visit, "
        f"timezone('UTC', date) AS log_date, {page} AS log_page, referrer, person AS log_user FROM human",
    )
