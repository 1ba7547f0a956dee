"""Opens what users hand over, a frame, an Arrow table or a file, as one DuckDB table."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.numbered_rows import (
    BLOCK_BYTES,
    ROW,
    copy_arrow,
    copy_text,
    literal,
    open_binary,
    quoted,
    replace_table,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["ROW", "UNREADABLE", "Source", "instant", "literal", "open_source", "quoted"]

UNREADABLE: Final = pa.schema([pa.field("row", pa.int64()), pa.field("reason", pa.string())])

_DELIMITED: Final = (".csv", ".tsv")
_JSON_LINES: Final = (".ndjson", ".jsonl", ".json")
_PARQUET: Final = (".parquet", ".pq")
_EXTENSIONS: Final = (*_DELIMITED, *_JSON_LINES, *_PARQUET)
_DELIMITERS: Final = ",;\t|"
_MOST_PROPERTIES: Final = 2_000
_RFC_3339: Final = (
    r"\d{4}-\d{2}-\d{2}[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
    r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)?"
)


@dataclass(frozen=True)
class Source:
    """What a user handed over, as a table of a DuckDB connection.

    Parameters
    ----------
    relation : str
        Quoted name of the table, good for every cursor of the connection's database.
    types : dict of str to str
        DuckDB type of each column, in the order of the columns. Nested properties have dotted names.
    rows : int
        Rows that could be read; the column :data:`ROW` holds their positions.
    unreadable : pyarrow.Table
        ``row`` and ``reason`` of each record that could not be read.
    """

    relation: str
    types: dict[str, str]
    rows: int
    unreadable: pa.Table = field(repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, without :data:`ROW`."""
        return tuple(self.types)

    def text(self, column: str) -> str:
        """Return SQL for the column as text, whatever its type; a whole number has no decimal point."""
        name, kind = quoted(column), self.types[column]
        if kind == "VARCHAR":
            return name
        if kind in {"DOUBLE", "FLOAT"}:
            # pandas turns integers into floats as soon as one is missing: 75001.0 was the text 75001.
            whole = f"CASE WHEN {name} % 1 = 0 THEN TRY_CAST({name} AS BIGINT) END"
            return f"coalesce(CAST({whole} AS VARCHAR), CAST({name} AS VARCHAR))"
        if kind == "BLOB":
            return f"TRY(decode({name}))"
        if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION")):
            return f"CAST(to_json({name}) AS VARCHAR)"
        return f"CAST({name} AS VARCHAR)"

    def word(self, column: str) -> str:
        """Return SQL for the column as trimmed text, where a blank is missing."""
        return f"NULLIF(trim({self.text(column)}), '')"

    def number(self, column: str) -> str:
        """Return SQL for the column as DOUBLE, NULL where it is no number."""
        if self.types[column] in {"DOUBLE", "FLOAT"}:
            return f"CAST({quoted(column)} AS DOUBLE)"
        if self.types[column] == "INTERVAL":
            return f"epoch({quoted(column)})"
        return f"TRY_CAST({self.word(column)} AS DOUBLE)"

    def amount(self, column: str) -> str:
        """Return SQL for the column as DECIMAL(24,6), NULL where it is no number or has finer digits."""
        name, kind = quoted(column), self.types[column]
        if kind in {"DOUBLE", "FLOAT"}:
            # A binary fraction was never exact; its digits are rounded, those of text are not.
            return f"TRY_CAST({name} AS DECIMAL(24,6))"
        if kind != "VARCHAR":
            amount = f"TRY_CAST({name} AS DECIMAL(24,6))"
            return f"CASE WHEN {amount} = {name} THEN {amount} END"
        word = self.word(column)
        # Reading text as a decimal of up to 18 digits is a hundred times faster than as a longer one.
        amount = f"coalesce(TRY_CAST({word} AS DECIMAL(18,6)), TRY_CAST({word} AS DECIMAL(24,6)))"
        exact = f"CASE WHEN TRY_CAST({word} AS DECIMAL(38,18)) = {amount} THEN {amount} END"
        return (
            f"CASE WHEN {word} IS NULL OR regexp_matches({word}, '\\.\\d{{6}}\\d*[1-9]') THEN NULL "
            f"WHEN regexp_matches({word}, '[eE]') THEN {exact} ELSE {amount} END"
        )

    def flag(self, column: str) -> str:
        """Return SQL for the column as BOOLEAN, NULL where it is none of true, false, 1 and 0."""
        if self.types[column] == "BOOLEAN":
            return quoted(column)
        word = f"lower({self.word(column)})"
        return f"CASE WHEN {word} IN ('true', '1') THEN true WHEN {word} IN ('false', '0') THEN false END"

    def instant(self, column: str) -> str:
        """Return SQL for the column as a UTC instant of type TIMESTAMP, NULL where it is none."""
        name, kind = quoted(column), self.types[column]
        if kind == "TIMESTAMP WITH TIME ZONE":
            return _within_years(f"make_timestamp(epoch_us({name}))")
        if kind.startswith("TIMESTAMP"):
            return _within_years(f"CAST({name} AS TIMESTAMP)")
        return instant(self.word(column)) if kind == "VARCHAR" else "CAST(NULL AS TIMESTAMP)"


