"""One file or frame of a user: columns found by role, rows read, and rows that cannot be read set aside."""

import filecmp
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cached_property, partial
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import display, errors, sql_results
from attrib_ds.contract.identifiers import NO_SIGN, SIGNS, code_of
from attrib_ds.importers import formats as of_services
from attrib_ds.importers.columns import COMMON_NAMES, GROUPS, OPTIONS, Named, folded, names_of
from attrib_ds.importers.content import amounts, evidence, files, minor_units, rows
from attrib_ds.importers.reading import Formats, in_reading
from attrib_ds.records import (
    export_tables,
    frames,
    person_ids,
    sources,
    written_files,
    written_values,
)
from attrib_ds.traffic.channel_rules import COLUMN_NAMES
from attrib_ds.traffic.sources import CLICK_IDS

#: Columns that make a node together, by the level that they name.
LEVEL_NAMES: Final[dict[str, Sequence[str]]] = {
    level: COLUMN_NAMES.get(level) or COMMON_NAMES[level]
    for level in ("source", "medium", "campaign", "adset", "ad", "keyword")
}
_LEVELS: Final = {folded(name): level for level, names in LEVEL_NAMES.items() for name in names}
#: Argument with the sheet of a workbook, and the roles of required columns, by the argument of its file.
_SHEETS: Final = {
    "touchpoints": ("sheet", "user", "node part_of_node", "date"),
    "conversions": ("conversion_sheet", "user", "date"),
    "paths": ("sheet", "path", "conversions"),
    "spend": ("spend_sheet", "node part_of_node", "spend"),
}
_CURRENCY: Final = "|".join(["[A-Za-z]{3}", *SIGNS])
#: Names, folded, of columns with the price of one piece.
_UNIT_PRICES: Final = {"price", "unitprice", "itemprice", "productprice", "lineitemprice"}
#: Names, folded, of columns with the first page of a visit, whose rows are not page views.
_OF_VISITS: Final = {"landingpage", "firstpage", "entrypage"}
_MIDNIGHT: Final = "2000-01-01"
#: Times of day with an offset; texts with a time of day, or with a count of seconds, in lower case.
_OFFSET: Final = (
    rf":.*?(z|[+-][0-9]{{1,2}}(:?[0-9]{{2}})?|[a-z]+/[a-z_/-]+|{written_values.ZONES})[)\]]?( ?[(\[].*)?$"
)
_CLOCK_OR_COUNT: Final = ":|[0-9]t[0-9]|[0-9] ?[ap]m$|^[0-9]{9,}([.][0-9]+)?$"
#: How to write instants.
_AS_TEXT: Final = "; write dates as '2025-01-31' or '2025-01-31T12:00:00Z'"
#: Kinds of values that the columns of a role have.
_KINDS: Final = {
    "date": ("instant", "count"),
    **dict.fromkeys(("value", "refund", "quantity", "spend"), ("amount",)),
}
#: Names, folded, of amounts that are used if no other column has one.
_WEAK: Final = {"subtotal", "price", "unitprice", "itemprice", "productprice", "lineitemprice"}
#: Names of time zones in or behind the name of a column, and behind times.
_ZONE_IN_NAME: Final = re.compile(
    r"[(\[（]([^)\]）]+)|(?:^|[^\w+−-]|_|(?<=[a-z]))((?:UTC|GMT)? ?[+−-]\d\d?(?::?\d\d)?|[A-Z]{3,5})$"
    r"|_([a-z]{3,4})$"
)
_ZONE_OF_TIME: Final = re.compile(r":.*?\b([A-Z]{2,5})[)\]]?$")
_LOCAL_TIME: Final = re.compile(
    r"\blocal\b|\bort(s)?zeit|\blocale\b|\blokal|местн|現地|当地|현지|yerel|paikallinen|helyi|miejscow",
    re.IGNORECASE,
)
_HALF: Final = 0.5
#: Points of a name that speaks for a role clearly.
_CLEAR: Final = 4
#: Rows from which on a column with two values has no people.
_FEW_ROWS: Final = 10
#: Points of a name that speak against a role a little.
_WEAKLY: Final = 1
_MOSTLY, _NEARLY_ALL = 0.9, 0.95
#: Rows that show a rule, and columns that are compared.
_LEAST_ROWS, _MOST_RIVALS = 4, 6
#: Codes of orders have a digit and are short.
_CODE: Final = re.compile(r"(?=.*\d)[^@]{1,24}")
#: Words before a source or channel that is not one of visits.
_OTHER_SOURCES: Final = frozenset(["data", "event", "file", "import", "payment", "record", "sales"])
#: Names, folded, of ids of transactions and clicks; those of orders go before them.
_OF_CLICK, _OF_ORDER = re.compile("transaction|click|commission"), re.compile("order|bestell|auftrag")
_MAX_SHOWN: Final = 40
_MAX_NAMES: Final = 10
_HEADER_ROWS: Final = 20
#: Seconds by which an instant and its day are less apart, in any time zone.
_TWO_DAYS: Final = 172_800
#: The year 2005, and the length of a day and of a year, in seconds.
_FIRST_SECOND, _DAY, _YEAR = 1_104_537_600, 86_400, 31_536_000
#: Last digits of a number of a telephone that are dialled at home, and numbers that are compared.
_LOCAL_DIGITS, _MOST_PHONES = 8, 5_000
#: Words in names of amounts that are parts of a unit of money.
_UNITS: Final = (({"cents", "cent", "pence"}, 100), ({"micros", "micro"}, 1_000_000))
#: Public files of paths write "conv" and "null".
_YES: Final = (*rows.YES, "conv")
_NO: Final = (*rows.NO, "null", "none", "nan")


#: Names of numbers that are not amounts of money.
NO_AMOUNT: Final = re.compile(
    r"^(?!.*incl?[^a-z]).*(id|ids|nr|no|number|code|zip|plz|phone|fax|quantity|qty|count|items|year|month|day|hour|lat|lon|sku|age"
    r"|vat|tax|shipping|discount|rate|percent|time|date|timestamp|units)$|^(.*[^a-z])?ts$"
)


def _may_be_campaign(values: evidence.Column) -> bool:
    """Return whether a column has words that several rows share, and nothing that is known."""
    kinds = [kind for kind in evidence.KINDS if kind not in {"float", "long"}]
    return 1 < values.distinct < values.filled and not any(map(values.holds, kinds))


