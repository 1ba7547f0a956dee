"""Generate the shipped sample data: ``cd tools && python -m sample_data.generate``.

The same seed gives the same tables. Only uniform and integer draws are used, whose streams are stable across
releases of NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attrib_ds.sample import files
from sample_data.conversions import event_table
from sample_data.journeys import journeys
from sample_data.outlays import outlay_table
from sample_data.people import people
from sample_data.tree import node_table
from sample_data.visits import visits

if TYPE_CHECKING:
    from pathlib import Path

SEED = 20250101

# Columns of (almost) distinct values, for which dictionary encoding is larger than plain encoding.
_DISTINCT = {"_id", "id", "sessionId", "firstHitId", "event.orderNumber"}


def generate(*, seed: int = SEED) -> dict[str, pa.Table]:
    """Generate the sample data.

    Parameters
    ----------
    seed : int
        Seed of the random numbers.

    Returns
    -------
    dict of str to pyarrow.Table
        ``nodes``, ``interactions``, ``hits``, ``events`` and ``spend``, with flat columns.

    Examples
    --------
    >>> list(generate())
    ['nodes', 'interactions', 'hits', 'events', 'spend']
    """
    rng = np.random.default_rng(seed)
    visitors = people(rng)
    visited = visits(rng, journeys(rng, visitors), visitors)
    return {
        "nodes": node_table(),
        "interactions": visited.interactions,
        "hits": visited.hits,
        "events": event_table(rng, visited.timeline, visitors),
        "spend": outlay_table(rng, visited.timeline),
    }


def write(tables: dict[str, pa.Table], folder: Path) -> None:
    """Write each table to ``folder`` as a Parquet file with the table's name.

    Parameters
    ----------
    tables : dict of str to pyarrow.Table
        From :func:`generate`.
    folder : Path
        An existing folder; files with the same names are replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write({"nodes": node_table()}, Path(folder))
    ...     [path.name for path in Path(folder).iterdir()]
    ['nodes.parquet']
    """
    for name, table in tables.items():
        encodings = {
            column: encoding for column in table.column_names if (encoding := _encoding(table, column))
        }
        pq.write_table(
            table,
            folder / f"{name}.parquet",
            compression="zstd",
            compression_level=19,
            use_dictionary=[column for column in table.column_names if column not in encodings],
            column_encoding=encodings,
            row_group_size=table.num_rows,
        )


def _encoding(table: pa.Table, column: str) -> str | None:
    if column in _DISTINCT:
        return "PLAIN"
    return "DELTA_BINARY_PACKED" if pa.types.is_timestamp(table.schema.field(column).type) else None


if __name__ == "__main__":
    write(generate(), files()["nodes"].parent)
