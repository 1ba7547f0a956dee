"""Access logs and the files of another service's export as tables and raw hits."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from operator import add
from pathlib import Path
from typing import Any, Final

import duckdb
import ibis
import ibis.expr.types as ir
import pandas as pd
import pyarrow as pa

from attrib_ds import errors, schema, sql_results
from attrib_ds.records import person_ids
from attrib_ds.records.sources import ROW, UNREADABLE, Source, described, literal, open_source, quoted
from attrib_ds.records.text_files import copy_arrow, open_binary

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
        number = f"{quoted(ROW)} + {self.source.first}"
        return f"SELECT {literal(self.name)} AS file, {number} AS row, {selected} FROM {self.source.relation}"


@cache
def _listed_columns() -> dict[str, dict[str, list[str]]]:
    """Return the columns of other services' exports, by service and field."""
    table = Path(__file__).with_name("export_columns.tsv").read_text(encoding="utf-8")
    listed: dict[str, dict[str, list[str]]] = {}
    for line in table.splitlines()[2:]:
        service, field, columns = line.split("\t")
        listed.setdefault(service, {})[field] = columns.split()
    return listed


def gather(
    connection: duckdb.DuckDBPyConnection,
    exports: object,
    columns: Callable[[Export], dict[str, str]],
    *,
    rules: Mapping[str, str],
    argument: str,
    required: Sequence[Sequence[str]],
    opaque: Collection[str] = (),
    open_path: Callable[[duckdb.DuckDBPyConnection, Path], Source] | None = None,
) -> list[Export]:
    """Copy the rows of one or several exports to the table ``records``, and invalid rows to ``rejected``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Database for the tables.
    exports : DataFrame, Arrow table, path, records, or a list of those
        A list of dicts is one export: the records of a service's response.
    columns : callable
        Returns the SQL expressions of an export's columns by name.
    rules : mapping of str to str
        Reason to reject a row by SQL condition.
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
        raise errors.InvalidRequest(f"{argument}: there is nothing to read; pass a file or a frame")
    opened = []
    for number, part in enumerate(parts, start=1):
        is_path = isinstance(part, str | Path)
        if is_path and Path(part).expanduser().is_dir():
            raise errors.InvalidRequest(
                f"{argument}: {str(part)!r} is a folder; allowed: a list of its files, such as "
                f"sorted(Path({str(part)!r}).iterdir())"
            )
        if open_path is not None and is_path:
            source = open_path(connection, Path(part).expanduser())
        else:
            source = open_source(connection, part, argument=argument, opaque=opaque)
        opened.append(Export(str(part) if is_path else f"{argument} {number}", source))
        _check_columns(opened[-1], required, argument)
        for column in source.columns:
            if column.casefold().endswith("id"):
                source.require_exact(connection, column, argument)
    union = " UNION ALL ".join(export.select(columns(export)) for export in opened)
    connection.execute(f"CREATE TABLE read AS {union}")
    known = _without_nobody(connection, "read", argument)
    reasons = ", ".join(f"CASE WHEN {wrong} THEN {literal(reason)} END" for wrong, reason in rules.items())
    checked = f"(SELECT *, concat_ws('; ', {reasons}) AS reason FROM ({known}))"
    connection.execute(f"CREATE TABLE records AS SELECT * EXCLUDE (reason) FROM {checked} WHERE reason = ''")
    connection.execute(f"CREATE TABLE rejected AS SELECT file, row, reason FROM {checked} WHERE reason <> ''")
    connection.execute("DROP TABLE read")
    for export in opened:
        connection.register("unreadable", export.source.unreadable)
        row = f"row + {export.source.first}"
        connection.execute(
            f"INSERT INTO rejected SELECT {literal(export.name)}, {row}, reason FROM unreadable"
        )
        connection.unregister("unreadable")
    return opened


def _without_nobody(connection: duckdb.DuckDBPyConnection, table: str, argument: str) -> str:
    """Return a query for a table without ids of people and devices that stand for nobody."""
    replaced = {}
    for name in ("device", "account"):
        words = person_ids.strangers(connection, table, name)
        is_nobody = person_ids.nobody_sql(name)
        if words:
            is_nobody += f" OR lower({name}) IN ({', '.join(map(literal, words))})"
        is_lost = f"regexp_matches({name}, {literal(person_ids.LOST)})"
        ((count, example, lost),) = connection.execute(
            f"SELECT count(*) FILTER ({is_nobody}), min({name}) FILTER ({is_nobody}), "
            f"min({name}) FILTER ({is_lost}) FROM {table}"
        ).fetchall()
        if lost is not None:
            raise person_ids.lost(argument, name, lost)
        if count:
            person_ids.warn_of_nobody(argument, name, count, example)
            replaced[name] = f"CASE WHEN NOT ({is_nobody}) THEN {name} END AS {name}"
    selected = f"* REPLACE ({', '.join(replaced.values())})" if replaced else "*"
    known = f"SELECT {selected} FROM {table}"
    for name in ("device", "account"):
        person_ids.warn_of_crowds_in(connection, f"({known})", name, place=argument, column=name)
    return known


def _check_columns(export: Export, required: Sequence[Sequence[str]], argument: str) -> None:
    missing = [names for names in required if not any(export.column(name) for name in names)]
    # Without a readable row the columns are unknown; unreadable lines are listed as rejected rows.
    if missing and export.source.rows:
        names = ", ".join(" or ".join(alternatives) for alternatives in missing)
        present = list(export.source.columns)
        shown = ", ".join(present[:_MAX_SHOWN]) + (", …" if len(present) > _MAX_SHOWN else "")
        raise errors.InvalidRequest(f"{argument}: {export.name} has no column {names}; its columns: {shown}")


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
        The raw hits. Rows are numbered across all exports; unreadable are those that are not events.
    skipped : int
        Number of events that are not page views.
    """
    number = _number(exports)
    selected = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns.items())
    connection.execute(
        f"CREATE TABLE {_TABLE} AS SELECT {number} AS {quoted(ROW)}, {selected} FROM source_events "
        f"WHERE {where}"
    )
    ((count,),) = connection.execute("SELECT count(*) FROM source_events").fetchall()
    unreadable = f"SELECT {number} AS row, reason FROM rejected ORDER BY row"
    rejected = sql_results.read_arrow(connection, unreadable).cast(UNREADABLE)
    connection.execute("DROP TABLE source_events; DROP TABLE records; DROP TABLE rejected")
    place = exports[0].source.relation.rpartition(".")[0]
    for export in exports:
        connection.execute(f"DROP TABLE {export.source.relation}")
    source = described(connection, f"{place}.{_TABLE}", rejected)
    return source, count - source.rows


