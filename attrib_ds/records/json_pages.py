"""Reads JSON answers into Arrow tables, in native code where that is exact.

Arrow parses records of plain columns with declared types. Open objects, decimals and new fields are kept as
JSON text. If native code refuses an answer, or would read it differently, the reference implementation
:func:`attrib_ds.records.json_records.from_json` reads it instead.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from attrib_ds import instants
from attrib_ds.contract.json_values import Refused, shown
from attrib_ds.errors import InvalidRequest, ServiceFailure
from attrib_ds.records.json_members import Names, NotAnObject, Texts, walk
from attrib_ds.records.json_records import decode, from_json
from attrib_ds.records.json_structs import TooManyNewMembers, decode_structs, whole
from attrib_ds.schema import is_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Kind = Literal["page", "array", "record"]

_COUNTERS: Final = ("offset", "limit", "count", "total")
#: The block size of Arrow is a signed 32-bit integer.
_LARGEST: Final = 2**31 - 64
_INTEGER: Final = pa.int64()
#: Reads whole numbers exactly that are written with a point or an exponent.
_WHOLE: Final = pa.decimal128(38)
#: Arrow converts values after it has checked that all are of the right kind: no text is left among numbers.
_MISCONVERTED: Final = "Failed to convert JSON"
_TWICE: Final = "was specified twice"
#: Length of ``2025-01-31T12:00:00Z``; Arrow also accepts shorter texts as instants.
_SHORTEST_INSTANT: Final = 20
#: Parts of a page that are read on their own, and their least number of records.
_PARTS: Final = 16
_SMALLEST_PART: Final = 256
_FIRST_INSTANT: Final = datetime(1, 1, 1, tzinfo=UTC)
_BLANKS: Final = b" \t\n\r"
_NANOSECONDS: Final = r"(\.\d{6})\d{1,3}Z$"
#: Bytes within which a page must start.
_LONGEST_START: Final = 64
_NULL_AFTER_OBJECT: Final = r"\}[ \t\n\r]*null"


class _Paged(msgspec.Struct):
    """An answer of the kind ``page`` with unparsed records."""

    data: msgspec.Raw
    offset: int | None = None
    limit: int | None = None
    count: int | None = None
    total: int | None = None


class _Listed(msgspec.Struct):
    """The same without counters."""

    data: list[msgspec.Raw]


@dataclass(frozen=True)
class Page:
    """The records of an answer.

    Parameters
    ----------
    table : pyarrow.Table
        One row per record; its columns and types do not depend on the records.
    unknown : pyarrow.Table
        One column of JSON text per field that is not in the schema, named by its dotted path (a key with a
        dot is quoted); as many rows as the table if there is any such field.
    count : int
        Number of records.
    total : int, optional
        Number of matching records, in a page.
    offset, limit : int, optional
        Repeated from the request, in a page.
    """

    table: pa.Table
    unknown: pa.Table
    count: int
    total: int | None = None
    offset: int | None = None
    limit: int | None = None


class InexactError(Exception):
    """Native code would read this answer differently than the reference."""


def read_page(
    content: bytes, columns: pa.Schema, *, kind: Kind = "page", known: pa.Schema | None = None
) -> Page:
    """Read an answer of JSON records.

    Parameters
    ----------
    content : bytes
        JSON in UTF-8.
    columns : pyarrow.Schema
        Of the table: the schema of a resource, or the requested columns. Dotted names are nested properties;
        fields marked as JSON keep their text.
    kind : {"page", "array", "record"}, default "page"
        Whether the records are the ``data`` of an object with counters, a bare array, or a single record.
    known : pyarrow.Schema, optional
        Whole schema of the resource, if ``columns`` is a part of it; its other properties are left out and do
        not count as unknown.

    Returns
    -------
    Page
        Rows in the order of the records; absent members are null.

    Raises
    ------
    ServiceFailure
        If the answer is not JSON or not of this kind, if the number of records differs from ``count``, or if
        a value does not fit its column.

    Examples
    --------
    >>> from attrib_ds.schema import INTERACTION
    >>> cities = pa.schema([INTERACTION.field("_id"), INTERACTION.field("geo.city")])
    >>> page = read_page(b'{"total": 7, "data": [{"_id": "a", "geo": {"city": "Oslo", "pop": 1e6}}]}', cities)
    >>> page.table.to_pylist(), page.unknown.to_pylist(), page.total
    ([{'_id': 'a', 'geo.city': 'Oslo'}], [{'geo.pop': '1e6'}], 7)
    """
    names = names_of(columns, known)
    try:
        page = read_natively(content, columns, kind, names)
    except LEFT_TO_THE_REFERENCE:
        page = _read_leniently(content, columns, kind, names)
    if page.count != page.table.num_rows:
        raise ServiceFailure(
            f"the service answered {page.table.num_rows} records in a page with count {page.count}"
        )
    return page


def names_of(columns: pa.Schema, known: pa.Schema | None) -> Names:
    """Return the names of members, and which of them to keep as text."""
    every = columns.names if known is None else [*columns.names, *known.names]
    return Names.of(every, [field.name for field in columns if _is_cut_out(field)])


def _parts_of_others(columns: pa.Schema) -> list[pa.Field]:
    """Return columns that are part of another column, such as ``metrics.turnover.sum`` of ``metrics``."""
    names = set(columns.names)
    return [
        field
        for field in columns
        if any(field.name[:position] in names for position, sign in enumerate(field.name) if sign == ".")
    ]


def _is_cut_out(field: pa.Field) -> bool:
    """Return whether the column is read from JSON text: open objects and decimals."""
    return is_json(field) or pa.types.is_decimal(field.type)


#: Raised by :func:`read_natively` if it cannot read an answer exactly.
LEFT_TO_THE_REFERENCE: Final = (
    InexactError,
    NotAnObject,
    pa.ArrowException,
    msgspec.MsgspecError,
    RecursionError,
    InvalidRequest,
    Refused,
    TooManyNewMembers,
    OverflowError,
    ValueError,
)


def read_natively(content: bytes, columns: pa.Schema, kind: Kind, names: Names) -> Page:
    """Read an answer as :func:`read_page` does, or raise one of :data:`LEFT_TO_THE_REFERENCE`."""
    if _parts_of_others(columns):
        raise InexactError
    _text(content)  # Arrow's reader does not validate UTF-8
    try:
        # Stops at the first undeclared member, so the attempt is cheap.
        counters, records = _parse_whole(content, columns, kind)
    except (pa.ArrowInvalid, InexactError) as error:
        if _TWICE in str(error):
            return _read_structs(content, columns, kind, names)
        try:
            if _MISCONVERTED not in str(error):
                return _read_parts(content, columns, kind, names)
            counters, records = _parse_whole(content, columns, kind, wholes=_WHOLE)
        except (pa.ArrowInvalid, InexactError):
            return _read_structs(content, columns, kind, names)
    return _page(_table(records, columns, Texts()), Texts().new_fields(), counters)


def _table(records: pa.StructArray, columns: pa.Schema, texts: Texts) -> pa.Table:
    arrays = [
        _from_texts(field, texts.column(field.name, rows=len(records)))
        if _is_cut_out(field)
        else _exact(field, _leaf(records, field.name))
        for field in columns
    ]
    return pa.table(arrays, schema=columns)


def _read_parts(content: bytes, columns: pa.Schema, kind: Kind, names: Names) -> Page:
    """Read an answer whose records have other members too, or whole numbers written as ``2.0``.

    Records before the first of them are parsed as usual, in parts, which takes half as long.
    """
    answer = _opened(content, kind)
    tables: list[pa.Table] = []
    before = 0
    if not names.has_texts:
        records = msgspec.json.decode(answer.data, type=list[msgspec.Raw])
        parts = _parse_plain_parts(records, columns)
        if parts:
            tables = [_table(pa.concat_arrays(parts), columns, Texts())]
            before = tables[0].num_rows
            answer.data = msgspec.Raw(b"[%b]" % b",".join(records[before:]))
    table, texts = _read_known(answer, columns, names)
    absent: list[bytes | None] = [None] * before
    texts.new = {name: absent + kept for name, kept in texts.new.items()}
    return _page(pa.concat_tables([*tables, table]), texts.new_fields(), _counters(answer))


def _parse_plain_parts(records: Sequence[msgspec.Raw], columns: pa.Schema) -> list[pa.StructArray]:
    """Parse the records in parts, up to the first part that Arrow refuses."""
    size = max(len(records) // _PARTS, _SMALLEST_PART)
    parts = []
    for start in range(0, len(records), size):
        part = b",".join(records[start : start + size])
        try:
            parts.append(_records(_parse(b'{"data":[%b]}' % part, columns)))
        except (pa.ArrowInvalid, InexactError):
            break
    return parts


def _read_known(answer: _Paged, columns: pa.Schema, names: Names) -> tuple[pa.Table, Texts]:
    """Read records with other members.

    msgspec finds the other members, and checks that whole numbers are numbers: Arrow would parse text as a
    decimal, too.
    """
    numbers = {field.name: int | float for field in columns if pa.types.is_integer(field.type)}
    structs = decode_structs(_decoder(answer), names, numbers)
    texts = structs.texts(names)
    whole = b"".join((b'{"data":', answer.data, b"}"))
    records = _records(_parse(whole, columns, others="ignore", wholes=_WHOLE))
    return _table(records, columns, texts), texts


def _read_structs(content: bytes, columns: pa.Schema, kind: Kind, names: Names) -> Page:
    """Read an answer with msgspec, whatever its records have."""
    answer = _opened(content, kind)
    types = {field.name: _python_type(field.type) for field in columns if not _is_cut_out(field)}
    structs = decode_structs(_decoder(answer), names, types)
    texts, rows = structs.texts(names), len(structs.records)
    arrays = [
        _from_texts(field, texts.column(field.name, rows=rows))
        if _is_cut_out(field)
        else _typed(field, structs.values(field.name))
        for field in columns
    ]
    return _page(pa.table(arrays, schema=columns), texts.new_fields(), _counters(answer))


def _decoder(answer: _Paged) -> Callable[[Any], list[Any]]:
    """Return a function that decodes the records as values of a type."""

    def decode_records(record: Any) -> list[Any]:
        found: list[Any] = msgspec.json.decode(answer.data, type=list[record])
        return found

    return decode_records


def _counters(answer: _Paged) -> dict[str, int | None]:
    return {name: getattr(answer, name) for name in _COUNTERS}


def _python_type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return list[_python_type(kind.value_type)]  # type: ignore[misc]
    if pa.types.is_boolean(kind):
        return bool
    return int | float if pa.types.is_integer(kind) or pa.types.is_floating(kind) else str


def _typed(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Return decoded values as a column."""
    if pa.types.is_timestamp(field.type):
        return _instants(field, pa.array(values, pa.string()))
    if pa.types.is_integer(field.type):
        # Arrow would cut fractions off.
        array = pa.array(map(whole, values) if float in set(map(type, values)) else values, field.type)
        return array if field.nullable else array.fill_null(0)
    if pa.types.is_floating(field.type):
        return pa.array([None if value is None else float(value) for value in values], field.type)
    return pa.array(values, field.type)


