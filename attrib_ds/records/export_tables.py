"""Open the files of another service's export as tables, and make raw hits of their page views."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from attrib_ds import schema
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import ROW, UNREADABLE, Source, literal, open_source, quoted

if TYPE_CHECKING:
    import duckdb


NULL_TEXT = "CAST(NULL AS VARCHAR)"
_MAX_SHOWN = 20


@dataclass(frozen=True)
class Export:
    """One file, frame or table of an export.

    Attributes
    ----------
    name : str
        Name in the list of rejected rows.
    source : Source
        The rows.
    """

    name: str
    source: Source

    @cached_property
    def _names(self) -> dict[str, str]:
        return {name.casefold(): name for name in self.source.types}

    def column(self, name: str) -> str | None:
        """Return the name of a column in the export, ignoring case, or None if it is missing.

        Flattened tables write ``geo_city`` for ``geo.city``.
        """
        folded = name.casefold()
        return self._names.get(folded) or self._names.get(folded.replace(".", "_"))

    def text(self, *columns: str) -> str:
        """Return SQL for the first of some columns that is not blank, as text."""
        present = [self.source.word(column) for column in filter(None, map(self.column, columns))]
        return f"coalesce({', '.join(present)})" if present else NULL_TEXT

    def texts(self, service: str) -> dict[str, str]:
        """Return SQL for the fields of a service's export, by name, as its columns are listed."""
        return {field: self.text(*columns) for field, columns in _listed_columns()[service].items()}

    def whole(self, *columns: str) -> str:
        """Return SQL for the first of some columns that is not blank, as a whole number."""
        return f"TRY_CAST({self.text(*columns)} AS BIGINT)"

    def select(self, columns: Mapping[str, str]) -> str:
        """Return a query for some columns, preceded by the name of the export and the row number."""
        selected = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        rows = self.source.relation
        return f"SELECT {literal(self.name)} AS file, {quoted(ROW)} AS row, {selected} FROM {rows}"


@cache
def _listed_columns() -> dict[str, dict[str, list[str]]]:
    """Return the columns of other services' exports, by service and field."""
    table = Path(__file__).with_name("export_columns.tsv").read_text(encoding="utf-8")
    listed: dict[str, dict[str, list[str]]] = {}
    for line in table.splitlines()[2:]:
        service, field, columns = line.split("\t")
        listed.setdefault(service, {})[field] = columns.split()
    return listed


def open_exports(
    connection: duckdb.DuckDBPyConnection,
    exports: object,
    *,
    argument: str,
    required: Sequence[Sequence[str]],
    opaque: Collection[str] = (),
    open_path: Callable[[duckdb.DuckDBPyConnection, Path], Source] | None = None,
) -> list[Export]:
    """Open one or several exports as tables.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database for the tables.
    exports : DataFrame, Arrow table, path, records, or a list of those
        A list of dicts is one export: the records of a service's response.
    argument : str
        Name of the argument in error messages.
    required : sequence of sequence of str
        Required columns; each sequence lists alternatives.
    opaque : collection of str
        Properties to keep as JSON text.
    open_path : callable, optional
        Opens paths that :func:`attrib_ds.records.sources.open_source` has no reader for.

    Returns
    -------
    list of Export
        In the order given.

    Raises
    ------
    InvalidRequest
        If there are no exports, or one cannot be read or has no required column.
    """
    parts: Sequence[Any] = exports if isinstance(exports, list | tuple) else [exports]
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
        if open_path is not None and is_path:
            source = open_path(connection, Path(part).expanduser())
        else:
            source = open_source(connection, part, argument=argument, opaque=opaque)
        opened.append(Export(str(part) if is_path else f"{argument} {number}", source))
        _check_columns(opened[-1], required, argument)
    return opened


def _check_columns(export: Export, required: Sequence[Sequence[str]], argument: str) -> None:
    missing = [names for names in required if not any(export.column(name) for name in names)]
    # Without a readable row the columns are unknown; unreadable lines are listed as rejected rows.
    if missing and export.source.rows:
        names = ", ".join(" or ".join(alternatives) for alternatives in missing)
        present = list(export.source.columns)
        shown = ", ".join(present[:_MAX_SHOWN]) + (", …" if len(present) > _MAX_SHOWN else "")
        raise InvalidRequest(
            f"{argument}: {export.name} has no column {names}; its columns: {shown}", field=argument
        )


def gather(
    connection: duckdb.DuckDBPyConnection,
    exports: Iterable[Export],
    columns: Callable[[Export], dict[str, str]],
    *,
    rules: Mapping[str, str],
) -> None:
    """Copy the rows of all exports to the table ``records``, and invalid rows to ``rejected``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database of the exports.
    exports : iterable of Export
        Exports of the same kind.
    columns : callable
        Returns the SQL expressions of an export's columns by name.
    rules : mapping of str to str
        Reason to reject a row by SQL condition.
    """
    exports = list(exports)
    union = " UNION ALL ".join(export.select(columns(export)) for export in exports)
    reasons = ", ".join(
        f"CASE WHEN {condition} THEN {literal(reason)} END" for condition, reason in rules.items()
    )
    connection.execute(f"CREATE TABLE read AS SELECT *, concat_ws('; ', {reasons}) AS reason FROM ({union})")
    connection.execute("CREATE TABLE records AS SELECT * EXCLUDE (reason) FROM read WHERE reason = ''")
    connection.execute("CREATE TABLE rejected AS SELECT file, row, reason FROM read WHERE reason <> ''")
    connection.execute("DROP TABLE read")
    for export in exports:
        connection.register("unreadable", export.source.unreadable)
        connection.execute(f"INSERT INTO rejected SELECT {literal(export.name)}, row, reason FROM unreadable")
        connection.unregister("unreadable")


