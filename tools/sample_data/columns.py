"""Arrow columns of the sample tables, typed as the schema of their resource."""

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
    """Make a table of the given columns, in schema order and with the schema's types.

    Parameters
    ----------
    columns : mapping of str to array
        Values by column name; instants as whole seconds since 1970, ``NaN``, ``NaT`` and None as nulls.
    schema : pyarrow.Schema
        Holds every name of ``columns``; columns it has beyond them are left out.

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


def known_only(values: npt.ArrayLike, known: npt.NDArray[np.bool_]) -> Objects:
    """Return values as objects, with None where they are not known.

    Examples
    --------
    >>> known_only([1, 2], np.array([True, False])).tolist()
    [1, None]
    """
    kept = np.array(values, dtype=object)
    kept[~known] = None
    return kept


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        seconds = pa.array(values, type=pa.int64(), from_pandas=True)
        return pa.compute.multiply(seconds, _MICROSECONDS).cast(kind)
    return pa.array(values, type=kind, from_pandas=True)
