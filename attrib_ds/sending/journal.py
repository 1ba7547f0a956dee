"""Keeps a write-ahead log of the rows that are sent, so that the next run sends only the rest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from attrib_ds.errors import (
    AttribError,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    NotSupported,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from attrib_ds.local_files import open_private, writing

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

#: Status, id and error of one row.
Outcome = tuple[str, str | None, str | None]

_VERSION: Final = 1
_MAGIC: Final = b'{"journal": "attrib-ds"'
#: Errors after which certainly nothing was stored; after any other error it may have been.
_NOT_STORED: Final = (
    InvalidRequest, NotFound, Conflict, Unauthorized, Forbidden, TooManyRequests, NotSupported,
)  # fmt: skip
#: Statuses of rows that are sent again: the journal lacks their errors, which may contain values of the row.
_RETRIED: Final = frozenset({"rejected", "trashed"})
_BINARY: Final = getattr(os, "O_BINARY", 0)
#: The byte that Windows locks: far behind the last line, since a locked one cannot be read.
_LOCKED_BYTE: Final = 2**31 - 2


class Row(NamedTuple):
    """A row of a frame as the journal recognises it in another run.

    Parameters
    ----------
    key, content : str
        What identifies the row, and what is sent of it; the journal holds their hashes.
    """

    key: str
    content: str


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """What a journal belongs to; it serves nothing else.

    Parameters
    ----------
    function : str
        Function that sends.
    project : str
        Id of the project.
    service : str
        Address of the service.
    """

    function: str
    project: str
    service: str


@dataclass(frozen=True)
class _Entry:
    """A line of the journal: hashes of a row, and its outcome; a row in flight has no status."""

    row: str
    content: str
    status: str | None = None
    id: str | None = None


class Journal:
    """Rows of earlier runs and of this one, from :func:`open_journal`.

    Parameters
    ----------
    file : _LockedFile
        Held by this run.
    salt : bytes
        Keeps hashes of one journal from being found in another one.
    entries : sequence of _Entry
        Entries in the file; the last one of a row counts.
    """

    def __init__(self, file: _LockedFile, salt: bytes, entries: Sequence[_Entry]) -> None:
        self._file = file
        self._salt = salt
        self._entries = {entry.row: entry for entry in entries}
        self._ids = {entry.id for entry in entries if entry.id is not None}
        self._lock = threading.Lock()

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the records that rows have become so far."""
        with self._lock:
            return frozenset(self._ids)

    def has_id(self, id: str | None) -> bool:
        """Say whether a row has become the record with this id."""
        with self._lock:
            return id in self._ids

    def new_entry(self, row: Row) -> _Entry:
        """Return the entry of a row in flight."""
        return _Entry(self._hash(row.key), self._hash(row.content))

    def last_entry(self, row: str) -> _Entry | None:
        """Return the last entry of a row, given its hash."""
        return self._entries.get(row)

    def append(self, entries: Sequence[_Entry], *, sync: bool) -> None:
        """Append the entries that are new; with ``sync`` return when they are on the disk."""
        with self._lock:
            new = [entry for entry in entries if self._entries.get(entry.row) != entry]
        if not new:
            return
        appended = self._file.append([_encode(entry) for entry in new])
        if sync:
            self._file.sync(appended)
        with self._lock:
            self._entries.update((entry.row, entry) for entry in new)
            self._ids.update(entry.id for entry in new if entry.id is not None)

    def _hash(self, text: str) -> str:
        content = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, key=self._salt, digest_size=16).hexdigest()


