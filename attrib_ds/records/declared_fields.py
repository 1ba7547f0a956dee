"""Gives events, users and metrics typed columns for what the event types of a project declare."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from attrib_ds import errors, instants, json_numbers, schema
from attrib_ds.contract.json_values import encode
from attrib_ds.filters.vocabulary import AGGREGATIONS

#: Column types of field types; all others are text.
_TYPES: Final = {"number": pa.float64(), "boolean": pa.bool_(), "date": schema.INSTANT}
#: User fields of every project, declared or not.
_EVERYWHERE: Final = ("email", "phone", "vendorUserId")
_FLAGS: Final[dict[str | bool, bool]] = {"true": True, "false": False, True: True, False: False}
_FIELDS: Final = "fields"
_FIELD: Final = "fields."
#: Maps with the columns of an entry, by what follows its key in their names.
_MAPS: Final[dict[str, dict[str, pa.DataType]]] = {
    "eventTypesCount": {"": pa.int64()},
    "eventTypeMeta": {".count": pa.int64(), ".firstDate": schema.INSTANT, ".lastDate": schema.INSTANT},
    "metrics": {f".{name}": pa.int64() if name == "count" else pa.float64() for name in AGGREGATIONS},
}


@dataclass(frozen=True)
class DeclaredFields:
    """What the event types of a project declare; nothing by default.

    Attributes
    ----------
    event_types : tuple of str
        References, archived event types included.
    event, user : mapping of str to pyarrow.DataType
        Column types of fields by storage key.
    numbers, amounts, states : tuple of str
        Keys of number statistics, currency statistics and states.
    """

    event_types: tuple[str, ...] = ()
    event: Mapping[str, pa.DataType] = field(default_factory=dict)
    user: Mapping[str, pa.DataType] = field(default_factory=dict)
    numbers: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Keys of all metrics of a user, built-in ones included."""
        count, *delays = self.built_in
        return tuple(dict.fromkeys([count, *self.numbers, *self.amounts, *self.states, *delays]))

    @property
    def built_in(self) -> tuple[str, ...]:
        """Keys of metrics that follow from others: a count of 1 for each event, and the delays of states."""
        return "event-count", *(f"state-delay-{key}" for key in self.states)


def declared_fields(event_types: pa.Table) -> DeclaredFields:
    """Return what event types declare.

    A field that two event types declare with types of different columns is text.

    Parameters
    ----------
    event_types : pyarrow.Table
        In the schema of the resource.

    Examples
    --------
    >>> fields = '[{"type": "number", "entity": "user", "storageKey": "age"}]'
    >>> declared_fields(pa.table({"reference": ["lead"], "fields": [fields]})).user
    {'age': DataType(double)}
    """
    maps: dict[str, dict[str, pa.DataType]] = {"event": {}, "user": {}}
    metrics: dict[str, dict[str, None]] = {"number": {}, "currency": {}, "state": {}}
    for fields in event_types["fields"].to_pylist():
        for declared in filter(None, parse(fields) or ()):
            entity, kind, key = (declared.get(name) for name in ("entity", "type", "storageKey"))
            if not isinstance(key, str):
                continue
            if entity == "event" and kind in metrics:
                metrics[kind][key] = None
            elif entity in maps:
                column = _TYPES.get(kind, pa.string())
                is_one_type = maps[entity].setdefault(key, column) == column
                maps[entity][key] = column if is_one_type else pa.string()
    return DeclaredFields(
        event_types=tuple(filter(None, event_types["reference"].to_pylist())),
        event=maps["event"],
        user=maps["user"],
        numbers=tuple(metrics["number"]),
        amounts=tuple(metrics["currency"]),
        states=tuple(metrics["state"]),
    )


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
    types = declared.user
    for name in users.column_names:
        if name == _FIELDS:
            maps = [parse(text) or {} for text in users[name].to_pylist()]
            for key in dict.fromkeys([*declared.user, *_EVERYWHERE]):
                entries = [_latest(fields.get(key)) for fields in maps]
                columns.setdefault(f"{_FIELD}{key}", _values(entries, types.get(key, pa.string())))
            columns[name] = users[name]
        elif name.startswith(_FIELD):
            entries = [_latest(parse(text)) for text in users[name].to_pylist()]
            columns[name] = _values(entries, types.get(name.removeprefix(_FIELD), pa.string()))
        elif name in _MAPS:
            keys = declared.metrics if name == "metrics" else declared.event_types
            columns |= {**_map_columns(name, users[name].to_pylist(), keys), **columns}
        else:
            columns[name] = users[name]
    return pa.table(columns)


