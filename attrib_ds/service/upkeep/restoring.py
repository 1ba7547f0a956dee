"""Restores projects from backups."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb

from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound, ProjectInUse, Unavailable
from attrib_ds.records.sources import quoted
from attrib_ds.service.store.append_log import append_log_of
from attrib_ds.service.store.file_errors import DAMAGED, with_advice
from attrib_ds.service.store.private_files import create_private_folder
from attrib_ds.service.store.store import Store, check_meta, open_file, read_meta
from attrib_ds.service.store.table_definitions import TABLES, differences, foreign
from attrib_ds.service.store.write_counter import counter_of
from attrib_ds.service.store.writer import logs_of
from attrib_ds.service.upkeep.backup import copy_database, replace_durably, temporary_file
from attrib_ds.service.upkeep.preserved_records import PreservedRecords, carry_over, read_preserved_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from attrib_ds.service.store.audit import Line


def restore(source: Path, target: Path, project_id: str, *, replace: bool = False) -> dict[str, int]:
    """Restore a project, which must not be open, from a backup.

    Parameters
    ----------
    source : Path
        The backup; it is only read.
    target : Path
        The project's file.
    project_id : str
        The project; must be the one in the backup.
    replace : bool, default False
        Replace an existing project, which is lost.

    Returns
    -------
    dict of str to int
        Number of records by table, without empty tables.

    Raises
    ------
    Conflict
        If the project exists and ``replace`` is not set.
    NotFound
        If there is no backup.
    InvalidRequest
        If the file is not a backup of the project, or has another format version.
    ProjectInUse
        If the project or the backup is open.
    Unavailable
        If a file cannot be read or written; the project is unchanged.
    """
    if target.exists() and not replace:
        raise Conflict(f"the project {project_id!r} exists already; replace it with --replace: {target}")
    with prepared(source, target, project_id) as (part, counts):
        exchange(part, target)
    return counts


@contextmanager
def prepared(source: Path, target: Path, project_id: str) -> Iterator[tuple[Path, dict[str, int]]]:
    """Yield a validated copy of a backup, beside the file of the project.

    Parameters
    ----------
    source, target, project_id
        As for :func:`restore`, which raises the same errors.

    Yields
    ------
    part : Path
        The copy; removed when the block ends, unless :func:`exchange` has moved it.
    counts : dict of str to int
        Number of records by table.
    """
    if not source.is_file():
        raise NotFound(f"source: there is no file {str(source)!r}", field="source")
    try:
        create_private_folder(target.parent)
    except OSError as error:
        raise Unavailable(f"the folder {str(target.parent)!r} cannot be created: {error}") from error
    with temporary_file(target) as part:
        _copy(source, part, project_id)
        with closing(Store.open(part, project_id)) as store, store.cursor() as cursor:
            changed = differences(cursor)
            if changed:
                raise _refused(f"has missing, unexpected or changed tables: {', '.join(changed)}")
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
            # Copying the tables instead of bytes verifies the checksum of every block.
            copy_database(connection, quoted(name), part)
    except ProjectInUse as error:
        problem = "source: the file is open; back it up and restore the backup"
        raise ProjectInUse(problem, field="source") from error
    except (InvalidRequest, Unavailable) as error:
        # Without the path, also within messages of DuckDB: that of an uploaded file is a path of the server.
        if DAMAGED in error.message:
            raise _refused(DAMAGED) from error
        if error.field == "path":
            problem = error.message.removeprefix(f"path: {str(source)!r} ")
            raise _refused(problem.replace(str(source), "the file")) from error
        raise


def _refused(problem: str) -> InvalidRequest:
    return InvalidRequest(f"source: {problem}", field="source")


def exchange(part: Path, target: Path, line: Line | None = None) -> None:
    """Replace the file of a project, which must not be open, by a validated copy.

    Erasures since the backup and the audit log are first carried over from the replaced file (G-209, G-211),
    unless it is damaged.

    Parameters
    ----------
    part : Path
        From :func:`prepared`.
    target : Path
        The project's file.
    line : Line, optional
        Audit entry of the restoration.

    Raises
    ------
    ProjectInUse
        If the file is open.
    Unavailable
        If it cannot be replaced; it is unchanged.
    """
    try:
        with _locked(target) as preserved:
            if preserved is not None:
                carry_over(preserved, part, line)
            # Logs of the replaced file must not be replayed into the new one.
            for log in [*logs_of(target), append_log_of(target)]:
                if log.exists():
                    log.replace(log.with_name(f"{log.name}.{uuid4().hex}.old"))
            counter_of(target).unlink(missing_ok=True)
            replace_durably(part, target)
    except OSError as error:
        raise Unavailable(f"path: {str(target)!r} cannot be replaced: {error}", field="path") from error
    except duckdb.Error as error:
        raise Unavailable(f"path: {str(target)!r} cannot be replaced: {with_advice(error)}") from error


@contextmanager
def _locked(target: Path) -> Iterator[PreservedRecords | None]:
    """Lock the file of a project while the block runs; yields its preserved records."""
    connection = preserved = None
    if target.exists():
        try:
            connection = open_file(target, exclusive=True)
            connection.execute("CHECKPOINT")
            preserved = read_preserved_records(connection)
        except ProjectInUse:
            raise
        except AttribError:
            # A damaged file, one of the reasons to restore a backup.
            connection = None
        except duckdb.Error as error:
            raise Unavailable(f"path: {str(target)!r} cannot be replaced: {with_advice(error)}") from error
    if connection is not None and os.name != "posix":
        # On Windows, an open file cannot be replaced.
        connection.close()
    try:
        yield preserved
    finally:
        if connection is not None:
            connection.close()


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {quoted(table)}").fetchall()[0][0])
