"""Copies Arrow data and text files into DuckDB tables with numbered rows."""

from __future__ import annotations

import gzip
from typing import IO, TYPE_CHECKING, Any, Final
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.csv

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