def _text(content: bytes) -> pa.Array:
    """Return the bytes as one text without copying them, or raise if they are not UTF-8."""
    ends = pa.py_buffer(memoryview(b"".join(end.to_bytes(8, sys.byteorder) for end in (0, len(content)))))
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(content)])
    return whole.cast(pa.large_string())


def _opened(content: bytes, kind: Kind) -> _Paged:
    """Return the JSON text of the list of records, and the counters."""
    if kind == "page":
        return msgspec.json.decode(content, type=_Paged)
    whole = msgspec.json.decode(content, type=msgspec.Raw)
    return _Paged(data=msgspec.Raw(b"[%b]" % bytes(whole)) if kind == "record" else whole)


def _parse_whole(
    content: bytes, columns: pa.Schema, kind: Kind, wholes: pa.DataType = _INTEGER
) -> tuple[dict[str, int | None], pa.StructArray]:
    """Parse an answer whose records have only plain columns; ``wholes`` is how to read whole numbers."""
    if kind == "array":
        content = b"".join((b'{"data":', content, b"}"))
    elif kind == "record":
        content = b"".join((b'{"data":[', content, b"]}"))
    elif not content[:_LONGEST_START].lstrip(_BLANKS).startswith(b"{"):
        raise InexactError
    # pyarrow 26 crashes on `null` outside of objects, which beyond the start can only follow an object. The
    # same characters inside a text only cost a second look.
    if pc.match_substring_regex(_text(content), pattern=_NULL_AFTER_OBJECT)[0].as_py():
        raise InexactError
    counters = _COUNTERS if kind == "page" else ()
    parsed = _parse(content, columns, counters=counters, wholes=wholes)
    records = _records(parsed)
    if parsed.num_rows != 1 or (kind == "record" and len(records) != 1):
        raise InexactError
    return {name: parsed[name][0].as_py() for name in counters}, records


