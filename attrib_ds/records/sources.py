"""Opens a frame, an Arrow table or a file as a DuckDB table."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

import duckdb
import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from attrib_ds import sql_results
from attrib_ds.contract.json_values import DEEPEST, is_deeper
from attrib_ds.errors import InvalidRequest
from attrib_ds.records import text_files
from attrib_ds.records.frames import read_arrow, with_index
from attrib_ds.records.person_ids import EXACT, inexact
from attrib_ds.records.text_files import ROW, check_names, copy_arrow, copy_text, empty_file, literal, quoted
from attrib_ds.records.written_files import FIRST_ROW, WORKBOOKS, read_sheet

__all__ = [
    "COMPUTED",
    "ROW",
    "UNREADABLE",
    "Source",
    "described",
    "instant",
    "literal",
    "open_source",
    "quoted",
    "with_members",
]

#: What the names of columns begin with that are computed from others.
COMPUTED: Final = f"{ROW}: "
UNREADABLE: Final = pa.schema([pa.field("row", pa.int64()), pa.field("reason", pa.string())])

_JSON_LINES: Final = (".ndjson", ".jsonl", ".json")
_PARQUET: Final = (".parquet", ".pq")
_EXTENSIONS: Final = (*text_files.DELIMITED, *_JSON_LINES, *_PARQUET, *WORKBOOKS)
_MOST_PROPERTIES: Final = 2_000
_MOST_LEVELS: Final = 16
_MOST_ROWS_OF_GROUP: Final = 50_000_000
#: Bytes of the rows of a small Parquet file.
_MOST_DECODED: Final = 2**30
#: Bytes of a column of a part, and rows of it, in memory at a time: not all of a row group.
BUFFER_BYTES: Final = 4 * 2**20
BATCH_ROWS: Final = 8_192
RFC_3339: Final = (
    r"\d{4}-\d{2}-\d{2}[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
    r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)?"
)


@dataclass(frozen=True)
class Source:
    """A frame, Arrow table or file, copied to a table of a DuckDB connection.

    Parameters
    ----------
    relation : str
        Quoted name of the table, valid for every cursor of the database.
    types : dict of str to str
        DuckDB type of each column, in order. Nested properties have dotted names.
    rows : int
        Number of readable rows; the column :data:`ROW` has their positions.
    unreadable : pyarrow.Table
        ``row`` and ``reason`` of each unreadable record.
    first : int
        Number of the first row for people: as editors show it in a file, 0 in a frame.
    """

    relation: str
    types: dict[str, str]
    rows: int
    unreadable: pa.Table = field(repr=False)
    first: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, without :data:`ROW`."""
        return tuple(self.types)

    def text(self, column: str) -> str:
        """Return SQL for the column as text; whole numbers have no decimal point."""
        name, kind = quoted(column), self.types[column]
        if kind == "VARCHAR":
            return name
        if kind in {"DOUBLE", "FLOAT"}:
            # pandas turns integers into floats if one is missing: 75001.0 was 75001.
            whole = f"CASE WHEN {name} % 1 = 0 THEN TRY_CAST({name} AS BIGINT) END"
            return f"coalesce(CAST({whole} AS VARCHAR), CAST({name} AS VARCHAR))"
        if kind == "BLOB":
            return f"TRY(decode({name}))"
        if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION")):
            return f"CAST(to_json({name}) AS VARCHAR)"
        return f"CAST({name} AS VARCHAR)"

    def word(self, column: str) -> str:
        """Return SQL for the column as trimmed text, NULL if blank."""
        text, kind = self.text(column), self.types[column]
        if kind.startswith("TIMESTAMP"):
            return text
        blank = f"NULLIF(trim({text}), '')"
        # Trimming walks through the whole text; most texts begin and end with a visible letter of ASCII.
        is_trimmed = f"{text}[1] BETWEEN '!' AND '~' AND {text}[-1] BETWEEN '!' AND '~'"
        return f"CASE WHEN {is_trimmed} THEN {text} ELSE {blank} END" if kind == "VARCHAR" else blank

    def require_exact(self, connection: duckdb.DuckDBPyConnection, column: str, argument: str) -> None:
        """Refuse ids that are floats too large to be exact."""
        if self.types[column] not in {"DOUBLE", "FLOAT"}:
            return
        name, size = quoted(column), 4 if self.types[column] == "FLOAT" else 8
        found = sql_results.read_row(
            connection,
            f"SELECT {name} FROM {self.relation} WHERE abs({name}) > {2 ** EXACT[size]} AND isfinite({name}) "
            "LIMIT 1",
        )
        if found is not None:
            raise inexact(argument, column, float(found[0]), size=size)

    def number(self, column: str) -> str:
        """Return SQL for the column as DOUBLE, NULL if not a number."""
        if self.types[column] in {"DOUBLE", "FLOAT"}:
            return f"CAST({quoted(column)} AS DOUBLE)"
        if self.types[column] == "INTERVAL":
            return f"epoch({quoted(column)})"
        return f"TRY_CAST({self.word(column)} AS DOUBLE)"

    def amount(self, column: str) -> str:
        """Return SQL for the column as DECIMAL(24,6), NULL if not a number or with more decimals."""
        name, kind = quoted(column), self.types[column]
        if kind in {"DOUBLE", "FLOAT"}:
            # Floats are inexact and get rounded; text is not.
            return f"TRY_CAST({name} AS DECIMAL(24,6))"
        if kind != "VARCHAR":
            amount = f"TRY_CAST({name} AS DECIMAL(24,6))"
            return f"CASE WHEN {amount} = {name} THEN {amount} END"
        word = self.word(column)
        # Casting text to a decimal of up to 18 digits is a hundred times faster than to a longer one.
        amount = f"coalesce(TRY_CAST({word} AS DECIMAL(18,6)), TRY_CAST({word} AS DECIMAL(24,6)))"
        exact = f"CASE WHEN TRY_CAST({word} AS DECIMAL(38,18)) = {amount} THEN {amount} END"
        return (
            f"CASE WHEN {word} IS NULL OR regexp_matches({word}, '\\.\\d{{6}}\\d*[1-9]') THEN NULL "
            f"WHEN regexp_matches({word}, '[eE]') THEN {exact} ELSE {amount} END"
        )

    def flag(self, column: str) -> str:
        """Return SQL for the column as BOOLEAN, NULL if not true, false, 1 or 0."""
        if self.types[column] == "BOOLEAN":
            return quoted(column)
        word = f"lower({self.word(column)})"
        return f"CASE WHEN {word} IN ('true', '1') THEN true WHEN {word} IN ('false', '0') THEN false END"

    def instant(self, column: str) -> str:
        """Return SQL for the column as a UTC instant of type TIMESTAMP, NULL if not an instant."""
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
        SQL of type TIMESTAMP: the instant in UTC, truncated to microseconds, leap seconds as
        ``:59.999999``; NULL if the text is not an instant.

    Examples
    --------
    >>> import duckdb
    >>> duckdb.execute("SELECT " + instant("'2025-01-31t13:00:00+01:00'")).fetchone()
    (datetime.datetime(2025, 1, 31, 12, 0),)
    >>> duckdb.execute("SELECT " + instant("'2025-01-31'")).fetchone()
    (None,)
    """
    leapless = rf"regexp_replace(upper({text}), ':60(\.\d+)?', ':59.999999')"
    has_offset = rf"regexp_matches({text}, '([Zz]|[+-]\d{{2}}:\d{{2}})$')"
    zoned = f"{leapless} || CASE WHEN {has_offset} THEN '' ELSE 'Z' END"
    # A cast of text with an offset straight to TIMESTAMP would drop the offset.
    moment = f"make_timestamp(epoch_us(TRY_CAST({zoned} AS TIMESTAMPTZ)))"
    return f"CASE WHEN regexp_full_match({text}, '{RFC_3339}') THEN {_within_years(moment)} END"


def _within_years(moment: str) -> str:
    return f"CASE WHEN year({moment}) BETWEEN 1 AND 9999 THEN {moment} END"


def open_source(
    connection: duckdb.DuckDBPyConnection,
    source: object,
    *,
    argument: str,
    opaque: Collection[str] = (),
    encoding: str | None = None,
    form: str | None = None,
    tolerant: bool = False,
) -> Source:
    """Copy a frame, an Arrow table or a file into a new table of a connection.

    The table is created in the current database and schema of the connection; the caller drops it. No Python
    objects are created per row.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to create the table in.
    source : DataFrame, Arrow table, record batch or reader, or path
        A path ends in ``.csv``, ``.tsv``, ``.ndjson``, ``.jsonl``, ``.json`` (optionally with ``.gz``) or
        ``.parquet``, or is an ``.xlsx`` workbook, whose first sheet is read. In delimited text all columns
        are text, and empty unquoted cells are missing. JSON is one object per line or one array of objects;
        nested objects become dotted columns.
    argument : str
        Name of the argument in an error message.
    opaque : collection of str
        Properties with an open shape, kept as JSON text.
    encoding : str, optional
        Encoding of delimited text; by default UTF-16 where the first bytes say so, or else UTF-8.
    form : str, optional
        Ending that the name of the file has by its content; by default its own counts.
    tolerant : bool, default False
        Whether columns of delimited text may have no name.

    Returns
    -------
    Source
        The table, with row positions and unreadable records.

    Raises
    ------
    InvalidRequest
        If the source is of another type, empty or missing, or has unnamed or repeated columns.

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
            return _open_path(
                connection, Path(source), argument, opaque, encoding=encoding, form=form, tolerant=tolerant
            )
        if isinstance(source, pd.DataFrame):
            source = with_index(source)
            check_names(source.columns, argument)
            opened = _from_arrow(connection, _to_arrow(source, opaque), argument, opaque)
            return replace(opened, first=source.attrs.get(FIRST_ROW, 0))
        if isinstance(source, pa.RecordBatch) or hasattr(source, "__arrow_c_stream__"):
            return _from_arrow(connection, read_arrow(argument, source), argument, opaque)
    except (pa.ArrowException, duckdb.Error, OSError, EOFError, UnicodeError) as error:
        # What a reader of batches raises, comes back by Arrow and DuckDB.
        reason = str(error).split("\n")[0].rpartition("IOError: ")[2].partition(". Detail: ")[0]
        name = f"{str(source)!r} " if isinstance(source, str | Path) else ""
        raise InvalidRequest(f"{argument}: {name}cannot be read: {reason}") from error
    raise InvalidRequest(
        f"{argument}: cannot read an object of type {type(source).__name__}; "
        f"give a DataFrame, an Arrow table or a path that ends in {', '.join(_EXTENSIONS)}"
    )


