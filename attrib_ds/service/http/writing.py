"""Writes rows as JSON or Arrow, piece by piece."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.records.json_records import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attrib_ds.contract import Answering
    from attrib_ds.service.store.rows import Rows

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"


def json_pieces(rows: Rows, answering: Answering) -> Iterator[bytes]:
    """Write rows in the JSON of the specification.

    Parameters
    ----------
    rows : Rows
        What to write.
    answering : Answering
        Whether it is a page, an array or one record, and of what.

    Yields
    ------
    bytes
        Together one JSON text.
    """
    opening, closing = _frame(rows, answering)
    before = opening
    for batch in rows.batches:
        if batch.num_rows:
            records = to_json(batch, resource=answering.resource, hidden=rows.hidden)
            yield f"{before}{','.join(records)}".encode()
            before = ","
    yield (closing if before == "," else opening + closing).encode()


def _frame(rows: Rows, answering: Answering) -> tuple[str, str]:
    if answering.kind == "record":
        return "", ""
    if answering.kind == "array":
        return "[", "]"
    counts = {"count": rows.count, "total": rows.total}
    if answering.echo:
        counts = {"offset": rows.offset, "limit": rows.limit, **counts}
    return f'{json.dumps(counts, separators=(",", ":"))[:-1]},"data":[', "]}"


def arrow_pieces(rows: Rows) -> Iterator[bytes]:
    """Write rows as an Arrow IPC stream of flat columns.

    Parameters
    ----------
    rows : Rows
        What to write.

    Yields
    ------
    bytes
        Together one stream. Its schema's metadata holds ``total``, ``offset`` and ``limit`` in decimal
        digits, as far as there are such.
    """
    shown = [name for name in rows.columns.names if name not in rows.hidden]
    page = {"total": rows.total, "offset": rows.offset, "limit": rows.limit} if rows.total is not None else {}
    metadata = {name: str(number) for name, number in page.items() if number is not None}
    columns = pa.schema([rows.columns.field(name) for name in shown], metadata=metadata)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, columns) as writer:
        for batch in rows.batches:
            writer.write_batch(batch.select(shown).replace_schema_metadata(metadata))
            yield _taken(sink)
    yield _taken(sink)


def _taken(sink: io.BytesIO) -> bytes:
    piece = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return piece
