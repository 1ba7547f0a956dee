"""One file or frame of a user: opened, recognised if a service has exported it, and profiled."""

import filecmp
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import duckdb
import pandas as pd

from attrib_ds import display, errors
from attrib_ds.importers import formats as of_services
from attrib_ds.importers.columns import COMMON_NAMES, folded
from attrib_ds.importers.content import evidence, files
from attrib_ds.importers.reading import SHEETS, Formats
from attrib_ds.records import sources, written_files, written_values

_MAX_NAMES: Final = 10


class Table:
    """A file or frame whose rows are in a table of DuckDB.

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
        self._stored = 0
        self.name = Path(rows).name if isinstance(rows, str | Path) else argument
        self.workbook = workbook_of(rows)
        if formats.sheet is not None:
            rows = self._read_sheet(formats.sheet)
        path = Path(rows).expanduser() if isinstance(rows, str | Path) else None
        said: list[str] = []
        if path is not None and path.is_file() and files.is_log(path):
            self.source = of_services.open_log(connection, path, argument)
        else:
            self.source, said = files.opened(connection, rows, argument=argument, encoding=formats.encoding)
            self.source = of_services.with_requests(connection, self.source)
        if not self.source.columns:
            first = self.source.unreadable.slice(0, 1).to_pylist()[0]
            raise errors.InvalidRequest(
                f"{argument}: {self.name} has no readable rows (row "
                f"{first['row'] + self.source.first}: {first['reason']})"
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
        self.source = files.tidied(connection, self.source, said)
        #: Codes of the currencies between which the text above and below the rows leaves the choice.
        self.currencies_around = evidence.choice_of_currencies(" ".join(said))
        if self.format is not None:
            self.source, self.note = self.format.applied(connection, self.source)
        #: The columns that the file has.
        self.header = {*self.source.columns}
        if said:
            self.say(", ".join(said))

    def say(self, said: str) -> None:
        """Add to what is said of the table, once."""
        if said not in self.note.removeprefix(f"{self.name}: ").split("; "):
            self.note = f"{self.note}; {said}" if self.note else f"{self.name}: {said}"

    def _read_sheet(self, sheet: str) -> pd.DataFrame:
        called = SHEETS[self.argument]
        if self.workbook is None:
            name = self.argument if self.name == self.argument else repr(self.name)
            raise errors.InvalidRequest(
                f"{called}: {name} is not a workbook with sheets; allowed with the path of an .xlsx file"
            )
        return written_files.read_sheet(self.workbook, sheet, argument=self.argument, called=called)

    @cached_property
    def profile(self) -> dict[str, evidence.Column]:
        """What the columns hold."""
        return evidence.profiled(self.connection, self.source)

    def replace_rows(self, query: str) -> None:
        """Put the rows of a query in place of those of the table, and forget what its columns held."""
        self.source = sources.selected(self.connection, self.source, query)
        self.__dict__.pop("profile", None)

    def stored(self, sql: str, kind: str) -> str:
        """Compute SQL once for each row, as one more column of the table; return its quoted name."""
        name = sources.quoted(f"{sources.COMPUTED}{self._stored}")
        self._stored += 1
        self.connection.execute(f"ALTER TABLE {self.relation} ADD COLUMN {name} {kind}")
        self.connection.execute(f"UPDATE {self.relation} SET {name} = {sql}")
        return name

    @property
    def relation(self) -> str:
        """Quoted name of the table of DuckDB."""
        return self.source.relation

    @property
    def types(self) -> dict[str, str]:
        """DuckDB types of the columns."""
        return self.source.types

    def word(self, column: str) -> str:
        """Return SQL for a column as trimmed text, NULL if blank."""
        return self.source.word(column)

    def scalar(self, sql: str) -> Any:
        """Return an aggregate of all rows."""
        return self.connection.execute(f"SELECT {sql} FROM {self.relation}").fetchall()[0][0]

    def best(self, columns: Sequence[str]) -> str | None:
        """Return the first column with values, or the first one if all are empty, as exports have them."""
        return next(filter(self.is_filled, columns), next(iter(columns), None))

    def is_filled(self, column: str) -> bool:
        """Return whether any row has a value."""
        return self.profile[column].filled > 0 or bool(self.scalar(f"count({self.word(column)})"))

    def with_names(self, names: Sequence[str]) -> list[str]:
        """Return the columns with one of some names, in order of preference."""
        return of_services.matching("|".join(names), self.source.columns)

    def in_format(self, role: str) -> list[str]:
        """Return the columns of a role that the format of a service has."""
        return [] if self.format is None else self.format.role(role, self.source.columns)

    def values(self, column: str) -> list[str]:
        """Return distinct values of a column, the most frequent first; more than ten are cut."""
        word = self.word(column)
        rows = self.connection.execute(
            f"SELECT {word} AS value FROM {self.relation} WHERE value IS NOT NULL GROUP BY 1 "
            f"ORDER BY count(*) DESC, 1 LIMIT {_MAX_NAMES}"
        ).fetchall()
        return [value for (value,) in rows]

    def emails(self) -> list[str]:
        """Return the columns with email addresses of people, those with several before the one of a host."""
        own = [column for column in self.in_format("user") if "email" in folded(column)]
        if not self.in_format("user"):
            own = self.in_format("email") or self.with_names(COMMON_NAMES["email"])
        found = list(filter(self.is_filled, own))
        if found and all(self.profile[name].is_constant for name in found):
            others = [each for each in self.profile.values() if each.holds("email") and not each.is_constant]
            found = [*(each.name for each in others), *found]
        return found


def ten(names: Sequence[str]) -> str:
    """Return at most ten names, and how many others there are."""
    return ", ".join(names[:_MAX_NAMES]) + display.and_others(len(names), _MAX_NAMES)


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
