"""Writes the records of an answer as JSON or Arrow, piece by piece."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.records.json_records import to_json
from attrib_ds.service.store.cursors import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attrib_ds.contract import Answer, Answering

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"


def json_pieces(answer: Answer, shape: Answering) -> Iterator[bytes]:
    """Write records in the JSON of the specification.

    Parameters
    ----------
    answer : Answer
        The records. Nothing here closes it.
    shape : Answering
        Whether it is a page, an array or one record, and of which resource.

    Yields
    ------
    bytes
        Together one JSON text.
    """
    opening, closing = _frame(answer, shape)
    before = opening
    for table in answer.tables:
        hidden = set(table.column_names) - set(answer.columns.names)
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            if batch.num_rows:
                records = to_json(batch, resource=shape.resource, hidden=hidden)
                yield f"{before}{','.join(records)}".encode()
                before = ","
    yield (closing if before == "," else opening + closing).encode()


def _frame(answer: Answer, shape: Answering) -> tuple[str, str]:
    """Return the JSON before and after the records."""
    if shape.kind == "record":
        return "", ""
    if shape.kind == "array":
        return "[", "]"
    counts = {"count": answer.count, "total": answer.total}
    if shape.echo:
        counts = {"offset": answer.offset, "limit": answer.limit, **counts}
    return f'{json.dumps(counts, separators=(",", ":"))[:-1]},"data":[', "]}"


def arrow_pieces(answer: Answer) -> Iterator[bytes]:
    """Write records as an Arrow IPC stream of flat columns.

    Parameters
    ----------
    answer : Answer
        The records; closed at the end.

    Yields
    ------
    bytes
        Together one stream. Its schema's metadata holds ``total``, ``offset`` and ``limit`` in decimal
        digits, as far as there are such.
    """
    page = {"total": answer.total, "offset": answer.offset, "limit": answer.limit}
    known = page if answer.total is not None else {}
    metadata = {name: str(number) for name, number in known.items() if number is not None}
    columns = answer.columns.with_metadata(metadata)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, columns) as writer:
        for table in answer:
            writer.write_table(table.replace_schema_metadata(metadata), max_chunksize=BATCH_ROWS)
            yield _taken(sink)
    yield _taken(sink)


def _taken(sink: io.BytesIO) -> bytes:
    piece = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return piece
