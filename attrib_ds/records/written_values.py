"""Instants and numbers as people write them: the values of a whole column decide how it is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from attrib_ds import scratch
from attrib_ds.contract.identifiers import CURRENCIES, SIGNS
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import RFC_3339, cases, instant, literal

#: Numbers of the months by their names, in the languages of the file.
_MONTH_OF: Final = {
    name: number
    for number, names in enumerate(
        Path(__file__).with_name("months.txt").read_text(encoding="utf-8").splitlines(), start=1
    )
    for name in names.split()
}


class Zone(NamedTuple):
    """A time zone that a name may stand for.

    Attributes
    ----------
    place : str
        Its offset, such as +05:30, or its name, such as Europe/Paris.
    holds : bool
        Whether the name stands for it if nothing speaks for another one.
    evidence : frozenset of str
        Country, currencies and codes of telephones that speak for it.
    """

    place: str
    holds: bool = True
    evidence: frozenset[str] = frozenset()


def _rows_of(name: str) -> list[list[str]]:
    """Return the rows of a table beside this module."""
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines[2:]]


def _known_zones() -> dict[str, list[Zone]]:
    found: dict[str, list[Zone]] = {}
    for names, place, *marks in _rows_of("zones.tsv"):
        zone = Zone(place.lstrip("*"), not any(marks) or "*" in place, frozenset(" ".join(marks).split()))
        for name in names.split():
            found.setdefault(name, []).append(zone)
    return found


#: Time zones by their names.
_ZONES: Final = _known_zones()
#: Pattern of these names, in lower case.
ZONES: Final = "|".join(name for name in _ZONES if name.isalpha())
_OFFSET: Final = (
    r"(?:[(\[]?((?:UTC|GMT)?\s?[+-]\d{1,2}:?\d{0,2}|[A-Z][a-z]+/[A-Za-z_/-]+|[A-Z]{2,5}|[Zz])[)\]]?"
    r"\s*(?:[(\[].*[)\]])?)?"
)
_TIME: Final = (
    r"(\d{1,2})(?:\s?[hH]|[:.時点點시])\s?(\d{2})?(?:[:.m分분]\s?(\d{2})(?:[.,:](\d+))?[s秒초]?)?[分분]?"
    r"(?:\s?(?:Uhr|hrs?|hs|horas?|heures?|uur|óra|год|час\pL?|ч)\.?)?\s*"
)
#: Words before the time of day.
_AT: Final = "at|um|om|à|às|a las|alle|(?:alle )?ore|klo?[.]?|ob?|ve?|в|о|godz[.]?|saat|pukul|lúc|στις"
_CLOCK: Final = (
    rf"(?:\s?[гр]\.,?|\s?\([^()\d]{{1,9}}\))?(?:(?:\s[-–—]\s|[\s,T:@|·_]*)(?:(?:{_AT})\s+)?"
    rf"{_TIME}(?:([AaPpπμµΠΜ])\.?\s?[MmμµΜ]\.?)?\s*{_OFFSET})?\s*$"
)
_DAY_NAME: Final = r"^(?:\pL+\.?,?\s+)?"
_ORDINAL: Final = r"(?:st|nd|rd|th|er|º|ª|\.)?,?"
#: Years that are read, first and last, as text; 1404 is a year of another calendar.
_YEARS: Final = "'1900' AND '2200'"
#: Years of our calendar, and of the era of Japan that began in 2019.
_YEAR: Final = r"\d{4}|(?:令和|[RＲ])[. ]?\d{1,2}"
#: What is to be added to years with two digits, and to those of Taiwan, Japan and Thailand, by their pattern.
_ERAS: Final = {r"\d\d": 2000, r"(民國 ?)?\d{3}": 1911, r"\D+\d{1,2}": 2018, r"25\d\d": -543}
#: Ways of writing instants: the names of their parts, and their pattern; ``w`` is the name of a month.
_WAYS: Final = (
    ("ymdhisfpo", rf"^({_YEAR})(?:[-/.]|年|년)\s?(\d{{1,2}})(?:[-/.]|月|월)\s?(\d{{1,2}})[.日일]?{_CLOCK}"),
    (
        "ymdhisfo",
        r"^(20\d{2})(0[1-9]|1[0-2])([0-2]\d|3[01])(?:[T ]?(\d{2})(?:(\d{2})(?:(\d{2})(?:[.,](\d+))?)?)?"
        rf"{_OFFSET})?$",
    ),
    (
        "dwyhisfpo",
        rf"{_DAY_NAME}(\d{{1,2}}){_ORDINAL}[\s/-]*(?:de\s+|of\s+)?(\pL{{3,}})\.?,?[\s/-]*(?:de\s+|del\s+)?"
        rf"(\d{{4}}){_CLOCK}",
    ),
    ("dwyhisfpo", rf"{_DAY_NAME}(\d{{1,2}})-?(\pL{{3}})-?(\d{{2}}){_CLOCK}"),
    ("ywdhisfpo", rf"^(\d{{4}})\.?[\s,/-]*(\pL{{3,}})\.?[\s/-]*(\d{{1,2}})\.?{_CLOCK}"),
    ("wdyhisfpo", rf"{_DAY_NAME}(\pL{{3,}})\.?[\s-]+(\d{{1,2}}){_ORDINAL}[\s-]*(\d{{4}}){_CLOCK}"),
    ("wdyhisfpo", rf"{_DAY_NAME}(\pL{{3,}})[-/](\d{{1,2}})[-/](\d{{2}}|\d{{4}}){_CLOCK}"),
    (
        "ymdphisfo",
        rf"^(\d{{4}})[-/.년年]\s?(\d{{1,2}})[-/.월月]\s?(\d{{1,2}})[.일日]?\s*(오전|오후|午前|午後|上午|下午)\s?{_TIME}{_OFFSET}\s*$",
    ),
    ("ymdhisfpo", rf"^((?:民國 ?)?1[012]\d)[/年]\s?(\d{{1,2}})[/月]\s?(\d{{1,2}})日?{_CLOCK}"),
    ("ymdhisfo", r"^(\d{4})-(\d\d)-(\d\d)-(\d\d)\.(\d\d)\.(\d\d)(?:\.(\d+))?( ?)$"),
    ("wdhisoy", r"^\pL{3} (\pL{3}) +(\d{1,2}) (\d{2}):(\d{2}):(\d{2}) (?:([A-Z]{3,4}|[+-]\d{4}) )?(\d{4})$"),
    ("wdhisyo", r"^\pL{3} (\pL{3}) +(\d{1,2}) (\d{2}):(\d{2}):(\d{2}) (\d{4}) ([+-]\d{4})$"),
)
#: Dates in which the order of day, month and year is not clear.
_LOCAL: Final = rf"^(\d{{1,2}})(?:\. ?|[/-])(\d{{1,2}})(?:\. ?|[/-])(\d{{4}}|\d{{2}})\.?{_CLOCK}"
_IS_LOCAL: Final = r"^\d{1,2}(\. ?|[/-])\d{1,2}(\. ?|[/-])(\d{4}|\d{2})(\D|$)"
#: Numbers that are instants of the years 2000 to 2100: in words, SQL of microseconds, the first and the last.
_COUNTS: Final = (
    ("seconds since 1970", "round({} * 1e6)", 946_684_800, 4_102_444_800),
    ("milliseconds since 1970", "round({} * 1e3)", 946_684_800_000, 4_102_444_800_000),
    ("microseconds since 1970", "round({})", 946_684_800_000_000, 4_102_444_800_000_000),
    ("nanoseconds since 1970", "{} // 1000", 946_684_800_000_000_000, 4_102_444_800_000_000_000),
    ("days of Excel", "round(({} - 25569) * 86400) * 1000000", 36_526, 73_050),
)
#: Number of the unit of days of Excel.
DAYS: Final = len(_COUNTS) - 1
_SAMPLE: Final = 1_000


@dataclass(frozen=True)
class Instants:
    """How a column of text is read as instants.

    Attributes
    ----------
    sql : str
        SQL of the UTC instant, of type TIMESTAMP; NULL where a text is none. The default offset is UTC, the
        default time midnight.
    advice : str
        SQL of what to do about a text that is none.
    said : str
        How most of the texts are written, and what shows it.
    order : {"dmy", "mdy"} or None
        Order of day, month and year in dates such as 03/04/2025.
    is_written : bool
        Whether some texts are dates, and not only counts since 1970.
    """

    sql: str
    advice: str
    said: str = ""
    order: str | None = None
    is_written: bool = True


def instants(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    word: str,
    *,
    dayfirst: bool | None,
    counts: bool = True,
    zones: Mapping[str, str] | None = None,
) -> Instants:
    """Return how the texts of a column are read; one that reads one way only decides for all.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database of the column.
    relation, word : str
        SQL of the table and of the column.
    dayfirst : bool or None
        Whether dates such as 03/04/2025 begin with the day, if the caller says so.
    counts : bool, default True
        Whether numbers may stand for instants: days of Excel, or seconds, milliseconds, microseconds or
        nanoseconds since 1970.
    zones : mapping of str to str, optional
        Places of names of zones that several places share, such as ``{"ist": "Asia/Kolkata"}``.
    """
    tally: Counter[int] = Counter()
    filled, read = f"FROM {relation} WHERE {word} IS NOT NULL", None
    while True:
        query = f"SELECT {word} {filled}"
        if read is not None:
            # Texts that are not read yet may be written in another way.
            query = f"SELECT DISTINCT {word} {filled} AND {read.sql} IS NULL ORDER BY 1"
        texts = [text for (text,) in connection.execute(f"{query} LIMIT {_SAMPLE}").fetchall()]
        found = Counter(way for text in texts for way in _ways_of(text))
        if read is not None and {*found} <= {*tally}:
            return read
        tally += found
        read = _reading(connection, relation, word, tally, dayfirst, counts, zones or {})
        if len(texts) < _SAMPLE:
            return read


def _ways_of(text: str) -> list[int]:
    """Return the numbers of the patterns that fit a text, and of the unit if it is a count."""
    if _PLAIN_INSTANT.fullmatch(text) and text[:2] != "25":
        return [_INSTANT]
    unit = count_since_1970(text)
    ways = [number for number, pattern in enumerate(_PATTERNS) if pattern.match(text)]
    return ways if unit is None else [*ways, len(_PATTERNS) + unit]


def _reading(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    word: str,
    tally: Mapping[int, int],
    dayfirst: bool | None,
    counts: bool,
    zones: Mapping[str, str],
) -> Instants:
    """Return how a column is read in which some ways of writing were found."""
    values = f"(SELECT {word} AS word FROM {relation} WHERE {word} IS NOT NULL)"
    ways = [each for number, each in enumerate(_WAYS) if number in tally]
    is_named = any("w" in parts for parts, _ in ways)
    names = _month_names(connection, values) if is_named else "NULL"
    places = _places(tuple(zones.items()))
    read = [
        f"CASE WHEN {word} BETWEEN {_YEARS} THEN {instant(word)} END"
        if _INSTANT in tally
        else "CAST(NULL AS TIMESTAMP)"
    ]
    read += [_assembled(word, pattern, parts, names, places) for parts, pattern in ways]
    order, advice, said = None, "''", _said_of(tally)
    if len(_WAYS) + 1 in tally:
        order, advice, said = _order(connection, values, word, dayfirst)
        read += [] if order is None else [_assembled(word, _LOCAL, f"{order}hisfpo", names, places)]
    units = {unit: tally[len(_PATTERNS) + unit] for unit in range(len(_COUNTS))}
    if counts and any(units.values()):
        unit = max(units, key=units.__getitem__)
        in_words, sql, first, last = _COUNTS[unit]
        exact = (
            f"TRY_CAST({word} AS BIGINT)" if "//" in sql else f"TRY_CAST(replace({word}, ',', '.') AS DOUBLE)"
        )
        micros = f"CASE WHEN {exact} BETWEEN {first} AND {last} THEN CAST({sql.format(exact)} AS BIGINT) END"
        read.append(f"make_timestamp({micros})")
        said = said or in_words
    return Instants(
        f"coalesce({', '.join(read)})", advice, said, order, any(number <= len(_WAYS) for number in tally)
    )


def _said_of(tally: Mapping[int, int]) -> str:
    """Return in words how most instants are written that are neither local nor numbers."""
    clear = {number: count for number, count in tally.items() if number <= len(_WAYS)}
    if not clear:
        return ""
    number = max(clear, key=clear.__getitem__)
    is_in_words = 0 <= number < len(_WAYS) and "w" in _WAYS[number][0]
    return "month in words" if is_in_words else "year, month, day"


def moment(word: str) -> str:
    """Return SQL that reads text of ISO 8601 and like it, whose order is clear, as a UTC instant."""
    parts, pattern = _WAYS[0]
    return f"coalesce({instant(word)}, {_assembled(word, pattern, parts, 'NULL')})"


@cache
def zones_of(name: str) -> list[Zone]:
    """Return the time zones that a name may stand for.

    Examples
    --------
    >>> [[zone.place for zone in zones_of(name)] for name in ("UTC+5:30", "BST", "Eastern Time (US)")]
    [['+05:30'], ['+01:00', 'Asia/Dhaka'], ['America/New_York']]
    """
    if offset := re.fullmatch(r"(?:UTC|GMT)?\s?([+−-])(\d\d?)(?::?(\d\d))?", name, re.IGNORECASE):
        return [Zone(f"{offset[1].replace('−', '-')}{int(offset[2]):02d}:{offset[3] or '00'}")]
    short = re.sub(r"\s|[(,].*|\bus\b.*", "", name.lower())
    return _ZONES.get(short) or ([Zone(name)] if name in _zone_names() else [])


def in_zone(place: str, at: str) -> str:
    """Return SQL of the instant of a time at an offset or in a zone, such as +05:30 or Europe/Paris."""
    if offset := re.fullmatch(r"([+-])(\d\d):(\d\d)", place):
        return f"({at}) - to_minutes({offset[1]}{60 * int(offset[2]) + int(offset[3])})"
    return f"make_timestamp(epoch_us(timezone({literal(place)}, {at})))"


@cache
def _zone_names() -> frozenset[str]:
    rows = scratch.connect().execute("SELECT name FROM pg_timezone_names()").fetchall()
    return frozenset(name for (name,) in rows)


def _month_names(connection: duckdb.DuckDBPyConnection, values: str) -> str:
    """Return SQL for the number of the month that the folded text ``name`` is, of those in a column."""
    words = connection.execute(
        rf"SELECT DISTINCT lower(unnest(regexp_extract_all(word, '\pL{{3,}}'))) FROM {values}"
    ).fetchall()
    return cases("lower(part.w)", {word: f"'{_MONTH_OF[word]}'" for (word,) in words if word in _MONTH_OF})


@cache
def _places(chosen: tuple[tuple[str, str], ...]) -> str:
    """Return SQL of what a name of a zone, ``part.o``, is at the end of a text that DuckDB reads."""
    known = {name: zone.place for name, zones in _ZONES.items() for zone in zones if zone.holds} | dict(
        chosen
    )
    names, places = (
        ", ".join(map(literal, each))
        for each in (known, [at if ":" in at else f" {at}" for at in known.values()])
    )
    return f"[{places}][list_position([{names}], lower(part.o))]"


def _assembled(word: str, pattern: str, parts: str, month_names: str, zones: str = "") -> str:
    """Return SQL of the instant whose parts a pattern finds in text."""
    hour = "part.h"
    if "p" in parts:
        is_late = "lower(part.p) IN ('p', 'μ', 'µ', '오후', '午後', '下午')"
        half = f"TRY_CAST(part.h AS INTEGER) % 12 + CASE WHEN {is_late} THEN 12 ELSE 0 END"
        is_half = "TRY_CAST(part.h AS INTEGER) BETWEEN 1 AND 12"
        hour = f"CASE WHEN part.p = '' THEN part.h WHEN {is_half} THEN CAST({half} AS VARCHAR) END"
    digits = r"regexp_replace(regexp_replace(part.o, '^[A-Z]+ ?', ''), '^([+-])(\d)(:?\d\d|:?)$', '\10\2\3')"
    offset = rf"rpad(regexp_replace({digits}, '^([+-]\d\d):?(\d\d)?$', '\1:\2'), 6, '0')"
    zone = f"CASE WHEN part.o = '' THEN '+00:00' WHEN regexp_matches(part.o, '[+-]\\d') THEN {offset} "
    zone += f"WHEN contains(part.o, '/') THEN ' ' || part.o ELSE {zones or _places(())} END"
    digits_of_year = "CAST(ltrim(part.y, '民國令和RＲ. ') AS INT)"
    eras = "".join(
        f" WHEN regexp_full_match(part.y, '{era}') THEN CAST({digits_of_year} + {more} AS VARCHAR)"
        for era, more in _ERAS.items()
    )
    year = f"CASE{eras} ELSE part.y END"
    month = month_names if "w" in parts else "part.m"
    two = "lpad(coalesce(nullif({}, ''), '00'), 2, '0')".format
    second = two("part.s") + (
        " || CASE WHEN part.f = '' THEN '' ELSE '.' || part.f END" if "f" in parts else ""
    )
    text = (
        f"{year} || '-' || lpad({month}, 2, '0') || '-' || lpad(part.d, 2, '0') || ' ' || "
        f"CASE WHEN ({hour}) IS NOT NULL THEN {two(hour)} END || ':' || {two('part.i')} || ':' || "
        f"{second} || {zone}"
    )
    names = ", ".join(f"'{part}'" for part in parts)
    found = f"regexp_extract({word}, {literal(pattern)}, [{names}])"
    moment = f"make_timestamp(epoch_us(TRY_CAST({text} AS TIMESTAMPTZ)))"
    # Parts are blank where the pattern does not fit.
    is_year = f"({year}) BETWEEN {_YEARS}"
    return f"list_transform([{found}], lambda part: CASE WHEN {is_year} THEN {moment} END)[1]"


def _order(
    connection: duckdb.DuckDBPyConnection, values: str, word: str, dayfirst: bool | None
) -> tuple[str | None, str, str]:
    """Return the order of day, month and year in local dates, if clear; SQL of advice; and what shows it."""
    names = ["a", "b", "c"]
    parts = f"regexp_extract(word, {literal(_LOCAL)}, {names})"
    number = "CAST(part.{0} AS INTEGER)".format
    rows = f"(SELECT word, {parts} AS part FROM {values} WHERE regexp_matches(word, {literal(_LOCAL)}))"
    dmy, mdy = f"{number('a')} <= 31 AND {number('b')} <= 12", f"{number('b')} <= 31 AND {number('a')} <= 12"
    dots = r"regexp_matches(word, '^\d+\. ?\d+\.')"
    # A year that is still to come is none.
    next_year = datetime.now(UTC).year % 100 + 1
    day, month, other, is_dotted, are_same, may_begin_with_year = connection.execute(
        f"SELECT min(word) FILTER ({dmy} AND NOT ({mdy})), min(word) FILTER ({mdy} AND NOT ({dmy})), "
        f"min(word), "
        f"bool_and({dots}), bool_and(part.a = part.b), "
        f"bool_and(length(part.c) = 2 AND {number('a')} <= {next_year} AND {number('c')} <= 31) FROM {rows}"
    ).fetchall()[0]
    if other is None:
        return None, "''", ""
    if dayfirst is not None:
        return ("dmy", "''", "day first, as chosen") if dayfirst else ("mdy", "''", "month first, as chosen")
    if day is not None and month is not None:
        said = (
            f"; {day!r} begins with the day and {month!r} with the month: write all dates alike, or pass "
            "dayfirst=True or dayfirst=False to reject the others"
        )
        return None, _for_local(word, literal(said)), ""
    if may_begin_with_year and month is None:
        said = (
            "; it may be read as day, month and year, month, day and year, or year, month and day: write the "
            "year with four digits, or pass dayfirst=True or dayfirst=False"
        )
        return None, _for_local(word, literal(said)), ""
    if day is not None:
        return "dmy", "''", f"day first: {day}"
    if month is not None:
        return "mdy", "''", f"month first: {month}"
    if is_dotted or are_same:
        return "dmy", "''", "day first: written with dots" if is_dotted else "day and month are equal"
    shown = [
        f"strftime({_assembled(word, _LOCAL, f'{order}hisfpo', 'NULL')}, '%-d %B %Y')"
        for order in ("dmy", "mdy")
    ]
    said = (
        f"'; it is ' || {shown[0]} || ' with dayfirst=True and ' || {shown[1]} || ' with "
        "dayfirst=False; no row has a day above 12, so pass dayfirst=True or dayfirst=False'"
    )
    return None, _for_local(word, said), ""


def _for_local(word: str, advice: str) -> str:
    return f"CASE WHEN regexp_matches({word}, {literal(_IS_LOCAL)}) THEN {advice} ELSE '' END"


#: Number of the way of RFC 3339.
_INSTANT: Final = -1
_PLAIN_INSTANT: Final = re.compile(RFC_3339)
#: The ways, the dates in which the order is not clear, and what begins like those.
_PATTERNS: Final = [
    re.compile(pattern.replace(r"\pL", r"[^\W\d_]"))
    for pattern in (*(way for _, way in _WAYS), _LOCAL, _IS_LOCAL)
]
_WORDS: Final = re.compile(r"[^\W\d_]{3,}")


def looks_like_instant(text: str) -> bool:
    """Return whether text is written as an instant or a day is, apart from numbers that stand for one.

    Examples
    --------
    >>> [looks_like_instant(text) for text in ("3 sept. 2025", "03/04/2025", "Suite 3 2025", "45903.75")]
    [True, True, False, False]
    """
    for (parts, _), pattern in zip((*_WAYS, ("dmy", "")), _PATTERNS, strict=False):
        if pattern.match(text):
            return "w" not in parts or any(word.lower() in _MONTH_OF for word in _WORDS.findall(text))
    return False


def count_since_1970(text: str) -> int | None:
    """Return the number of the unit in which a number stands for an instant; the last are days of Excel."""
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return None
    found = [unit for unit, (*_, first, last) in enumerate(_COUNTS) if first <= number <= last]
    return found[0] if found else None


def looks_like_amount(text: str) -> bool:
    """Return whether text is a number, perhaps with the sign or code of a currency.

    Examples
    --------
    >>> [looks_like_amount(text) for text in ("1.020,00 €", "(4.50)", "2025-09-03", "x1")]
    [True, True, False, False]
    """
    mark = re.sub(_NO_MARK, "", text).lower().rstrip(".")
    return bool(_IS_AMOUNT.fullmatch(text)) and (not mark or mark in _MARKS)


def clearest(rejected: pd.DataFrame) -> pd.Series[Any]:
    """Return the rejected row whose reason says most: one with an ambiguous date, else the first."""
    is_unclear = rejected["reason"].str.contains("dayfirst=", regex=False)
    row: pd.Series[Any] = rejected.iloc[int(is_unclear.argmax())]
    return row


def plausible(count: str, *, per_second: int) -> str:
    """Return SQL for a count since 1970 in a unit; NULL outside the years 2000 to 2100.

    Counts in another unit lie outside these years.
    """
    *_, first, last = _COUNTS[0]
    return f"CASE WHEN {count} BETWEEN {first * per_second} AND {last * per_second} THEN {count} END"


def moments(texts: Iterable[str], *, dayfirst: bool | None) -> dict[str, tuple[datetime | None, str]]:
    """Return each text's instant, naive and in UTC or None, and the advice for a text that is none."""
    with _table_of(texts) as connection:
        read = instants(connection, "texts", "trim(word)", dayfirst=dayfirst, counts=False)
        found = connection.execute(f"SELECT word, {read.sql}, {read.advice} FROM texts").fetchall()
    return {word: (at, hint) for word, at, hint in found}


