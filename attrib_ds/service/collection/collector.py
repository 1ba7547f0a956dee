"""Collectors: processes that accept the hits of one project and write them as parts, without its file."""

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

import msgspec
import pyarrow as pa

from attrib_ds import local_files, schema
from attrib_ds.errors import AttribError, NotFound, Unavailable
from attrib_ds.records.parts import Folder
from attrib_ds.service.collection.daily_visitors import DailySalt
from attrib_ds.service.store import files, intake, queue, threads
from attrib_ds.service.store.settings import ProjectSettings, from_record

#: A journal holds what is accepted while the folder cannot be written: half an hour of 500 hits a second.
_MOST_WAITING: Final = 1_000_000
_MOST_BYTES: Final = 2 << 30
_ROWS_OF_PART: Final = 50_000
_SECONDS_TO_GATHER: Final = 5.0
_SECONDS_TO_CLOSE: Final = 30.0
_SECONDS_TO_REFRESH: Final = 60.0
#: A new day begins for all requests at once, and the service may be away.
_SECONDS_BETWEEN_READS: Final = 5.0
#: Columns of parts by member of a pending hit, where they are named otherwise.
_RENAMED: Final = {"id": "hitId", "serverDate": "date", "address": "ip"}
#: Of journals; the queue of a project has the name of its file.
_NAME: Final = re.compile("[0-9a-f]{32}[.]queue")
_log: Final = logging.getLogger(__name__)


def part_rows(records: Sequence[Mapping[str, Any]], *, project_id: str) -> pa.Table:
    """Return pending hits, whose instants are text, as rows of a part.

    Examples
    --------
    >>> record = {"id": "1", "trackerId": "day.5f p-1", "serverDate": "2026-11-23T12:00:00.5"}
    >>> part_rows([record], project_id="shop").select(["hitId", "trackerId", "otherTrackerId"]).to_pylist()
    [{'hitId': '1', 'trackerId': 'day.5f', 'otherTrackerId': 'p-1'}]
    """
    rows = []
    for record in records:
        row = {_RENAMED.get(name, name): value for name, value in record.items()}
        for name in ("date", "ingestedAt"):
            text = row.get(name)
            row[name] = text and datetime.fromisoformat(text).replace(tzinfo=UTC)
        tracker, _, other = row["trackerId"].partition(" ")
        rows.append(row | {"projectId": project_id, "trackerId": tracker, "otherTrackerId": other or None})
    return pa.Table.from_pylist(rows, schema.RAW_HIT)


class PartIntake(intake.Intake[dict[str, Any], None, dict[str, Any]]):
    """Accepts hits into a journal, and moves each into one part of a folder.

    A part is named after the journal and the numbers of its first and last hit. So whoever finds the journal
    after a crash, and beside it the part that it had just become, writes that part again with the same rows.

    Parameters
    ----------
    project_id : str
        The project.
    folder : Folder
        Folder of the parts.
    file : Path
        The journal, a queue that one process holds at a time.

    Raises
    ------
    ServiceFailure
        If another process holds it.
    """

    def __init__(self, project_id: str, folder: Folder, file: Path) -> None:
        self._project_id = project_id
        self._folder = folder
        self._file = file
        self._may_be_there = files.queue_of(file).exists()
        #: Numbers of the first and last hit of the latest part, which may have to be written again.
        self._latest = (0, 0)
        journal = queue.Queue(file, {}, is_exclusive=True)
        super().__init__(
            journal,
            queue.HITS,
            name=project_id,
            most_waiting=_MOST_WAITING,
            most=_ROWS_OF_PART,
            seconds_to_gather=_SECONDS_TO_GATHER,
        )

    def close(self, *, timeout: float = _SECONDS_TO_CLOSE) -> None:
        """Move what was accepted and remove the journal; after a timeout another process moves the rest."""
        super().close(timeout=timeout)
        is_empty = not any(self._queue.first(table, 1) for table in (queue.EVENTS, queue.HITS))
        self._queue.close()
        if is_empty:
            local_files.clear(files.queue_files(self._file))

    def _put(self, items: Sequence[dict[str, Any]]) -> Sequence[AttribError | None]:
        size = self._queue.size()
        if size >= _MOST_BYTES:
            message = f"{size:,} bytes of hits wait to be stored; try again later"
            return [Unavailable(message) for _ in items]
        for record in items:
            # Whoever loads the parts decides which of the hits with an id counts.
            self._queue.put(self._table, None, msgspec.json.encode(record))
        return [None] * len(items)

    def _read(self, contents: Sequence[bytes]) -> list[dict[str, Any]]:
        return [msgspec.json.decode(content) for content in contents]

    def _move(self, rows: Sequence[queue.Row], entries: Sequence[dict[str, Any]]) -> None:
        numbers, records = [row.number for row in rows], list(entries)
        while numbers:
            first, day = numbers[0], _day(records[0])
            below = f"hits/day={day}"
            if first != self._latest[0]:
                of_day = sum(1 for _ in next(groupby(records, _day))[1])
                last = self._find_last(below, first) if self._may_be_there else None
                self._latest = first, last or numbers[of_day - 1]
            count = sum(number <= self._latest[1] for number in numbers)
            name = f"{below}/{self._file.name}-{first:012}-{self._latest[1]:012}.parquet"
            self._folder.write(name, part_rows(records[:count], project_id=self._project_id))
            # Of several parts, only that with the first hit left may be there after a crash.
            self._queue.drop(self._table, self._latest[1])
            self._may_be_there = False
            del numbers[:count], records[:count]

    def _find_last(self, below: str, first: int) -> int | None:
        """Return the number of the last hit of the part that begins with a hit, if there is one."""
        start = f"{self._file.name}-{first:012}-"
        names = (part.path.rpartition("/")[2] for part in self._folder.find(below))
        return next(
            (int(name[len(start) : -len(".parquet")]) for name in names if name.startswith(start)), None
        )


