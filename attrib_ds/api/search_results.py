"""Returns the records of a search as one frame, as a series of frames, or as a Parquet file."""

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

    from attrib_ds.contract import Answer
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
    """Carry out a search and return its records in the form that was asked for.

    Parameters
    ----------
    project : Project
        The project to search.
    operation : str
        Name of the operation.
    arguments : mapping
        Arguments of the operation.
    chunks : bool
        Whether to return an iterator of frames.
    to : path-like, optional
        Parquet file to write instead.
    read : callable, optional
        Converts each table to the one that users see; the resulting columns depend only on its columns.

    Returns
    -------
    DataFrame, iterator of DataFrame, or Path
        All records; or frames with the same columns and dtypes, of which there is at least one; or the file.

    Raises
    ------
    InvalidRequest
        If both ``chunks`` and ``to`` are given, or the file cannot be written.
    """
    shown = read or _as_it_is
    if chunks and to is not None:
        raise InvalidRequest("to: not allowed with chunks=True; leave one of them out", field="to")
    path = None if to is None else _file(to)
    is_streamed = chunks or path is not None
    answer = (project.stream if is_streamed else project.send)(operation, **arguments)
    if path is not None:
        return _written(answer, path, shown)
    if chunks:
        frames = _frames(answer, shown)
        # Started here: a generator that nobody starts would never release the project.
        return _resumed(next(frames), frames)
    return _frame(answer.read(), answer, shown)


def _file(to: str | os.PathLike[str]) -> Path:
    """Return the path of a file to write, checked before any data is requested."""
    path = Path(to)
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidRequest(f"to: {str(path)!r} is not a file in an existing folder", field="to")
    return path


def _written(answer: Answer, path: Path, read: Callable[[pa.Table], pa.Table]) -> Path:
    with closing(answer), ParquetSpool(path, read(answer.columns.empty_table()).schema) as spool:
        for table in answer:
            spool.append(read(table))
    return path


def _frames(answer: Answer, read: Callable[[pa.Table], pa.Table]) -> Generator[pd.DataFrame, None, None]:
    is_empty = True
    with closing(answer):
        for table in answer:
            if table.num_rows:
                is_empty = False
                yield _frame(table, answer, read)
        if is_empty:
            yield _frame(answer.columns.empty_table(), answer, read)


def _resumed(
    first: pd.DataFrame, others: Generator[pd.DataFrame, None, None]
) -> Generator[pd.DataFrame, None, None]:
    with closing(others):
        yield first
        yield from others


def _frame(table: pa.Table, answer: Answer, read: Callable[[pa.Table], pa.Table]) -> pd.DataFrame:
    frame = to_pandas(read(table))
    frame.attrs["total"] = answer.total
    return frame


def _as_it_is(table: pa.Table) -> pa.Table:
    return table
