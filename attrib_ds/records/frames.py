"""Converts DataFrames to rows, and Arrow tables to DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.records.dtypes import TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Floats represent all integers up to here.
_LARGEST_WHOLE: Final = 2.0**53
_DTYPES = {
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    # Explicit, because pandas otherwise inspects every text to infer the dtype.
    pa.string(): TEXT,
}


def read_rows(
    frame: pd.DataFrame,
    *,
    required: Sequence[str],
    optional: Sequence[str] = (),
    objects: Sequence[str] = (),
    argument: str = "frame",
) -> list[dict[str, Any]]:
    """Return the rows of a frame as dicts without missing cells.

    The JSON text of a row does not depend on the order of columns or the dtype of whole numbers.

    Parameters
    ----------
    frame : DataFrame
        Not changed.
    required, optional : sequence of str
        Required and optional columns.
    objects : sequence of str
        Objects with members in dotted columns (``nodeData.vendorId``).
    argument : str, default "frame"
        Name of the frame in error messages.

    Returns
    -------
    list of dict
        In the order of the frame. Every row has all ``objects``, as dicts.

    Raises
    ------
    InvalidRequest
        If a column is missing, unknown or repeated.

    Examples
    --------
    >>> visits = pd.DataFrame({"date": ["2025-01-31T12:00:00Z"], "userData.email": ["anna@example.com"]})
    >>> read_rows(visits, required=["date"], objects=["userData"])
    [{'userData': {'email': 'anna@example.com'}, 'date': '2025-01-31T12:00:00Z'}]
    """
    columns = [str(name) for name in frame.columns]
    _check_columns(columns, required, optional, objects, argument=argument)
    order = sorted(range(len(columns)), key=columns.__getitem__)
    names = [columns[position] for position in order]
    cells = [_cells(frame.iloc[:, position]) for position in order]
    rows = []
    for values in zip(*cells, strict=True):
        row: dict[str, Any] = {name: {} for name in objects}
        for name, value in zip(names, values, strict=True):
            outer, dot, inner = name.partition(".")
            if value is not None:
                holder, key = (row[outer], inner) if dot and outer in objects else (row, name)
                holder[key] = value
        rows.append(row)
    return rows


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a DataFrame.

    Parameters
    ----------
    table : pyarrow.Table
        With any number of rows.

    Returns
    -------
    DataFrame
        The same rows and columns: instants ``datetime64[us, UTC]`` (naive ones are taken as UTC), whole
        numbers ``Int64``, other numbers and amounts ``float64``, text ``str``, flags ``boolean``, lists
        ``object``.

    Examples
    --------
    >>> to_pandas(pa.table({"n": pa.array([1, None])})).dtypes.to_dict()
    {'n': Int64Dtype()}
    """
    # A dict of Series, not one block conversion: pandas would turn integers with nulls into floats.
    return pd.DataFrame({name: _series(table[name]) for name in table.column_names}, copy=False)


def to_record(table: pa.Table) -> pd.Series[Any]:
    """Return the only row of an Arrow table as a Series named by its identifier.

    Parameters
    ----------
    table : pyarrow.Table
        One row.

    Returns
    -------
    Series
        One value per column, of object dtype; its name is the ``_id``, if any.
    """
    frame = to_pandas(table).astype(object)
    record = frame.iloc[0]
    record.name = record.get("_id")
    return record


def _series(values: pa.ChunkedArray) -> pd.Series[Any]:
    kind = values.type
    if pa.types.is_timestamp(kind):
        # Two casts, because Arrow refuses to cut digits and add a zone at once.
        values = values.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.timestamp("us", tz="UTC"))
    elif pa.types.is_integer(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_large_string(kind) or pa.types.is_null(kind):
        values = values.cast(pa.string())
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    series: pd.Series[Any] = values.to_pandas(types_mapper=_DTYPES.get)
    return series


def _check_columns(
    columns: Sequence[str],
    required: Sequence[str],
    optional: Sequence[str],
    objects: Sequence[str],
    *,
    argument: str,
) -> None:
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    missing = [name for name in required if name not in columns]
    names = [*required, *optional]
    unknown = [name for name in columns if name not in names and name.partition(".")[0] not in objects]
    unknown += [name for name in columns if name in objects]
    problems = [f"has the column {name!r} twice" for name in repeated]
    problems += [f"has no column {name!r}" for name in missing]
    problems += [f"has an unknown column {name!r}{closest(name, names)}" for name in unknown]
    if problems:
        allowed = ", ".join([*names, *(f"{name}.<key>" for name in objects)])
        raise InvalidRequest(f"{argument}: {'; '.join(problems)}; allowed: {allowed}", field=argument)


def _cells(column: pd.Series[Any]) -> list[Any]:
    """Return cells as Python values, missing ones as None."""
    values = column.astype(object)
    return [
        None if is_missing else _plain(value) for value, is_missing in zip(values, values.isna(), strict=True)
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    # pandas turns integers into floats beside a missing cell or a fraction.
    if isinstance(value, float) and value.is_integer() and abs(value) <= _LARGEST_WHOLE:
        return int(value)
    return value
