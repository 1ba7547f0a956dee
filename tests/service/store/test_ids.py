"""Ids: their form, and that they grow with creation."""

from __future__ import annotations

import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import duckdb

from attrib_ds.service.store.ids import HEX_ID, UUID, HexIds, Uuids, new_uuid


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
    generated = [value for (value,) in duckdb.sql(query).fetchall()]
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