def _open_path(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    argument: str,
    opaque: Collection[str],
    *,
    encoding: str | None,
    form: str | None,
    tolerant: bool,
) -> Source:
    path = path.expanduser()
    if form is None:
        text_files.check_content(path, argument)
    name = path.name.casefold()
    extension = form or Path(name.removesuffix(".gz")).suffix
    if extension not in _EXTENSIONS or (extension in (*_PARQUET, *WORKBOOKS) and name.endswith(".gz")):
        raise InvalidRequest(
            f"{argument}: the name {path.name!r} does not say what is in the file; "
            f"allowed endings: {', '.join(_EXTENSIONS)}; text also with .gz behind it"
        )
    if not path.is_file():
        problem = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise InvalidRequest(f"{argument}: {str(path)!r} {problem}")
    if path.stat().st_size == 0:
        raise empty_file(path, argument)
    if extension in _PARQUET:
        with pa.parquet.ParquetFile(path) as file:
            check_parquet(file.metadata, path.name, path.stat().st_size, argument=argument)
            most = max(_MOST_DECODED, text_files.MOST_FOLD * path.stat().st_size)
            bounded = _bounded(file.iter_batches(BATCH_ROWS), most)
            batches = pa.RecordBatchReader.from_batches(file.schema_arrow, bounded)
            return replace(_from_arrow(connection, batches, argument, opaque), first=1)
    if extension in WORKBOOKS:
        return open_source(connection, read_sheet(path, argument=argument), argument=argument, opaque=opaque)
    if extension in text_files.DELIMITED:
        return described(
            connection, *text_files.copy_delimited(connection, path, argument, encoding, tolerant=tolerant)
        )
    return _from_json_lines(connection, path, argument, opaque)