def _number(exports: Sequence[Export]) -> str:
    """Return SQL for the position of an event's row among the rows of all exports."""
    first, branches = 0, []
    for export in exports:
        branches.append(f"WHEN {literal(export.name)} THEN {first - export.source.first}")
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
    >>> duckdb.execute(f"SELECT {page}").fetchone()[0]
    'https://shop.example/?utm_source=a&utm_medium=e%20mail#top'
    """
    if not parameters:
        return page
    added = " || ".join(
        f"CASE WHEN {value} IS NULL OR regexp_matches({page}, '(?i)[?&]{name}=') THEN '' "
        f"ELSE '&{name}=' || url_encode({value}) END"
        for name, value in parameters.items()
    )
    whole, anchor = f"regexp_extract({page}, '^[^#]*')", f"regexp_extract({page}, '#.*$')"
    query = f"CASE WHEN contains({whole}, '?') THEN {added} ELSE regexp_replace({added}, '^&', '?') END"
    return f"{whole} || {query} || {anchor}"


def apart(table: ir.Table) -> ir.Table:
    """Return a table whose columns Ibis does not write again where they are used, which multiplies its SQL.

    It does not merge queries with random numbers, which the engine does not compute if nobody reads them.
    """
    return table.mutate(apart=ibis.random()).drop("apart")


#: Letters that a URL does not contain in a value; the percent sign first.
_ESCAPED: Final = "% !\"#$&'()*+,/:;<=>?@[\\]^`{|}"


def with_query(page: Any, parameters: Mapping[str, Any]) -> Any:
    """Return a URL of a column as :func:`with_parameters` does, on any engine; letters beyond ASCII stay."""
    whole = page.re_extract("^[^#]*", 0).fill_null("")
    added = reduce(
        add,
        (
            ibis.ifelse(page.lower().re_search(f"[?&]{name}="), "", f"&{name}=" + _escaped(value)).fill_null(
                ""
            )
            for name, value in parameters.items()
        ),
    )
    query = ibis.ifelse(whole.contains("?"), added, added.re_replace("^&", "?"))
    return whole + query + page.substr(whole.length())


def _escaped(value: Any) -> Any:
    return reduce(lambda text, letter: text.replace(letter, f"%{ord(letter):02X}"), _ESCAPED, value)


_PATTERN: Final = (
    r"^([a-zA-Z][a-zA-Z0-9+.-]*:)//(?:[^/?#@]*@)?(\[[^/?#\]]*\]|[^/?#:]*)(?::([0-9]+))?"
    r"([^?#]*)(\?[^#]*)?(#.*)?$"
)
#: Parts by the groups of the pattern.
_GROUPS: Final = ("protocol", "hostname", "port", "pathname", "search", "hash")
#: An origin.
SITE: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?/?")
_ORIGIN: Final = r"^([a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*)"


def selected_url_parts(page: str, prefix: str) -> str:
    """Return the parts of a URL as columns ``<prefix>.<part>`` of a SELECT; all are null if it is not a URL.

    Examples
    --------
    >>> import duckdb
    >>> parts = selected_url_parts("'https://shop.example:8443/boots?size=42'", "page")
    >>> duckdb.execute(f'SELECT "page.origin", "page.search", "page.hash" FROM (SELECT {parts})').fetchone()
    ('https://shop.example:8443', '?size=42', '')
    """
    names = ", ".join(map(literal, _GROUPS))
    # The engine evaluates equal expressions once per row, so the pattern is matched once.
    groups = f"regexp_extract({page}, {literal(_PATTERN)}, [{names}])"
    parts = {name: f"({groups}).{name}" for name in _GROUPS}
    parts["pathname"] = f"coalesce(nullif({parts['pathname']}, ''), '/')"
    parts["origin"] = f"regexp_extract({page}, {literal(_ORIGIN)}, 1)"
    is_url = f"({groups}).protocol <> ''"
    return ", ".join(
        f"CASE WHEN {is_url} THEN {parts[name]} END AS {quoted(f'{prefix}.{name}')}"
        for name in schema.URL_PARTS
    )


#: Endings of files that belong to a page.
STATIC: Final = (
    "avif", "bmp", "css", "eot", "gif", "ico", "jpeg", "jpg", "js", "json", "map", "mjs", "mp3", "mp4", "otf",
    "pdf", "png", "svg", "ttf", "txt", "wasm", "webm", "webmanifest", "webp", "woff", "woff2", "xml", "zip",
)  # fmt: skip
_BLOCK: Final = 8 << 20
_QUOTED: Final = r'"((?:[^"\\]|\\.)*)"'
#: host:port address identity user [time] "request" status bytes "referrer" "user agent"; host is optional.
_LINE: Final = (
    r"^(?:([A-Za-z0-9._-]+)(?::[0-9]+)? )??([0-9A-Fa-f.:]+) \S+ (.*?) ?\[([^\]]{20,40})\] "
    rf"{_QUOTED} ([0-9]{{3}}) (?:[0-9]+|-) {_QUOTED} {_QUOTED}"
)
_PARTS: Final = ("host", "address", "person", "time", "request", "status", "referrer", "agent")
_TIME: Final = "%d/%b/%Y:%H:%M:%S %z"
_TARGET: Final = r"^([A-Z]+) (\S+)(?: HTTP/[0-9.]+)?$"
_MALFORMED: Final = "is not a line of the combined log format"
_LONGEST_SHOWN: Final = 60


@dataclass(frozen=True)
class AccessLog:
    """Access logs of a web server, to :func:`load` as hits.

    Parameters
    ----------
    files : str, Path, or sequence of those
        Files in the combined log format of Apache and nginx, also with the virtual host in front and with
        ``.gz``. Files may overlap: a request that was loaded before is not counted again.
    site : str
        Origin of the pages, such as ``https://shop.example``; for lines with a virtual host, only the scheme
        counts.
    statuses : tuple of int, default (200, 304)
        Statuses of the responses that are page views.
    static : tuple of str
        Endings of paths that are not page views; by default those of images, styles, scripts and other files.

    Notes
    -----
    Only GET requests are page views. A log has no cookie: the same truncated address (/24, or /48 of IPv6)
    with the same user agent is one visitor. The two are hashed with a secret of the project; the address is
    not stored.

    Raises
    ------
    InvalidRequest
        If there is no file, or ``site`` is not an origin.

    Examples
    --------
    >>> AccessLog("access.log.gz", site="https://shop.example").statuses
    (200, 304)
    """

    files: str | Path | Sequence[str | Path]
    site: str
    statuses: tuple[int, ...] = (200, 304)
    static: tuple[str, ...] = STATIC

    def __post_init__(self) -> None:
        if not self.paths:
            raise errors.InvalidRequest("files: there is no file; give at least one")
        if SITE.fullmatch(self.site) is None:
            raise errors.InvalidRequest(
                f"site: {self.site!r} is not allowed; expected an origin, such as 'https://shop.example'"
            )

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files."""
        files = [self.files] if isinstance(self.files, str | Path) else self.files
        return tuple(Path(file).expanduser() for file in files)


