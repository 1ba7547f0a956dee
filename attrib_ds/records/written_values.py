"""Instants and numbers as people write them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import duckdb
import pandas as pd
import pyarrow as pa

from attrib_ds.errors import InvalidRequest, check_choice
from attrib_ds.records.sources import instant, literal

#: Dates that begin with the day or the month, and those with a year of two digits.
_LOCAL: Final = r"^\d{1,2}[./-]\d{1,2}[./-]\d{4}"
_SHORT: Final = r"^\d{1,2}[./-]\d{1,2}[./-]\d{2}(\D|$)"
#: Dates that begin with the year but not as ISO 8601 writes them, and dates that name the month in English.
_BIG_ENDIAN: Final = r"^\d{4}([./]\d{1,2}[./]\d{1,2}|-\d{1,2}-\d{1,2} .*[AaPp][Mm]$)"
_NAMED: Final = r"^(\d{1,2}[ -])?[A-Za-z]{3,9}[ -](\d{1,2}, ?)?\d{4}(\D|$)"
#: Days, hours and minutes of Google Analytics: 20250131, 2025013114, 202501311405.
_COMPACT: Final = r"^20\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])(\d\d){0,2}$"
_CLOCKS: Final = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
#: Seconds since 1970 of the years 2000 and 2100.
_FIRST_SECOND: Final = 946_684_800
_LAST_SECOND: Final = 4_102_444_800
#: How to say which.
ADVICE: Final = "; pass dayfirst=True or dayfirst=False"
_SHORT_ADVICE: Final = "; write the year with four digits"


def moment(word: str, *, dayfirst: bool | None) -> str:
    """Return SQL that reads text as a UTC instant of type TIMESTAMP; NULL if it is none.

    The default offset is UTC, the default time midnight.
    """
    # BigQuery writes UTC, PostgreSQL and DuckDB write offsets of whole hours.
    zone = rf"regexp_replace({word}, '(:\d\d(?:\.\d+)?) UTC$', '\1Z')"
    hours = rf"regexp_replace({zone}, '(:\d\d(?:\.\d+)?)([+-]\d\d)$', '\1\2:00')"
    colon = rf"regexp_replace({hours}, '\s*([+-]\d{{2}}):?(\d{{2}})$', '\1:\2')"
    clock = rf"regexp_replace({colon}, '^(\S{{10}}[Tt ]\d{{2}}:\d{{2}})([Zz+-]|$)', '\1:00\2')"
    is_date = rf"regexp_full_match({word}, '\d{{4}}-\d{{2}}-\d{{2}}')"
    whole = f"CASE WHEN {is_date} THEN {word} || 'T00:00:00' ELSE {clock} END"
    return f"coalesce({instant(whole)}, {_written_moment(word)}, {_local_moment(word, dayfirst)})"


def advice(word: str, *, dayfirst: bool | None) -> str:
    """Return SQL for the advice to give with text that is not an instant."""
    is_unclear = f"{str(dayfirst is None).lower()} AND regexp_matches({word}, '{_LOCAL}')"
    is_short = f"regexp_matches({word}, '{_SHORT}')"
    return (
        f"CASE WHEN {is_short} THEN {literal(_SHORT_ADVICE)} WHEN {is_unclear} THEN {literal(ADVICE)} "
        "ELSE '' END"
    )


def clearest(rejected: pd.DataFrame) -> pd.Series[Any]:
    """Return the rejected row whose reason says most: one with an ambiguous date, else the first."""
    is_unclear = rejected["reason"].str.contains("pass dayfirst=", regex=False)
    row: pd.Series[Any] = rejected.iloc[int(is_unclear.argmax())]
    return row


def plausible(count: str, *, per_second: int) -> str:
    """Return SQL for a count since 1970 in a unit; NULL outside the years 2000 to 2100.

    Counts in another unit lie outside these years.
    """
    first, last = _FIRST_SECOND * per_second, _LAST_SECOND * per_second
    return f"CASE WHEN {count} BETWEEN {first} AND {last} THEN {count} END"


def _written_moment(word: str) -> str:
    """Return SQL for dates whose order is clear: ``2025/01/31``, ``31 Jan 2025``, ``January 31, 2025``."""
    big_endian = [f"%Y{mark}%m{mark}%d" for mark in "/.-"]
    named = [
        pattern.replace("%b", month)
        for month in ("%b", "%B")
        for pattern in ("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %d,%Y")
    ]
    compact = f"TRY_STRPTIME({word}, ['%Y%m%d', '%Y%m%d%H', '%Y%m%d%H%M'])"
    return (
        f"CASE WHEN regexp_matches({word}, '{_COMPACT}') THEN {compact} "
        f"WHEN regexp_matches({word}, '{_BIG_ENDIAN}') THEN {_parsed(word, big_endian)} "
        f"WHEN regexp_matches({word}, '{_NAMED}') THEN {_parsed(word, named)} END"
    )


def _local_moment(word: str, dayfirst: bool | None) -> str:
    if dayfirst is None:
        return "CAST(NULL AS TIMESTAMP)"
    first, second = ("d", "m") if dayfirst else ("m", "d")
    dates = [f"%{first}{mark}%{second}{mark}%Y" for mark in "/.-"]
    # %Y takes 25 for the year 25.
    return f"CASE WHEN regexp_matches({word}, '{_LOCAL}') THEN {_parsed(word, dates)} END"


def _parsed(word: str, dates: Iterable[str]) -> str:
    formats = (literal(f"{date}{clock}") for date in dates for clock in _CLOCKS)
    return f"TRY_STRPTIME({word}, [{', '.join(formats)}])"


def moments(texts: Iterable[str], *, dayfirst: bool | None) -> dict[str, tuple[datetime | None, str]]:
    """Return each text's instant, naive and in UTC or None, and the advice for a text that is none."""
    read, said = (sql("trim(word)", dayfirst=dayfirst) for sql in (moment, advice))
    with _table_of(texts) as connection:
        found = connection.execute(f"SELECT word, {read}, {said} FROM texts").fetchall()
    return {word: (at, hint) for word, at, hint in found}


