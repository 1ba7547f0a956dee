"""Copies a project into another file while it is in use."""

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
from attrib_ds.service.store.file_errors import explained
from attrib_ds.service.store.writer import logs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attrib_ds.contract.administration import BackUpProject
    from attrib_ds.service.store.store import Store


def back_up_project(store: Store, request: BackUpProject) -> Answer:  # noqa: ARG001  (it asks for all)
    """Answer a copy of the project, which is written to the disk before the first byte of it is handed on."""
    folder = store.path.parent if store.path else Path(tempfile.gettempdir())
    with ExitStack() as stack:
        part = stack.enter_context(passing_file(folder / f"{store.meta.project_id}.backup"))
        with store.cursor() as cursor:
            copy_database(cursor, store.catalog, part)
        file = File.of(stack.enter_context(part.open("rb")))
        return Answer(value=replace(file, close=stack.pop_all().close))


@contextmanager
def passing_file(beside: Path) -> Iterator[Path]:
    """Give the name of a file in the folder of another one; what is there when the block ends is removed."""
    part = beside.with_name(f".{beside.name}.{uuid4().hex}.part")
    try:
        yield part
    finally:
        for each in (part, *logs_of(part)):
            with suppress(OSError):
                each.unlink(missing_ok=True)


def copy_database(connection: duckdb.DuckDBPyConnection, catalog: str, path: Path) -> None:
    """Copy a database with all its tables, constraints and rows, in one transaction.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Outside a transaction, to an instance that has attached the database.
    catalog : str
        The database's name, quoted.
    path : Path
        A file that is not there yet.

    Raises
    ------
    Unavailable
        If one of them cannot be read, or written.
    """
    name = quoted(f"copy_{uuid4().hex}")
    try:
        connection.execute(f"ATTACH {literal(str(path))} AS {name} (READ_WRITE)")
        try:
            # One transaction: the copy is of one moment.
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
        raise Unavailable(f"the project cannot be copied: {explained(error)}") from error


def put_in_place(part: Path, path: Path) -> None:
    """Give a whole file its name, so that a crash at any moment leaves the one or the other."""
    _flush(part)
    part.replace(path)
    if os.name == "posix":
        _flush(path.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
