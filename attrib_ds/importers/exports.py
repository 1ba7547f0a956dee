"""The files of an export, opened as tables whose columns may be missing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import ROW, Source, literal, open_source, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import duckdb

NOTHING = "CAST(NULL AS VARCHAR)"
_MOST_SHOWN = 20


@dataclass(frozen=True)
class Export:
    """One file, frame or table of an export.

    Attributes
    ----------
    name : str
        What it is called when rows of it are told.
    source : Source
        Its rows.
    """

    name: str
    source: Source

    @cached_property
    def _names(self) -> dict[str, str]:
        return {name.casefold(): name for name in self.source.types}

    def column(self, name: str) -> str | None:
        """Return what the export calls a column, None where it has none; some warehouses write capitals."""
        return self._names.get(name.casefold())

    def text(self, *columns: str) -> str:
        """Return SQL for the first of some columns that is there and not blank, as text."""
        words = [self.source.word(known) for each in columns if (known := self.column(each)) is not None]
        return f"coalesce({', '.join(words)})" if words else NOTHING

    def whole(self, *columns: str) -> str:
        """Return SQL for the first of some columns as a whole number."""
        return f"TRY_CAST({self.text(*columns)} AS BIGINT)"

    def select(self, columns: Mapping[str, str]) -> str:
        """Return the query of some columns, after the name of the export and the row."""
        selected = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        rows = self.source.relation
        return f"SELECT {literal(self.name)} AS file, {quoted(ROW)} AS row, {selected} FROM {rows}"


def open_exports(
    connection: duckdb.DuckDBPyConnection,
    given: object,
    *,
    argument: str,
    needed: Sequence[Sequence[str]],
    opaque: Collection[str] = (),
    opening: Callable[[duckdb.DuckDBPyConnection, Path], Source] | None = None,
) -> list[Export]:
    """Open what a user hands over.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Where the tables are made.
    given : DataFrame, Arrow table, path, records, or a list of those
        A list of dicts is the records of one answer of a service.
    argument : str
        What it is called in an error message.
    needed : sequence of sequence of str
        Columns without which nothing can be read; of each sequence one has to be there.
    opaque : collection of str
        Properties that stay whole, as JSON text.
    opening : callable, optional
        Opens paths that :func:`attrib_ds.records.sources.open_source` has no reader for.

    Returns
    -------
    list of Export
        In the order given.

    Raises
    ------
    InvalidRequest
        If there is nothing, or one of them cannot be read or is another kind of table.
    """
    parts: Sequence[Any] = given if isinstance(given, list | tuple) else [given]
    if len(parts) and all(isinstance(part, dict) for part in parts):
        parts = [pd.DataFrame.from_records(list(parts))]
    if not len(parts):
        raise InvalidRequest(f"{argument}: there is nothing to read", field=argument)
    opened = []
    for number, part in enumerate(parts, start=1):
        is_path = isinstance(part, str | Path)
        if is_path and Path(part).expanduser().is_dir():
            raise InvalidRequest(
                f"{argument}: {str(part)!r} is a folder; allowed: a list of its files, such as "
                f"sorted(Path({str(part)!r}).iterdir())",
                field=argument,
            )
        if opening is not None and is_path:
            source = opening(connection, Path(part).expanduser())
        else:
            source = open_source(connection, part, argument=argument, opaque=opaque)
        opened.append(Export(str(part) if is_path else f"{argument} {number}", source))
        _require(opened[-1], needed, argument)
    return opened


def _require(export: Export, needed: Sequence[Sequence[str]], argument: str) -> None:
    missing = [each for each in needed if not any(export.column(name) for name in each)]
    # Of lines that are no records the columns are unknown; each is told as a rejected row.
    if missing and export.source.rows:
        told = ", ".join(" or ".join(each) for each in missing)
        known = list(export.source.columns)
        shown = ", ".join(known[:_MOST_SHOWN]) + (", …" if len(known) > _MOST_SHOWN else "")
        raise InvalidRequest(
            f"{argument}: {export.name} has no column {told}; its columns: {shown}", field=argument
        )


def gather(
    connection: duckdb.DuckDBPyConnection,
    exports: Iterable[Export],
    columns: Callable[[Export], dict[str, str]],
    *,
    rules: Mapping[str, str],
) -> None:
    """Put the rows of all exports into the table ``records``, and those that break a rule into ``rejected``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Of the exports.
    exports : iterable of Export
        With the same columns, as far as they have them.
    columns : callable
        Returns SQL by name for the columns of an export.
    rules : mapping of str to str
        SQL that is true of a row that cannot be used, and the reason.
    """
    exports = list(exports)
    union = " UNION ALL ".join(export.select(columns(export)) for export in exports)
    reasons = ", ".join(f"CASE WHEN {broken} THEN {literal(reason)} END" for broken, reason in rules.items())
    connection.execute(f"CREATE TABLE read AS SELECT *, concat_ws('; ', {reasons}) AS reason FROM ({union})")
    connection.execute("CREATE TABLE records AS SELECT * EXCLUDE (reason) FROM read WHERE reason = ''")
    connection.execute("CREATE TABLE rejected AS SELECT file, row, reason FROM read WHERE reason <> ''")
    connection.execute("DROP TABLE read")
    for export in exports:
        connection.register("unreadable", export.source.unreadable)
        connection.execute(f"INSERT INTO rejected SELECT {literal(export.name)}, row, reason FROM unreadable")
        connection.unregister("unreadable")