def _table_of(texts: Iterable[str]) -> duckdb.DuckDBPyConnection:
    """Open a database with the distinct words of texts, in the table ``texts``."""
    words = pa.table({"word": pa.array(sorted({*texts}), pa.string())})
    return duckdb.connect().register("texts", words)


#: Decimal marks.
MARKS: Final = (".", ",")

#: Numbers whose thousands are separated by spaces, as in French, or by apostrophes, as in Switzerland.
_SPACED: Final = r"^[+-]?\d{1,3}([ \x{00A0}\x{2009}\x{202F}]\d{3})+([.,]\d+)?$"
_APOSTROPHES: Final = r"^[+-]?\d{1,3}([\x{0027}\x{2019}]\d{3})+([.,]\d+)?$"
_SEPARATORS: Final = r"[ \x{00A0}\x{2009}\x{202F}\x{0027}\x{2019}]"

_THOUSANDS: Final = r"^-?\d{1,3}(,\d{3})+(\.\d+)?$"
_COMMA_NUMBER: Final = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$"
#: Numbers that only make sense with a decimal comma, and those that only make sense with a decimal point.
_HAS_COMMA: Final = (
    r"^[+-]?(\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}|\d+,(\d\d?|\d{4}\d*)|(0\d*|\d{4}\d*),\d+)$"
)
_HAS_POINT: Final = (
    r"^[+-]?(\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,}|\d+\.(\d\d?|\d{4}\d*)|(0\d*|\d{4}\d*)\.\d+)$"
)
#: Numbers of a thousand or more, or with three decimals.
_HAS_EITHER: Final = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"


def decimal_mark(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    word: str,
    *,
    decimal: str | None,
    place: str,
    field: str,
    is_count: bool = False,
) -> str:
    """Return the decimal mark of a column of text: one number that is clear decides for all.

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

    Raises
    ------
    InvalidRequest
        If the numbers contradict each other, or none of them is clear.
    """
    if decimal is not None:
        check_choice("decimal", decimal, MARKS)
        return decimal
    number = _joined(word)
    comma, point, separated, either = connection.execute(
        "SELECT "
        + ", ".join(
            f"min({word}) FILTER (regexp_matches({number}, '{pattern}'))"
            for pattern in (_HAS_COMMA, _HAS_POINT, _THOUSANDS, _HAS_EITHER)
        )
        + f" FROM {relation}"
    ).fetchall()[0]
    if comma is not None and point is not None:
        raise InvalidRequest(
            f"{field}: in {place}, {comma!r} has a decimal comma and {point!r} a decimal point; write all "
            "numbers alike"
        )
    if comma is None and point is None and is_count and separated is not None:
        return "."
    if comma is None and point is None and either is not None:
        raise InvalidRequest(
            f"{field}: in {place}, {either!r} may be in thousands or have three decimals; pass decimal='.' "
            "or decimal=','"
        )
    return "," if comma is not None else "."


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
        mark = decimal_mark(connection, "texts", "trim(word)", decimal=decimal, place=place, field=field)
        return dict(connection.execute(f"SELECT word, {plain('trim(word)', mark)} FROM texts").fetchall())
