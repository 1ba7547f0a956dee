"""What the service answers, the same from both transports."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Self
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

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


def _nothing() -> None:
    """Let go of nothing."""


@dataclass(frozen=True)
class File:
    """Hold a file on its way to whoever asked; it may be larger than memory.

    Parameters
    ----------
    pieces : iterator of bytes
        Gone through once, by one thread at a time. Where it raises, the file is not whole.
    close : callable
        Lets go of what the pieces are made from; calling it again does nothing.
    """

    pieces: Iterator[bytes]
    close: Callable[[], None] = field(default=_nothing)

    @classmethod
    def of(cls, stream: BinaryIO) -> Self:
        """Return what is left to read of a stream.

        Examples
        --------
        >>> import io
        >>> list(File.of(io.BytesIO(b"_id")).pieces)
        [b'_id']
        """
        return cls(iter(partial(stream.read, _PIECE), b""), stream.close)

    def save(self, path: Path) -> None:
        """Write it beside a path, then put it in place and let go of it; what breaks off leaves nothing.

        Examples
        --------
        >>> import io, tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     File.of(io.BytesIO(b"_id")).save(Path(folder, "users.csv"))
        ...     [(each.name, each.read_bytes()) for each in Path(folder).iterdir()]
        [('users.csv', b'_id')]
        """
        part = path.with_name(f".{uuid4().hex}.part")
        with closing(self):
            try:
                with part.open("xb") as sink:
                    sink.writelines(self.pieces)
                    sink.flush()
                    os.fsync(sink.fileno())
                part.replace(path)
            finally:
                with suppress(OSError):
                    part.unlink(missing_ok=True)


@dataclass(frozen=True)
class Stream:
    """Hold records on their way to whoever asked; they may be more than fit into memory.

    Parameters
    ----------
    columns : pyarrow.Schema
        Of every table.
    tables : iterator of pyarrow.Table
        Gone through once, by one thread at a time. Where it raises, records are missing.
    total : int, optional
        All matching records, on a page.
    close : callable
        Lets go of what the tables are read from; calling it again does nothing.
    """

    columns: pa.Schema
    tables: Iterator[pa.Table]
    total: int | None = None
    close: Callable[[], None] = field(default=_nothing)


@dataclass(frozen=True)
class Answering:
    """Tell the shape of an operation's answer.

    Parameters
    ----------
    kind : str
        ``page`` of records with counts, ``array`` of records, one ``record``, the ``id`` of what was
        created, the number of records ``modified``, a ``uuid``, a ``file``, a ``token``, ``counts`` of
        loaded records, ``outcomes`` (one id or :class:`~attrib_ds.errors.AttribError` for each of many), or
        the ``errors`` of what was checked, or an open ``object``.
    resource : str, optional
        Name of the records in :data:`attrib_ds.schema.RESOURCES`.
    echo : bool, default True
        Whether a page repeats the offset and limit that were asked for.
    """

    kind: Kind
    resource: str | None = None
    echo: bool = True


@dataclass(frozen=True)
class Answer:
    """Hold what came back for one request.

    Parameters
    ----------
    table : Table, optional
        The records, flat, in the Arrow schema of the resource; one row where one record was asked for.
    value : object, optional
        What is no record: an id, a number of modified records, a :class:`File`, a token, counts.
    total : int, optional
        All matching records, on a page.
    offset : int, default 0
        Records skipped, on a page.
    limit : int, optional
        Most records asked for, on a page.
    """

    table: pa.Table | None = None
    value: object = None
    total: int | None = None
    offset: int = 0
    limit: int | None = None