def _day(record: Mapping[str, Any]) -> str:
    """Return the day of receipt, which grows with the number of the hit, unless the clock is set back."""
    return str(record["ingestedAt"])[:10]


class Collector:
    """Receives the hits of one project; thread-safe.

    Once a minute it reads its settings again, and writes the journals that other processes left behind.

    Parameters
    ----------
    project_id : str
        The project.
    folder : Folder
        Folder of the parts.
    journals : Path
        Folder of the journals, on a disk of this machine, with one below it for each project. Processes may
        share it.
    read : callable
        Returns the settings of the project, as ``get_collector`` does; raises AttribError.

    Raises
    ------
    AttribError
        If the settings or the folders cannot be read.
    """

    def __init__(
        self, project_id: str, folder: Folder, *, journals: Path, read: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._project_id = project_id
        self._folder = folder
        self._journals = journals / project_id
        self._read = read
        self._reading = threading.Lock()
        self._read_at = -_SECONDS_BETWEEN_READS
        self._is_stopped = threading.Event()
        self._take(read())
        # Fail at the start if the folder cannot be reached, before any hit is accepted.
        folder.find(f"hits/day={datetime.now(UTC).date()}")
        files.create_private_folder(self._journals)
        self._file = self._journals / uuid4().hex
        self._intake = PartIntake(project_id, folder, self._file)
        self._thread = threads.start_thread(self, self._work, name=f"collector of {project_id}")

    def find_open(self, project_id: str) -> Self | None:
        """Return the collector, for its project."""
        return self if project_id == self._project_id else None

    def get(self, project_id: str) -> Self:
        """Return the collector; raises NotFound for another project."""
        if project_id != self._project_id:
            raise NotFound(f"projectId: there is no project {project_id!r}", field="projectId")
        return self

    def start_hit(self, record: dict[str, Any]) -> Future[None]:
        """Start to accept a hit; the future is set once it is durable."""
        return self._intake.submit(record)

    def wait(self) -> None:
        """Return at once: the journal is never exchanged."""

    def cached_settings(self) -> ProjectSettings:
        """Return the settings that were read last."""
        return self._settings

    settings = cached_settings

    def renew_salt(self) -> None:
        """Read the settings with the salt of today, unless that has just been tried."""
        # Requests do not wait for a service that is away; their visits are counted page by page meanwhile.
        if time.monotonic() < self._read_at + _SECONDS_BETWEEN_READS or not self._reading.acquire(False):
            return
        try:
            self._take(self._read())
        except Exception as error:  # noqa: BLE001  (neither requests nor the thread fail by a wrong answer)
            _log.warning("the settings of %s cannot be read: %s", self._project_id, error)
        finally:
            self._read_at = time.monotonic()
            self._reading.release()

    def waiting(self) -> dict[str, dict[str, int]]:
        """Return the number of accepted hits that are not yet in parts."""
        return {self._project_id: {"hits": self._intake.waiting}}

    def stop(self) -> None:
        """Tell the thread to end."""
        self._is_stopped.set()

    def close(self) -> None:
        """Write what was accepted; what cannot be written stays in the journal."""
        self.stop()
        self._thread.join(_SECONDS_TO_CLOSE)
        self._intake.close()

    def _take(self, record: Mapping[str, Any]) -> None:
        read = from_record(record)
        salt = DailySalt(self._project_id, record.get("timezone") or "UTC")
        if record.get("salt"):
            salt.take(record.get("day"), record["salt"])
        else:
            read = replace(read, visitor_of_the_day=False)
        self.salt, self._settings = salt, read

    def _work(self) -> None:
        while True:
            try:
                self._adopt()
            except Exception:  # noqa: BLE001  (the next journals may be others)
                _log.exception("the journals of %s that were left behind are not written", self._project_id)
            if self._is_stopped.wait(_SECONDS_TO_REFRESH):
                return
            self.renew_salt()

    def _adopt(self) -> None:
        """Write the journals that no process holds."""
        for path in sorted(self._journals.glob("*.queue")):
            file = path.with_suffix("")
            if file == self._file or self._is_stopped.is_set() or not _NAME.fullmatch(path.name):
                continue
            try:
                # An empty one is about to be made; one that is gone was written by another process.
                if not path.stat().st_size:
                    continue
                left = PartIntake(self._project_id, self._folder, file)
                left.resume()
                left.close()
            except (AttribError, OSError) as error:
                _log.debug("%s is left to its process: %s", path, error)
