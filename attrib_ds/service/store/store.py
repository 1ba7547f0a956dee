"""Stores the data of one project in one DuckDB file."""

import logging
import os
import re
import time
import weakref
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, Self, TypeVar, cast
from uuid import uuid4

import duckdb
from ibis.backends.duckdb import Backend

from attrib_ds import instants, local_files
from attrib_ds.attribution.engines.engine import DuckDB
from attrib_ds.contract import Answer, administration, json_values
from attrib_ds.errors import InvalidRequest, NotFound, NotSupported, ProjectInUse, Unavailable
from attrib_ds.records.sources import quoted
from attrib_ds.service.store import files, migration, tables, threads
from attrib_ds.service.store.connections import Cancellation, Connections, Writer
from attrib_ds.service.store.queue import (
    EVENTS,
    Queue,
    count_waiting,
    read_accepted,
    read_earlier_log,
    read_moved,
)
from attrib_ds.service.store.tables import TABLES, VERSION, HexIds, create_statement, foreign

T = TypeVar("T")
Request = TypeVar("Request")
_log: Final = logging.getLogger(__name__)

MEMORY: Final = ":memory:"
#: Names that no file has on Windows, whatever its ending.
_DEVICE: Final = re.compile("con|prn|aux|nul|(com|lpt)[0-9]")
#: In messages of DuckDB about a file that the system does not open.
UNOPENED: Final = "Cannot open file"
_SECONDS_TO_CLOSE: Final = 30.0
_SECONDS_TO_CREATE: Final = 10.0
_SETTINGS: Final = {
    # Never fetch extensions from the network.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # Of new files: texts are compressed better, in half the time.
    "storage_compatibility_version": "v1.5.0",
    # The writer checkpoints itself, between commits and only if the disk has room.
    "checkpoint_threshold": "1TB",
}


class Meta(NamedTuple):
    """Metadata of a project's file.

    Parameters
    ----------
    version : int
        Version of the file format.
    project_id, currency, timezone : str
        Properties of the project.
    created_at : datetime
        Aware, in UTC.
    """

    version: int
    project_id: str
    currency: str
    timezone: str
    created_at: datetime

    @property
    def owner(self) -> int:
        """Number of 31 bits that tells the project from others."""
        return zlib.crc32(f"{self.project_id} {self.created_at:%Y-%m-%d %H:%M:%S}".encode()) & (2**31 - 1)


