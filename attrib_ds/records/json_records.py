"""Records as JSON of the specification: pages to Arrow tables, Arrow tables to records."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from json.encoder import encode_basestring as _quote
from operator import attrgetter
from typing import Any, Final, NoReturn

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import errors, instants, json_numbers
from attrib_ds.contract.json_values import DEEPEST, Refused, encode, is_deeper, shown
from attrib_ds.schema import INSTANT, NULL_UNKNOWN, SESSION_ONLY, is_json

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
    for described, column in zip(batch.schema, batch.columns, strict=True):
        *parents, leaf = described.name.split(".")
        wholes = {".".join(parents[:length]) for length in range(1, len(parents) + 1)}
        if described.name not in left_out and not wholes & written:
            holder = tree
            for parent in parents:
                holder = holder.setdefault(parent, {})
            holder[leaf] = _texts(described, column)
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
    # Parsers before Python 3.14 raise RecursionError on deep text, so depth is checked first.
    if is_deeper(text.encode()):
        return _NULL
    try:
        json.loads(text, parse_float=str, parse_int=str, parse_constant=_refuse_constant)
    except ValueError:
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


def decode(text: bytes, *, levels: int = DEEPEST) -> Any:
    """Parse JSON text; numbers are exact, and those beyond all bounds are an :class:`ExtremeNumber`.

    Parameters
    ----------
    text : bytes
        In UTF-8.
    levels : int, default 64
        Maximum levels of nesting.

    Returns
    -------
    object
        Of duplicate keys the last one wins.

    Raises
    ------
    InvalidRequest
        If it is not JSON, as NaN and infinities are not, or nested deeper.

    Examples
    --------
    >>> decode(b'{"amount": 0.10}')
    {'amount': Decimal('0.10')}
    """
    if is_deeper(text, levels):
        raise errors.InvalidRequest(f"body: is nested too deeply; expected at most {levels} levels")
    try:
        return _DECODER.decode(text.decode())
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8"
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except ValueError:
        problem = "contains a number that is too large"
    raise errors.InvalidRequest(f"body: is not JSON: {problem}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not a JSON number", name, 0)


#: As `json.loads`, which makes a decoder for each text.
_DECODER: Final = json.JSONDecoder(
    parse_float=json_numbers.exact_number,
    parse_int=json_numbers.exact_integer,
    parse_constant=_refuse_constant,
)


#: Records decoded at a time: their values stay in the processor's cache until they are columns, which halves
#: the time of a page.
_PART: Final = 512
#: Members outside the schema that become columns; further ones are left out.
_MOST_NEW: Final = 1_000
_UNNAMEABLE: Final = re.compile(r'[\x00-\x1f"\\]')
_JSON: Final = {"json": "true"}
#: Length of ``2025-01-31T12:00:00Z``; Arrow also accepts shorter texts as instants.
_SHORTEST_INSTANT: Final = 20
_WITH_OFFSET: Final = r"^.{10}[T ]\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d$"
_FIRST_INSTANT, _LAST_INSTANT = (
    pa.scalar(bound.replace(tzinfo=UTC), INSTANT).value for bound in (datetime.min, datetime.max)
)
#: Powers of ten that no amount reaches.
_LARGEST_POWER: Final = 400
_PLACE: Final = re.compile(r"at `\$\[(\d+)\]((?:\.[^.\[`]+)*)")
_TOO_DEEP: Final = f"a record is nested too deeply; expected at most {DEEPEST} levels"
_NOT_UTF8: Final = "it is not UTF-8"
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
#: What some services write in place of an object that is absent.
_NOTHING: Final = (b"[]", b'""', b"false")
_COUNTERS: Final = ("offset", "limit", "count", "total")
#: Names of the list of a page whose form the specification does not show.
_LISTS: Final = ("items", "results", "records", "metrics", "values")
_FLAGS: Final = {"true": True, "false": False, "1": True, "0": False}
_MISFITS: Final = (
    Refused, errors.InvalidRequest, pa.ArrowException, TypeError, ValueError, KeyError, OverflowError
)  # fmt: skip


class Unreadable(ValueError):
    """A text is not a valid answer, or is truncated."""


class _Paged(msgspec.Struct):
    data: list[msgspec.Raw] | None
    offset: Any = None
    limit: Any = None
    count: Any = None
    total: Any = None


@dataclass(frozen=True)
class Page:
    """The records of an answer.

    Parameters
    ----------
    table : pyarrow.Table
        One row per record. After the requested columns follow those of members outside the schema, as JSON
        text, named by their dotted paths (a key with a dot is quoted).
    counters : mapping of str to int, optional
        ``offset``, ``limit``, ``count`` and ``total`` of a page, None where they are not stated; None for an
        array or a single record.
    """

    table: pa.Table
    counters: Mapping[str, int | None] | None = None


def read_page(
    content: bytes,
    columns: pa.Schema,
    *,
    known: pa.Schema | None = None,
    most: int | None = None,
    is_record: bool = False,
) -> Page:
    """Read an answer of JSON records.

    Parameters
    ----------
    content : bytes
        JSON in UTF-8.
    columns : pyarrow.Schema
        Of the table: the schema of a resource, or the requested columns. Dotted names are nested properties;
        fields marked as JSON keep their text.
    known : pyarrow.Schema, optional
        Whole schema of the resource, if ``columns`` is a part of it; its other properties are left out.
    most : int, optional
        Maximum number of records; unlimited by default.
    is_record : bool, default False
        Whether it is a single record instead of an array, bare or the ``data`` of an object with counters.

    Returns
    -------
    Page
        Rows in the order of the records; absent members are null.

    Raises
    ------
    Unreadable
        If the answer is not JSON or not of this kind.
    ServiceFailure
        If a value does not fit its column, or there are too many records.

    Examples
    --------
    >>> from attrib_ds.schema import INTERACTION
    >>> cities = pa.schema([INTERACTION.field("_id"), INTERACTION.field("geo.city")])
    >>> page = read_page(b'{"total": 7, "data": [{"_id": "a", "geo": {"city": "Oslo", "pop": 1e6}}]}', cities)
    >>> page.table.to_pylist(), page.counters["total"]
    ([{'_id': 'a', 'geo.city': 'Oslo', 'geo.pop': '1e6'}], 7)
    """
    try:
        answer: Any = msgspec.json.decode(
            content, type=msgspec.Raw if is_record else _Paged | list[msgspec.Raw]
        )
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None
    except msgspec.MsgspecError as error:
        answer = _wrapped(content)
        if answer is None:
            raise Unreadable(str(error)) from None
    counters = None
    if isinstance(answer, _Paged):
        counters = {name: json_numbers.count(getattr(answer, name)) for name in _COUNTERS}
    records = [answer] if is_record else (answer.data or []) if isinstance(answer, _Paged) else answer
    if any(is_deeper(bytes(record)) for record in records):
        raise Unreadable(_TOO_DEEP)
    if most is not None and len(records) > most:
        raise errors.ServiceFailure(f"the response has more than the {most} records that were requested")
    try:
        return Page(_Reader(columns, known).read(records), counters)
    except UnicodeDecodeError:
        raise Unreadable(_NOT_UTF8) from None
    except msgspec.DecodeError as error:
        # msgspec has an error of its own for it from 0.23 on.
        raise Unreadable(_NOT_UTF8 if "UTF-8" in str(error) else str(error)) from None


def _wrapped(content: bytes) -> _Paged | None:
    """Return a page whose list has another name than ``data``, or none as nothing matches; else None."""
    try:
        members = _MEMBERS.decode(content)
        counters = {name: _plain(members[name]) for name in members.keys() & {*_COUNTERS}}
        names = [name for name in _LISTS if bytes(members.get(name, b"")).startswith(b"[")]
        if not names and "data" not in members and json_numbers.count(counters.get("total")) == 0:
            return _Paged(None, **counters)
        [name] = names
        return _Paged(msgspec.json.decode(members[name], type=list[msgspec.Raw]), **counters)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _parts(name: str) -> list[str]:
    """Return the keys that lead to a column; those of events and metrics may have dots.

    Examples
    --------
    >>> _parts("geo.city"), _parts("eventTypesCount.Order 2.0"), _parts("metrics.net.value.sum")
    (['geo', 'city'], ['eventTypesCount', 'Order 2.0'], ['metrics', 'net.value', 'sum'])
    """
    outer, dot, inner = name.partition(".")
    if dot and outer in {"fields", "eventTypesCount"}:
        return [outer, inner]
    if outer == "metrics" and "." in inner:
        return [outer, *inner.rsplit(".", 1)]
    return name.split(".")


@dataclass
class _Object:
    """Members of an object in a record.

    Parameters
    ----------
    path : str
        Its dotted path with a dot at the end; empty for the record.
    is_open : bool, default False
        Whether it may have other members than those of the schema.
    members : dict
        An object, the column of a value, or None for a value that is not requested.
    """

    path: str
    is_open: bool = False
    members: dict[str, _Object | pa.Field | None] = field(default_factory=dict)

    def add(self, parents: Sequence[str], key: str, column: pa.Field | None) -> None:
        """Add a value; the objects around it are open if the schema has them as a whole."""
        if not parents:
            self.members[key] = column
            return
        inner = self.members.get(parents[0])
        if not isinstance(inner, _Object):
            inner = _Object(f"{self.path}{parents[0]}.", is_open=parents[0] in self.members)
            self.members[parents[0]] = inner
        inner.add(parents[1:], key, column)


class _Reader:
    """Reads records part by part; what it learns of one part, such as a new member, serves the next ones.

    Parameters
    ----------
    columns : pyarrow.Schema
        Of the table.
    known : pyarrow.Schema, optional
        Whole schema of the resource.
    path : str, default ""
        Path of the records, if they are objects within others; these may have any members.
    """

    def __init__(self, columns: pa.Schema, known: pa.Schema | None = None, *, path: str = "") -> None:
        self._columns = columns
        self._kinds = {column.name: column.type for column in columns}
        wanted = {column.name: column for column in columns}
        #: Columns inside of others, such as ``metrics.turnover.sum`` of ``metrics``, by the outer one.
        self._inside: dict[str, list[pa.Field]] = {}
        self._root = _Object(path, is_open=bool(path))
        #: Keys that lead to each nested column, which some services write flat: ``"geo.city"``.
        self._flat: dict[str, list[str]] = {}
        for name in sorted({*columns.names, *(known or columns).names}):
            parts = _parts(name)[path.count(".") :]
            outer = [path + ".".join(parts[:length]) for length in range(1, len(parts))]
            within = next((column for column in outer if column in wanted), None)
            if within is None:
                self._root.add(parts[:-1], parts[-1], wanted.get(name))
            elif name in wanted:
                self._inside.setdefault(within, []).append(wanted[name])
            if len(parts) > 1 and not path:
                self._flat[name] = parts
        #: Columns of new members by their object and key, in order of appearance.
        self._new: dict[tuple[str, str], pa.Field] = {}
        self._has_odd_numbers = self._has_many_new = self._is_lenient = False
        self._prepare()

    def read(self, records: Sequence[bytes | msgspec.Raw]) -> pa.Table:
        """Return records, each a JSON text, as a table."""
        parts = [self._read(records[start : start + _PART]) for start in range(0, len(records), _PART)]
        table = pa.concat_tables([self._written.empty_table(), *parts], promote_options="default")
        # Arrow takes longer to begin than to parse a part.
        for place, column in enumerate(self._columns):
            if table.schema.types[place] != column.type:
                table = table.set_column(place, column, self._array(column, table[place]))
        return table

    def _read(self, records: Sequence[bytes | msgspec.Raw]) -> pa.Table:
        while True:
            text = b"[%b]" % b",".join(map(self._repaired, records) if self._is_lenient else records)
            try:
                structs = self._decoder.decode(text)
                break
            except msgspec.ValidationError as error:
                self._learn(str(error), records)
        arrays: dict[str, Any] = {}
        for column in self._written:
            if column.name in self._ways:
                arrays[column.name] = self._array(column, _values(structs, self._ways[column.name]))
        for outer, columns in self._inside.items():
            texts = [b"{}" if text is None else text for text in arrays[outer].cast(pa.binary()).to_pylist()]
            table = _Reader(pa.schema(columns), path=f"{outer}.").read(texts)
            arrays |= dict(zip(table.column_names, table.columns, strict=True))
        return pa.table([arrays[name] for name in self._written.names], schema=self._written)

    def _array(self, column: pa.Field, values: Any) -> pa.Array:
        is_text, kind = self._is_text(column), self._kinds.get(column.name, column.type)
        for way in [kind] if self._is_lenient else [None, kind] if is_text else [None]:
            try:
                return _array(column, values, is_text=is_text, kind=way)
            except _MISFITS:
                pass
        kind = kind if is_text else None
        column = column if kind is None else column.with_type(kind)
        for value in values.to_pylist() if isinstance(values, pa.ChunkedArray) else values:
            try:
                _array(column, [value], is_text=is_text, kind=kind)
            except _MISFITS:
                raise _misfit(_plain(value), column) from None
        raise errors.ServiceFailure(f"the service answered values for {column.name} that cannot be read")

    def _learn(self, problem: str, records: Sequence[bytes | msgspec.Raw]) -> None:
        """Prepare to read records that the decoder refused; raise if a value does not fit its column."""
        is_unknown = problem.startswith("Object contains unknown field")
        if not self._is_lenient and (
            self._flat.keys() & {key for record in records for key in _MEMBERS.decode(record)}
            if is_unknown
            else "Expected `int" not in problem or "got `float`" not in problem or self._has_odd_numbers
        ):
            # Flat keys, or values of other types, most of which can be understood.
            self._is_lenient = True
        elif is_unknown:
            before = len(self._new)
            for record in records:
                self._find_new(self._repaired(record) if self._is_lenient else bytes(record), self._root)
            self._has_many_new = len(self._new) == before
        elif problem.startswith("Expected `int") and "got `float`" in problem and not self._has_odd_numbers:
            self._has_odd_numbers = True
        else:
            raise self._refusal(problem, records)
        self._prepare()

    def _find_new(self, content: bytes, parent: _Object) -> None:
        for key, raw in _MEMBERS.decode(content).items():
            member = parent.members.get(key)
            if isinstance(member, _Object):
                inner = bytes(raw)
                if inner.startswith(b"{"):
                    self._find_new(inner, member)
            elif key not in parent.members and not parent.is_open and self._can_add(key):
                name = parent.path + (json.dumps(key, ensure_ascii=False) if "." in key else key)
                self._new.setdefault((parent.path, key), pa.field(name, pa.string(), metadata=_JSON))

    def _repaired(self, record: bytes | msgspec.Raw) -> bytes:
        """Return a record whose flat keys are nested, without the empty lists and texts of absent objects."""
        content = bytes(record)
        is_object = content.startswith(b"{")
        return msgspec.json.encode(self._nested(content, self._root)) if is_object else content

    def _nested(self, content: bytes, parent: _Object) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key, raw in _MEMBERS.decode(content).items():
            member, text = parent.members.get(key), bytes(raw)
            *outer, last = self._flat.get(key, [key]) if parent is self._root else [key]
            holder: Any = tree
            for name in outer:
                holder = holder.setdefault(name, {}) if isinstance(holder, dict) else None
            if not isinstance(member, _Object):
                if isinstance(holder, dict):
                    holder[last] = raw
            elif text.startswith(b"{"):
                tree[key] = {**tree.get(key, {}), **self._nested(text, member)}
            elif text not in _NOTHING:
                tree[key] = raw
        return tree

    def _can_add(self, key: str) -> bool:
        # msgspec has no members of such names.
        return len(self._new) < _MOST_NEW and _UNNAMEABLE.search(key) is None

    def _refusal(self, problem: str, records: Sequence[bytes | msgspec.Raw]) -> errors.ServiceFailure:
        """Return the error that shows the value that the decoder refused."""
        place = _PLACE.search(problem)
        if place is None:
            return errors.ServiceFailure(f"the service answered records that cannot be read: {problem}")
        value = _plain(self._repaired(records[int(place[1])]))
        member: Any = self._root
        for key in place[2].split(".")[1:]:
            value, member = value[key], member.members[key]
        if isinstance(member, _Object):
            name = member.path.removesuffix(".") or "a record"
            return errors.ServiceFailure(
                f"the service answered {shown(value)} for {name}; expected an object"
            )
        return _misfit(value, member)

    def _prepare(self) -> None:
        """Make the decoder of records with the members that are known so far."""
        #: Attributes that lead to each column, as one dotted name.
        self._ways: dict[str, str] = {}
        self._decoder = msgspec.json.Decoder(list[self._struct(self._root, "")])  # type: ignore[misc]
        #: The columns of a part, with instants as their text.
        self._written = pa.schema(
            each.with_type(pa.string())
            if pa.types.is_timestamp(each.type) and each.name in self._ways
            else each
            for each in [*self._columns, *self._new.values()]
        )

    def _struct(self, parent: _Object, way: str) -> Any:
        fields: list[tuple[str, Any, Any]] = []
        rename: dict[str, str] = {}
        new = {key: column for (path, key), column in self._new.items() if path == parent.path}
        for key, member in [*parent.members.items(), *new.items()]:
            attribute = f"f{len(fields)}"
            rename[attribute] = key
            if isinstance(member, _Object):
                inner = self._struct(member, f"{way}{attribute}.")
                fields.append((attribute, inner | None, inner()))
            elif member is None:
                fields.append((attribute, msgspec.Raw, None))
            else:
                self._ways[member.name] = f"{way}{attribute}"
                kind = msgspec.Raw if self._is_text(member) else _python_type(member.type) | None
                fields.append((attribute, kind, None))
        is_closed = not (parent.is_open or self._has_many_new)
        return msgspec.defstruct(
            "Record", fields, rename=rename, forbid_unknown_fields=is_closed, frozen=True, gc=False
        )

    def _is_text(self, column: pa.Field) -> bool:
        """Return whether a column is read from the JSON text of its values, which keeps numbers exact."""
        is_odd = self._has_odd_numbers and pa.types.is_integer(column.type)
        return self._is_lenient or is_odd or is_json(column) or pa.types.is_decimal(column.type)


def _python_type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return list[_python_type(kind.value_type) | None]  # type: ignore[misc]
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_integer(kind):
        return int
    return float if pa.types.is_floating(kind) else str


def _values(structs: Sequence[Any], way: str) -> list[Any]:
    try:
        return list(map(attrgetter(way), structs))
    except AttributeError:  # null in place of an object
        values = list(structs)
        for attribute in way.split("."):
            values = [None if value is None else getattr(value, attribute) for value in values]
        return values


def _array(column: pa.Field, values: Any, *, is_text: bool, kind: pa.DataType | None) -> pa.Array:
    """Return decoded values as a column; raise one of the misfits if one does not fit.

    With ``kind``, the type of the values in the end, they are JSON texts of any type.
    """
    if kind is not None and isinstance(values, list) and not is_json(column):
        values = [None if text is None else _understood(kind, _plain(text)) for text in values]
        is_text = False
    if pa.types.is_timestamp(column.type):
        return _instants(
            column, values if isinstance(values, pa.ChunkedArray) else pa.array(values, pa.string())
        )
    if is_text:
        values = [None if value is None or (text := bytes(value)) == b"null" else text for value in values]
        if not is_json(column):
            values = _numbers(column, values)
    array = pa.array(values, column.type)
    return array if column.nullable else array.fill_null(0)


def _understood(kind: pa.DataType, value: Any) -> Any:
    """Return a value of another JSON type as one of a column; raise a misfit if it cannot be understood."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [
            _understood(kind.value_type, each) for each in (value if isinstance(value, list) else [value])
        ]
    if isinstance(value, str) and (pa.types.is_string(kind) or pa.types.is_timestamp(kind)):
        return value
    if pa.types.is_string(kind):
        return encode(value)
    if pa.types.is_boolean(kind):
        return _FLAGS[str(value).lower()]
    if isinstance(value, bool | list | dict) or value == "":
        raise Refused
    number = json_numbers.exact_number(value.strip()) if isinstance(value, str) else value
    if not isinstance(number, int | Decimal) or (isinstance(number, Decimal) and not number.is_finite()):
        raise Refused
    if pa.types.is_integer(kind):
        number = json_numbers.whole(number)
        if number is None:
            raise Refused
        return number
    if not pa.types.is_floating(kind):
        return _amount(Decimal(number), kind) if pa.types.is_decimal(kind) else Decimal(number)
    if not math.isfinite(number := float(number)):
        raise Refused
    return number


