"""The engine that runs queries: an in-memory DuckDB, or the engine of the user's own tables."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, reduce
from itertools import pairwise
from operator import add
from typing import Any, Final

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import pyarrow as pa
import sqlglot as sg
from ibis.backends.duckdb import Backend
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler

from attrib_ds import scratch, sql_results
from attrib_ds.errors import InvalidRequest, NotSupported

#: Ibis names of the engines on which the tests compare results with those of DuckDB.
CHECKED: Final = ("clickhouse", "duckdb", "postgres", "pyspark")

_MEMORY: Final = re.compile(r"\d+(\.\d+)? ?([KMGT]i?B)")


class _Compiler(DuckDBCompiler):  # type: ignore[misc]
    """Writes ``lambda x: x`` where Ibis 12 writes ``x -> x``, which DuckDB 2 refuses."""

    def to_sqlglot(self, *arguments: Any, **options: Any) -> Any:
        """Return the syntax tree of an expression."""
        query = super().to_sqlglot(*arguments, **options)
        for function in query.find_all(sg.exp.Lambda):
            function.set("colon", True)
        return query


class DuckDB(Backend):  # type: ignore[misc]
    """DuckDB as Ibis 12 knows it, without what DuckDB 2 refuses or warns of."""

    compiler = _Compiler()

    def get_schema(
        self, table_name: str, *, catalog: str | None = None, database: str | None = None
    ) -> ibis.Schema:
        """Return the columns of a table; raises an error of DuckDB if there is none."""
        table = sg.exp.table_(table_name, db=database, catalog=catalog, quoted=True).sql(self.dialect)
        columns = self.con.execute(f"DESCRIBE {table}").fetchall()
        return ibis.schema({name: _type(kind, null == "YES") for name, kind, null, *_ in columns})


@lru_cache(1_024)
def _type(kind: str, nullable: bool) -> Any:
    """Return the type of Ibis for the name of one; parsing it takes a fifth of a millisecond."""
    return _Compiler.type_mapper.from_string(kind, nullable=nullable)


def engine(memory: str | None = None) -> Any:
    """Return a session of DuckDB in memory whose time zone is UTC.

    Parameters
    ----------
    memory : str, optional
        Maximum memory, such as ``"4GB"``, of a database of its own; larger data is spilled to the folder for
        temporary files. By default, sessions share one database and 80 % of the machine's memory.

    Raises
    ------
    InvalidRequest
        If the text is not an amount of memory.
    """
    if memory is not None and not (isinstance(memory, str) and _MEMORY.fullmatch(memory)):
        raise InvalidRequest.value("memory", memory, "an amount of memory such as '4GB' or '512MB'")
    connection = scratch.connect() if memory is None else scratch.start_duckdb()
    connection.execute("SET TimeZone = 'UTC'")
    if memory is not None:
        connection.execute("SET memory_limit = ?", [memory])
    return DuckDB.from_connection(connection)


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
        raise InvalidRequest("memory: it cannot be set for tables in your own engine; set it there")
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
    InvalidRequest
        If it is not a connection of Ibis.
    NotSupported
        If the engine is not one of ``CHECKED``.
    """
    if not isinstance(backend, ibis.BaseBackend):
        raise InvalidRequest(
            f"backend: {type(backend).__name__} is not allowed; allowed: a connection of Ibis, such as "
            "ibis.duckdb.connect(…)"
        )
    if backend.name not in CHECKED and not unchecked:
        raise NotSupported(
            f"tables: {backend.name} is not tested; tested: {', '.join(CHECKED)}. unchecked=True computes "
            "credits there, and checks that they add up to the conversions"
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
    if backend.name == "duckdb":
        return backend if isinstance(backend, DuckDB) else DuckDB.from_connection(backend.con)
    return backend


def dialect_of(expression: Any) -> str:
    """Return the Ibis name of the engine that computes an expression."""
    backends = [*expression.op().find(ops.DatabaseTable), *expression.op().find(ops.SQLQueryResult)]
    return str(backends[0].source.name) if backends else "duckdb"


def batches_of(table: ir.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Compute a table, and yield its rows in batches where the engine can."""
    backend = table._find_backend(use_default=True)
    if backend.name != "duckdb":
        return iter(table.to_pyarrow_batches(chunk_size=rows))
    # Not `to_pyarrow_batches` of Ibis 12, which calls a method that DuckDB 2 lacks.
    backend._run_pre_execute_hooks(table)
    return iter(sql_results.read_batches(backend.con, backend.compile(table), rows))


def table_names(backend: Any) -> list[str]:
    """Return the names of the tables and views of an engine's current schema."""
    if backend.name != "duckdb":
        return list(backend.list_tables())
    # Not `list_tables` of Ibis 12, for the same reason.
    return [name for (name,) in backend.con.execute("SHOW TABLES").fetchall()]


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
        changes = dict(changed or {})
        if getattr(node, "source", backend) is not backend:
            changes["source"] = backend
        return node.copy(**changes) if changes else node

    return table.op().replace(replaced).to_expr()


def without_unread(rows: ir.Table, table: ir.Table) -> ir.Table:
    """Return rows of a table without its columns that they do not read.

    DuckDB computes windows that nothing reads.
    """
    node = table.op()
    if not isinstance(node, ops.Project):
        return rows
    read = {each.name for each in rows.op().find(ops.Field) if each.rel == node}
    narrow = ops.Project(node.parent, {name: each for name, each in node.values.items() if name in read})
    return rows.op().replace({node: narrow}).to_expr()


#: Prime modulus of the numbers.
PRIME: Final = 2**31 - 1

#: Number of hexadecimal digits of the hash to use, and their base.
_DIGITS: Final = 8
_BASE: Final = 16


def builtin(name: str, taken: str, returned: str, *further: str) -> Callable[..., Any]:
    """Declare a built-in function of an engine by its name and types; a second value has a further one."""

    def of_one(value: Any) -> Any: ...

    def of_two(value: Any, second: Any) -> Any: ...

    declared: Callable[..., Any] = ibis.udf.scalar.builtin(
        of_two if further else of_one, name=name, signature=((taken, *further), returned)
    )
    return declared


#: Digests as hexadecimal text in lower case on engines whose function returns bytes, by its name.
_DIGESTS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "bigquery": lambda text, name: builtin("to_hex", "binary", "string")(
        builtin(name, "string", "binary")(text)
    ),
    "clickhouse": lambda text, name: builtin("hex", "binary", "string")(
        builtin(name.upper(), "string", "binary")(text)
    ).lower(),
    "trino": lambda text, name: builtin("to_hex", "binary", "string")(
        builtin(name, "binary", "binary")(builtin("to_utf8", "string", "binary")(text))
    ).lower(),
}
#: The same, of SHA-256 on engines whose function of that name returns bytes or has another name.
_SHA256: Final[dict[str, Callable[[Any], Any]]] = {
    "postgres": lambda text: builtin("encode", "binary", "string", "string")(
        builtin("sha256", "binary", "binary")(
            builtin("convert_to", "string", "binary", "string")(text, "UTF8")
        ),
        "hex",
    ),
    **dict.fromkeys(
        ("pyspark", "snowflake"), lambda text: builtin("sha2", "string", "string", "int32")(text, 256)
    ),
}


def group_of(text: ir.StringValue, groups: int) -> Any:
    """Assign each text to one of several groups of about equal size.

    Parameters
    ----------
    text : ibis string
        Identifiers, such as those of users.
    groups : int
        Number of groups.

    Returns
    -------
    ibis integer
        0 to ``groups - 1``; 0 where the text is missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> users = ibis.memtable(pa.table({"user_id": ["ann", "bob", "cleo"]}))
    >>> users.order_by("user_id").select(group=group_of(users.user_id, 20)).to_pyarrow()["group"].to_pylist()
    [9, 12, 19]
    """
    digits = digest(text, "md5")
    # Comparing digits as text is far faster than parsing a number.
    bounds = (f"{_BASE**_DIGITS * group // groups:0{_DIGITS}x}" for group in range(1, groups))
    return _passed(digits, bounds)


def number_of(text: ir.StringValue) -> Any:
    """Return a pseudo-random number from 0 to ``PRIME - 1`` for each text.

    Parameters
    ----------
    text : ibis string
        Identifiers, such as those of users.

    Returns
    -------
    ibis integer
        int64; null where the text is null.

    Examples
    --------
    >>> import pyarrow as pa
    >>> users = ibis.memtable(pa.table({"user_id": ["ann", "bob"]}))
    >>> users.order_by("user_id").select(number=number_of(users.user_id)).to_pyarrow()["number"].to_pylist()
    [2114813834, 530403773]
    """
    digits = digest(text, "md5")
    number: Any = 0
    for place in range(_DIGITS):
        code = digits.substr(place, 1).ascii_str().cast("int64")
        number = number * _BASE + ibis.ifelse(code > ord("9"), code - (ord("a") - 10), code - ord("0"))
    return number % PRIME


def digest(text: ir.StringValue, name: str) -> Any:
    """Return the digest of a text, ``md5`` or ``sha256``, as hexadecimal digits in lower case."""
    engine = dialect_of(text)
    if name == "sha256" and engine in _SHA256:
        return _SHA256[engine](text)
    return _DIGESTS[engine](text, name) if engine in _DIGESTS else builtin(name, "string", "string")(text)


def _passed(values: Any, bounds: Iterable[Any]) -> Any:
    """Return how many bounds each value reaches."""
    return reduce(add, (ibis.ifelse(values >= bound, 1, 0) for bound in bounds), ibis.literal(0))


#: Fractional bits of the grids that amounts are split on. Multiples of the first, 2**18, add up without
#: rounding while their sum is below 2**71, the remainders on the others for up to 2**24 amounts. The first is
#: for squares of values, of which variances are made: those of a thousand orders of 1e6 have the sum 2**50.
_GRIDS: Final = (-18, 12, 42)


def total(amounts: Any, *, over: Any = None) -> Any:
    """Return the sum of a column of doubles, bitwise reproducible in any order of addition.

    Engines add in parallel, in an order that differs from run to run, and rounding depends on the order. So
    every amount is split into multiples of three powers of two, whose sums are exact, and a remainder below
    the last digit. For larger or more amounts the sum is as accurate as an ordinary one.

    Parameters
    ----------
    amounts : ibis number
        A column of doubles.
    over : ibis window, optional
        Window to sum over; by default the sum is an aggregate.

    References
    ----------
    Demmel and Nguyen (2013), Fast reproducible floating-point summation, 21st IEEE Symposium on Computer
    Arithmetic, 163-172.
    """
    first, second, third, fourth = (_sum(part, over) for part in _parts(amounts))
    return first + (second + (third + fourth))


def exact_sums(name: str, amounts: Any) -> dict[str, Any]:
    """Return four sums, ``name0`` to ``name3``, that add up to that of a column without rounding."""
    return {f"{name}{index}": part.sum() for index, part in enumerate(_parts(amounts))}


def _parts(amounts: Any) -> list[Any]:
    # Each grid rounds the amount itself, not the remainder: the text of a query grows with every nesting.
    rounded = [_on_grid(amounts, bits) for bits in _GRIDS]
    return [rounded[0], *(finer - coarser for coarser, finer in pairwise(rounded)), amounts - rounded[-1]]


def _on_grid(amounts: Any, bits: int) -> Any:
    """Round to multiples of ``2**-bits``: a double of this size has no lower digits."""
    large = double(1.5 * 2.0 ** (52 - bits))
    return (amounts + large) - large


def _sum(amounts: Any, over: Any) -> Any:
    return amounts.sum() if over is None else amounts.sum().over(over)