_TABLE: Final = "page_views"


def create_page_views(
    connection: duckdb.DuckDBPyConnection,
    exports: Sequence[Export],
    columns: Mapping[str, str],
    *,
    where: str,
) -> tuple[Source, int]:
    """Copy page views of the table ``source_events`` into a new table; drop the tables of the exports.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection with the tables ``source_events`` and ``rejected``.
    exports : sequence of Export
        The exports that the events come from.
    columns : mapping of str to str
        SQL of each column of raw hits.
    where : str
        SQL for whether an event is a page view.

    Returns
    -------
    source : Source
        The raw hits. Rows are numbered across all exports; unreadable are those that are no events.
    skipped : int
        Number of events that are no page views.
    """
    number = _number(exports)
    selected = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns.items())
    connection.execute(
        f"CREATE TABLE {_TABLE} AS SELECT {number} AS {quoted(ROW)}, {selected} FROM source_events "
        f"WHERE {where}"
    )
    ((skipped, rows),) = connection.execute(
        f"SELECT (SELECT count(*) FROM source_events) - count(*), count(*) FROM {_TABLE}"
    ).fetchall()
    unreadable = connection.execute(f"SELECT {number} AS row, reason FROM rejected ORDER BY row")
    rejected = unreadable.to_arrow_table().cast(UNREADABLE)
    described = connection.execute(f"DESCRIBE {_TABLE}").fetchall()
    types = {name: kind for name, kind, *_ in described if name != ROW}
    connection.execute("DROP TABLE source_events; DROP TABLE records; DROP TABLE rejected")
    place = exports[0].source.relation.rsplit(".", 1)[0]
    for export in exports:
        connection.execute(f"DROP TABLE {export.source.relation}")
    return Source(f"{place}.{_TABLE}", types, rows, rejected), skipped


def _number(exports: Sequence[Export]) -> str:
    """Return SQL for the position of an event's row among the rows of all exports."""
    first, branches = 0, []
    for export in exports:
        branches.append(f"WHEN {literal(export.name)} THEN {first}")
        first += export.source.rows + export.source.unreadable.num_rows
    return f"row + CASE file {' '.join(branches)} END"


def with_parameters(page: str, parameters: Mapping[str, str]) -> str:
    """Return SQL for a URL with the parameters that it does not have, of those that are not null.

    Parameters
    ----------
    page : str
        SQL for the URL.
    parameters : mapping of str to str
        SQL for the value of each parameter.

    Examples
    --------
    >>> import duckdb
    >>> page = with_parameters("'https://shop.example/?utm_source=a#top'",
    ...                        {"utm_source": "'b'", "utm_medium": "'e mail'", "gclid": "NULL"})
    >>> duckdb.sql(f"SELECT {page}").fetchone()[0]
    'https://shop.example/?utm_source=a&utm_medium=e%20mail#top'
    """
    added = " || ".join(
        f"CASE WHEN {value} IS NULL OR regexp_matches({page}, '(?i)[?&]{name}=') THEN '' "
        f"ELSE '&{name}=' || url_encode({value}) END"
        for name, value in parameters.items()
    )
    whole, anchor = f"regexp_extract({page}, '^[^#]*')", f"regexp_extract({page}, '#.*$')"
    query = f"CASE WHEN contains({whole}, '?') THEN {added} ELSE regexp_replace({added}, '^&', '?') END"
    return f"{whole} || {query} || {anchor}"


_PATTERN: Final = (
    r"^([a-zA-Z][a-zA-Z0-9+.-]*:)//(?:[^/?#@]*@)?(\[[^/?#\]]*\]|[^/?#:]*)(?::([0-9]+))?"
    r"([^?#]*)(\?[^#]*)?(#.*)?$"
)
#: Parts by the groups of the pattern.
_GROUPS: Final = ("protocol", "hostname", "port", "pathname", "search", "hash")
#: An origin.
SITE: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?/?")
_ORIGIN: Final = r"^([a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*)"


def url_parts(page: str, prefix: str) -> dict[str, str]:
    """Return SQL for the parts of a URL, by column ``<prefix>.<part>``; all are null if it is no URL.

    Examples
    --------
    >>> import duckdb
    >>> parts = url_parts("'https://shop.example:8443/boots?size=42'", "page")
    >>> [duckdb.sql(f"SELECT {parts[f'page.{part}']}").fetchone()[0] for part in ("origin", "search", "hash")]
    ['https://shop.example:8443', '?size=42', '']
    """
    names = ", ".join(map(literal, _GROUPS))
    # The engine evaluates equal expressions once per row, so the pattern is matched once.
    groups = f"regexp_extract({page}, {literal(_PATTERN)}, [{names}])"
    parts = {name: f"({groups}).{name}" for name in _GROUPS}
    parts["pathname"] = f"coalesce(nullif({parts['pathname']}, ''), '/')"
    parts["origin"] = f"regexp_extract({page}, {literal(_ORIGIN)}, 1)"
    return {
        f"{prefix}.{name}": f"CASE WHEN ({groups}).protocol <> '' THEN {parts[name]} END"
        for name in schema.URL_PARTS
    }


def selected_url_parts(page: str, prefix: str) -> str:
    """Return the parts of a URL as columns of a SELECT; see :func:`url_parts`."""
    return ", ".join(f"{sql} AS {quoted(name)}" for name, sql in url_parts(page, prefix).items())