def open_access_log(
    connection: duckdb.DuckDBPyConnection, log: AccessLog, *, secret: str, with_people: bool = False
) -> tuple[Source, int]:
    """Copy the page views of logs into a new table of a connection, as raw hits.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to create tables in.
    log : AccessLog
        The files.
    secret : str
        Key of the hashes of visitors.
    with_people : bool, default False
        Whether the column ``person`` has the users who logged in to the server.

    Returns
    -------
    source : Source
        With the columns ``trackerId``, ``date``, ``pageUrl``, ``referrer``, ``userAgent`` and ``ip``. Rows
        are lines, numbered across all files; unreadable are those of another format.
    skipped : int
        Number of requests that are not page views.

    Raises
    ------
    InvalidRequest
        If a file cannot be read.
    """
    lines = copy_arrow(connection, _lines(log.paths))
    parts = ", ".join(literal(part) for part in _PARTS)
    connection.execute(
        f"""
        CREATE TABLE requests AS
        WITH matched AS (
            SELECT {quoted(ROW)} AS row, line, regexp_extract(line, {literal(_LINE)}, [{parts}]) AS part
            FROM {lines}
        )
        SELECT row, line, NULLIF(NULLIF(part.person, '-'), '') AS person,
            part.host AS host, part.address AS address, part.status AS status,
            CAST(try_strptime(part.time, {literal(_TIME)}) AS TIMESTAMP) AS date,
            regexp_extract(part.request, {literal(_TARGET)}, 1) AS method,
            regexp_extract(part.request, {literal(_TARGET)}, 2) AS target,
            NULLIF({_unescaped("part.referrer")}, '-') AS referrer,
            CASE WHEN part.agent = '-' THEN '' ELSE {_unescaped("part.agent")} END AS agent
        FROM matched
        """
    )
    connection.execute(f"DROP TABLE {lines}")
    place = lines.rpartition(".")[0]
    return _page_views(connection, place, log, _MALFORMED, secret=secret, with_people=with_people)