def _latest(entries: object) -> object:
    """Return the latest value of a field, which is the last of equally late ones; None if it has none."""
    listed = entries if isinstance(entries, list) else [entries]
    values = [entry if isinstance(entry, dict) else {"current": entry} for entry in listed]
    newest: dict[str, Any] = max(reversed(values), key=lambda entry: str(entry.get("date")), default={})
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
        # An absent count is 0.
        return 0 if value is None else json_numbers.count(value)
    return number(value) if kind == pa.float64() else typed(value, kind)


def _is_held(entry: object, members: Mapping[str, pa.DataType]) -> bool:
    """Say whether columns hold all of an entry, such as a metric without unconverted amounts."""
    return not isinstance(entry, dict) or {f".{name}" for name in entry} <= {*members, ".type"}


def typed_events(events: pa.Table, declared: DeclaredFields) -> pa.Table:
    """Return events with their values in columns, named as :func:`attrib_ds.load` reads them.

    Parameters
    ----------
    events : pyarrow.Table
        In the schema of the resource.
    declared : DeclaredFields
        What the event types declare.

    Returns
    -------
    pyarrow.Table
        ``event.<key>`` and ``user.<key>``, ``statistics.<key>`` or ``statistics.<key>.amount`` and
        ``.currency``, ``states.<key>`` and ``states.<key>.date``. After each group, ``event``, ``user`` and
        ``metrics`` hold the JSON text of what these columns do not hold, null if there is nothing left.
    """
    columns: dict[str, Any] = {}
    for name in events.column_names:
        if name in {"event", "user"}:
            fields = declared.event if name == "event" else declared.user
            columns |= _field_columns(name, events[name].to_pylist(), fields)
        elif name == "metrics":
            columns |= _metric_columns(events[name].to_pylist(), declared)
        else:
            columns[name] = events[name]
    return pa.table(columns)


def _field_columns(
    group: str, texts: Sequence[str | None], fields: Mapping[str, pa.DataType]
) -> dict[str, pa.Array]:
    cells: dict[str, list[Any]] = {key: [None] * len(texts) for key in fields}
    rest = []
    for row, text in enumerate(texts):
        left = {}
        for key, entry in (parse(text) or {}).items():
            if key in fields and isinstance(entry, dict):
                current = entry.get("current")
                cells[key][row] = typed(current, fields[key])
                if holds_all(current, fields[key]):
                    continue
            left[key] = entry
        rest.append(encode(left) if left else None)
    columns = {f"{group}.{key}": pa.array(cells[key], kind) for key, kind in fields.items()}
    return columns | {group: pa.array(rest, pa.string())}


def _metric_columns(texts: Sequence[str | None], declared: DeclaredFields) -> dict[str, pa.Array]:
    kinds: dict[str, pa.DataType] = {}
    for key in dict.fromkeys([*declared.numbers, *declared.amounts]):
        if key in declared.numbers:
            kinds[f"statistics.{key}"] = pa.float64()
        if key in declared.amounts:
            kinds[f"statistics.{key}.amount"] = pa.float64()
            kinds[f"statistics.{key}.currency"] = pa.string()
    for key in declared.states:
        kinds |= {f"states.{key}": pa.int64(), f"states.{key}.date": schema.INSTANT}
    cells: dict[str, list[Any]] = {name: [None] * len(texts) for name in kinds}
    rest, built_in = [], declared.built_in
    for row, text in enumerate(texts):
        left = []
        for metric in parse(text) or []:
            values = _metric_values(metric)
            if values is not None and values.keys() <= kinds.keys():
                for name, value in values.items():
                    cells[name][row] = value
            elif not isinstance(metric, dict) or metric.get("key") not in built_in:
                left.append(metric)
        rest.append(encode(left) if left else None)
    columns = {name: pa.array(cells[name], kind) for name, kind in kinds.items()}
    return columns | {"metrics": pa.array(rest, pa.string())}