class Store:
    """The tables of one project: many readers, each with its own snapshot, and one writer.

    Create it with :meth:`open`. Its methods are thread-safe.

    Attributes
    ----------
    meta : Meta
        Metadata of the file.
    ids : HexIds
        Generates the ids of new records.
    catalog : str
        Quoted name of the project's database.
    cancellation : Cancellation
        Interrupts the queries of :meth:`read`, :meth:`scratch` and :meth:`cursor`.
    query_cache : dict
        Compiled queries.
    counter : WriteCounter or None
        Counts acknowledged writes; None for a project in memory or a read-only one.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        meta: Meta,
        *,
        read_only: bool,
        counter: files.WriteCounter | None = None,
        queue: Queue | None = None,
    ) -> None:
        self.meta = meta
        self.ids = HexIds()
        self.query_cache: dict[Hashable, str] = {}
        self.cancellation = Cancellation()
        # In notebooks, DuckDB would draw a bar into the output. Cursors inherit the setting.
        connection.execute("SET enable_progress_bar = false")
        own = "duckdb_databases() WHERE database_name = current_database()"
        ((name, path),) = connection.execute(f"SELECT database_name, path FROM {own}").fetchall()
        self.catalog = quoted(name)
        self.path = Path(path) if path else None
        self._extra_jobs: tuple[Callable[[duckdb.DuckDBPyConnection], object], ...] = ()
        self._connections = Connections(connection)
        self.counter = counter
        self._queue = queue
        name = f"writer of {meta.project_id}"
        self._writer = (
            None if read_only else Writer(connection.cursor(), name=name, file=self.path, counter=counter)
        )
        # Runs when the interpreter exits at the latest; must not refer to the store itself.
        self._finalizer = weakref.finalize(self, _shut_down, self._connections, self._writer, queue)

    @classmethod
    def open(
        cls,
        path: str | Path,
        project_id: str,
        *,
        read_only: bool = False,
        currency: str = "EUR",
        timezone: str = "UTC",
    ) -> Self:
        """Open the file of a project; create it, and its folders, if it does not exist.

        Parameters
        ----------
        path : str or Path
            The file, or ``":memory:"``.
        project_id : str
            Must be the project in the file.
        read_only : bool, default False
            Several processes can read one file at a time, as long as none writes.
        currency, timezone : str
            Properties of a new project.

        Returns
        -------
        Store
            The caller closes it.

        Raises
        ------
        InvalidRequest
            If the file holds something else, or another project.
        NotFound
            If ``read_only`` is set and there is no file.
        ProjectInUse
            If another process has the file open.
        Unavailable
            If the file has another format version, or cannot be opened.

        Examples
        --------
        >>> store = Store.open(":memory:", "shop", currency="NOK")
        >>> store.meta.currency
        'NOK'
        >>> store.close()
        """
        administration.check_project(project_id=project_id, currency=currency, timezone=timezone)
        file = None if str(path) == MEMORY else _file(path)
        is_new = file is None or not file.exists()
        if is_new and _DEVICE.fullmatch(project_id):
            raise InvalidRequest(
                f"project_id: {project_id!r} is not allowed for a new project, since Windows has a device of "
                "that name; choose another one, such as 'my-shop'"
            )
        # Before the file is read, since another thread of this process may write to it meanwhile.
        counted = 0 if file is None else files.read_counter(file)
        connection = open_file(path, read_only=read_only)
        counter: files.WriteCounter | None = None
        queue: Queue | None = None
        try:
            connection.execute("SET GLOBAL TimeZone = 'UTC'")
            # The lists of tables and other objects take as long as opening an empty database.
            meta = None if is_new else read_meta(connection, path)
            if meta is None and read_only:
                raise _not_a_project(path)
            if meta is None:
                new = Meta(VERSION, project_id, currency, timezone, instants.now())
                meta = _create(connection, path, new)
            if file is not None and not is_new:
                _check_objects(connection, path)
                if (
                    migration.OLDEST <= meta.version < VERSION
                    and meta.project_id == project_id
                    and not read_only
                ):
                    connection.close()
                    # Fails if another thread of this process has the file open.
                    connection = open_file(path, exclusive=True)
                    copy = migration.set_aside(connection, file, meta.version)
                    connection = open_file(path)
                    connection.execute("SET GLOBAL TimeZone = 'UTC'")
                    migration.bring_up_to_date(connection, file, meta.version)
                    _log.warning(
                        "%s had format version %d and was brought up to date; %s is a copy of the old file",
                        file.name, meta.version, copy.name,
                    )  # fmt: skip
                    meta = meta._replace(version=VERSION)
            check_meta(meta, path, project_id)
            moved = read_moved(connection)
            if file is not None:
                ((writes,),) = connection.execute("SELECT writes FROM meta").fetchall()
                accepted = _count_accepted(file, moved, meta.owner)
                files.check_complete(file, counted=counted, writes=writes + accepted)
                if not read_only:
                    counter = files.WriteCounter(file, writes=writes, accepted=accepted)
            if not read_only:
                queue = Queue(file, moved, counter=counter, owner=meta.owner)
            return cls(connection, meta, read_only=read_only, counter=counter, queue=queue)
        except BaseException as error:
            connection.close()
            if queue is not None:
                queue.close()
            if isinstance(error, OSError):
                raise _unopened(path, error) from error
            raise

    def write(self, job: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run a job in a transaction and return its result once the transaction is durable.

        Parameters
        ----------
        job : callable
            Takes the connection; must not begin, commit or roll back, and may run more than once.

        Returns
        -------
        object
            Result of the job.

        Raises
        ------
        NotSupported
            If the store is read-only.
        Unavailable
            If the store is closed, or too many writes are queued.
        ServiceFailure
            If the database failed; the job was rolled back.

        Examples
        --------
        >>> store = Store.open(":memory:", "shop")
        >>> store.write(lambda connection: connection.execute("SELECT 1").fetchone())
        (1,)
        >>> store.close()
        """
        extra_jobs = self._extra_jobs

        def all_jobs(connection: duckdb.DuckDBPyConnection) -> T:
            result = job(connection)
            for extra_job in extra_jobs:
                extra_job(connection)
            return result

        result = self.require_writing().submit(all_jobs if extra_jobs else job)
        self._extra_jobs = ()
        return result

    def with_extra_job(self, job: Callable[[duckdb.DuckDBPyConnection], object]) -> Self:
        """Return a copy of the store whose next write runs another job in the same transaction.

        Parameters
        ----------
        job : callable
            As for :meth:`write`; runs after the job of that write, if it succeeds.

        Returns
        -------
        Store
            For one thread. Do not close it.

        Examples
        --------
        >>> store = Store.open(":memory:", "shop")
        >>> def put(id):
        ...     return lambda connection: connection.execute("INSERT INTO pending_events VALUES (?)", [id])
        >>> twice = store.with_extra_job(put("b"))
        >>> _ = twice.write(put("a")), twice.write(put("c"))
        >>> store.write(lambda connection: connection.execute("FROM pending_events").fetchall())
        [('a',), ('b',), ('c',)]
        >>> store.close()
        """
        store = copy(self)
        store._extra_jobs = (job,)
        return store

    def with_cancellation(self, cancellation: Cancellation) -> Self:
        """Return a copy of the store whose queries, but not its writes, can be cancelled.

        Parameters
        ----------
        cancellation : Cancellation
            Of one request.

        Returns
        -------
        Store
            For that request. Do not close it.

        Examples
        --------
        >>> store, cancellation = Store.open(":memory:", "shop"), Cancellation()
        >>> cancellation.cancel()
        >>> with store.with_cancellation(cancellation).read():
        ...     pass
        Traceback (most recent call last):
            ...
        attrib_ds.errors.Unavailable: the request was cancelled
        >>> store.close()
        """
        store = copy(self)
        store.cancellation = cancellation
        return store

    @contextmanager
    def read(self) -> Iterator[Backend]:
        """Open an Ibis backend whose queries all read one snapshot.

        Yields
        ------
        ibis.backends.duckdb.Backend
            For one thread, until the block ends.

        Raises
        ------
        Unavailable
            If the store is closed.
        ServiceFailure
            If the database failed.
        """
        with _translate_errors(), self.cursor() as cursor:
            backend = DuckDB.from_connection(cursor)
            cursor.begin()
            yield backend

    def page(self, *arguments: Any, **options: Any) -> Answer:
        """Return a page of records; see :func:`.tables.read_page`."""
        with self.read() as backend:
            return tables.read_page(backend.con, *arguments, **options)

    def one(self, *arguments: Any) -> Answer:
        """Return one record; see :func:`.tables.read_one`."""
        with self.read() as backend:
            return tables.read_one(backend.con, *arguments)

    @contextmanager
    def scratch(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a connection to a temporary database in memory, which write jobs can read too.

        Tables created without the name of a database are temporary; address the project's own as
        :attr:`catalog` followed by their name.

        Yields
        ------
        duckdb.DuckDBPyConnection
            For one thread, until the block ends; the temporary database is dropped then.

        Raises
        ------
        NotSupported
            If the store is read-only.
        Unavailable
            If the store is closed.
        """
        self.require_writing()
        name = quoted(f"scratch_{uuid4().hex}")
        with self.cursor() as cursor:
            cursor.execute(f"ATTACH '{MEMORY}' AS {name}")
            try:
                cursor.execute(f"USE {name}")
                yield cursor
            finally:
                cursor.execute(f"USE {self.catalog}")
                cursor.execute(f"DETACH {name}")

    def cursor(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """Open a connection for the calling thread until the block ends; queries see committed data."""
        return self._connections.lend(self.cancellation)

    def open_cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection for the calling thread, which is closed with the store."""
        return self._connections.keep()

    @property
    def queue(self) -> Queue:
        """Accepted records that the tables may lack; raises :class:`NotSupported` if read-only."""
        self.require_writing()
        return cast("Queue", self._queue)

    @property
    def is_read_only(self) -> bool:
        """Whether the store is read-only."""
        return self._writer is None

    def require_writing(self) -> Writer:
        """Return the writer; raises :class:`NotSupported` if the store is read-only."""
        if self._writer is None:
            raise NotSupported("the project is open with read_only=True; connect without it to write")
        return self._writer

    def close(self) -> None:
        """Finish queued writes, then release the file; closing again does nothing."""
        self._finalizer()


def writes(handle: Callable[[duckdb.DuckDBPyConnection, Store, Request], object]) -> Callable[..., Answer]:
    """Return the handler of an operation that one transaction carries out.

    Parameters
    ----------
    handle : callable
        Takes the connection of the transaction, the store and the request; returns the answer or its value.
        It may run more than once.
    """

    @wraps(handle)
    def handler(store: Store, request: Request) -> Answer:
        result = store.write(lambda connection: handle(connection, store, request))
        return result if isinstance(result, Answer) else Answer(value=result)

    return handler


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except duckdb.ConnectionException as error:
        raise Unavailable(threads.CLOSED) from error
    except duckdb.Error as error:
        raise files.failure("the project's file could not be read", error) from error


def _shut_down(connections: Connections, writer: Writer | None, queue: Queue | None) -> None:
    if writer is None or writer.close(timeout=_SECONDS_TO_CLOSE):
        connections.close(timeout=_SECONDS_TO_CLOSE)
    if queue is not None:
        queue.close()


def _count_accepted(file: Path, moved: Mapping[str, int], owner: int) -> int:
    """Return the number of records that the queue of a file, or the log before it, has accepted."""
    numbers = dict(moved)
    for table, number in read_accepted(file, owner).items():
        numbers[table] = max(number, numbers[table])
    for number, _ in read_earlier_log(files.earlier_log_of(file)):
        numbers[EVENTS] = max(number, numbers[EVENTS])
    return sum(numbers.values())


def open_file(
    path: str | Path, *, read_only: bool = False, exclusive: bool = False
) -> duckdb.DuckDBPyConnection:
    """Open a database file without reading or creating tables.

    Parameters
    ----------
    path : str or Path
        The file, or ``":memory:"``.
    read_only : bool, default False
        Open an existing file for reading.
    exclusive : bool, default False
        Fail if this process has the file open; by default it would share that database instance.

    Returns
    -------
    DuckDBPyConnection
        The caller closes it.

    Raises
    ------
    InvalidRequest
        If the file holds something else.
    NotFound
        If ``read_only`` is set and there is no file.
    ProjectInUse
        If the file is open elsewhere.
    Unavailable
        If DuckDB cannot read the format of the file, or it cannot be opened.
    """
    if str(path) == MEMORY:
        if read_only:
            raise InvalidRequest("read_only: a project in memory has nothing to read")
        return duckdb.connect(MEMORY, config=_SETTINGS)
    file = _file(path)
    if read_only and not file.exists():
        raise NotFound(f"path: {str(file)!r} does not exist; leave out read_only to create it")
    try:
        files.create_private_folder(file.parent)
        # DuckDB refuses to open a file of this process again with other settings.
        config = _SETTINGS | ({"custom_user_agent": uuid4().hex} if exclusive else {})
        # The rest of larger work, such as a bulk load, goes to files beside the project.
        if memory := os.environ.get("ATTRIB_DS_MEMORY"):
            config["memory_limit"] = memory
        if read_only:
            return duckdb.connect(file, read_only=True, config=config)
        return _open_private(file, config)
    except (duckdb.Error, OSError) as error:
        _refuse(file, error)


def _file(path: str | Path) -> Path:
    """Return a path with the home folder in the place of ``~``; refuse what no file can be called."""
    try:
        file = Path(path).expanduser()
        if b"\0" in os.fsencode(file):
            raise InvalidRequest("path: contains a NUL character")
    except (RuntimeError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"path: {str(path)!r} is not a path: {error}") from error
    return file


def _open_private(file: Path, config: dict[str, str]) -> duckdb.DuckDBPyConnection:
    """Open a file for writing, so that only its owner may read it and its log."""
    if file.exists():
        files.withdraw_permissions(file)
        connection = duckdb.connect(file, config=config)
    else:
        # Left behind by a file that was removed.
        waiting = count_waiting(file)
        if waiting:
            raise Unavailable(
                f"path: {str(file)!r} is missing, and its queue {str(files.queue_of(file))!r} has "
                f"{waiting:,} accepted records. Put the file back; to begin a new project without them, "
                "remove the queue"
            )
        for path in (files.counter_of(file), *files.queue_files(file), files.earlier_log_of(file)):
            local_files.remove(path)
        with files.private_creation():
            connection = duckdb.connect(file, config=config)
    files.create_private_file(files.log_of(file))
    files.withdraw_permissions(files.log_of(file))
    return connection


def _refuse(file: Path, error: Exception) -> NoReturn:
    """Translate the error of opening a file."""
    message = str(error)
    is_own = "different configuration" in message
    # The words of DuckDB on POSIX, on Windows if it knows the other process, and on both for other errors.
    if (
        is_own
        or re.search("Could not set lock on file|already open in", message)
        or (UNOPENED in message and files.is_held(file))
    ):
        holder = "this process, in another mode," if is_own else "another process"
        raise ProjectInUse(
            f"path: {holder} holds {str(file)!r}; close it there, share the project with `attrib-ds serve`, "
            "or open it everywhere with read_only=True"
        ) from error
    if "not a valid DuckDB database" in message or file.is_dir():
        if files.read_counter(file):
            # Transactions were committed to it, so it was one.
            raise Unavailable(f"path: {str(file)!r} cannot be opened: {files.DAMAGED}") from error
        raise _not_a_project(file) from error
    if "newer version" in message or "version number" in message:
        raise Unavailable(
            f"path: {str(file)!r} was written by DuckDB {files.written_by(file)}, in a format that DuckDB "
            f"{duckdb.__version__} cannot read; upgrade duckdb"
        ) from error
    raise _unopened(file, error) from error


def _unopened(path: str | Path, error: Exception) -> Unavailable:
    return Unavailable(f"path: {str(path)!r} cannot be opened: {files.with_advice(error)}")


def read_meta(connection: duckdb.DuckDBPyConnection, path: str | Path) -> Meta | None:
    """Return the metadata of a file, or None if the file has no tables."""
    names = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not names:
        return None
    if "meta" not in names:
        raise _not_a_project(path)
    try:
        columns = "schema_version, project_id, currency, timezone, created_at"
        (row,) = connection.execute(f"SELECT {columns} FROM meta").fetchall()
    except (duckdb.Error, ValueError) as error:
        if files.is_of_file(error):
            raise Unavailable(f"path: {str(path)!r} cannot be read: {files.with_advice(error)}") from error
        raise _not_a_project(path) from error
    return Meta(*row)._replace(created_at=row[-1].replace(tzinfo=UTC))


def _create(connection: duckdb.DuckDBPyConnection, path: str | Path, meta: Meta) -> Meta:
    """Create the tables, unless another thread of this process does at the same time."""
    deadline = time.monotonic() + _SECONDS_TO_CREATE
    while True:
        connection.begin()
        try:
            for table in TABLES:
                connection.execute(create_statement(table))
            values = [*meta[:-1], meta.created_at.replace(tzinfo=None)]
            connection.execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?, 0)", values)
            connection.commit()
        except (duckdb.CatalogException, duckdb.TransactionException):
            connection.rollback()
            existing = read_meta(connection, path)
            if existing is not None:
                return existing
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return meta