def _table_of(texts: Iterable[str]) -> duckdb.DuckDBPyConnection:
    """Open a connection to the distinct words of texts, in the table ``texts``."""
    words = pa.table({"word": pa.array(sorted({*texts}), pa.string())})
    return scratch.connect().register("texts", words)


#: Decimal marks.
MARKS: Final = (".", ",")

#: Numbers whose thousands are separated by spaces, as in French, or by apostrophes, as in Switzerland.
_SPACED: Final = r"^[+-]?\d{1,3}([ \x{00A0}\x{2009}\x{202F}]\d{3})+([.,]\d+)?$"
_APOSTROPHES: Final = r"^[+-]?\d{1,3}([\x{0027}\x{2019}]\d{3})+([.,]\d+)?$"
_SEPARATORS: Final = r"[ \x{00A0}\x{2009}\x{202F}\x{0027}\x{2019}]"

#: In India, groups of two digits stand before the last three: 1,25,300.
_THOUSANDS: Final = r"^-?(\d{1,3}(,\d{3})+|\d{1,2}(,\d\d)+,\d{3})(\.\d+)?$"
_COMMA_NUMBER: Final = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$"
#: Numbers that only make sense with a decimal comma, and those that only make sense with a decimal point.
_HAS_COMMA: Final = (
    r"^[+-]?(\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}|\d+,(\d\d?|\d{4}\d*)|(0\d*|\d{4}\d*),\d+)$"
)
_HAS_POINT: Final = (
    r"^[+-]?(\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,}|\d{1,2}(,\d\d)+,\d{3}(\.\d+)?"
    r"|\d+\.(\d\d?|\d{4}\d*)|(0\d*|\d{4}\d*)\.\d+)$"
)
#: Numbers of a thousand or more, or with three decimals.
_HAS_EITHER: Final = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"
#: Those that end with a zero, and numbers without a mark.
_HAS_ZERO: Final = r"^[+-]?[1-9]\d{0,2}[.,]\d\d0$"
_IS_WHOLE: Final = r"^[+-]?[1-9]\d*$"


