"""Accepting hits: durable before the answer, each in one session, and none lost."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from attrib_ds import instants
from attrib_ds.contract.hits import read_hit
from attrib_ds.errors import NotSupported, Unavailable
from attrib_ds.service import Service
from attrib_ds.service.collection import hit_intake
from attrib_ds.service.collection.hit_intake import HitIntake
from attrib_ds.service.collection.pending_hits import pending_hit
from attrib_ds.service.identity.tombstones import bury
from attrib_ds.service.store.store import Store

SECONDS = 30


def record(number, tracker_id="t-1", page="https://shop.example/"):
    hit = read_hit({"projectId": "shop", "pageUrl": page})
    id = f"00000000-0000-4000-8000-{number:012}"
    return pending_hit(hit, id=id, tracker_id=tracker_id, user_agent="Firefox/130.0")


def count(store, table):
    with store.cursor() as cursor:
        return cursor.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]


@pytest.fixture
def store():
    with closing(Store.open(":memory:", "shop")) as store:
        yield store


def test_a_hit_is_stored_when_its_future_is_set(store):
    intake = HitIntake(store)
    intake.submit(record(1)).result(SECONDS)
    assert count(store, "pending_hits") + count(store, "hits") == 1
    intake.close(timeout=SECONDS)
    assert (count(store, "pending_hits"), count(store, "hits"), count(store, "interactions")) == (0, 1, 1)


def test_hits_of_one_browser_at_the_same_time_are_one_session(store):
    intake = HitIntake(store)
    numbers = iter(range(40))
    lock = threading.Lock()

    def send():
        for _ in range(10):
            with lock:
                number = next(numbers)
            intake.submit(record(number)).result(SECONDS)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    intake.close(timeout=SECONDS)
    with store.cursor() as cursor:
        assert cursor.execute("SELECT hitCount FROM interactions").fetchall() == [(40,)]


def test_a_hit_that_is_sent_twice_counts_once(store):
    intake = HitIntake(store)
    for _ in range(2):
        intake.submit(record(1)).result(SECONDS)
        intake.submit(record(1, page="https://shop.example/other")).result(SECONDS)
    intake.close(timeout=SECONDS)
    with store.cursor() as cursor:
        assert cursor.execute('SELECT "pageUrl.pathname" FROM hits').fetchall() == [("/",)]


def test_the_next_process_resumes_with_pending_hits(tmp_path):
    path = tmp_path / "shop.duckdb"
    with closing(Store.open(path, "shop")) as store:
        intake = HitIntake(store)
        intake.submit(record(1)).result(SECONDS)
        # As at the end of a process: what is stored is not processed.
        intake.stop()
    with closing(Service.open("shop", path)):
        pass
    with closing(Store.open(path, "shop")) as store:
        assert (count(store, "pending_hits"), count(store, "interactions")) == (0, 1)


def test_more_hits_than_may_wait_are_refused(store):
    is_free = threading.Event()
    blocked = threading.Thread(target=lambda: store.write(lambda _: is_free.wait(SECONDS)))
    blocked.start()
    intake = HitIntake(store, most_waiting=3)
    futures = []
    with pytest.raises(Unavailable, match="hits wait to be stored; try again later"):
        for number in range(10):
            futures.append(intake.submit(record(number)))  # noqa: PERF401  (stops at the error)
    is_free.set()
    blocked.join()
    for future in futures:
        future.result(SECONDS)
    intake.close(timeout=SECONDS)
    assert count(store, "hits") == len(futures)


def test_a_hit_that_cannot_be_written_does_not_block_the_others(store, monkeypatch):
    collect = hit_intake.collect_pending

    def fail_on_two(connection, hit_ids, **more):
        if record(2)["id"] in hit_ids:
            raise ValueError("two")
        return collect(connection, hit_ids, **more)

    monkeypatch.setattr(hit_intake, "collect_pending", fail_on_two)
    intake = HitIntake(store)
    for number in (1, 2, 3):
        intake.submit(record(number)).result(SECONDS)
    intake.close(timeout=SECONDS)
    with store.cursor() as cursor:
        assert cursor.execute("SELECT id FROM pending_hits").fetchall() == [(record(2)["id"],)]
    assert count(store, "hits") == 2


def test_hits_of_an_erased_person_from_before_are_dropped(store):
    intake = HitIntake(store)
    early = record(1)
    store.write(lambda c: bury(c, [("identity:trackerId", "t-1")], instants.naive(instants.now())))
    intake.submit(early).result(SECONDS)
    intake.close(timeout=SECONDS)
    assert (count(store, "pending_hits"), count(store, "hits")) == (0, 0)
    intake = HitIntake(store)
    intake.submit(early).result(SECONDS)
    intake.submit(record(2, tracker_id="t-2")).result(SECONDS)
    intake.close(timeout=SECONDS)
    with store.cursor() as cursor:
        assert cursor.execute("SELECT trackerId FROM hits").fetchall() == [("t-2",)]
        assert cursor.execute("SELECT count(*) FROM pending_hits").fetchall() == [(0,)]


def test_a_closed_intake_refuses_hits(store):
    intake = HitIntake(store)
    intake.close(timeout=SECONDS)
    with pytest.raises(Unavailable):
        intake.submit(record(1))


def test_a_project_that_is_read_only_takes_no_hits(tmp_path):
    path = tmp_path / "shop.duckdb"
    Store.open(path, "shop").close()
    with closing(Store.open(path, "shop", read_only=True)) as store, pytest.raises(NotSupported):
        HitIntake(store).submit(record(1))


def test_a_pending_hit_is_kept_as_a_loaded_one():
    """G-224: in milliseconds; and without a referrer there is none."""
    times = {"date": "2025-01-31T12:00:00.000900Z", "sentAt": "2025-01-31T12:00:01.000200Z"}
    hit = read_hit({"projectId": "shop", "pageUrl": "https://shop.example/", "referrer": "", **times})
    stored = pending_hit(hit, id="1", tracker_id="t-1", user_agent="Firefox/130.0")
    assert stored["serverDate"].microsecond % 1000 == 0
    assert stored["referrer"] is None
