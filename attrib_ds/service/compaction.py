"""Rewrites the files of a project, so that they keep nothing of what was deleted or erased.

DuckDB and SQLite leave deleted rows in the blocks of their files until something else takes the place.
"""

import shutil
import time
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import duckdb

from attrib_ds import local_files
from attrib_ds.errors import Unavailable
from attrib_ds.records.sources import quoted
from attrib_ds.service import backup
from attrib_ds.service.store import audit, connections, files, queue, tables
from attrib_ds.service.store.store import Store, open_file
from attrib_ds.service.users.personal_data import ERASED_SINCE

#: Time from the first erasure to the compaction that the service begins by itself. The rest of the day is for
#: further attempts, if the project is busy or the disk has no room.
PATIENCE: Final = timedelta(hours=12)
#: Age from which on an incomplete copy or upload is what a process left that was killed.
_SECONDS_OF_A_COPY: Final = 3_600.0


def is_due(store: Store, now: datetime) -> bool:
    """Return whether persons were erased from the tables long enough ago, and not from the files."""
    with store.cursor() as cursor:
        since = tables.read_setting(cursor, ERASED_SINCE)
    return since is not None and now - datetime.fromisoformat(since) >= PATIENCE


def compact(
    target: Path, cancellation: connections.Cancellation, line: audit.AuditEntry | None = None
) -> dict[str, int]:
    """Rewrite the files of a project, which must not be open.

    The file itself is copied row by row, and replaced by the copy atomically: after a crash it is the former
    one or the new one. What earlier restorations set aside, and what killed processes left, is removed.

    Parameters
    ----------
    target : Path
        The project's file.
    cancellation : Cancellation
        Ends the copying; the file is then unchanged.
    line : AuditEntry, optional
        Audit entry.

    Returns
    -------
    dict of str to int
        ``bytesBefore`` and ``bytesAfter``: the size of the file.

    Raises
    ------
    ProjectInUse
        If the file is open.
    Unavailable
        If it cannot be copied, for lack of room for instance; it is unchanged.
    """
    before = target.stat().st_size
    with backup.temporary_file(target) as part:
        try:
            with closing(open_file(target, exclusive=True)) as connection:
                with cancellation.calling(connection.interrupt):
                    connection.execute("CHECKPOINT")
                    (catalog,) = connection.execute("SELECT current_database()").fetchall()[0]
                    backup.copy_database(connection, quoted(catalog), part)
                with closing(open_file(part)) as copy:
                    tables.write_setting(copy, ERASED_SINCE, None)
                    audit.append(copy, [] if line is None else [line])
                    copy.execute("CHECKPOINT")
                # Before the file, whose mark of an erasure is gone with the replacement.
                queue.compact(target)
                _remove_leftovers(target, part)
                backup.flush(part)
            backup.replace_durably(part, target)
        except (OSError, duckdb.Error) as error:
            raise Unavailable(
                f"path: {str(target)!r} cannot be compacted: {files.with_advice(error)}"
            ) from error
    return {"bytesBefore": before, "bytesAfter": target.stat().st_size}


def _remove_leftovers(target: Path, part: Path) -> None:
    """Remove spilled data, what a restoration or a new format set aside, and copies of killed processes."""
    folder, latest = target.parent, time.time() - _SECONDS_OF_A_COPY
    shutil.rmtree(folder / f"{target.name}.tmp", ignore_errors=True)
    patterns = (f".{target.stem}.*.part*", ".*.upload*")
    copies = [path for pattern in patterns for path in folder.glob(pattern)]
    for path in [
        *folder.glob(f"{target.name}.*.old"),
        *folder.glob(f"{target.stem}.format-*{target.suffix}*"),
        *(path for path in copies if not path.name.startswith(part.name) and path.stat().st_mtime < latest),
    ]:
        local_files.remove(path)
