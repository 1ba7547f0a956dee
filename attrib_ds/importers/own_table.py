"""One file or frame of a user, with columns selected by role and rows that cannot be read set aside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pandas as pd
import pyarrow as pa

from attrib_ds.contract.identifiers import NO_SIGN, code_of
from attrib_ds.display import printable
from attrib_ds.errors import InputWarning, InvalidRequest, warn
from attrib_ds.importers.own_columns import Formats, Named, OwnColumns, folded, level_of
from attrib_ds.queries.channel_rules import COLUMN_NAMES
from attrib_ds.records import written_values
from attrib_ds.records.frames import TEXT, to_pandas
from attrib_ds.records.sources import ROW, literal, quoted

if TYPE_CHECKING:
    import duckdb


#: How to write instants, and numbers that stand for them.
_AS_TEXT: Final = "; write dates as '2025-01-31' or '2025-01-31T12:00:00Z'"
_AS_COUNT: Final = (
    "; numbers are read as microseconds since 1970 only: convert others, such as days of Excel, seconds and "
    "milliseconds, with pandas.to_datetime"
)
_MAX_SHOWN: Final = 40
#: Public files of paths write "conv" and "null".
_YES: Final = ("1", "true", "yes", "t", "y", "1.0", "conv")
_NO: Final = ("0", "false", "no", "f", "n", "0.0", "null", "none", "nan")


class OwnTable(OwnColumns):
    """A file or frame whose columns are selected by role."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: object,
        argument: str,
        formats: Formats = Formats(),  # noqa: B008  (frozen)
    ) -> None:
        super().__init__(connection, rows, argument, formats)
        self.columns: dict[str, Named] = {}
        self._select: dict[str, str] = {}
        self._rules: list[tuple[str, str]] = []

    def take(self, role: str, column: str | None, sql: str | None, complaint: str) -> None:
        """Select a column; rows where it is NULL are rejected."""
        if column is None or sql is None:
            return
        self.columns[role] = column
        self._select[role] = sql
        self._reject(f"{sql} IS NULL", column, complaint)

    def _reject(self, condition: str, column: str, complaint: str, advice: str = "''") -> None:
        """Reject rows by a condition; the reason shows the value and ends with the SQL of an advice."""
        word = self.source.word(column)
        problem = f"{literal(f'{column} {complaint}: ')} || {_shown(word)} || {advice}"
        self._rules.append(
            (condition, f"CASE WHEN {word} IS NULL THEN {literal(f'{column} is missing')} ELSE {problem} END")
        )

    def require_any(self, columns: Sequence[str]) -> None:
        """Reject rows without a value in any of some columns."""
        words = ", ".join(self.source.word(column) for column in columns)
        self._rules.append((f"coalesce({words}) IS NULL", literal(f"{' and '.join(columns)} are missing")))

    def take_user(self, user: str | None, device: str | None) -> None:
        """Select the columns of the user and of the device, at least one of which every row requires."""
        if device is None:
            self.take_word("user", user)
            return
        words = {"user": "NULL", "device": self.source.word(device)}
        if user is not None:
            self.columns["user"] = user
            words["user"] = self.source.word(user)
        self.columns["device"] = device
        self._select |= {role: f"CAST({word} AS VARCHAR)" for role, word in words.items()}
        if user is None:
            self._reject(f"{words['device']} IS NULL", device, "is missing")
        else:
            self.require_any([user, device])

    def take_node(self, columns: Sequence[str]) -> None:
        """Select the columns of a node, as the fields of a traffic source that they name."""
        if len(columns) == 1:
            self.take_word("node", columns[0])
            return
        self.columns["node"] = list(columns)
        levels = [level_of(column) for column in columns]
        words = [self.source.word(column) for column in columns]
        if None in levels or len(set(levels)) < len(levels):
            # The names of a user's own levels.
            self._select["levels"] = f"CAST(to_json([{', '.join(words)}]) AS VARCHAR)"
            return
        self._select |= {str(level): word for level, word in zip(levels, words, strict=True)}
        referrer = next(iter(self._common(COLUMN_NAMES["referrer"])), None)
        if referrer is not None:
            self.columns["referrer"] = referrer
            self._select["referrer"] = self.source.word(referrer)

    def take_steps(self, columns: Sequence[str], separator: str) -> None:
        """Select the steps of wide journeys as one path; journeys without a step are rejected."""
        words = ", ".join(self.source.word(column) for column in columns)
        path = f"nullif(concat_ws({literal(separator)}, {words}), '')"
        self.columns["path"] = list(columns)
        self._select["path"] = path
        self._rules.append((f"{path} IS NULL", literal(f"{columns[0]} to {columns[-1]} are missing")))

    def flag(self, column: str) -> str:
        """Return SQL for a flag as BOOLEAN; blank and "null" are no.

        Raises
        ------
        InvalidRequest
            If any cell is neither yes nor no.
        """
        if self.source.types[column] == "BOOLEAN":
            return f"coalesce({quoted(column)}, false)"
        word = f"lower({self.source.word(column)})"
        yes, no = (", ".join(map(literal, words)) for words in (_YES, _NO))
        (other,) = self.connection.execute(
            f"SELECT min({word}) FILTER ({word} NOT IN ({yes}, {no})) FROM {self.source.relation}"
        ).fetchall()[0]
        if other is not None:
            raise InvalidRequest(
                f"flag: {other!r} in the column {column!r} of {self.name} is neither yes nor no; allowed: "
                "yes and no, y and n, true and false, t and f, 1 and 0; name another column with "
                "columns={'flag': COLUMN}, or --flag COLUMN in the command",
                field="flag",
            )
        return f"coalesce({word} IN ({yes}), false)"

    def take_outcome(self, column: str | None) -> None:
        """Select a flag as the numbers of conversions and of null paths."""
        if column is None:
            return
        self.columns["flag"] = column
        is_yes = self.flag(column)
        self._select["conversions"] = f"CASE WHEN {is_yes} THEN 1.0 ELSE 0.0 END"
        self._select["nulls"] = f"CASE WHEN {is_yes} THEN 0.0 ELSE 1.0 END"

    def take_word(self, role: str, column: str | None) -> None:
        """Select a column of text, which is required in every row."""
        self.take(role, column, column and self.source.word(column), "is missing")

    def take_currency(self, column: str | None, code: str | None) -> None:
        """Select a column of currencies, required beside amounts unless a code stands for missing ones."""
        if column is not None:
            self.columns["currency"] = column
        elif code is None:
            return
        own, is_unknown = ("NULL", "false") if column is None else self._codes(column)
        self._select["currency"] = own if code is None else f"coalesce({own}, {literal(code)})"
        amount = self._select.get("value", self._select.get("spend"))
        if column is None or amount is None:
            return
        self._reject(f"{is_unknown} AND {amount} IS NOT NULL", column, f"is not {NO_SIGN}")
        if code is None:
            is_missing = f"{self.source.word(column)} IS NULL"
            self._reject(f"{is_missing} AND {amount} IS NOT NULL", column, "is missing")

    def _codes(self, column: str) -> tuple[str, str]:
        """Return SQL for the codes of currencies, and for whether a cell is no currency."""
        word = self.source.word(column)
        words = self.connection.execute(
            f"SELECT DISTINCT {word} AS word FROM {self.source.relation} WHERE word IS NOT NULL ORDER BY word"
        ).fetchall()
        codes = {word: code for (word,) in words if (code := code_of(word)) is not None}
        whens = " ".join(f"WHEN {literal(name)} THEN {literal(code)}" for name, code in codes.items())
        sql = f"CASE {word} {whens} END" if whens else "CAST(NULL AS VARCHAR)"
        return sql, f"({word} IS NOT NULL AND {sql} IS NULL)"

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
        """Select a column of numbers, with or without thousands separators.

        Cells may be empty where the SQL condition ``optional_if`` holds; they are ``default``.
        """
        if column is None:
            return
        number = f"TRY_CAST({self._plain(role, column, is_count=is_count)} AS DOUBLE)"
        allowed = f"isfinite({number})" + ("" if minimum is None else f" AND {number} >= {minimum}")
        complaint = "is not a number" if minimum is None else f"is not a number of at least {minimum:g}"
        is_left_out = f"({self.source.word(column)} IS NULL AND {optional_if})"
        self.columns[role] = column
        self._select[role] = f"CASE WHEN {is_left_out} THEN {default} WHEN {allowed} THEN {number} END"
        self._reject(f"NOT {is_left_out} AND ({allowed}) IS DISTINCT FROM true", column, complaint)

    def take_product(self, price: str, quantity: str) -> None:
        """Select prices times quantities as the values; a price without a quantity is rejected."""
        self.take_number("value", price, optional_if="true")
        is_free = f"{self.source.word(price)} IS NULL"
        self.take_number("quantity", quantity, optional_if=is_free, is_count=True)
        # Prices and quantities are decimal numbers, so that their product is one too.
        self._select["value"] = f"round(({self._select['value']}) * ({self._select.pop('quantity')}), 6)"

    def take_value(self, column: str | None) -> None:
        """Select the values of paths; those without a conversion may have none."""
        self.take_number(
            "value", column, optional_if=f"coalesce({self._select['conversions']}, 0) = 0", default="0"
        )

    def _plain(self, role: str, column: str, *, is_count: bool) -> str:
        """Return SQL for numbers with a decimal point."""
        word = self.source.word(column)
        if self.source.types[column] != "VARCHAR":
            return word
        mark = written_values.decimal_mark(
            self.connection,
            self.source.relation,
            word,
            decimal=self.formats.decimal,
            place=f"the column {column!r} of {self.name}",
            field=role,
            is_count=is_count,
        )
        return written_values.plain(word, mark)

    def take_date(self, columns: Sequence[str]) -> None:
        """Select the instants: those of a column, or of one with days and one with times of day."""
        day, *clocks = columns
        word = self.source.word(day)
        at = moment(self, day)
        dayfirst = self.formats.dayfirst
        is_count = f"TRY_CAST({word} AS DOUBLE) IS NOT NULL"
        form = f"CASE WHEN {is_count} THEN {literal(_AS_COUNT)} ELSE {literal(_AS_TEXT)} END"
        advice = f"coalesce(nullif({written_values.advice(word, dayfirst=dayfirst)}, ''), {form})"
        self._reject(f"{at} IS NULL", day, "is not an instant", advice)
        self.columns["date"] = [*columns] if clocks else day
        self._select["date"] = at
        for column in clocks:
            since_midnight, word = clock(self, column), self.source.word(column)
            self._reject(f"{word} IS NOT NULL AND {since_midnight} IS NULL", column, "is not a time of day")
            self._select["date"] = f"{at} + coalesce({since_midnight}, INTERVAL 0 SECOND)"

    def has_days_only(self) -> bool:
        """Return whether no row has a time of day."""
        column = self.columns["date"]
        if not isinstance(column, str):
            return False
        kind = self.source.types[column]
        if kind not in {"VARCHAR", "DATE"} and not re.fullmatch(r"TIMESTAMP(_\w+)?", kind):
            return False
        at = self._select["date"]
        has_clock = f"contains({self.source.word(column)}, ':')" if kind == "VARCHAR" else "false"
        query = (
            f"SELECT bool_and({at} = date_trunc('day', {at}) AND NOT {has_clock}) FROM {self.source.relation}"
        )
        return bool(self.connection.execute(query).fetchall()[0][0])

    def count_repeated(self, where: str) -> int:
        """Return the number of valid rows that repeat another one in all columns."""
        rows = (
            f"SELECT * EXCLUDE ({quoted(ROW)}) FROM {self.source.relation} "
            f"WHERE ({where}) AND NOT ({self._is_invalid()})"
        )
        (count,) = self.connection.execute(
            f"SELECT count(*) - (SELECT count(*) FROM (SELECT DISTINCT * FROM ({rows}))) FROM ({rows})"
        ).fetchall()[0]
        return int(count)

    def _is_invalid(self) -> str:
        """Return SQL for whether a row is rejected."""
        return " OR ".join(f"({condition})" for condition, _ in self._rules)

    def read(self, *, where: str = "true", may_be_empty: bool = False) -> tuple[pa.Table, pd.DataFrame]:
        """Return the valid rows, and the rejected rows with the reason.

        Raises
        ------
        InvalidRequest
            If there are no valid rows, unless there are no rows at all and the file may be empty.
        """
        row = quoted(ROW)
        is_invalid = self._is_invalid()
        reasons = ", ".join(f"CASE WHEN {condition} THEN {reason} END" for condition, reason in self._rules)
        columns = ", ".join(f"{sql} AS {role}" for role, sql in self._select.items())
        relation = self.source.relation
        valid = self.connection.execute(
            f"SELECT {row} AS row, {columns} FROM {relation}"
            f" WHERE ({where}) AND NOT ({is_invalid}) ORDER BY {row}"
        ).to_arrow_table()
        invalid = self.connection.execute(
            f"SELECT {row} AS row, concat_ws('; ', {reasons}) AS reason FROM {relation}"
            f" WHERE ({where}) AND ({is_invalid}) ORDER BY {row}"
        ).to_arrow_table()
        rejected = to_pandas(
            pa.concat_tables([self.source.unreadable, invalid.cast(self.source.unreadable.schema)])
        )
        rejected.insert(0, "file", pd.Series(self.name, index=rejected.index, dtype=TEXT))
        if not valid.num_rows and (len(rejected) or not may_be_empty):
            problem = f"has no readable rows ({_first(rejected)})" if len(rejected) else "has no rows"
            raise InvalidRequest(f"{self.argument}: {self.name} {problem}", field=self.argument)
        return valid, rejected


