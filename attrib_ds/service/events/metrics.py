"""Converts stored states and statistics to the resource."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from attrib_ds import instants, schema
from attrib_ds.contract.json_values import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def as_resource(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows of the table ``metrics`` in the schema of the resource."""
    return pa.Table.from_pylist([_flat(row) for row in rows], schema.METRIC)


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the table ``metrics`` as nested JSON; numbers are exact.

    Examples
    --------
    >>> row = {"_id": "m1", "projectId": "shop", "eventId": "e1", "key": "won", "type": "state",
    ...        "dataType": "state", "date": datetime(2025, 1, 31), "number": 1.0, "amount": None,
    ...        "currency": None, "anonymized": False, "invalid": False, "createdAt": datetime(2025, 2, 1),
    ...        "updatedAt": datetime(2025, 2, 1), "deletedAt": None}
    >>> as_json(row)["data"]  # doctest: +NORMALIZE_WHITESPACE
    {'type': 'state', 'date': '2025-01-31T00:00:00.000Z', 'raw': Decimal('1.0'),
     'current': Decimal('1.0'), 'anonymized': False, 'invalid': False}
    """
    dates = {name: _written(row[name]) for name in ("createdAt", "updatedAt", "deletedAt")}
    value = _value(row)
    return {
        **{name: row[name] for name in ("_id", "projectId", "eventId", "key", "type")},
        "data": {
            "type": row["dataType"],
            "date": _written(row["date"]),
            # Metrics are stored normalised only.
            "raw": value,
            "current": value,
            "anonymized": row["anonymized"],
            "invalid": row["invalid"],
        },
        **dates,
    }


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    value = encode(_value(row))
    ids = {name: row[name] for name in ("_id", "projectId", "eventId", "key", "type")}
    flags = {f"data.{name}": row[name] for name in ("anonymized", "invalid")}
    dates = {name: _aware(row[name]) for name in ("createdAt", "updatedAt", "deletedAt")}
    data = {"data.type": row["dataType"], "data.date": _aware(row["date"])}
    return {**ids, **data, "data.raw": value, "data.current": value, **flags, **dates}


def _value(row: Mapping[str, Any]) -> Any:
    if row["dataType"] == "currency":
        if row["amount"] is None:
            return None
        return {"amount": row["amount"], "currency": row["currency"]}
    number = row["number"]
    return None if number is None else Decimal(repr(number))


def _aware(instant: datetime | None) -> datetime | None:
    return None if instant is None else instant.replace(tzinfo=UTC)


def _written(instant: datetime | None) -> str | None:
    return None if instant is None else instants.format(instant.replace(tzinfo=UTC))
