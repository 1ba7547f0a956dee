"""Online backups: consistent copies of a project in use."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb

from attrib_ds.contract import Answer
from attrib_ds.contract.answer import File
from attrib_ds.errors import Unavailable
from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.store.file_errors import with_advice
from attrib_ds.service.store.private_files import create_private_file, flush_folder, private_creation
from attrib_ds.service.store.write_counter import counter_of
from attrib_ds.service.store.writer import log_of, logs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attrib_ds.contract.administration import BackUpProject
    from attrib_ds.service.store.store import Store


def back_up_project(store: Store, request: BackUpProject) -> Answer:  # noqa: ARG001  (has no arguments)
    """Return a copy of the project; it is complete on disk before its first byte is read."""
    folder = store.path.parent if store.path else Path(tempfile.gettempdir())
    with ExitStack() as stack:
        part = stack.enter_context(temporary_file(folder / f"{store.meta.project_id}.backup"))
        with store.cursor() as cursor:
            copy_database(cursor, store.catalog, part)
        file = File.of(stack.enter_context(part.open("rb")))
        return Answer(value=replace(file, close=stack.pop_all().close))


@contextmanager
def temporary_file(beside: Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside another file; it is removed when the block ends."""
    part = beside.with_name(f".{beside.name}.{uuid4().hex}.part")
    try:
        yield part
    finally:
        for path in (part, counter_of(part), *logs_of(part)):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def copy_database(connection: duckdb.DuckDBPyConnection, catalog: str, path: Path) -> None:
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
        with private_creation():
            connection.execute(f"ATTACH {literal(str(path))} AS {name} (READ_WRITE)")
        try:
            create_private_file(log_of(path))
            # One transaction, so that the copy is a snapshot.
            connection.begin()
            connection.execute(f"COPY FROM DATABASE {catalog} TO {name}")
            connection.commit()
            connection.execute(f"CHECKPOINT {name}")
        except BaseException:
            with suppress(duckdb.Error):
                connection.rollback()
            raise
        finally:
            connection.execute(f"DETACH {name}")
    except duckdb.Error as error:
        raise Unavailable(f"the project cannot be copied: {with_advice(error)}") from error


def replace_durably(part: Path, path: Path) -> None:
    """Replace a file atomically and durably by a complete one."""
    _flush(part)
    part.replace(path)
    flush_folder(path.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
