"""Small records for the tests of the embedded service."""

import json
from datetime import UTC, datetime

import pyarrow as pa

from attrib_ds.contract import OPERATIONS, build


def hex_id(number: int) -> str:
    return f"{number:024x}"


def uuid(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def table(*records: dict) -> pa.Table:
    """Return records as an Arrow table with a column for every key of any of them."""
    names = dict.fromkeys(name for record in records for name in record)
    return pa.table({name: [record.get(name) for record in records] for name in names})


def visit(number: int, **properties) -> dict:
    """Return an interaction that keeps all rules."""
    usual = {
        "_id": hex_id(number),
        "userId": hex_id(900),
        "nodeId": "ads",
        "startDate": "2025-01-31T12:00:00Z",
    }
    return usual | {name.replace("__", "."): value for name, value in properties.items()}


def order(number: int, **properties) -> dict:
    """Return an event that keeps all rules."""
    usual = {
        "_id": uuid(number),
        "userId": hex_id(900),
        "eventDate": "2025-01-31T12:00:00Z",
        "eventType": "order",
    }
    return usual | properties


def lines(path, *records: dict):
    """Write records as JSON lines."""
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def send(service, operation: str, **arguments):
    """Carry out an operation of the project "shop"."""
    declared = OPERATIONS[operation]
    return service.send(declared, build(declared, project_id="shop", **arguments))


def reasons(rejected: pa.Table) -> dict[int, str]:
    """Return the reason of each rejected row."""
    return dict(zip(rejected["row"].to_pylist(), rejected["reason"].to_pylist(), strict=True))
