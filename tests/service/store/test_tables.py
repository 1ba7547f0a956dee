"""Records that are written at once."""

import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import duckdb
import pytest

from attrib_ds.instants import naive
from attrib_ds.service.store.tables import (
    HEX_ID,
    UUID,
    HexIds,
    Uuids,
    insert_record,
    insert_records,
    new_uuid,
    update_record,
)

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


def test_hex_ids_begin_with_the_second_and_grow():
    before = int(time.time())
    ids = HexIds()
    generated = [ids.new() for _ in range(1_000)]
    assert all(re.fullmatch(HEX_ID, value) for value in generated)
    assert generated == sorted(set(generated))
    assert before <= int(generated[0][:8], 16) <= int(time.time())
    assert {record[8:18] for record in generated} == {generated[0][8:18]}


def test_two_makers_do_not_meet():
    first, second = HexIds(), HexIds()
    assert not {first.new() for _ in range(100)} & {second.new() for _ in range(100)}


def test_threads_do_not_meet():
    ids = HexIds()
    with ThreadPoolExecutor(8) as pool:
        generated = list(pool.map(lambda _: ids.new(), range(5_000)))
    assert len(set(generated)) == 5_000


def test_bulk_ids_lie_between_those_made_before_and_after():
    ids = HexIds()
    first = ids.new()
    query = f"SELECT {ids.many('i', count=100_000)} FROM range(100000) AS t(i) ORDER BY i"
    generated = [value for (value,) in duckdb.connect().execute(query).fetchall()]
    last = ids.new()
    assert all(re.fullmatch(HEX_ID, item) for item in (generated[0], generated[-1]))
    assert [first, *generated, last] == sorted({first, *generated, last})


def test_a_full_counter_carries_over_into_the_seconds():
    ids = HexIds()
    ids.many("0", count=(1 << 24) - 1)
    generated = [ids.new() for _ in range(10)]
    assert generated == sorted(set(generated))


def test_uuids_are_of_version_7_and_grow_by_the_millisecond():
    before = time.time_ns() // 1_000_000
    generated = new_uuid()
    after = time.time_ns() // 1_000_000
    read = uuid.UUID(generated)
    assert re.fullmatch(UUID, generated)
    assert (read.version, read.variant) == (7, uuid.RFC_4122)
    assert before <= read.int >> 80 <= after
    assert len({new_uuid() for _ in range(1_000)}) == 1_000


def test_uuids_of_one_generator_differ_and_are_of_version_7():
    ids = Uuids()
    before = time.time_ns() // 1_000_000
    with ThreadPoolExecutor(8) as pool:
        generated = list(pool.map(lambda _: ids.new(), range(5_000)))
    assert len(set(generated)) == 5_000
    assert all(re.fullmatch(UUID, value) for value in generated)
    numbers = [uuid.UUID(value) for value in generated]
    assert {(number.version, number.variant) for number in numbers} == {(7, uuid.RFC_4122)}
    assert before <= min(number.int >> 80 for number in numbers)
    assert max(number.int >> 80 for number in numbers) <= time.time_ns() // 1_000_000
    # All random bits are used: 74, of which a constant one would show in 5,000 ids.
    assert {number.int & (2**76 - 1) & 1 << bit for number in numbers for bit in (0, 61, 64, 75)} == {
        0, 1, 1 << 61, 1 << 64, 1 << 75,
    }  # fmt: skip