def check_meta(meta: Meta, path: str | Path, project_id: str) -> None:
    """Refuse a file of another format version, or of another project."""
    if meta.project_id != project_id:
        raise InvalidRequest(
            f"project_id: {str(path)!r} holds the project {meta.project_id!r}, not {project_id!r}"
        )
    if meta.version != VERSION:
        remedy = "upgrade attrib-ds" if meta.version > VERSION else "open it with the release that wrote it"
        if migration.OLDEST <= meta.version < VERSION:
            remedy = "open it once for writing, which brings it up to date"
        raise Unavailable(
            f"path: {str(path)!r} has format version {meta.version}, and this release of attrib-ds reads "
            f"version {VERSION} only; {remedy}"
        )


def _check_objects(connection: duckdb.DuckDBPyConnection, path: str | Path) -> None:
    """Refuse a file with objects that are not tables: a view or macro may read other files."""
    names = foreign(connection)
    if names:
        raise InvalidRequest(
            f"path: {str(path)!r} has views, macros or other objects that a project does not have: "
            f"{json_values.listed(tuple(names))}; drop them, or put a backup in its place with `attrib-ds "
            "restore`"
        )


def _not_a_project(path: str | Path) -> InvalidRequest:
    return InvalidRequest(f"path: {str(path)!r} is not the file of a project")
