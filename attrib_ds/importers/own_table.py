"""One file or frame of a user, with columns selected by role and rows that cannot be read set aside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pandas as pd
import pyarrow as pa

from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.importers.column_names import COMMON_NAMES, LEVEL_NAMES, folded, level_of
from attrib_ds.importers.column_options import OPTIONS
from attrib_ds.queries.channel_rules import COLUMN_NAMES
from attrib_ds.records.dtypes import TEXT
from attrib_ds.records.frames import to_pandas
from attrib_ds.records.sources import ROW, Source, instant, literal, open_source, quoted

if TYPE_CHECKING:
    import duckdb

#: One column, or the columns of several levels.
Named: TypeAlias = str | Sequence[str]

#: Columns of Google Analytics that count microseconds, and the years 2000 to 2100 in them.
_MICROSECONDS = ("eventtimestamp",)
_MICROS_OF_YEARS = "946684800000000 AND 4102444800000000"
_THOUSANDS = r"^-?\d{1,3}(,\d{3})+(\.\d+)?$"
_COMMA_NUMBER = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$"
#: Numbers that only make sense with a decimal comma, and those that only make sense with a decimal point.
_HAS_COMMA = r"^[+-]?(\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}|\d+,(\d\d?|\d{4}\d*)|(0\d*|\d{4}\d*),\d+)$"
_HAS_POINT = r"^[+-]?(\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,}|\d+\.(\d\d?|\d{4}\d*)|(0\d*|\d{4}\d*)\.\d+)$"
#: Dates that begin with the day or the month.
_LOCAL = r"^\d{1,2}[./-]\d{1,2}[./-]\d{4}"
_MAX_SHOWN = 40


class OwnTable:
    """A file or frame whose columns are selected by role."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: object,
        argument: str,
        *,
        dayfirst: bool | None = None,
    ) -> None:
        self.connection = connection
        self.dayfirst = dayfirst
        self.argument = argument
        self.name = str(rows) if isinstance(rows, str | Path) else argument
        self.source: Source = open_source(connection, rows, argument=argument)
        self.columns: dict[str, Named] = {}
        self._select: dict[str, str] = {}
        self._rules: list[tuple[str, str]] = []

    def find(self, role: str, named: Mapping[str, Named], *, required: bool = True) -> str | None:
        """Return the column of a role: the one named, else the first with a common name."""
        name = named.get(role)
        if name is not None:
            if not isinstance(name, str):
                raise InvalidRequest(f"{role}: {name!r} is not allowed; allowed: one column", field=role)
            return self._checked(role, name)
        common = self.common(role)
        # Empty columns, which exports often have, are used only if there is no other.
        column = next((column for column in common if self.is_filled(column)), next(iter(common), None))
        if column is None and required:
            raise InvalidRequest(
                f"{self.argument}: {self.name} has no column that looks like the {role}; columns: "
                f"{', '.join(self.source.columns)}; name it with columns={{{role!r}: COLUMN}}, or "
                f"{OPTIONS[role]} COLUMN in the command",
                field=role,
            )
        return column

    def common(self, role: str) -> list[str]:
        """Return the columns with a common name for a role, in order of preference."""
        return self._common(COMMON_NAMES[role])

    def find_node(self, named: Mapping[str, Named], *, required: bool = True) -> list[str]:
        """Return the columns of a node: those named, one of nodes, those of a source, or one of its parts."""
        given = named.get("node")
        if given is not None:
            columns = [given] if isinstance(given, str) else list(given)
            if not 1 <= len(columns) <= len(LEVEL_NAMES) or len(set(columns)) < len(columns):
                raise InvalidRequest(
                    f"node: {given!r} is not allowed; allowed: one column, or up to {len(LEVEL_NAMES)} "
                    "different ones from the highest level down",
                    field="node",
                )
            return [self._checked("node", column) for column in columns]
        of_nodes = self._common(COMMON_NAMES["node"])
        if any(self.is_filled(column) for column in of_nodes):
            return [next(column for column in of_nodes if self.is_filled(column))]
        of_levels = {level: self._common(LEVEL_NAMES[level]) for level in ("source", "medium", "campaign")}
        filled = {
            level: next((column for column in columns if self.is_filled(column)), None)
            for level, columns in of_levels.items()
        }
        parts = [column for column in filled.values() if column is not None]
        if len(parts) > 1:
            return parts
        parts = [*self._common(COMMON_NAMES["part_of_node"]), *of_nodes]
        found = next((column for column in parts if self.is_filled(column)), next(iter(parts), None))
        found = found or self.find("node", named, required=required)
        return [] if found is None else [found]

    def find_node_like(self, other: Named | None, named: Mapping[str, Named]) -> list[str]:
        """Return the columns of a node, those that another table uses if this one has them too."""
        if "node" not in named and isinstance(other, str) and self._common([other]):
            return self._common([other])
        columns = self.find_node(named)
        if "node" in named or other is None or isinstance(other, str):
            return columns
        levels = {level_of(column) for column in other}
        return [column for column in columns if level_of(column) in levels] or columns

    def _checked(self, role: str, name: str) -> str:
        if name not in self.source.columns:
            raise InvalidRequest(
                f"{role}: {self.name} has no column {name!r}{closest(name, self.source.columns)}; "
                f"columns: {', '.join(self.source.columns)}",
                field=role,
            )
        return name

    def _common(self, names: Sequence[str]) -> list[str]:
        """Return the columns with one of some common names, in order of preference."""
        present = {folded(column): column for column in self.source.columns}
        return [present[folded(name)] for name in names if folded(name) in present]

    def is_filled(self, column: str) -> bool:
        """Return whether any row has a value."""
        query = f"SELECT count({self.source.word(column)}) > 0 FROM {self.source.relation}"
        return bool(self.connection.execute(query).fetchall()[0][0])

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

    def find_steps(self, named: Mapping[str, Named]) -> list[str]:
        """Return the columns of the steps of wide journeys in order, or none if a column holds the path."""
        given = named.get("path")
        if given is not None and not isinstance(given, str):
            return [self._checked("path", column) for column in given]
        if given is not None or self._common(COMMON_NAMES["path"]):
            return []
        series: dict[str, dict[int, str]] = {}
        for column in self.source.columns:
            match = re.fullmatch(r"(.*?)[ _.-]?(\d+)", column)
            if match is not None:
                series.setdefault(match[1].casefold(), {})[int(match[2])] = column
        longest = max(series.values(), key=len, default={})
        return [longest[number] for number in sorted(longest)] if len(longest) > 1 else []

    def take_steps(self, columns: Sequence[str], separator: str) -> None:
        """Select the steps of wide journeys as one path; journeys without a step are rejected."""
        words = ", ".join(self.source.word(column) for column in columns)
        path = f"nullif(concat_ws({literal(separator)}, {words}), '')"
        self.columns["path"] = list(columns)
        self._select["path"] = path
        self._rules.append((f"{path} IS NULL", literal(f"{columns[0]} to {columns[-1]} are missing")))

    def take_outcome(self, column: str | None) -> None:
        """Select a flag as the numbers of conversions and of null paths; blank, 0 and "null" are no."""
        if column is None:
            return
        self.columns["flag"] = column
        word = f"lower({self.source.word(column)})"
        is_no = f"coalesce({word} IN ('0', 'false', 'no', 'null', 'none', 'nan', '0.0'), true)"
        self._select["conversions"] = f"CASE WHEN {is_no} THEN 0.0 ELSE 1.0 END"
        self._select["nulls"] = f"CASE WHEN {is_no} THEN 1.0 ELSE 0.0 END"

    def take_word(self, role: str, column: str | None) -> None:
        """Select a column of text, which is required in every row."""
        self.take(role, column, column and self.source.word(column), "is missing")

    def find_currency(self, named: Mapping[str, Named], amount: str | None) -> str | None:
        """Return the column of the currency of an amount: ``<amount>_currency`` before other names."""
        if "currency" in named:
            return self.find("currency", named)
        common = self.common("currency")
        others = [
            column
            for column in self.source.columns
            if folded(column).endswith(("currency", "currencycode")) and column not in common
        ]
        own = [column for column in others if amount and folded(column).startswith(folded(amount))]
        for column in [*own, *common, *others]:
            if self.is_filled(column) if column in common else self._has_codes(column):
                return column
        return next(iter(common), None)

    def _has_codes(self, column: str) -> bool:
        """Return whether all values have three letters; columns of amounts have similar names."""
        word = self.source.word(column)
        query = f"SELECT bool_and(regexp_full_match({word}, '[A-Za-z]{{3}}')) FROM {self.source.relation}"
        return bool(self.connection.execute(query).fetchall()[0][0])

    def take_currency(self, column: str | None, code: str | None) -> None:
        """Select a column of currencies, required beside amounts unless a code stands for missing ones."""
        if column is not None:
            self.columns["currency"] = column
        elif code is None:
            return
        own = "NULL" if column is None else self.source.word(column)
        self._select["currency"] = own if code is None else f"coalesce({own}, {literal(code)})"
        amount = self._select.get("value", self._select.get("spend"))
        if column is not None and code is None and amount is not None:
            self._reject(f"{own} IS NULL AND {amount} IS NOT NULL", column, "is missing")

    def take_number(
        self,
        role: str,
        column: str | None,
        *,
        minimum: float | None = None,
        optional_if: str = "false",
        default: str = "NULL",
    ) -> None:
        """Select a column of numbers, with or without thousands separators.

        Cells may be empty where the SQL condition ``optional_if`` holds; they are ``default``.
        """
        if column is None:
            return
        number = f"TRY_CAST({self._plain(role, column)} AS DOUBLE)"
        allowed = f"isfinite({number})" + ("" if minimum is None else f" AND {number} >= {minimum}")
        complaint = "is not a number" if minimum is None else f"is not a number of at least {minimum:g}"
        is_left_out = f"({self.source.word(column)} IS NULL AND {optional_if})"
        self.columns[role] = column
        self._select[role] = f"CASE WHEN {is_left_out} THEN {default} WHEN {allowed} THEN {number} END"
        self._reject(f"NOT {is_left_out} AND ({allowed}) IS DISTINCT FROM true", column, complaint)

    def take_value(self, column: str | None) -> None:
        """Select the values of paths; those without a conversion may have none."""
        self.take_number(
            "value", column, optional_if=f"coalesce({self._select['conversions']}, 0) = 0", default="0"
        )

    def _plain(self, role: str, column: str) -> str:
        """Return SQL for numbers with a decimal point; one with a decimal comma decides for its column."""
        word = self.source.word(column)
        if self.source.types[column] != "VARCHAR":
            return word
        comma, point = self.connection.execute(
            f"SELECT min({word}) FILTER (regexp_matches({word}, '{_HAS_COMMA}')), "
            f"min({word}) FILTER (regexp_matches({word}, '{_HAS_POINT}')) FROM {self.source.relation}"
        ).fetchall()[0]
        if comma is not None and point is not None:
            raise InvalidRequest(
                f"{role}: in the column {column!r} of {self.name}, {comma!r} has a decimal comma and "
                f"{point!r} a decimal point; write all numbers alike",
                field=role,
            )
        if comma is not None:
            number = f"replace(replace({word}, '.', ''), ',', '.')"
            return f"CASE WHEN regexp_matches({word}, '{_COMMA_NUMBER}') THEN {number} END"
        return (
            f"CASE WHEN regexp_matches({word}, '{_THOUSANDS}') THEN replace({word}, ',', '') ELSE {word} END"
        )

    def take_instant(self, role: str, column: str | None) -> None:
        """Select a column of instants; the default offset is UTC, the default time midnight."""
        if column is None:
            return
        word = self.source.word(column)
        if self.source.types[column] in {"BIGINT", "HUGEINT", "UBIGINT"} or folded(column) in _MICROSECONDS:
            # Google Analytics counts microseconds.
            micros = f"TRY_CAST({word} AS BIGINT)"
            counted = f"CASE WHEN {micros} BETWEEN {_MICROS_OF_YEARS} THEN make_timestamp({micros}) END"
        else:
            counted = "CAST(NULL AS TIMESTAMP)"
        colon = rf"regexp_replace({word}, '\s*([+-]\d{{2}}):?(\d{{2}})$', '\1:\2')"
        clock = rf"regexp_replace({colon}, '^(\S{{10}}[Tt ]\d{{2}}:\d{{2}})([Zz+-]|$)', '\1:00\2')"
        is_date = rf"regexp_full_match({word}, '\d{{4}}-\d{{2}}-\d{{2}}')"
        whole = f"CASE WHEN {is_date} THEN {word} || 'T00:00:00' ELSE {clock} END"
        moment = f"coalesce({self.source.instant(column)}, {instant(whole)}, {counted}, {self._local(word)})"
        self.columns[role] = column
        self._select[role] = moment
        advice = literal(
            "; pass dayfirst=True or dayfirst=False, or --dayfirst or --no-dayfirst in the command"
        )
        is_local = f"{str(self.dayfirst is None).lower()} AND regexp_matches({word}, '{_LOCAL}')"
        self._reject(
            f"{moment} IS NULL",
            column,
            "is not an instant",
            f"CASE WHEN {is_local} THEN {advice} ELSE '' END",
        )

    def has_days_only(self, role: str) -> bool:
        """Return whether no value in the column of a role has a time."""
        column = str(self.columns[role])
        kind = self.source.types[column]
        if kind not in {"VARCHAR", "DATE"} and not re.fullmatch(r"TIMESTAMP(_\w+)?", kind):
            return False
        moment = self._select[role]
        has_clock = f"contains({self.source.word(column)}, ':')" if kind == "VARCHAR" else "false"
        query = (
            f"SELECT bool_and({moment} = date_trunc('day', {moment}) AND NOT {has_clock}) "
            f"FROM {self.source.relation}"
        )
        return bool(self.connection.execute(query).fetchall()[0][0])

    def _local(self, word: str) -> str:
        """Return SQL for instants that begin with the day or the month, if the caller says which."""
        if self.dayfirst is None:
            return "CAST(NULL AS TIMESTAMP)"
        first, second = ("d", "m") if self.dayfirst else ("m", "d")
        clocks = ("", " %H:%M", " %H:%M:%S")
        formats = [f"%{first}{mark}%{second}{mark}%Y{clock}" for mark in "/.-" for clock in clocks]
        return f"TRY_STRPTIME({word}, [{', '.join(map(literal, formats))}])"

    def read(self, *, where: str = "true") -> tuple[pa.Table, pd.DataFrame]:
        """Return the valid rows, and the rejected rows with the reason."""
        row = quoted(ROW)
        is_invalid = " OR ".join(f"({condition})" for condition, _ in self._rules)
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
        if not valid.num_rows:
            problem = f"has no readable rows ({_first(rejected)})" if len(rejected) else "has no rows"
            raise InvalidRequest(f"{self.argument}: {self.name} {problem}", field=self.argument)
        return valid, rejected


def _shown(word: str) -> str:
    """Return SQL for the beginning of a value in quotation marks."""
    rest = f"CASE WHEN length({word}) > {_MAX_SHOWN} THEN '…' ELSE '' END"
    return f"chr(39) || left({word}, {_MAX_SHOWN}) || {rest} || chr(39)"


def _first(rejected: pd.DataFrame) -> str:
    return f"row {rejected['row'].iloc[0]}: {rejected['reason'].iloc[0]}"
