"""Bulk load of raw hits into a remote project: portions in Parquet, each of which the service loads once."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from attrib_ds import local_files, scratch, sql_results
from attrib_ds.contract import OPERATIONS, Answer, administration, build
from attrib_ds.errors import NotSupported
from attrib_ds.records import parts, sources
from attrib_ds.transports import Transport

_ROWS: Final = administration.MOST_HITS
#: Half of what the service accepts.
_MOST_BYTES: Final = 16 * 2**20
_REJECTED: Final = pa.schema([("row", pa.int64()), ("id", pa.string()), ("reason", pa.string())])


def load_hits(transport: Transport, request: administration.LoadRecords) -> Answer:
    """Send raw hits in portions, repeating those whose answer was lost.

    Parameters
    ----------
    transport : Transport
        Of the service.
    request : LoadRecords
        Its source is a frame, an Arrow table, a file or a folder of parts.

    Returns
    -------
    Answer
        As from an embedded project.

    Raises
    ------
    NotSupported
        If the source has to be read where the project is, or its addresses looked up here.
    AttribError
        If a portion cannot be loaded; those before it are.
    """
    if (request.geo, request.asn) != (None, None):
        raise NotSupported("geo and asn: a remote service looks addresses up in databases of its own")
    operation = OPERATIONS["send_hits"]
    counts: Counter[str] = Counter()
    rejected: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="attrib-ds-") as folder:
        file = Path(folder) / "portion.parquet"
        for rows in _portions(request.source, file, rejected):
            arguments = {"project_id": request.projectId, "source": file, "replace": request.replace}
            portion = build(operation, portion_id=str(uuid4()), **arguments)
            answer: Any = transport.send(operation, portion).value
            counts.update(answer.get("counts", {}))
            rejected += [
                entry | {"row": rows[entry["row"] - 1].as_py()} for entry in answer.get("rejected", ())
            ]
    table = pa.Table.from_pylist(sorted(rejected, key=lambda entry: int(entry["row"])), _REJECTED)
    return Answer.of(table, value=dict(counts))


def _portions(source: Any, file: Path, rejected: list[dict[str, Any]]) -> Iterator[pa.ChunkedArray]:
    """Write one portion after the other to a file and yield the numbers of its rows; add unreadable rows."""
    if isinstance(source, str | Path) and parts.is_folder(source):
        folder, count = parts.Folder.open(source, argument="hits"), 0
        for part in folder.find():
            with folder.opened(part) as opened_part:
                for batch in opened_part.iter_batches(_ROWS):
                    numbers = pa.array(range(count + 1, count + 1 + batch.num_rows), pa.int64())
                    rows = pa.Table.from_batches([batch])
                    yield from _written(rows.append_column(sources.ROW, numbers), file)
                    count += batch.num_rows
        return
    if not (isinstance(source, str | Path | pa.RecordBatch) or hasattr(source, "__arrow_c_stream__")):
        raise NotSupported(
            f"hits: {type(source).__name__} is read where the project is; load it into an embedded project"
        )
    with scratch.open_database() as connection:
        opened = sources.open_source(connection, source, argument="hits")
        unreadable = opened.unreadable.to_pylist()
        rejected += [entry | {"id": None, "row": entry["row"] + opened.first} for entry in unreadable]
        row = sources.quoted(sources.ROW)
        query = f"SELECT * REPLACE ({row} + {opened.first} AS {row}) FROM {opened.relation} ORDER BY {row}"
        for batch in sql_results.read_batches(connection, query, _ROWS):
            yield from _written(pa.Table.from_batches([batch]), file)


def _written(rows: pa.Table, file: Path) -> Iterator[pa.ChunkedArray]:
    with local_files.writing_temporarily():
        pq.write_table(rows.drop_columns([sources.ROW]), file, compression="zstd")
    is_large = file.stat().st_size > _MOST_BYTES or rows.nbytes > administration.MOST_BYTES_OF_HITS // 2
    if rows.num_rows > _ROWS or (is_large and rows.num_rows > 1):
        middle = rows.num_rows // 2
        yield from _written(rows.slice(0, middle), file)
        yield from _written(rows.slice(middle), file)
    elif rows.num_rows:
        yield rows[sources.ROW]
