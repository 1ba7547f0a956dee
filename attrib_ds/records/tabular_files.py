"""Text files and workbooks: their encodings and sheets, and their rows with numbers in DuckDB tables."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final
from uuid import uuid4
from zipfile import BadZipFile

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from attrib_ds.errors import InvalidRequest, closest

#: Column with the 0-based position of each row in the source.
ROW: Final = "#row"

#: Maximum length of a line: pyarrow cannot read a record across two blocks.
BLOCK_BYTES: Final = 16 << 20


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
    """Open a file in binary mode, decompressed if its name ends in ``.gz``."""
    is_packed = path.name.casefold().endswith(".gz")
    return gzip.open(path) if is_packed else path.open("rb")  # type: ignore[return-value]


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

    def skip(record: pa.csv.InvalidRow) -> str:
        # pyarrow counts from 1, including the header.
        cells = f"{record.actual_columns} cells where the header has {record.expected_columns}"
        unreadable.append((record.number - 2, cells))
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


def copy_arrow(connection: duckdb.DuckDBPyConnection, arrow: pa.Table | pa.RecordBatchReader) -> str:
    """Copy Arrow data into a new table with rows numbered from 0, and return its quoted name."""
    name = _new_name(connection)
    connection.register("attrib_ds_incoming", arrow)
    try:
        connection.execute(
            f"CREATE TABLE {name} AS "
            f"SELECT row_number() OVER () - 1 AS {quoted(ROW)}, * FROM attrib_ds_incoming"
        )
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


_START_BYTES: Final = 4_096


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


def first_foreign_line(path: Path) -> int | None:
    """Return the number of the first line that is not UTF-8, from 1; None if all are."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines = 1
    with open_binary(path) as file:
        while True:
            block = file.read(BLOCK_BYTES)
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                return lines + error.object[: error.start].count(b"\n")
            if not block:
                return None
            lines += block.count(b"\n")


def checked_encoding(encoding: str | None) -> str | None:
    """Check the name of an encoding.

    Raises
    ------
    InvalidRequest
        If Python has no such codec of text.
    """
    if encoding is None:
        return None
    try:
        "".encode(encoding)
    except (LookupError, TypeError) as error:
        raise InvalidRequest(
            f"encoding: {encoding!r} is not allowed; allowed: the name of a codec, such as 'cp1252' or "
            "'utf-16'",
            field="encoding",
        ) from error
    return encoding


WORKBOOKS: Final = (".xlsx",)
#: Errors of damaged files, whose parts are read one by one; those of XML parsers are syntax errors.
_DAMAGES: Final = (ValueError, TypeError, KeyError, SyntaxError, EOFError, BadZipFile, zlib.error)


def read_sheet(path: Path, sheet: str | None = None, *, argument: str, called: str = "sheet") -> pd.DataFrame:
    """Return a sheet of a workbook, by default the first.

    Raises
    ------
    InvalidRequest
        If the file is no workbook, or has no such sheet, or the sheet is empty; the message names the
        ``argument`` of the file, or that of the sheet (``called``).
    """
    with _opened(path, argument) as book:
        names = list(map(str, book.sheet_names))
        sheet = None if sheet is None else str(sheet)
        if sheet is not None and sheet not in names:
            raise InvalidRequest(
                f"{called}: {path.name!r} has no sheet {sheet!r}{closest(sheet, names)}; "
                f"sheets: {', '.join(names)}",
                field=called,
            )
        rows = pd.read_excel(book, sheet_name=sheet or 0, keep_default_na=False, na_values=[""])
    if not len(rows.columns):
        others = f"; sheets: {', '.join(names)}" if len(names) > 1 else ""
        raise InvalidRequest(
            f"{argument}: the sheet {sheet or names[0]!r} of {path.name!r} is empty{others}", field=argument
        )
    return rows


def sheet_columns(path: Path) -> dict[str, list[str]]:
    """Return the names of the columns of each sheet, in order."""
    with _opened(path, "path") as book:
        return {
            str(name): list(map(str, pd.read_excel(book, sheet_name=name, nrows=0).columns))
            for name in book.sheet_names
        }


def sheet_names(path: Path, argument: str) -> list[str]:
    """Return the names of the sheets, in order."""
    with _opened(path, argument) as book:
        return list(map(str, book.sheet_names))


@contextmanager
def _opened(path: Path, argument: str) -> Iterator[pd.ExcelFile]:
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            yield book
    except ImportError as error:
        raise InvalidRequest(
            f"{argument}: {path.name!r} needs the package openpyxl; install attrib-ds[excel], or save the "
            "sheet as CSV",
            field=argument,
        ) from error
    except InvalidRequest:
        raise
    except _DAMAGES as error:
        raise InvalidRequest(
            f"{argument}: {path.name!r} is not a workbook: {error}", field=argument
        ) from error
