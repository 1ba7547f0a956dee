"""Writes tables one by one to a Parquet file, which appears when it is complete."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
from pyarrow import parquet

from attrib_ds.errors import InvalidRequest
from attrib_ds.local_files import writing

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

#: Bytes of buffered tables per row group.
_ROW_GROUP: Final = 32 * 1024 * 1024


class ParquetSpool:
    """Append tables to a Parquet file that appears atomically.

    Use it in a ``with`` block: at its end the file appears, replacing any existing one. If the block raises,
    there is no new file and an existing one is unchanged.

    Parameters
    ----------
    path : path-like
        Of the file, in an existing folder.
    columns : pyarrow.Schema
        Of the file and of every table.

    Raises
    ------
    InvalidRequest
        If the folder does not exist, or the path is a folder.
    Unavailable
        If the file cannot be written, such as on a full disk.

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
            problem = "is a folder" if self._path.is_dir() else "is in a folder that does not exist"
            raise InvalidRequest(
                f"path: {str(path)!r} {problem}; expected a file in an existing folder", field="path"
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
        # In the same folder, because renaming is only atomic within a file system.
        self._part = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}.part")
        try:
            with self._writing():
                self._writer = parquet.ParquetWriter(self._part, self._columns)
        except BaseException:
            self._part.unlink(missing_ok=True)
            raise
        return self

    def append(self, table: pa.Table) -> None:
        """Add the rows of a table, which are buffered up to a row group.

        Parameters
        ----------
        table : pyarrow.Table
            With the columns of the file.
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
            with self._writing():
                self._writer.write_table(group, row_group_size=group.num_rows)

    def _writing(self) -> AbstractContextManager[None]:
        return writing(self._path, argument="path")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            try:
                if kind is None and self._waiting:
                    self._write()
            finally:
                with self._writing():
                    self._writer.close()
            if kind is None:
                with self._writing():
                    with self._part.open("rb+") as written:
                        os.fsync(written.fileno())
                    self._part.replace(self._path)
        finally:
            with suppress(FileNotFoundError):
                self._part.unlink()
