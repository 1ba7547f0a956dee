"""Writes Arrow tables as the JSON records of the specification, and parses single JSON values.

Tables are flat with dotted names (``geo.city``) for nested properties; records are nested.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from json.encoder import encode_basestring as _quote
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.contract.json_values import encode
from attrib_ds.errors import InvalidRequest
from attrib_ds.json_numbers import exact_integer, exact_number
from attrib_ds.schema import NULL_UNKNOWN, SESSION_ONLY, is_json

_NULL: Final = "null"
#: Objects that a record omits if all their members are null.
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
        properties.
    hidden : iterable of str, optional
        Columns to leave out.

    Returns
    -------
    list of str
        One JSON object per row, without whitespace. Instants have milliseconds, decimals are exact and
        short; floats that are not finite are null.

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
        Of duplicate keys the last one wins.

    Raises
    ------
    InvalidRequest
        If it is not JSON; NaN and infinities are not.

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
