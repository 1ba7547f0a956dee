"""The engine that runs queries: an in-memory DuckDB, or the engine of the user's own tables."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir

from attrib_ds.errors import InvalidRequest, NotSupported

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Ibis names of the engines on which the tests compare results with those of DuckDB.
CHECKED: Final = ("clickhouse", "duckdb", "postgres", "pyspark")

_MEMORY: Final = re.compile(r"\d+(\.\d+)? ?([KMGT]i?B)")


def engine(memory: str | None = None) -> Any:
    """Return a new in-memory DuckDB whose time zone is UTC.

    Parameters
    ----------
    memory : str, optional
        Maximum memory, such as ``"4GB"``; larger data is spilled to the folder for temporary files. The
        default is 80 % of the machine's memory.

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
    # By default, an in-memory database spills to the working directory.
    spill_folder = Path(tempfile.gettempdir()) / f"attrib_ds.{id(backend):x}.tmp"
    backend.con.execute("SET temp_directory = ?", [str(spill_folder)])
    if memory is not None:
        backend.con.execute("SET memory_limit = ?", [memory])
    return backend


def engine_of(tables: Iterable[object], *, memory: str | None = None, unchecked: bool = False) -> Any:
    """Return the engine of the Ibis tables among some tables, or a new one if there are none.

    Parameters
    ----------
    tables : iterable
        Tables of any kind.
    memory : str, optional
        As in :func:`engine`.
    unchecked : bool, default False
        As in :func:`portable`.

    Raises
    ------
    InvalidRequest
        If the tables are in several engines, or ``memory`` is set for the user's own engine.
    NotSupported
        If the engine is not one of ``CHECKED``.
    """
    external = [table for table in tables if isinstance(table, ir.Table)]
    # By identity: Ibis considers two in-memory databases equal.
    backends = list({id(found): found for table in external for found in table._find_backends()[0]}.values())
    if not external:
        return engine(memory)
    if len(backends) != 1:
        raise InvalidRequest(
            f"tables: they are in {len(backends)} engines; allowed: tables of one connection, and frames"
        )
    if memory is not None:
        raise InvalidRequest(
            "memory: it cannot be set for tables in your own engine; set it there", field="memory"
        )
    return portable(backends[0], unchecked=unchecked)


def portable(backend: Any, *, unchecked: bool = False) -> Any:
    """Return an engine with the results of DuckDB that exchanges Arrow tables.

    It is the backend itself, or a subclass of it with the same session.

    Parameters
    ----------
    backend : ibis backend
        The user's connection.
    unchecked : bool, default False
        Whether to accept an engine on which the tests do not run. Its results may differ, so
        :func:`attrib_ds.attribute` then checks that credits add up to their conversions.

    Raises
    ------
    NotSupported
        If the engine is not one of ``CHECKED``.
    """
    if backend.name not in CHECKED and not unchecked:
        raise NotSupported(
            f"tables: the results of {backend.name} are not checked against those of other engines; checked: "
            f"{', '.join(CHECKED)}; with unchecked=True credits are computed and checked to add up"
        )
    # Imported here because other engines than DuckDB are optional.
    if backend.name == "pyspark":
        from attrib_ds.attribution.engines.spark import Spark

        return backend if isinstance(backend, Spark) else Spark().connect(backend._session)
    if backend.name == "postgres":
        from attrib_ds.attribution.engines.postgres import Postgres

        return backend if isinstance(backend, Postgres) else Postgres.from_connection(backend.con)
    if backend.name == "clickhouse":
        from attrib_ds.attribution.engines.clickhouse import ClickHouse

        return backend if isinstance(backend, ClickHouse) else ClickHouse.from_connection(backend.con)
    return backend


def dialect_of(expression: Any) -> str:
    """Return the Ibis name of the engine that computes an expression."""
    backends = [*expression.op().find(ops.DatabaseTable), *expression.op().find(ops.SQLQueryResult)]
    return str(backends[0].source.name) if backends else "duckdb"


def has_all_features(expression: Any) -> bool:
    """Return whether the engine of an expression has temporary tables and bitwise aggregates in windows.

    DuckDB and Spark have. In warehouses, readers often may not write.
    """
    return dialect_of(expression) in ("duckdb", "pyspark")


def double(number: float) -> Any:
    """Return a constant that is a double on every engine; many read ``1.0`` as a decimal, and round."""
    return ibis.literal(repr(float(number))).cast("float64")


def joined_in_order(texts: Any, order: Any, separator: str) -> Any:
    """Return an aggregate that joins the texts of a group in ascending order, without missing ones.

    Parameters
    ----------
    texts : ibis string
        Column to join.
    order : ibis integer
        Column of the same table to order by.
    separator : str
        Text between two texts.
    """
    if dialect_of(texts) not in ("pyspark", "clickhouse"):
        return texts.group_concat(separator, order_by=order)
    # These engines ignore the order of aggregation, so pairs are sorted afterwards.
    pairs = ibis.struct({"order": order, "text": texts}).collect(where=texts.notnull())
    return pairs.sort().map(lambda pair: pair.text).join(separator)


def rebound(table: ir.Table, backend: Any) -> ir.Table:
    """Return a table bound to another connection to the same engine."""

    def replaced(node: Any, changed: Any) -> Any:
        arguments = changed or dict(zip(node.__argnames__, node.__args__, strict=True))
        if arguments.get("source", backend) is not backend:
            return type(node)(**arguments | {"source": backend})
        return type(node)(**changed) if changed else node

    return table.op().replace(replaced).to_expr()