def _numbers(column: pa.Field, texts: Sequence[bytes | None]) -> list[Any]:
    """Return exact numbers: amounts, and whole numbers that are not all written as integers."""
    content = b"[%b]" % b",".join([b"null" if text is None else text for text in texts])
    if b'"' in content:  # msgspec reads text as a decimal too
        raise Refused
    try:
        values = msgspec.json.decode(content, type=list[int | Decimal | None])
    except msgspec.ValidationError:  # true and false, by its older releases
        raise Refused from None
    if pa.types.is_integer(column.type):
        numbers = [json_numbers.whole(value) if isinstance(value, Decimal) else value for value in values]
        if numbers.count(None) > values.count(None):
            raise Refused
        return numbers
    # Arrow would take minutes for an exponent of nine digits.
    if any(isinstance(value, Decimal) and abs(value.adjusted()) > _LARGEST_POWER for value in values):
        raise Refused
    return [_amount(value, column.type) for value in values]


def _amount(value: Any, kind: pa.DataType) -> Any:
    """Round an amount that a service has computed in binary fractions, such as 0.30000000000000004."""
    fits = isinstance(value, Decimal) and abs(value) < 10 ** (kind.precision - kind.scale)
    return round(value, kind.scale) if fits else value


def _instants(column: pa.Field, texts: Any) -> Any:
    """Parse instants together if all have a usual form, else one by one."""
    # Arrow takes other texts as instants too, such as days.
    is_usual = pc.and_(
        pc.greater_equal(pc.binary_length(texts), _SHORTEST_INSTANT), pc.ends_with(texts, pattern="Z")
    )
    if pc.all(is_usual).as_py() is False:
        is_usual = pc.or_(is_usual, pc.match_substring_regex(texts, _WITH_OFFSET))
    if pc.all(is_usual).as_py() is not False:
        try:
            moments = texts.cast(column.type)
        except pa.ArrowInvalid:  # such as digits after the microseconds
            pass
        else:
            first, last = pc.min_max(moments.cast(pa.int64())).as_py().values()
            # Arrow has the years 0 and 10000, Python has not.
            if first is None or (first >= _FIRST_INSTANT and last <= _LAST_INSTANT):
                return moments
    parsed = [instants.parse_exact(text, argument="value") if text else None for text in texts.to_pylist()]
    return pa.array(parsed, column.type)


def _plain(value: Any) -> Any:
    """Return a value as a message shows it."""
    if not isinstance(value, bytes | msgspec.Raw):
        return value
    try:
        return json_numbers.load_exact(bytes(value))
    except UnicodeDecodeError:
        raise
    except ValueError:
        return "a number with too many digits"


def _misfit(value: Any, column: pa.Field) -> errors.ServiceFailure:
    kind = column.type
    if pa.types.is_timestamp(kind):
        expected = "an instant"
    elif pa.types.is_list(kind):
        expected = "a list"
    else:
        names = {"string": "text", "int64": "a whole number", "double": "a number", "bool": "true or false"}
        expected = names.get(str(kind), "an amount")
    return errors.ServiceFailure(
        f"the service answered {shown(value)} for {column.name}; expected {expected}"
    )
