"""Parts: Parquet files of a folder or bucket, each written whole by one writer and read once."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from attrib_ds import local_files
from attrib_ds.errors import AttribError, InvalidRequest, Unavailable
from attrib_ds.records import sources

_ENDING: Final = ".parquet"
#: Names of files and folders that other engines write while they work.
_HIDDEN: Final = (".", "_")
_SCHEMES: Final = ("file", "gs", "gcs", "s3")


def is_folder(place: str | Path) -> bool:
    """Return whether a path or URL is one of a folder; a file has an ending that says what is in it."""
    return "://" in str(place) or Path(place).expanduser().is_dir()


class Part(NamedTuple):
    """A Parquet file.

    Parameters
    ----------
    name : str
        Path in the file system, with its kind in front.
    path : str
        Path in the file system.
    size : int
        Bytes.
    """

    name: str
    path: str
    size: int


class Folder(NamedTuple):
    """A folder of parts on this machine or in a bucket.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
        Where it is.
    path : str
        Its path there.
    """

    filesystem: fs.FileSystem
    path: str

    @classmethod
    def open(cls, place: str | Path, *, argument: str) -> Self:
        """Return a folder without looking at it.

        Parameters
        ----------
        place : str or Path
            Path, or URL with the scheme ``s3`` or ``gs``, whose options pyarrow documents. Credentials come
            from the environment.
        argument : str
            Name of the argument in error messages.

        Raises
        ------
        InvalidRequest
            If it is a URL of another scheme, or has a password.

        Examples
        --------
        >>> Folder.open("s3://hits:secret@bucket", argument="to")
        Traceback (most recent call last):
        attrib_ds.errors.InvalidRequest: to: a URL with a password is not allowed; set it in the environment
        """
        scheme, has_scheme, rest = str(place).partition("://")
        if not has_scheme:
            return cls(fs.LocalFileSystem(), str(Path(place).expanduser().absolute()))
        if "@" in rest.partition("/")[0]:
            raise InvalidRequest(
                f"{argument}: a URL with a password is not allowed; set it in the environment"
            )
        if scheme not in _SCHEMES:
            raise InvalidRequest.choice(f"{argument}: scheme", scheme, _SCHEMES)
        try:
            return cls(*fs.FileSystem.from_uri(str(place)))
        except (pa.ArrowException, OSError) as error:
            raise InvalidRequest(f"{argument}: {str(place)!r} cannot be opened: {error}") from error

    def find(self, below: str = "") -> list[Part]:
        """Return the parts of the folder and of those below it, by path; none if there is no folder.

        Raises
        ------
        Unavailable
            If it cannot be read.
        """
        at = f"{self.path}/{below}".rstrip("/")
        try:
            is_local = isinstance(self.filesystem, fs.LocalFileSystem)
            below_it = fs.FileSelector(at, recursive=True, allow_not_found=True)
            found = self.filesystem.get_file_info(list(_local_files(at)) if is_local else below_it)
        except OSError as error:
            raise Unavailable(f"{at!r} cannot be read: {error}") from error
        kind = self.filesystem.type_name
        return [
            Part(f"{kind}:{info.path}", info.path, info.size)
            for info in sorted(found, key=lambda info: info.path)
            if info.is_file
            and info.path.endswith(_ENDING)
            and not any(name.startswith(_HIDDEN) for name in info.path[len(self.path) :].split("/"))
        ]

    @contextmanager
    def opened(self, part: Part) -> Iterator[pq.ParquetFile]:
        """Open a part, which its reader takes in batches: it may be larger than the memory.

        Raises
        ------
        InvalidRequest
            If it is not a Parquet file, or one that would fill the memory.
        Unavailable
            If it cannot be read.
        """
        try:
            with self.filesystem.open_input_file(part.path) as file:
                rows = pq.ParquetFile(file, buffer_size=sources.BUFFER_BYTES, pre_buffer=False)
                sources.check_parquet(rows.metadata, part.path, part.size)
                yield rows
        except pa.ArrowException as error:
            raise InvalidRequest(f"{part.path!r} is not a readable Parquet file: {error}") from error
        except OSError as error:
            raise Unavailable(f"{part.path!r} cannot be read: {error}") from error

    def batches(
        self, parts: Iterable[Part], columns: pa.Schema, failures: list[AttribError]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of parts, with nulls in the columns that a part lacks.

        Failures of :meth:`opened` are also added to a list: readers of Arrow streams keep their text alone.
        """
        empty = columns.empty_table()
        try:
            for part in parts:
                with self.opened(part) as file:
                    for batch in file.iter_batches(sources.BATCH_ROWS):
                        held = [empty, pa.Table.from_batches([batch])]
                        yield from pa.concat_tables(held, promote_options="default").to_batches()
        except AttribError as failure:
            failures.append(failure)
            raise

    def write(self, name: str, rows: pa.Table) -> None:
        """Write a part, or replace it; nobody sees a piece of it, and it is durable afterwards.

        Raises
        ------
        Unavailable
            If it cannot be written; it may be there all the same.
        """
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd")
        content, path = sink.getvalue(), f"{self.path}/{name}"
        try:
            if isinstance(self.filesystem, fs.LocalFileSystem):
                _write_locally(Path(path), content)
                return
            # An object is there as a whole, once its stream is closed.
            with self.filesystem.open_output_stream(path) as stream:
                stream.write(content)
        except OSError as error:
            raise Unavailable(f"{path!r} cannot be written: {error}") from error


def _local_files(folder: str) -> Iterator[str]:
    """Yield the files of a folder and of those below it, each folder once, whatever links lead to it."""

    def fail(error: OSError) -> None:
        raise error

    visited: set[str] = set()
    if not os.path.lexists(folder):
        return
    for path, folders, names in os.walk(folder, followlinks=True, onerror=fail):
        if (real := os.path.realpath(path)) in visited:
            folders.clear()
            continue
        visited.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith(_HIDDEN))
        yield from (f"{path}/{name}" for name in names)


def _write_locally(path: Path, content: pa.Buffer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        local_files.flush(file.fileno())
    local_files.replace(part, path)
    for folder in (path.parent, path.parent.parent):
        local_files.flush_folder(folder)
