"""A batch of validated rows, and its insertion into the tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.store.table_definitions import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import duckdb

    from attrib_ds.service.loading.checks import Staged
    from attrib_ds.service.store.ids import HexIds

#: Violations found in the writing transaction, by comparison with stored records.
CONFLICTS: Final = pa.schema([pa.field("row", pa.int64()), pa.field("reason", pa.string())])

#: Creation dates, which never change; by default the time of loading.
_CREATION_DATES: Final = frozenset({"createdAt", "ingestedAt"})


@dataclass(frozen=True)
class Project:
    """Properties of the project that loaders need.

    Parameters
    ----------
    project_id, currency : str
        Id and currency.
    now : str
        SQL for the time of loading.
    ids : HexIds
        Generates ids.
    """

    project_id: str
    currency: str
    now: str
    ids: HexIds


@dataclass(frozen=True)
class Batch:
    """Validated rows and the function that inserts them.

    Parameters
    ----------
    staged : Staged
        The validated rows.
    id_column : str
        Column that identifies a record.
    insert : callable
        Takes a connection inside a transaction and a :class:`ValidRows`; returns numbers of inserted records.
    """

    staged: Staged
    id_column: str
    insert: Callable[[duckdb.DuckDBPyConnection, ValidRows], Mapping[str, int]]


@dataclass(frozen=True)
class ValidRows:
    """The valid rows of a batch, while it is inserted.

    Parameters
    ----------
    staged : Staged
        All rows.
    conflicts : str
        Table of violations found in the transaction.
    unchanged : str
        Table of unchanged rows, from :meth:`replace_stored`.
    is_replacing : bool, default False
        Whether rows replace stored records with the same ids.
    """

    staged: Staged
    conflicts: str = "temp.conflicting_rows"
    unchanged: str = "temp.unchanged_rows"
    is_replacing: bool = False

    @property
    def rows(self) -> str:
        """The valid rows as a relation in SQL, for a FROM clause."""
        return (
            f"(SELECT * FROM {self.staged.relation} ANTI JOIN {self.staged.problems} USING (row) "
            f"ANTI JOIN {self.conflicts} USING (row) ANTI JOIN {self.unchanged} USING (row))"
        )

    def reject(self, connection: duckdb.DuckDBPyConnection, query: str) -> None:
        """Reject the rows of a query of ``row`` and ``reason``."""
        connection.execute(f"INSERT INTO {self.conflicts} (row, reason) {query}")

    def reject_stored(self, connection: duckdb.DuckDBPyConnection, table: str, name: str) -> None:
        """Reject rows with the id of a stored record, unless rows replace stored records."""
        if name in self.staged.source_columns and not self.is_replacing:
            reason = f"{literal(f'{name}: ')} || '''' || {quoted(name)} || ''' is already loaded'"
            stored = f"SELECT {quoted(name)} FROM {table}"
            self.reject(
                connection,
                f"SELECT row, {reason} FROM {self.staged.relation} WHERE {quoted(name)} IN ({stored})",
            )

    @contextmanager
    def replace_stored(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        name: str,
        *,
        changed: str | None = None,
        filled: Collection[str] = (),
        differing: str | None = None,
    ) -> Iterator[str]:
        """Delete stored records that rows replace, and skip unchanged rows.

        Rows are unchanged if the stored record is equal, apart from creation dates, or changed later.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection
            Inside the writing transaction, after all rejections.
        table, name : str
            Table of the stored records, and column of their ids.
        changed : str, optional
            Column with the date of the last change.
        filled : collection of str
            Columns that the service fills where a row has null.
        differing : str, optional
            Query of ``row`` for rows that differ from their stored record in another table.

        Yields
        ------
        str
            Table of the deleted records, until the block ends.
        """
        replaced = "temp.replaced"
        pairs = (
            f"{self.rows} AS loaded JOIN {table} AS stored ON stored.{quoted(name)} = loaded.{quoted(name)}"
        )
        if not self.is_replacing:
            pairs = f"{pairs} WHERE false"
        else:
            compared = [
                column
                for column in TABLES[table]
                if column in self.staged.columns and column not in _CREATION_DATES
            ]
            is_equal = " AND ".join(
                f"(stored.{quoted(column)} IS NOT DISTINCT FROM loaded.{quoted(column)}"
                f"{f' OR loaded.{quoted(column)} IS NULL' if column in filled else ''})"
                for column in compared
            )
            if differing is not None:
                is_equal += f" AND loaded.row NOT IN ({differing})"
            is_unchanged = f"({is_equal})"
            if changed in self.staged.columns:
                is_unchanged += f" OR coalesce(stored.{quoted(changed)} > loaded.{quoted(changed)}, false)"
            connection.execute(f"INSERT INTO {self.unchanged} SELECT row FROM {pairs} WHERE {is_unchanged}")
        connection.execute(
            f"CREATE TEMP TABLE {replaced.removeprefix('temp.')} AS SELECT stored.* FROM {pairs}"
        )
        connection.execute(
            f"DELETE FROM {table} WHERE {quoted(name)} IN (SELECT {quoted(name)} FROM {replaced})"
        )
        yield replaced
        connection.execute(f"DROP TABLE {replaced}")

    def insert(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        *,
        values: Mapping[str, str] | None = None,
        rows: str | None = None,
    ) -> int:
        """Insert the valid rows; ``values`` holds SQL for columns that differ from the row."""
        expressions = values or {}
        columns = [name for name in TABLES[table] if name in expressions or name in self.staged.columns]
        selected = ", ".join(expressions.get(name, quoted(name)) for name in columns)
        names = ", ".join(quoted(name) for name in columns)
        inserted = connection.execute(
            f"INSERT INTO {table} ({names}) SELECT {selected} FROM {rows or self.rows} AS valid"
        )
        return int(inserted.fetchall()[0][0])


def insert_implicit_nodes(
    connection: duckdb.DuckDBPyConnection, valid: ValidRows, project: Project, *, column: str, kind: str
) -> int:
    """Create missing nodes that valid rows refer to; return their number."""
    inserted = connection.execute(
        "INSERT INTO nodes (_id, projectId, type, name, path, active, createdAt, updatedAt, implicit) "
        f"SELECT id, {literal(project.project_id)}, {literal(kind)}, id, [], true, {project.now}, "
        f"{project.now}, true FROM (SELECT DISTINCT {quoted(column)} AS id FROM {valid.rows}) "
        "WHERE id NOT IN (SELECT _id FROM nodes) ORDER BY id"
    )
    return int(inserted.fetchall()[0][0])
