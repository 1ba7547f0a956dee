"""Selects the interactions that a search or an insight is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import ibis

from attrib_ds import schema
from attrib_ds.queries import interaction_counts
from attrib_ds.queries.interaction_counts import answered as answered
from attrib_ds.queries.interaction_counts import moment as moment

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.interactions import Population

#: Rows of a batch: what is held of a streamed answer at one time.
BATCH_ROWS: Final = 2_048


def select(backend: Backend, request: Population) -> ir.Table:
    """Return the interactions of the store that a request is about, with every column."""
    return interaction_counts.select(backend.table("interactions"), request, nodes=nodes_of(backend))


def nodes_of(backend: Backend) -> ir.Table:
    """Return the tree of nodes."""
    return backend.table("nodes").select(schema.NODE.names)


def rows_of(backend: Backend, query: str) -> ir.Table:
    """Return the rows of a query in SQL as a table of Ibis.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    query : str
        SQL.

    Returns
    -------
    ibis.Table
        The same rows.
    """
    # Not left to `sql` of Ibis 12, which finds the columns by a call that DuckDB 1.5 warns of.
    columns = backend.con.execute(f"SELECT * FROM ({query}) AS asked LIMIT 0").to_arrow_table().schema
    return backend.sql(query, schema=ibis.Schema.from_pyarrow(columns))
