"""Keeps those who were erased from coming back with what is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.records.sources import literal
from attrib_ds.service.identity.learning import carried
from attrib_ds.service.identity.tombstones import IDENTITY, USER, buried

if TYPE_CHECKING:
    import duckdb

    from attrib_ds.service.identity.learning import Carrying
    from attrib_ds.service.loading.batch import Good


def reject_erased(connection: duckdb.DuckDBPyConnection, good: Good, carrying: Carrying) -> None:
    """List the rows that are about somebody who was erased later than their date (G-209).

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that writes the rows.
    good : Good
        The batch.
    carrying : Carrying
        Its good rows.
    """
    marks = (
        f"SELECT row, {literal(USER)} AS kind, userId AS value, {carrying.date} AS seen FROM {carrying.rows}"
    )
    if carrying.data.strip('"') in good.staged.columns:
        identities = carried(connection, carrying, also="row")
        marks += f" UNION ALL SELECT row, {literal(IDENTITY)} || kind, value, seen FROM ({identities})"
    erased = buried(connection, f"({marks})")
    if erased is not None:
        reason = literal("userId: is somebody whose data was erased later than this")
        good.reject(connection, f"SELECT row, {reason} FROM ({erased})")
