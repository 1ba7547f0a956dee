"""The columns of a file with its instants: one column, or those of the day and of the time of day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.display import printable
from attrib_ds.errors import IgnoredTimes, InvalidRequest, warn
from attrib_ds.importers.column_names import folded
from attrib_ds.records import written_instants

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attrib_ds.importers.own_columns import Named, OwnColumns

#: Columns of Google Analytics that count microseconds.
_MICROSECONDS: Final = ("eventtimestamp",)
_MIDNIGHT: Final = "2000-01-01"


def find_date(
    table: OwnColumns, named: Mapping[str, Named], *, required: bool = True, called: str = "date"
) -> list[str]:
    """Return the column of the instants, or those of the day and of the time of day; none if not required.

    Warns
    -----
    IgnoredTimes
        If a column beside one of days looks like their times, but cannot be read as such.
    """
    given = named.get("date")
    if given is not None:
        columns = [given] if isinstance(given, str) else list(given)
        if not 1 <= len(columns) <= 2 or len(set(columns)) < len(columns):
            raise InvalidRequest(
                f"date: {given!r} is not allowed; allowed: one column, or those of the day and of the time "
                "of day",
                field="date",
            )
        return [str(table.find("date", {"date": column}, called=called)) for column in columns]
    times = [column for column in table.common("time") if table.is_filled(column)]
    clocks = [column for column in times if _share(table, column, clock(table, column)) > 0.5]
    days = [column for column in table.common("date") if column not in clocks]
    day = next((column for column in days if table.is_filled(column)), next(iter(days), None))
    if day is None:
        column = table.find("date", named, required=required, called=called)
        return [] if column is None else [column]
    if not _has_days_only(table, day):
        return [day]
    if clocks:
        return [day, clocks[0]]
    others = [column for column in times if column != day]
    instants = [column for column in others if _share(table, column, moment(table, column)) > 0.5]
    if others and not instants:
        _warn(table, others[0], day)
    return instants[:1] or [day]


def moment(table: OwnColumns, column: str) -> str:
    """Return SQL for a column as an instant; the default offset is UTC, the default time midnight."""
    word = table.source.word(column)
    if table.source.types[column] in {"BIGINT", "HUGEINT", "UBIGINT"} or folded(column) in _MICROSECONDS:
        # Google Analytics counts microseconds.
        micros = written_instants.plausible(f"TRY_CAST({word} AS BIGINT)", per_second=1_000_000)
        counted = f"make_timestamp({micros})"
    else:
        counted = "CAST(NULL AS TIMESTAMP)"
    written = written_instants.moment(word, dayfirst=table.formats.dayfirst)
    return f"coalesce({table.source.instant(column)}, {counted}, {written})"


def clock(table: OwnColumns, column: str) -> str:
    """Return SQL for a time of day as the interval since midnight, UTC by default; NULL if it is none."""
    twelve = rf"regexp_replace(upper({table.source.word(column)}), '\s*([AP])\.?M\.?$', ' \1M')"
    padded = rf"regexp_replace({twelve}, '^(\d):', '0\1:')"
    is_clock = rf"regexp_matches({padded}, '^\d\d:\d\d')"
    instant = written_instants.moment(f"'{_MIDNIGHT} ' || {padded}", dayfirst=None)
    return f"CASE WHEN {is_clock} THEN {instant} - TIMESTAMP '{_MIDNIGHT}' END"


def _has_days_only(table: OwnColumns, column: str) -> bool:
    """Return whether all instants of a column are midnights."""
    at = moment(table, column)
    return bool(_first(table, f"coalesce(bool_and({at} = date_trunc('day', {at})), false)"))


def _share(table: OwnColumns, column: str, sql: str) -> float:
    """Return the share of the values of a column for which SQL is not NULL."""
    share = _first(table, f"count({sql}) / count({table.source.word(column)})")
    return float(str(share))


def _warn(table: OwnColumns, column: str, day: str) -> None:
    word = table.source.word(column)
    example = _first(table, f"min({word}) FILTER ({clock(table, column)} IS NULL)")
    warn(
        f"the column {column!r} of {table.name} is not used: its values, such as "
        f"{printable(repr(example))}, are no times of day such as 14:05, so that the days of {day!r} have no "
        "time. Write them so, or make one column of both, such as '2025-01-31T14:05:00Z'",
        IgnoredTimes,
    )


def _first(table: OwnColumns, sql: str) -> object:
    return table.connection.execute(f"SELECT {sql} FROM {table.source.relation}").fetchall()[0][0]
