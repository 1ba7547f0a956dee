"""Records that are written at once."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from attrib_ds.instants import naive
from attrib_ds.service.store.table_access import insert_record, insert_records, update_record

AMOUNTS = ["1.5", "123456789012345678.123456", "1E+3", "-0.000001", "7"]
MOMENTS = [datetime(2025, 1, 31, 12, 0, 0, 5), datetime(2, 1, 1), None]


@pytest.mark.parametrize("copies", [1, 100])
def test_few_and_many_records_are_stored_as_they_are(memory_store, rows, copies):
    amounts = [Decimal(text) for text in AMOUNTS] * copies
    metrics = [
        {
            "_id": f"{place:04}",
            "amount": amount,
            "number": None if place % 2 else 0.1,
            "date": MOMENTS[place % 3],
        }
        for place, amount in enumerate(amounts)
    ]
    memory_store.write(lambda connection: insert_records(connection, "metrics", metrics))
    stored = rows("SELECT _id, amount, number, date, key FROM metrics ORDER BY _id")
    assert stored == [
        (metric["_id"], metric["amount"], metric["number"], metric["date"], None) for metric in metrics
    ]


@pytest.mark.parametrize("copies", [1, 100])
def test_lists_are_stored_as_lists(memory_store, rows, copies):
    lists = [["x", "y"], [], None] * copies
    types = [{"_id": f"{place:04}", "piiFields": item} for place, item in enumerate(lists)]
    memory_store.write(lambda connection: insert_records(connection, "event_types", types))
    assert [value for (value,) in rows("SELECT piiFields FROM event_types ORDER BY _id")] == lists


def test_no_records_are_no_statement(memory_store, rows):
    memory_store.write(lambda connection: insert_records(connection, "metrics", []))
    assert rows("SELECT count(*) FROM metrics") == [(0,)]


@pytest.fixture
def in_new_york(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of the machine cannot be changed here")
@pytest.mark.parametrize(
    "moment",
    [
        datetime(2025, 1, 31, 12),
        datetime(2025, 1, 31, 12, tzinfo=UTC),
        datetime(2025, 1, 31, 14, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_g036_an_instant_is_stored_in_utc_wherever_the_machine_is(memory_store, rows, in_new_york, moment):
    assert time.strftime("%z", time.localtime(0)) == "-0500"
    records = {
        "one": lambda connection: insert_record(connection, "rates", {"currency": "NOK", "date": moment}),
        "many": lambda connection: insert_records(
            connection, "rates", [{"currency": "DKK", "date": naive(moment)}]
        ),
        "later": lambda connection: update_record(connection, "users", "_id", "anna", {"createdAt": moment}),
    }
    memory_store.write(lambda connection: connection.execute("INSERT INTO users VALUES ('anna', NULL)"))
    for write in records.values():
        memory_store.write(write)
    assert rows("SELECT date FROM rates") == [(datetime(2025, 1, 31, 12),)] * 2
    assert rows("SELECT createdAt FROM users") == [(datetime(2025, 1, 31, 12),)]
