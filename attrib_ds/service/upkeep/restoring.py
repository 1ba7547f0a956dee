"""Puts a backup in the place of a project."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb

from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound, ProjectInUse, Unavailable
from attrib_ds.records.sources import quoted
from attrib_ds.service.store.file_errors import DAMAGED, explained
from attrib_ds.service.store.store import Store, check_meta, open_file, read_meta
from attrib_ds.service.store.tables import TABLES, differences, foreign
from attrib_ds.service.store.writer import logs_of
from attrib_ds.service.upkeep.backup import copy_database, passing_file, put_in_place
from attrib_ds.service.upkeep.lasting import Lasting, carry_over, read_lasting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from attrib_ds.service.store.audit import Line


def restore(source: Path, target: Path, project_id: str, *, replace: bool = False) -> dict[str, int]:
    """Put a backup in the place of a project that nobody has open.

    Parameters
    ----------
    source : Path
        The backup; stays as it is.
    target : Path
        The project's file.
    project_id : str
        The project; must be the one in the backup.
    replace : bool, default False
        Whether a file may be there, which is lost then.

    Returns
    -------
    dict of str to int
        Records by table, as far as there are any.

    Raises
    ------
    Conflict
        If the project is there and ``replace`` is not given.
    NotFound
        If there is no backup.
    InvalidRequest
        If it is no backup of the project.
    ProjectInUse
        If the project is open somewhere, or the backup is.
    Unavailable
        If one of them cannot be read or written; the project is as it was.
    """
    if target.exists() and not replace:
        raise Conflict(f"the project {project_id!r} is there already; replace it with --replace: {target}")
    with prepared(source, target, project_id) as (part, counts):
        exchange(part, target)
    return counts


@contextmanager
def prepared(source: Path, target: Path, project_id: str) -> Iterator[tuple[Path, dict[str, int]]]:
    """Give a checked copy of a backup, of the present version, beside the project it is for.

    Parameters
    ----------
    source, target, project_id
        As for :func:`restore`, which raises the same errors.

    Yields
    ------
    part : Path
        The copy; removed with the end of the block, unless it has become the project.
    counts : dict of str to int
        Records by table.
    """
    if not source.is_file():
        raise NotFound(f"source: there is no file {str(source)!r}", field="source")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"the folder {str(target.parent)!r} cannot be made: {error}") from error
    with passing_file(target) as part:
        _copy(source, part, project_id)
        with closing(Store.open(part, project_id)) as store, store.cursor() as cursor:
            changed = differences(cursor)
            if changed:
                raise _refused(f"has tables that are not those of a project: {', '.join(changed)}")
            counts = {table: _count(cursor, table) for table in TABLES if table != "meta"}
        yield part, {table: count for table, count in counts.items() if count}


def _copy(source: Path, part: Path, project_id: str) -> None:
    try:
        with closing(open_file(source, read_only=True)) as connection:
            meta = read_meta(connection, source)
            if meta is None or foreign(connection):
                raise _refused("is not the file of a project")
            if meta.project_id != project_id:
                raise _refused(f"holds the project {meta.project_id!r}, not {project_id!r}")
            check_meta(meta, source, project_id)
            (name,) = connection.execute("SELECT current_database()").fetchall()[0]
            # Not the bytes: so every block is read, and held against its checksum.
            copy_database(connection, quoted(name), part)
    except ProjectInUse as error:
        problem = "source: the file is open somewhere; make a backup of it, and restore that"
        raise ProjectInUse(problem, field="source") from error
    except (InvalidRequest, Unavailable) as error:
        if error.field == "path":
            # Without the path, which for a file that was sent is one of the server.
            raise _refused(error.message.removeprefix(f"path: {str(source)!r} ")) from error
        if DAMAGED in error.message:
            raise _refused(DAMAGED) from error
        raise


def _refused(problem: str) -> InvalidRequest:
    return InvalidRequest(f"source: {problem}", field="source")


def exchange(part: Path, target: Path, line: Line | None = None) -> None:
    """Put a checked copy in the place of a project's file, unless that is open anywhere.

    Who was erased since stays erased, and the audit log goes on (G-209, G-211): what of the file that is
    lost tells of them is carried over before. From a file that is broken nothing is.

    Parameters
    ----------
    part : Path
        From :func:`prepared`.
    target : Path
        The project's file.
    line : Line, optional
        What is written down of it.

    Raises
    ------
    ProjectInUse
        If it is open.
    Unavailable
        If it cannot be replaced; it is as it was.
    """
    try:
        with _held(target) as lasting:
            if lasting is not None:
                carry_over(lasting, part, line)
            # What was committed to a file that is gone, or broken, must not be read into the new one.
            for log in logs_of(target):
                if log.exists():
                    log.replace(log.with_name(f"{log.name}.{uuid4().hex}.old"))
            put_in_place(part, target)
    except OSError as error:
        raise Unavailable(f"path: {str(target)!r} cannot be replaced: {error}", field="path") from error
    except duckdb.Error as error:
        raise Unavailable(f"path: {str(target)!r} cannot be replaced: {explained(error)}") from error


@contextmanager
def _held(target: Path) -> Iterator[Lasting | None]:
    """Keep everybody else from opening a project's file while the block runs; tell what of it lasts."""
    held = lasting = None
    if target.exists():
        try:
            held = open_file(target, exclusive=True)
            held.execute("CHECKPOINT")
            lasting = read_lasting(held)
        except ProjectInUse:
            raise
        except AttribError:
            # A broken file is nobody's; it is one of the reasons to restore a backup.
            held = None
        except duckdb.Error as error:
            raise Unavailable(f"path: {str(target)!r} cannot be replaced: {explained(error)}") from error
    if held is not None and os.name != "posix":
        # There an open file cannot be replaced.
        held.close()
    try:
        yield lasting
    finally:
        if held is not None:
            held.close()


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {quoted(table)}").fetchall()[0][0])
