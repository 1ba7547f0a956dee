"""Files of earlier formats: brought up to date when they are opened for writing, after a copy beside them."""

import shutil
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from attrib_ds import local_files
from attrib_ds.contract import identifiers
from attrib_ds.errors import Unavailable
from attrib_ds.records.sources import quoted
from attrib_ds.service.store import files, tables

#: Oldest format whose tables differ from today's only in columns that are empty without harm.
OLDEST: Final = 3
#: Last format whose campaigns of different texts could have one slug.
_LAST_WITH_FORMER_SLUGS: Final = 7


def set_aside(connection: duckdb.DuckDBPyConnection, file: Path, version: int) -> Path:
    """Close a file of an earlier format and copy it; return the path of the copy.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The only one to the file; Windows copies no open file.
    file : Path
        The file.
    version : int
        Its format.

    Raises
    ------
    ProjectInUse
        If another process has opened the file meanwhile.
    Unavailable
        If there is no room for the copy.
    """
    copy = file.with_name(f"{file.stem}.format-{version}{file.suffix}")
    try:
        connection.execute("CHECKPOINT")
        connection.close()
        with (
            files.locked(file),
            file.open("rb") as source,
            local_files.replacing(copy, private=True) as sink,
        ):
            shutil.copyfileobj(source, sink)
        local_files.flush_folder(copy.parent)
    except (duckdb.Error, OSError) as error:
        raise _failure(file, version, error) from error
    return copy


def bring_up_to_date(connection: duckdb.DuckDBPyConnection, file: Path, version: int) -> None:
    """Give the tables of a file the columns of today's format, in one transaction.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Open for writing; its current database is the file.
    file : Path
        The file.
    version : int
        Its format.

    Raises
    ------
    Unavailable
        If there is no room for the tables; the file is as it was.
    """
    try:
        with connection.cursor() as cursor:
            cursor.begin()
            for table in tables.differences(cursor):
                _rebuild(cursor, table)
            if version <= _LAST_WITH_FORMER_SLUGS:
                _keep_campaigns(cursor)
            cursor.execute("UPDATE meta SET schema_version = ?", [tables.VERSION])
            cursor.commit()
        connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        raise _failure(file, version, error) from error


def _failure(file: Path, version: int, error: Exception) -> Unavailable:
    return Unavailable(
        f"path: {str(file)!r} has format version {version} and cannot be brought up to date: "
        f"{files.with_advice(error)}; it was not changed"
    )


def _keep_campaigns(cursor: duckdb.DuckDBPyConnection) -> None:
    """Let campaigns answer to the slug that their text has today, beside the slug that they keep.

    The name of a campaign that traffic made is its text. The text of others is not kept: they answer to every
    text that once had their slug, until a campaign is created for it.
    """
    query = "SELECT id, name, campaignSlug FROM campaigns WHERE campaignSlug IS NOT NULL"
    found = []
    for id, name, slug in cursor.execute(query).fetchall():
        if identifiers.former_slug_of(name or "") == slug:
            found.append({"id": id, "textSlug": identifiers.slug_of(name)})
        elif identifiers.former_slug_of(slug) == slug:
            found.append({"id": id, "textSlug": slug + identifiers.FORMER})
        else:
            found.append({"id": id, "textSlug": identifiers.slug_of(slug)})
    if found:
        with tables.arrow_view(cursor, pa.Table.from_pylist(found)) as view:
            cursor.execute(
                f"UPDATE campaigns SET textSlug = found.textSlug FROM {view} AS found "
                "WHERE found.id = campaigns.id AND found.textSlug <> campaignSlug"
            )


def _rebuild(cursor: duckdb.DuckDBPyConnection, table: str) -> None:
    """Create a table as in a new file, with the rows of the one that is there."""
    here = "table_name = ? AND database_name = current_database()"
    before = cursor.execute(f"SELECT column_name FROM duckdb_columns() WHERE {here}", [table]).fetchall()
    columns = tables.TABLES.get(table)
    if before:
        cursor.execute(f"ALTER TABLE {quoted(table)} RENAME TO {quoted(f'{table} before')}")
    if columns is not None:
        cursor.execute(tables.create_statement(table))
        shared = ", ".join(quoted(name) for (name,) in before if name in columns)
        if shared:
            cursor.execute(
                f"INSERT INTO {quoted(table)} ({shared}) SELECT {shared} FROM {quoted(f'{table} before')}"
            )
    if before:
        cursor.execute(f"DROP TABLE {quoted(f'{table} before')}")
