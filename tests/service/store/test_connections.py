"""Cancelling the queries of a request from another thread."""

import threading
from contextlib import closing

import duckdb
import pytest

from attrib_ds.errors import ServiceFailure, Unavailable
from attrib_ds.service.store.connections import Cancellation
from attrib_ds.service.store.store import Store
from attrib_ds.sql_results import read_batches

ENDLESS = "SELECT count(*) FROM range(10000000) a(i), range(10000000) b(j) WHERE i + j = 7"


@pytest.fixture
def store():
    with closing(Store.open(":memory:", "shop")) as opened:
        yield opened


def test_a_running_query_is_interrupted(store):
    cancellation, is_over = Cancellation(), threading.Event()

    def cancel():
        while not is_over.wait(0.1):
            cancellation.cancel()

    thread = threading.Thread(target=cancel)
    with (
        pytest.raises(ServiceFailure, match="Interrupt"),
        store.with_cancellation(cancellation).read() as backend,
    ):
        thread.start()
        backend.con.execute(ENDLESS).fetchall()
    is_over.set()
    thread.join()


def test_a_stream_is_interrupted_between_batches(store):
    cancellation = Cancellation()
    with store.with_cancellation(cancellation).cursor() as cursor:
        batches = read_batches(cursor, "SELECT i, md5(i::text) FROM range(10000000) r(i)", 2_048)
        assert batches.read_next_batch().num_rows == 2_048
        cancellation.cancel()
        with pytest.raises(OSError, match="Interrupt"):
            batches.read_next_batch()


def test_a_cancelled_request_begins_no_query(store):
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Unavailable, match="cancelled"), store.with_cancellation(cancellation).cursor():
        pytest.fail("it began")


def test_other_requests_and_writes_go_on(store):
    cancellation = Cancellation()
    cancelled = store.with_cancellation(cancellation)
    with cancelled.cursor() as cursor, store.cursor() as other:
        cancellation.cancel()
        assert other.execute("SELECT 1").fetchall() == [(1,)]
        assert cancelled.write(lambda connection: connection.execute("SELECT 2").fetchall()) == [(2,)]
        assert cursor is not other


def test_nothing_is_called_after_the_block():
    cancellation, calls = Cancellation(), []
    with cancellation.calling(lambda: calls.append("inner")):
        pass
    cancellation.cancel()
    assert calls == []


def test_cancelling_again_calls_again():
    cancellation, calls = Cancellation(), []
    with cancellation.calling(lambda: calls.append("interrupt")):
        cancellation.cancel()
        cancellation.cancel()
    assert calls == ["interrupt", "interrupt"]


def test_a_connection_is_not_interrupted_once_it_is_closed(store):
    cancellation = Cancellation()
    with store.with_cancellation(cancellation).cursor() as cursor:
        pass
    cancellation.cancel()
    with pytest.raises(duckdb.ConnectionException):
        cursor.execute("SELECT 1")
