"""Read aggregated paths, or wide journeys, from users' own files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.importers.file_paths import FilePaths
from attrib_ds.importers.journey_tables import checked_currency
from attrib_ds.importers.own_columns import Formats
from attrib_ds.importers.own_table import OwnTable
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from attrib_ds.importers.own_columns import Named


def read_sequences(
    file: Path,
    *,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    separator: str = " > ",
    sheet: str | None = None,
) -> FilePaths:
    """Read aggregated paths from a file.

    Parameters
    ----------
    file : Path
        CSV, NDJSON, Parquet or XLSX file: one row per distinct path, or one row per journey with its steps
        in numbered columns (``T_1``, ``T_2``, …) and a flag that says whether it converted.
    columns : mapping of str to str or list of str, optional
        Column by role (``path``, ``conversions``, ``total_value``, ``currency``, ``nulls``; ``path`` may list
        the columns of steps in order, with ``flag``).
    currency : str, optional
        Currency of values that have none.
    decimal, encoding, sheet : str, optional
        As in :func:`attrib_ds.read_journeys`.
    separator : str, default " > "
        Separator between nodes.

    Returns
    -------
    FilePaths
        Paths, counts, the columns used and the rejected rows.

    Raises
    ------
    InvalidRequest
        If the file or a column is missing, or there are no readable rows.
    """
    named = dict(columns or {})
    table = OwnTable(
        duckdb.connect(), file, "paths", Formats(decimal=decimal, encoding=encoding, sheet=sheet)
    )
    steps = table.find_steps(named)
    if steps:
        table.take_steps(steps, separator)
        table.take_outcome(table.find("flag", named))
    else:
        table.take_word("path", table.find("path", named))
        table.take_number("conversions", table.find("conversions", named), minimum=0, is_count=True)
        nulls = table.find("nulls", named, required=False)
        table.take_number("nulls", nulls, minimum=0, is_count=True)
    value = table.find("total_value", named, required=False)
    table.take_value(value)
    table.take_currency(table.find_currency(named, value), checked_currency(currency))
    rows, rejected = table.read()
    paths = Paths.from_sequences(
        to_pandas(rows),
        path="path",
        conversions="conversions",
        value="value" if "value" in rows.column_names else None,
        currency="currency" if "currency" in rows.column_names else None,
        nulls="nulls" if "nulls" in rows.column_names else None,
        separator=separator,
    )
    return FilePaths(paths, {"paths": rows.num_rows}, {"paths": table.columns}, rejected)
