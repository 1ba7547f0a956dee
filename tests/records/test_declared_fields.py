"""Columns of events and users by what event types declare; expected values are written by hand."""

import json
from datetime import UTC, datetime

import pyarrow as pa

from attrib_ds.records.declared_fields import (
    DeclaredFields,
    declared_fields,
    needs_declarations,
    typed_events,
    typed_users,
)
from attrib_ds.schema import INSTANT

NOON = "2025-01-31T12:00:00.000Z"


def field(entity, kind, key):
    return {"entity": entity, "type": kind, "storageKey": key}


def event_types(**fields):
    texts = [json.dumps(listed) for listed in fields.values()]
    return pa.table({"reference": pa.array(fields, pa.string()), "fields": pa.array(texts, pa.string())})


def value(current):
    return {"raw": current, "current": current, "type": "string", "date": NOON}


def metric(key, current, kind="number", date=NOON):
    group = "state" if kind == "state" else "statistic"
    return {"key": key, "type": group, "data": {"type": kind, "date": date, "current": current}}


def read(declared, event=(), user=(), metrics=()):
    """Return the columns of one event."""
    texts = {"event": dict(event), "user": dict(user), "metrics": list(metrics)}
    table = pa.table({name: [json.dumps(part)] for name, part in texts.items()})
    (record,) = typed_events(table, declared).to_pylist()
    return record


DECLARED = declared_fields(
    event_types(
        order=[
            field("user", "email", "email"),
            field("user", "number", "age"),
            field("user", "boolean", "member"),
            field("user", "location", "home"),
            field("event", "date", "delivery"),
            field("event", "number", "items"),
            field("event", "currency", "turnover"),
            field("event", "state", "won"),
        ]
    )
)


def test_values_of_declared_fields_have_the_type_of_their_field():
    user = {"email": value("a@x.org"), "age": value(30), "member": value(True)}
    record = read(DECLARED, event={"delivery": value("2025-02-03T08:00:00.000Z")}, user=user)
    assert record["user.email"] == "a@x.org"
    assert record["user.age"] == 30.0
    assert record["user.member"] is True
    assert record["event.delivery"] == datetime(2025, 2, 3, 8, tzinfo=UTC)
    assert record["event"] is record["user"] is None


def test_statistics_and_states_are_columns():
    money = {"amount": 19.99, "currency": "NOK"}
    metrics = [
        metric("event-count", 1),
        metric("items", 2),
        metric("state-delay-won", 60),
        metric("turnover", money, "currency"),
        metric("won", 1, "state", "2025-01-31T12:01:00.000Z"),
    ]
    record = read(DECLARED, metrics=metrics)
    assert record["statistics.items"] == 2.0
    assert record["statistics.turnover.amount"] == 19.99
    assert record["statistics.turnover.currency"] == "NOK"
    assert record["states.won"] == 1
    assert record["states.won.date"] == datetime(2025, 1, 31, 12, 1, tzinfo=UTC)
    assert record["metrics"] is None


def test_columns_do_not_depend_on_the_rows():
    empty = pa.table({name: pa.array([], pa.string()) for name in ("_id", "event", "user", "metrics")})
    assert {field.name: field.type for field in typed_events(empty, DECLARED).schema} == {
        "_id": pa.string(),
        "event.delivery": INSTANT,
        "event": pa.string(),
        "user.email": pa.string(),
        "user.age": pa.float64(),
        "user.member": pa.bool_(),
        "user.home": pa.string(),
        "user": pa.string(),
        "statistics.items": pa.float64(),
        "statistics.turnover.amount": pa.float64(),
        "statistics.turnover.currency": pa.string(),
        "states.won": pa.int64(),
        "states.won.date": INSTANT,
        "metrics": pa.string(),
    }


def test_what_no_event_type_declares_stays_json_text():
    user = {"email": value("a@x.org"), "nickname": value("Al")}
    metrics = [metric("items", 2), metric("margin", 3), metric("state-delay-lost", 5)]
    record = read(DECLARED, user=user, metrics=metrics)
    assert json.loads(record["user"]) == {"nickname": value("Al")}
    assert json.loads(record["metrics"]) == [metric("margin", 3), metric("state-delay-lost", 5)]


