"""Online backups: consistent copies of a project in use, and restoring from them."""

from __future__ import annotations

import glob
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds import local_files, sql_results
from attrib_ds.contract import Answer, operation
from attrib_ds.contract.administration import BackUpProject
from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound, ProjectInUse, Unavailable
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.collection.daily_visitors import forget_salt
from attrib_ds.service.identity import merging, tombstones
from attrib_ds.service.store import audit, files, settings
from attrib_ds.service.store.audit import AuditEntry
from attrib_ds.service.store.store import UNOPENED, Store, check_meta, open_file, read_meta
from attrib_ds.service.store.tables import TABLES, arrow_view, differences, foreign
from attrib_ds.service.users.personal_data import erase, erase_events


def back_up_project(store: Store, request: BackUpProject) -> Answer:  # noqa: ARG001  (has no arguments)
    """Return a copy of the project; it is complete on disk before its first byte is read."""
    folder = store.path.parent if store.path else Path(tempfile.gettempdir())
    with ExitStack() as stack:
        part = stack.enter_context(temporary_file(folder / f"{store.meta.project_id}.backup"))
        with store.cursor() as cursor:
            copy_database(cursor, store.catalog, part)
        file = operation.File.of(stack.enter_context(part.open("rb")))
        return Answer(value=replace(file, close=stack.pop_all().close))


