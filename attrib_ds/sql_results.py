"""Results of SQL that DuckDB runs, as Arrow tables, as batches or as one row, on every release alike.

While rows of a query are left, a connection of DuckDB 2 refuses to register tables and to read relations.
All of these read to the end, except :func:`read_batches`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

Parameters = Sequence[object] | Mapping[str, object] | None

#: DuckDB 1 plans a relation twice, and copies the rows of one with parameters. DuckDB 2 copies the rows of
#: `execute()`, and warns.
_HAS_RELATIONS: Final = int(duckdb.__version__.partition(".")[0]) >= 2


def read_arrow(connection: duckdb.DuckDBPyConnection, query: str, parameters: Parameters = None) -> pa.Table:
    """Return the rows of a query.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Without unread rows.
    query : str
        One SELECT.
    parameters : sequence or mapping, optional
        Values of ``?`` or ``$name``.

    Returns
    -------
    pyarrow.Table
        Possibly without rows.

    Examples
    --------
    >>> read_arrow(duckdb.connect(), "SELECT ? AS channel, 3 AS visits", ["email"]).to_pylist()
    [{'channel': 'email', 'visits': 3}]
    """
    return _run(connection, query, parameters).to_arrow_table()


def read_batches(connection: duckdb.DuckDBPyConnection, query: str, rows: int) -> pa.RecordBatchReader:
    """Return the rows of a query in batches, which are computed as they are read.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Nothing else may run on it until the batches are read or closed.
    query : str
        One SELECT.
    rows : int
        Maximum number of rows of a batch.

    Returns
    -------
    pyarrow.RecordBatchReader
        Batches in the order of the query.

    Examples
    --------
    >>> [batch.num_rows for batch in read_batches(duckdb.connect(), "FROM range(5000)", 2048)]
    [2048, 2048, 904]
    """
    return _run(connection, query, None).to_arrow_reader(rows)


def read_row(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Parameters = None
) -> tuple[Any, ...] | None:
    """Return the first row of a query that has few; None if it has none.

    Examples
    --------
    >>> read_row(duckdb.connect(), "SELECT 1 WHERE 2 > ?", [3]) is None
    True
    """
    rows = connection.execute(query, parameters).fetchall()
    return rows[0] if rows else None


def in_microseconds(values: Any) -> Any:
    """Return an Arrow array with instants truncated to microseconds, before DuckDB reads it.

    DuckDB 2 would round them, and Ibis 12 does not know its type of nanoseconds with a time zone.

    Examples
    --------
    >>> in_microseconds(pa.array([1_999], pa.timestamp("ns", "UTC"))).cast(pa.int64()).to_pylist()
    [1]
    """
    kind = values.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return values.cast(pa.timestamp("us", kind.tz), safe=False)
    return values


def _run(connection: duckdb.DuckDBPyConnection, query: str, parameters: Parameters) -> Any:
    if _HAS_RELATIONS:
        return connection.sql(query, params=parameters)
    return connection.execute(query, parameters)