def _shown(word: str) -> str:
    """Return SQL for the beginning of a value in quotation marks."""
    rest = f"CASE WHEN length({word}) > {_MAX_SHOWN} THEN '…' ELSE '' END"
    return f"chr(39) || left({word}, {_MAX_SHOWN}) || {rest} || chr(39)"


def _first(rejected: pd.DataFrame) -> str:
    return f"row {rejected['row'].iloc[0]}: {rejected['reason'].iloc[0]}"


#: Columns of Google Analytics that count microseconds.
_MICROSECONDS: Final = ("eventtimestamp",)
_MIDNIGHT: Final = "2000-01-01"


def find_date(
    table: OwnColumns, named: Mapping[str, Named], *, required: bool = True, called: str = "date"
) -> list[str]:
    """Return the column of the instants, or those of the day and of the time of day; none if not required.

    Warns
    -----
    InputWarning
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
        micros = written_values.plausible(f"TRY_CAST({word} AS BIGINT)", per_second=1_000_000)
        counted = f"make_timestamp({micros})"
    else:
        counted = "CAST(NULL AS TIMESTAMP)"
    written = written_values.moment(word, dayfirst=table.formats.dayfirst)
    return f"coalesce({table.source.instant(column)}, {counted}, {written})"


def clock(table: OwnColumns, column: str) -> str:
    """Return SQL for a time of day as the interval since midnight, UTC by default; NULL if it is none."""
    twelve = rf"regexp_replace(upper({table.source.word(column)}), '\s*([AP])\.?M\.?$', ' \1M')"
    padded = rf"regexp_replace({twelve}, '^(\d):', '0\1:')"
    is_clock = rf"regexp_matches({padded}, '^\d\d:\d\d')"
    instant = written_values.moment(f"'{_MIDNIGHT} ' || {padded}", dayfirst=None)
    return f"CASE WHEN {is_clock} THEN {instant} - TIMESTAMP '{_MIDNIGHT}' END"


def _has_days_only(table: OwnColumns, column: str) -> bool:
    """Return whether all instants of a column are midnights."""
    at = moment(table, column)
    return bool(_first_of_pair(table, f"coalesce(bool_and({at} = date_trunc('day', {at})), false)"))


def _share(table: OwnColumns, column: str, sql: str) -> float:
    """Return the share of the values of a column for which SQL is not NULL."""
    share = _first_of_pair(table, f"count({sql}) / count({table.source.word(column)})")
    return float(str(share))


def _warn(table: OwnColumns, column: str, day: str) -> None:
    word = table.source.word(column)
    example = _first_of_pair(table, f"min({word}) FILTER ({clock(table, column)} IS NULL)")
    warn(
        f"the column {column!r} of {table.name} is not used: its values, such as "
        f"{printable(repr(example))}, are no times of day such as 14:05, so that the days of {day!r} have no "
        "time. Write them so, or make one column of both, such as '2025-01-31T14:05:00Z'",
        InputWarning,
    )


def _first_of_pair(table: OwnColumns, sql: str) -> object:
    return table.connection.execute(f"SELECT {sql} FROM {table.source.relation}").fetchall()[0][0]
