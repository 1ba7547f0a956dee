"""Reads the DataFrames that users pass, of pandas or of any library with the Arrow stream protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pandas as pd
import pyarrow as pa

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.dtypes import TEXT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class ArrowStream(Protocol):
    """A table of any library with the Arrow PyCapsule protocol: Polars, PyArrow, DuckDB, and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table as a stream of Arrow batches."""


#: A DataFrame of any library.
Frame: TypeAlias = pd.DataFrame | ArrowStream
#: A DataFrame of any library, or the path of a file.
FrameOrPath: TypeAlias = Frame | str | Path


def read_frame(argument: str, frame: Frame, columns: Collection[str] = ()) -> pd.DataFrame:
    """Return a DataFrame of any library as a pandas one, and require some columns.

    Parameters
    ----------
    argument : str
        Name of the argument in error messages.
    frame : DataFrame
        Of pandas, or of any library with the Arrow stream protocol. Not changed.
    columns : collection of str
        Required columns.

    Returns
    -------
    DataFrame
        A pandas DataFrame as it is; from other libraries integers are ``Int64``, flags ``boolean``.

    Raises
    ------
    InvalidRequest
        If it is not a table, or a column is missing.

    Examples
    --------
    >>> read_frame("spend", pa.table({"node_id": ["search"], "spend": [30]}))
      node_id  spend
    0  search     30
    """
    if isinstance(frame, pd.DataFrame):
        given = frame
    else:
        # None of the numpy defaults: integers with nulls would become floats, and text objects.
        given = read_table(argument, frame).to_pandas(types_mapper=_dtype)
    missing = [column for column in columns if column not in given.columns]
    if missing:
        raise InvalidRequest(
            f"{argument}: no column {', '.join(map(repr, missing))}; required: {', '.join(columns)}",
            field=argument,
        )
    return given


def read_table(argument: str, frame: object) -> pa.Table:
    """Return a table with the Arrow stream protocol as an Arrow table; see :func:`read_arrow`."""
    try:
        return read_arrow(argument, frame).read_all()
    except pa.ArrowException as error:
        raise InvalidRequest(f"{argument}: cannot be read: {error}", field=argument) from error


def read_arrow(argument: str, frame: object) -> pa.RecordBatchReader:
    """Return the batches of a table with the Arrow stream protocol, its text as plain strings.

    Categories become text, because engines and files know no dictionaries.

    Raises
    ------
    InvalidRequest
        If it is not a table.
    """
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if not hasattr(frame, "__arrow_c_stream__"):
        raise InvalidRequest(
            f"{argument}: must be a DataFrame, got {type(frame).__name__}; allowed: a DataFrame of pandas, "
            "Polars or any library with the Arrow stream protocol",
            field=argument,
        )
    try:
        reader = pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidRequest(
            f"{argument}: must be a DataFrame, got {type(frame).__name__}: {error}", field=argument
        ) from error
    schema = pa.schema([pa.field(field.name, _plain_type(field.type)) for field in reader.schema])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [
                _plain(column, field.type) for column, field in zip(batch.columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with the plain form of text and of categories, at every depth."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(kind) or kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    return kind


def _plain(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    # A cast of broken offsets could read memory it must not.
    values.validate(full=True)
    if pa.types.is_dictionary(values.type):
        # Arrow decodes no dictionary of string views.
        return pa.DictionaryArray.from_arrays(
            values.indices, _plain(values.dictionary, kind)
        ).dictionary_decode()
    return values.cast(kind)


def _dtype(kind: pa.DataType) -> Any:
    if pa.types.is_integer(kind):
        return pd.Int64Dtype()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    return TEXT if pa.types.is_string(kind) else None
