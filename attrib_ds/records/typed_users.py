"""Gives users typed columns for declared fields, and a column per entry of their maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds.contract.json_values import encode
from attrib_ds.filters.vocabulary import AGGREGATIONS
from attrib_ds.json_numbers import whole
from attrib_ds.records.typed_values import number, parse, typed
from attrib_ds.schema import INSTANT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from attrib_ds.records.declared_fields import DeclaredFields

_FIELDS: Final = "fields"
_FIELD: Final = "fields."
_METRIC: Final = {f".{name}": pa.int64() if name == "count" else pa.float64() for name in AGGREGATIONS}
_TYPE_META: Final = {".count": pa.int64(), ".firstDate": INSTANT, ".lastDate": INSTANT}
#: Maps with the columns of an entry, by what follows its key in their names.
_MAPS: Final[dict[str, dict[str, pa.DataType]]] = {
    "eventTypesCount": {"": pa.int64()},
    "eventTypeMeta": _TYPE_META,
    "metrics": _METRIC,
}


def needs_declarations(columns: Iterable[str]) -> bool:
    """Say whether the columns of users depend on what event types declare."""
    return any(name in _MAPS or name == _FIELDS or name.startswith(_FIELD) for name in columns)


def typed_users(users: pa.Table, declared: DeclaredFields) -> pa.Table:
    """Return users with typed values of their fields, and their maps in columns.

    Parameters
    ----------
    users : pyarrow.Table
        In the schema of the resource, or with keys of users as columns.
    declared : DeclaredFields
        What the event types declare.

    Returns
    -------
    pyarrow.Table
        ``fields.<key>`` by the type of the field; beside ``fields``, the latest value of each. A column per
        entry of ``eventTypesCount``, ``eventTypeMeta`` and ``metrics``; after them, the map holds the JSON
        text of entries that no event type declares, null if there are none.
    """
    columns: dict[str, Any] = {}
    for name in users.column_names:
        if name == _FIELDS:
            maps = [parse(text) or {} for text in users[name].to_pylist()]
            for key in declared.fields_of_users:
                entries = [_latest(fields.get(key)) for fields in maps]
                columns.setdefault(f"{_FIELD}{key}", _values(entries, declared.type_of(key)))
            columns[name] = users[name]
        elif name.startswith(_FIELD):
            entries = [_latest(parse(text)) for text in users[name].to_pylist()]
            columns[name] = _values(entries, declared.type_of(name.removeprefix(_FIELD)))
        elif name in _MAPS:
            keys = declared.metrics if name == "metrics" else declared.event_types
            columns |= {**_map_columns(name, users[name].to_pylist(), keys), **columns}
        else:
            columns[name] = users[name]
    return pa.table(columns)


def _latest(entries: object) -> object:
    """Return the latest value of a field, which is the last of equally late ones; None if it has none."""
    listed = entries if isinstance(entries, list) else []
    values = [entry for entry in listed if isinstance(entry, dict)]
    newest = max(reversed(values), key=lambda entry: str(entry.get("date")), default={})
    return newest.get("current")


def _values(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    return pa.array([typed(value, kind) for value in values], kind)


def _map_columns(name: str, texts: Sequence[str | None], keys: Sequence[str]) -> dict[str, pa.Array]:
    """Return a column for each member of each entry of a map, and the JSON text of other entries."""
    members = _MAPS[name]
    maps = [parse(text) or {} for text in texts]
    columns = {}
    for key in keys:
        for member, kind in members.items():
            cells = [_cell(entries.get(key), member, kind) for entries in maps]
            columns[f"{name}.{key}{member}"] = pa.array(cells, kind)
    rest = [
        {key: entry for key, entry in entries.items() if key not in keys or not _is_held(entry, members)}
        for entries in maps
    ]
    return columns | {name: pa.array([encode(left) if left else None for left in rest], pa.string())}


def _cell(entry: object, member: str, kind: pa.DataType) -> Any:
    value = entry.get(member.removeprefix(".")) if isinstance(entry, dict) else entry
    if kind == pa.int64():
        # A count is never missing.
        return whole(value) or 0
    return number(value) if kind == pa.float64() else typed(value, kind)


def _is_held(entry: object, members: Mapping[str, pa.DataType]) -> bool:
    """Say whether columns hold all of an entry, such as a metric without unconverted amounts."""
    return not isinstance(entry, dict) or {f".{name}" for name in entry} <= {*members, ".type"}