def instant(text: str) -> str:
    """Return SQL that reads RFC 3339 text as a UTC instant, of type TIMESTAMP.

    Parameters
    ----------
    text : str
        SQL of type VARCHAR.

    Returns
    -------
    str
        SQL of type TIMESTAMP: the instant in UTC, microseconds, further digits cut off, the leap second
        read as ``:59.999999``; NULL where the text is not such an instant (G-038, G-039).

    Examples
    --------
    >>> import duckdb
    >>> duckdb.sql("SELECT " + instant("'2025-01-31t13:00:00+01:00'")).fetchone()
    (datetime.datetime(2025, 1, 31, 12, 0),)
    >>> duckdb.sql("SELECT " + instant("'2025-01-31'")).fetchone()
    (None,)
    """
    leapless = rf"regexp_replace(upper({text}), ':60(\.\d+)?', ':59.999999')"
    has_offset = rf"regexp_matches({text}, '([Zz]|[+-]\d{{2}}:\d{{2}})$')"
    zoned = f"{leapless} || CASE WHEN {has_offset} THEN '' ELSE 'Z' END"
    # A cast of text with an offset straight to TIMESTAMP would drop the offset.
    moment = f"make_timestamp(epoch_us(TRY_CAST({zoned} AS TIMESTAMPTZ)))"
    return f"CASE WHEN regexp_full_match({text}, '{_RFC_3339}') THEN {_within_years(moment)} END"


def _within_years(moment: str) -> str:
    return f"CASE WHEN year({moment}) BETWEEN 1 AND 9999 THEN {moment} END"


def open_source(
    connection: duckdb.DuckDBPyConnection,
    source: object,
    *,
    argument: str,
    opaque: Collection[str] = (),
) -> Source:
    """Copy what a user handed over into a new table of the connection.

    No Python object is made per row. The table lies in the connection's current database and schema; the
    caller drops it.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Where the table is made.
    source : DataFrame, Arrow table, record batch or reader, or path
        A path ends in ``.csv``, ``.tsv``, ``.ndjson``, ``.jsonl``, ``.json`` (each also with ``.gz``) or
        ``.parquet``. In delimited text every column is text and an empty unquoted cell is missing. In
        JSON, one object per line or one array of objects, nested objects become dotted columns, found over
        all rows.
    argument : str
        What the source is called in an error message.
    opaque : collection of str
        Properties that stay whole, as JSON text, because their shape is open.

    Returns
    -------
    Source
        The table, with the positions of the rows and the records that could not be read.

    Raises
    ------
    InvalidRequest
        If the source is of no such kind, is empty, is not there, or has unnamed or repeated columns.

    Examples
    --------
    >>> import duckdb
    >>> frame = pd.DataFrame({"userId": ["a", "b"], "geo.city": ["Paris", None]})
    >>> connection = duckdb.connect()
    >>> visits = open_source(connection, frame, argument="interactions")
    >>> visits.columns, visits.rows
    (('userId', 'geo.city'), 2)
    >>> connection.execute(f'SELECT "#row", "geo.city" FROM {visits.relation}').fetchall()
    [(0, 'Paris'), (1, None)]
    """
    try:
        if isinstance(source, str | Path):
            return _open_path(connection, Path(source), argument, opaque)
        if isinstance(source, pd.DataFrame):
            _check_names(source.columns, argument)
            return _from_arrow(connection, _to_arrow(source, opaque), argument, opaque)
        if isinstance(source, pa.RecordBatch):
            source = pa.Table.from_batches([source])
        if not isinstance(source, pa.Table | pa.RecordBatchReader) and hasattr(source, "__arrow_c_stream__"):
            source = pa.RecordBatchReader.from_stream(source)
        if isinstance(source, pa.Table | pa.RecordBatchReader):
            return _from_arrow(connection, source, argument, opaque)
    except (pa.ArrowException, duckdb.Error, OSError, EOFError) as error:
        reason = str(error).split("\n")[0]
        told = f"{str(source)!r} " if isinstance(source, str | Path) else ""
        raise InvalidRequest(f"{argument}: {told}cannot be read: {reason}", field=argument) from error
    raise InvalidRequest(
        f"{argument}: cannot read an object of type {type(source).__name__}; "
        f"give a DataFrame, an Arrow table or a path that ends in {', '.join(_EXTENSIONS)}",
        field=argument,
    )


