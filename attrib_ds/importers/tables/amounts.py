"""Amounts of the columns of a table: decimal marks, minor units, currencies, and how they add up."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

import duckdb

from attrib_ds.importers.content import amounts as sums
from attrib_ds.importers.content import evidence
from attrib_ds.importers.tables.table import Table
from attrib_ds.records import written_values

#: Words in names of amounts that are parts of a unit of money.
_UNITS: Final = (({"cents", "cent", "pence"}, 100), ({"micros", "micro"}, 1_000_000))
#: Points of a name that speak against a role a little.
_WEAKLY: Final = 1


class Money:
    """The columns of a profile that may have amounts of money: their decimal mark and their totals."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, profile: Mapping[str, evidence.Column]) -> None:
        self.connection = connection
        self.profile = profile

    @cached_property
    def totals(self) -> sums.Totals:
        """How the amounts of the rows add up."""
        return self._totals(self.mark or ".")

    @cached_property
    def mark(self) -> str | None:
        """The decimal mark of the table: one that its amounts show, or under which alone they add up."""
        shown = {each.mark for each in self._numbers.values() if each.mark}
        marks = shown or {mark for mark in ".," if self._totals(mark).parts}
        return marks.pop() if len(marks) == 1 else None

    @cached_property
    def _numbers(self) -> dict[str, written_values.Numbers]:
        """The amounts of the sample, with a decimal point where it is open."""
        return {
            name: written_values.numbers(self.connection, texts, ".") for name, texts in self.sample.items()
        }

    @cached_property
    def sample(self) -> dict[str, list[str | None]]:
        """A sample of the columns that may have amounts of money, without refunds."""
        other = ("date", "user", "conversion")
        return {
            each.name: each.values
            for each in self.profile.values()
            if each.holds("amount") and not each.holds("flag") and not each.holds("instant")
            if each.has_decimals or all(evidence.weight(role, each.name) <= 0 for role in other)
            if evidence.weight("refund", each.name) <= 0 and evidence.weight("remaining", each.name) <= 0
        }

    def _totals(self, mark: str) -> sums.Totals:
        """Return how the amounts add up, if those that show no decimal mark have a given one."""
        numbers = {
            name: written_values.numbers(self.connection, self.sample[name], mark).values
            if found.is_open and mark == ","
            else found.values
            for name, found in self._numbers.items()
        }
        return sums.totals(
            numbers,
            added=[name for name in numbers if evidence.weight("value", name) < -_WEAKLY],
            deducted=[name for name in numbers if evidence.weight("deducted", name) < 0],
        )


class Amounts:
    """How the columns of a table are read as amounts.

    Attributes
    ----------
    read : dict of str to written_values.Amounts
        How each column that was asked for is written.
    divided : dict of str to str
        By what amounts are divided, by column.
    minor : dict of str to str
        SQL of the minor units of a unit of money, by columns of amounts in minor units.
    currencies : set of str
        Codes of the currencies that a column or the user tells of amounts.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._money = Money(table.connection, {})
        self.read: dict[str, written_values.Amounts] = {}
        self.divided: dict[str, str] = {}
        self.minor: dict[str, str] = {}
        self.currencies: set[str] = set()

    @property
    def money(self) -> Money:
        """The amounts of the present rows."""
        if self._money.profile is not self.table.profile:
            self._money = Money(self.table.connection, self.table.profile)
        return self._money

    def number(self, role: str, column: str, *, is_count: bool) -> str:
        """Return SQL for a column of numbers, with or without thousands separators, as DOUBLE."""
        word = self.table.word(column)
        sql = f"TRY_CAST({word} AS DOUBLE)"
        if self.table.types[column] == "VARCHAR":
            if column not in self.read:
                read = written_values.amounts(
                    self.table.connection,
                    self.table.relation,
                    word,
                    decimal=self.table.formats.decimal,
                    place=f"the column {column!r} of {self.table.name}",
                    field=role,
                    is_count=is_count,
                    currencies=evidence.currencies_in(column) or self.currencies,
                    # What the other columns show holds for the whole file.
                    otherwise=lambda: self.money.mark,
                )
                self.read[column] = replace(read, sql=self.table.stored(read.sql, "DOUBLE"))
            sql = self.read[column].sql
        divisor = next((by for words, by in _UNITS if words & {*evidence.words_of(column)}), None)
        if divisor is None and column in self.minor:
            return f"({sql}) / {self.minor[column]}"
        if divisor is None:
            return sql
        digits = f"{column.rpartition('.')[0]}.fractionDigits"
        if digits in self.table.source.columns:
            self.table.say(f"{column} divided by 10 to the {digits}")
            return f"({sql}) / power(10, TRY_CAST({self.table.word(digits)} AS INTEGER))"
        self.divided[column] = f"divided by {divisor:,}"
        self.table.say(f"{column} divided by {divisor:,}")
        return f"({sql}) / {divisor}"