class OwnTable:
    """A file or frame whose columns are found and selected by role.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The rows are copied to it.
    rows : DataFrame, Arrow table or path
        The file or frame.
    argument : str
        Name of the argument in messages.
    formats : Formats
        How the file is written.
    is_alone : bool, default True
        Whether no other file has the conversions.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: object,
        argument: str,
        formats: Formats,
        *,
        is_alone: bool = True,
    ) -> None:
        self.connection = connection
        self.formats = formats
        self.argument = argument
        self.name = Path(rows).name if isinstance(rows, str | Path) else argument
        self.columns: dict[str, Named] = {}
        self._select: dict[str, str] = {}
        self._rules: list[tuple[str, str]] = []
        self._nobody: dict[str, list[str]] = {}
        self._instants: dict[str, written_values.Instants] = {}
        self._amounts: dict[str, written_values.Amounts] = {}
        self._people: dict[str, str] = {}
        self._places: dict[str, str] = {}
        #: What is to be said of names of zones that several places share, by column.
        self._shared: dict[str, str] = {}
        self._timezone = written_values.zones_of(formats.timezone)[0].place if formats.timezone else ""
        #: Code of the country of numbers of telephones without one, and lengths with it, by their column.
        self.country_codes: dict[str, tuple[str, set[int]]] = {}
        self._levels: dict[str, str] = {}
        #: By what amounts are divided, by column.
        self.divided: dict[str, str] = {}
        #: SQL of the minor units of a unit of money, by columns of amounts in minor units.
        self._minor: dict[str, str] = {}
        #: Codes of the currencies that a column or the user tells of amounts.
        self.currencies: set[str] = set()
        #: What columns tell of rows that count, by column.
        self.counted: dict[str, str] = {}
        #: Column of refunds that the values are less.
        self.less = ""
        self._workbook = workbook_of(rows)
        if formats.sheet is not None:
            rows = self._read_sheet(formats.sheet)
        path = Path(rows).expanduser() if isinstance(rows, str | Path) else None
        said: list[str] = []
        if path is not None and path.is_file() and files.is_log(path):
            self.source = of_services.open_log(connection, path, argument)
        else:
            self.source, said = files.opened(connection, rows, argument=argument, encoding=formats.encoding)
        if not self.source.columns:
            first = self.source.unreadable.slice(0, 1).to_pylist()[0]
            raise errors.InvalidRequest(
                f"{argument}: {self.name} has no readable rows "
                f"(row {first['row'] + self.source.first}: {first['reason']})"
            )
        #: What was understood of an export of another service.
        self.note = ""
        self.format = of_services.recognised(
            self.source.columns,
            argument,
            name=self.name,
            has_people=bool(self.with_names(COMMON_NAMES["user"])),
            is_alone=is_alone,
        )
        #: Ad platform whose report the table is.
        self.platform = ""
        if self.format is not None and self.format.holds == "spend":
            self.say(self.format.name)
            self.platform, self.format = self.format.platform, None
        if self.format is None and (value := next(filter(_is_value, self.source.columns), None)):
            raise errors.InvalidRequest(
                f"{argument}: {value!r} looks like a value; if the header is missing, add a row of names"
            )
        if self.format is not None:
            self.source, self.note = self.format.applied(connection, self.source)
        else:
            self.source = files.tidied(connection, self.source, said)
        #: The columns that the file has.
        self.header = {*self.source.columns}
        if said:
            self.say(", ".join(said))

    def say(self, said: str) -> None:
        """Add to what is said of the table, once."""
        if said not in self.note.removeprefix(f"{self.name}: ").split("; "):
            self.note = f"{self.note}; {said}" if self.note else f"{self.name}: {said}"

    def _read_sheet(self, sheet: str) -> pd.DataFrame:
        called = _SHEETS[self.argument][0]
        if self._workbook is None:
            name = self.argument if self.name == self.argument else repr(self.name)
            raise errors.InvalidRequest(
                f"{called}: {name} is not a workbook with sheets; allowed with the path of an .xlsx file"
            )
        return written_files.read_sheet(self._workbook, sheet, argument=self.argument, called=called)

    @cached_property
    def profile(self) -> dict[str, evidence.Column]:
        """What the columns hold."""
        return evidence.profiled(self.connection, self.source)

    @cached_property
    def totals(self) -> amounts.Totals:
        """How the amounts of the rows add up."""
        return self._totals(self.mark or ".")

    @cached_property
    def mark(self) -> str | None:
        """The decimal mark of the table: one that its amounts show, or under which alone they add up."""
        shown = {mark for _, mark, _ in self._numbers.values() if mark}
        marks = shown or {mark for mark in ".," if self._totals(mark).parts}
        return marks.pop() if len(marks) == 1 else None

    @cached_property
    def _numbers(self) -> dict[str, tuple[np.ndarray, str | None, bool]]:
        """The amounts of the sample, with a decimal point where it is open."""
        return {
            name: written_values.numbers(self.connection, texts, ".") for name, texts in self._money.items()
        }

    @cached_property
    def _money(self) -> dict[str, list[str | None]]:
        """A sample of the columns that may have amounts of money, without refunds."""
        other = ("date", "user", "conversion")
        return {
            each.name: each.values
            for each in self.profile.values()
            if each.holds("amount") and not each.holds("flag") and not each.holds("instant")
            if each.has_decimals or all(evidence.weight(role, each.name) <= 0 for role in other)
            if evidence.weight("refund", each.name) <= 0 and evidence.weight("remaining", each.name) <= 0
        }

    def _totals(self, mark: str) -> amounts.Totals:
        """Return how the amounts add up, if those that show no decimal mark have a given one."""
        numbers = {
            name: written_values.numbers(self.connection, self._money[name], mark)[0]
            if is_open and mark == ","
            else found
            for name, (found, _, is_open) in self._numbers.items()
        }
        return amounts.totals(
            numbers,
            added=[name for name in numbers if evidence.weight("value", name) < -_WEAKLY],
            deducted=[name for name in numbers if evidence.weight("deducted", name) < 0],
        )

    def replace_rows(self, query: str) -> None:
        """Put the rows of a query in place of those of the table, and forget what its columns held."""
        self.source = sources.selected(self.connection, self.source, query)
        for known in ("profile", "totals", "mark", "_money", "_numbers"):
            self.__dict__.pop(known, None)

    def scalar(self, sql: str) -> Any:
        """Return an aggregate of all rows."""
        return self.connection.execute(f"SELECT {sql} FROM {self.source.relation}").fetchall()[0][0]

    # -- finding columns

    def find(
        self, role: str, named: Mapping[str, Named], *, required: bool = True, called: str | None = None
    ) -> str | None:
        """Return the column of a role: the one named, else the first with a common name.

        Messages advise to name the column as the role ``called``, if another one is only for this table.
        """
        called = called or role
        if (name := named.get(role)) is not None:
            return self._checked(role, name, called)
        column = self.best(self.common(role))
        if role == "user" and column is not None and self.source.rows and not self.is_filled(column):
            column = None
        if column is None and required:
            raise errors.InvalidRequest(
                f"{self.argument}: {self._problem(role)}; "
                f"{self._other_sheets() or self._way_on(role, called)}",
                field=role,
            )
        return column

    def _problem(self, role: str) -> str:
        """Describe why a table has no column for a role."""
        totals = self.with_names(COMMON_NAMES["sum"])
        if role == "user" and totals and not self.common("user"):
            return f"{self.name} is a summary: it has sums ({ten(totals)}) and no column of people"
        if role == "date" and (unread := self._unread_dates()):
            example = display.printable(repr(self.values(unread[0])[0]))
            return f"{example} in the column {unread[0]!r} of {self.name} cannot be read as a date"
        nearest = ten(self._nearest(COMMON_NAMES[role]))
        return f"{self.name} has no column that looks like the {role}; columns: {nearest}"

    def _unread_dates(self) -> list[str]:
        """Return the columns that are named as dates and have values."""
        return [
            each.name
            for each in self.profile.values()
            if each.filled and evidence.weight("date", each.name) > 0
        ]

    def _nearest(self, names: Sequence[str]) -> list[str]:
        """Return the columns, those whose names are like one of some first."""
        return sorted(self.source.columns, key=lambda column: -_likeness(column, names))

    def _way_on(self, role: str, called: str) -> str:
        """Return what to do about a table without a column of a role."""
        header = self._header_row()
        if header is not None:
            return f"row {header + self.source.first} looks like the header; begin the table with it"
        if values := [name for name in self.source.columns if re.fullmatch(r"[\d.,:/T -]*\d", name)]:
            return f"{values[0]!r} looks like a value; if the header is missing, add a row of names"
        if role == "user" and self.with_names(COMMON_NAMES["sum"]) and not self.common("user"):
            return (
                "paths need one row per visit or contact, with an id of the person; export those, and pass a "
                f"summary with costs as the spend; if a column has people, {_how_to_name(called)}"
            )
        unread = role == "date" and self._unread_dates()
        return f"{_AS_TEXT.removeprefix('; ')}, or {_how_to_name(called)}" if unread else _how_to_name(called)

    def _header_row(self) -> int | None:
        """Return the first of the first rows in which two cells are common names of columns."""
        words = ", ".join(map(self.source.word, self.source.columns))
        rows = self.connection.execute(
            f"SELECT {words} FROM {self.source.relation} ORDER BY {sources.quoted(sources.ROW)} LIMIT "
            f"{_HEADER_ROWS}"
        ).fetchall()
        names = {folded(name) for of_role in COMMON_NAMES.values() for name in of_role}
        found = [len({folded(cell) for cell in row if cell} & names) > 1 for row in rows]
        return found.index(True) if True in found else None

    def best(self, columns: Sequence[str]) -> str | None:
        """Return the first column with values; exports often have empty ones, used if there is no other."""
        return next(filter(self.is_filled, columns), next(iter(columns), None))

    def is_filled(self, column: str) -> bool:
        """Return whether any row has a value."""
        return self.profile[column].filled > 0 or bool(self.scalar(f"count({self.source.word(column)})"))

    def common(self, role: str) -> list[str]:
        """Return the columns of a role in the format, else by their names and values, the best first."""
        own = [] if self.format is None else self.format.role(role, self.source.columns)
        if role == "conversion":
            own = [name for name in own if not _is_name(name) or self._may_be_conversion(name)]
        return own or self._suited(role, self.with_names(COMMON_NAMES[role]))

    def _suited(self, role: str, named: Sequence[str]) -> list[str]:
        """Return the columns of a role by their names and values, the best first."""
        kinds = _KINDS.get(role)
        if role == "time":
            clocks = [
                each.name
                for each in self.profile.values()
                if each.holds("clock")
                or (each.holds("digits of a clock") and evidence.weight("date", each.name) > 0)
            ]
            return list(dict.fromkeys([*named, *clocks]))
        columns = [each for each in self.profile.values() if each.filled]
        if role == "conversion":
            points = {
                each.name: weight
                for each in columns
                if (weight := evidence.weight(role, each.name)) > 0
                # Numbers of orders may begin with the day.
                if each.may_be_id("email") or each.holds("float")
                if weight > 5 or 2 * each.distinct >= each.filled
            }
            ids = dict.fromkeys([*named, *sorted(points, key=lambda name: -points[name])])
            known = sorted(filter(self._may_be_conversion, ids), key=self._is_weak_id)
            if known and _OF_CLICK.match(folded(known[0])):
                unique = {each.name for each in columns if each.distinct == each.rows}
                known.sort(key=lambda name: name not in unique or not _OF_ORDER.match(folded(name)))
            return known
        if role == "node":
            return [name for name in named if not self.profile[name].holds("runtime")]
        if kinds is None:
            return list(named)
        if role == "value":
            # Instants and flags are not amounts.
            columns = [
                each
                for each in columns
                if not each.holds("flag")
                and not (each.holds("count") and evidence.weight("date", each.name) > 0)
            ]
        found = evidence.ranked(columns, role, kinds)
        fitting = {name for _, name in found}
        known = [name for name in named if name in fitting]
        weak = [
            name for name in known if role == "value" and folded(evidence.currency_at_end(name)[0]) in _WEAK
        ]
        strong = [name for name in known if name not in weak]
        looser = [name for points, name in found if points > (5 if weak else 0) and name not in known]
        if role == "date" and not looser and not strong:
            # One column of instants needs no name.
            sure = ("instant", "moment")
            looser = [
                name
                for points, name in found
                if points == 0
                and evidence.weight("conversion", name) <= 0
                and any(map(self.profile[name].holds, sure))
            ] or [name for _, name in found if evidence.weight("change", name) > 0]
            looser = looser or [name for points, name in found if points == 0 and self._rises(name)]
        total = self._total([*strong, *looser, *weak], is_named=bool(strong)) if role == "value" else None
        if total is not None:
            strong = [total, *strong]
        if role == "date":
            if self.argument == "conversions":
                # A click comes before its conversion.
                later = [name for name in [*strong, *looser] if evidence.weight("click", name) <= 0]
                strong, looser = (
                    [name for name in names if name in later or not later] for names in (strong, looser)
                )
            strong = sorted(strong, key=self._is_constant)
            looser = self._first_made(looser) if not strong else looser
            strong = [*self._closed([name for _, name in found]), *strong]
        elif role == "value" and self.format is None and self.argument == "conversions":
            looser = [name for name in looser if name not in self.totals.taxes] or looser
            rivals = strong if total is None else []
            rivals = rivals or ([] if weak or strong else looser)
            if len(rivals) > 1:
                whole = self._repeated_total(rivals[:2])
                if whole is None:
                    self.check_equal(role, rivals)
                else:
                    strong = [whole, *strong]
        return list(dict.fromkeys([*strong, *looser, *weak, *named]))

    def _total(self, named: Sequence[str], *, is_named: bool) -> str | None:
        """Return the total of the amounts, unless a well named one is not within it."""
        if self.argument != "conversions" or self.format is not None:
            return None
        whole = [name for name in self.totals.copies if named and named[0] in self.totals.copies[name]]
        if whole and evidence.weight("value", whole[0]) > 0:
            return whole[0]
        points = {name: evidence.weight("value", name) for name in self.totals.outermost}
        best = [name for name in points if points[name] == max(points.values())]
        if len(best) != 1:
            return None
        is_likely = not is_named and points[best[0]] >= max(
            map(partial(evidence.weight, "value"), named), default=0
        )
        is_within = bool(named) and named[0] in self.totals.parts[best[0]]
        return best[0] if not named or is_within or is_likely else None

    def _repeated_total(self, amounts: Sequence[str]) -> str | None:
        """Return which of two amounts is the total of an order that its lines repeat and add up to."""
        adds_up = "max({0}) = min({0}) AND abs(max({0}) - fsum({1})) < 0.011"
        sums = f"SELECT bool_and({adds_up}) OVER () AND max(count(*)) OVER () > 1"
        sums += " FROM {2} WHERE {3} IS NOT NULL GROUP BY {3} LIMIT 1"
        for identity in map(self.source.word, self.common("conversion")[:1]):
            with suppress(errors.InvalidRequest):
                numbers = [self._number("value", name, is_count=False) for name in amounts]
                for name, (total, line) in zip(amounts, permutations(numbers), strict=True):
                    query = sums.format(total, line, self.source.relation, identity)
                    if self.connection.execute(query).fetchall()[:1] == [(True,)]:
                        return name
        return None

    def _rises(self, column: str) -> bool:
        """Return whether numbers are seconds since 1970 that rise, or fall, from row to row."""
        roles = ("user", "conversion", "value", "quantity")
        if not self.profile[column].holds("long") or any(evidence.weight(role, column) > 0 for role in roles):
            return False
        number = f"TRY_CAST({self.source.word(column)} AS BIGINT)"
        steps = (
            f"SELECT {number} AS second, second - lag(second) OVER (ORDER BY {sources.quoted(sources.ROW)}) "
            f"AS step FROM {self.source.relation}"
        )
        rises = (
            f"min(second) > {_FIRST_SECOND} AND max(second) < epoch(now()) + {_YEAR} "
            f"AND (min(step) >= 0 OR max(step) <= 0) "
            f"AND count(DISTINCT step) >= {_LEAST_ROWS} - 1 AND max(second) - min(second) > {_DAY}"
        )
        ((found,),) = self.connection.execute(f"SELECT coalesce({rises}, false) FROM ({steps})").fetchall()
        if found:
            self.say(f"{column} rises from row to row: seconds since 1970")
        return bool(found)

    def _is_constant(self, column: str) -> bool:
        """Return whether all rows have one value, such as the instant of an export."""
        return self.profile[column].distinct == 1 and self.profile[column].rows >= _LEAST_ROWS

    def _first_made(self, columns: Sequence[str]) -> list[str]:
        """Return columns of instants, the one that tells when something was made first.

        It is the one that no other one is before in nearly every row: payments and changes follow.
        """
        columns = sorted(columns, key=self._is_constant)
        if len(columns) < 2:
            return columns
        points = [evidence.weight("date", name) for name in columns]
        # A clear name decides alone.
        best = [name for name, each in zip(columns, points, strict=True) if each > 5 or points[0] < 6]
        held = [self.profile[name] for name in best if not self._is_constant(name)][:_MOST_RIVALS]
        held = [each for each in held if each.filled >= _MOSTLY * max(each.filled for each in held)]
        at = {each.name: self.moment(each.name) for each in held}
        days = {name for name, moment in at.items() if self._are_days(moment)}
        # Dates of persons repeat with them.
        most = max((each.distinct for each in held), default=0)
        rivals = [each.name for each in held if each.name in days or 4 * each.distinct >= 3 * most]
        first = [
            name
            for name in rivals
            if all(
                self._is_before(at[name], at[other], by_day=bool(days & {name, other}))
                for other in rivals
                if other != name
            )
        ]
        if not first:
            self.check_equal("date", columns)
            # Of names that say as much, one with the time of day goes first.
            equal = {name for name, each in zip(columns, points, strict=True) if each == points[0]}
            return sorted(columns, key=lambda name: name not in equal or name in {*rivals[:1]} & days)
        first.sort(key=lambda name: name in days)
        return [*first[:1], *(name for name in columns if name != first[0])]

    def _closed(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of instants of the end of deals, if the rows are deals."""
        closed = [name for name in columns if evidence.weight("closed", name) > 0]
        has_choice = self.argument == "conversions" and self.format is None and len(columns) > 1 and closed
        return closed if has_choice and rows.Rows(self.connection, self.source, ()).has_deals() else []

    def instant_of_changes(self) -> str:
        """Return SQL of the instant if its column has those of changes; empty if not."""
        is_change = any(evidence.weight("change", name) > 0 for name in names_of(self.columns["date"]))
        return self._select["date"] if is_change else ""

    def _is_before(self, first: str, second: str, *, by_day: bool) -> bool:
        """Return whether an instant, or its day, is at most another one in nearly every row of several."""
        if by_day:
            first, second = (f"date_trunc('day', {each})" for each in (first, second))
        is_before = f"avg(CAST({first} <= {second} AS INT)) >= {_NEARLY_ALL} AND count({first} <= {second})"
        return bool(self.scalar(f"coalesce({is_before} >= {_LEAST_ROWS}, false)"))

    def _may_be_conversion(self, column: str) -> bool:
        """Return whether a column may have ids of conversions; names that repeat are none."""
        values = self.profile[column]
        least = values.filled if _is_name(column) else values.filled / 2
        return not self._is_weak_id(column) or values.distinct >= least

    def _is_weak_id(self, column: str) -> bool:
        """Return whether a column has names without numbers, or ids that may be of something else."""
        has_numbers = f"bool_and(regexp_matches({self.source.word(column)}, '[0-9]'))"
        return evidence.weight("conversion", column) == 0 or (
            _is_name(column) and not self.scalar(f"coalesce({has_numbers}, true)")
        )

    def check_equal(self, role: str, columns: Sequence[str]) -> None:
        """Refuse two columns whose names speak for a role alike and whose values differ."""
        first, second = columns[:2]
        if evidence.weight(role, first) != evidence.weight(role, second):
            return
        words = [self.source.word(name) for name in (first, second)]
        if role == "date":
            # The same instants in two ways of writing, or without their times of day.
            apart = " - ".join(f"epoch({self.moment(name)})" for name in (first, second))
            if self.scalar(f"coalesce(max(abs({apart})) < {_TWO_DAYS}, false)") and any(
                self._are_days(self.moment(name)) for name in (first, second)
            ):
                return
            words = [f"date_trunc('second', {self.moment(name)})" for name in (first, second)]
        else:
            words = [f"coalesce(CAST(TRY_CAST({word} AS DOUBLE) AS VARCHAR), {word})" for word in words]
        is_own = role == "date" and self.argument == "conversions"
        called = "conversion_date" if is_own else role
        # A column may lack what the first one has.
        if self.scalar(f"bool_or({words[1]} IS NOT NULL AND {' IS DISTINCT FROM '.join(words)})"):
            raise errors.InvalidRequest(
                f"{self.argument}: {self.name} has two columns that may be the {role}, {first!r} and "
                f"{second!r}; say which with columns={{{called!r}: {first!r}}} or "
                f"columns={{{called!r}: {second!r}}}",
                field=role,
            )

    def with_names(self, names: Sequence[str]) -> list[str]:
        """Return the columns with one of some names, in order of preference."""
        return of_services.matching("|".join(names), self.source.columns)

    def _checked(self, role: str, name: Named, called: str) -> str:
        if not isinstance(name, str):
            raise errors.InvalidRequest(f"{role}: {name!r} is not allowed; allowed: one column")
        if name not in self.source.columns:
            nearest = max(self.source.columns, key=lambda each: _likeness(each, [name]))
            advice = f"; {_how_to_name(called).replace('COLUMN', repr(nearest))}"
            raise errors.InvalidRequest(
                f"{role}: {self.name} has no column {name!r}{errors.closest(name, self.source.columns)}; "
                f"columns: "
                f"{ten(sorted(self.source.columns, key=lambda each: -_likeness(each, [name])))}{advice}"
            )
        return name

    def _other_sheets(self) -> str:
        """Return advice that names the sheets of a workbook with columns for all required roles."""
        if self._workbook is None or self.formats.sheet is not None:
            return ""
        called, *roles = _SHEETS[self.argument]
        names = [{folded(name) for role in each.split() for name in COMMON_NAMES[role]} for each in roles]
        found = [
            sheet
            for sheet, columns in written_files.sheet_columns(self._workbook).items()
            if all(
                not of_role.isdisjoint(map(folded, columns))
                or any(evidence.weight(role, column) > 0 for role in each.split() for column in columns)
                for of_role, each in zip(names, roles, strict=True)
            )
        ]
        if not found:
            return ""
        listed = ", ".join(map(repr, found))
        sheets = f"the sheet {listed} has" if len(found) == 1 else f"the sheets {listed} have"
        chosen = f"{called}={found[0]!r}"
        return f"{sheets} columns that fit: pass {chosen}"

    def find_node(
        self, named: Mapping[str, Named], *, required: bool = True, called: str = "node"
    ) -> list[str]:
        """Return the columns of a node: those named, one of nodes, those of a source, or one of its parts."""
        given = named.get("node")
        if given is not None:
            self._levels.clear()
            columns = names_of(given)
            if not 1 <= len(columns) <= len(LEVEL_NAMES) or len(set(columns)) < len(columns):
                raise errors.InvalidRequest(
                    f"node: {given!r} is not allowed; allowed: one column, or up to {len(LEVEL_NAMES)} "
                    "different ones from the highest level down"
                )
            return [self._checked("node", column, called) for column in columns]
        if self.format is not None and isinstance(self.format.roles.get("node"), list):
            return self.format.role("node", self.source.columns)
        of_nodes = self.common("node")
        filled = list(filter(self.is_filled, of_nodes))
        if filled:
            return [*filled[:1], *self._campaigns_of(filled[0])]
        of_levels = [self.with_names(LEVEL_NAMES[level]) for level in ("source", "medium", "campaign")]
        parts = [column for columns in of_levels for column in list(filter(self.is_filled, columns))[:1]]
        if not of_nodes and (len(parts) < len(LEVEL_NAMES) or self._levels):
            by_content = self._levels_by_content()
            if len(by_content) > len(parts):
                return by_content
        present = [column for columns in of_levels for column in columns[:1]]
        has_referrer = any(map(self.is_filled, self.with_names(COLUMN_NAMES["referrer"])))
        if len(parts) < 2 and len(present) > 1 and has_referrer:
            # Visits without a campaign come from their referrer.
            parts = present
        if len(parts) > 1:
            return parts
        # A campaign alone is a node of visits, but not of spend, which has the path to it.
        alone = parts if self.argument == "touchpoints" else []
        found = self.best([*self.common("part_of_node"), *of_nodes, *alone])
        found = found or self.find("node", named, required=required, called=called)
        return [] if found is None else [found]

    def _campaigns_of(self, channel: str) -> list[str]:
        """Return the column of campaigns beside one of marketing channels, if no other levels are there."""
        others = [*self.with_names(LEVEL_NAMES["source"]), *self.with_names(LEVEL_NAMES["medium"])]
        if evidence.weight("node", channel) <= 0 or any(map(self.is_filled, others)):
            return []
        named = [name for name in self.source.columns if evidence.names_level("campaign", name)]
        return list(filter(self.is_filled, [*self.with_names(LEVEL_NAMES["campaign"]), *named]))[:1]

    def _levels_by_content(self) -> list[str]:
        """Return the columns of a node by less common names and by the words in them, from the root down."""
        columns = [each for each in self.profile.values() if each.filled and not each.holds("instant")]
        channel = [each.name for each in columns if evidence.names_level("node", each.name)]
        if channel:
            return [*channel[:1], *self._campaigns_of(channel[0])]
        levels = ("source", "medium", "campaign")
        by_name = {
            level: [name for name in self.with_names(LEVEL_NAMES[level]) if self.is_filled(name)]
            or [each.name for each in columns if evidence.names_level(level, each.name)]
            for level in levels
        }
        if not any(by_name.values()):
            by_name = {
                level: [each.name for each in columns if each.shares.get(level, 0) > _HALF]
                for level in levels
            }
            free = [each for each in columns if each.name not in self.used()]
            rest = [each.name for each in free if each.shares["source"] == 0 and _may_be_campaign(each)]
            if len(rest) == 1 and by_name["source"] and not by_name["campaign"]:
                by_name["campaign"] = rest
        if not any(by_name.values()):
            # Such as the source of an enquiry.
            ends = {
                each.name: words[-1]
                for each in columns
                if each.distinct > 1 and not each.holds("runtime") and not each.holds("amount")
                if len(words := evidence.words_of(each.name)) > 1 and not _OTHER_SOURCES & {*words}
            }
            for name in [name for name, word in ends.items() if evidence.names_level("node", word)][:1]:
                return [name, *self._campaigns_of(name)]
            by_name = {
                level: [name for name, word in ends.items() if evidence.names_level(level, word)]
                for level in levels
            }
        if not any(by_name.values()):
            # Such as the answers to how someone heard of a shop, or names of links and codes.
            points = {
                each.name: [evidence.weight(role, each.name) for role in ("question", "link", "placement")]
                for each in columns
                if not each.holds("amount")
            }
            best = max(points, key=lambda name: points[name], default=None)
            return [best] if best is not None and any(points[best]) else []
        for level in levels[:2]:
            # Such as a medium under a name that is not known.
            by_name[level] = by_name[level] or [
                each.name
                for each in columns
                if each.shares[level] > _HALF and each.name not in by_name["campaign"]
            ]
        if by_name["source"] and by_name["campaign"] and not by_name["medium"]:
            # A word between a source and a campaign is the level between them.
            at = sorted(self.source.columns.index(by_name[level][0]) for level in ("source", "campaign"))
            inside = self.source.columns[at[0] + 1 : at[1]]
            by_name["medium"] = [
                name for name in inside if len(inside) == 1 and _may_be_campaign(self.profile[name])
            ]
        found: list[str] = []
        for level in levels:
            for name in [name for name in by_name[level] if name not in found][:1]:
                found.append(name)
                self._levels[name] = level
        if [self._levels[name] for name in found] == ["source"]:
            # Networks without campaigns have publishers and their placements.
            found += [
                each.name
                for each in columns
                if each.name not in found
                and evidence.weight("placement", each.name) > 0
                and not each.holds("amount")
            ]
        return found

    def used(self) -> set[str]:
        """Return the columns that have a role."""
        return {name for each in self.columns.values() for name in names_of(each)}

    def split_pairs(self) -> None:
        """Make two columns of one with a source and a medium, such as ``google / cpc``, beside a campaign."""
        pairs = [each.name for each in self.profile.values() if each.holds("pair")]
        parts = [*self.with_names(LEVEL_NAMES["source"]), *self.with_names(LEVEL_NAMES["medium"])]
        if len(pairs) != 1 or parts or self.common("node") == pairs or self.format is not None:
            return
        word = self.source.word(pairs[0])
        halves = f"split_part({word}, ' / ', 1) AS source, split_part({word}, ' / ', 2) AS medium"
        query = f"SELECT * EXCLUDE ({sources.quoted(pairs[0])}), {halves} FROM {self.source.relation}"
        self.replace_rows(query)
        self.say(f"{pairs[0]} read as source and medium")

    def warn_of_unused(self) -> None:
        """Warn of words that may tell where visits come from, beside a campaign alone or unknown names."""
        node = self.columns.get("node", [])
        levels = [level_of(name) for name in names_of(node)]
        used = self.used()
        unused = [
            each.name
            for each in self.profile.values()
            if each.name not in used
            and evidence.weight("user", each.name) <= 0
            and (each.holds("medium") or each.holds("source") or _may_be_campaign(each))
        ]
        if self.format is None and unused and (self._levels or levels == ["campaign"]):
            errors.warn(
                f"{self.argument}: {self.name} has columns that are not used: {', '.join(unused)}; "
                "if they tell where visits come from, name them with reading=Reading(columns={'node': [...]})"
            )

    def take_zone(self) -> None:
        """Read instants in the zones that the column beside them names.

        Warns
        -----
        InputWarning
            If a column of zones is elsewhere or a zone is not known; then it is not used.
        """
        used = self.used()
        zones = [name for name in self.with_names(COMMON_NAMES["zone"]) if name not in used]
        columns = names_of(self.columns["date"])
        is_local = [name for name in columns if _LOCAL_TIME.search(name)]
        has_zones = any(map(self.is_filled, zones))
        if self.format is not None or not (has_zones or is_local):
            return
        at = self._select["date"]
        if self._has_offsets(columns) or self._are_days(at) or any(map(self.place_of, columns)):
            return
        if not has_zones:
            errors.warn(
                f"{self.argument}: {is_local[0]!r} of {self.name} has local times of an unknown place. They "
                "are read as UTC. Name the place with reading=Reading(timezone='Europe/Paris')"
            )
            return
        word = self.source.word(zones[0])
        whens = [
            f"WHEN {sources.literal(name)} THEN {written_values.in_zone(place, at)}"
            for name in self.scalar(f"list(DISTINCT {word}) FILTER ({word} IS NOT NULL)")
            if (place := self._place(zones[0], name, written_values.zones_of(name)))
        ]
        known = f"CASE {word} {' '.join(whens)} END" if whens else "NULL"
        order = self.source.columns
        # Elsewhere it may be the zone of the person.
        is_beside = order.index(zones[0]) == 1 + max(map(order.index, columns))
        if (
            not whens
            or not is_beside
            or self.scalar(f"bool_or({word} IS NOT NULL AND {at} IS NOT NULL AND {known} IS NULL)")
        ):
            errors.warn(
                f"{self.argument}: the column {zones[0]!r} of {self.name} is not used; "
                "times without an offset are read as UTC"
            )
            return
        self._select["date"] = f"coalesce({known}, {at})"
        self.say(f"times in the zones of {zones[0]}")

    def _has_offsets(self, columns: Sequence[str]) -> bool:
        """Return whether some instants in text have an offset of their own, or there are none in text."""
        texts = [name for name in columns if self.source.types[name] == "VARCHAR"]
        offsets = [f"regexp_matches(lower({self.source.word(name)}), '{_OFFSET}')" for name in texts]
        return not texts or bool(self.scalar(f"coalesce(bool_or({' OR '.join(offsets)}), false)"))

    def find_views(self, named: Mapping[str, Named]) -> tuple[str, str | None] | None:
        """Return the columns of the page and of the referrer in a table of page views; None of others.

        Paths of pages are views if the referrers are addresses, or an event in the rows says so.
        """
        if self.format is not None:
            own = [self.format.role(role, self.source.columns) for role in ("page", "referrer")]
            return (own[0][0], next(iter(own[1]), None)) if self.format.views else None
        if "node" in named or any(map(self.is_filled, self.common("node"))):
            return None
        addresses = [each.name for each in self.profile.values() if each.shares["address"] > _HALF]
        referrers = self.with_names(COLUMN_NAMES["referrer"])
        pages = [name for name in self.with_names(COMMON_NAMES["page"]) if name not in referrers]
        page = next((name for name in pages if name in addresses), None)
        others = [name for name in addresses if name not in {page, *pages}]
        referrer = next((name for name in [*referrers, *others] if self.is_filled(name)), None)
        paths = [name for name in pages if self.profile[name].shares["path"] > _HALF]
        are_views = bool(paths) and (
            referrer in addresses or self.rows_of_kind(evidence.WORDS["view"]) is not None
        )
        page = page or (paths[0] if are_views else None)
        # Addresses with parameters of campaigns tell where visits come from, better than words alone do.
        tagged = [each.name for each in self.profile.values() if each.shares["tagged"]]
        are_better = any(self.profile[name].shares["tagged"] > _HALF for name in tagged) and not any(
            evidence.names_level(level, name) for level in LEVEL_NAMES for name in self.source.columns
        )
        has_parts = any(name not in referrers for name in self.common("part_of_node"))
        if page is None and not has_parts and (are_better or not self._levels_by_content()):
            page = min(tagged, key=lambda name: name not in addresses, default=None)
            referrer = referrer if page and (page not in addresses or referrer in referrers) else None
            if page is not None and page not in addresses:
                # Parameters without an address, as in the logs of servers.
                word, column = self.source.word(page), sources.quoted(page)
                query = f"CASE WHEN {word}[1] NOT IN ('/', '?') THEN '/?' ELSE '' END || {word} AS {column}"
                self.replace_rows(f"SELECT * REPLACE ({query}) FROM {self.source.relation}")
        others = [*CLICK_IDS, *(name for names in LEVEL_NAMES.values() for name in names)]
        if page is not None and referrer is None and not tagged and not self.with_names(others):
            # Pages alone tell nothing of where visits come from; words beside them may.
            may_tell = any(
                _may_be_campaign(each) or evidence.names_level("campaign", each.name)
                for each in self.profile.values()
                if each.name != page
            )
            page = None if may_tell and self.rows_of_kind(evidence.WORDS["view"]) is None else page
        is_of_visits = page is not None and folded(page) in _OF_VISITS and bool(self.common("part_of_node"))
        return None if page is None or is_of_visits else (page, referrer)

    def rows_of_kind(self, words: Collection[str]) -> str | None:
        """Return SQL for the rows whose event has one of some names; None if no row has."""
        for column in filter(self.is_filled, self.with_names(COMMON_NAMES["kind"])):
            name = f"regexp_replace(lower({self.source.word(column)}), '[^a-z0-9]', '', 'g')"
            fits = f"{name} IN ({', '.join(map(sources.literal, words))})"
            if self.scalar(f"coalesce(bool_or({fits}), false)"):
                return f"({fits})"
        return None

    def emails(self) -> list[str]:
        """Return the columns with email addresses of people."""
        own = [] if self.format is None else self.format.role("user", self.source.columns)
        columns = [column for column in own if "email" in folded(column)] if own else self.common("email")
        return list(filter(self.is_filled, columns))

    def find_steps(self, named: Mapping[str, Named]) -> list[str]:
        """Return the columns of the steps of wide journeys in order, or none if a column holds the path."""
        given = named.get("path")
        if given is not None and not isinstance(given, str):
            return [self._checked("path", column, "path") for column in given]
        if given is not None or self.common("path"):
            return []
        series: dict[str, dict[int, str]] = {}
        for column in self.source.columns:
            match = re.fullmatch(r"(.*?)[ _.-]?(\d+)", column)
            if match is not None:
                series.setdefault(match[1].casefold(), {})[int(match[2])] = column
        longest = max(series.values(), key=len, default={})
        return [longest[number] for number in sorted(longest)] if len(longest) > 1 else []

    def find_quantity(self, named: Mapping[str, Named], amount: str | None) -> str | None:
        """Return the column of the quantity that a price is to be multiplied with.

        A named column of values is not multiplied, unless a column of quantities is named too.
        """
        if "quantity" in named:
            return self.find("quantity", named)
        is_of_piece = folded(amount or "") in _UNIT_PRICES or evidence.weight("unit", amount or "-") > 0
        if amount is None or "value" in named or not is_of_piece:
            return None
        return self.find("quantity", named, required=False)

    def code_of_rows(self) -> str | None:
        """Return the first column of codes that tell all rows or instants apart, or that are like #17."""
        used, at = self.used(), self._select["date"]
        found = [
            each.name
            for each in self.profile.values()
            if each.name not in used
            and each.filled == each.rows > 1
            and each.may_be_id("email", "phone", "count", "moment", "flag")
            and all(evidence.weight(role, each.name) <= 0 for role in ("user", "quantity", "date"))
            and all(_CODE.fullmatch(value) for value in each.values if value)
        ]
        for name in found[:_MOST_RIVALS]:
            word = self.source.word(name)
            codes, pairs, instants = (f"count(DISTINCT {each})" for each in (word, f"({word}, {at})", at))
            tells = f"{codes} = {pairs} AND {instants} > 2 AND {instants} >= {_MOSTLY} * {codes}"
            numbered = f"bool_and(regexp_matches({word}, '^#[0-9]+$'))"
            if self.scalar(f"count({word}) = count(*) AND ({numbered} OR {codes} = count(*) OR {tells})"):
                return name
        return None

    def find_value(self, named: Mapping[str, Named], *, has_own_table: bool) -> str | None:
        """Return the column of the amounts: by its name, or as the only one with decimals.

        Raises
        ------
        InvalidRequest
            If two columns have decimals and no name tells which is the amount.
        """
        column = self.find("value", named, required=False)
        if column is not None or self.format is not None or not has_own_table:
            return column
        found = [
            name
            for name in self._money
            if self.profile[name].has_decimals
            and evidence.weight("value", name) == 0
            and name not in self.totals.taxes
            and not self.profile[name].holds("float")
            and not NO_AMOUNT.match(name.casefold())
        ]
        if len(found) > 1:
            self.check_equal("value", found)
        return next(iter(found), None)

    def find_currency(self, named: Mapping[str, Named], amount: str | None) -> str | None:
        """Return the column of the currency of an amount: ``<amount>_currency`` before other names."""
        if "currency" in named:
            return self.find("currency", named)
        common = self.common("currency")
        endings = ("currency", "currencycode")
        if amount is not None and len(evidence.currencies_in(amount)) == 1:
            return None
        others = [
            name for name in self.source.columns if folded(name).endswith(endings) and name not in common
        ]
        own = [column for column in others if amount and folded(column).startswith(folded(amount))]
        others += [
            name
            for name, values in self.profile.items()
            if values.holds("currency") and name not in {*common, *others}
        ]
        for column in [*own, *common, *others]:
            # Columns of amounts have similar names.
            looks = f"bool_and(regexp_full_match({self.source.word(column)}, '{_CURRENCY}'))"
            if self.is_filled(column) if column in common else self.scalar(looks):
                return column
        return next(iter(common), None)

    def find_date(
        self, named: Mapping[str, Named], *, required: bool = True, called: str = "date"
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
            return [self._checked("date", column, called) for column in columns]
        times = list(filter(self.is_filled, self.common("time")))
        clocks = [column for column in times if self._is_mostly(column, self._clock(column))]
        moments = [column for column in times if self._is_mostly(column, self.moment(column))]
        day = self.best([column for column in self.common("date") if column not in clocks] or moments)
        if day is None:
            column = self.find("date", named, required=required, called=called)
            return [] if column is None else [column]
        if not self._are_days(self.moment(day)):
            return [day]
        if clocks:
            return [day, clocks[0]]
        others = [column for column in times if column != day]
        # A column with the time of day beats its own copy without one.
        exact = [name for name in self.common("date") if self._is_exact(name, day)]
        instants = [column for column in (*moments, *exact) if column != day and column not in clocks]
        if others and not instants:
            self._warn_of_times(others[0], day)
        return next(([name] for name in instants if self._are_same_days(name, day)), [day])

    def _is_exact(self, column: str, day: str) -> bool:
        """Return whether a column clearly has instants, none of them before those of a column of days."""
        return (
            evidence.weight("date", column) >= _CLEAR
            and not self._are_days(self.moment(column))
            and self._is_before(self.moment(day), self.moment(column), by_day=True)
        )

    def _are_same_days(self, column: str, day: str) -> bool:
        """Return whether instants are of the days of another column, in any time zone, in most rows."""
        apart = f"epoch({self.moment(column)}) - epoch({self.moment(day)})"
        return bool(
            self.scalar(f"coalesce(avg(CAST(abs({apart}) < {_TWO_DAYS} AS INTEGER)) > {_HALF}, false)")
        )

    def _are_days(self, at: str, *, unless: str = "false") -> bool:
        """Return whether SQL is midnight in every row, and a condition holds in none."""
        # How a moment is written is a long text, which DuckDB reads once.
        rows = f"(SELECT {at} AS moment, {unless} AS other FROM {self.source.relation})"
        days = "coalesce(bool_and(moment = date_trunc('day', moment) AND NOT other), false)"
        return bool(self.connection.execute(f"SELECT {days} FROM {rows}").fetchall()[0][0])

    def _is_mostly(self, column: str, sql: str) -> bool:
        """Return whether SQL is not NULL for more than half of the values of a column."""
        return bool(self.scalar(f"count({sql}) > count({self.source.word(column)}) / 2"))

    def _warn_of_times(self, column: str, day: str) -> None:
        example = self.scalar(f"min({self.source.word(column)}) FILTER ({self._clock(column)} IS NULL)")
        errors.warn(
            f"the column {column!r} of {self.name} is not used: its values, such as "
            f"{display.printable(repr(example))}, are not times of day such as 14:05, so that the days of "
            f"{day!r} "
            "have no time. Write them so, or make one column of both, such as '2025-01-31T14:05:00Z'",
        )

    def people(self) -> list[evidence.Column]:
        """Return the columns that may have people by their values, the best names first."""
        found = [
            each
            for each in self.profile.values()
            if each.may_be_id() or (each.holds("float") and not each.holds("instant"))
            # Two values in many rows are a flag or a fee.
            if each.distinct > 2 or each.filled < _FEW_ROWS
        ]
        return sorted(found, key=lambda each: -evidence.weight("user", each.name))

    def identity(self, column: str, *, is_phone: bool = False) -> str:
        """Return SQL by which the people of two tables are compared."""
        word = self._bare(column)
        return f"right({_digits(word)}, {_LOCAL_DIGITS})" if is_phone else _without_fraction(f"lower({word})")

    def _bare(self, column: str) -> str:
        """Return SQL for ids of people without the braces, or the name before an address, around them."""
        word, values = self.source.word(column), self.profile[column]
        if values.holds("email") and any(value.endswith((">", ")")) for value in values.values if value):
            return f"coalesce(nullif(regexp_extract({word}, '[<(] *([^<( ]+@[^>) ]+)', 1), ''), {word})"
        return f"trim({word}, '{{}}')" if values.holds("code") else word

    def phones(self, column: str) -> set[str]:
        """Return different numbers of telephones of a column, with + where they begin with a country."""
        word = self.source.word(column)
        rows = self.connection.execute(
            f"SELECT DISTINCT CASE WHEN {_is_abroad(word)} THEN '+' || ltrim({_digits(word)}, '0') ELSE "
            f"{_digits(word)} END AS number FROM {self.source.relation} WHERE {word} IS NOT NULL ORDER BY 1 "
            f"LIMIT {_MOST_PHONES}"
        ).fetchall()
        return {number for (number,) in rows}

    # -- reading cells

    def moment(self, column: str) -> str:
        """Return SQL for a column as an instant; the default offset is UTC, the default time midnight."""
        kind = self.source.types[column]
        if not (kind in {"DATE", "BOOLEAN"} or kind.startswith("TIMESTAMP")):
            return self._read_as(column).sql
        at = self.source.instant(column)
        at = f"coalesce({at}, CAST({sources.quoted(column)} AS TIMESTAMP))" if kind == "DATE" else at
        place = self.place_of(column) if re.fullmatch(r"TIMESTAMP(_\w+)?", kind) else ""
        return written_values.in_zone(place, at) if place.strip("+0:") and not self._are_days(at) else at

    def _read_as(self, column: str) -> written_values.Instants:
        """Return how a column is read as instants."""
        if column not in self._instants:
            read = self._instants_of(column, self.formats.dayfirst)
            orders: set[str | None] = set()
            if self.formats.dayfirst is None and read.advice != "''":
                # What other columns show holds for the whole file.
                others = [
                    each for each in self.profile.values() if each.name != column and each.holds("instant")
                ]
                texts = [each.name for each in others if self.source.types[each.name] == "VARCHAR"]
                orders = {self._instants_of(name, None).order for name in texts} - {None}
            if len(orders) == 1:
                other = self._instants_of(column, orders == {"dmy"})
                read = read if self._is_left_over(column, other.sql) else other
            stored = replace(read, sql=self._stored(read.sql, "TIMESTAMP"))
            place = self.place_of(column) if read.is_written else ""
            if place.strip("+0:") and not self._are_days(stored.sql):
                # Times with an offset of their own keep it.
                own = f"regexp_matches(lower({self.source.word(column)}), {sources.literal(_OFFSET)})"
                local = written_values.in_zone(place, stored.sql)
                sql = f"CASE WHEN {own} THEN {stored.sql} ELSE {local} END"
                self.connection.execute(f"UPDATE {self.source.relation} SET {stored.sql} = {sql}")
                stored = replace(stored, said=f"{read.said}, {place}".removeprefix(", "))
            self._instants[column] = stored
        return self._instants[column]

    def place_of(self, column: str) -> str:
        """Return the offset or zone of the times in a column: what the user says, else what its name does."""
        if column not in self._places:
            found = _ZONE_IN_NAME.search(column)
            name = "" if found is None else next(filter(None, found.groups()))
            zones = map(written_values.zones_of, (name, re.split("[, ]", name)[0]))
            self._places[column] = self._timezone or self._place(column, name, next(filter(None, zones), []))
        return self._places[column]

    def _place(self, column: str, name: str, zones: Sequence[written_values.Zone]) -> str:
        """Return the one of the zones of a name that something in the table speaks for; empty if none."""
        found = [zone for zone in zones if zone.place == self._timezone or zone.evidence & self._evidence]
        found = found or [zone for zone in zones if zone.holds]
        if len(zones) > 1:
            either = " or ".join(f"timezone={zone.place!r}" for zone in zones)
            self._shared[column] = f"{name} is the time of several places; pass {either}"
        if len(found) == 1 < len(zones):
            shown = ", ".join(sorted(found[0].evidence & self._evidence))
            self._shared[column] = f"{name} is {found[0].place}" + (f", as {shown} shows" if shown else "")
        return found[0].place if len(found) == 1 else ""

    @cached_property
    def _evidence(self) -> frozenset[str]:
        """The country, the currencies and the codes of telephones that all values of their column tell."""
        found: set[str | None] = set()
        for each in self.profile.values():
            values = {value for value in each.values if value}
            found |= {*evidence.currencies_in(each.name)}
            if each.holds("currency") or each.name in self.with_names(COMMON_NAMES["country"]):
                found |= {value.upper() for value in values}
            if each.name in self._money:
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
            for value in self.profile[column].values
            if value and (found := _ZONE_OF_TIME.search(value))
        }
        places = {
            name.lower(): self._place(column, name, written_values.zones_of(name)) for name in sorted(names)
        }
        return written_values.instants(
            self.connection,
            self.source.relation,
            self.source.word(column),
            dayfirst=dayfirst,
            zones={name: place for name, place in places.items() if place},
        )

    def _is_left_over(self, column: str, sql: str) -> bool:
        """Return whether a value is not read as an instant by SQL."""
        return bool(
            self.scalar(f"coalesce(bool_or({self.source.word(column)} IS NOT NULL AND {sql} IS NULL), false)")
        )

    def _stored(self, sql: str, kind: str) -> str:
        """Compute SQL once for each row, as one more column of the table; return its quoted name."""
        stored = len(self._instants) + len(self._amounts) + len(self._people)
        name = sources.quoted(f"{sources.COMPUTED}{stored}")
        self.connection.execute(f"ALTER TABLE {self.source.relation} ADD COLUMN {name} {kind}")
        self.connection.execute(f"UPDATE {self.source.relation} SET {name} = {sql}")
        return name

    def share_of_instants(self, column: str, *, beside: str) -> float:
        """Return the share of instants and days in a column, of the rows with a value in another one."""
        share = f"avg(CAST(({self.moment(column)}) IS NOT NULL AS INTEGER))"
        return float(self.scalar(f"coalesce({share} FILTER ({self.source.word(beside)} IS NOT NULL), 1)"))

    def _clock(self, column: str) -> str:
        """Return SQL for a time of day as the interval since midnight, UTC by default; NULL if it is none."""
        twelve = rf"regexp_replace(upper({self.source.word(column)}), '\s*([AP])\.?M\.?$', ' \1M')"
        parted = rf"regexp_replace({twelve}, '^(\d{{1,2}})(\d\d)(\d\d)$', '\1:\2:\3')"
        padded = rf"regexp_replace({parted}, '^(\d):', '0\1:')"
        instant = written_values.moment(f"'{_MIDNIGHT} ' || {padded}")
        return (
            rf"CASE WHEN regexp_matches({padded}, '^\d\d:\d\d') THEN {instant} - TIMESTAMP '{_MIDNIGHT}' END"
        )

    def flag(self, column: str) -> str:
        """Return SQL for a flag as BOOLEAN; blank and "null" are no.

        Raises
        ------
        InvalidRequest
            If a cell is not a yes or no.
        """
        if self.source.types[column] == "BOOLEAN":
            return f"coalesce({sources.quoted(column)}, false)"
        word = f"lower({self.source.word(column)})"
        yes, no = (", ".join(map(sources.literal, words)) for words in (_YES, _NO))
        other = self.scalar(f"min({word}) FILTER ({word} NOT IN ({yes}, {no}))")
        if other is not None:
            raise errors.InvalidRequest(
                f"flag: {other!r} in the column {column!r} of {self.name} is not a yes or no; allowed: "
                "yes and no, y and n, true and false, t and f, 1 and 0; name another column with "
                "columns={'flag': COLUMN}"
            )
        return f"coalesce({word} IN ({yes}), false)"

    def _number(self, role: str, column: str, *, is_count: bool) -> str:
        """Return SQL for a column of numbers, with or without thousands separators, as DOUBLE."""
        word = self.source.word(column)
        sql = f"TRY_CAST({word} AS DOUBLE)"
        if self.source.types[column] == "VARCHAR":
            if column not in self._amounts:
                read = written_values.amounts(
                    self.connection,
                    self.source.relation,
                    word,
                    decimal=self.formats.decimal,
                    place=f"the column {column!r} of {self.name}",
                    field=role,
                    is_count=is_count,
                    currencies=evidence.currencies_in(column) or self.currencies,
                    # What the other columns show holds for the whole file.
                    otherwise=lambda: self.mark,
                )
                self._amounts[column] = replace(read, sql=self._stored(read.sql, "DOUBLE"))
            sql = self._amounts[column].sql
        divisor = next((by for words, by in _UNITS if words & {*evidence.words_of(column)}), None)
        if divisor is None and column in self._minor:
            return f"({sql}) / {self._minor[column]}"
        if divisor is None:
            return sql
        digits = f"{column.rpartition('.')[0]}.fractionDigits"
        if digits in self.source.columns:
            self.say(f"{column} divided by 10 to the {digits}")
            return f"({sql}) / power(10, TRY_CAST({self.source.word(digits)} AS INTEGER))"
        self.divided[column] = f"divided by {divisor:,}"
        self.say(f"{column} divided by {divisor:,}")
        return f"({sql}) / {divisor}"

    def find_minor_units(self, value: str, currency: str | None, code: str | None) -> None:
        """Find whether values, and the refunds beside them, are in minor units, and say it."""
        texts = [
            name for name in self.source.columns if self.source.types[name] == "VARCHAR" and name != value
        ]
        if self.format is not None or not minor_units.tell(self.connection, self.source, value, texts):
            return
        unit = sources.literal(code or "") if currency is None else self.source.word(currency)
        for column in (value, *self.refunds(), *self.remaining()):
            if column == value or minor_units.are_whole(self.connection, self.source, column):
                self._minor[column] = minor_units.divisor(unit)
                self.divided[column] = "in minor units"
        self.say(f"{value} is in minor units, such as cents, and divided by 100 (JPY and the like by 1)")

    # -- selecting columns

    def take_word(self, role: str, column: str | None, *, optional: bool = False) -> None:
        """Select a column of text, which is required in every row unless it is optional."""
        if column is not None:
            self.source.require_exact(self.connection, column, self.argument)
            word = self._person(column) if role == "user" else self.source.word(column)
            if role == "user":
                self._warn_of_crowds(column)
            self.columns[role] = column
            self._select[role] = word
            if not optional:
                self._reject(f"{word} IS NULL", column, "is a placeholder")

    def take_groups(self) -> None:
        """Select the columns that divide conversions into groups, unless they have another role."""
        named = self.used()
        for role in GROUPS:
            column = self.best([name for name in self.with_names(COMMON_NAMES[role]) if name not in named])
            if column is not None:
                self._select[role] = self.source.word(column)

    def _person(self, column: str) -> str:
        """Return SQL for the id of a person or device, NULL where it is a placeholder."""
        if column in self._people:
            return self._people[column]
        word = self._bare(column)
        known = f"lower({word})" if self._ignores_case(column) else word
        if column in self.country_codes:
            code, lengths = self.country_codes[column]
            digits, listed = _digits(word), ", ".join(map(str, lengths)) or "NULL"
            has_code = (
                f"{_is_abroad(word)} OR (starts_with({digits}, '{code}') AND length({digits}) IN ({listed}))"
            )
            known = f"nullif(CASE WHEN {has_code} THEN '' ELSE '{code}' END || ltrim({digits}, '0'), '')"
        if self.profile[column].holds("float") and self.source.types[column] == "VARCHAR":
            known = _without_fraction(known)
        nobody = ", ".join(map(sources.literal, self._strangers(column)))
        is_nobody = person_ids.nobody_sql(word) + (f" OR lower({word}) IN ({nobody})" if nobody else "")
        self._people[column] = self._stored(f"CASE WHEN NOT ({is_nobody}) THEN {known} END", "VARCHAR")
        return self._people[column]

    def _ignores_case(self, column: str) -> bool:
        values = self.profile[column]
        return "mail" in folded(column) or values.holds("email") or values.holds("code")

    def _strangers(self, column: str) -> list[str]:
        """Return the words, such as guest, that stand for nobody in a column of this table."""
        if column not in self._nobody:
            self.source.require_exact(self.connection, column, self.argument)
            email = next((self.source.word(each) for each in self.emails() if each != column), None)
            self._nobody[column] = person_ids.strangers(
                self.connection, self.source.relation, self.source.word(column), email=email
            )
        return self._nobody[column]

    def _warn_of_crowds(self, column: str) -> None:
        """Warn of each person who has a tenth of the rows of a large table."""
        person = self._person(column)
        person_ids.warn_of_crowds_in(
            self.connection, self.source.relation, person, place=self.argument, column=column
        )

    def has_guests(self, person: str, email: str) -> bool:
        """Return whether the ids of persons are missing for several addresses of guests."""
        is_guest = f"{self._person(person)} IS NULL"
        return bool(self.scalar(f"count(DISTINCT {self._person(email)}) FILTER ({is_guest}) > 1"))

    def _reject(self, condition: str, column: str, complaint: str, advice: str = "''") -> None:
        """Reject rows by a condition; the reason shows the value and ends with the SQL of an advice."""
        word = self.source.word(column)
        shown = f"left({word}, {_MAX_SHOWN}) || CASE WHEN length({word}) > {_MAX_SHOWN} THEN '…' ELSE '' END"
        problem = f"{sources.literal(f'{column} {complaint}: ')} || chr(39) || {shown} || chr(39) || {advice}"
        self._rules.append(
            (
                condition,
                f"CASE WHEN {word} IS NULL THEN {sources.literal(f'{column} is missing')} ELSE {problem} END",
            )
        )

    def require_any(self, columns: Sequence[str]) -> None:
        """Reject rows without a value in any of some columns."""
        words = ", ".join(self.source.word(column) for column in columns)
        self._rules.append(
            (f"coalesce({words}) IS NULL", sources.literal(f"{' and '.join(columns)} are missing"))
        )

    def take_user(self, user: str | None, device: str | None, *, optional: bool = False) -> None:
        """Select the columns of the user and of the device, one of which every row needs unless optional."""
        if device is None:
            self.take_word("user", user, optional=optional)
            return
        present = {"user": user, "device": device} if user is not None else {"device": device}
        self.columns |= present
        words = {role: self._person(column) for role, column in present.items()}
        self._select |= {role: f"CAST({words.get(role, 'NULL')} AS VARCHAR)" for role in ("user", "device")}
        for column in present.values():
            self._warn_of_crowds(column)
        if optional:
            return
        if user is None:
            self._reject(f"{words['device']} IS NULL", device, "is a placeholder")
        else:
            missing = sources.literal(f"{user} and {device} are missing or placeholders")
            self._rules.append((f"coalesce({', '.join(words.values())}) IS NULL", missing))

    def take_node(self, columns: Sequence[str]) -> None:
        """Select the columns of a node, as the fields of a traffic source that they name."""
        if len(columns) == 1:
            self.take_word("node", columns[0])
            return
        self.columns["node"] = list(columns)
        levels = [self._levels.get(column) or level_of(column) for column in columns]
        words = [self.source.word(column) for column in columns]
        if None in levels or len(set(levels)) < len(levels):
            # The names of a user's own levels.
            self._select["levels"] = f"CAST(to_json([{', '.join(words)}]) AS VARCHAR)"
            return
        self._select |= {str(level): word for level, word in zip(levels, words, strict=True)}
        for referrer in self.with_names(COLUMN_NAMES["referrer"])[:1]:
            self.columns["referrer"] = referrer
            self._select["referrer"] = self.source.word(referrer)

    def take_views(self, page: str, referrer: str | None) -> None:
        """Select what of page views tells where their visit came from."""
        words = {
            level: self.source.word(column)
            for level, names in LEVEL_NAMES.items()
            for column in list(filter(self.is_filled, self.with_names(names)))[:1]
        }
        clicks = {name: self.source.word(column) for name in CLICK_IDS for column in self.with_names([name])}
        self.columns |= {"page": page} if referrer is None else {"page": page, "referrer": referrer}
        self._select |= {level: words.get(level, "CAST(NULL AS VARCHAR)") for level in LEVEL_NAMES}
        self._select |= {
            "landing": export_tables.with_parameters(f"coalesce({self.source.word(page)}, '')", clicks),
            "came_from": "CAST(NULL AS VARCHAR)" if referrer is None else self.source.word(referrer),
            "is_derived": f"{words.get('campaign', 'NULL')} IS NULL AND "
            f"coalesce(lower({words.get('medium', 'NULL')}) IN ('organic', 'referral', '(none)'), false)",
        }

    def take_steps(self, columns: Sequence[str], separator: str) -> None:
        """Select the steps of wide journeys as one path; journeys without a step are rejected."""
        words = ", ".join(self.source.word(column) for column in columns)
        path = f"nullif(concat_ws({sources.literal(separator)}, {words}), '')"
        self.columns["path"] = list(columns)
        self._select["path"] = path
        self._rules.append((f"{path} IS NULL", sources.literal(f"{columns[0]} to {columns[-1]} are missing")))

    def take_outcome(self, column: str) -> None:
        """Select a flag as the numbers of conversions and of null paths."""
        self.columns["flag"] = column
        self._select["conversions"] = f"CASE WHEN {self.flag(column)} THEN 1.0 ELSE 0.0 END"
        self._select["nulls"] = f"1.0 - {self._select['conversions']}"

    def know_currencies(self, column: str | None, code: str | None) -> None:
        """Let amounts be in the currencies of a column, or of a code where it has none."""
        words = [] if column is None else self.scalar(f"list(DISTINCT {self.source.word(column)})") or []
        self.currencies = {code for code in [*map(code_of, filter(None, words)), code] if code is not None}

    def take_currency(self, column: str | None, code: str | None) -> None:
        """Select a column of currencies, required beside spend unless a code stands for missing ones.

        Raises
        ------
        InvalidRequest
            If the name of the column of amounts has two currencies, and nothing tells which it is.
        """
        if column is None:
            amount = self.columns.get("value", self.columns.get("spend"))
            own, default = None, code and sources.literal(code)
            if isinstance(amount, str):
                own = self._amounts[amount].currency if amount in self._amounts else None
                if own is None and code is None and self._is_american(amount):
                    self.say("amounts in $ are read as USD, as dates begin with the month")
                    default = "'USD'"
                of_name = evidence.currencies_in(amount)
                if len(of_name) > 1 and not own and not code:
                    either = " or ".join(f"currency={each!r}" for each in of_name)
                    raise errors.InvalidRequest(
                        f"{self.argument}: the column {amount!r} of {self.name} names two currencies; say "
                        f"with {either} which its amounts are in",
                        field="currency",
                    )
                default = sources.literal(of_name[0]) if len(of_name) == 1 else default
            if own or default:
                self._select["currency"] = f"coalesce({own or 'NULL'}, {default or 'NULL'})"
            return
        self.columns["currency"] = column
        word = self.source.word(column)
        words = self.scalar(f"list(DISTINCT {word}) FILTER ({word} IS NOT NULL)") or []
        codes = {word: known for word in sorted(words) if (known := code_of(word)) is not None}
        whens = " ".join(
            f"WHEN {sources.literal(name)} THEN {sources.literal(known)}" for name, known in codes.items()
        )
        own = f"CASE {word} {whens} END" if whens else "CAST(NULL AS VARCHAR)"
        self._select["currency"] = own if code is None else f"coalesce({own}, {sources.literal(code)})"
        amount = self._select.get("value", self._select.get("spend"))
        if amount is not None:
            is_unknown = f"{word} IS NOT NULL AND {own} IS NULL AND {amount} IS NOT NULL"
            self._reject(is_unknown, column, f"is not {NO_SIGN}")
            if code is None and "spend" in self._select:
                self._reject(f"{word} IS NULL AND {amount} IS NOT NULL", column, "is missing")

    def _is_american(self, amount: str) -> bool:
        """Return whether amounts have the sign $, and dates begin with the month."""
        has_sign = f"coalesce(bool_and(starts_with(ltrim({self.source.word(amount)}, '(-+'), '$')), false)"
        orders = {each.order for each in self._instants.values()} - {None}
        return orders == {"mdy"} and bool(self.scalar(has_sign))

    def take_number(
        self,
        role: str,
        column: str | None,
        *,
        minimum: float | None = None,
        optional_if: str = "false",
        default: str = "NULL",
        is_count: bool = False,
    ) -> None:
        """Select a column of numbers.

        Cells may be empty where the SQL condition ``optional_if`` holds; they are ``default``.
        """
        if column is None:
            return
        number = self._number(role, column, is_count=is_count)
        allowed = f"isfinite({number})" + ("" if minimum is None else f" AND {number} >= {minimum}")
        complaint = "is not a number" if minimum is None else f"is not a number of at least {minimum:g}"
        is_left_out = f"({self.source.word(column)} IS NULL AND {optional_if})"
        self.columns[role] = column
        self._select[role] = f"CASE WHEN {is_left_out} THEN {default} WHEN {allowed} THEN {number} END"
        self._reject(f"NOT {is_left_out} AND ({allowed}) IS DISTINCT FROM true", column, complaint)

    def take_sql(self, role: str, sql: str) -> None:
        """Select an expression."""
        self._select[role] = sql

    def take_references(self, identity: str) -> None:
        """Give refunds the id of the conversion that they refer to, if a column has it."""
        is_back = f"{self._select.get('kind', 'NULL')} IN ('refund', 'void')"
        is_back = f"({is_back}) IS TRUE OR ({self._select.get('value', 'NULL')} < 0) IS TRUE"
        own, used, relation = self.source.word(identity), self.used(), self.source.relation
        if not self.scalar(f"coalesce(bool_or({is_back}), false)"):
            return
        for each in self.profile.values():
            word = self.source.word(each.name)
            if each.name in used or not each.may_be_id("email", "flag"):
                continue
            is_known = f"{word} IN (SELECT {own} FROM {relation}) AND {word} <> {own}"
            if self.scalar(
                f"count(*) FILTER ({is_back}) > 0 AND count(*) FILTER (({is_back}) AND {is_known}) >= "
                f"{_MOSTLY} * count(*) FILTER (({is_back}) AND {word} IS NOT NULL) AND "
                f"count(*) FILTER (({is_back}) AND {word} IS NOT NULL) > 0"
            ):
                known = f"CASE WHEN ({is_back}) AND {is_known} THEN {word} ELSE {own} END"
                self._select["conversion"] = self._stored(known, "VARCHAR")
                self.say(f"refunds belong to the {identity} in {each.name}")
                return

    def take_rest(self, value: str) -> None:
        """Take what remains of an amount after refunds, if a column has it, in place of the amount."""
        if self.format is not None or "value" not in self._select:
            return
        words = evidence.words_of(value)
        of_debit = ["debit" if word == "credit" else word for word in words]
        for name in self.source.columns if of_debit != words else ():
            if evidence.words_of(name) == of_debit:
                debit = self._number("value", name, is_count=False)
                self._select["value"] = f"coalesce({self._select['value']}, -({debit}))"
        for name in self.remaining():
            rest = self._number("value", name, is_count=False)
            # A total is adjusted only where something was given back.
            given = f"nullif({rest}, 0)" if "adjusted" in evidence.words_of(name) else rest
            self._select["value"] = f"coalesce({given}, {self._select['value']})"
            self.less = name
            break

    def remaining(self) -> list[str]:
        """Return the columns of what remains of an amount after refunds."""
        return [
            each.name
            for each in self.profile.values()
            if each.holds("amount") and evidence.weight("remaining", each.name) > 0
        ]

    def refunds(self) -> list[str]:
        """Return the columns of amounts that were given back, unless another one has what remains."""
        if self.format is not None:
            return of_services.matching(self.format.less, self.source.columns)
        names = [
            *self.with_names(COMMON_NAMES["refund"]),
            *(name for name in self.source.columns if evidence.weight("refund", name) > 0),
        ]
        amounts = [name for name in dict.fromkeys(names) if self.profile[name].holds("amount")]
        flags = [
            name
            for name in amounts
            if self.scalar(f"coalesce(bool_and({self.source.word(name)} IN ('0', '1')), true)")
        ]
        return [] if self.remaining() else [name for name in amounts if name not in flags]

    def take_less(self, named: Mapping[str, Named]) -> None:
        """Subtract the refunds of a named column, or of one that has them, from the values."""
        found = [name for name in self.refunds() if name not in self.columns.values()][:1]
        if "refund" in named:
            found = [str(self.find("refund", named))] if named["refund"] else []
        for column in found if "value" in self._select else ():
            self.less = column
            self.take_number("refund", column, optional_if="true", default="0")
            self._select["value"] = f"round(({self._select['value']}) - abs({self._select.pop('refund')}), 6)"

    def take_product(self, price: str, quantity: str) -> None:
        """Select prices times quantities as the values; a price without a quantity is rejected."""
        self.take_number("value", price, optional_if="true")
        is_free = f"{self.source.word(price)} IS NULL"
        self.take_number("quantity", quantity, optional_if=is_free, is_count=True)
        # Prices and quantities are decimal numbers, so that their product is one too.
        self._select["value"] = f"round(({self._select['value']}) * ({self._select.pop('quantity')}), 6)"

    def take_value(self, column: str | None) -> None:
        """Select the values of paths; those without a conversion may have none."""
        is_null = f"coalesce({self._select['conversions']}, 0) = 0"
        self.take_number("value", column, optional_if=is_null, default="0")

    def take_date(self, columns: Sequence[str]) -> None:
        """Select the instants: those of a column, or of one with days and one with times of day."""
        day, *clocks = columns
        at = self.moment(day)
        for column in columns:
            if said := self._shared.get(column):
                if "; pass " in said:
                    raise errors.InvalidRequest(
                        f"{self.argument}: {column} of {self.name}: {said}", field="timezone"
                    )
                self.say(f"{column}: {said}")
        said = self._instants[day].advice if day in self._instants else "''"
        form = f"coalesce(nullif({said}, ''), {sources.literal(_AS_TEXT)})"
        self._reject(f"{at} IS NULL", day, "is not a date", form)
        self.columns["date"] = [*columns] if clocks else day
        self._select["date"] = at
        for column in clocks:
            since_midnight, word = self._clock(column), self.source.word(column)
            self._reject(f"{word} IS NOT NULL AND {since_midnight} IS NULL", column, "is not a time of day")
            at = f"{at} + coalesce({since_midnight}, INTERVAL 0 SECOND)"
            place = self.place_of(day) or self.place_of(column)
            self._select["date"] = written_values.in_zone(place, at) if place else at

    def say_other_dates(self) -> None:
        """Say which of several columns of instants has those of the conversions."""
        used = self.used()
        others = [
            name
            for name in self.common("date")
            if name not in used and evidence.weight("date", name) > 0 and self.is_filled(name)
        ]
        if self.format is None and others:
            day = names_of(self.columns["date"])[0]
            self.say(f"the date is {day}, not {ten(others)}")

    def take_days(self) -> None:
        """Select whether each instant is a day without a time, as those of a column of midnights are."""
        given = self.columns["date"]
        day, *clocks = names_of(given)
        kind, word = self.source.types[day], f"lower({self.source.word(day)})"
        is_text = kind == "VARCHAR"
        may_be = is_text or re.fullmatch(r"DATE|TIMESTAMP(_\w+)?", kind) is not None
        has_offset = f"regexp_matches({word}, '{_OFFSET}')" if is_text else "false"
        if may_be and self._are_days(self._select["date"], unless=has_offset):
            self._select["is_day"] = "true"
            return
        written = (
            f"NOT regexp_matches({word}, '{_CLOCK_OR_COUNT}')" if is_text else str(kind == "DATE").lower()
        )
        without_clock = [f"{self.source.word(column)} IS NULL" for column in clocks]
        self._select["is_day"] = " AND ".join([written, *without_clock])

    # -- what was decided

    def decided(self) -> dict[str, Named]:
        """Return the columns by role, apart from those that were made.

        Of known exports, which are recognised again, they are those that touchpoints would decide otherwise.
        """
        roles = OPTIONS if self.format is None else ("user", "device", "date")
        return {
            role: column
            for role, column in self.columns.items()
            if role in roles and {*names_of(column)} <= self.header
        }

    def written(self) -> dict[str, Any]:
        """Return what values show of how the columns in use are written: ``dayfirst`` and ``decimal``."""
        used = self.used()
        orders = {each.order for name, each in self._instants.items() if name in used and each.order}
        marks = {each.mark for name, each in self._amounts.items() if name in used and each.mark}
        ways: dict[str, Any] = {}
        if len(orders) == 1:
            ways["dayfirst"] = orders == {"dmy"}
        if len(marks) == 1:
            ways["decimal"] = marks.pop()
        return ways

    def way_of(self, column: str, role: str) -> str:
        """Return how a column with a role is written, and what shows it after a colon."""
        if role == "date":
            if self.profile[column].holds("clock"):
                return "time of day"
            if column in self._instants:
                return self._instants[column].said
            return "day" if self.source.types[column] == "DATE" else "instant"
        if role in {"value", "refund", "quantity", "spend"}:
            amounts = self._amounts.get(column)
            way, proof = "number", None
            if amounts is not None and amounts.mark is not None:
                way, proof = f"decimal {'comma' if amounts.mark == ',' else 'point'}", amounts.proof
            product = " × quantity" if role == "value" and "quantity" in self.columns else ""
            proofs = [proof, self.divided.get(column), *self._currency_of(role)]
            return f"{way}{product}: {', '.join(filter(None, proofs))}"
        if role == "currency":
            return f"currency: {ten(self.values(column))}"
        if role == "node" and self._levels_of(column):
            return f"{self._levels_of(column)}: {ten(self.values(column))}"
        return ""

    def _currency_of(self, role: str) -> list[str]:
        """Return the currency that the signs or the name of a column of amounts tell."""
        if role not in {"value", "spend"} or "currency" in self.columns or "currency" not in self._select:
            return []
        found = self.scalar(f"list(DISTINCT {self._select['currency']})") or []
        return [f"currency {ten(sorted(filter(None, found)))}"] if any(found) else []

    def _levels_of(self, column: str) -> str | None:
        return self._levels.get(column) or level_of(column)

    def values(self, column: str) -> list[str]:
        """Return distinct values of a column, the most frequent first; more than ten are cut."""
        word = self.source.word(column)
        rows = self.connection.execute(
            f"SELECT {word} AS value FROM {self.source.relation} WHERE value IS NOT NULL GROUP BY 1 "
            f"ORDER BY count(*) DESC, 1 LIMIT {_MAX_NAMES}"
        ).fetchall()
        return [value for (value,) in rows]

    def samples(self, column: str, roles: Sequence[str], count: int) -> tuple[list[str], list[str]]:
        """Return the first values of a column as they stand in the file, and as they are read."""
        word = self.source.word(column)
        role = next((role for role in roles if role in self._select), "")
        sql = self._select.get(role, word)
        if column in self._amounts and role != "value":
            sql = self._amounts[column].sql
        if role == "date" and "is_day" in self._select:
            # A conversion of a day counts at its end.
            day = f"{self._select['is_day']} AND {sql} = date_trunc('day', {sql})"
            sql = f"CASE WHEN {day} THEN {sql} + INTERVAL 86399 SECOND ELSE {sql} END"
        read = f"strftime({sql}, '%Y-%m-%d %H:%M:%S UTC')" if role == "date" else f"CAST({sql} AS VARCHAR)"
        rows = self.connection.execute(
            f"SELECT left({word}, {_MAX_SHOWN}), left(coalesce({read}, ''), {_MAX_SHOWN}) "
            f"FROM {self.source.relation} WHERE {word} IS NOT NULL "
            f"ORDER BY {sources.quoted(sources.ROW)} LIMIT {count}"
        ).fetchall()
        return [before for before, _ in rows], [after for _, after in rows]

    # -- reading rows

    def count_repeated(self, where: str) -> int:
        """Return the number of valid rows that repeat another one in all columns."""
        is_invalid = " OR ".join(f"({condition})" for condition, _ in self._rules)
        columns = f"* EXCLUDE ({sources.quoted(sources.ROW)})"
        rows = f"FROM {self.source.relation} WHERE ({where}) AND NOT ({is_invalid})"
        distinct = f"SELECT count(*) FROM (SELECT DISTINCT {columns} {rows})"
        return int(self.connection.execute(f"SELECT count(*) - ({distinct}) {rows}").fetchall()[0][0])

    def read(self, *, where: str = "true", may_be_empty: bool = False) -> tuple[pa.Table, pd.DataFrame]:
        """Return the valid rows, and the rejected rows with the reason.

        Raises
        ------
        InvalidRequest
            If there are no valid rows, unless there are no rows at all and the file may be empty.
        """
        reasons = ", ".join(f"CASE WHEN {condition} THEN {reason} END" for condition, reason in self._rules)
        columns = ", ".join(f"{sql} AS {role}" for role, sql in self._select.items())
        rows = sql_results.read_arrow(
            self.connection,
            f"SELECT {sources.quoted(sources.ROW)} AS row, {columns}, concat_ws('; ', {reasons}) AS reason "
            f"FROM {self.source.relation} WHERE {where} ORDER BY {sources.quoted(sources.ROW)}",
        )
        is_valid = pc.equal(rows["reason"], "")
        valid = rows.filter(is_valid).drop_columns("reason")
        invalid = rows.filter(pc.invert(is_valid)).select(["row", "reason"])
        unreadable = self.source.unreadable
        rejected = frames.to_pandas(pa.concat_tables([unreadable, invalid.cast(unreadable.schema)]))
        rejected["row"] += self.source.first
        rejected["reason"] = rejected["reason"].map(in_reading)
        rejected.insert(0, "file", pd.Series(self.name, index=rejected.index, dtype=frames.TEXT))
        if not valid.num_rows and (len(rejected) or not may_be_empty):
            problem = "has no rows"
            if len(rejected):
                first = written_values.clearest(rejected)
                problem = f"has no readable rows (row {first['row']}: {first['reason']})"
            raise errors.InvalidRequest(f"{self.argument}: {self.name} {problem}")
        return valid, rejected


