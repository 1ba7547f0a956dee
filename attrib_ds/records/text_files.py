"""Text files: their encodings, delimiters and records, copied to DuckDB tables with numbered rows."""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, dropwhile, groupby, islice
from pathlib import Path
from typing import IO, Any, Final
from uuid import uuid4

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv

from attrib_ds import sql_results
from attrib_ds.display import counted, printable
from attrib_ds.errors import InvalidRequest

#: Column with the 0-based position of each row in the source.
ROW: Final = "#row"
#: Maximum length of a line: pyarrow cannot read a record across two blocks.
BLOCK_BYTES: Final = 16 << 20
DELIMITED: Final = (".csv", ".tsv")
DELIMITERS: Final = ",;\t|"
_UTF_8: Final = "utf-8"
_START_BYTES: Final = 4_096
#: What files are by their first bytes, the endings that say so, and what to do about others.
_CONTENTS: Final = (
    (rb"PK\x03\x04", "a workbook or an archive", (".xlsx",), "name it .xlsx if it is a workbook"),
    (rb"\xd0\xcf\x11\xe0", "an old workbook (.xls) or one with a password", (), "save it as .xlsx or CSV"),
    (rb"%PDF", "a PDF document", (), "export the table as CSV"),
    (rb"\s*<(!doctype|html|head|body|meta|table|\?xml)", "a web page or XML", (), "export the table as CSV"),
    (rb"[^\0]*$", "plain text", None, "name it .csv"),
)  # fmt: skip
_BOOKS: Final = (".xlsx", ".xls")
#: Maximum number of lines of titles and comments above a header.
_LINES_ABOVE: Final = 40
#: How many times more cells another table has than one that sums up a report.
_FAR_SMALLER: Final = 4
#: Content of this size is read however small the compressed file is, larger content up to this multiple.
SMALL_CONTENT: Final = 256 * 2**20
MOST_FOLD: Final = 200


def quoted(name: str) -> str:
    """Return the name as an SQL identifier.

    Examples
    --------
    >>> print(quoted('the "best" city'))
    "the ""best"" city"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return the text as an SQL literal.

    Examples
    --------
    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def open_binary(path: Path) -> IO[bytes]:
    """Open a file in binary mode, decompressed if it is in gzip format or its name ends in ``.gz``.

    Reading raises OSError once the content is far larger than the file, as that of an archive that would fill
    the memory.
    """
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b" or path.name.casefold().endswith(".gz")
    return _Unpacked(path) if is_packed else path.open("rb")  # type: ignore[return-value]


def most_unpacked(path: Path) -> int:
    """Return how many bytes the content of a compressed file may have; that of logs has a tenth."""
    return max(SMALL_CONTENT, MOST_FOLD * path.stat().st_size)


class _Unpacked(gzip.GzipFile):
    """The content of a file in gzip format, up to a size."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path
        self._most = most_unpacked(path)

    def read(self, size: int | None = -1) -> bytes:
        """Read as a file does; raise OSError beyond the size."""
        return self._checked(super().read(self._most + 1 if size is None or size < 0 else size))

    def read1(self, size: int = -1) -> bytes:
        """Read at most one block, as :meth:`read` does."""
        return self._checked(super().read1(size))

    def _checked(self, content: bytes) -> bytes:
        if self.tell() > self._most:
            raise OSError(
                f"{self._path.name!r} has more than {self._most:,} bytes after decompression, "
                f"{MOST_FOLD} times its size; decompress it first if that is right"
            )
        return content