class Recording:
    """The rows of one frame in a journal: which are finished, and what this run does with the others.

    Parameters
    ----------
    journal : Journal
        Of the run.
    rows : sequence of Row or None
        One per row; None for a row that cannot be sent.
    retried : frozenset of str, optional
        Statuses of rows that are sent again, beside ``rejected`` and ``trashed``.

    Attributes
    ----------
    outcomes : list of tuple or None
        Outcome per row; None for a row to be sent.
    """

    def __init__(
        self, journal: Journal, rows: Sequence[Row | None], *, retried: frozenset[str] = frozenset()
    ) -> None:
        self._journal = journal
        self._retried = _RETRIED | retried
        self._entries = [None if row is None else journal.new_entry(row) for row in rows]
        earlier = [None if entry is None else journal.last_entry(entry.row) for entry in self._entries]
        self._in_flight = {
            position for position, entry in enumerate(earlier) if entry is not None and entry.status is None
        }
        self.outcomes: list[Outcome | None] = [
            self._outcome(entry, last) for entry, last in zip(self._entries, earlier, strict=True)
        ]

    @property
    def finished(self) -> int:
        """Number of rows that need not be sent."""
        return sum(outcome is not None for outcome in self.outcomes)

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the records that rows of any run have become."""
        return self._journal.ids

    def start(self, positions: Sequence[int]) -> None:
        """Record rows that are about to be sent; return when that is on the disk.

        Raises
        ------
        Unavailable
            If the journal cannot be written; the rows must not be sent then.
        """
        entries = [entry for position in positions if (entry := self._entries[position]) is not None]
        self._journal.append([entry for entry in entries if not self._is_recorded(entry)], sync=True)

    def finish(
        self, positions: Sequence[int], results: Sequence[Outcome | AttribError]
    ) -> list[Outcome | AttribError]:
        """Record the results of rows and return them.

        A row that was in flight when an earlier run ended, and is ``present`` now, was created by that run,
        unless the record belongs to another row.
        """
        results = [
            ("created", *result[1:])
            if not isinstance(result, AttribError) and self._was_created(position, result)
            else result
            for position, result in zip(positions, results, strict=True)
        ]
        entries = [
            _finished(entry, result)
            for position, result in zip(positions, results, strict=True)
            if (entry := self._entries[position]) is not None
        ]
        # Not synced: if the machine crashes, these rows are sent again, which stores nothing twice.
        self._journal.append([entry for entry in entries if entry is not None], sync=False)
        return results

    def _was_created(self, position: int, outcome: Outcome) -> bool:
        return (
            outcome[0] == "present" and position in self._in_flight and not self._journal.has_id(outcome[1])
        )

    def _is_recorded(self, entry: _Entry) -> bool:
        """Say whether the journal already knows that this content may be stored."""
        last = self._journal.last_entry(entry.row)
        return last is not None and last.content == entry.content and last.status != "rejected"

    def _outcome(self, entry: _Entry | None, last: _Entry | None) -> Outcome | None:
        if entry is None or last is None or last.status == "rejected":
            return None
        if last.content != entry.content:
            return (
                "rejected",
                last.id,
                "journal: the row was sent before with different content "
                f"({last.status or 'delivery unconfirmed'}), so it was not sent again; restore the content, "
                "or give the row another key, or choose another journal",
            )
        if last.status is None or last.status in self._retried:
            return None
        return last.status, last.id, None


@contextlib.contextmanager
def open_journal(path: str | Path, purpose: Purpose) -> Iterator[Journal]:
    """Open a journal, or create one, for this run alone.

    Parameters
    ----------
    path : str or Path
        The file, in an existing folder.
    purpose : Purpose
        What it must belong to.

    Yields
    ------
    Journal
        Closed afterwards.

    Raises
    ------
    InvalidRequest
        If the file is not a journal, or belongs to something else; it is left unchanged then.
    Unavailable
        If another run holds it.

    Examples
    --------
    >>> import tempfile
    >>> purpose = Purpose(function="send_events", project="my-shop", service="https://attribution.example")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         with open_journal(f"{folder}/orders.journal", purpose) as journal:
    ...             recording = Recording(journal, [Row("order-1", "90 EUR")])
    ...             print(recording.outcomes)
    ...             recording.start([0])
    ...             _ = recording.finish([0], [("processed", "e1", None)])
    [None]
    [('processed', 'e1', None)]
    """
    file = _open_locked(path)
    try:
        salt, entries = _read(file, str(path), purpose)
        file.repair()
        if salt is None:
            salt = secrets.token_bytes(16)
            header = {"journal": "attrib-ds", "version": _VERSION, **vars(purpose), "salt": salt.hex()}
            file.sync(file.append([json.dumps(header).encode()]))
            file.sync_folder()
        yield Journal(file, salt, entries)
    finally:
        file.close()


def _read(file: _LockedFile, path: str, purpose: Purpose) -> tuple[bytes | None, list[_Entry]]:
    """Return the salt and the entries of a journal; no salt if nothing was written yet."""
    if not file.lines and (_MAGIC.startswith(file.rest[: len(_MAGIC)]) or not file.rest.strip(b"\0")):
        return None, []
    header, *lines = file.lines or [b""]
    salt, owner = None, None
    try:
        members: dict[str, Any] = json.loads(header) if header.startswith(_MAGIC) else {}
        if members.get("version") == _VERSION:
            salt = bytes.fromhex(members["salt"])
            owner = Purpose(**{name: members[name] for name in vars(purpose)})
    except (ValueError, KeyError, TypeError):
        salt = owner = None
    if salt is None or owner is None:
        raise InvalidRequest(
            f"journal: {path!r} is not a readable journal; choose a new file", field="journal"
        )
    for name, expected in vars(purpose).items():
        if getattr(owner, name) != expected:
            raise InvalidRequest(
                f"journal: {path!r} belongs to the {name} {getattr(owner, name)!r}, not to {expected!r}; "
                "choose a new file, or the right journal",
                field="journal",
            )
    return salt, [_decode(line, number, path) for number, line in enumerate(lines, start=2)]


def _finished(entry: _Entry, result: Outcome | AttribError) -> _Entry | None:
    """Return the entry of a finished row; None while it may or may not have been stored."""
    if isinstance(result, AttribError):
        return _Entry(entry.row, entry.content, "rejected") if isinstance(result, _NOT_STORED) else None
    return _Entry(entry.row, entry.content, *result[:2])


def _encode(entry: _Entry) -> bytes:
    members = {name: value for name, value in vars(entry).items() if value is not None}
    return json.dumps(members, separators=(",", ":")).encode()


def _decode(line: bytes, number: int, path: str) -> _Entry:
    try:
        members: dict[str, Any] = json.loads(line)
        entry = _Entry(**members)
        is_entry = all(value is None or isinstance(value, str) for value in vars(entry).values())
    except (ValueError, TypeError):
        is_entry = False
    if not is_entry:
        raise InvalidRequest(
            f"journal: line {number:,} of {path!r} is corrupt, so it is unknown which rows were sent; check "
            "the project before you send with a new journal",
            field="journal",
        )
    return entry


class _LockedFile:
    """An append-only file of lines, locked by this run.

    Any number of threads may append to it. A last line that a crash cut off is not among its lines, and is
    removed by :meth:`repair`.

    Attributes
    ----------
    lines : list of bytes
        Content when it was opened, without line breaks.
    rest : bytes
        Content behind the last line break.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._appended = self._synced = 0
        self._is_whole = True
        with os.fdopen(os.dup(descriptor), "rb") as file:
            content = file.read()
        whole, _, self.rest = content.rpartition(b"\n")
        self.lines = whole.split(b"\n") if whole else []

    def repair(self) -> None:
        """Cut off the unfinished line, and flush the others."""
        with self._writing():
            if self.rest:
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - len(self.rest))
            os.fsync(self._descriptor)
        self.rest = b""

    def append(self, lines: Sequence[bytes]) -> int:
        """Append lines; they survive a crash of the process, and after :meth:`sync` one of the machine.

        Parameters
        ----------
        lines : sequence of bytes
            Without line breaks.

        Returns
        -------
        int
            For :meth:`sync`.

        Raises
        ------
        Unavailable
            If the file cannot be written, or could not be before: no line may follow half of one.
        """
        content = memoryview(b"".join(line + b"\n" for line in lines))
        with self._lock:
            if not self._is_whole:
                raise Unavailable(
                    f"journal: {str(self._path)!r} could not be written; run the same call again"
                )
            # An interrupt in between leaves half a line, behind which nothing must be written.
            self._is_whole = False
            with self._writing():
                while content:
                    content = content[os.write(self._descriptor, content) :]
            self._is_whole = True
            self._appended += 1
            return self._appended

    def sync(self, appended: int) -> None:
        """Return when these lines are on the disk; threads that wait share one flush."""
        with self._sync_lock:
            if self._synced >= appended:
                return
            reached = self._appended
            with self._writing():
                os.fsync(self._descriptor)
            self._synced = reached

    def sync_folder(self) -> None:
        """Flush the name of a new file, where the system can do that."""
        with contextlib.suppress(OSError):
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def close(self) -> None:
        """Flush the file and release it."""
        with self._lock:
            self._is_whole = False
        try:
            if self._appended > self._synced:
                with self._writing():
                    os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        return writing(self._path, argument="journal")


def _open_locked(path: str | Path) -> _LockedFile:
    """Open a file, or create one that only its owner can read, and lock it."""
    path = Path(path).expanduser().absolute()
    try:
        descriptor = open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY)
    except OSError as error:
        raise InvalidRequest(
            f"journal: {str(path)!r} cannot be opened: {error.strerror}", field="journal"
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidRequest(f"journal: {str(path)!r} is not a regular file", field="journal")
        _lock(path, descriptor)
        return _LockedFile(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def _lock(path: Path, descriptor: int) -> None:
    """Lock the file until it is closed, or the process ends, in whatever way."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Unavailable(
            f"journal: {str(path)!r} is in use by another run; wait until it ends, or choose another file",
            field="journal",
        ) from error
