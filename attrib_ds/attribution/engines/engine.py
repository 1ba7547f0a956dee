"""The engine that computes: a DuckDB of its own, or the one that a user's tables are in."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

_MEMORY: Final = re.compile(r"\d+(\.\d+)? ?([KMGT]i?B)")


def engine(memory: str | None = None) -> Any:
    """Return a DuckDB engine of its own that reads instants as UTC.

    Parameters
    ----------
    memory : str, optional
        What it may hold, such as ``"4GB"``; beyond, it writes to files in the folder for temporary files. By
        default four fifths of the machine's memory.

    Raises
    ------
    InvalidRequest
        If the text is not an amount of memory.
    """
    if memory is not None and not (isinstance(memory, str) and _MEMORY.fullmatch(memory)):
        raise InvalidRequest(
            f"memory: {memory!r} is not allowed; allowed: an amount of memory such as '4GB' or '512MB'",
            field="memory",
        )
    backend = ibis.duckdb.connect()
    backend.con.execute("SET TimeZone = 'UTC'")
    # By default that of a database in memory is a folder in the working directory.
    spilled = Path(tempfile.gettempdir()) / f"attrib_ds.{id(backend):x}.tmp"
    backend.con.execute("SET temp_directory = ?", [str(spilled)])
    if memory is not None:
        backend.con.execute("SET memory_limit = ?", [memory])
    return backend


def engine_of(tables: Iterable[object], *, memory: str | None = None) -> Any:
    """Return the engine that the tables of Ibis among others are in, or one of its own where there are none.

    Raises
    ------
    InvalidRequest
        If the tables are in several engines, or memory is told for an engine that is not ours.
    """
    lent = [table for table in tables if isinstance(table, ir.Table)]
    # By identity: Ibis takes two databases in memory for equal.
    backends = list({id(each): each for table in lent for each in table._find_backends()[0]}.values())
    if not lent:
        return engine(memory)
    if len(backends) != 1:
        raise InvalidRequest(
            f"tables: they are in {len(backends)} engines; allowed: tables of one connection, and frames "
            "beside them"
        )
    if memory is not None:
        raise InvalidRequest(
            "memory: the tables are in an engine of yours; set it there, and leave this out", field="memory"
        )
    return portable(backends[0])


def portable(backend: Any) -> Any:
    """Return an engine that computes as DuckDB does, and gives and takes Arrow tables.

    The one that is there, or ours with its session.
    """
    # Imported late: who has no Spark or PostgreSQL does without.
    if backend.name == "pyspark":
        from attrib_ds.attribution.engines.spark import Spark

        return backend if isinstance(backend, Spark) else Spark().connect(backend._session)
    if backend.name == "postgres":
        from attrib_ds.attribution.engines.postgres import Postgres

        return backend if isinstance(backend, Postgres) else Postgres.from_connection(backend.con)
    return backend


def dialect_of(expression: Any) -> str:
    """Return the name of the engine that an expression is computed by, in the words of Ibis."""
    backends = [*expression.op().find(ops.DatabaseTable), *expression.op().find(ops.SQLQueryResult)]
    return str(backends[0].source.name) if backends else "duckdb"


def has_everything(expression: Any) -> bool:
    """Say whether the engine of an expression lets temporary tables be made, and aggregates bits in windows.

    DuckDB and Spark do. In other people's warehouses who may read may not be allowed to write.
    """
    return dialect_of(expression) in ("duckdb", "pyspark")


def double(number: float) -> Any:
    """Return a constant that is a double everywhere: many engines take ``1.0`` for a decimal, and round."""
    return ibis.literal(repr(float(number))).cast("float64")


def joined_in_order(texts: Any, order: Any, separator: str) -> Any:
    """Return the aggregate that joins the texts of a group, smallest order first; missing ones are left out.

    Parameters
    ----------
    texts : ibis string
        A column.
    order : ibis integer
        Another one of the same table.
    separator : str
        Between two texts.
    """
    if dialect_of(texts) not in ("pyspark", "clickhouse"):
        return texts.group_concat(separator, order_by=order)
    # These engines aggregate in any order: pairs are sorted after that.
    pairs = ibis.struct({"order": order, "text": texts}).collect(where=texts.notnull())
    return pairs.sort().map(lambda pair: pair.text).join(separator)


def moved(table: ir.Table, backend: Any) -> ir.Table:
    """Return a table as one of another connection to the same engine."""

    def replaced(node: Any, changed: Any) -> Any:
        arguments = changed or dict(zip(node.__argnames__, node.__args__, strict=True))
        if arguments.get("source", backend) is not backend:
            return type(node)(**arguments | {"source": backend})
        return type(node)(**changed) if changed else node

    return table.op().replace(replaced).to_expr()
