"""Raw events of concurrent requests are stored together (G-128 to G-131, G-140)."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from support.order_events import declare_order, order
from support.service_records import send

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.errors import ServiceFailure, Unavailable
from attrib_ds.service import Service
from attrib_ds.service.events.acceptance import Acceptance
from attrib_ds.service.events.processing import Processing
from attrib_ds.service.events.raw_events import raw_event
from attrib_ds.service.store.ids import Uuids

IDS = Uuids()


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    declare_order(opened)
    yield opened
    opened.close()


@pytest.fixture
def acceptance(service):
    return Acceptance(service._store, Processing(service._store))


def raw(nonce, **envelope):
    request = build(OPERATIONS["create_event"], project_id="shop", **order(nonce, **envelope))
    return raw_event(request, IDS)


def rows(service, query):
    with service._store.cursor() as cursor:
        return cursor.execute(query).fetchall()


class Held:
    """Holds the writer up, so that requests gather."""

    def __init__(self, service):
        self._is_begun, self._may_end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=service._store.write, args=(self._wait,))

    def _wait(self, _):
        self._is_begun.set()
        self._may_end.wait(30)

    def __enter__(self):
        self._thread.start()
        assert self._is_begun.wait(30)

    def __exit__(self, *_):
        self._may_end.set()
        self._thread.join()


def store(service, acceptance, *requests, **options):
    """Submit requests while the writer is held up; return their futures, all but the first of one group."""
    with Held(service):
        futures = [acceptance.submit([raw("first")], None)]
        while acceptance._waiting:
            pass
        futures += [acceptance.submit(records, None, **options) for records in requests]
    return futures


def test_requests_that_wait_share_a_transaction(service, acceptance):
    ((before,),) = rows(service, "SELECT writes FROM meta")
    futures = store(service, acceptance, *([raw(f"n{number}")] for number in range(20)))
    assert all(result.is_new for future in futures for result in future.result(30))
    assert rows(service, "SELECT count(*) FROM raw_events") == [(21,)]
    ((after,),) = rows(service, "SELECT writes FROM meta")
    # That which held the writer up, that of the first request, that of the group; and up to two of processing.
    assert 3 <= after - before <= 5


def test_g130_one_nonce_in_one_group_is_one_event(service, acceptance):
    same = [raw("n") for _ in range(3)]
    other = raw("n", data={"mail": "other@example.com"})
    futures = store(service, acceptance, *([record] for record in [*same, other]))
    results = [future.result(30)[0] for future in futures[1:]]
    assert {result.id for result in results} == {same[0]["_id"]}
    assert [result.is_new for result in results] == [True, False, False, False]
    assert [result.agrees for result in results] == [True, True, True, False]
    assert rows(service, "SELECT _id FROM raw_events WHERE nonce = 'n'") == [(same[0]["_id"],)]


def test_a_request_that_cannot_be_stored_fails_alone(service, acceptance):
    broken = raw("broken") | {"createdAt": "at noon"}
    first, good, bad, last = store(service, acceptance, [raw("good")], [broken], [raw("last")])
    assert all(future.result(30)[0].is_new for future in (first, good, last))
    with pytest.raises(ServiceFailure):
        bad.result(30)
    assert rows(service, "SELECT nonce FROM raw_events ORDER BY nonce") == [("first",), ("good",), ("last",)]


def test_g140_more_than_may_wait_is_refused(service):
    acceptance = Acceptance(service._store, Processing(service._store), most_waiting=2)
    with Held(service):
        futures = [acceptance.submit([raw("first")], None)]
        while acceptance._waiting:
            pass
        futures.append(acceptance.submit([raw("n1"), raw("n2")], None))
        with pytest.raises(Unavailable, match="2 events wait"):
            acceptance.submit([raw("n3")], None)
    assert [len(future.result(30)) for future in futures] == [1, 2]


def test_a_forked_process_is_refused_even_if_a_thread_of_its_parent_held_the_lock(service):
    acceptance = Acceptance(service._store, Processing(service._store))
    with ThreadPoolExecutor(1) as thread:
        thread.submit(acceptance._changed.acquire).result(30)
        acceptance.abandon()
        with pytest.raises(Unavailable, match="forked"):
            acceptance.submit([raw("n")], None)


def test_waiting_events_are_stored_before_a_project_is_closed(service):
    with ThreadPoolExecutor(1) as thread, Held(service):
        futures = [service._ingestion._acceptance.submit([raw(f"n{each}")], None) for each in range(3)]
        closing = thread.submit(service._ingestion._acceptance.close, timeout=30)
        with pytest.raises(Unavailable, match="closed"):
            while True:
                futures.append(service._ingestion._acceptance.submit([raw("later")], None))
        assert not closing.done()
    assert all(future.done() for future in futures)
    assert ("n2",) in rows(service, "SELECT nonce FROM raw_events")


def test_the_events_of_a_closed_project_are_refused(service, acceptance):
    service.close()
    with pytest.raises(Unavailable):
        acceptance.submit([raw("n")], None).result(30)


def test_awaited_events_are_processed_in_the_transaction_that_stores_them(service):
    ((before,),) = rows(service, "SELECT writes FROM meta")
    id = send(service, "create_event_sync", **order("n")).value
    assert rows(service, "SELECT writes FROM meta") == [(before + 1,)]
    assert rows(service, "SELECT _id FROM events") == [(id,)]
    assert rows(service, "FROM pending_events") == []


def test_g135_awaited_events_do_not_overtake_pending_ones(service):
    """The first event of a browser makes its user; who is awaited comes after it."""
    processing = service._ingestion._processing
    # As while its thread is at work on something else.
    processing._thread = threading.Thread()
    first = send(service, "create_event", **order("n1", tracker_id="t1", data={"coupon": "A"})).value
    # As in another process that starts with pending events.
    processing._thread = None
    second = send(service, "create_event_sync", **order("n2", tracker_id="t1")).value
    moments = dict(rows(service, "SELECT _id, updatedAt FROM events"))
    assert moments[first] <= moments[second]
    assert len(rows(service, "SELECT DISTINCT userId FROM events")) == 1


def test_g133_an_event_can_be_given_up(service):
    processing = service._ingestion._processing
    processing._thread = threading.Thread()
    request = build(OPERATIONS["create_event_sync"], project_id="shop", **order("n"))
    started = service.start(OPERATIONS["create_event_sync"], request)
    assert started.patience == 30
    while not rows(service, "FROM pending_events"):
        pass
    started.expire()
    with pytest.raises(ServiceFailure, match="will be processed") as failure:
        started.future.result(30)
    ((id,),) = rows(service, "FROM pending_events")
    assert failure.value.details == [{"eventId": id}]
    processing._thread = None
    processing.wake()
    processing.close(timeout=30)
    assert rows(service, "SELECT _id FROM events") == [(id,)]


def test_a_start_leaves_repeats_and_restorations_to_a_thread(service):
    operation = OPERATIONS["create_event_sync"]
    request = build(operation, project_id="shop", **order("n"))
    id = service.start(operation, request).future.result(30).value
    assert rows(service, "SELECT _id FROM events") == [(id,)]
    assert service.start(operation, request).future.result(30) is None
    with service._lock.exclusive(timeout=30):
        assert service.start(operation, request) is None
    # The start has released the lock.
    assert isinstance(service.start(operation, request).future, Future)


def test_an_invalid_awaited_event_is_trashed_at_once(service):
    request = build(OPERATIONS["create_event_sync"], project_id="shop", **order("n", data={"items": "many"}))
    error = service.start(OPERATIONS["create_event_sync"], request).future.exception(30)
    ((id, errors),) = rows(service, "SELECT _id, errors FROM trashed_events")
    assert error.details[0]["eventId"] == id
    assert json.loads(errors)[0]["type"] == error.details[0]["type"]
    assert rows(service, "FROM pending_events") == []
