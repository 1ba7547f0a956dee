"""Gives events a typed column per declared field, state and statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from attrib_ds.contract.json_values import encode
from attrib_ds.json_numbers import whole
from attrib_ds.records.typed_values import holds_all, number, parse, typed
from attrib_ds.schema import INSTANT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from attrib_ds.records.declared_fields import DeclaredFields

_EVENT_COUNT: Final = "event-count"
_STATE_DELAY: Final = "state-delay-"


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
        kinds |= {f"states.{key}": pa.int64(), f"states.{key}.date": INSTANT}
    cells: dict[str, list[Any]] = {name: [None] * len(texts) for name in kinds}
    rest = []
    for row, text in enumerate(texts):
        left = []
        for metric in parse(text) or []:
            values = _metric_values(metric)
            if values is not None and values.keys() <= kinds.keys():
                for name, value in values.items():
                    cells[name][row] = value
            elif not _is_built_in(metric, declared):
                left.append(metric)
        rest.append(encode(left) if left else None)
    columns = {name: pa.array(cells[name], kind) for name, kind in kinds.items()}
    return columns | {"metrics": pa.array(rest, pa.string())}


def _metric_values(metric: object) -> dict[str, Any] | None:
    """Return the values of a metric by column; None if columns do not hold them."""
    if not isinstance(metric, dict) or not isinstance(metric.get("data"), dict):
        return None
    key, data = metric.get("key"), metric["data"]
    current = data.get("current")
    if metric.get("type") == "state":
        value: object = whole(current)
        values = {f"states.{key}": value, f"states.{key}.date": typed(data.get("date"), INSTANT)}
    elif data.get("type") == "currency":
        money = current if isinstance(current, dict) else {}
        value = number(money.get("amount"))
        values = {
            f"statistics.{key}.amount": value,
            f"statistics.{key}.currency": typed(money.get("currency"), pa.string()),
        }
    else:
        value = number(current)
        values = {f"statistics.{key}": value}
    return values if current is None or value is not None else None


def _is_built_in(metric: object, declared: DeclaredFields) -> bool:
    """Say whether a metric follows from the columns: a count of 1, or the delay of a state."""
    key = str(metric.get("key")) if isinstance(metric, dict) else ""
    return key == _EVENT_COUNT or (
        key.startswith(_STATE_DELAY) and key.removeprefix(_STATE_DELAY) in declared.states
    )
