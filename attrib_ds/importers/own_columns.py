"""The columns of a user's file or frame, found by name or by role."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from attrib_ds.contract.currencies import SIGNS
from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.importers.column_names import COMMON_NAMES, LEVEL_NAMES, UNIT_PRICES, folded, level_of
from attrib_ds.importers.column_options import OPTIONS
from attrib_ds.records.sources import Source, open_source
from attrib_ds.records.text_encodings import checked_encoding, first_foreign_line, marked_encoding
from attrib_ds.records.workbooks import WORKBOOKS, read_sheet, sheet_columns

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

#: One column, or the columns of several levels.
Named: TypeAlias = str | Sequence[str]

_DELIMITED: Final = (".csv", ".tsv")
#: Argument with the sheet of a workbook, and the roles of required columns, by the argument of its file.
_SHEETS: Final = {
    "touchpoints": ("sheet", "user", "node part_of_node", "date"),
    "conversions": ("conversion_sheet", "user", "date"),
    "paths": ("sheet", "path", "conversions"),
    "spend": ("spend_sheet", "node part_of_node", "spend"),
}
_CURRENCY: Final = "|".join(["[A-Za-z]{3}", *SIGNS])


@dataclass(frozen=True)
class Formats:
    """How a user's files are written, as far as their content does not tell.

    Attributes
    ----------
    dayfirst : bool, optional
        Whether 03/04/2025 is in April.
    decimal : {".", ","}, optional
        Decimal mark of numbers in text.
    encoding : str, optional
        Encoding of delimited text that is not UTF-8.
    sheet : str, optional
        Sheet of a workbook; by default the first.
    """

    dayfirst: bool | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None


class OwnColumns:
    """A file or frame, and its columns by role.

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
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: object,
        argument: str,
        formats: Formats = Formats(),
    ) -> None:
        self.connection = connection
        self.formats = formats
        self.argument = argument
        self.name = str(rows) if isinstance(rows, str | Path) else argument
        encoding = _encoding(rows, argument, checked_encoding(formats.encoding))
        self._workbook = workbook_of(rows)
        if formats.sheet is not None:
            rows = self._read_sheet(formats.sheet)
        self.source: Source = open_source(connection, rows, argument=argument, encoding=encoding)

    def find(
        self, role: str, named: Mapping[str, Named], *, required: bool = True, called: str | None = None
    ) -> str | None:
        """Return the column of a role: the one named, else the first with a common name.

        Messages advise to name the column as the role ``called``, if another one is only for this table.
        """
        called = called or role
        name = named.get(role)
        if name is not None:
            if not isinstance(name, str):
                raise InvalidRequest(f"{role}: {name!r} is not allowed; allowed: one column", field=role)
            return self._checked(role, name, called)
        common = self.common(role)
        # Empty columns, which exports often have, are used only if there is no other.
        column = next((column for column in common if self.is_filled(column)), next(iter(common), None))
        if column is None and required:
            raise InvalidRequest(
                f"{self.argument}: {self.name} has no column that looks like the {role}; columns: "
                f"{', '.join(self.source.columns)}; {_how_to_name(called)}{self._other_sheets()}",
                field=role,
            )
        return column

    def _read_sheet(self, sheet: str) -> pd.DataFrame:
        called = _SHEETS[self.argument][0]
        if self._workbook is None:
            name = self.argument if self.name == self.argument else repr(Path(self.name).name)
            raise InvalidRequest(
                f"{called}: {name} is no workbook with sheets; allowed with the path of an .xlsx file",
                field=called,
            )
        return read_sheet(self._workbook, sheet, argument=self.argument, called=called)

    def _other_sheets(self) -> str:
        """Return advice that names the sheets of a workbook with columns for all required roles."""
        if self._workbook is None or self.formats.sheet is not None:
            return ""
        called, *roles = _SHEETS[self.argument]
        names = [{folded(name) for role in each.split() for name in COMMON_NAMES[role]} for each in roles]
        found = [
            sheet
            for sheet, columns in sheet_columns(self._workbook).items()
            if not any(of_role.isdisjoint(map(folded, columns)) for of_role in names)
        ]
        if not found:
            return ""
        listed = ", ".join(map(repr, found))
        sheets = f"the sheet {listed} has" if len(found) == 1 else f"the sheets {listed} have"
        chosen = f"{called}={found[0]!r}, or --{called.replace('_', '-')} {found[0]!r} in the command"
        return f"; {sheets} columns that fit: pass {chosen}"

    def common(self, role: str) -> list[str]:
        """Return the columns with a common name for a role, in order of preference."""
        return self._common(COMMON_NAMES[role])

    def find_node(
        self, named: Mapping[str, Named], *, required: bool = True, called: str = "node"
    ) -> list[str]:
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
            return [self._checked("node", column, called) for column in columns]
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
        found = found or self.find("node", named, required=required, called=called)
        return [] if found is None else [found]

    def has(self, columns: Named) -> bool:
        """Return whether all of some columns exist."""
        return {*([columns] if isinstance(columns, str) else columns)} <= {*self.source.columns}

    def find_node_like(self, other: Named | None, named: Mapping[str, Named]) -> list[str]:
        """Return the columns of a node, those that another table uses if this one has them too."""
        if "node" not in named and isinstance(other, str) and self._common([other]):
            return self._common([other])
        columns = self.find_node(named, called="spend_node")
        if "node" in named or other is None or isinstance(other, str):
            return columns
        levels = {level_of(column) for column in other}
        return [column for column in columns if level_of(column) in levels] or columns

    def _checked(self, role: str, name: str, called: str | None = None) -> str:
        if name not in self.source.columns:
            advice = "" if called in (None, role) else f"; {_how_to_name(str(called))}"
            raise InvalidRequest(
                f"{role}: {self.name} has no column {name!r}{closest(name, self.source.columns)}; "
                f"columns: {', '.join(self.source.columns)}{advice}",
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

    def find_quantity(self, named: Mapping[str, Named], amount: str | None) -> str | None:
        """Return the column of the quantity that a price is to be multiplied with.

        A named column of values is not multiplied, unless a column of quantities is named too.
        """
        if "quantity" in named:
            return self.find("quantity", named)
        if amount is None or "value" in named or folded(amount) not in UNIT_PRICES:
            return None
        return self.find("quantity", named, required=False)

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
        """Return whether all values look like codes or signs; columns of amounts have similar names."""
        word = self.source.word(column)
        query = f"SELECT bool_and(regexp_full_match({word}, '{_CURRENCY}')) FROM {self.source.relation}"
        return bool(self.connection.execute(query).fetchall()[0][0])


def _how_to_name(role: str) -> str:
    return f"name it with columns={{{role!r}: COLUMN}}, or {OPTIONS[role]} COLUMN in the command"


def workbook_of(rows: object) -> Path | None:
    """Return the path of a workbook; None for everything else."""
    path = Path(rows).expanduser() if isinstance(rows, str | Path) else None
    return path if path is not None and path.is_file() and path.suffix.casefold() in WORKBOOKS else None


def _encoding(rows: object, argument: str, encoding: str | None) -> str | None:
    """Return the encoding of delimited text that is not UTF-8; None for everything else."""
    path = Path(rows).expanduser() if isinstance(rows, str | Path) else None
    if (
        path is None
        or not path.name.casefold().removesuffix(".gz").endswith(_DELIMITED)
        or not path.is_file()
    ):
        return None
    if marked_encoding(path) is not None:
        return None
    line = first_foreign_line(path)
    if line is None:
        return None
    if encoding is None:
        raise InvalidRequest(
            f"{argument}: {path.name!r} is not UTF-8 text (line {line}), but perhaps cp1252, that of Windows "
            "in Western Europe; pass encoding='cp1252', or --encoding cp1252 in the command "
            "(encoding='utf-8' leaves out the rows that are not UTF-8)",
            field="encoding",
        )
    return encoding