def decimal_mark(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    word: str,
    *,
    decimal: str | None,
    place: str,
    field: str,
    is_count: bool = False,
    is_money: bool = False,
    otherwise: Callable[[], str | None] = lambda: None,
) -> tuple[str, str | None]:
    """Return the decimal mark of a column of text, and the number that shows it, which decides for all.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database of the column.
    relation, word : str
        SQL of the table and of the column.
    decimal : str or None
        The mark, if the caller gives it.
    place : str
        Name of the column in messages.
    field : str
        Name of the argument in messages.
    is_count : bool, default False
        Whether the numbers are counts, in which a comma followed by three digits separates thousands.
    is_money : bool, default False
        Whether the numbers have at most two decimals, as currencies have beside their signs.
    otherwise : callable, optional
        Returns the mark if none of the numbers is clear, such as that of other columns.

    Raises
    ------
    InvalidRequest
        If the numbers contradict each other, or none of them is clear.
    """
    if decimal is not None:
        if decimal not in MARKS:
            raise InvalidRequest.value("decimal", decimal, "'.' or ','")
        return decimal, None
    shown = (
        f"min(cell) FILTER (regexp_matches(number, '{pattern}'))"
        for pattern in (_HAS_COMMA, _HAS_POINT, _THOUSANDS, _HAS_EITHER, _HAS_ZERO, _IS_WHOLE)
    )
    comma, point, separated, either, rounded, whole = connection.execute(
        f"WITH cells AS (SELECT {word} AS cell FROM {relation}), "
        f"numbers AS (SELECT cell, {_joined('cell')} AS number FROM cells) "
        f"SELECT {', '.join(shown)} FROM numbers"
    ).fetchall()[0]
    if comma is not None and point is not None:
        raise InvalidRequest(
            f"{field}: in {place}, {comma!r} has a decimal comma and {point!r} a decimal point; write all "
            "numbers alike"
        )
    if comma is None and point is None and is_count and separated is not None:
        return ".", separated
    if comma is None and point is None and rounded is not None and whole is not None:
        # With three decimals, 300 would be 300.000, or 1.200 would be 1.2.
        return ("." if "," in rounded else ","), rounded
    if comma is None and point is None and either is not None and (other := otherwise()) is not None:
        return other, None
    if comma is None and point is None and either is not None and is_money:
        return ("." if "," in either else ","), either
    if comma is None and point is None and either is not None:
        raise InvalidRequest(
            f"{field}: in {place}, {either!r} may be in thousands or have three decimals; pass decimal='.' "
            "or decimal=','"
        )
    return ("," if comma is not None else "."), comma or point


