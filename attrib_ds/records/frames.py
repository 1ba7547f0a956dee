"""Arrow tables as DataFrames whose columns and dtypes do not depend on the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

_DTYPES = {
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    # Named, since pandas looks at every text where it has to find the dtype itself.
    pa.string(): pd.StringDtype(na_value=np.nan),
}


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a DataFrame.

    Parameters
    ----------
    table : pyarrow.Table
        Any rows, none included.

    Returns
    -------
    DataFrame
        The same rows and columns: instants ``datetime64[us, UTC]`` (those without a zone are UTC), whole
        numbers ``Int64``, other numbers and amounts ``float64``, text ``str``, flags ``boolean``, lists
        as objects.

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
        One value per column, of object dtype; its name is the ``_id`` where there is one.
    """
    frame = to_pandas(table).astype(object)
    record = frame.iloc[0]
    record.name = record.get("_id")
    return record


def _series(values: pa.ChunkedArray) -> pd.Series[Any]:
    kind = values.type
    if pa.types.is_timestamp(kind):
        # Twice: to microseconds first, because Arrow refuses to cut digits and add a zone at once.
        values = values.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.timestamp("us", tz="UTC"))
    elif pa.types.is_integer(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_large_string(kind) or pa.types.is_null(kind):
        values = values.cast(pa.string())
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    series: pd.Series[Any] = values.to_pandas(types_mapper=_DTYPES.get)
    return series
