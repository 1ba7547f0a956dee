"""Searches handed on as one frame, frame by frame, or as a Parquet file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas
from attrib_ds.records.parquet_spool import ParquetSpool

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Iterator, Mapping

    import pandas as pd
    import pyarrow as pa

    from attrib_ds.contract import Stream
    from attrib_ds.project import Project


def search(
    project: Project,
    operation: str,
    arguments: Mapping[str, Any],
    *,
    chunks: bool,
    to: str | os.PathLike[str] | None,
    read: Callable[[pa.Table], pa.Table] | None = None,
) -> pd.DataFrame | Iterator[pd.DataFrame] | Path:
    """Carry out a search and hand its records on as they are wanted.

    Parameters
    ----------
    project : Project
        Where to search.
    operation : str
        A search.
    arguments : mapping
        Of the request.
    chunks : bool
        Whether to return frames one after the other.
    to : path-like, optional
        Parquet file to write instead.
    read : callable, optional
        Turns each table into the one that users see; its columns depend on columns alone.

    Returns
    -------
    DataFrame, iterator of DataFrame, or Path
        All records; or frames with the same columns and dtypes, one without rows if there is none; or the
        file.

    Raises
    ------
    InvalidRequest
        If both are asked for, or the file cannot be written.
    """
    seen = read or _as_it_is
    if chunks and to is not None:
        raise InvalidRequest("to: is a file and chunks=True are frames; leave one of them out", field="to")
    if to is not None:
        return _spooled(project, operation, arguments, Path(to), seen)
    if chunks:
        frames = _frames(project.stream(operation, **arguments), seen)
        # Begun here: a generator that nobody begins would never let go of the project.
        return _resumed(next(frames), frames)
    answer = project.send(operation, **arguments)
    frame = to_pandas(seen(answer.table))
    frame.attrs["total"] = answer.total
    return frame


def _frames(stream: Stream, read: Callable[[pa.Table], pa.Table]) -> Generator[pd.DataFrame, None, None]:
    is_empty = True
    try:
        for table in stream.tables:
            if table.num_rows:
                is_empty = False
                yield _frame(table, stream, read)
        if is_empty:
            yield _frame(stream.columns.empty_table(), stream, read)
    finally:
        stream.close()


def _resumed(
    first: pd.DataFrame, others: Generator[pd.DataFrame, None, None]
) -> Generator[pd.DataFrame, None, None]:
    with closing(others):
        yield first
        yield from others


def _frame(table: pa.Table, stream: Stream, read: Callable[[pa.Table], pa.Table]) -> pd.DataFrame:
    frame = to_pandas(read(table))
    frame.attrs["total"] = stream.total
    return frame


def _spooled(
    project: Project,
    operation: str,
    arguments: Mapping[str, Any],
    path: Path,
    read: Callable[[pa.Table], pa.Table],
) -> Path:
    # Told before anything is asked, in case there is no such folder.
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidRequest(f"to: {str(path)!r} is no file in a folder that exists", field="to")
    stream = project.stream(operation, **arguments)
    with closing(stream), ParquetSpool(path, read(stream.columns.empty_table()).schema) as spool:
        for table in stream.tables:
            spool.append(read(table))
    return path


def _as_it_is(table: pa.Table) -> pa.Table:
    return table
