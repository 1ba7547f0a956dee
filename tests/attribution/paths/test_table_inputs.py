"""Tables of one's own engine have the columns and types that attribution reads."""

from __future__ import annotations

import ibis
import pytest

import attrib_ds as at
from attrib_ds.errors import InvalidRequest

COLUMNS = {
    "_id": "string",
    "userId": "string",
    "nodeId": "string",
    "startDate": "timestamp",
    "isBot": "boolean",
}


def opened(**types):
    engine = ibis.duckdb.connect()
    engine.create_table("visits", schema=ibis.schema(COLUMNS | types))
    events = {"_id": "string", "userId": "string", "eventType": "string", "eventDate": "timestamp"}
    engine.create_table("orders", schema=ibis.schema(events))
    return at.open_tables(engine, interactions="visits", events="orders")


@pytest.mark.parametrize(
    ("column", "kind", "allowed"),
    [("startDate", "string", "timestamp"), ("userId", "timestamp", "text"), ("isBot", "string", "flag")],
)
def test_a_column_of_another_type_is_refused(column, kind, allowed):
    with pytest.raises(InvalidRequest, match=f"the column {column} holds {kind}.*; allowed: {allowed}$"):
        opened(**{column: kind})


def test_columns_of_the_types_are_read():
    assert at.list_nodes(opened(startDate="date", userId="int64")).empty