def _open_path(
    connection: duckdb.DuckDBPyConnection, path: Path, argument: str, opaque: Collection[str]
) -> Source:
    path = path.expanduser()
    name = path.name.casefold()
    extension = Path(name.removesuffix(".gz")).suffix
    if extension not in _EXTENSIONS or (extension in _PARQUET and name.endswith(".gz")):
        raise InvalidRequest(
            f"{argument}: the name {path.name!r} does not say what is in the file; "
            f"allowed endings: {', '.join(_EXTENSIONS)}; text also with .gz behind it",
            field=argument,
        )
    if not path.is_file():
        problem = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise InvalidRequest(f"{argument}: {str(path)!r} {problem}", field=argument)
    if path.stat().st_size == 0:
        raise _empty(path, argument)
    if extension in _PARQUET:
        with pa.parquet.ParquetFile(path) as file:
            batches = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
            return _from_arrow(connection, batches, argument, opaque)
    if extension in _DELIMITED:
        return _from_delimited(connection, path, argument)
    return _from_json_lines(connection, path, argument, opaque)


def _to_arrow(frame: pd.DataFrame, opaque: Collection[str]) -> pa.Table:
    """Turn a frame into Arrow; a column of mixed objects, which Arrow refuses, becomes text."""
    columns = []
    for name, values in frame.items():
        first = values.dropna().head(1)
        if name in opaque and len(first) and isinstance(first.iloc[0], dict | list):
            # As a struct, each row would get the keys of all the others.
            values = values.map(_as_text, na_action="ignore")
        try:
            columns.append(pa.array(values, from_pandas=True))
        except pa.ArrowException:
            columns.append(pa.array(values.map(_as_text, na_action="ignore"), pa.string(), from_pandas=True))
    return pa.table(columns, names=list(frame.columns))


def _as_text(value: object) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


def _from_arrow(
    connection: duckdb.DuckDBPyConnection,
    arrow: pa.Table | pa.RecordBatchReader,
    argument: str,
    opaque: Collection[str],
) -> Source:
    _check_names(arrow.schema.names, argument)
    copied = copy_arrow(connection, arrow)
    paths = _leaf_paths(connection, copied, opaque)
    if any(len(path) > 1 for path in paths):
        _check_names([".".join(path) for path in paths], argument)
        columns = [f"{'.'.join(quoted(part) for part in path)} AS {quoted('.'.join(path))}" for path in paths]
        copied = replace_table(
            connection, copied, f"SELECT {quoted(ROW)}, {', '.join(columns)} FROM {copied}"
        )
    return _described(connection, copied, [])


def _leaf_paths(
    connection: duckdb.DuckDBPyConnection, relation: str, opaque: Collection[str]
) -> list[tuple[str, ...]]:
    """Return the path of every leaf of the table, down through its structs."""
    table = connection.sql(f"SELECT * EXCLUDE ({quoted(ROW)}) FROM {relation}")
    waiting: list[tuple[tuple[str, ...], Any]] = []
    waiting += [((name,), kind) for name, kind in zip(table.columns, table.types, strict=True)]
    found: list[tuple[str, ...]] = []
    while waiting:
        path, kind = waiting.pop(0)
        if kind.id == "struct" and ".".join(path) not in opaque:
            waiting[:0] = [((*path, member), child) for member, child in kind.children]
        else:
            found.append(path)
    return found


