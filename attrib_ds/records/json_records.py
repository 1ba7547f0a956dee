"""Converts Arrow tables to JSON records of the specification and back.

Tables are flat with dotted names (``geo.city``) for nested properties; records are nested.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from json.encoder import encode_basestring as _quote
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import instants
from attrib_ds.contract.json_values import Refused, encode, shown
from attrib_ds.errors import InvalidRequest, ServiceFailure
from attrib_ds.json_numbers import ExtremeNumber, exact_integer, exact_number, whole
from attrib_ds.schema import NULL_UNKNOWN, SESSION_ONLY, is_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NULL: Final = "null"
#: Objects that a record omits if all their members are null (G-066, G-199).
_ABSENT_UNKNOWN: Final = frozenset({"asn", "geo", "mostProbableLocation"})
#: Mean number of occurrences from which distinct values are encoded only once.
_WORTH_SHARING: Final = 4

_Tree = dict[str, Any]


def to_json(batch: pa.RecordBatch, *, resource: str | None = None, hidden: Iterable[str] = ()) -> list[str]:
    """Write each row of a batch as the JSON text of one record.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Flat, with columns of the Arrow schema of a resource. A column that is part of another one
        (``metrics.turnover.sum`` of ``metrics``) is not written again.
    resource : str, optional
        Name of the resource. Interactions of the ``type`` ``offline`` are written without session
        properties (G-060).
    hidden : iterable of str, optional
        Columns to leave out.

    Returns
    -------
    list of str
        One JSON object per row, without whitespace. Instants are as in G-036, decimals exact and as short as
        possible; floats that are not finite are null.

    Examples
    --------
    >>> visits = pa.record_batch({"_id": ["a"], "geo.city": ["Oslo"], "geo.state": pa.nulls(1, pa.string())})
    >>> to_json(visits)
    ['{"_id":"a","geo":{"city":"Oslo","state":null}}']
    """
    left_out = frozenset(hidden)
    written = set(batch.schema.names) - left_out
    tree: _Tree = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        *parents, leaf = field.name.split(".")
        wholes = {".".join(parents[:length]) for length in range(1, len(parents) + 1)}
        if field.name not in left_out and not wholes & written:
            holder = tree
            for parent in parents:
                holder = holder.setdefault(parent, {})
            holder[leaf] = _texts(field, column)
    is_offline = None
    if resource == "Interaction" and "type" in batch.schema.names:
        is_offline = pc.equal(batch["type"], "offline").fill_null(False).to_pylist()
    # The specification has them for events only, where they are null.
    absent = _ABSENT_UNKNOWN if resource != "EventType" else NULL_UNKNOWN
    return _objects(tree, is_offline, absent)


def _objects(
    tree: _Tree, is_offline: list[bool] | None = None, absent: frozenset[str] = _ABSENT_UNKNOWN
) -> list[str]:
    """Write one object per row; a comma precedes every member, so that any of them can be left out."""
    columns: list[list[str]] = []
    template: list[str] = []
    for name, part in tree.items():
        texts = _objects(part) if isinstance(part, dict) else part
        key = f",{_quote(name)}:"
        if isinstance(part, dict) and name in _ABSENT_UNKNOWN | NULL_UNKNOWN:
            unknown = _objects(_unknown(part))[0]
            if name not in absent:
                texts = [_NULL if text == unknown else text for text in texts]
            else:
                texts = ["" if text == unknown else key + text for text in texts]
                key = ""
        if is_offline is not None and name in SESSION_ONLY:
            pairs = zip(texts, is_offline, strict=True)
            texts = ["" if offline else key + text for text, offline in pairs]
            key = ""
        template.append(f"{key.replace('%', '%%')}%s")
        columns.append(texts)
    members = "".join(template)
    return [f"{{{(members % row)[1:]}}}" for row in zip(*columns, strict=True)]


def _unknown(tree: _Tree) -> _Tree:
    """Return the tree of one row whose leaves are all null."""
    return {name: _unknown(part) if isinstance(part, dict) else [_NULL] for name, part in tree.items()}


def _texts(field: pa.Field, column: pa.Array) -> list[str]:
    """Return the JSON text of each value."""
    if is_json(field):
        return [_NULL if text is None else _valid(text) for text in column.to_pylist()]
    if pa.types.is_nested(column.type):
        return [_NULL if value is None else encode(value) for value in column.to_pylist()]
    shared = column.dictionary_encode()
    if len(shared.dictionary) * _WORTH_SHARING > len(column):
        return _scalars(column)
    distinct = [*_scalars(shared.dictionary), _NULL]
    positions = shared.indices.fill_null(len(distinct) - 1).to_numpy().tolist()
    return [distinct[position] for position in positions]


def _valid(text: str) -> str:
    """Return JSON text unchanged; text that only DuckDB accepts as JSON (NaN, ``[1,]``) becomes null."""
    try:
        json.loads(text, parse_float=str, parse_int=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _NULL
    return text


def _scalars(column: pa.Array) -> list[str]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _stamps(column)
    values = column.to_pylist()
    if pa.types.is_floating(kind):
        return [
            _NULL if value is None or not math.isfinite(value) else float.__repr__(value) for value in values
        ]
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return [encode(value) for value in values]
    if pa.types.is_integer(kind):
        return [_NULL if value is None else int.__repr__(value) for value in values]
    return [_NULL if value is None else _quote(value) for value in values]


def _stamps(column: pa.Array) -> list[str]:
    """Write instants as :func:`attrib_ds.instants.format` does, vectorised."""
    microseconds = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64())
    is_null = microseconds.is_null().to_numpy(zero_copy_only=False)
    numbers = microseconds.fill_null(0).to_numpy()
    moments = numbers.astype("datetime64[us]")
    texts = np.datetime_as_string(moments, unit="ms").astype("U26")
    is_finer = numbers % 1_000 != 0
    if is_finer.any():
        texts[is_finer] = np.datetime_as_string(moments[is_finer], unit="us")
    return [_NULL if missing else f'"{text}Z"' for text, missing in zip(texts.tolist(), is_null, strict=True)]


def decode(text: bytes) -> Any:
    """Parse JSON text; numbers are exact, and those beyond all bounds are an :class:`ExtremeNumber`.

    Parameters
    ----------
    text : bytes
        In UTF-8.

    Returns
    -------
    object
        Of duplicate keys the last one wins (G-044).

    Raises
    ------
    InvalidRequest
        If it is not JSON; NaN and infinities are not (G-042).

    Examples
    --------
    >>> decode(b'{"amount": 0.10}')
    {'amount': Decimal('0.10')}
    """
    try:
        return _DECODER.decode(text.decode())
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8"
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        problem = "is nested too deeply"
    except ValueError:
        problem = "contains a number that is too large"
    raise InvalidRequest(f"body: is not JSON: {problem}", field="body") from None


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not a JSON number", name, 0)


#: As `json.loads`, which makes a decoder for each text.
_DECODER: Final = json.JSONDecoder(
    parse_float=exact_number, parse_int=exact_integer, parse_constant=_refuse_constant
)


def from_json(records: Sequence[Mapping[str, Any]], columns: pa.Schema) -> pa.Table:
    """Convert records parsed by :func:`decode` to a flat table.

    Parameters
    ----------
    records : sequence of mapping
        Nested. Properties without a column are left out; absent members are null, or zero in columns of
        counts that are never null.
    columns : pyarrow.Schema
        Of the table: the schema of a resource, or the requested columns.

    Returns
    -------
    pyarrow.Table
        One row per record, in order; the columns do not depend on the records.

    Raises
    ------
    ServiceFailure
        If a value does not fit its column.

    Examples
    --------
    >>> from attrib_ds.schema import INTERACTION
    >>> cities = pa.schema([INTERACTION.field("_id"), INTERACTION.field("geo.city")])
    >>> from_json([{"_id": "a", "geo": {"city": "Oslo"}}, {"_id": "b"}], cities).to_pylist()
    [{'_id': 'a', 'geo.city': 'Oslo'}, {'_id': 'b', 'geo.city': None}]
    """
    arrays = []
    for field in columns:
        values = [_member(record, field.name) for record in records]
        try:
            arrays.append(_column(field, values))
        except (Refused, InvalidRequest, pa.ArrowException, TypeError, ValueError, OverflowError):
            raise ServiceFailure(
                f"the service answered {shown(_first_misfit(field, values))} for {field.name}; expected "
                f"{_expected(field)}"
            ) from None
    return pa.table(arrays, schema=columns)


def _member(record: object, name: str) -> Any:
    value: Any = record
    for part in name.split("."):
        if value is None:
            return None
        if not isinstance(value, Mapping):
            # An object fits no column, so the caller reports the value.
            return {}
        value = value.get(part)
    return value


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    if is_json(field):
        return pa.array([None if value is None else encode(value) for value in values], field.type)
    if pa.types.is_timestamp(field.type):
        return pa.array([None if value is None else _instant(value) for value in values], field.type)
    if pa.types.is_integer(field.type):
        nothing = None if field.nullable else 0
        return pa.array([nothing if value is None else _whole(value) for value in values], field.type)
    if pa.types.is_floating(field.type):
        return pa.array([None if value is None else _number(value) for value in values], field.type)
    if pa.types.is_list(field.type):
        item_field = field.type.value_field
        lists = [None if value is None else _column(item_field, _items(value)) for value in values]
        return pa.array([None if items is None else items.to_pylist() for items in lists], field.type)
    return pa.array(values, field.type)


def _instant(value: Any) -> Any:
    if not isinstance(value, str):
        raise Refused
    return instants.parse_exact(value, argument="value")


def _whole(value: Any) -> int | None:
    number = whole(value)
    if number is None and value is not None:
        raise Refused
    return number


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | ExtremeNumber):
        raise Refused
    number = float(value.text if isinstance(value, ExtremeNumber) else value)
    if not math.isfinite(number):
        raise Refused
    return number


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Refused
    return value


def _first_misfit(field: pa.Field, values: list[Any]) -> Any:
    for value in values:
        try:
            _column(field, [value])
        except (Refused, InvalidRequest, pa.ArrowException, TypeError, ValueError, OverflowError):
            return value
    return None


def _expected(field: pa.Field) -> str:
    if is_json(field):
        return "JSON"
    if pa.types.is_timestamp(field.type):
        return "an instant"
    return {"string": "text", "int64": "a whole number", "double": "a number", "bool": "true or false"}.get(
        str(field.type), "a list" if pa.types.is_list(field.type) else "an amount"
    )