def _is_name(column: str) -> bool:
    return evidence.words_of(column)[-1:] == ["name"]


def ten(names: Sequence[str]) -> str:
    """Return at most ten names, and how many others there are."""
    return ", ".join(names[:_MAX_NAMES]) + display.and_others(len(names), _MAX_NAMES)


def _likeness(column: str, names: Sequence[str]) -> float:
    return max(SequenceMatcher(None, folded(column), folded(name)).ratio() for name in names)


def level_of(column: str) -> str | None:
    """Return the level of a node that a column names, or None."""
    return _LEVELS.get(folded(column))


def _digits(word: str) -> str:
    """Return SQL for the digits of a number of a telephone, whose 0 in brackets is for calls at home."""
    return rf"regexp_replace({word}, '\(0\)|\D', '', 'g')"


def _is_abroad(word: str) -> str:
    """Return SQL for whether a number of a telephone is written with the code of a country."""
    return rf"regexp_matches({word}, '^\s*(\+|00)')"


def _without_fraction(word: str) -> str:
    """Return SQL for text in which whole numbers have no decimal point, as pandas writes them."""
    return (
        rf"CASE WHEN ends_with({word}, '.0') THEN regexp_replace({word}, '^(-?\d+)\.0$', '\1') ELSE "
        rf"{word} END"
    )


def _is_value(name: str) -> bool:
    """Return whether the name of a column is an instant or an address of a person."""
    return evidence.EMAIL.fullmatch(name) is not None or written_values.looks_like_instant(name)


def is_same(first: object, second: object) -> bool:
    """Return whether two files or frames have the same content."""
    paths = [Path(rows).expanduser() for rows in (first, second) if isinstance(rows, str | Path)]
    if len(paths) == 2:
        return all(path.is_file() for path in paths) and filecmp.cmp(paths[0], paths[1], shallow=False)
    if isinstance(first, pd.DataFrame) and isinstance(second, pd.DataFrame):
        return first.equals(second)
    return first is second


def workbook_of(rows: object) -> Path | None:
    """Return the path of a workbook; None for everything else."""
    path = Path(rows).expanduser() if isinstance(rows, str | Path) else None
    return (
        path
        if path is not None and path.is_file() and path.suffix.casefold() in written_files.WORKBOOKS
        else None
    )


def _how_to_name(role: str) -> str:
    return f"name it with columns={{{role!r}: COLUMN}}"
