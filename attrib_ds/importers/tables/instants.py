"""Instants of the columns of a table: their order of day and month, their zones, and times of day."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from attrib_ds.importers.columns import COMMON_NAMES
from attrib_ds.importers.content import evidence
from attrib_ds.importers.tables.amounts import Amounts
from attrib_ds.importers.tables.table import Table
from attrib_ds.records import sources, written_values

#: Names of time zones in or behind the name of a column, and behind times.
_ZONE_IN_NAME: Final = re.compile(
    r"[(\[（]([^)\]）]+)|(?:^|[^\w+−-]|_|(?<=[a-z]))((?:UTC|GMT)? ?[+−-]\d\d?(?::?\d\d)?|[A-Z]{3,5})$"
    r"|_([a-z]{3,4})$"
)
_ZONE_OF_TIME: Final = re.compile(r":.*?\b([A-Z]{2,5})[)\]]?$")
#: Letters of codes of countries.
_LONGEST_CODE: Final = 3
_MIDNIGHT: Final = "2000-01-01"
#: Times of day with an offset.
OFFSET: Final = (
    rf":.*?(z|[+-][0-9]{{1,2}}(:?[0-9]{{2}})?|[a-z]+/[a-z_/-]+|{written_values.ZONES})[)\]]?( ?[(\[].*)?$"
)


class Instants:
    """How the columns of a table are read as instants.

    Attributes
    ----------
    read : dict of str to written_values.Instants
        How each column that was asked for is written.
    beside : Instants or None
        Those of the other file, which may show what this one leaves open.
    timezone : str
        The offset or zone that the user gives; empty if none.
    shared : dict of str to str
        What is to be said of names of zones that several places share, by column.
    """

    def __init__(self, table: Table, amounts: Amounts) -> None:
        self.table = table
        self.amounts = amounts
        self.timezone = (
            written_values.zones_of(table.formats.timezone)[0].place if table.formats.timezone else ""
        )
        self._places: dict[str, str] = {}
        self.beside: Instants | None = None
        self.read: dict[str, written_values.Instants] = {}
        self.shared: dict[str, str] = {}

    def moment(self, column: str) -> str:
        """Return SQL for a column as an instant; the default offset is UTC, the default time midnight."""
        kind = self.table.types[column]
        if not (kind in {"DATE", "BOOLEAN"} or kind.startswith("TIMESTAMP")):
            return self._read_as(column).sql
        at = self.table.source.instant(column)
        at = f"coalesce({at}, CAST({sources.quoted(column)} AS TIMESTAMP))" if kind == "DATE" else at
        place = self.place_of(column) if re.fullmatch(r"TIMESTAMP(_\w+)?", kind) else ""
        return written_values.in_zone(place, at) if place.strip("+0:") and not self.are_days(at) else at

    def _read_as(self, column: str) -> written_values.Instants:
        """Return how a column is read as instants."""
        if column not in self.read:
            read = self._instants_of(column, self.table.formats.dayfirst)
            orders: set[str | None] = set()
            if self.table.formats.dayfirst is None and read.advice != "''":
                # What other columns show holds for the whole file.
                others = [
                    each
                    for each in self.table.profile.values()
                    if each.name != column and each.holds("instant")
                ]
                texts = [each.name for each in others if self.table.types[each.name] == "VARCHAR"]
                orders = {self._instants_of(name, None).order for name in texts} - {None}
            if len(orders) == 1:
                other = self._instants_of(column, orders == {"dmy"})
                read = read if self._is_left_over(column, other.sql) else other
            stored = replace(read, sql=self.table.stored(read.sql, "TIMESTAMP"))
            place = self.place_of(column) if read.is_written else ""
            if place.strip("+0:") and not self.are_days(stored.sql):
                # Times with an offset of their own keep it.
                own = f"regexp_matches(lower({self.table.word(column)}), {sources.literal(OFFSET)})"
                local = written_values.in_zone(place, stored.sql)
                sql = f"CASE WHEN {own} THEN {stored.sql} ELSE {local} END"
                self.table.connection.execute(f"UPDATE {self.table.relation} SET {stored.sql} = {sql}")
                stored = replace(stored, said=f"{read.said}, {place}".removeprefix(", "))
            self.read[column] = stored
        return self.read[column]

    def place_of(self, column: str) -> str:
        """Return the offset or zone of the times in a column: what the user says, else what its name does."""
        if column not in self._places:
            found = _ZONE_IN_NAME.search(column)
            name = "" if found is None else next(filter(None, found.groups()))
            zones = map(written_values.zones_of, (name, re.split("[, ]", name)[0]))
            self._places[column] = self.timezone or self.place(column, name, next(filter(None, zones), []))
        return self._places[column]

    def place(self, column: str, name: str, zones: Sequence[written_values.Zone]) -> str:
        """Return the one of the zones of a name that something in the table speaks for; empty if none."""
        beside = self.beside._evidence if self.beside else frozenset()
        for shows in (self._evidence, beside):
            found = [zone for zone in zones if zone.place == self.timezone or zone.evidence & shows]
            if found:
                break
        found = found or [zone for zone in zones if zone.holds]
        if len(zones) > 1:
            either = " or ".join(f"timezone={zone.place!r}" for zone in zones)
            self.shared[column] = f"{name} is the time of several places; pass {either}"
        if len(found) == 1 < len(zones):
            shown = ", ".join(sorted(found[0].evidence & (self._evidence | beside)))
            self.shared[column] = f"{name} is {found[0].place}" + (f", as {shown} shows" if shown else "")
        return found[0].place if len(found) == 1 else ""

    @cached_property
    def countries(self) -> frozenset[str]:
        """The country that all values of a column name, by its code in a column of countries only."""
        found: set[str | None] = set()
        for each in self.table.profile.values():
            is_named = each.name in self.table.with_names(COMMON_NAMES["country"])
            known = {written_values.country_called(value) for value in each.values if value}
            is_clear = is_named or min(map(len, filter(None, each.values)), default=0) > _LONGEST_CODE
            found |= known if len(known) == 1 and is_clear else set()
        return frozenset(filter(None, found))

    @cached_property
    def _evidence(self) -> frozenset[str]:
        """The country, the currencies and the codes of telephones that all values of their column tell."""
        found: set[str | None] = {*self.countries}
        for each in self.table.profile.values():
            values = {value for value in each.values if value}
            found |= {*evidence.currencies_in(each.name)}
            if each.holds("currency"):
                found |= {value.upper() for value in values}
            if each.name in self.amounts.money.sample:
                found |= {
                    written_values.code_beside(re.sub(r"[\d\s.,'’()+-]", "", value)) for value in values
                }
            if each.holds("phone") and all(value.startswith("+") for value in values):
                found |= {
                    next(iter(start))[1:]
                    for size in (2, 3, 4)
                    if len(start := {value[:size] for value in values}) == 1
                }
        return frozenset(filter(None, found))

    def _instants_of(self, column: str, dayfirst: bool | None) -> written_values.Instants:
        names = {
            found[1]
            for value in self.table.profile[column].values
            if value and (found := _ZONE_OF_TIME.search(value))
        }
        places = {
            name.lower(): self.place(column, name, written_values.zones_of(name)) for name in sorted(names)
        }
        return written_values.instants(
            self.table.connection,
            self.table.relation,
            self.table.word(column),
            dayfirst=dayfirst,
            zones={name: place for name, place in places.items() if place},
        )

    def _is_left_over(self, column: str, sql: str) -> bool:
        """Return whether a value is not read as an instant by SQL."""
        return bool(
            self.table.scalar(
                f"coalesce(bool_or({self.table.word(column)} IS NOT NULL AND {sql} IS NULL), false)"
            )
        )

    def clock(self, column: str) -> str:
        """Return SQL for a time of day as the interval since midnight, UTC by default; NULL if it is none."""
        twelve = rf"regexp_replace(upper({self.table.word(column)}), '\s*([AP])\.?M\.?$', ' \1M')"
        parted = rf"regexp_replace({twelve}, '^(\d{{1,2}})(\d\d)(\d\d)$', '\1:\2:\3')"
        padded = rf"regexp_replace({parted}, '^(\d):', '0\1:')"
        instant = written_values.moment(f"'{_MIDNIGHT} ' || {padded}")
        return (
            rf"CASE WHEN regexp_matches({padded}, '^\d\d:\d\d') THEN {instant} - TIMESTAMP '{_MIDNIGHT}' END"
        )

    def are_days(self, at: str, *, unless: str = "false") -> bool:
        """Return whether SQL is midnight in every row, and a condition holds in none."""
        # How a moment is written is a long text, which DuckDB reads once.
        rows = f"(SELECT {at} AS moment, {unless} AS other FROM {self.table.relation})"
        days = "coalesce(bool_and(moment = date_trunc('day', moment) AND NOT other), false)"
        return bool(self.table.connection.execute(f"SELECT {days} FROM {rows}").fetchall()[0][0])

    def is_mostly(self, column: str, sql: str) -> bool:
        """Return whether SQL is not NULL for more than half of the values of a column."""
        return bool(self.table.scalar(f"count({sql}) > count({self.table.word(column)}) / 2"))

    def share_in(self, column: str, *, beside: str) -> float:
        """Return the share of instants and days in a column, of the rows with a value in another one."""
        share = f"avg(CAST(({self.moment(column)}) IS NOT NULL AS INTEGER))"
        return float(
            self.table.scalar(f"coalesce({share} FILTER ({self.table.word(beside)} IS NOT NULL), 1)")
        )

    def have_offsets(self, columns: Sequence[str]) -> bool:
        """Return whether some instants in text have an offset of their own, or there are none in text."""
        texts = [name for name in columns if self.table.types[name] == "VARCHAR"]
        offsets = [f"regexp_matches(lower({self.table.word(name)}), '{OFFSET}')" for name in texts]
        return not texts or bool(self.table.scalar(f"coalesce(bool_or({' OR '.join(offsets)}), false)"))
