"""Ibis tables of SQL queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ibis

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend


def sql_table(backend: Backend, query: str) -> ir.Table:
    """Return the rows of a SQL query as an Ibis table.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    query : str
        SQL.

    Returns
    -------
    ibis.Table
        The rows of the query.
    """
    # Without a schema, `sql` of Ibis 12 reads the columns by a call that DuckDB 1.5 deprecates.
    columns = backend.con.execute(f"SELECT * FROM ({query}) AS query LIMIT 0").to_arrow_table().schema
    return backend.sql(query, schema=ibis.Schema.from_pyarrow(columns))
