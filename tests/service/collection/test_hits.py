"""Accepting hits: durable before the answer, each in one session, and none lost."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import timedelta

import pytest
from support.queued_records import queued
from support.service_records import send
from support.waiting import eventually

from attrib_ds import instants
from attrib_ds.contract.interactions import read_hit
from attrib_ds.errors import NotSupported, Unavailable
from attrib_ds.service import Service
from attrib_ds.service.collection import hits
from attrib_ds.service.collection.hits import HitIntake, pending_hit
from attrib_ds.service.identity.tombstones import bury
from attrib_ds.service.store import intake as intakes
from attrib_ds.service.store.store import Store

SECONDS = 120


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
    assert len(store.queue.first("hits", 9)) + count(store, "hits") == 1
    intake.close(timeout=SECONDS)
    assert (store.queue.first("hits", 9), count(store, "hits"), count(store, "interactions")) == ([], 1, 1)


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


def test_hits_gather_until_somebody_reads_or_enough_have_come(monkeypatch):
    monkeypatch.setattr(hits, "_ENOUGH", 3)
    monkeypatch.setattr(intakes, "_SECONDS_TO_CATCH_UP", SECONDS)
    with closing(Service.open("shop", ":memory:")) as service:
        service.start_hit(record(1)).result(SECONDS)
        assert service.waiting()["hits"] == 1
        assert send(service, "search_interactions").read()["hitCount"].to_pylist() == [1]
        # The mover notes a moment after readers have the hits that all are there.
        eventually(lambda: service._hits._up_to_date_at > 0)
        # A reader does not wait for the hits of the last half second.
        service.start_hit(record(2)).result(SECONDS)
        monkeypatch.setattr(intakes, "_SECONDS_BEHIND", 1_000_000)
        assert send(service, "search_interactions").read()["hitCount"].to_pylist() == [1]
        monkeypatch.setattr(intakes, "_SECONDS_BEHIND", 0)
        assert service.tables().interactions.hitCount.to_pyarrow().to_pylist() == [2]
        for number in (3, 4, 5):
            service.start_hit(record(number)).result(SECONDS)
        eventually(lambda: service.waiting()["hits"] == 0)


def test_one_reader_waits_for_hits_that_a_long_transaction_holds_up(store, monkeypatch):
    waited = []
    intake = HitIntake(store)
    monkeypatch.setattr(intake, "wait", lambda seconds: bool(waited.append(seconds)))
    monkeypatch.setattr(intakes, "_SECONDS_BEHIND", 1_000_000)
    intake.catch_up()
    intake.catch_up()
    assert waited == [2.0]
    intake.close(timeout=SECONDS)


def test_readers_do_not_fail_with_the_hits(monkeypatch, caplog):
    monkeypatch.setattr(intakes, "_SECONDS_TO_CATCH_UP", SECONDS)

    def fail(*_, **__):
        raise OSError("no")

    with closing(Service.open("shop", ":memory:")) as service:
        with monkeypatch.context() as broken:
            broken.setattr(service._store, "write", fail)
            service.start_hit(record(1)).result(SECONDS)
            assert send(service, "search_interactions").total == 0
        assert "hits of shop wait: no" in caplog.text
        monkeypatch.setattr(intakes, "_SECONDS_BEHIND", 0)
        assert send(service, "search_interactions").total == 1


def test_the_date_of_ingestion_is_that_of_acceptance(store):
    """G-242: one portion holds many requests, in another order than their views."""
    intake = HitIntake(store)
    early, late = record(1), record(2)
    early["ingestedAt"] -= timedelta(seconds=1)
    intake.submit(early).result(SECONDS)
    intake.submit(late | {"serverDate": late["serverDate"] - timedelta(minutes=5)}).result(SECONDS)
    intake.close(timeout=SECONDS)
    listed = send(Service(store, ":memory:"), "list_hits", firstHitId=late["id"]).read()
    assert listed["id"].to_pylist() == [record(1)["id"], late["id"]]


def test_the_next_process_resumes_with_pending_hits(tmp_path):
    path = tmp_path / "shop.duckdb"
    with closing(Store.open(path, "shop")) as store:
        intake = HitIntake(store)
        intake.submit(record(1)).result(SECONDS)
        # As at the end of a process: what is accepted is not moved.
        intake.stop()
    assert len(queued(path, "hits")) == 1
    with closing(Service.open("shop", path)):
        pass
    with closing(Store.open(path, "shop")) as store:
        assert (store.queue.first("hits", 9), count(store, "interactions")) == ([], 1)


@pytest.mark.large
@pytest.mark.slow
def test_a_hit_that_cannot_be_written_is_set_aside_until_the_project_is_opened_again(
    tmp_path, monkeypatch, caplog
):
    path = tmp_path / "shop.duckdb"
    collect = hits.collect

    def fail_on_two(connection, relation, *others, **more):
        if connection.execute(f"SELECT 1 FROM {relation} WHERE id = ?", [record(2)["id"]]).fetchall():
            raise ValueError("two")
        return collect(connection, relation, *others, **more)

    with closing(Store.open(path, "shop")) as store:
        monkeypatch.setattr(hits, "collect", fail_on_two)
        intake = HitIntake(store)
        for number in (1, 2, 3):
            intake.submit(record(number)).result(SECONDS)
        intake.close(timeout=SECONDS)
        with store.cursor() as cursor:
            assert cursor.execute("SELECT id FROM pending_hits").fetchall() == [(record(2)["id"],)]
        assert "a record of hits cannot be written" in caplog.text
        assert count(store, "hits") == 2
        assert store.queue.first("hits", 9) == []
    monkeypatch.undo()
    Service.open("shop", path).close()
    with closing(Store.open(path, "shop")) as store:
        assert (count(store, "pending_hits"), count(store, "hits")) == (0, 3)


@pytest.mark.large
@pytest.mark.slow
def test_many_hits_that_cannot_be_written_are_kept(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("none")

    path = tmp_path / "shop.duckdb"
    with closing(Store.open(path, "shop")) as store:
        monkeypatch.setattr(hits, "collect", fail)
        intake = HitIntake(store)
        for number in range(30):
            intake.submit(record(number)).result(SECONDS)
        intake.close(timeout=SECONDS)
        # The fault is not theirs.
        assert count(store, "pending_hits") == 10
    monkeypatch.undo()
    Service.open("shop", path).close()
    with closing(Store.open(path, "shop")) as store:
        assert (count(store, "pending_hits"), count(store, "hits")) == (0, 30)


def test_hits_of_an_erased_person_from_before_are_dropped(store):
    intake = HitIntake(store)
    early = record(1)
    store.write(lambda c: bury(c, [("identity:trackerId", "t-1")], instants.naive(instants.now())))
    intake.submit(early).result(SECONDS)
    intake.close(timeout=SECONDS)
    assert count(store, "hits") == 0
    intake = HitIntake(store)
    intake.submit(early).result(SECONDS)
    intake.submit(record(2, tracker_id="t-2")).result(SECONDS)
    intake.close(timeout=SECONDS)
    with store.cursor() as cursor:
        assert cursor.execute("SELECT trackerId FROM hits").fetchall() == [("t-2",)]


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