def _parse(
    content: bytes,
    columns: pa.Schema,
    *,
    counters: Sequence[str] = (),
    others: Literal["error", "ignore"] = "error",
    wholes: pa.DataType = _INTEGER,
) -> pa.Table:
    """Parse an object with counters and a list of records as one row."""
    if len(content) > _LARGEST:
        raise InexactError
    record = _nested([field for field in columns if not _is_cut_out(field)], wholes)
    shape = pa.schema([*((name, pa.int64()) for name in counters), ("data", pa.list_(record))])
    return arrow_json.read_json(
        pa.BufferReader(content),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=arrow_json.ParseOptions(explicit_schema=shape, unexpected_field_behavior=others),
        # Arrow's own pool frees and reallocates memory for each page, a fifth of the time.
        memory_pool=pa.system_memory_pool(),
    )


def _records(parsed: pa.Table) -> pa.StructArray:
    lists = parsed["data"].combine_chunks() if parsed["data"].num_chunks != 1 else parsed["data"].chunk(0)
    records = lists.flatten()
    if lists.null_count or records.null_count:
        raise InexactError
    return records


def _nested(fields: Sequence[pa.Field], wholes: pa.DataType) -> pa.DataType:
    """Return the nested type of a record, whole numbers as a given type; instants are read as text first."""
    tree: dict[str, Any] = {}
    for field in fields:
        *parents, leaf = field.name.split(".")
        holder = tree
        for parent in parents:
            holder = holder.setdefault(parent, {})
        kind = wholes if pa.types.is_integer(field.type) else field.type
        holder[leaf] = pa.string() if pa.types.is_timestamp(kind) else kind
    return _struct(tree)


