"""What the loaders of all kinds of records share: one batch, from checked rows into the tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.store.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import duckdb

    from attrib_ds.service.loading.checks import Staged
    from attrib_ds.service.store.ids import HexIds

#: Problems that only the tables can tell: found inside the transaction that writes.
LATE: Final = pa.schema([pa.field("row", pa.int64()), pa.field("reason", pa.string())])

#: When a record was made, which nothing changes; where it is not told it is the moment of loading.
_MADE: Final = frozenset({"createdAt", "ingestedAt"})


@dataclass(frozen=True)
class Project:
    """What a loader needs to know of the project.

    Parameters
    ----------
    project_id, currency : str
        The project.
    now : str
        SQL for the moment of loading.
    ids : HexIds
        Makes ids.
    """

    project_id: str
    currency: str
    now: str
    ids: HexIds


@dataclass(frozen=True)
class Batch:
    """Checked rows and how they enter the tables.

    Parameters
    ----------
    staged : Staged
        The checked rows.
    id_column : str
        Column that identifies a record.
    insert : callable
        Takes a connection inside a transaction and a :class:`Good`; returns counts by what was counted.
    """

    staged: Staged
    id_column: str
    insert: Callable[[duckdb.DuckDBPyConnection, Good], Mapping[str, int]]


@dataclass(frozen=True)
class Good:
    """The rows of a batch that have no problem, as far as is known.

    Parameters
    ----------
    staged : Staged
        All rows.
    late : str
        Table of problems found in the transaction.
    known : str
        Table of rows that tell nothing new, by :meth:`make_way`.
    is_replacing : bool, default False
        Whether stored records of the same ids give way instead of being a problem.
    """

    staged: Staged
    late: str = "temp.late_problems"
    known: str = "temp.known_rows"
    is_replacing: bool = False

    @property
    def rows(self) -> str:
        """SQL for the good rows, to stand in a FROM clause."""
        return (
            f"(SELECT * FROM {self.staged.relation} ANTI JOIN {self.staged.problems} USING (row) "
            f"ANTI JOIN {self.late} USING (row) ANTI JOIN {self.known} USING (row))"
        )

    def reject(self, connection: duckdb.DuckDBPyConnection, query: str) -> None:
        """List the problems that a query of ``row`` and ``reason`` finds."""
        connection.execute(f"INSERT INTO {self.late} (row, reason) {query}")

    def reject_stored(self, connection: duckdb.DuckDBPyConnection, table: str, name: str) -> None:
        """List rows whose id a stored record has, unless that gives way."""
        if name in self.staged.given and not self.is_replacing:
            reason = f"{literal(f'{name}: ')} || '''' || {quoted(name)} || ''' is already loaded'"
            stored = f"SELECT {quoted(name)} FROM {table}"
            self.reject(
                connection,
                f"SELECT row, {reason} FROM {self.staged.relation} WHERE {quoted(name)} IN ({stored})",
            )

    @contextmanager
    def make_way(
        self, connection: duckdb.DuckDBPyConnection, table: str, name: str, *, changed: str | None = None
    ) -> Iterator[str]:
        """Take away stored records of the same ids, and leave out rows that tell nothing new.

        Rows tell nothing new that are stored as they are, or of which a later change is stored. When a record
        was made does not change, so that it is not compared.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection
            Inside the transaction that writes, after all that rejects.
        table, name : str
            Of the stored records, and the column of their ids.
        changed : str, optional
            Column of when a record was last changed.

        Yields
        ------
        str
            A table of the records that were taken away, until the block ends; without rows unless stored
            records give way.
        """
        gone = "temp.replaced"
        both = f"{self.rows} AS given JOIN {table} AS stored ON stored.{quoted(name)} = given.{quoted(name)}"
        if not self.is_replacing:
            both = f"{both} WHERE false"
        else:
            compared = [each for each in TABLES[table] if each in self.staged.columns and each not in _MADE]
            same = " AND ".join(
                f"stored.{quoted(each)} IS NOT DISTINCT FROM given.{quoted(each)}" for each in compared
            )
            is_known = f"({same})"
            if changed in self.staged.columns:
                is_known += f" OR coalesce(stored.{quoted(changed)} > given.{quoted(changed)}, false)"
            connection.execute(f"INSERT INTO {self.known} SELECT row FROM {both} WHERE {is_known}")
        connection.execute(f"CREATE TEMP TABLE {gone.removeprefix('temp.')} AS SELECT stored.* FROM {both}")
        connection.execute(f"DELETE FROM {table} WHERE {quoted(name)} IN (SELECT {quoted(name)} FROM {gone})")
        yield gone
        connection.execute(f"DROP TABLE {gone}")

    def insert(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        *,
        values: Mapping[str, str] | None = None,
        rows: str | None = None,
    ) -> int:
        """Insert the good rows; columns come from the row unless ``values`` holds SQL for them."""
        given = values or {}
        columns = [name for name in TABLES[table] if name in given or name in self.staged.columns]
        selected = ", ".join(given.get(name, quoted(name)) for name in columns)
        names = ", ".join(quoted(name) for name in columns)
        inserted = connection.execute(
            f"INSERT INTO {table} ({names}) SELECT {selected} FROM {rows or self.rows} AS good"
        )
        return int(inserted.fetchall()[0][0])


def insert_implicit_nodes(
    connection: duckdb.DuckDBPyConnection, good: Good, project: Project, *, column: str, kind: str
) -> int:
    """Make the nodes that good rows name and that are not there yet; return how many."""
    inserted = connection.execute(
        "INSERT INTO nodes (_id, projectId, type, name, path, active, createdAt, updatedAt, implicit) "
        f"SELECT id, {literal(project.project_id)}, {literal(kind)}, id, [], true, {project.now}, "
        f"{project.now}, true FROM (SELECT DISTINCT {quoted(column)} AS id FROM {good.rows}) "
        "WHERE id NOT IN (SELECT _id FROM nodes) ORDER BY id"
    )
    return int(inserted.fetchall()[0][0])
