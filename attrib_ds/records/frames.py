"""DataFrames of users to rows and Arrow tables, and Arrow tables to DataFrames."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from attrib_ds.errors import InvalidRequest, closest


def _text_dtype() -> Any:
    try:
        return pd.StringDtype(na_value=np.nan)
    except TypeError:  # pandas 2.2
        return pd.StringDtype("pyarrow_numpy")


#: Text with NaN where it is missing: ``str`` on pandas 3. On pandas 2, ``"str"`` means objects, with the text
#: "None" where it is missing.
TEXT: Final = _text_dtype()


#: Floats represent all integers up to here.
_LARGEST_WHOLE: Final = 2.0**53


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
    series: pd.Series[Any] = values.to_pandas(types_mapper=_dtype)
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
        raise InvalidRequest(f"{argument}: {'; '.join(problems)}; allowed: {allowed}")


def _cells(column: pd.Series[Any]) -> list[Any]:
    """Return cells as Python values, missing ones as None."""
    values = column.astype(object)
    pairs = zip(values, values.isna(), strict=True)
    return [None if is_missing else _plain(value) for value, is_missing in pairs]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    # pandas turns integers into floats beside a missing cell or a fraction.
    if isinstance(value, float) and value.is_integer() and abs(value) <= _LARGEST_WHOLE:
        return int(value)
    return value


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
        given = with_index(frame) if set(columns) - {*frame.columns} else frame
    else:
        # None of the numpy defaults: integers with nulls would become floats, and text objects.
        given = read_table(argument, frame).to_pandas(types_mapper=_dtype)
    missing = [column for column in columns if column not in given.columns]
    if missing:
        raise InvalidRequest(
            f"{argument}: no column {', '.join(map(repr, missing))}; required: {', '.join(columns)}"
        )
    return given


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the named levels of its index as columns, unless it has columns of these names.

    Examples
    --------
    >>> with_index(pd.DataFrame({"user_id": ["u"], "date": ["2025-01-01"]}).set_index("user_id"))
      user_id        date
    0       u  2025-01-01
    """
    names = [name for name in frame.index.names if name is not None and name not in frame.columns]
    return frame.reset_index(level=names) if names else frame


def read_table(argument: str, frame: object) -> pa.Table:
    """Return a table with the Arrow stream protocol as an Arrow table; see :func:`read_arrow`."""
    try:
        return read_arrow(argument, frame).read_all()
    except pa.ArrowException as error:
        raise InvalidRequest(f"{argument}: cannot be read: {error}") from error


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
        method = next((name for name in (argument, "to_frame") if callable(getattr(frame, name, None))), None)
        hint = f"; pass its {method}()" if method else ""
        raise InvalidRequest(
            f"{argument}: must be a DataFrame, got {type(frame).__name__}; allowed: a DataFrame of pandas, "
            f"Polars or any library with the Arrow stream protocol{hint}"
        )
    try:
        reader = pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowException, TypeError) as error:
        reason = "; pass its to_frame()" if hasattr(frame, "to_frame") else f": {error}"
        raise InvalidRequest(
            f"{argument}: must be a DataFrame, got {type(frame).__name__}{reason}"
        ) from error
    schema = pa.schema([pa.field(field.name, _plain_type(field.type)) for field in reader.schema])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [
                _plain_column(column, field.type) for column, field in zip(batch.columns, schema, strict=True)
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


def _plain_column(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    # A cast of broken offsets could read memory it must not.
    values.validate(full=True)
    if pa.types.is_dictionary(values.type):
        # Arrow decodes no dictionary of string views.
        return pa.DictionaryArray.from_arrays(
            values.indices, _plain_column(values.dictionary, kind)
        ).dictionary_decode()
    return values.cast(kind)


def _dtype(kind: pa.DataType) -> Any:
    """Return the dtype of a type that pandas would turn into floats, or inspect value by value."""
    if pa.types.is_integer(kind):
        return pd.Int64Dtype()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    return TEXT if pa.types.is_string(kind) else None
