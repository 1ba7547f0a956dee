"""Parse a page of JSON records incrementally, so that a large body is never held in memory as a whole."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa

from attrib_ds.errors import ServiceFailure
from attrib_ds.json_numbers import exact_integer, exact_number
from attrib_ds.records.json_records import from_json
from attrib_ds.transports.http.bodies import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Records converted to columns at a time.
_BATCH: Final = 2_048
#: Characters after which fewer records are converted.
_LONGEST_BATCH: Final = 2**23
#: Maximum number of characters of a single value.
_LONGEST_VALUE: Final = 2**24
#: Members of the object besides ``data``.
_MOST_OTHERS: Final = 100
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_TRUNCATED: Final = "it is truncated"


def read_records(
    chunks: Iterable[bytes], columns: pa.Schema, *, most: int
) -> tuple[pa.Table, dict[str, Any]]:
    """Read a page of records, or an array of them.

    Parameters
    ----------
    chunks : iterable of bytes
        JSON text in chunks: an object with records in ``data``, or an array of records.
    columns : pyarrow.Schema
        Schema of the table.
    most : int
        Maximum number of records.

    Returns
    -------
    Table
        One row per record, in the order of the text.
    dict
        The other members of the object; empty for an array.

    Raises
    ------
    Unreadable
        If the text is not such JSON.
    ServiceFailure
        If a value does not fit its column, or there are more records.

    Examples
    --------
    >>> columns = pa.schema([("n", pa.int64())])
    >>> table, others = read_records([b'{"total": 2, "da', b'ta": [{"n": 1}, {"n": 2.0}]}'], columns, most=2)
    >>> table["n"].to_pylist(), others
    ([1, 2], {'total': 2})
    """
    text = _Text(chunks)
    batches: list[pa.RecordBatch] = []
    others: dict[str, Any] = {}
    if text.peek() == "[":
        _read_array(text, columns, batches, most)
    else:
        text.take("{")
        has_records = False
        while text.peek() != "}":
            name = text.value()
            text.take(":")
            # Of two members with the same name the last one counts (G-044).
            if name == "data" and text.peek() == "[":
                batches.clear()
                has_records = True
                _read_array(text, columns, batches, most)
            else:
                others[name] = text.value()
                if len(others) > _MOST_OTHERS:
                    raise Unreadable(f"it has more than {_MOST_OTHERS} members")
            if text.peek() != "}":
                text.take(",")
                if text.peek() == "}":
                    raise Unreadable("an object has a trailing comma")
        text.take("}")
        if not has_records:
            raise Unreadable("it has no array in data")
    if text.peek():
        raise Unreadable("it has trailing characters")
    return pa.Table.from_batches(batches, columns), others


def _read_array(text: _Text, columns: pa.Schema, batches: list[pa.RecordBatch], most: int) -> None:
    text.take("[")
    records: list[Any] = []
    count, start = 0, text.read
    while text.peek() != "]":
        records.append(text.value())
        count += 1
        if count > most:
            raise ServiceFailure(f"the response has more than the {most} records that were requested")
        if len(records) == _BATCH or text.read - start > _LONGEST_BATCH:
            batches += from_json(records, columns).to_batches()
            records, start = [], text.read
        if text.peek() != "]":
            text.take(",")
            if text.peek() == "]":
                raise Unreadable("an array has a trailing comma")
    text.take("]")
    if records:
        batches += from_json(records, columns).to_batches()


class _Text:
    """JSON text of which only the unread part is buffered."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._is_all = False
        #: Characters of the values read so far.
        self.read = 0
        self._json = json.JSONDecoder(
            parse_float=exact_number, parse_int=exact_integer, parse_constant=_refuse
        )

    def peek(self) -> str:
        """Return the next character that is not whitespace; "" at the end."""
        while True:
            self._at = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(1):
                return ""

    def take(self, character: str) -> None:
        """Consume one character, which must be the next one."""
        if self.peek() != character:
            raise Unreadable(f"{character!r} is missing")
        self._at += 1

    def value(self) -> Any:
        """Read one value."""
        self.peek()
        wanted = 1
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                problem = str(error) or type(error).__name__
                is_whole = False
            else:
                # A number at the end of the buffer may continue in the next chunk.
                is_whole = end < len(self._text)
                problem = _TRUNCATED
            if is_whole:
                break
            if len(self._text) - self._at > _LONGEST_VALUE:
                raise Unreadable("a value has no end")
            # The buffer doubles each time: a long value is not parsed again for every chunk.
            if not self._more(wanted):
                if problem == _TRUNCATED:
                    break
                raise Unreadable(problem.partition(":")[0])
            wanted = len(self._text) - self._at
        self.read += end - self._at
        self._at = end
        return value

    def _more(self, wanted: int) -> bool:
        """Buffer at least this many further characters if available; return whether there were any."""
        pieces = [self._text[self._at :]]
        arrived = 0
        while arrived < wanted and not self._is_all:
            chunk = next(self._chunks, None)
            self._is_all = chunk is None
            try:
                pieces.append(self._utf8.decode(chunk or b"", final=self._is_all))
            except UnicodeDecodeError:
                raise Unreadable("it is not UTF-8") from None
            arrived += len(pieces[-1])
        self._text = "".join(pieces)
        self._at = 0
        return arrived > 0


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