def test_without_declarations_all_values_stay_json_text():
    record = read(DeclaredFields(), user={"age": value(30)}, metrics=[metric("items", 2)])
    assert list(record) == ["event", "user", "metrics"]
    assert json.loads(record["user"]) == {"age": value(30)}
    assert json.loads(record["metrics"]) == [metric("items", 2)]


def test_loaded_values_may_be_text_of_their_type():
    for key, current, expected in [
        ("age", "30.5", 30.5),
        ("member", "true", True),
        ("home", "Oslo", "Oslo"),
        ("email", 5, "5"),
    ]:
        record = read(DECLARED, user={key: value(current)})
        assert record[f"user.{key}"] == expected, (key, current)
        assert record["user"] is None, (key, current)


def test_a_value_of_another_type_is_missing_in_its_column_and_stays_json_text():
    for key, current in [("age", "many"), ("age", True), ("age", "inf"), ("member", 2), ("member", "yes")]:
        record = read(DECLARED, user={key: value(current)})
        assert record[f"user.{key}"] is None, (key, current)
        assert json.loads(record["user"]) == {key: value(current)}, (key, current)


def test_a_location_is_its_address_and_stays_json_text():
    home = {"formattedAddress": "Storgata 1, Oslo", "city": "Oslo"}
    record = read(DECLARED, user={"home": value(home)})
    assert record["user.home"] == "Storgata 1, Oslo"
    assert json.loads(record["user"]) == {"home": value(home)}


def test_an_erased_value_is_missing():
    record = read(DECLARED, user={"age": value(None)}, metrics=[metric("turnover", None, "currency")])
    assert record["user.age"] is record["user"] is None
    assert record["statistics.turnover.amount"] is record["metrics"] is None


def test_a_metric_of_another_kind_than_declared_stays_json_text():
    metrics = [metric("items", {"amount": 5, "currency": "EUR"}, "currency"), metric("won", 7.5, "state")]
    record = read(DECLARED, metrics=metrics)
    assert record["statistics.items"] is record["states.won"] is None
    assert json.loads(record["metrics"]) == metrics


def test_metrics_of_another_shape_stay_json_text():
    metrics = ["won", {"key": "items"}, {"key": "items", "type": "statistic", "data": 5}]
    record = read(DECLARED, metrics=metrics)
    assert json.loads(record["metrics"]) == metrics


def test_a_field_of_several_types_is_text():
    types = event_types(
        lead=[field("user", "number", "size"), field("event", "number", "worth")],
        order=[field("user", "boolean", "size"), field("event", "currency", "worth")],
        visit=[field("user", "number", "size"), field("user", "url", "site")],
        call=[field("user", "string", "site")],
    )
    declared = declared_fields(types)
    assert dict(declared.user) == {"size": pa.string(), "site": pa.string()}
    assert read(declared, user={"size": value(3)})["user.size"] == "3"
    assert read(declared, user={"size": value(True)})["user.size"] == "true"
    # A number and an amount of money have columns of their own.
    record = read(declared, metrics=[metric("worth", 2)])
    assert (record["statistics.worth"], record["statistics.worth.amount"]) == (2.0, None)


def test_a_number_beyond_every_double_is_missing_and_stays_json_text():
    text = '{"age":{"current":1e999}}'
    (record,) = typed_events(pa.table({"user": [text]}), DECLARED).to_pylist()
    assert record["user.age"] is None
    assert record["user"] == text