def _struct(tree: Mapping[str, Any]) -> pa.DataType:
    return pa.struct(
        [(name, _struct(part) if isinstance(part, Mapping) else part) for name, part in tree.items()]
    )


def _leaf(records: pa.StructArray, name: str) -> pa.Array:
    """Return a nested column; a null object has null members."""
    values = records
    for part in name.split("."):
        position = values.type.get_field_index(part)
        values = values.flatten()[position] if values.null_count else values.field(position)
    return values


def _exact(field: pa.Field, values: pa.Array) -> pa.Array:
    """Return the values of a column as the reference reads them, or raise."""
    if pa.types.is_timestamp(field.type):
        return _instants(field, values)
    if pa.types.is_integer(field.type):
        values = values.cast(field.type)
        return values if field.nullable else values.fill_null(0)
    numbers = values.flatten() if pa.types.is_list(field.type) else values
    # Arrow accepts NaN and Infinity as numbers, and reads an integer of 400 digits as infinite.
    if pa.types.is_floating(numbers.type) and pc.all(pc.is_finite(numbers)).as_py() is False:
        raise InexactError
    return values


def _instants(field: pa.Field, texts: pa.Array) -> pa.Array:
    """Parse instants together if all have the usual form, else one by one."""
    is_usual = pc.and_(
        pc.greater_equal(pc.binary_length(texts), _SHORTEST_INSTANT), pc.ends_with(texts, pattern="Z")
    )
    if pc.all(is_usual).as_py() is not False:
        try:
            # Arrow refuses digits after the microseconds.
            moments = pc.replace_substring_regex(texts, _NANOSECONDS, r"\1Z").cast(field.type)
        except pa.ArrowInvalid:
            pass
        else:
            # Arrow accepts the year 0, Python does not.
            first = pc.min(moments.cast(pa.int64())).as_py()
            if first is None or first >= pa.scalar(_FIRST_INSTANT, field.type).value:
                return moments
    parsed = [
        None if text is None else instants.parse_exact(text, argument="value") for text in texts.to_pylist()
    ]
    return pa.array(parsed, field.type)