def check_parquet(metadata: pa.parquet.FileMetaData, name: str, size: int, *, argument: str = "hits") -> None:
    """Refuse a file that is small and says that its columns are many, or its content huge."""
    if metadata.num_columns > _MOST_PROPERTIES:
        raise InvalidRequest(
            f"{argument}: {name!r} has {metadata.num_columns:,} columns; allowed: {_MOST_PROPERTIES:,}"
        )
    most_bytes = max(text_files.SMALL_CONTENT, text_files.MOST_FOLD * size)
    # A group is read as a whole. Repeated values take few bytes, however many rows have them.
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for what, number, most in (
            ("rows", group.num_rows, _MOST_ROWS_OF_GROUP),
            ("bytes", group.total_byte_size, most_bytes),
        ):
            if number > most:
                raise InvalidRequest(
                    f"{argument}: {name!r} has {number:,} {what} in a row group; allowed: {most:,}; "
                    "write it with smaller row groups"
                )


def _bounded(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file; it may repeat a long text in many rows at the cost of a few bytes."""
    held = 0
    for batch in batches:
        for values in batch.columns:
            held += (values.dictionary_decode() if pa.types.is_dictionary(values.type) else values).nbytes
        if held > most:
            raise OSError(
                f"its rows have more than {most:,} bytes; allowed is {text_files.MOST_FOLD} times its size"
            )
        yield batch


def _to_arrow(frame: pd.DataFrame, opaque: Collection[str]) -> pa.Table:
    """Convert a frame to Arrow; columns of mixed objects, which Arrow refuses, become text."""
    columns = []
    for name, values in frame.items():
        first = values.dropna().head(1)
        if name in opaque and len(first) and isinstance(first.iloc[0], dict | list):
            # As a struct, each row would get the keys of all other rows.
            values = values.map(_as_text, na_action="ignore")
        try:
            columns.append(pa.array(values, from_pandas=True))
        except (pa.ArrowException, OverflowError):
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
    check_names(arrow.schema.names, argument)
    reader = arrow.to_reader() if isinstance(arrow, pa.Table) else arrow
    nothing = [pa.nulls(0, field.type) for field in reader.schema]
    flat = _flattened(pa.RecordBatch.from_arrays(nothing, reader.schema.names), opaque).schema
    check_names(flat.names, argument)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            # DuckDB crashes, or closes the database, on offsets and times out of range.
            batch.validate(full=True)
            yield _flattened(batch, opaque)

    copied = copy_arrow(connection, pa.RecordBatchReader.from_batches(flat, batches()))
    return described(connection, copied, [])


def _flattened(batch: pa.RecordBatch, opaque: Collection[str]) -> pa.RecordBatch:
    """Return the leaves of structs under dotted names."""
    leaves: list[tuple[str, pa.Array]] = []
    waiting = list(zip(batch.schema.names, batch.columns, strict=True))
    while waiting:
        name, values = waiting.pop(0)
        if pa.types.is_struct(values.type) and name not in opaque:
            members = zip(values.type, values.flatten(), strict=True)
            waiting[:0] = [(f"{name}.{field.name}", child) for field, child in members]
        else:
            leaves.append((name, sql_results.in_microseconds(values)))
    return pa.RecordBatch.from_arrays([values for _, values in leaves], [name for name, _ in leaves])


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
    lines = text_files.replace_table(
        connection, lines, f"SELECT {quoted(ROW)}, line, {kind} AS kind FROM {lines}"
    )
    brackets = "length(line) - length(replace(replace(line, '[', ''), '{', ''))"
    crowded = connection.execute(
        f"SELECT {quoted(ROW)}, line FROM {lines} WHERE kind = 'OBJECT' AND {brackets} > {DEEPEST}"
    )
    portions = iter(lambda: crowded.fetchmany(BATCH_ROWS), [])
    deep = [row for portion in portions for row, line in portion if is_deeper(line.encode())]
    connection.execute(
        f"UPDATE {lines} SET kind = 'DEEP' WHERE {quoted(ROW)} IN (SELECT unnest(?::BIGINT[]))", [deep]
    )
    unreadable += connection.execute(
        f"SELECT {quoted(ROW)}, CASE kind WHEN 'DEEP' THEN {literal(_TOO_DEEP)} "
        "ELSE if(kind IS NULL, 'not valid JSON', 'not a JSON object') END"
        f" FROM {lines} WHERE kind IS DISTINCT FROM 'OBJECT'"
    ).fetchall()
    lines = text_files.replace_table(
        connection, lines, f"SELECT {quoted(ROW)}, line FROM {lines} WHERE kind = 'OBJECT'"
    )
    properties = _json_properties(connection, lines, opaque, argument)
    if not properties and not unreadable:
        raise empty_file(path, argument)
    check_names(dict.fromkeys(name for name, _, _ in properties), argument, least=0)
    return described(
        connection, text_files.replace_table(connection, lines, _pick(properties, lines)), unreadable, 1
    )


def with_members(connection: duckdb.DuckDBPyConnection, source: Source, column: str) -> Source:
    """Return a table with the members of a column of JSON objects in its place, if they are not too many.

    Their names have that of the column and a dot before them.
    """
    word = source.word(column)
    is_object = f"json_valid({word}) AND {word}[1] = '{{'"
    objects = f"SELECT {quoted(ROW)}, CASE WHEN {is_object} THEN {word} END AS line FROM {source.relation}"
    lines = f"(SELECT * FROM ({objects}) WHERE line IS NOT NULL)"
    try:
        properties = _json_properties(connection, lines, (), column)
    except InvalidRequest:
        return source
    taken = {name.casefold() for name in source.columns}
    named = [(f"{column}.{name}", pointer, is_mixed) for name, pointer, is_mixed in properties]
    named = [each for each in named if each[0].casefold() not in taken]
    query = (
        f"SELECT whole.* EXCLUDE ({quoted(column)}), members.* EXCLUDE ({quoted(ROW)}) FROM "
        f"{source.relation} AS whole LEFT JOIN ({_pick(named, lines)}) AS members USING ({quoted(ROW)}) "
        f"ORDER BY {quoted(ROW)}"
    )
    return selected(connection, source, query)


def _array(path: Path, argument: str) -> pa.Table | None:
    """Return the elements of a file with one JSON array, or None if it has JSON lines."""
    with text_files.open_binary(path) as file:
        start = file.read(text_files.BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start.startswith(b"["):
            return None
        text = start + file.read()
    if is_deeper(text, DEEPEST + 1):
        raise InvalidRequest(f"{argument}: {str(path)!r} is {_TOO_DEEP}")
    try:
        elements = msgspec.json.decode(text, type=list[msgspec.Raw])
        return pa.table({"line": pa.array([bytes(element).decode() for element in elements], pa.string())})
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # A line may be an array too, which is then reported as a record.
        if b"\n" in text.strip():
            return None
        raise InvalidRequest(f"{argument}: {str(path)!r} is not valid JSON: {error}") from error


_TOO_DEEP: Final = f"nested too deeply; expected at most {DEEPEST} levels"
#: A leaf of objects in JSON lines: its name, its pointer, and whether it is an object in other rows.
_Property: TypeAlias = tuple[str, str, bool]


def _json_properties(
    connection: duckdb.DuckDBPyConnection, lines: str, opaque: Collection[str], argument: str
) -> list[_Property]:
    """Return the leaves of all lines, level by level in one pass each."""
    found: list[_Property] = []
    waiting = [("", "")]
    while waiting:
        prefix, parent = waiting.pop(0)
        if parent.count("/") >= _MOST_LEVELS:  # each is one more pass
            problem = f"{argument}: objects are nested more than {_MOST_LEVELS} deep"
            raise InvalidRequest(f"{problem}, below {prefix!r}", field=argument)
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
                found.append((f"{prefix}{key}", pointer, is_open))
    return found


def _kinds(
    connection: duckdb.DuckDBPyConnection, lines: str, pointers: Sequence[str]
) -> list[tuple[bool, bool]]:
    """Return for each pointer whether any line has an object there, and whether any has a value."""
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
    """Return a query of the properties as columns that parses each line once."""
    pointers = _texts([pointer for _, pointer, _ in properties])
    expressions: dict[str, list[str]] = {}
    for at, (name, _, is_mixed) in enumerate(properties, start=1):
        value = f"CASE WHEN kinds[{at}] <> 'OBJECT' THEN parts[{at}] END" if is_mixed else f"parts[{at}]"
        expressions.setdefault(name, []).append(value)
    columns = [f", coalesce({', '.join(values)}) AS {quoted(name)}" for name, values in expressions.items()]
    parts = f"json_extract_string(line, {pointers}) AS parts, json_type(line, {pointers}) AS kinds"
    return f"SELECT {quoted(ROW)}{''.join(columns)} FROM (SELECT {quoted(ROW)}, {parts} FROM {lines})"


def described(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    unreadable: Sequence[tuple[int, str]] | pa.Table = (),
    first: int = 0,
) -> Source:
    """Return a table of the database as a source, with the rows that could not be read into it."""
    table = connection.sql(f"FROM {relation}")
    columns = zip(table.columns, table.types, strict=True)
    if not isinstance(unreadable, pa.Table):
        positions, reasons = zip(*sorted(unreadable), strict=True) if unreadable else ((), ())
        unreadable = pa.table([positions, reasons], schema=UNREADABLE)
    return Source(
        relation=relation,
        types={name: str(kind) for name, kind in columns if name != ROW and not name.startswith(COMPUTED)},
        rows=connection.execute(f"SELECT count(*) FROM {relation}").fetchall()[0][0],
        unreadable=unreadable,
        first=first,
    )


def selected(connection: duckdb.DuckDBPyConnection, source: Source, query: str) -> Source:
    """Return a source with the rows of a query in place of its own."""
    relation = text_files.replace_table(connection, source.relation, query)
    return described(connection, relation, source.unreadable, source.first)


def cases(word: str, values: Mapping[str, str], otherwise: str = "NULL") -> str:
    """Return SQL of the value, which is SQL too, that stands for a word.

    Examples
    --------
    >>> cases("name", {"it's": "1"})
    "CASE name WHEN 'it''s' THEN 1 ELSE NULL END"
    """
    whens = " ".join(f"WHEN {literal(each)} THEN {value}" for each, value in values.items())
    return f"CASE {word} {whens} ELSE {otherwise} END" if values else otherwise


def _texts(values: Sequence[str]) -> str:
    return f"[{', '.join(literal(value) for value in values)}]::VARCHAR[]"
