"""Holds the data of one project in one DuckDB file."""

from __future__ import annotations

import time
import weakref
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar
from uuid import uuid4

import duckdb
import ibis
from pydantic import TypeAdapter, ValidationError

from attrib_ds.contract.identifiers import ProjectId
from attrib_ds.contract.integrations import Currency
from attrib_ds.contract.values import TimeZone
from attrib_ds.errors import InvalidRequest, NotFound, NotSupported, ProjectInUse, ServiceFailure, Unavailable
from attrib_ds.records.sources import quoted
from attrib_ds.service.store.cursors import CLOSED, Connections
from attrib_ds.service.store.file_errors import explained
from attrib_ds.service.store.ids import HexIds
from attrib_ds.service.store.migrations import migrate
from attrib_ds.service.store.query_cache import Compiled
from attrib_ds.service.store.tables import VERSION, create_statements
from attrib_ds.service.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from ibis.backends.duckdb import Backend

T = TypeVar("T")

MEMORY: Final = ":memory:"
_SECONDS_TO_CLOSE: Final = 30.0
_SECONDS_TO_CREATE: Final = 10.0
_SETTINGS: Final = {
    # Nothing is fetched from the network.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # The writer does it, after it has answered and where there is room.
    "checkpoint_threshold": "1TB",
}


@dataclass(frozen=True)
class Meta:
    """What the file says about itself.

    Parameters
    ----------
    version : int
        Version of its tables.
    project_id, currency, timezone : str
        The project.
    created_at : datetime
        Aware, in UTC.
    """

    version: int
    project_id: str
    currency: str
    timezone: str
    created_at: datetime


