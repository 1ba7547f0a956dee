"""Serialize the records of an answer as JSON or Arrow, in chunks."""

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


def json_chunks(answer: Answer, shape: Answering) -> Iterator[bytes]:
    """Serialize records as JSON according to the specification.

    Parameters
    ----------
    answer : Answer
        The records; the caller closes it.
    shape : Answering
        Kind of the answer (page, array or record) and its resource.

    Yields
    ------
    bytes
        Chunks of one JSON text.
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


def arrow_chunks(answer: Answer) -> Iterator[bytes]:
    """Serialize records as an Arrow IPC stream of flat columns.

    Parameters
    ----------
    answer : Answer
        The records; closed at the end.

    Yields
    ------
    bytes
        Chunks of one stream. The schema metadata of a page holds ``total``, ``offset`` and ``limit`` in
        decimal digits.
    """
    page = {"total": answer.total, "offset": answer.offset, "limit": answer.limit}
    counters = page if answer.total is not None else {}
    metadata = {name: str(number) for name, number in counters.items() if number is not None}
    columns = answer.columns.with_metadata(metadata)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, columns) as writer:
        for table in answer:
            writer.write_table(table.replace_schema_metadata(metadata), max_chunksize=BATCH_ROWS)
            yield _drain(sink)
    yield _drain(sink)


def _drain(sink: io.BytesIO) -> bytes:
    chunk = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return chunk