def copy_delimited(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    argument: str,
    encoding: str | None,
    *,
    tolerant: bool = False,
) -> tuple[str, list[tuple[int, str]], int]:
    """Copy delimited text with a header, as :func:`copy_text` does; by default in UTF-16 or UTF-8.

    The last value is the number of the first row, with the lines above. If it is ``tolerant``,
    columns may have no name, and the words of databases for null are missing.
    """
    encoding = encoding or marked_encoding(path) or _UTF_8
    names, delimiter, above = _header(path, argument, encoding)
    read: dict[str, Any] = {"skip_rows": above}
    first, last = _unnamed(path, encoding, names, delimiter, above) if tolerant else ([], [])
    has_row_names = bool(first) or names[:1] == [""]
    names = [*first, *names, *last]
    if tolerant and ("" in names or len({*names}) < len(names)):
        names = [name or f"Unnamed: {at}" for at, name in enumerate(names)]
        # As pandas names the second one.
        names = [
            name + (f".{count}" if (count := names[:at].count(name)) else "") for at, name in enumerate(names)
        ]
        read = {"skip_rows": above + 1, "column_names": names}
    nulls = ["", "NULL", "\\N"] if tolerant else [""]
    # R writes missing values so, without quotation marks.
    nulls += ["NA"] if tolerant and has_row_names and _is_quoted(path, encoding, above) else []
    check_names(names, argument)
    copied, unreadable = copy_text(
        connection,
        path,
        names,
        read=read | ({} if encoding == _UTF_8 else {"encoding": encoding}),
        # A blank line counts as a row, as in spreadsheets.
        parse={"delimiter": delimiter, "newlines_in_values": True, "ignore_empty_lines": not tolerant},
        convert={"null_values": nulls, "strings_can_be_null": True, "quoted_strings_can_be_null": False},
    )
    if tolerant:
        connection.execute(f"DELETE FROM {copied} WHERE coalesce({', '.join(map(quoted, names))}) IS NULL")
    return copied, unreadable + _unclosed(connection, copied, path, names, encoding), above + 2


def copy_text(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    names: list[str],
    *,
    parse: dict[str, Any],
    convert: dict[str, Any],
    read: dict[str, Any] | None = None,
) -> tuple[str, list[tuple[int, str]]]:
    """Copy a text file with all cells as text, and list the unreadable records.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The table is created in its current database and schema.
    path : Path
        Text, compressed if its name ends in ``.gz``; in UTF-8 unless ``read`` has another encoding.
    names : list of str
        Columns.
    parse, convert, read : dict
        Options of :mod:`pyarrow.csv`.

    Returns
    -------
    table : str
        Its quoted name; :data:`ROW` counts unreadable records too.
    unreadable : list of (int, str)
        Position and reason.
    """
    unreadable: list[tuple[int, str]] = []

    has_header = "column_names" not in (read or {})
    above = (read or {}).get("skip_rows", 0) + has_header

    def skip(record: pa.csv.InvalidRow) -> str:
        # pyarrow counts from 1, including the header and the lines above it.
        cells = f"{counted(record.actual_columns, 'cells')} where the header has {record.expected_columns}"
        text = f": {printable(repr(record.text))}" if record.actual_columns == 1 and record.text else ""
        unreadable.append((record.number - above - 1, cells + text))
        return "skip"

    def attempt(kind: pa.DataType) -> str:
        unreadable.clear()
        with open_binary(path) as file:
            records = pa.csv.open_csv(
                file,
                # With threads, pyarrow does not number records.
                read_options=pa.csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, **(read or {})),
                parse_options=pa.csv.ParseOptions(invalid_row_handler=skip, **parse),
                convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, kind), **convert),
            )
            return _renumbered(connection, copy_arrow(connection, records), unreadable)

    try:
        return attempt(pa.string()), unreadable
    except (pa.ArrowException, duckdb.Error) as error:
        if "Empty CSV file" in str(error):
            # A header without a line break is all there is.
            return copy_arrow(
                connection, pa.schema([(name, pa.string()) for name in names]).empty_table()
            ), []
        if "UTF8" not in str(error):
            raise
    return _decoded(connection, attempt(pa.binary()), names, unreadable)