def _from_delimited(connection: duckdb.DuckDBPyConnection, path: Path, argument: str) -> Source:
    names, delimiter = _header(path, argument)
    _check_names(names, argument)
    copied, unreadable = copy_text(
        connection,
        path,
        names,
        parse={"delimiter": delimiter, "newlines_in_values": True},
        convert={"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False},
    )
    unreadable += _unclosed(connection, copied, path, names)
    return _described(connection, copied, unreadable)


def _unclosed(
    connection: duckdb.DuckDBPyConnection, relation: str, path: Path, names: Sequence[str]
) -> list[tuple[int, str]]:
    """Take out the last row if its quotation mark, never closed, swallowed the lines behind it."""
    is_last = f"{quoted(ROW)} = (SELECT max({quoted(ROW)}) FROM {relation})"
    has_break = " OR ".join(f"contains({quoted(name)}, chr(10))" for name in names)
    last = connection.execute(f"SELECT {quoted(ROW)} FROM {relation} WHERE {is_last} AND ({has_break})")
    row = last.fetchone()
    if row is None:
        return []
    with open_binary(path) as file:
        marks = sum(block.count(b'"') for block in iter(lambda: file.read(BLOCK_BYTES), b""))
    if marks % 2 == 0:
        return []
    connection.execute(f"DELETE FROM {relation} WHERE {quoted(ROW)} = {row[0]}")
    return [(row[0], "a quotation mark is never closed; the lines behind it were read as one cell")]


def _header(path: Path, argument: str) -> tuple[list[str], str]:
    """Return the names in the first record, and the delimiter that separates most of them."""
    # What is not UTF-8 further down is a matter of its row.
    with open_binary(path) as file:
        first = file.readline()
        while first and not first.strip():
            first = file.readline()
        line = first.decode("utf-8-sig", errors="replace")
        counts = Counter(line)
        delimiter = max(_DELIMITERS, key=lambda mark: counts[mark])
        rest = (other.decode("utf-8", errors="replace") for other in file)
        names = next(csv.reader(_chained(line, rest), delimiter=delimiter), [])
    if not names:
        raise _empty(path, argument)
    if any("\ufffd" in name for name in names):
        raise InvalidRequest(f"{argument}: {path.name!r} is not UTF-8 text", field=argument)
    return names, delimiter


def _chained(first: str, rest: Iterable[str]) -> Iterable[str]:
    yield first
    yield from rest


def _from_json_lines(
    connection: duckdb.DuckDBPyConnection, path: Path, argument: str, opaque: Collection[str]
) -> Source:
    unreadable: list[tuple[int, str]] = []
    elements = _array(path, argument)
    if elements is not None:
        lines = copy_arrow(connection, elements)
    else:
        lines, unreadable = copy_text(
            connection,
            path,
            ["line"],
            read={"column_names": ["line"]},
            parse={"delimiter": "\x01", "quote_char": False, "double_quote": False},
            convert={"strings_can_be_null": False},
        )
    kind = "CASE WHEN json_valid(line) THEN json_type(line) END"
    lines = replace_table(connection, lines, f"SELECT {quoted(ROW)}, line, {kind} AS kind FROM {lines}")
    unreadable += connection.execute(
        f"SELECT {quoted(ROW)}, CASE WHEN kind IS NULL THEN 'not valid JSON' ELSE 'not a JSON object' END"
        f" FROM {lines} WHERE kind IS DISTINCT FROM 'OBJECT'"
    ).fetchall()
    lines = replace_table(connection, lines, f"SELECT {quoted(ROW)}, line FROM {lines} WHERE kind = 'OBJECT'")
    properties = _json_properties(connection, lines, opaque, argument)
    if not properties and not unreadable:
        raise _empty(path, argument)
    _check_names(dict.fromkeys(each.name for each in properties), argument, least=0)
    return _described(connection, replace_table(connection, lines, _pick(properties, lines)), unreadable)


def _array(path: Path, argument: str) -> pa.Table | None:
    """Return the elements of a file that is one JSON array, or None where it is lines."""
    with open_binary(path) as file:
        start = file.read(BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start.startswith(b"["):
            return None
        text = start + file.read()
    try:
        elements = msgspec.json.decode(text, type=list[msgspec.Raw])
        return pa.table({"line": pa.array([bytes(each).decode() for each in elements], pa.string())})
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # A line may be an array too; then it is one of many records, and told as what it is.
        if b"\n" in text.strip():
            return None
        raise InvalidRequest(
            f"{argument}: {str(path)!r} is not valid JSON: {error}", field=argument
        ) from error


@dataclass(frozen=True)
class _Property:
    """A leaf of the objects in a file of JSON lines; mixed if other rows hold an object there."""

    name: str
    pointer: str
    is_mixed: bool


def _json_properties(
    connection: duckdb.DuckDBPyConnection, lines: str, opaque: Collection[str], argument: str
) -> list[_Property]:
    """Return the leaves of all lines, found level by level so that each level is one pass."""
    found: list[_Property] = []
    waiting = [("", "")]
    while waiting:
        prefix, parent = waiting.pop(0)
        keys_of = f"json_keys(line, {literal(parent)})" if parent else "json_keys(line)"
        keys = sorted(connection.execute(f"SELECT DISTINCT unnest({keys_of}) FROM {lines}").fetchall())
        if len(found) + len(keys) > _MOST_PROPERTIES:
            problem = f"{argument}: the objects hold more than {_MOST_PROPERTIES} different properties"
            raise InvalidRequest(f"{problem}, many of them below {prefix or 'the root'!r}", field=argument)
        pointers = [f"{parent}/{key.replace('~', '~0').replace('/', '~1')}" for (key,) in keys]
        for (key,), pointer, (has_objects, has_others) in zip(
            keys, pointers, _kinds(connection, lines, pointers), strict=True
        ):
            is_open = has_objects and f"{prefix}{key}" not in opaque
            if is_open:
                waiting.append((f"{prefix}{key}.", pointer))
            if has_others or not is_open:
                found.append(_Property(f"{prefix}{key}", pointer, is_open))
    return found


def _kinds(
    connection: duckdb.DuckDBPyConnection, lines: str, pointers: Sequence[str]
) -> list[tuple[bool, bool]]:
    """Say of each pointer whether some line holds an object there, and whether some holds a value."""
    if not pointers:
        return []
    columns = [
        f"coalesce(bool_or(kinds[{at}] = 'OBJECT'), false), "
        f"coalesce(bool_or(kinds[{at}] NOT IN ('OBJECT', 'NULL')), false)"
        for at in range(1, len(pointers) + 1)
    ]
    query = (
        f"SELECT {', '.join(columns)} FROM (SELECT json_type(line, {_texts(pointers)}) AS kinds FROM {lines})"
    )
    flags = connection.execute(query).fetchall()[0]
    return list(zip(flags[::2], flags[1::2], strict=True))


def _pick(properties: Sequence[_Property], lines: str) -> str:
    """Return the query of the properties as columns, with one parse of each line."""
    pointers = _texts([each.pointer for each in properties])
    expressions: dict[str, list[str]] = {}
    for at, each in enumerate(properties, start=1):
        value = f"CASE WHEN kinds[{at}] <> 'OBJECT' THEN parts[{at}] END" if each.is_mixed else f"parts[{at}]"
        expressions.setdefault(each.name, []).append(value)
    columns = [f", coalesce({', '.join(values)}) AS {quoted(name)}" for name, values in expressions.items()]
    parts = f"json_extract_string(line, {pointers}) AS parts, json_type(line, {pointers}) AS kinds"
    return f"SELECT {quoted(ROW)}{''.join(columns)} FROM (SELECT {quoted(ROW)}, {parts} FROM {lines})"


def _described(
    connection: duckdb.DuckDBPyConnection, relation: str, unreadable: Sequence[tuple[int, str]]
) -> Source:
    table = connection.sql(f"FROM {relation}")
    columns = zip(table.columns, table.types, strict=True)
    positions, reasons = zip(*sorted(unreadable), strict=True) if unreadable else ((), ())
    return Source(
        relation=relation,
        types={name: str(kind) for name, kind in columns if name != ROW},
        rows=connection.execute(f"SELECT count(*) FROM {relation}").fetchall()[0][0],
        unreadable=pa.table([positions, reasons], schema=UNREADABLE),
    )


def _texts(values: Sequence[str]) -> str:
    return f"[{', '.join(literal(value) for value in values)}]::VARCHAR[]"


def _check_names(names: Iterable[object], argument: str, *, least: int = 1) -> None:
    """Refuse columns without a name, with names that are no text, and with names that meet in SQL."""
    seen = {ROW: ROW}
    for position, name in enumerate(names, start=1):
        if not isinstance(name, str):
            raise InvalidRequest(f"{argument}: the column name {name!r} is not text", field=argument)
        if not name:
            raise InvalidRequest(
                f"{argument}: column {position} has no name; pandas writes such a column for the index: "
                "write with index=False",
                field=argument,
            )
        other = seen.get(name.casefold())
        if other is not None:
            problem = "is given twice" if other == name else f"differs from {other!r} in case only"
            raise InvalidRequest(f"{argument}: the column {name!r} {problem}", field=argument)
        seen[name.casefold()] = name
    if len(seen) - 1 < least:
        raise InvalidRequest(f"{argument}: has no columns", field=argument)


def _empty(path: Path, argument: str) -> InvalidRequest:
    return InvalidRequest(f"{argument}: {str(path)!r} is empty", field=argument)