#: Codes by what stands beside amounts, in lower case; None of signs that several currencies share.
_MARKS: Final = (
    {code.lower(): code for code in CURRENCIES}
    | {sign.lower(): code for sign, code in SIGNS.items()}
    | {sign: code or None for code, signs in _rows_of("signs.tsv") for sign in signs.split()}
)
#: Currencies without a smaller unit, whose separators are of thousands.
WHOLE: Final = frozenset([
    "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV",
    "XAF", "XOF", "XPF",
])  # fmt: skip
#: Currencies with a thousand minor units, and names that they share with others.
THOUSANDTHS: Final = frozenset(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND", "dinar", "rial"])
#: Currencies whose amounts are written without the smaller unit.
_LARGE: Final = WHOLE | {"COP", "HUF", "IDR", "IRR", "KHR", "LAK", "LBP", "MMK", "UZS"}
_IS_AMOUNT: Final = re.compile(
    r"[^\W\d_]{0,3}[^\w\s+]{0,2}\s?[-−–]?\s?\d[\d., \u00a0\u2009\u202f'’]*\)?-?\s?[^\d\s]{0,4}"
)
_MINUS: Final = "trim(replace(replace(cell, '−', '-'), '–', '-'))"
_BEHIND: Final = r"^(?:\((.*)\)|(.*?)\s*-|-\s*(.*))$"
#: SQL of a number whose minus stands before it, of one in brackets or with it behind.
_SIGNED: Final = (
    f"CASE WHEN regexp_matches({_MINUS}, '{_BEHIND}') THEN list_transform([regexp_extract({_MINUS}, "
    f"'{_BEHIND}', ['a', 'b', 'c'])], lambda part: '-' || trim(part.a || part.b || part.c))[1] "
    f"ELSE ltrim({_MINUS}, '+ ') END"
)
#: Numbers that can be read in one way only.
_PLAIN: Final = r"-?\d+(\.\d{1,2})?"
#: What numbers consist of, and what does not belong to one.
_NUMERIC: Final = "-+−–0-9., \u00a0\u2009\u202f'’()"
_NO_MARK: Final = f"[{_NUMERIC}]"


def code_beside(word: str) -> str | None:
    """Return the code of a currency for what stands beside amounts or in the name of their column.

    Examples
    --------
    >>> [code_beside(word) for word in ("€", "руб.", "円", "USD", "pcs")]
    ['EUR', 'RUB', 'JPY', 'USD', None]
    """
    return _MARKS.get(word.lower().rstrip("."))


#: Code, currency and shared signs of countries, by their codes and names.
_COUNTRIES: Final = {
    name: (code, currency, signs.split())
    for code, currency, signs, names in _rows_of("countries.tsv")
    for name in names.split("|")
}


def country_called(word: str) -> str | None:
    """Return the code of a country for its code or name, of those with a currency or zone of a shared name.

    Examples
    --------
    >>> [country_called(word) for word in ("USA", "India", "Sverige", "Elsewhere")]
    ['US', 'IN', 'SE', None]
    """
    return _COUNTRIES.get(word.strip().lower(), (None,))[0]


def currency_of(country: str, mark: str) -> str | None:
    """Return the currency of a country, if its sign is the one that several share.

    Examples
    --------
    >>> currency_of("US", "$"), currency_of("SE", "kr"), currency_of("SE", "$")
    ('USD', 'SEK', None)
    """
    _, currency, signs = _COUNTRIES[country.lower()]
    return currency if mark in signs else None


def is_shared(word: str) -> bool:
    """Return whether a sign or word beside amounts is that of several currencies."""
    return _MARKS.get(word.lower().rstrip("."), "") is None


#: Codes by the names of currencies.
_CALLED: Final = {name: code for code, names in _rows_of("currency_names.tsv") for name in names.split("|")}


@cache
def currency_called(word: str, shared: str | None = None) -> str | None:
    """Return the code of a currency for its code, name or sign, that of signs of several, or None.

    Examples
    --------
    >>> [currency_called(word) for word in ("Euro", "US-Dollar", "грн.", "złoty polski", "kr", "Dollar")]
    ['EUR', 'USD', 'UAH', 'PLN', None, None]
    >>> currency_called("kr", "SEK")
    'SEK'
    """
    name = re.sub(r"[\s.'’()-]+", " ", word.casefold()).strip()
    return code_beside(word.strip()) or _CALLED.get(name) or (shared if is_shared(word.strip()) else None)


@dataclass(frozen=True)
class Amounts:
    """How a column of text is read as amounts of money.

    Attributes
    ----------
    sql : str
        SQL of the amount, of type DOUBLE; NULL where a text is none.
    currency : str or None
        SQL of the code of the currency that stands beside each amount, if any does.
    mark : str or None
        Decimal mark, if a number shows it.
    proof : str or None
        That number.
    """

    sql: str
    currency: str | None
    mark: str | None = None
    proof: str | None = None


def amounts(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    word: str,
    *,
    decimal: str | None,
    place: str,
    field: str,
    is_count: bool = False,
    currencies: Collection[str] = (),
    otherwise: Callable[[], str | None] = lambda: None,
) -> Amounts:
    """Return how the texts of a column are read as amounts, with the signs or codes of their currencies.

    Amounts in brackets and those with a minus behind them are below zero.

    Parameters
    ----------
    connection, relation, word, decimal, place, field, is_count, otherwise
        As for :func:`decimal_mark`.
    currencies : collection of str, optional
        Codes of the currencies that something else tells of amounts that stand without a sign or code.

    Raises
    ------
    InvalidRequest
        As :func:`decimal_mark` does; or if amounts with a sign or code stand beside others without.
    """
    is_plain = f"regexp_full_match({word}, {literal(_PLAIN)})"
    if (
        decimal in {None, "."}
        and connection.execute(f"SELECT bool_and({is_plain}) FROM {relation}").fetchall()[0][0]
    ):
        return Amounts(f"TRY_CAST({word} AS DOUBLE)", None)
    mark = f"nullif(rtrim(lower(regexp_replace(cell, {literal(_NO_MARK)}, '', 'g')), '.'), '')"
    number = f"trim(regexp_replace(cell, {literal(f'[^{_NUMERIC}]+[.]?')}, '', 'g'))"
    marks, bare, example, are_signed, has_decimals, is_one_mark = connection.execute(
        f"WITH cells AS (SELECT {word} AS cell FROM {relation}), "
        f"parts AS (SELECT cell, {mark} AS mark, {number} AS number FROM cells) "
        "SELECT list(DISTINCT mark) FILTER (mark IS NOT NULL), "
        "min(cell) FILTER (mark IS NULL AND regexp_matches(cell, '[1-9]')), "
        "min(cell) FILTER (mark IS NOT NULL), "
        r"bool_or(regexp_matches(number, '[(−–]|-\s*$|^[+-]\s')), "
        r"bool_or(regexp_matches(number, '[.,]\d\d?$')), "
        "count(DISTINCT nullif(regexp_extract(number, '[.,]'), '')) < 2 FROM parts"
    ).fetchall()[0]
    known = {each: _MARKS[each] for each in sorted(marks or []) if each in _MARKS}
    if known and not currencies:
        _check_one_currency(known, bare, example, place, field)
    codes = {code or each for each, code in known.items()}
    currency, number_of = None, "cell"
    if known:
        found = {each: literal(code) for each, code in known.items() if code}
        currency = _of_cell(word, cases(mark, found)) if found else None
        if len(codes) == 1 and found:
            currency = literal(*codes)
        number_of = f"CASE WHEN {mark} IN ({', '.join(map(literal, known))}) THEN {number} ELSE cell END"
    signed = _of_cell(word, _of_cell(number_of, _SIGNED) if are_signed else number_of)
    units = {*known.values()} or {*currencies}
    are_large = units <= _LARGE or (known and {*known} <= {"¥", "￥"})
    if decimal is None and units and are_large and not has_decimals:
        return Amounts(
            _of_cell(signed, f"TRY_CAST(regexp_replace({_joined('cell')}, '[.,]', '', 'g') AS DOUBLE)"),
            currency,
        )
    written, proof = decimal_mark(
        connection,
        relation,
        signed,
        decimal=decimal,
        place=place,
        field=field,
        is_count=is_count,
        is_money=is_one_mark and bare is None and bool(known) and not {*known, *units} & THOUSANDTHS,
        otherwise=otherwise,
    )
    sql = _of_cell(signed, f"TRY_CAST({plain('cell', written)} AS DOUBLE)")
    return Amounts(sql, currency, None if proof is None else written, proof)


def _check_one_currency(
    known: Mapping[str, str | None], bare: str | None, example: str, place: str, field: str
) -> None:
    """Refuse amounts in two currencies, and one with a currency beside a bare one."""
    codes = sorted({code or each for each, code in known.items()})
    if len(codes) > 1 and (bare is not None or None in known.values()):
        raise InvalidRequest(
            f"{field}: {place} has amounts in two currencies, {' and '.join(codes)}, and others that do not "
            f"say theirs, such as {bare if bare is not None else example!r}; write the currency of each row "
            "in a column of its own",
            field=field,
        )
    if bare is not None and codes != ["$"]:
        raise InvalidRequest(
            f"{field}: {place} may have amounts in two currencies: {example!r} has one, and {bare!r} has "
            f"none; if all are in {codes[0]}, pass currency={codes[0]!r}",
            field=field,
        )


class Numbers(NamedTuple):
    """Amounts as numbers.

    Attributes
    ----------
    values : ndarray
        NaN where a text is none.
    mark : str or None
        Their decimal mark, if they show it.
    is_open : bool
        Whether they were read with an assumed mark.
    """

    values: np.ndarray
    mark: str | None
    is_open: bool


def numbers(connection: duckdb.DuckDBPyConnection, texts: Sequence[str | None], assumed: str) -> Numbers:
    """Return amounts as numbers; those that show no decimal mark are read with an assumed one."""
    written = [text for text in texts if text is not None]
    shown = "." if any(re.fullmatch(r"-?\d+\.\d\d?", text) for text in written) else None
    if all(re.fullmatch(_PLAIN, text) for text in written):
        return Numbers(np.array([np.nan if text is None else float(text) for text in texts]), shown, False)
    connection.register("texts", pa.table({"word": pa.array(texts, pa.string())}))
    is_open = False

    def other_mark() -> str:
        nonlocal is_open
        is_open = True
        return assumed

    try:
        read = amounts(
            connection,
            "texts",
            "trim(word)",
            decimal=None,
            place="",
            field="",
            currencies=CURRENCIES,
            otherwise=other_mark,
        )
    except InvalidRequest:
        return Numbers(np.full(len(texts), np.nan), None, False)
    found = connection.execute(f"SELECT CAST({read.sql} AS DOUBLE) AS number FROM texts").fetchnumpy()
    return Numbers(np.ma.filled(found["number"], np.nan), shown or read.mark, is_open)


def _of_cell(word: str, sql: str) -> str:
    """Return SQL of a ``cell`` with a longer one in its place, which DuckDB reads and computes once."""
    return word if sql == "cell" else f"list_transform([{word}], lambda cell: {sql})[1]"


def plain(word: str, mark: str) -> str:
    """Return SQL for a number with a decimal point and no other separators."""
    word = _joined(word)
    if mark == ",":
        number = f"replace(replace({word}, '.', ''), ',', '.')"
        return f"CASE WHEN regexp_matches({word}, '{_COMMA_NUMBER}') THEN {number} END"
    return f"CASE WHEN regexp_matches({word}, '{_THOUSANDS}') THEN replace({word}, ',', '') ELSE {word} END"


def _joined(word: str) -> str:
    """Return SQL for a number without spaces and apostrophes between its thousands."""
    is_separated = f"regexp_matches({word}, '{_SPACED}') OR regexp_matches({word}, '{_APOSTROPHES}')"
    return f"CASE WHEN {is_separated} THEN regexp_replace({word}, '{_SEPARATORS}', '', 'g') ELSE {word} END"


def plain_numbers(
    texts: Iterable[str], *, decimal: str | None, place: str, field: str
) -> dict[str, str | None]:
    """Return the numbers of a column by their text, with a decimal point and no other separators."""
    with _table_of(texts) as connection:
        mark, _ = decimal_mark(connection, "texts", "trim(word)", decimal=decimal, place=place, field=field)
        return dict(connection.execute(f"SELECT word, {plain('trim(word)', mark)} FROM texts").fetchall())