def _renumbered(
    connection: duckdb.DuckDBPyConnection, relation: str, skipped: Sequence[tuple[int, str]]
) -> str:
    """Add the number of records skipped before each row to its row number."""
    if not skipped:
        return relation
    # The i-th record skipped, at position p, stands before the copied row p - i and all later ones.
    before = {position - order: order + 1 for order, (position, _) in enumerate(sorted(skipped))}
    steps = pa.table({"start": pa.array(before), "passed": pa.array(before.values())})
    connection.register("attrib_ds_steps", steps)
    number = f"{quoted(ROW)} + coalesce(passed, 0)"
    renumbered = replace_table(
        connection,
        relation,
        f"SELECT rows.* EXCLUDE (start, passed) REPLACE ({number} AS {quoted(ROW)}) FROM (FROM {relation} "
        f"ASOF LEFT JOIN attrib_ds_steps ON {quoted(ROW)} >= start) AS rows ORDER BY {quoted(ROW)}",
    )
    connection.unregister("attrib_ds_steps")
    return renumbered


def _decoded(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    names: Sequence[str],
    unreadable: Sequence[tuple[int, str]],
) -> tuple[str, list[tuple[int, str]]]:
    """Decode cells to text, without the records that are not UTF-8."""
    columns = [quoted(name) for name in names]
    foreign = " OR ".join(f"({name} IS NOT NULL AND TRY(decode({name})) IS NULL)" for name in columns)
    undecodable = connection.execute(
        f"SELECT {quoted(ROW)}, 'not UTF-8 text' FROM {relation} WHERE {foreign}"
    ).fetchall()
    texts = ", ".join(f"TRY(decode({name})) AS {name}" for name in columns)
    query = f"SELECT {quoted(ROW)}, {texts} FROM {relation} WHERE NOT ({foreign})"
    return replace_table(connection, relation, query), [*unreadable, *undecodable]


def _unclosed(
    connection: duckdb.DuckDBPyConnection, relation: str, path: Path, names: Sequence[str], encoding: str
) -> list[tuple[int, str]]:
    """Remove the last row if an unclosed quotation mark swallowed the following lines."""
    is_last = f"{quoted(ROW)} = (SELECT max({quoted(ROW)}) FROM {relation})"
    has_break = " OR ".join(f"contains({quoted(name)}, chr(10))" for name in names)
    last = f"SELECT {quoted(ROW)} FROM {relation} WHERE {is_last} AND ({has_break})"
    row = sql_results.read_row(connection, last)
    if row is None:
        return []
    with _open_text(path, encoding) as file:
        marks = sum(block.count('"') for block in iter(lambda: file.read(BLOCK_BYTES), ""))
    if marks % 2 == 0:
        return []
    connection.execute(f"DELETE FROM {relation} WHERE {quoted(ROW)} = {row[0]}")
    return [(row[0], "a quotation mark is never closed; the following lines were read as one cell")]


def _header(path: Path, argument: str, encoding: str) -> tuple[list[str], str, int]:
    """Return the names in the header, the delimiter, and the number of lines above.

    Reports begin with lines of a title, a period or comments: the header is the first record of several cells
    that the next one has too.
    """
    with _open_text(path, "utf-8-sig" if encoding == _UTF_8 else encoding) as file:
        start = list(islice(file, _LINES_ABOVE))
        above = next((number for number, line in enumerate(start) if line.strip()), None)
        if above is None:
            raise empty_file(path, argument)
        delimiter = max(DELIMITERS, key=Counter(start[above]).__getitem__)
        names = next(csv.reader(chain(start[above:], file), delimiter=delimiter), [])
    is_title = _is_title(names)
    if is_title or start[above].startswith("#"):
        tables = {mark: _likely_table(start[above:], mark) for mark in DELIMITERS}
        widest = max(tables, key=lambda mark: len(tables[mark][0]) * tables[mark][2])
        below, skipped, _ = tables[widest]
        # The header itself may begin with a number sign.
        if below and (is_title or len(below) != len(names)):
            names, delimiter, above = below, widest, above + skipped
    elif not any(line.count('"') % 2 for line in start):
        # A short table, or pairs of a name and a value, may stand above a blank line or a title. Where only a
        # row is too short, those below have as many cells as the header.
        below, skipped, _ = _likely_table(start[above:], delimiter)
        before = next(csv.reader([start[above + skipped - 1]], delimiter=delimiter), [])
        if skipped and len(below) != len(names) and _is_title(before):
            names, above = below, above + skipped
    if any("\ufffd" in name for name in names):
        raise InvalidRequest(f"{argument}: the header of {path.name!r} is not {encoding.upper()} text")
    return names, delimiter, above


