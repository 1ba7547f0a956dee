"""Columns of users by what event types declare; expected values are written by hand."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from attrib_ds.records.declared_fields import DeclaredFields, declared_fields, needs_declarations, typed_users

JANUARY, MARCH = "2025-01-31T12:00:00.000Z", "2025-03-01T12:00:00.000Z"
DECLARED = declared_fields(
    pa.table(
        {
            "reference": ["order"],
            "fields": [
                json.dumps(
                    [
                        {"entity": "user", "type": "number", "storageKey": "age"},
                        {"entity": "user", "type": "date", "storageKey": "birthday"},
                        {"entity": "event", "type": "currency", "storageKey": "turnover"},
                        {"entity": "event", "type": "state", "storageKey": "won"},
                    ]
                )
            ],
        }
    )
)
TURNOVER = {"type": "statistic", "sum": 30.5, "max": 20.5, "min": 10, "count": 2, "average": 15.25}


def read(declared=DECLARED, **texts):
    """Return the columns of one user."""
    table = pa.table({name: [json.dumps(part)] for name, part in texts.items()})
    (record,) = typed_users(table, declared).to_pylist()
    return record


@pytest.mark.parametrize(
    ("key", "current", "expected"),
    [
        ("age", 30, 30.0),
        ("age", "30", 30.0),
        ("age", "many", None),
        ("birthday", JANUARY, datetime(2025, 1, 31, 12, tzinfo=UTC)),
        ("nickname", 30, "30"),
        ("home", {"formattedAddress": "Oslo"}, "Oslo"),
    ],
)
def test_a_requested_field_has_the_type_that_is_declared_and_is_text_otherwise(key, current, expected):
    name = f"fields.{key}"
    assert read(**{name: [{"current": current, "date": JANUARY}]}) == {name: expected}
    assert read(**{name: []}) == {name: None}


def test_beside_all_values_of_the_fields_is_the_latest_of_each():
    values = [{"current": 31, "date": MARCH}, {"current": 30, "date": JANUARY}]
    names = [{"current": "Al", "date": JANUARY}, {"current": "Ali", "date": JANUARY}]
    record = read(fields={"age": values, "nickname": names, "email": names})
    assert record == {
        "fields.age": 31.0,
        "fields.birthday": None,
        "fields.email": "Ali",
        "fields.phone": None,
        "fields.vendorUserId": None,
        "fields": json.dumps({"age": values, "nickname": names, "email": names}),
    }


def test_maps_have_a_column_per_entry_and_keep_the_others_as_json_text():
    record = read(eventTypesCount={"order": 2, "lead": 1})
    assert record == {"eventTypesCount.order": 2, "eventTypesCount": '{"lead":1}'}
    meta = {"count": 2, "firstDate": JANUARY, "lastDate": MARCH}
    assert read(eventTypeMeta={"order": meta}) == {
        "eventTypeMeta.order.count": 2,
        "eventTypeMeta.order.firstDate": datetime(2025, 1, 31, 12, tzinfo=UTC),
        "eventTypeMeta.order.lastDate": datetime(2025, 3, 1, 12, tzinfo=UTC),
        "eventTypeMeta": None,
    }
    record = read(metrics={"turnover": TURNOVER})
    aggregations = {"sum": 30.5, "max": 20.5, "min": 10.0, "count": 2, "average": 15.25}
    for name, expected in aggregations.items():
        assert record[f"metrics.turnover.{name}"] == expected
        assert record[f"metrics.won.{name}"] == (0 if name == "count" else None)
    keys = {name.split(".")[1] for name in record if name != "metrics"}
    assert keys == {"event-count", "turnover", "won", "state-delay-won"}
    assert record["metrics"] is None


def test_a_sum_without_some_amounts_says_so():
    turnover = TURNOVER | {"count_unconverted": 3}
    record = read(metrics={"turnover": turnover})
    assert record["metrics.turnover.sum"] == 30.5
    assert json.loads(record["metrics"]) == {"turnover": turnover}


def test_columns_that_were_asked_for_keep_their_place():
    names = ["metrics.turnover.sum", "eventCount", "metrics"]
    table = pa.table([[1.5], [2], ["{}"]], names=names)
    found = typed_users(table, DECLARED)
    assert found.column_names[:2] == names[:2]
    assert len(set(found.column_names)) == len(found.column_names) == 22
    assert found["metrics.turnover.sum"].to_pylist() == [1.5]


def test_without_declarations_maps_stay_json_text():
    texts = {"eventTypesCount": {"lead": 1}, "metrics": {"turnover": TURNOVER}}
    record = read(DeclaredFields(), **texts)
    assert json.loads(record["eventTypesCount"]) == texts["eventTypesCount"]
    assert json.loads(record["metrics"]) == texts["metrics"]
    assert record["metrics.event-count.count"] == 0


def test_event_types_are_needed_for_fields_and_maps_only():
    assert needs_declarations(["fields.age"])
    assert needs_declarations(["_id", "metrics"])
    assert not needs_declarations(["_id", "metrics.turnover.sum", "eventTypesCount.order", "eventCount"])
