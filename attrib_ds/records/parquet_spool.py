"""Writes tables one after the other into one Parquet file, which appears when all of them are in it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
from pyarrow import parquet

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from types import TracebackType

#: Bytes of waiting tables that become one row group.
_ROW_GROUP: Final = 32 * 1024 * 1024


class ParquetSpool:
    """Append tables to a Parquet file that nobody sees before it is whole.

    Used in a ``with`` block: at its end the file takes its name at once, in place of one that had it. If the
    block raises, there is no new file and an old one is as it was.

    Parameters
    ----------
    path : path-like
        Of the file, in a folder that exists.
    columns : pyarrow.Schema
        Of every table, and of the file when there is none.

    Raises
    ------
    InvalidRequest
        If there is no such folder, or the path is a folder itself.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with ParquetSpool(folder / "visits.parquet", pa.schema([("_id", pa.string())])) as spool:
    ...     spool.append(pa.table({"_id": ["a", "b"]}))
    ...     spool.append(pa.table({"_id": ["c"]}))
    >>> parquet.read_table(folder / "visits.parquet")["_id"].to_pylist()
    ['a', 'b', 'c']
    """

    def __init__(self, path: str | os.PathLike[str], columns: pa.Schema) -> None:
        self._path = Path(path)
        if self._path.is_dir() or not self._path.parent.is_dir():
            problem = "is a folder" if self._path.is_dir() else "lies in a folder that does not exist"
            raise InvalidRequest(
                f"path: {str(path)!r} {problem}; give a file in a folder that exists", field="path"
            )
        self._columns = columns
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        self._rows = 0

    @property
    def rows(self) -> int:
        """Rows appended so far."""
        return self._rows

    def __enter__(self) -> Self:
        # In the same folder, since a name is only taken at once within one file system.
        self._part = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}.part")
        self._writer = parquet.ParquetWriter(self._part, self._columns)
        return self

    def append(self, table: pa.Table) -> None:
        """Add the rows of a table, which are written when enough of them wait.

        Parameters
        ----------
        table : pyarrow.Table
            In the columns of the file.
        """
        self._waiting.append(table)
        self._bytes += table.nbytes
        self._rows += table.num_rows
        if self._bytes >= _ROW_GROUP:
            self._write()

    def _write(self) -> None:
        group = pa.concat_tables(self._waiting)
        self._waiting, self._bytes = [], 0
        if group.num_rows:
            self._writer.write_table(group, row_group_size=group.num_rows)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            try:
                if kind is None and self._waiting:
                    self._write()
            finally:
                self._writer.close()
            if kind is None:
                with self._part.open("rb+") as written:
                    os.fsync(written.fileno())
                self._part.replace(self._path)
        finally:
            # Already renamed, or not wanted.
            with suppress(FileNotFoundError):
                self._part.unlink()