def lines_above(path: Path, argument: str, encoding: str | None) -> list[str]:
    """Return the lines of words above the header."""
    encoding = encoding or marked_encoding(path) or _UTF_8
    *_, above = _header(path, argument, encoding)
    with _open_text(path, encoding) as file:
        return [line.strip(' \t\r\n\ufeff",;') for line in islice(file, above) if re.search(r"\w \w", line)]


def _unnamed(
    path: Path, encoding: str, names: Sequence[str], delimiter: str, above: int
) -> tuple[list[str], list[str]]:
    """Return empty names for a first column of row names, as R writes it, or an empty last column."""
    with _open_text(path, encoding) as file:
        lines = list(islice(file, above, above + _LINES_ABOVE))
    records = [record for record in csv.reader(lines, delimiter=delimiter) if record][1:-1]
    if not records or any(len(record) != len(names) + 1 for record in records):
        return [], []
    if not any(record[-1].strip() for record in records):
        return [], [""]
    # A decimal comma that is not quoted makes one more cell, too.
    are_names = delimiter != "," or lines[-1].startswith('"')
    return ([""], []) if are_names and len({record[0] for record in records}) == len(records) else ([], [])


def _is_quoted(path: Path, encoding: str, above: int) -> bool:
    with _open_text(path, encoding) as file:
        return next(islice(file, above, None), "").startswith('"')


def _is_title(cells: Sequence[str]) -> bool:
    """Return whether most cells of a line are blank, as beside a title or a period, or all but one are."""
    return len(list(filter(str.strip, cells))) < max(2, len(cells) / 2)


def _likely_table(lines: Sequence[str], delimiter: str) -> tuple[list[str], int, int]:
    """Return the header of the first table that is not far smaller than another, the lines above, its rows.

    A table is records of several cells, as many in each.
    """
    records = [
        (number, next(csv.reader([line], delimiter=delimiter)))
        for number, line in enumerate(lines)
        if line.strip() and line[0] != "#"
    ]
    groups = (group for _, group in groupby(records, key=lambda record: len(record[1])))
    tables = [[*dropwhile(lambda record: _is_title(record[1]), group)] for group in groups]
    sizes = [len(table) * len(table[0][1]) if len(table) > 1 else 0 for table in tables]
    for table, size in zip(tables, sizes, strict=True):
        if size and _FAR_SMALLER * size >= max(sizes):
            (number, names), *_ = table
            return names, number, [len(cells) for _, cells in records].count(len(names))
    return [], 0, 0


def _open_text(path: Path, encoding: str) -> io.TextIOWrapper:
    """Open a file of text; records that cannot be decoded are reported later, by row."""
    return io.TextIOWrapper(open_binary(path), encoding=encoding, errors="replace", newline="\n")


def marked_encoding(path: Path) -> str | None:
    """Return the encoding of a file in UTF-16, with or without a byte order mark; None for any other."""
    with open_binary(path) as file:
        start = file.read(_START_BYTES)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Latin letters have a zero byte in UTF-16, before or after their own.
    if 0 in start[:2]:
        return "utf-16-be" if start[0] == 0 else "utf-16-le"
    return None


def check_content(path: Path, argument: str) -> None:
    """Refuse a file whose first bytes are of another kind than its name says."""
    if not path.is_file():
        return
    ending = path.suffix.casefold()
    with path.open("rb") as file:
        start = file.read(_START_BYTES).removeprefix(codecs.BOM_UTF8)
    for pattern, kind, endings, advice in _CONTENTS:
        if start and re.match(pattern, start, re.IGNORECASE):
            if ending in _BOOKS if endings is None else ending not in endings:
                raise InvalidRequest(f"{argument}: {path.name!r} is {kind}; {advice}")
            return


