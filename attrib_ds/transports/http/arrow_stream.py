"""Read an Arrow IPC stream from a service that may be broken or hostile.

Arrow takes offsets and lengths from the stream as they are, and using a wrong one crashes the process. So
each batch is read within bounds and validated before anything else touches it.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.errors import ServiceFailure
from attrib_ds.transports.http.bodies import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Maximum number of bytes of a batch. Our own service sends 2,048 records, some two mebibytes.
_LARGEST_BATCH: Final = 2**28
#: Maximum number of rows of a batch: a column of nulls has no bytes, however many rows it claims.
_MOST_ROWS: Final = 2**20
_MOST_COLUMNS: Final = 10_000
#: Counters have fewer digits than a signed 64-bit integer can hold.
_MOST_DIGITS: Final = 18
_COUNTERS: Final = ("total", "offset", "limit")
#: Positions of fields in the tables Message and RecordBatch of Arrow's Message.fbs.
_HEADER: Final = 2
_COMPRESSION: Final = 3
#: Microseconds of 0001-01-01 and 10000-01-01: Python has no other years.
_FIRST_INSTANT: Final = -62_135_596_800_000_000
_END_OF_INSTANTS: Final = 253_402_300_800_000_000


@dataclass(frozen=True)
class ArrowStream:
    """An open Arrow stream.

    Parameters
    ----------
    counters : mapping of str to int
        ``total``, ``offset`` and ``limit`` in the metadata of its schema, as far as it has them.
    batches : iterator of RecordBatch
        Validated; raises :exc:`Unreadable` if the stream is truncated or malformed.
    """

    counters: Mapping[str, int]
    batches: Iterator[pa.RecordBatch]


def open_stream(pieces: Iterable[bytes]) -> ArrowStream:
    """Open an Arrow stream.

    Parameters
    ----------
    pieces : iterable of bytes
        The stream, in pieces of any size.

    Returns
    -------
    ArrowStream
        Its schema is read and checked.

    Raises
    ------
    Unreadable
        If it does not begin with a schema.
    ServiceFailure
        If a column has a type in which few bytes can stand for many values.
    """
    messages = _messages(_Source(pieces))
    schema = None
    message = next(messages, None)
    if message is not None and message.type == "schema":
        schema = _attempt(pa.ipc.read_schema, message)
    if schema is None:
        raise Unreadable("it has no schema")
    try:
        _check_schema(schema)
    except UnicodeDecodeError:
        raise Unreadable("a name of a column is not UTF-8") from None
    return ArrowStream(_read_counters(schema), _batches(messages, schema))


def _messages(source: _Source) -> Iterator[pa.Message]:
    reader = _attempt(pa.ipc.MessageReader.open_stream, pa.PythonFile(source, mode="r"))
    while True:
        try:
            message = _attempt(reader.read_next_message)
        except StopIteration:
            return
        yield message


def _batches(messages: Iterator[pa.Message], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for message in messages:
        if message.type != "record batch":
            raise Unreadable(f"it has a {message.type} among its batches")
        if _is_compressed(message.metadata.to_pybytes()):
            raise ServiceFailure("the response has a compressed Arrow batch, which was not requested")
        batch = _attempt(pa.ipc.read_record_batch, message, schema)
        if batch.num_rows > _MOST_ROWS:
            raise ServiceFailure(
                f"the response has a batch of {batch.num_rows:,} rows; at most {_MOST_ROWS:,} are accepted"
            )
        _attempt(batch.validate, full=True)
        _check_instants(batch)
        yield batch


def _attempt(step: Any, *arguments: Any, **options: Any) -> Any:
    """Call a function of Arrow; raise :exc:`Unreadable` if it refuses the stream."""
    try:
        return step(*arguments, **options)
    except StopIteration:
        raise
    except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
        # Arrow raises OSError itself; errors of the connection are subclasses.
        if isinstance(error, OSError) and type(error) is not OSError:
            raise
        raise Unreadable(str(error).partition("\n")[0] or type(error).__name__) from None


def _check_schema(schema: pa.Schema) -> None:
    if len(schema) > _MOST_COLUMNS or len(set(schema.names)) < len(schema):
        raise ServiceFailure("the response has too many columns, or two of one name")
    for field in schema:
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        is_plain = (
            pa.types.is_primitive(kind)
            or pa.types.is_decimal(kind)
            or pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
            or pa.types.is_null(kind)
        )
        if not is_plain:
            raise ServiceFailure(
                f"the response has {field.name} as {str(field.type)[:80]}; expected a plain type"
            )


def _read_counters(schema: pa.Schema) -> dict[str, int]:
    metadata = schema.metadata or {}
    digits = {name: metadata.get(name.encode(), b"") for name in _COUNTERS}
    return {
        name: int(number)
        for name, number in digits.items()
        if number.isdigit() and len(number) <= _MOST_DIGITS
    }


def _check_instants(batch: pa.RecordBatch) -> None:
    """Refuse instants before the year 1 or after the year 9999, which no Python date can hold."""
    for field, array in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_timestamp(field.type):
            per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[field.type.unit]
            bounds = pc.min_max(array.cast(pa.int64())).as_py()
            low, high = bounds["min"], bounds["max"]
            if low is not None and (
                low * 10**6 < _FIRST_INSTANT * per_second or high * 10**6 >= _END_OF_INSTANTS * per_second
            ):
                raise ServiceFailure(
                    f"the response has a value for {field.name} that is outside of the years 1 to 9999"
                )


def _is_compressed(metadata: bytes) -> bool:
    """Return whether the buffers of a record batch are compressed; Arrow has verified its metadata."""
    try:
        header = _field(metadata, struct.unpack_from("<I", metadata)[0], _HEADER)
        return header is None or _field(metadata, header, _COMPRESSION) is not None
    except struct.error:
        return True


def _field(metadata: bytes, table: int, position: int) -> int | None:
    """Return where a table of the FlatBuffers format has the table in one of its fields, if it has it."""
    vtable = table - struct.unpack_from("<i", metadata, table)[0]
    entry = 4 + 2 * position
    if entry + 2 > struct.unpack_from("<H", metadata, vtable)[0]:
        return None
    offset = struct.unpack_from("<H", metadata, vtable + entry)[0]
    if not offset:
        return None
    place: int = table + offset
    return place + int(struct.unpack_from("<I", metadata, place)[0])


class _Source(io.RawIOBase):
    """A body as the file object that Arrow reads."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._buffered = bytearray()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read exactly this many bytes, fewer at the end."""
        if size > _LARGEST_BATCH:
            raise ServiceFailure(
                f"the response has an Arrow batch of {size:,} bytes; at most {_LARGEST_BATCH:,} are accepted"
            )
        while len(self._buffered) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._buffered += piece
        part = bytes(self._buffered[:size])
        del self._buffered[:size]
        return part
