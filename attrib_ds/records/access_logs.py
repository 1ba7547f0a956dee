"""Reads the access logs of web servers as raw hits."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.export_tables import SITE
from attrib_ds.records.sources import UNREADABLE, Source
from attrib_ds.records.text_files import ROW, copy_arrow, literal, open_binary, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

#: Endings of files that belong to a page.
STATIC: Final = (
    "avif", "bmp", "css", "eot", "gif", "ico", "jpeg", "jpg", "js", "json", "map", "mjs", "mp3", "mp4", "otf",
    "pdf", "png", "svg", "ttf", "txt", "wasm", "webm", "webmanifest", "webp", "woff", "woff2", "xml", "zip",
)  # fmt: skip
_BLOCK: Final = 8 << 20
_QUOTED: Final = r'"((?:[^"\\]|\\.)*)"'
#: host:port address identity user [time] "request" status bytes "referrer" "user agent"; host is optional.
_LINE: Final = (
    r"^(?:([A-Za-z0-9._-]+)(?::[0-9]+)? )??([0-9A-Fa-f.:]+) \S+ .*?\[([^\]]{20,40})\] "
    rf"{_QUOTED} ([0-9]{{3}}) (?:[0-9]+|-) {_QUOTED} {_QUOTED}"
)
_PARTS: Final = ("host", "address", "time", "request", "status", "referrer", "agent")
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
        Origin of the pages, such as ``https://shop.example``; of lines with a virtual host, the scheme only.
    statuses : tuple of int, default (200, 304)
        Statuses of the responses that are page views.
    static : tuple of str
        Endings of paths that are no page views; by default those of images, styles, scripts and other files.

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
            raise InvalidRequest("files: there is no file; give at least one", field="files")
        if SITE.fullmatch(self.site) is None:
            raise InvalidRequest(
                f"site: {self.site!r} is not allowed; expected an origin, such as 'https://shop.example'",
                field="site",
            )

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files."""
        files = [self.files] if isinstance(self.files, str | Path) else self.files
        return tuple(Path(file).expanduser() for file in files)


def open_access_log(
    connection: duckdb.DuckDBPyConnection, log: AccessLog, *, secret: str
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

    Returns
    -------
    source : Source
        With the columns ``trackerId``, ``date``, ``pageUrl``, ``referrer``, ``userAgent`` and ``ip``. Rows
        are lines, numbered across all files; unreadable are those of another format.
    skipped : int
        Number of requests that are no page views.

    Raises
    ------
    InvalidRequest
        If a file cannot be read.
    """
    lines = copy_arrow(connection, _lines(log.paths))
    place = lines.rsplit(".", 1)[0]
    parts = ", ".join(literal(part) for part in _PARTS)
    connection.execute(
        f"""
        CREATE TABLE requests AS
        WITH matched AS (
            SELECT {quoted(ROW)} AS row, line, regexp_extract(line, {literal(_LINE)}, [{parts}]) AS part
            FROM {lines}
        ), read AS (
            SELECT row, line, part.host AS host, part.address AS address, part.status AS status,
                CAST(try_strptime(part.time, {literal(_TIME)}) AS TIMESTAMP) AS date,
                regexp_extract(part.request, {literal(_TARGET)}, 1) AS method,
                regexp_extract(part.request, {literal(_TARGET)}, 2) AS target,
                NULLIF({_unescaped("part.referrer")}, '-') AS referrer,
                CASE WHEN part.agent = '-' THEN '' ELSE {_unescaped("part.agent")} END AS agent
            FROM matched
        )
        SELECT * FROM read
        """
    )
    connection.execute(f"DROP TABLE {lines}")
    ending = f"CASE WHEN length(line) > {_LONGEST_SHOWN} THEN '…' ELSE '' END"
    reason = f"'''' || left(line, {_LONGEST_SHOWN}) || {ending} || ''' ' || {literal(_MALFORMED)}"
    unreadable = connection.execute(
        f"SELECT row, {reason} AS reason FROM requests WHERE date IS NULL ORDER BY row"
    )
    malformed = unreadable.to_arrow_table().cast(UNREADABLE)
    _truncate_addresses(connection)
    endings = literal("(?i)\\.(" + "|".join(log.static) + ")$" if log.static else "^$")
    statuses = ", ".join(literal(str(status)) for status in log.statuses) or "''"
    origin = literal(log.site.rstrip("/"))
    scheme = literal(log.site.partition("://")[0] + "://")
    connection.execute(
        f"""
        CREATE TABLE page_views AS
        SELECT row AS {quoted(ROW)}, date,
            'log.' || left(sha256(concat_ws(chr(10), {literal(secret)}, network, agent)), 32) AS trackerId,
            CASE WHEN starts_with(target, '/')
                THEN CASE WHEN host = '' THEN {origin} ELSE {scheme} || lower(host) END || target
                ELSE target END AS pageUrl,
            referrer, agent AS userAgent, address AS ip
        FROM requests JOIN networks USING (address)
        WHERE date IS NOT NULL AND method = 'GET' AND status IN ({statuses})
            AND NOT regexp_matches(regexp_replace(target, '[?#].*', ''), {endings})
        """
    )
    ((count, rows),) = connection.execute(
        "SELECT (SELECT count(*) FROM requests WHERE date IS NOT NULL), (SELECT count(*) FROM page_views)"
    ).fetchall()
    connection.execute("DROP TABLE requests; DROP TABLE networks")
    types = {"trackerId": "VARCHAR", "date": "TIMESTAMP", "pageUrl": "VARCHAR", "referrer": "VARCHAR"}
    return Source(
        f"{place}.page_views", types | {"userAgent": "VARCHAR", "ip": "VARCHAR"}, rows, malformed
    ), count - rows


def _lines(paths: Sequence[Path]) -> pa.RecordBatchReader:
    """Return the lines of files, a block at a time; bytes that are no UTF-8 are replaced."""
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
            raise InvalidRequest(f"files: {str(path)!r} {problem}", field="files")
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
    networks = pa.table(
        {"address": pa.array(texts, pa.string()), "network": pa.array(map(truncated, texts), pa.string())}
    )
    connection.register("truncated_addresses", networks)
    connection.execute("CREATE TABLE networks AS FROM truncated_addresses")
    connection.unregister("truncated_addresses")


def truncated(address: str) -> str:
    """Return the network of an address: /24, or /48 of IPv6 (G-199).

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