def check_codec(encoding: str | None) -> None:
    """Refuse an encoding of which Python has no codec of text."""
    try:
        "".encode(_UTF_8 if encoding is None else encoding)
    except (LookupError, TypeError) as error:
        raise InvalidRequest.value(
            "encoding", encoding, "the name of a codec, such as 'cp1252' or 'utf-16'"
        ) from error


def is_foreign(path: Path, argument: str) -> bool:
    """Return whether a file of text is neither in UTF-8 nor in UTF-16.

    Raises
    ------
    InvalidRequest
        If the file cannot be read.
    """
    try:
        return marked_encoding(path) is None and _first_foreign_line(path) is not None
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidRequest(f"{argument}: {path.name!r} cannot be read: {error}") from error


def _first_foreign_line(path: Path) -> int | None:
    """Return the number of the first line that is not UTF-8, from 1; None if all are."""
    with open_binary(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return None


def check_names(names: Iterable[object], argument: str, *, least: int = 1) -> None:
    """Refuse column names that are empty, not text, or equal in SQL."""
    seen = {ROW: ROW}
    for position, name in enumerate(names, start=1):
        if not isinstance(name, str):
            raise InvalidRequest(
                f"{argument}: the name of column {position} is {name!r}, not text. If pandas numbered the "
                "columns, as with header=None, name them: frame.set_axis(['user', 'node', 'date'], axis=1); "
                "if the first row has the names, read the file without header=None"
            )
        if not name:
            raise InvalidRequest(
                f"{argument}: column {position} has no name; leave it out: a delimiter at the end of "
                "the header makes one, and so does the index of pandas without index=False"
            )
        other = seen.get(name.casefold())
        if other is not None:
            problem = "is given twice" if other == name else f"differs from {other!r} in case only"
            raise InvalidRequest(f"{argument}: the column {name!r} {problem}")
        seen[name.casefold()] = name
    if len(seen) - 1 < least:
        raise InvalidRequest(f"{argument}: has no columns")


def empty_file(path: Path, argument: str) -> InvalidRequest:
    """Return the error for a file without content."""
    return InvalidRequest(f"{argument}: {path.name!r} is empty; export it again")


def copy_arrow(connection: duckdb.DuckDBPyConnection, arrow: pa.Table | pa.RecordBatchReader) -> str:
    """Copy Arrow data into a new table with rows numbered from 0, and return its quoted name."""
    name = _new_name(connection)
    reader = arrow.to_reader() if isinstance(arrow, pa.Table) else arrow
    row = pa.field(ROW, pa.int64())

    def numbered() -> Iterator[pa.RecordBatch]:
        # Here, since a window over all rows is computed by one thread.
        start = 0
        for batch in reader:
            yield batch.add_column(0, row, pa.array(np.arange(start, start + len(batch), dtype=np.int64)))
            start += len(batch)

    connection.register(
        "attrib_ds_incoming", pa.RecordBatchReader.from_batches(reader.schema.insert(0, row), numbered())
    )
    try:
        connection.execute(f"CREATE TABLE {name} AS FROM attrib_ds_incoming")
    finally:
        connection.unregister("attrib_ds_incoming")
    return name


def replace_table(connection: duckdb.DuckDBPyConnection, relation: str, query: str) -> str:
    """Create a table from a query on ``relation``, drop ``relation``, and return the quoted name."""
    name = _new_name(connection)
    connection.execute(f"CREATE TABLE {name} AS {query}")
    connection.execute(f"DROP TABLE {relation}")
    return name


def _new_name(connection: duckdb.DuckDBPyConnection) -> str:
    place = connection.execute("SELECT current_database(), current_schema()").fetchall()[0]
    return ".".join(quoted(part) for part in (*place, f"source_{uuid4().hex}"))
