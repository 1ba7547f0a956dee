"""Answers of operations: tables, files and plain values, the same from every transport."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Self
from uuid import uuid4

import pyarrow as pa

from attrib_ds.local_files import open_private, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

Kind = Literal[
    "page",
    "array",
    "record",
    "id",
    "modified",
    "uuid",
    "file",
    "token",
    "counts",
    "outcomes",
    "errors",
    "object",
]

_PIECE: Final = 1 << 16
_NO_COLUMNS: Final = pa.schema([])


def _do_nothing() -> None:
    """Release nothing: data in memory has no reader."""


@dataclass(frozen=True)
class File:
    """A file of an answer, read in pieces because it may be larger than memory.

    Parameters
    ----------
    pieces : iterator of bytes
        Iterable once, by one thread at a time. If it raises, the file is incomplete.
    close : callable
        Releases the source of the pieces. Closing twice does nothing.
    """

    pieces: Iterator[bytes]
    close: Callable[[], None] = field(default=_do_nothing)

    @classmethod
    def of(cls, stream: BinaryIO) -> Self:
        """Return the rest of a binary stream as a file.

        Examples
        --------
        >>> import io
        >>> list(File.of(io.BytesIO(b"_id")).pieces)
        [b'_id']
        """
        return cls(iter(partial(stream.read, _PIECE), b""), stream.close)

    def save(self, path: Path, *, private: bool = False) -> None:
        """Save to a path and close; on failure the path stays as it was.

        A private file can be read by its owner only; any other has the usual permissions of new files.

        Raises
        ------
        Unavailable
            If the file cannot be written, such as on a full disk.

        Examples
        --------
        >>> import io, tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     File.of(io.BytesIO(b"_id")).save(Path(folder, "users.csv"))
        ...     [(path.name, path.read_bytes()) for path in Path(folder).iterdir()]
        [('users.csv', b'_id')]
        """
        part = path.with_name(f".{uuid4().hex}.part")
        with closing(self), writing(path, argument="path"):
            try:
                with open(part, "xb", opener=open_private if private else None) as sink:
                    sink.writelines(self.pieces)
                    sink.flush()
                    os.fsync(sink.fileno())
                part.replace(path)
            finally:
                with suppress(OSError):
                    part.unlink(missing_ok=True)


@dataclass(frozen=True)
class Answering:
    """The declared shape of an operation's answer.

    Parameters
    ----------
    kind : str
        ``page`` of records with counts, ``array`` of records, one ``record``, the ``id`` of the new record,
        the number of records ``modified``, a ``uuid``, a ``file``, a ``token``, ``counts`` of loaded
        records, ``outcomes`` (an id or :class:`~attrib_ds.errors.AttribError` per event of a batch), the
        ``errors`` of a validation, or an open ``object``.
    resource : str, optional
        Name of the records in :data:`attrib_ds.schema.RESOURCES`.
    echo : bool, default True
        Whether a page repeats the offset and limit of the request.
    """

    kind: Kind
    resource: str | None = None
    echo: bool = True


@dataclass(frozen=True)
class Answer:
    """The answer to one request, the same from every transport: a stream of tables, or a plain value.

    Iterating yields the tables as they arrive; :meth:`read` joins them. A stream is iterable once, by one
    thread at a time; if that raises, records are missing. An answer from :meth:`of` or :meth:`whole` is in
    memory and can be read any number of times.

    Parameters
    ----------
    columns : pyarrow.Schema
        Of the records; empty if the answer is a plain value.
    tables : iterable of pyarrow.Table
        The records. Iterating drops extra columns, which only serve to write JSON.
    count : int, optional
        Rows in all tables together, if known in advance.
    total : int, optional
        Number of matching records; pages only.
    offset, limit : int
        Of the request; pages only.
    value : object, optional
        A plain value: an id, a number of modified records, a :class:`File`, a token, counts.
    close : callable
        Releases the source of the tables. Closing twice does nothing.

    Examples
    --------
    >>> answer = Answer.of(pa.table({"_id": ["a", "b"]}), total=7)
    >>> answer.read()["_id"].to_pylist(), answer.count, answer.total
    (['a', 'b'], 2, 7)
    """

    columns: pa.Schema = _NO_COLUMNS
    tables: Iterable[pa.Table] = ()
    count: int | None = None
    total: int | None = None
    offset: int = 0
    limit: int | None = None
    value: object = None
    close: Callable[[], None] = field(default=_do_nothing, repr=False)

    @classmethod
    def of(
        cls,
        table: pa.Table,
        *,
        total: int | None = None,
        offset: int = 0,
        limit: int | None = None,
        value: object = None,
    ) -> Self:
        """Return an answer of one table in memory."""
        return cls(table.schema, (table,), table.num_rows, total, offset, limit, value)

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield the tables, then close."""
        try:
            for table in self.tables:
                is_exact = table.num_columns == len(self.columns)
                yield table if is_exact else table.select(self.columns.names)
        finally:
            self.close()

    def read(self) -> pa.Table:
        """Return all records as one table, then close."""
        tables = list(self)
        return pa.concat_tables(tables) if tables else self.columns.empty_table()

    def whole(self) -> Self:
        """Return the same answer with all records in memory."""
        table = self.read()
        return replace(self, tables=(table,), count=table.num_rows, close=_do_nothing)
