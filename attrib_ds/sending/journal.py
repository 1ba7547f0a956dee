"""Remembers in a file which rows were sent, and what became of them."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from attrib_ds.errors import (
    AttribError,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    NotSupported,
    TooManyRequests,
    Unauthorized,
)
from attrib_ds.sending.journal_file import open_journal_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from attrib_ds.sending.journal_file import JournalFile

    #: Status, id and error of one row.
    Outcome = tuple[str, str | None, str | None]

_VERSION: Final = 1
_MAGIC: Final = b'{"journal": "attrib-ds"'
#: Errors after which nothing was stored for sure; after any other one it may have been.
NOT_STORED: Final = (
    InvalidRequest, NotFound, Conflict, Unauthorized, Forbidden, TooManyRequests, NotSupported,
)  # fmt: skip
#: Outcomes that are asked for again: the journal does not hold the error, which may hold values of the row.
_ASKED_AGAIN: Final = frozenset({"rejected", "trashed"})


class Entry(NamedTuple):
    """What makes a row the same row in another run, and what it holds.

    Parameters
    ----------
    key, content : str
        Any text; the journal holds their hashes.
    """

    key: str
    content: str


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """What a journal is for; it serves nothing else.

    Parameters
    ----------
    function : str
        The function that sends.
    project : str
        The project's id.
    service : str
        Its address.
    """

    function: str
    project: str
    service: str


@dataclass(frozen=True)
class _Line:
    """The last thing known of a row; without a status it was on its way."""

    row: str
    content: str
    status: str | None = None
    id: str | None = None


class Journal:
    """Know the rows of earlier runs and note those of this one, from :func:`open_journal`.

    Parameters
    ----------
    file : JournalFile
        Held by this run.
    salt : bytes
        Which keeps hashes of one journal from being found in another one.
    lines : sequence of _Line
        What it holds.
    """

    def __init__(self, file: JournalFile, salt: bytes, lines: Sequence[_Line]) -> None:
        self._file = file
        self._salt = salt
        self._known = {line.row: line for line in lines}
        self._ids = {line.id for line in lines if line.id is not None}
        self._lock = threading.Lock()

    @property
    def ids(self) -> frozenset[str]:
        """The ids that rows were given so far."""
        with self._lock:
            return frozenset(self._ids)

    def knows_id(self, id: str | None) -> bool:
        """Say whether a row was given an id."""
        with self._lock:
            return id in self._ids

    def line(self, entry: Entry) -> _Line:
        """Return a row as a line without a status."""
        return _Line(self._hash(entry.key), self._hash(entry.content))

    def find(self, line: _Line) -> _Line | None:
        """Return the last thing that is known of a row."""
        return self._known.get(line.row)

    def note(self, lines: Sequence[_Line], *, is_lasting: bool) -> None:
        """Write what is not known yet; it outlasts the process, and the machine where that is asked."""
        with self._lock:
            news = [line for line in lines if self._known.get(line.row) != line]
        if not news:
            return
        appended = self._file.append([_encode(line) for line in news])
        if is_lasting:
            self._file.sync(appended)
        with self._lock:
            self._known.update((line.row, line) for line in news)
            self._ids.update(line.id for line in news if line.id is not None)

    def _hash(self, text: str) -> str:
        content = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, key=self._salt, digest_size=16).hexdigest()


class Recording:
    """Tell which rows of one frame are still to be sent, and note what becomes of them.

    Parameters
    ----------
    journal : Journal
        Of the run.
    entries : sequence of Entry or None
        One per row; None for a row that cannot be sent.
    asked_again : frozenset of str, optional
        Statuses that are no end of a row.
    """

    def __init__(
        self,
        journal: Journal,
        entries: Sequence[Entry | None],
        *,
        asked_again: frozenset[str] = frozenset(),
    ) -> None:
        self._journal = journal
        self._lines = [None if entry is None else journal.line(entry) for entry in entries]
        self._asked_again = _ASKED_AGAIN | asked_again
        found = [None if line is None else journal.find(line) for line in self._lines]
        self._doubtful = {
            position for position, line in enumerate(found) if line is not None and line.status is None
        }
        self.outcomes: list[Outcome | None] = [
            self._outcome(line, known) for line, known in zip(self._lines, found, strict=True)
        ]

    def begin(self, positions: Sequence[int]) -> None:
        """Note rows that are about to be sent; return when that is on the disk.

        Raises
        ------
        Unavailable
            If it cannot be noted; nothing must be sent then.
        """
        lines = [line for position in positions if (line := self._lines[position]) is not None]
        self._journal.note([line for line in lines if not self._is_harmless(line)], is_lasting=True)

    def settle(
        self, positions: Sequence[int], told: Sequence[Outcome | AttribError]
    ) -> list[Outcome | AttribError]:
        """Note what became of rows, and return what to tell of them.

        A row that was on its way when an earlier run ended, and is found stored, was stored by that run,
        unless it is what another row stored.
        """
        settled = [
            ("created", *each[1:])
            if not isinstance(each, AttribError) and self._was_created(position, each)
            else each
            for position, each in zip(positions, told, strict=True)
        ]
        lines = [
            _settled(line, each)
            for position, each in zip(positions, settled, strict=True)
            if (line := self._lines[position]) is not None
        ]
        # Lost with the machine, they are asked for again, which stores nothing twice.
        self._journal.note([line for line in lines if line is not None], is_lasting=False)
        return settled

    def _was_created(self, position: int, told: Outcome) -> bool:
        return told[0] == "present" and position in self._doubtful and not self._journal.knows_id(told[1])

    def _is_harmless(self, line: _Line) -> bool:
        """Say whether the journal tells all that sending a row could change."""
        known = self._journal.find(line)
        return known is not None and known.content == line.content and known.status != "rejected"

    def _outcome(self, line: _Line | None, known: _Line | None) -> Outcome | None:
        if line is None or known is None or known.status == "rejected":
            return None
        if known.content != line.content:
            state = known.status or "whether it arrived is not known"
            return (
                "rejected",
                known.id,
                f"journal: a row of this key was sent before with other content ({state}), and this one was "
                "not; allowed: the same content, a key of its own, or another journal",
            )
        if known.status is None or known.status in self._asked_again:
            return None
        return known.status, known.id, None


@contextmanager
def open_journal(path: str | Path, purpose: Purpose) -> Iterator[Journal]:
    """Open a journal, or begin one, for this run alone.

    Parameters
    ----------
    path : str or Path
        Its folder must be there.
    purpose : Purpose
        What it must be for.

    Yields
    ------
    Journal
        Closed afterwards.

    Raises
    ------
    InvalidRequest
        If the file is no journal, or one for something else; it is left as it is then.
    Unavailable
        If another run uses it.

    Examples
    --------
    >>> import tempfile
    >>> purpose = Purpose(function="send_events", project="my-shop", service="https://attribution.example")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         with open_journal(f"{folder}/orders.journal", purpose) as journal:
    ...             recording = Recording(journal, [Entry("order-1", "90 EUR")])
    ...             print(recording.outcomes)
    ...             recording.begin([0])
    ...             _ = recording.settle([0], [("processed", "e1", None)])
    [None]
    [('processed', 'e1', None)]
    """
    file = open_journal_file(path)
    try:
        salt, lines = _read(file, str(path), purpose)
        file.repair()
        if salt is None:
            salt = secrets.token_bytes(16)
            header = {"journal": "attrib-ds", "version": _VERSION, **vars(purpose), "salt": salt.hex()}
            file.sync(file.append([json.dumps(header).encode()]))
            file.sync_folder()
        yield Journal(file, salt, lines)
    finally:
        file.close()


def _read(file: JournalFile, path: str, purpose: Purpose) -> tuple[bytes | None, list[_Line]]:
    """Return the salt and the lines of a journal; no salt where nothing was written yet."""
    if not file.lines and (_MAGIC.startswith(file.rest[: len(_MAGIC)]) or not file.rest.strip(b"\0")):
        return None, []
    header, *lines = file.lines or [b""]
    salt, found = None, None
    try:
        told: dict[str, Any] = json.loads(header) if header.startswith(_MAGIC) else {}
        if told.get("version") == _VERSION:
            salt = bytes.fromhex(told["salt"])
            found = Purpose(**{name: told[name] for name in vars(purpose)})
    except (ValueError, KeyError, TypeError):
        salt = found = None
    if salt is None or found is None:
        raise InvalidRequest(
            f"journal: {path!r} is no journal that can be read; name a new file", field="journal"
        )
    for name, wanted in vars(purpose).items():
        if getattr(found, name) != wanted:
            raise InvalidRequest(
                f"journal: {path!r} is for the {name} {getattr(found, name)!r} and not for {wanted!r}; "
                "name a new file, or the journal of this one",
                field="journal",
            )
    return salt, [_decode(line, number, path) for number, line in enumerate(lines, start=2)]


def _settled(line: _Line, told: Outcome | AttribError) -> _Line | None:
    """Return what is noted of a row; nothing where it may or may not have been stored."""
    if isinstance(told, AttribError):
        return _Line(line.row, line.content, "rejected") if isinstance(told, NOT_STORED) else None
    return _Line(line.row, line.content, *told[:2])


def _encode(line: _Line) -> bytes:
    members = {name: value for name, value in vars(line).items() if value is not None}
    return json.dumps(members, separators=(",", ":")).encode()


def _decode(text: bytes, number: int, path: str) -> _Line:
    try:
        members: dict[str, Any] = json.loads(text)
        line = _Line(**members)
        is_line = all(value is None or isinstance(value, str) for value in vars(line).values())
    except (ValueError, TypeError):
        is_line = False
    if not is_line:
        raise InvalidRequest(
            f"journal: line {number:,} of {path!r} is damaged; what was sent is not known, so look before "
            "you send with a new journal",
            field="journal",
        )
    return line
