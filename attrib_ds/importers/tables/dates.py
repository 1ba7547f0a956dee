"""Columns of instants, or of days and times of day, and the SQL of their values."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from attrib_ds import display, errors
from attrib_ds.importers.columns import COMMON_NAMES, Named, folded, names_of
from attrib_ds.importers.content import evidence
from attrib_ds.importers.tables.candidates import TWO_DAYS, candidates, is_before
from attrib_ds.importers.tables.instants import OFFSET
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.roles import AS_TEXT, checked, find_column
from attrib_ds.importers.tables.table import ten
from attrib_ds.records import sources, written_values

#: Texts with a time of day, or with a count of seconds, in lower case.
_CLOCK_OR_COUNT: Final = ":|[0-9]t[0-9]|[0-9] ?[ap]m$|^[0-9]{9,}([.][0-9]+)?$"
_LOCAL_TIME: Final = re.compile(
    r"\blocal\b|\bort(s)?zeit|\blocale\b|\blokal|местн|現地|当地|현지|yerel|paikallinen|helyi|miejscow",
    re.IGNORECASE,
)
_ZONES: Final = frozenset(map(folded, COMMON_NAMES["zone"]))
_HALF: Final = 0.5
#: The hour of a time at the end of a text without AM or PM.
_HOUR: Final = re.compile(
    r"(?:^|[T\s,])(\d{1,2}):[0-5]\d(?::[0-5]\d)?(?:[.,]\d+)?\s?(?:Z|[A-Z]{3,4}|[+-]\d\d:?\d*)?$"
)
#: Times, and different hours, that show a clock of twelve hours.
_MANY, _MOST_HOURS = 20, 8
#: Points of a name that speaks for a role clearly.
_CLEAR: Final = 4


def find_date(
    table: OwnTable, named: Mapping[str, Named], *, required: bool = True, called: str = "date"
) -> list[str]:
    """Return the column of the instants, or those of the day and of the time of day.

    Warns
    -----
    InputWarning
        If a column beside one of days looks like their times, but cannot be read as such.
    """
    given = named.get("date")
    if given is not None:
        columns = names_of(given)
        if not 1 <= len(columns) <= 2 or len(set(columns)) < len(columns):
            raise errors.InvalidRequest(
                f"date: {given!r} is not allowed; allowed: one column, or those of the day and of the "
                "time of day"
            )
        return [checked(table, "date", column, called) for column in columns]
    times = list(filter(table.is_filled, candidates(table, "time")))
    clocks = [column for column in times if table.instants.is_mostly(column, table.instants.clock(column))]
    moments = [column for column in times if table.instants.is_mostly(column, table.instants.moment(column))]
    day = table.best([column for column in candidates(table, "date") if column not in clocks] or moments)
    if day is None:
        column = find_column(table, "date", named, required=required, called=called)
        return [] if column is None else [column]
    if not table.instants.are_days(table.instants.moment(day)):
        return [day]
    if clocks:
        return [day, clocks[0]]
    others = [column for column in times if column != day]
    # A column with the time of day beats its own copy without one.
    exact = [name for name in candidates(table, "date") if _is_exact(table, name, day)]
    instants = [column for column in (*moments, *exact) if column != day and column not in clocks]
    if others and not instants:
        _warn_of_times(table, others[0], day)
    return next(([name] for name in instants if _are_same_days(table, name, day)), [day])


def _is_exact(table: OwnTable, column: str, day: str) -> bool:
    """Return whether a column clearly has instants, none of them before those of a column of days."""
    return (
        evidence.weight("date", column) >= _CLEAR
        and not table.instants.are_days(table.instants.moment(column))
        and is_before(
            table,
            f"{table.instants.moment(day)} - INTERVAL 14 HOUR",  # A day begins before it does in UTC.
            table.instants.moment(column),
            by_day=False,
        )
    )


def _are_same_days(table: OwnTable, column: str, day: str) -> bool:
    """Return whether instants are of the days of another column, in any time zone, in most rows."""
    apart = f"epoch({table.instants.moment(column)}) - epoch({table.instants.moment(day)})"
    return bool(table.scalar(f"coalesce(avg(CAST(abs({apart}) < {TWO_DAYS} AS INTEGER)) > {_HALF}, false)"))


def _warn_of_times(table: OwnTable, column: str, day: str) -> None:
    example = table.scalar(f"min({table.word(column)}) FILTER ({table.instants.clock(column)} IS NULL)")
    errors.warn(
        f"the column {column!r} of {table.name} is not used: its values, such as "
        f"{display.printable(repr(example))}, are not times of day such as 14:05, so that the days of "
        f"{day!r} have no time. Write them so, or make one column of both, such as '2025-01-31T14:05:00Z'"
    )


def take_date(table: OwnTable, columns: Sequence[str]) -> None:
    """Select the instants: those of a column, or of one with days and one with times of day."""
    day, *clocks = columns
    _warn_of_twelve_hours(table, columns)
    at = table.instants.moment(day)
    for column in columns:
        if said := table.instants.shared.get(column):
            if "; pass " in said:
                raise errors.InvalidRequest(
                    f"{table.argument}: {column} of {table.name}: {said}", field="timezone"
                )
            table.say(f"{column}: {said}")
    said = table.instants.read[day].advice if day in table.instants.read else "''"
    form = f"coalesce(nullif({said}, ''), {sources.literal(AS_TEXT)})"
    table.reject(f"{at} IS NULL", day, "is not a date", form)
    table.columns["date"] = [*columns] if clocks else day
    table.select["date"] = at
    for column in clocks:
        since_midnight, word = table.instants.clock(column), table.word(column)
        table.reject(f"{word} IS NOT NULL AND {since_midnight} IS NULL", column, "is not a time of day")
        at = f"{at} + coalesce({since_midnight}, INTERVAL 0 SECOND)"
        place = table.instants.place_of(day) or table.instants.place_of(column)
        table.select["date"] = written_values.in_zone(place, at) if place else at


def _warn_of_twelve_hours(table: OwnTable, columns: Sequence[str]) -> None:
    """Warn of times that only have the hours 1 to 12, and no word for the half of the day."""
    for column in columns:
        values = [value for value in table.profile[column].values if value]
        hours = [int(found[1]) for value in values if (found := _HOUR.search(value))]
        if len(hours) < _MANY or len({*hours}) < _MOST_HOURS or re.search("[午오上下]", values[0]):
            continue
        if 0 < min(hours) < _MOST_HOURS - 2 and max(hours) == 12:
            errors.warn(
                f"the times in {column!r} of {table.name} have the hours 1 to 12 only and neither AM nor PM: "
                "those of the afternoon may be read as of the morning. Export them with 24 hours, or with AM "
                "and PM"
            )


def _names_zone(column: str) -> bool:
    """Return whether the name of a column ends in one for time zones, such as Created Timezone."""
    words = evidence.words_of(column)
    return any("".join(words[at:]) in _ZONES for at in range(len(words)))


def take_zone(table: OwnTable) -> None:
    """Read instants in the zones that the column beside them names.

    Warns
    -----
    InputWarning
        If a column of zones is elsewhere or a zone is not known; then it is not used.
    """
    used = table.used()
    zones = [name for name in table.source.columns if _names_zone(name) and name not in used]
    columns = names_of(table.columns["date"])
    if columns[0] in table.instants.read and not table.instants.read[columns[0]].is_written:
        # Counts since 1970 have no zone.
        return
    is_local = [name for name in columns if _LOCAL_TIME.search(name)]
    has_zones = any(map(table.is_filled, zones))
    if table.format is not None or not (has_zones or is_local):
        return
    at = table.select["date"]
    if (
        table.instants.have_offsets(columns)
        or table.instants.are_days(at)
        or any(map(table.instants.place_of, columns))
    ):
        return
    if not has_zones:
        errors.warn(
            f"{table.argument}: {is_local[0]!r} of {table.name} has local times of an unknown place. They "
            "are read as UTC. Name the place with reading=Reading(timezone='Europe/Paris')"
        )
        return
    word = table.word(zones[0])
    places = {
        name: written_values.in_zone(place, at)
        for name in table.scalar(f"list(DISTINCT {word}) FILTER ({word} IS NOT NULL)")
        if (place := table.instants.place(zones[0], name, written_values.zones_of(name)))
    }
    known = sources.cases(word, places)
    order = table.source.columns
    # Elsewhere it may be the zone of the person.
    is_beside = order.index(zones[0]) == 1 + max(map(order.index, columns))
    if (
        not places
        or not is_beside
        or table.scalar(f"bool_or({word} IS NOT NULL AND {at} IS NOT NULL AND {known} IS NULL)")
    ):
        errors.warn(
            f"{table.argument}: the column {zones[0]!r} of {table.name} is not used; "
            "times without an offset are read as UTC"
        )
        return
    table.select["date"] = f"coalesce({known}, {at})"
    table.say(f"times in the zones of {zones[0]}")


def take_days(table: OwnTable, *, are_ends: bool) -> None:
    """Select which instants are days without a time, as those of a column of midnights are.

    Days are those of the zone that the user gives: conversions count at their end, touchpoints at their
    start.
    """
    place = table.instants.timezone
    if not are_ends and not place:
        return
    day, *clocks = names_of(table.columns["date"])
    kind, word = table.types[day], f"lower({table.word(day)})"
    is_text = kind == "VARCHAR"
    may_be = is_text or re.fullmatch(r"DATE|TIMESTAMP(_\w+)?", kind) is not None
    has_offset = f"regexp_matches({word}, '{OFFSET}')" if is_text else "false"
    are_days = may_be and table.instants.are_days(table.select["date"], unless=has_offset)
    is_written = day not in table.instants.read or table.instants.read[day].is_written
    if are_days and is_written and not clocks and place:
        end = " + INTERVAL 1 DAY" if are_ends else ""
        at = written_values.in_zone(place, f"({table.select['date']}){end}")
        table.select["date"] = at + (" - INTERVAL 1 MICROSECOND" if are_ends else "")
    elif are_days and are_ends:
        table.select["is_day"] = "true"
    elif are_ends:
        written = (
            f"NOT regexp_matches({word}, '{_CLOCK_OR_COUNT}')" if is_text else str(kind == "DATE").lower()
        )
        without_clock = [f"{table.word(column)} IS NULL" for column in clocks]
        table.select["is_day"] = " AND ".join([written, *without_clock])


def instant_of_changes(table: OwnTable) -> str:
    """Return SQL of the instant if its column has those of changes; empty if not."""
    is_change = any(evidence.weight("change", name) > 0 for name in names_of(table.columns["date"]))
    return table.select["date"] if is_change else ""


def say_other_dates(table: OwnTable) -> None:
    """Say which of several columns of instants has those of the conversions."""
    used = table.used()
    others = [
        name
        for name in candidates(table, "date")
        if name not in used and evidence.weight("date", name) > 0 and table.is_filled(name)
    ]
    if table.format is None and others:
        day = names_of(table.columns["date"])[0]
        table.say(f"the date is {day}, not {ten(others)}")