def _metric_values(metric: object) -> dict[str, Any] | None:
    """Return the values of a metric by column; None if columns do not hold them, as if it is deleted."""
    if not isinstance(metric, dict) or not isinstance(metric.get("data"), dict) or metric.get("deletedAt"):
        return None
    key, data = metric.get("key"), metric["data"]
    current = data.get("current")
    if metric.get("type") == "state":
        value: object = json_numbers.whole(current)
        values = {f"states.{key}": value, f"states.{key}.date": typed(data.get("date"), schema.INSTANT)}
    elif data.get("type") == "currency":
        money = current if isinstance(current, dict) else {}
        value = number(money.get("amount"))
        currency = typed(money.get("currency"), pa.string())
        values = {f"statistics.{key}.amount": value, f"statistics.{key}.currency": currency}
    else:
        value = number(current)
        values = {f"statistics.{key}": value}
    return values if current is None or value is not None else None


def typed_metrics(metrics: pa.Table) -> pa.Table:
    """Return states and statistics with their values in columns instead of as JSON text.

    Parameters
    ----------
    metrics : pyarrow.Table
        In the schema of the resource.

    Returns
    -------
    pyarrow.Table
        ``data.raw`` and ``data.current`` are numbers; amounts of money have ``.amount`` and ``.currency``.
    """
    columns: dict[str, Any] = {}
    for name in metrics.column_names:
        if name in {"data.raw", "data.current"}:
            values = [parse(text) for text in metrics[name].to_pylist()]
            money = [value if isinstance(value, dict) else {} for value in values]
            currencies = [typed(each.get("currency"), pa.string()) for each in money]
            columns[name] = pa.array([number(value) for value in values], pa.float64())
            columns[f"{name}.amount"] = pa.array([number(each.get("amount")) for each in money], pa.float64())
            columns[f"{name}.currency"] = pa.array(currencies, pa.string())
        else:
            columns[name] = metrics[name]
    return pa.table(columns)


def parse(text: str | None) -> Any:
    """Return the value of JSON text, numbers exact; None if there is no text."""
    return None if text is None else json_numbers.load_exact(text)


def typed(value: object, kind: pa.DataType) -> Any:
    """Return a JSON value as a value of a column, or None if the column cannot hold it.

    Numbers, flags and instants may be written as text, as in events that were loaded from files. A location
    is its address.

    Examples
    --------
    >>> typed("3.5", pa.float64()), typed(3, pa.string()), typed("many", pa.float64())
    (3.5, '3', None)
    >>> typed({"formattedAddress": "Storgata 1, Oslo", "city": "Oslo"}, pa.string())
    'Storgata 1, Oslo'
    """
    return None if value is None else _READERS[kind](value)


def holds_all(value: object, kind: pa.DataType) -> bool:
    """Say whether a column of this type holds all of a JSON value: not of a location, for example."""
    return value is None or (not isinstance(value, dict | list) and typed(value, kind) is not None)


def number(value: object) -> float | None:
    """Return a JSON number, or text that is one, as a finite float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        converted = float(value)
    except (OverflowError, ValueError):
        return None
    return converted if math.isfinite(converted) else None


def _text(value: object) -> str:
    if isinstance(value, dict) and isinstance(value.get("formattedAddress"), str):
        return str(value["formattedAddress"])
    return value if isinstance(value, str) else encode(value)


def _instant(value: object) -> datetime | None:
    try:
        return instants.parse(value, argument="value") if isinstance(value, str) else None
    except errors.InvalidRequest:
        return None


_READERS: Final[dict[pa.DataType, Callable[[object], Any]]] = {
    pa.string(): _text,
    pa.float64(): number,
    pa.bool_(): lambda value: _FLAGS.get(value) if isinstance(value, str | bool) else None,
    schema.INSTANT: _instant,
}
