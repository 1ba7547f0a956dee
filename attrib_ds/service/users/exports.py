"""Exports users as CSV and XLSX files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import ibis

from attrib_ds.contract import Answer, File
from attrib_ds.errors import ServiceFailure
from attrib_ds.service.users.cells import cells_of, rows_of
from attrib_ds.service.users.csv_files import csv_pieces
from attrib_ds.service.users.described_page import describe
from attrib_ds.service.users.project_keys import ProjectKeys
from attrib_ds.service.users.selection import select_users
from attrib_ds.service.users.transformers import transformation
from attrib_ds.service.users.xlsx_files import check_xlsx, write_xlsx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import ibis.expr.types as ir
    import pyarrow as pa
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.exports import ExportUsers
    from attrib_ds.service.store.store import Store
    from attrib_ds.service.users.cells import Cell


def export_users(store: Store, request: ExportUsers) -> Answer:
    """Return a file of the users that a search with the same criteria finds, sorted by id.

    CSV is streamed. An XLSX file is first written to disk completely, since its beginning contains the
    lengths of its parts.
    """
    columns, form = request.exporterDataConfig.columns, request.outputFormatConfig
    users = _users(store, request)
    try:
        rows = _rows(users, request)
        if form.type == "csv":
            return Answer(value=File(csv_pieces(columns, rows, form), users.close))
        check_xlsx(users.count or 0)
        file = File.of(write_xlsx(columns, rows))
    except BaseException:
        users.close()
        raise
    users.close()
    return Answer(value=file)


def _users(store: Store, request: ExportUsers) -> Answer:
    config = request.exporterDataConfig

    def find(backend: Backend) -> tuple[ir.Table, int]:
        ProjectKeys(backend.con).check(config.columns, argument="columns")
        users = select_users(
            backend, cancellation=store.cancellation, filters=config.filters, audience=config.audience
        )
        total = int(users.count().to_pyarrow().as_py())
        return users.mutate(place=ibis.row_number().over(order_by=users["_id"])), total

    return describe(store, find, config.columns)


def _rows(users: Answer, request: ExportUsers) -> Iterator[list[tuple[Cell, ...]]]:
    transformations = [
        (transformer.key, transformation(transformer)) for transformer in request.transformerConfig
    ]
    try:
        for batch in (batch for table in users for batch in table.to_batches()):
            yield rows_of(_column(batch, key, transformations) for key in request.exporterDataConfig.columns)
    except duckdb.Error as error:
        raise ServiceFailure(f"the project's file could not be read: {error}") from error


def _column(
    batch: pa.RecordBatch, key: str, transformations: list[tuple[str, Callable[[Cell], Cell]]]
) -> list[Cell]:
    cells = cells_of(batch, key)
    for transformed_key, transform in transformations:
        if transformed_key == key:
            cells = [transform(cell) for cell in cells]
    return cells
