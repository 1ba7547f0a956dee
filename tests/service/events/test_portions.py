"""Portions of pending events shrink while they hold up other writes for too long."""

from __future__ import annotations

from support.order_events import declare_order, order

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.service import Service
from attrib_ds.service.events.acceptance import Acceptance
from attrib_ds.service.events.portions import LARGEST, SMALLEST, Portions
from attrib_ds.service.events.processing import Processing
from attrib_ds.service.events.raw_events import raw_event
from attrib_ds.service.store.ids import Uuids


def after(*records):
    portions = Portions()
    for events, seconds in records:
        portions.record(events, seconds=seconds)
    return portions.size(others_wait=True)


def test_slow_portions_shrink_to_the_smallest():
    assert after() == LARGEST
    assert after((1_000, 0.2)) == 500
    assert after((1_200, 0.2)) == 600
    assert after((1_000, 0.2), (500, 0.2)) == SMALLEST
    assert after((10, 9.0)) == SMALLEST


def test_fast_portions_grow_only_if_they_were_full():
    assert after((1_000, 0.2), (500, 0.1)) == 500
    assert after((1_000, 0.2), (499, 0.01)) == 500
    assert after((1_000, 0.2), (500, 0.01)) == 1_000
    assert after((1_000, 0.01)) == LARGEST


def test_without_other_writes_portions_are_large():
    portions = Portions()
    portions.record(1_000, seconds=1)
    assert portions.size(others_wait=False) == LARGEST


def test_pending_events_of_small_portions_are_all_processed(monkeypatch):
    monkeypatch.setattr(Portions, "size", lambda _, *, others_wait: 2)
    service = Service.open("shop", ":memory:")
    declare_order(service)
    store = service._store
    writes = "SELECT writes FROM meta"

    def one(query):
        with store.cursor() as cursor:
            return cursor.execute(query).fetchall()[0][0]

    ids, processing = Uuids(), Processing(store)
    requests = [
        build(OPERATIONS["create_event"], project_id="shop", **order(f"n{each}")) for each in range(5)
    ]
    acceptance = Acceptance(store, processing)
    acceptance.submit([raw_event(request, ids) for request in requests], None).result(30)
    before = one(writes)
    processing.close(timeout=30)
    assert one("SELECT count(*) FROM events") == 5
    assert one(writes) <= before + 3
    service.close()