class Store:
    """The tables of one project: many readers, each with its own snapshot, and one writer.

    Made by :meth:`open`. Its methods may be called from any thread.

    Attributes
    ----------
    meta : Meta
        What the file says about itself.
    ids : HexIds
        Makes the ids of new records.
    catalog : str
        Quoted name of the project's database.
    compiled : Compiled
        Queries that need not be compiled again.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, meta: Meta, *, read_only: bool) -> None:
        self.meta = meta
        self.ids = HexIds()
        self.compiled = Compiled()
        self.catalog = quoted(connection.execute("SELECT current_database()").fetchall()[0][0])
        path = connection.execute(
            "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
        ).fetchall()[0][0]
        self.path = Path(path) if path else None
        self._beside: tuple[Callable[[duckdb.DuckDBPyConnection], object], ...] = ()
        self._connections = Connections(connection)
        name = f"writer of {meta.project_id}"
        self._writer = None if read_only else Writer(connection.cursor(), name=name, file=self.path)
        # Runs at the latest when the interpreter exits, and must not hold the store itself.
        self._finalizer = weakref.finalize(self, _shut_down, self._connections, self._writer)

    @classmethod
    def open(
        cls,
        path: str | Path,
        project_id: str,
        *,
        read_only: bool = False,
        currency: str = "EUR",
        timezone: str = "UTC",
    ) -> Store:
        """Open the file of a project; a new one is made with its folders.

        Parameters
        ----------
        path : str or Path
            The file, or ``":memory:"``.
        project_id : str
            The project; must be the one in the file.
        read_only : bool, default False
            Several processes may read one file at once, as long as none writes.
        currency, timezone : str
            Of a new project.

        Returns
        -------
        Store
            To be closed.

        Raises
        ------
        InvalidRequest
            If the file holds something else, or another project.
        NotFound
            If there is no file to read.
        ProjectInUse
            If another process holds the file.
        Unavailable
            If the file was written by a newer version, or cannot be opened.

        Examples
        --------
        >>> store = Store.open(":memory:", "shop", currency="NOK")
        >>> store.meta.currency
        'NOK'
        >>> store.close()
        """
        for name, kind, value in (
            ("project_id", ProjectId, project_id),
            ("currency", Currency, currency),
            ("timezone", TimeZone, timezone),
        ):
            try:
                TypeAdapter(kind).validate_python(value)
            except ValidationError as error:
                allowed = error.errors()[0]["msg"]
                message = f"{name}: {value!r} is not allowed; allowed: {allowed}"
                raise InvalidRequest(message, field=name) from error
        connection = open_file(path, read_only=read_only)
        try:
            connection.execute("SET GLOBAL TimeZone = 'UTC'")
            meta = read_meta(connection, path)
            if meta is None and read_only:
                raise _not_a_project(path)
            meta = meta or _create(connection, path, Meta(VERSION, project_id, currency, timezone, _now()))
            check_meta(meta, path, project_id)
            if meta.version < VERSION:
                meta = _brought_up_to_date(connection, meta, path, read_only=read_only)
            return cls(connection, meta, read_only=read_only)
        except BaseException:
            connection.close()
            raise

    def write(self, job: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run a job in a transaction and return its result once that is durable.

        Parameters
        ----------
        job : callable
            Takes the connection; must not begin, commit or roll back, and must bear being run again.

        Returns
        -------
        object
            What the job returned.

        Raises
        ------
        NotSupported
            If the store is open for reading only.
        Unavailable
            If the store is closed, or too many writes wait.
        ServiceFailure
            If the database failed; nothing of the job is stored.

        Examples
        --------
        >>> store = Store.open(":memory:", "shop")
        >>> store.write(lambda connection: connection.execute("SELECT 1").fetchone())
        (1,)
        >>> store.close()
        """
        beside = self._beside

        def both(connection: duckdb.DuckDBPyConnection) -> T:
            result = job(connection)
            for each in beside:
                each(connection)
            return result

        result = self.require_writing().submit(both if beside else job)
        self._beside = ()
        return result

    def beside(self, job: Callable[[duckdb.DuckDBPyConnection], object]) -> Store:
        """Return the same store, whose next write runs a job too, in the same transaction.

        Parameters
        ----------
        job : callable
            As for :meth:`write`; it runs after what is written, and only if that is.

        Returns
        -------
        Store
            For one thread; to be forgotten, not closed.

        Examples
        --------
        >>> store = Store.open(":memory:", "shop")
        >>> def put(id):
        ...     return lambda connection: connection.execute("INSERT INTO pending_events VALUES (?)", [id])
        >>> twice = store.beside(put("b"))
        >>> _ = twice.write(put("a")), twice.write(put("c"))
        >>> store.write(lambda connection: connection.execute("FROM pending_events").fetchall())
        [('a',), ('b',), ('c',)]
        >>> store.close()
        """
        same = copy(self)
        same._beside = (job,)
        return same

    @contextmanager
    def read(self) -> Iterator[Backend]:
        """Give an Ibis backend whose queries all see one snapshot.

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
        with _translated(), self.cursor() as cursor:
            backend = ibis.duckdb.from_connection(cursor)
            cursor.begin()
            yield backend

    @contextmanager
    def scratch(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection to a passing database in memory, which write jobs can read too.

        Tables made without naming a database lie in the passing one; the project's own are reached as
        :attr:`catalog` followed by their name.

        Yields
        ------
        duckdb.DuckDBPyConnection
            For one thread, until the block ends; the database ends with it.

        Raises
        ------
        NotSupported
            If the store is open for reading only.
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
        """Give a connection to the calling thread for a while; each query sees what is committed by then."""
        return self._connections.lend()

    def open_cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection for the calling thread, which ends with the store."""
        return self._connections.keep()

    @property
    def is_read_only(self) -> bool:
        """Whether it can only be read."""
        return self._writer is None

    def require_writing(self) -> Writer:
        """Return what writes; raises :class:`NotSupported` in a store that is only read."""
        if self._writer is None:
            raise NotSupported("the project is open with read_only=True; connect without it to write")
        return self._writer

    def close(self) -> None:
        """Write what waits, then let go of the file; closing again does nothing."""
        self._finalizer()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except duckdb.ConnectionException as error:
        raise Unavailable(CLOSED) from error
    except duckdb.Error as error:
        raise ServiceFailure(f"the project's file could not be read: {explained(error)}") from error


def _shut_down(connections: Connections, writer: Writer | None) -> None:
    if writer is None or writer.close(timeout=_SECONDS_TO_CLOSE):
        connections.close(timeout=_SECONDS_TO_CLOSE)