def open_requests(
    connection: duckdb.DuckDBPyConnection, source: Source, parts: Mapping[str, str], *, site: str, secret: str
) -> Source:
    """Return the page views of a table of requests as raw hits, by SQL of their parts.

    ``date``, ``address``, ``agent`` and ``target`` are needed; of ``method``, ``status``, ``referrer``,
    ``person`` and ``host`` those that there are.
    """
    given = {"method": "'GET'", "status": "'200'", "host": "''", "person": NULL_TEXT, "referrer": NULL_TEXT}
    agent = f"url_decode({parts['agent']})"
    given |= {name: f"coalesce({sql}, {given.get(name, NULL_TEXT)})" for name, sql in parts.items()}
    given |= {
        "date": parts["date"],
        "agent": f"CASE WHEN contains({agent}, ' ') THEN {agent} ELSE replace({agent}, '+', ' ') END",
    }
    listed = ", ".join(f"{sql} AS {name}" for name, sql in given.items())
    connection.execute(
        f"CREATE TABLE requests AS SELECT {quoted(ROW)} AS row, "
        f"CAST({parts['date']} AS VARCHAR) AS line, {listed} FROM {source.relation} "
        f"WHERE {parts['address']} IS NOT NULL"
    )
    log, place = AccessLog(Path(), site=site), source.relation.rpartition(".")[0]
    return _page_views(connection, place, log, "is not an instant", secret=secret, with_people=True)[0]


