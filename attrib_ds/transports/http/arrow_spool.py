"""Spool a long Arrow response to disk until it is complete."""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from attrib_ds.local_files import writing_temporarily

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable


class ArrowSpool:
    """Tables in a temporary file, written once and read once; closing deletes the file.

    Parameters
    ----------
    columns : pyarrow.Schema
        Schema of every table.

    Examples
    --------
    >>> spool = ArrowSpool(pa.schema([("n", pa.int64())]))
    >>> spool.fill([pa.table({"n": [1, 2]}), pa.table({"n": [3]})])
    3
    >>> [table["n"].to_pylist() for table in spool.tables()]
    [[1, 2], [3]]
    """

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns
        with writing_temporarily():
            self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)

    def fill(self, tables: Iterable[pa.Table]) -> int:
        """Write tables and return their number of rows; close the file if one fails.

        Raises
        ------
        Unavailable
            If the file cannot be written, such as on a full disk.
        """
        rows = 0
        try:
            with writing_temporarily():
                writer = pa.ipc.new_file(self._file, self._columns)
            # Tables come from the network, whose errors are an OSError too.
            for table in tables:
                with writing_temporarily():
                    writer.write_table(table)
                rows += table.num_rows
            with writing_temporarily():
                writer.close()
                self._file.flush()
        except BaseException:
            self.close()
            raise
        return rows

    def tables(self) -> Generator[pa.Table, None, None]:
        """Yield the tables, then close the file."""
        try:
            self._file.seek(0)
            with pa.ipc.open_file(self._file) as reader:
                for number in range(reader.num_record_batches):
                    yield pa.Table.from_batches([reader.get_batch(number)], self._columns)
        finally:
            self.close()

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()