@contextmanager
def temporary_file(beside: Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside another file; it is removed when the block ends."""
    part = beside.with_name(f".{beside.name}.{uuid4().hex}.part")
    try:
        yield part
    finally:
        local_files.clear(beside.parent.glob(f"{glob.escape(part.name)}*"))


def copy_database(connection: Connection, catalog: str, path: Path) -> None:
    """Copy a database with all its tables, constraints and rows, in one transaction.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Outside a transaction, to an instance with the database attached.
    catalog : str
        Quoted name of the database.
    path : Path
        A file that does not exist yet.

    Raises
    ------
    Unavailable
        If the database cannot be read or the copy not written.
    """
    name = quoted(f"copy_{uuid4().hex}")
    try:
        with files.private_creation():
            connection.execute(f"ATTACH {literal(str(path))} AS {name} (READ_WRITE)")
        try:
            files.create_private_file(files.log_of(path))
            # One transaction, so that the copy is a snapshot.
            connection.begin()
            connection.execute(f"COPY FROM DATABASE {catalog} TO {name}")
            forget_salt(connection, f"{name}.settings")
            connection.commit()
            connection.execute(f"CHECKPOINT {name}")
        except BaseException:
            with suppress(duckdb.Error):
                connection.rollback()
            raise
        finally:
            connection.execute(f"DETACH {name}")
    except duckdb.Error as error:
        raise Unavailable(f"the project cannot be copied: {files.with_advice(error)}") from error


def flush(part: Path) -> None:
    """Make a complete file durable, before it takes the place of another one."""
    with local_files.insist(lambda: part.open("r+b")) as file:
        local_files.flush(file.fileno())


def replace_durably(part: Path, target: Path, aside: Sequence[Path] = ()) -> None:
    """Replace the file of a project atomically and durably; what fails leaves all files as they were.

    Parameters
    ----------
    part : Path
        From :func:`flush`.
    target : Path
        The project's file, which no connection of this process has open: Windows would not replace it.
    aside : sequence of Path
        Files beside it that are renamed first, those that exist.

    Raises
    ------
    ProjectInUse
        If another process has opened the file, or it cannot be written.
    OSError
        If a file cannot be renamed.
    Unavailable
        If one that was renamed cannot be given its name again; the message names it.
    """
    ending = f"{uuid4().hex}.old"
    moved: list[tuple[Path, Path]] = []
    with files.locked(target) if target.exists() else nullcontext():
        try:
            for path in filter(Path.exists, aside):
                local_files.replace(path, old := path.with_name(f"{path.name}.{ending}"))
                moved.append((path, old))
            counted = files.read_counter(target)

            def check() -> None:
                # On Windows, another process may open the file and close it between two attempts.
                if files.read_counter(target) != counted:
                    raise ProjectInUse(f"path: another process has written to {str(target)!r}")

            local_files.replace(part, target, check=check)
        except BaseException:
            _put_back(moved)
            raise
    local_files.flush_folder(target.parent)


def _put_back(moved: Sequence[tuple[Path, Path]]) -> None:
    """Give renamed files their names again, all that the system lets."""
    left = []
    for path, old in reversed(moved):
        try:
            if not path.exists():
                local_files.replace(old, path)
        except OSError:
            left.append(f"{str(old)!r} to {path.name!r}")
    if left:
        raise Unavailable(
            "path: the file was not replaced, and files beside it could not be given their names again, "
            f"since another program has them open. Before you open the project, rename {', '.join(left)}"
        )


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
        raise NotFound(f"source: there is no file {str(source)!r}")
    try:
        files.create_private_folder(target.parent)
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
            invalid = settings.find_invalid(connection)
            if invalid:
                raise _refused(f"has settings with values that are not allowed: {', '.join(invalid)}")
            (name,) = connection.execute("SELECT current_database()").fetchall()[0]
            # Copying the tables instead of bytes verifies the checksum of every block.
            copy_database(connection, quoted(name), part)
    except ProjectInUse as error:
        problem = "source: the file is open; back it up and restore the backup"
        raise ProjectInUse(problem) from error
    except (InvalidRequest, Unavailable) as error:
        # Without the path, also within messages of DuckDB: that of an uploaded file is a path of the server.
        if files.DAMAGED in error.message:
            raise _refused(files.DAMAGED) from error
        if error.field == "path":
            problem = error.message.removeprefix(f"path: {str(source)!r} ")
            raise _refused(problem.replace(str(source), "the file")) from error
        raise


def _refused(problem: str) -> InvalidRequest:
    return InvalidRequest(f"source: {problem}")


def exchange(part: Path, target: Path, line: AuditEntry | None = None) -> None:
    """Replace the file of a project, which must not be open, by a validated copy.

    Erasures since the backup and the audit log are first carried over from the replaced file,
    unless it is damaged.

    Parameters
    ----------
    part : Path
        From :func:`prepared`.
    target : Path
        The project's file.
    line : AuditEntry, optional
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
            flush(part)
        # Logs of the replaced file must not be replayed into the new one, nor its counter refuse it.
        replace_durably(part, target, (*files.logs_of(target), files.counter_of(target)))
    except OSError as error:
        raise Unavailable(f"path: {str(target)!r} cannot be replaced: {error}; it was not changed") from error
    except duckdb.Error as error:
        raise Unavailable(f"path: {str(target)!r} cannot be replaced: {files.with_advice(error)}") from error


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
        except AttribError as error:
            # A damaged file is one of the reasons to restore a backup. One that the system does not open is
            # not damaged.
            if UNOPENED in error.message:
                raise Unavailable(f"path: {str(target)!r} cannot be replaced: {error.message}") from error
            connection = None
        except duckdb.Error as error:
            raise Unavailable(
                f"path: {str(target)!r} cannot be replaced: {files.with_advice(error)}"
            ) from error
    try:
        yield preserved
    finally:
        if connection is not None:
            connection.close()


def _count(connection: Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {quoted(table)}").fetchall()[0][0])


_TABLES: Final = ("tombstones", "audit")
_ERASURES: Final = "SELECT subject, details FROM audit WHERE operation = 'delete_user' ORDER BY date"
#: Mode of erasures without an audit entry.
_DEFAULT_MODE: Final = "delete"
_NEW: Final = "temp.new_tombstones"


@dataclass(frozen=True)
class PreservedRecords:
    """Records of a project that survive its restoration.

    Parameters
    ----------
    salts : sequence of str
        Salts of the tombstones, that of new ones first.
    tables : dict of str to pyarrow.Table
        Rows of the tables ``tombstones`` and ``audit``.
    """

    salts: Sequence[str]
    tables: dict[str, pa.Table]


def read_preserved_records(connection: Connection) -> PreservedRecords | None:
    """Return the records of a project that survive its restoration.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Connection to its file.

    Returns
    -------
    PreservedRecords or None
        None if the file does not have these tables.
    """
    names = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not {*_TABLES, "settings"} <= names:
        return None
    tables = {name: sql_results.read_arrow(connection, f"FROM {name}") for name in _TABLES}
    return PreservedRecords(tombstones.read_salts(connection), tables)


def carry_over(preserved: PreservedRecords, part: Path, line: AuditEntry | None) -> None:
    """Insert preserved records into the restored file, and repeat erasures that it does not have.

    Parameters
    ----------
    preserved : PreservedRecords
        Records of the replaced project.
    part : Path
        The restored file, not open elsewhere.
    line : AuditEntry or None
        Audit entry of the restoration.
    """
    with closing(open_file(part, exclusive=True)) as connection:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        connection.begin()
        is_new = _insert(connection, preserved)
        audit.append(connection, [] if line is None else [line])
        if is_new:
            _erase_again(connection)
        connection.commit()
        connection.execute("CHECKPOINT")


def _insert(connection: Connection, preserved: PreservedRecords) -> bool:
    """Insert missing records; return whether there are new tombstones."""
    tombstones.add_salts(connection, preserved.salts)
    for name, rows in preserved.tables.items():
        with arrow_view(connection, rows) as view:
            connection.execute(
                f"CREATE TEMP TABLE new_{name} AS SELECT * FROM {view} EXCEPT SELECT * FROM main.{name}"
            )
        connection.execute(f"INSERT INTO main.{name} BY NAME FROM temp.new_{name}")
    return bool(connection.execute(f"SELECT 1 FROM {_NEW} LIMIT 1").fetchall())


def _erase_again(connection: Connection) -> None:
    """Erase users and events that match new tombstones and are older than these."""

    def erasure_dates(rows: str) -> dict[str, datetime]:
        return tombstones.erasure_dates(connection, f"({rows})", among=_NEW)

    modes = {
        subject: str(json.loads(details).get("mode", "delete"))
        for subject, details in connection.execute(_ERASURES).fetchall()
    }
    kind = f"'{tombstones.USER}' AS kind"
    users = erasure_dates(f"SELECT _id AS row, {kind}, _id AS value, createdAt AS seen FROM users")
    merged = erasure_dates(f"SELECT _id AS row, {kind}, _id AS value, mergedAt AS seen FROM merged_users")
    for id, date in merged.items():
        # The erased user may still be merged into another user here: split them first.
        if merging.find_survivor(connection, id) not in users and merging.split_off(connection, id, date):
            users[id] = date
    of_identities = erasure_dates(
        f"SELECT userId AS row, '{tombstones.IDENTITY}' || kind AS kind, value, createdAt AS seen "
        "FROM identities JOIN users ON users._id = userId"
    )
    users = of_identities | users
    for id, date in sorted(users.items()):
        erase(connection, id, modes.get(id, _DEFAULT_MODE), date)
    events = erasure_dates(
        f"SELECT _id AS row, '{tombstones.NONCE}' AS kind, nonce AS value, createdAt AS seen FROM raw_events"
    )
    if events:
        erase_events(connection, sorted(events), max(events.values()))