def _page_views(
    connection: duckdb.DuckDBPyConnection,
    place: str,
    log: AccessLog,
    complaint: str,
    *,
    secret: str,
    with_people: bool,
) -> tuple[Source, int]:
    """Return the page views among ``requests`` and the number of the others; drop the table."""
    ending = f"CASE WHEN length(line) > {_LONGEST_SHOWN} THEN '…' ELSE '' END"
    reason = f"'''' || left(line, {_LONGEST_SHOWN}) || {ending} || ''' ' || {literal(complaint)}"
    unreadable = f"SELECT row, {reason} AS reason FROM requests WHERE date IS NULL ORDER BY row"
    malformed = sql_results.read_arrow(connection, unreadable).cast(UNREADABLE)
    _truncate_addresses(connection)
    endings = literal("(?i)\\.(" + "|".join(log.static) + ")$" if log.static else "^$")
    statuses = ", ".join(literal(str(status)) for status in log.statuses) or "''"
    origin = literal(log.site.rstrip("/"))
    scheme = literal(log.site.partition("://")[0] + "://")
    connection.execute(
        f"""
        CREATE TABLE {_TABLE} AS
        SELECT row AS {quoted(ROW)}, date,
            'log.' || left(sha256(concat_ws(chr(10), {literal(secret)}, network, agent)), 32) AS trackerId,
            CASE WHEN starts_with(target, '/')
                THEN CASE WHEN host = '' THEN {origin} ELSE {scheme} || lower(host) END || target
                ELSE target END AS pageUrl,
            referrer, agent AS userAgent, address AS ip{", person" if with_people else ""}
        FROM requests JOIN networks USING (address)
        WHERE date IS NOT NULL AND method = 'GET' AND status IN ({statuses})
            AND NOT regexp_matches(regexp_replace(target, '[?#].*', ''), {endings})
        """
    )
    ((count,),) = connection.execute("SELECT count(*) FROM requests WHERE date IS NOT NULL").fetchall()
    connection.execute("DROP TABLE requests; DROP TABLE networks")
    source = described(connection, f"{place}.{_TABLE}", malformed, 1)
    return source, count - source.rows


def _lines(paths: Sequence[Path]) -> pa.RecordBatchReader:
    """Return the lines of files, a block at a time; bytes that are not UTF-8 are replaced."""
    columns = pa.schema([pa.field("line", pa.string())])

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with open_binary(path) as file:
                rest = b""
                while block := file.read(_BLOCK):
                    *whole, rest = (rest + block).split(b"\n")
                    yield _batch(whole, columns)
                if rest:
                    yield _batch([rest], columns)

    for path in paths:
        if not path.is_file():
            problem = "is a folder, not a file" if path.is_dir() else "does not exist"
            raise errors.InvalidRequest(f"files: {str(path)!r} {problem}")
    return pa.RecordBatchReader.from_batches(columns, batches())


def _batch(lines: list[bytes], columns: pa.Schema) -> pa.RecordBatch:
    texts = [line.decode("utf-8", "replace").rstrip("\r") for line in lines]
    return pa.record_batch([pa.array(texts, pa.string())], schema=columns)


def _unescaped(text: str) -> str:
    return f"replace({text}, '\\\"', '\"')"


def _truncate_addresses(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``networks``, the truncated form of each address."""
    addresses = connection.execute("SELECT DISTINCT address FROM requests WHERE date IS NOT NULL")
    texts = [text for (text,) in addresses.fetchall()]
    columns = [pa.array(each, pa.string()) for each in (texts, map(truncated, texts))]
    networks = pa.table(columns, ["address", "network"])
    connection.register("truncated_addresses", networks)
    connection.execute("CREATE TABLE networks AS FROM truncated_addresses")
    connection.unregister("truncated_addresses")


def truncated(address: str) -> str:
    """Return the network of an address: /24, or /48 of IPv6.

    Examples
    --------
    >>> truncated("203.0.113.77"), truncated("2001:db8:85a3::8a2e:370:7334"), truncated("::ffff:203.0.113.77")
    ('203.0.113.0', '2001:db8:85a3::', '203.0.113.0')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((parsed, 48), strict=False).network_address)
        parsed = parsed.ipv4_mapped
    return str(ipaddress.ip_network((parsed, 24), strict=False).network_address)
