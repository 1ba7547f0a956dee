"""The queue of a project: what arrives singly and in haste is durable here before the tables have it.

It is an SQLite database beside the project's file. One flush of it makes the records of all waiting requests
durable, at a tenth of the processor time of a transaction of DuckDB. They are moved into the tables soon
after, many at a time. A transaction that moves records stores the number of the last one, so that a process
that finds records after a crash moves exactly those that the tables lack.
"""

import re
import sqlite3
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import duckdb
import msgspec

from attrib_ds.errors import Unavailable
from attrib_ds.service.store import files, tables, threads

EVENTS: Final = "events"
HITS: Final = "hits"
#: Settings of the project with the number of the last record that the tables have. The first has the name of
#: the log that came before the queue, and goes on with its numbers.
_MOVED: Final = {EVENTS: "appliedLogGroup", HITS: "appliedHits"}
#: Numbers are never used again, and a key is there once; a record without one is never a repeat.
_DEFINITIONS: Final = {
    table: f"CREATE TABLE {table} "
    "(number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE, content BLOB NOT NULL)"
    for table in _MOVED
}
#: Number of records that are neither an event with its audit entry nor a hit.
_STRANGE: Final = (
    "SELECT (SELECT count(*) FROM events WHERE NOT (json_valid(CAST(content AS TEXT)) "
    "AND coalesce(json_array_length(CAST(content AS TEXT)), 0) = 2)) + "
    "(SELECT count(*) FROM hits WHERE NOT (json_valid(CAST(content AS TEXT)) "
    "AND json_extract(CAST(content AS TEXT), '$.trackerId', '$.serverDate', '$.id') NOT LIKE '%null%'))"
)
_NONCES: Final = "CREATE TABLE nonces (hash INTEGER PRIMARY KEY)"
#: Bytes of content that are read together.
_LARGEST_PORTION: Final = 16 << 20
_SECONDS_TO_LOCK: Final = 60.0
#: Number, length and checksum of a group of the log that came before the queue.
_EARLIER_HEAD: Final = struct.Struct(">QII")


class Row(NamedTuple):
    """A record in the queue."""

    number: int
    content: bytes


