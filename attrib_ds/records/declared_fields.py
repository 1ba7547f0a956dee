"""The fields, states and statistics that the event types of a project declare, with their column types."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from attrib_ds.schema import INSTANT

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Column types of field types; all others are text.
_TYPES: Final = {"number": pa.float64(), "boolean": pa.bool_(), "date": INSTANT}
#: User fields of every project, declared or not (G-216).
_EVERYWHERE: Final = ("email", "phone", "vendorUserId")


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
        delays = [f"state-delay-{key}" for key in self.states]
        return tuple(dict.fromkeys(["event-count", *self.numbers, *self.amounts, *self.states, *delays]))

    @property
    def fields_of_users(self) -> tuple[str, ...]:
        """Keys of all user fields, those of every project included."""
        return tuple(dict.fromkeys([*self.user, *_EVERYWHERE]))

    def type_of(self, key: str) -> pa.DataType:
        """Return the column type of a user field; text if no event type declares it."""
        return self.user.get(key, pa.string())


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
        for declared in json.loads(fields):
            entity, kind, key = declared["entity"], declared["type"], declared["storageKey"]
            if entity == "event" and kind in metrics:
                metrics[kind][key] = None
            elif entity in maps:
                column = _TYPES.get(kind, pa.string())
                is_one_type = maps[entity].setdefault(key, column) == column
                maps[entity][key] = column if is_one_type else pa.string()
    return DeclaredFields(
        event_types=tuple(event_types["reference"].to_pylist()),
        event=maps["event"],
        user=maps["user"],
        numbers=tuple(metrics["number"]),
        amounts=tuple(metrics["currency"]),
        states=tuple(metrics["state"]),
    )