def open_file(
    path: str | Path, *, read_only: bool = False, exclusive: bool = False
) -> duckdb.DuckDBPyConnection:
    """Open a database file as it is.

    Parameters
    ----------
    path : str or Path
        The file, or ``":memory:"``.
    read_only : bool, default False
        Open it for reading; it must be there then.
    exclusive : bool, default False
        Fail if it is open in this process too, where a second opening is otherwise the first one again.

    Returns
    -------
    DuckDBPyConnection
        To be closed.

    Raises
    ------
    InvalidRequest
        If the file holds something else.
    NotFound
        If there is no file to read.
    ProjectInUse
        If the file is held elsewhere.
    Unavailable
        If the file was written by a newer version, or cannot be opened.
    """
    if str(path) == MEMORY:
        if read_only:
            raise InvalidRequest("read_only: a project in memory has nothing to read", field="read_only")
        return duckdb.connect(MEMORY, config=_SETTINGS)
    file = Path(path).expanduser()
    if read_only and not file.exists():
        raise NotFound(f"path: {str(file)!r} does not exist; without read_only it is made", field="path")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Openings with settings of their own do not meet.
        own = {"custom_user_agent": uuid4().hex} if exclusive else {}
        return duckdb.connect(file, read_only=read_only, config={**_SETTINGS, **own})
    except (duckdb.Error, OSError) as error:
        _refuse(file, error)


def _refuse(file: Path, error: Exception) -> NoReturn:
    """Say in words of this package why a file cannot be opened."""
    told = str(error)
    if "Conflicting lock" in told or "different configuration" in told:
        holder = "another process" if "Conflicting lock" in told else "this process, in another mode,"
        raise ProjectInUse(
            f"path: {holder} holds {str(file)!r}; close it there, share the project with `attrib-ds serve`, "
            "or open it everywhere with read_only=True",
            field="path",
        ) from error
    if "not a valid DuckDB database" in told or "Is a directory" in told:
        raise _not_a_project(file) from error
    if "newer version" in told or "version number" in told:
        raise _too_new(file) from error
    raise Unavailable(f"path: {str(file)!r} cannot be opened: {explained(error)}", field="path") from error


def read_meta(connection: duckdb.DuckDBPyConnection, path: str | Path) -> Meta | None:
    """Return what the file says about itself, or None if it is empty."""
    tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not tables:
        return None
    if "meta" not in tables:
        raise _not_a_project(path)
    try:
        columns = "schema_version, project_id, currency, timezone, created_at"
        (told,) = connection.execute(f"SELECT {columns} FROM meta").fetchall()
    except duckdb.IOException as error:
        raise Unavailable(f"path: {str(path)!r} cannot be read: {explained(error)}", field="path") from error
    except (duckdb.Error, ValueError) as error:
        raise _not_a_project(path) from error
    version, project_id, currency, timezone, created_at = told
    return Meta(version, project_id, currency, timezone, created_at.replace(tzinfo=UTC))


def _create(connection: duckdb.DuckDBPyConnection, path: str | Path, meta: Meta) -> Meta:
    """Make the tables, unless another thread of this process makes them at the same moment."""
    last_try = time.monotonic() + _SECONDS_TO_CREATE
    while True:
        connection.begin()
        try:
            for statement in create_statements():
                connection.execute(statement)
            created_at = meta.created_at.replace(tzinfo=None)
            values = [meta.version, meta.project_id, meta.currency, meta.timezone, created_at]
            connection.execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?, 0)", values)
            connection.commit()
        except (duckdb.CatalogException, duckdb.TransactionException):
            connection.rollback()
            found = read_meta(connection, path)
            if found is not None:
                return found
            if time.monotonic() > last_try:
                raise
            time.sleep(0.01)
        else:
            return meta


def check_meta(meta: Meta, path: str | Path, project_id: str) -> None:
    """Refuse a file of another project, or of a newer version."""
    if meta.version > VERSION:
        raise _too_new(path)
    if meta.project_id != project_id:
        raise InvalidRequest(
            f"project_id: {str(path)!r} holds the project {meta.project_id!r}, not {project_id!r}",
            field="project_id",
        )


def _brought_up_to_date(
    connection: duckdb.DuckDBPyConnection, meta: Meta, path: str | Path, *, read_only: bool
) -> Meta:
    if read_only:
        raise Unavailable(
            f"path: {str(path)!r} was written by an older version; open it once without read_only, which "
            "brings it up to date",
            field="path",
        )
    try:
        migrate(connection, meta.version)
    except duckdb.TransactionException:
        # Another thread of this process was first.
        found = read_meta(connection, path)
        if found is None or found.version < VERSION:
            raise
    return replace(meta, version=VERSION)


def _not_a_project(path: str | Path) -> InvalidRequest:
    return InvalidRequest(f"path: {str(path)!r} is not the file of a project", field="path")


def _too_new(path: str | Path) -> Unavailable:
    return Unavailable(f"path: {str(path)!r} was written by a newer version; upgrade attrib-ds", field="path")


def _now() -> datetime:
    return datetime.now(UTC)
