"""Selects the interactions that a search or an insight is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ibis
import pyarrow as pa

from attrib_ds import schema
from attrib_ds.filters.engine import to_ibis

if TYPE_CHECKING:
    from datetime import datetime

    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.interactions import Population


def select(backend: Backend, request: Population) -> ir.Table:
    """Return the interactions of the populations and bounds of a request that match its filters.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    request : Population
        What is asked for; bounds are inclusive and on ``startDate``.

    Returns
    -------
    ibis.Table
        With every column of the store.
    """
    interactions = backend.table("interactions")
    conditions = []
    if request.since is not None:
        conditions.append(interactions.startDate >= moment(request.since))
    if request.until is not None:
        conditions.append(interactions.startDate <= moment(request.until))
    if request.isBot is not None:
        conditions.append(interactions.isBot.fill_null(False) == request.isBot)
    if request.filtered is not None:
        is_captured = interactions.trafficFilterId.notnull()
        conditions.append(is_captured if request.filtered else ~is_captured)
    if request.interactionFilter is not None:
        conditions.append(to_ibis(request.interactionFilter, interactions))
    if request.nodeFilter is not None:
        nodes = backend.table("nodes").select(schema.NODE.names)
        conditions.append(to_ibis(request.nodeFilter, interactions, nodes=nodes))
    return interactions.filter(conditions) if conditions else interactions


def moment(instant: datetime) -> ir.TimestampScalar:
    """Return an aware instant as the store holds it: in UTC, without a zone."""
    return ibis.literal(instant.replace(tzinfo=None), type="timestamp(6)")


def answered(table: ir.Table, columns: pa.Schema) -> pa.Table:
    """Run a query and return its rows in the types of an Arrow schema.

    Parameters
    ----------
    table : ibis.Table
        The query.
    columns : pyarrow.Schema
        Types of its columns; it may have more.

    Returns
    -------
    pyarrow.Table
        In the order of the query's columns.
    """
    return table.to_pyarrow().cast(pa.schema([columns.field(name) for name in table.columns]))


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