def _from_texts(field: pa.Field, texts: list[bytes | None]) -> pa.Array:
    if is_json(field):
        return pa.array(texts, field.type)
    return pa.array([None if text is None else decode(text) for text in texts], field.type)


def _read_leniently(content: bytes, columns: pa.Schema, kind: Kind, names: Names) -> Page:
    try:
        answer = decode(content)
    except InvalidRequest as error:
        problem = error.message.removeprefix("body: is not JSON: ")
        raise ServiceFailure(f"the service answered text that is not JSON: {problem}") from None
    counters: dict[str, int | None] = {}
    records = [answer] if kind == "record" else answer
    if kind == "page":
        if not isinstance(answer, Mapping):
            raise ServiceFailure(f"the service answered {shown(answer)} instead of a page of records")
        held = pa.schema([(name, pa.int64()) for name in _COUNTERS])
        (counters,) = from_json([answer], held).to_pylist()
        records = answer.get("data")
    if not isinstance(records, list):
        raise ServiceFailure(f"the service answered {shown(records)} instead of a list of records")
    for record in records:
        if not isinstance(record, Mapping):
            raise ServiceFailure(f"the service answered {shown(record)} instead of a record")
    table = from_json(records, columns)
    texts = _texts_of(content, kind, names)
    parts = _parts_of_others(columns)
    for position, field in enumerate(columns):
        if is_json(field) and field not in parts:
            # Keep the text as sent, like the native code.
            text = _from_texts(field, texts.column(field.name, rows=len(records)))
            table = table.set_column(position, field, text)
    return _page(table, texts.new_fields(), counters)


def _texts_of(content: bytes, kind: Kind, names: Names) -> Texts:
    try:
        if kind == "page":
            records = msgspec.json.decode(content, type=_Listed).data
        else:
            records = msgspec.json.decode(_opened(content, kind).data, type=list[msgspec.Raw])
        return walk(records, names)
    except NotAnObject as error:
        raise ServiceFailure(f"the service answered a value for {error} that is not an object") from None
    except (msgspec.MsgspecError, RecursionError, InvalidRequest, Refused) as error:
        raise ServiceFailure(
            f"the service answered a member that cannot be kept as JSON text: {error}"
        ) from None


def _page(table: pa.Table, unknown: pa.Table, counters: Mapping[str, int | None]) -> Page:
    count = counters.get("count")
    return Page(
        table=table,
        unknown=unknown,
        count=table.num_rows if count is None else count,
        total=counters.get("total"),
        offset=counters.get("offset"),
        limit=counters.get("limit"),
    )