class Queue:
    """The accepted records of a project that its tables may lack; thread-safe.

    Parameters
    ----------
    file : Path or None
        File of the project; None for one in memory.
    moved : mapping of str to int
        Numbers of the last records that the tables have, by table of the queue.
    counter : WriteCounter, optional
        Counts the records.
    owner : int, default 0
        Number that tells the project from others, of 31 bits.
    is_exclusive : bool, default False
        Whether to keep other processes out until the queue is closed.

    Attributes
    ----------
    accepted : dict of str to int
        Numbers of the last accepted records.

    Examples
    --------
    >>> queue = Queue(None, {"hits": 6})
    >>> with queue.transaction():
    ...     queue.put("hits", "a", b"a record"), queue.put("hits", "a", b"its repeat")
    (True, False)
    >>> queue.first("hits", 10)
    [Row(number=7, content=b'a record')]
    >>> queue.close()
    """

    def __init__(
        self,
        file: Path | None,
        moved: Mapping[str, int],
        *,
        counter: files.WriteCounter | None = None,
        owner: int = 0,
        is_exclusive: bool = False,
    ) -> None:
        self._lock = threading.RLock()
        self._counter = counter
        self._is_closed = False
        if file is not None and not files.queue_of(file).exists():
            files.create_private_file(files.queue_of(file))
        with _translated("the queue of the project cannot be opened"), ExitStack() as undo:
            path = ":memory:" if file is None else files.queue_of(file)
            self._connection = sqlite3.connect(
                path,
                timeout=0 if is_exclusive else _SECONDS_TO_LOCK,
                isolation_level=None,
                check_same_thread=False,
            )
            undo.callback(self._connection.close)
            if is_exclusive:
                self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            if file is not None:
                files.withdraw_permissions(files.queue_of(file))
                self._connection.execute("PRAGMA journal_mode = WAL")
            # Each commit is flushed to the disk; on macOS also out of its cache.
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA fullfsync = ON")
            with self.transaction():
                self._connection.execute(f"PRAGMA application_id = {owner}")
                self._create(moved)
            undo.pop_all()
        threads.abandon_after_fork(self)

    def _create(self, moved: Mapping[str, int]) -> None:
        execute = self._connection.execute
        if not execute("SELECT 1 FROM sqlite_master").fetchall():
            for definition in (*_DEFINITIONS.values(), _NONCES):
                execute(definition)
        numbers = dict(execute("SELECT name, seq FROM sqlite_sequence").fetchall())
        if numbers.get(EVENTS, 0) < moved.get(EVENTS, 0):
            # A new queue, or an older one: it does not know all nonces.
            execute("PRAGMA user_version = 0")
        for table in _DEFINITIONS:
            number = max(numbers.get(table, 0), moved.get(table, 0))
            execute("DELETE FROM sqlite_sequence WHERE name = ?", [table])
            execute("INSERT INTO sqlite_sequence VALUES (?, ?)", [table, number])
            execute(f"DELETE FROM {table} WHERE number <= ?", [moved.get(table, 0)])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make what the block puts durable at once, or nothing of it.

        Raises
        ------
        ServiceFailure
            If that fails.
        Unavailable
            If the queue is closed.
        """
        with self._lock, _translated("the queue of the project cannot be written"):
            if self._is_closed:
                raise Unavailable(threads.CLOSED)
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                accepted = dict(self._connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite rolls back by itself after some failures.
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
            self.accepted = accepted
            if self._counter is not None:
                self._counter.set_accepted(sum(accepted.values()))

    def put(self, table: str, key: str | None, content: bytes) -> bool:
        """Add a record inside a transaction; return False if there is one with its key."""
        put = f"INSERT INTO {table} (key, content) VALUES (?, ?) ON CONFLICT (key) DO NOTHING"
        return self._connection.execute(put, [key, content]).rowcount == 1

    def put_new(self, table: str, records: Sequence[tuple[str, bytes]]) -> None:
        """Add records inside a transaction, whose keys are not there."""
        self._connection.executemany(f"INSERT INTO {table} (key, content) VALUES (?, ?)", records)

    @property
    def has_nonces(self) -> bool:
        """Whether the queue knows the nonces of all events that the tables have."""
        with self._lock:
            return bool(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def set_nonces(self, hashes: Iterable[int]) -> None:
        """Take the hashes of the nonces of all events that the tables have."""
        with self.transaction():
            insert = "INSERT INTO nonces VALUES (?) ON CONFLICT DO NOTHING"
            self._connection.executemany(insert, ([number] for number in hashes))
            self._connection.execute("PRAGMA user_version = 1")

    def are_new(self, hashes: Sequence[int]) -> bool:
        """Add hashes of nonces inside a transaction; return whether each is new, and was given once."""
        insert = "INSERT INTO nonces VALUES (?) ON CONFLICT DO NOTHING"
        added = self._connection.executemany(insert, [[number] for number in hashes]).rowcount
        return added == len(hashes)

    def knows_any(self, hashes: Sequence[int]) -> bool:
        """Return whether one of some hashes of nonces is known, inside a transaction."""
        find = "SELECT 1 FROM nonces WHERE hash IN (SELECT value FROM json_each(?)) LIMIT 1"
        return self._connection.execute(find, [str(list(hashes))]).fetchone() is not None

    def find(self, table: str, key: str) -> bytes:
        """Return the record with a key inside a transaction; there must be one."""
        find = f"SELECT content FROM {table} WHERE key = ?"
        content: bytes = self._connection.execute(find, [key]).fetchone()[0]
        return content

    def first(self, table: str, most: int) -> list[Row]:
        """Return the first records, and fewer if they are large."""
        with self._lock, _translated("the queue of the project cannot be read"):
            if self._is_closed:
                raise Unavailable(threads.CLOSED)
            first = f"SELECT number, content FROM {table} ORDER BY number LIMIT ?"
            rows, size = [], 0
            with closing(self._connection.execute(first, [most])) as cursor:
                for number, content in cursor:
                    rows.append(Row(number, content))
                    size += len(content)
                    if size >= _LARGEST_PORTION:
                        break
            return rows

    def size(self) -> int:
        """Return the bytes of the records with their keys, inside a transaction."""
        names = ("page_count", "freelist_count", "page_size")
        pages, free, each = (self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        return int((pages - free) * each)

    def drop(self, table: str, number: int) -> None:
        """Remove the records up to a number, which the tables have."""
        with self.transaction():
            self._connection.execute(f"DELETE FROM {table} WHERE number <= ?", [number])

    def close(self) -> None:
        """Close the database; idempotent."""
        with self._lock:
            self._is_closed = True
            self._connection.close()

    def abandon(self) -> None:
        """Refuse any further use, in a forked process."""
        self._lock = threading.RLock()
        self._is_closed = True
        threads.leak(self._connection)


def read_accepted(file: Path, owner: int | None = None) -> dict[str, int]:
    """Return the numbers of the last records that the queue of a file accepted, by table.

    Raises
    ------
    Unavailable
        If the queue is damaged, cannot be opened, or has another owner than this one.
    """
    path = files.queue_of(file)
    if not path.exists() or not path.stat().st_size:
        return {}
    try:
        with _opened_for_reading(path) as connection:
            tables = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql LIKE '%key%'"))
            if not tables:
                # A process was killed before it had made the tables, or is about to make them.
                return {}
            problems = [connection.execute(f"PRAGMA quick_check({table})").fetchall() for table in tables]
            if any(found != [("ok",)] for found in problems) or tables != {**_DEFINITIONS, "nonces": _NONCES}:
                raise _damaged(path, "it is not a queue")
            ((owned_by,),) = connection.execute("PRAGMA application_id").fetchall()
            if owner and owned_by not in {0, owner}:
                raise _damaged(path, "it belongs to another project")
            numbers = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
            strange = connection.execute(_STRANGE).fetchone()[0]
            if strange or not all(isinstance(number, int) for number in numbers.values()):
                raise _damaged(path, f"{strange:,} of its records have another form")
            return numbers
    except sqlite3.Error as error:
        message = files.with_advice(error)
        if re.search("SQLITE_(CANTOPEN|BUSY)", message):
            raise Unavailable(f"path: the queue {str(path)!r} cannot be opened: {message}") from error
        raise _damaged(path, message) from error


def compact(file: Path) -> None:
    """Rewrite the queue of a file, which must not be open, so that nothing of moved records is left in it.

    Raises
    ------
    ServiceFailure
        If that fails; the queue has all its records.
    """
    path = files.queue_of(file)
    if not path.exists():
        return
    with (
        _translated("the queue of the project cannot be rewritten"),
        closing(sqlite3.connect(path, timeout=_SECONDS_TO_LOCK, isolation_level=None)) as connection,
    ):
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def count_waiting(file: Path) -> int:
    """Return the number of records in the queue of a file."""
    path = files.queue_of(file)
    if not read_accepted(file):
        return 0
    with _opened_for_reading(path) as connection:
        counts = (f"SELECT count(*) FROM {table}" for table in _DEFINITIONS)
        return sum(connection.execute(count).fetchone()[0] for count in counts)


@contextmanager
def _opened_for_reading(path: Path) -> Iterator[sqlite3.Connection]:
    # Without a log beside it, SQLite would make one in order to read.
    has_log = path.with_name(f"{path.name}-wal").exists()
    address = f"{_uri(path.absolute())}?{'mode=ro' if has_log else 'immutable=1'}"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        yield connection


def _uri(path: PurePath) -> str:
    r"""Return the URI of a file for SQLite, which knows no host.

    Examples
    --------
    >>> from pathlib import PureWindowsPath
    >>> [_uri(PureWindowsPath(path)) for path in (r"C:\my data\shop", r"\\server\share\shop")]
    ['file:///C:/my%20data/shop', 'file:////server/share/shop']
    """
    return f"file:///{quote(path.as_posix().removeprefix('/'), safe='/:')}"


def _damaged(path: Path, problem: str) -> Unavailable:
    return Unavailable(
        f"path: the queue {str(path)!r} cannot be read: {problem}. Put it back, or a backup of the project "
        "(`attrib-ds restore`). To go on without the events and hits that only it has, remove it"
    )


@contextmanager
def _translated(problem: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise files.failure(problem, error) from error


def read_moved(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return the numbers of the last records that the tables have; 0 if there never was one."""
    try:
        numbers = dict(connection.execute("SELECT name, value FROM settings").fetchall())
    except duckdb.Error as error:
        raise Unavailable(f"path: the project's file cannot be read: {files.with_advice(error)}") from error
    return {table: int(numbers.get(name, 0)) for table, name in _MOVED.items()}


def set_moved(connection: duckdb.DuckDBPyConnection, table: str, number: int) -> None:
    """Store the number of a record in the transaction that moves it into the tables."""
    tables.write_setting(connection, _MOVED[table], number)


def read_earlier_log(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return numbers and contents of the groups in the log of a release before the queue.

    Up to the first group that is incomplete or damaged: a process that was killed while it appended had not
    acknowledged it. That acknowledged groups are gone shows in the write counter.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    groups: list[tuple[int, dict[str, Any]]] = []
    start = 0
    while len(content) - start >= _EARLIER_HEAD.size:
        number, length, checksum = _EARLIER_HEAD.unpack_from(content, start)
        start += _EARLIER_HEAD.size
        part = content[start : start + length]
        if len(part) < length or zlib.crc32(part, zlib.crc32(number.to_bytes(8, "big"))) != checksum:
            break
        groups.append((number, msgspec.json.decode(part)))
        start += length
    return groups
