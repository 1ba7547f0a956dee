"""Rejects loaded rows of erased people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.records.sources import literal
from attrib_ds.service.identity.loaded_identities import identities_query
from attrib_ds.service.identity.tombstones import IDENTITY, USER, buried_rows

if TYPE_CHECKING:
    import duckdb

    from attrib_ds.service.identity.loaded_identities import IdentitySource
    from attrib_ds.service.loading.batch import ValidRows


def reject_erased(connection: duckdb.DuckDBPyConnection, valid: ValidRows, source: IdentitySource) -> None:
    """Reject rows of people who were erased after the date of the row (G-209).

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that writes the rows.
    valid : ValidRows
        The batch.
    source : IdentitySource
        Its valid rows.
    """
    marks = f"SELECT row, {literal(USER)} AS kind, userId AS value, {source.date} AS seen FROM {source.rows}"
    if source.data.strip('"') in valid.staged.columns:
        identities = identities_query(connection, source, also="row")
        marks += f" UNION ALL SELECT row, {literal(IDENTITY)} || kind, value, seen FROM ({identities})"
    erased = buried_rows(connection, f"({marks})")
    if erased is not None:
        reason = literal("userId: belongs to a person who was erased after this date")
        valid.reject(connection, f"SELECT row, {reason} FROM ({erased})")
