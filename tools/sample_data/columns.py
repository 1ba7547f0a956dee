"""Build Arrow tables from columns, with the types of a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

Seconds = npt.NDArray[np.int64]
Objects = npt.NDArray[np.object_]

_MICROSECONDS = 1_000_000


def table_of(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Build a table from columns, in the order and with the types of a schema.

    Parameters
    ----------
    columns : mapping of str to array
        Values by column name; instants as whole seconds since 1970, ``NaN``, ``NaT`` and None as nulls.
    schema : pyarrow.Schema
        Schema with every name of ``columns``; its other columns are left out.

    Returns
    -------
    pyarrow.Table
        One column per name of ``columns``.

    Examples
    --------
    >>> schema = pa.schema([("when", pa.timestamp("us", tz="UTC")), ("n", pa.int64()), ("x", pa.string())])
    >>> table_of({"n": [1, None], "when": [0, None]}, schema).column_names
    ['when', 'n']
    """
    fields = [field for field in schema if field.name in columns]
    return pa.table([_column(columns[field.name], field.type) for field in fields], schema=pa.schema(fields))


def mask_unknown(values: npt.ArrayLike, is_known: npt.NDArray[np.bool_]) -> Objects:
    """Return values as objects, with None where ``is_known`` is false.

    Examples
    --------
    >>> mask_unknown([1, 2], np.array([True, False])).tolist()
    [1, None]
    """
    masked = np.array(values, dtype=object)
    masked[~is_known] = None
    return masked


def _column(values: Any, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(data_type):
        seconds = pa.array(values, type=pa.int64(), from_pandas=True)
        return pa.compute.multiply(seconds, _MICROSECONDS).cast(data_type)
    return pa.array(values, type=data_type, from_pandas=True)