JANUARY, MARCH = "2025-01-31T12:00:00.000Z", "2025-03-01T12:00:00.000Z"
OF_USERS = declared_fields(
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


def read_user(declared=OF_USERS, **texts):
    """Return the columns of one user."""
    table = pa.table({name: [json.dumps(part)] for name, part in texts.items()})
    (record,) = typed_users(table, declared).to_pylist()
    return record


def test_a_requested_field_has_the_type_that_is_declared_and_is_text_otherwise():
    for key, current, expected in [
        ("age", 30, 30.0),
        ("age", "30", 30.0),
        ("age", "many", None),
        ("birthday", JANUARY, datetime(2025, 1, 31, 12, tzinfo=UTC)),
        ("nickname", 30, "30"),
        ("home", {"formattedAddress": "Oslo"}, "Oslo"),
    ]:
        name = f"fields.{key}"
        assert read_user(**{name: [{"current": current, "date": JANUARY}]}) == {name: expected}, (
            key,
            current,
        )
        assert read_user(**{name: []}) == {name: None}, (key, current)


def test_beside_all_values_of_the_fields_is_the_latest_of_each():
    values = [{"current": 31, "date": MARCH}, {"current": 30, "date": JANUARY}]
    names = [{"current": "Al", "date": JANUARY}, {"current": "Ali", "date": JANUARY}]
    record = read_user(fields={"age": values, "nickname": names, "email": names})
    assert record == {
        "fields.age": 31.0,
        "fields.birthday": None,
        "fields.email": "Ali",
        "fields.phone": None,
        "fields.vendorUserId": None,
        "fields": json.dumps({"age": values, "nickname": names, "email": names}),
    }


def test_maps_have_a_column_per_entry_and_keep_the_others_as_json_text():
    record = read_user(eventTypesCount={"order": 2, "lead": 1})
    assert record == {"eventTypesCount.order": 2, "eventTypesCount": '{"lead":1}'}
    for written, count in (("2", 2), ("many", None), (None, 0)):
        assert read_user(eventTypesCount={"order": written})["eventTypesCount.order"] == count
    meta = {"count": 2, "firstDate": JANUARY, "lastDate": MARCH}
    assert read_user(eventTypeMeta={"order": meta}) == {
        "eventTypeMeta.order.count": 2,
        "eventTypeMeta.order.firstDate": datetime(2025, 1, 31, 12, tzinfo=UTC),
        "eventTypeMeta.order.lastDate": datetime(2025, 3, 1, 12, tzinfo=UTC),
        "eventTypeMeta": None,
    }
    record = read_user(metrics={"turnover": TURNOVER})
    aggregations = {"sum": 30.5, "max": 20.5, "min": 10.0, "count": 2, "average": 15.25}
    for name, expected in aggregations.items():
        assert record[f"metrics.turnover.{name}"] == expected
        assert record[f"metrics.won.{name}"] == (0 if name == "count" else None)
    keys = {name.split(".")[1] for name in record if name != "metrics"}
    assert keys == {"event-count", "turnover", "won", "state-delay-won"}
    assert record["metrics"] is None


def test_a_sum_without_some_amounts_says_so():
    turnover = TURNOVER | {"count_unconverted": 3}
    record = read_user(metrics={"turnover": turnover})
    assert record["metrics.turnover.sum"] == 30.5
    assert json.loads(record["metrics"]) == {"turnover": turnover}


def test_columns_that_were_asked_for_keep_their_place():
    names = ["metrics.turnover.sum", "eventCount", "metrics"]
    table = pa.table([[1.5], [2], ["{}"]], names=names)
    found = typed_users(table, OF_USERS)
    assert found.column_names[:2] == names[:2]
    assert len(set(found.column_names)) == len(found.column_names) == 22
    assert found["metrics.turnover.sum"].to_pylist() == [1.5]


def test_without_declarations_maps_stay_json_text():
    texts = {"eventTypesCount": {"lead": 1}, "metrics": {"turnover": TURNOVER}}
    record = read_user(DeclaredFields(), **texts)
    assert json.loads(record["eventTypesCount"]) == texts["eventTypesCount"]
    assert json.loads(record["metrics"]) == texts["metrics"]
    assert record["metrics.event-count.count"] == 0


def test_event_types_are_needed_for_fields_and_maps_only():
    assert needs_declarations(["fields.age"])
    assert needs_declarations(["_id", "metrics"])
    assert not needs_declarations(["_id", "metrics.turnover.sum", "eventTypesCount.order", "eventCount"])
