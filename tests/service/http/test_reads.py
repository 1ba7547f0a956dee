"""Deadlines of reads, clients that leave, and events beside long reads (G-230)."""

import asyncio
import gc
import json
import socket
import threading
import time
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from service.http.conftest import load
from starlette.requests import ClientDisconnect
from support.http_caller import TIMEOUT, Caller, token_of
from support.service_records import hex_id

from attrib_ds.contract import OPERATIONS
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.errors import HttpError
from attrib_ds.service.http.reads import READS, Reads, StreamedResponse, ThreadPool
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.service.store.connections import Cancellation, Connections

MANY = 100_000
SEARCH = "/api/v1/projects/shop/interactions/search"
USERS = "/api/v2/projects/shop/users/search"
EVENTS = "/api/v1/events"
#: Takes a second: 50 comparisons for each of the interactions, none of which holds.
LONG = {
    "limit": 1,
    "interactionFilter": {
        "type": "condition",
        "condition": "OR",
        "rules": [
            {"type": "predicate", "field": "geo.city", "operator": "contains", "value": f"nowhere {number}"}
            for number in range(50)
        ],
    },
}
#: Runs until the time limit of such queries.
LONG_SQL = {
    "limit": 1,
    "fields": ["_id"],
    "sqlQuery": "SELECT a._id FROM interactions a, interactions b, interactions c "
    "WHERE a._id || b._id || c._id = 'x'",
}


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reads")
    numbers = range(MANY)
    visits = {
        "_id": [hex_id(number) for number in numbers],
        "userId": [hex_id(number % 1_000) for number in numbers],
        "nodeId": ["ads"] * MANY,
        "startDate": ["2025-01-01T00:00:00Z"] * MANY,
        "geo.city": ["a city with a name so long that it takes a while to look through all of it " * 5]
        * MANY,
    }
    load("shop", folder, interactions=pa.table(visits))
    return folder, create_key(folder, folder / "key.json", projects=["shop"])


@contextmanager
def serving(shops, **options):
    folder, key = shops
    with running(folder, options=ServerOptions(rate_limits=None, **options)) as url:
        call = Caller(url, token_of(url, key))
        call("POST", SEARCH, {"limit": 0})
        stores = [found for found in gc.get_objects() if isinstance(found, Connections) and found._root]

        def lent():
            """Return the number of connections on which requests read now."""
            return sum(entry.is_lent for store in stores for entry in list(store._open))

        yield call, lent


def wait_until(condition, *, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def send(call, path, body):
    """Send a request and return its socket, without waiting for the answer."""
    address = urlsplit(call.url)
    client = socket.create_connection((address.hostname, address.port), timeout=TIMEOUT)
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {call.token}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    client.sendall(head.encode() + content)
    return client


def event(number):
    return {"projectId": "shop", "eventType": "order", "nonce": f"n-{number}", "data": {"order": number}}


def test_reads_change_nothing():
    verbs = ("check_", "event_insights", "export_", "get_", "interaction_insights", "list_", "search_")
    served = {name for name, operation in OPERATIONS.items() if operation.path}
    assert {name for name in served if name.startswith(verbs)} == READS


@pytest.mark.slow
@pytest.mark.parametrize(("path", "body"), [(SEARCH, LONG), (USERS, LONG_SQL)])
def test_a_read_ends_at_its_deadline(shops, path, body):
    with serving(shops, seconds_to_read=0.3) as (call, lent):
        started_at = time.monotonic()
        reply = call("POST", path, body)
        assert time.monotonic() - started_at < 5
        assert reply.status == 503
        assert "0.3 seconds" in reply.json()["message"]
        # The same request would take as long again: nothing asks to repeat it.
        assert reply.json()["details"] == [{"type": "deadline-exceeded", "seconds": 0.3}]
        assert "Retry-After" not in reply.headers
        assert lent() == 0


@pytest.mark.slow
def test_waiting_for_a_thread_counts(shops):
    with serving(shops, seconds_to_read=1, reads=1) as (call, _):
        started_at = time.monotonic()
        statuses = []
        threads = [
            threading.Thread(target=lambda: statuses.append(call("POST", USERS, LONG_SQL).status))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [503] * 8
        # One after another they would take eight seconds.
        assert time.monotonic() - started_at < 5


@pytest.mark.slow
@pytest.mark.parametrize(("path", "body"), [(SEARCH, LONG), (USERS, LONG_SQL)])
def test_a_read_ends_when_its_client_leaves(shops, path, body):
    with serving(shops, reads=1) as (call, lent):
        with closing(send(call, path, body)):
            wait_until(lambda: lent() > 0, seconds=TIMEOUT)
        wait_until(lambda: lent() == 0, seconds=3)
        # Its thread is free for others.
        assert call("POST", SEARCH, {"limit": 1}).json()["total"] == MANY


def test_waiting_work_leaves_the_queue_when_it_is_cancelled():
    async def crowd():
        pool, release, cancellation = ThreadPool(threads=1, most_waiting=1), threading.Event(), Cancellation()
        try:
            running_work = asyncio.ensure_future(pool.run_or_reject(release.wait, TIMEOUT))
            waiting = asyncio.ensure_future(pool.run_cancellable(cancellation, int))
            await asyncio.sleep(0)
            with pytest.raises(HttpError):
                await pool.run_or_reject(int)
            cancellation.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            # There is room for another one, although the first still runs.
            another = asyncio.ensure_future(pool.run_or_reject(int))
            release.set()
            assert await asyncio.gather(running_work, another) == [True, 0]
        finally:
            release.set()
            pool.close()

    asyncio.run(crowd())


@pytest.mark.slow
def test_a_stream_ends_when_its_client_leaves(shops):
    with serving(shops) as (call, lent):
        with closing(send(call, SEARCH, {"sort": {"geo.city": 1}})) as client:
            assert client.recv(10)
            assert lent() == 1
        wait_until(lambda: lent() == 0, seconds=3)


def stream(chunks, *, seconds_to_read, seconds_to_receive=0.0, kind=StreamedResponse):
    """Send a stream to a client that needs some time for each portion; return the portions it received."""
    received = []

    async def receive():
        await asyncio.sleep(TIMEOUT)

    async def send(message):
        await asyncio.sleep(seconds_to_receive)
        if message.get("body"):
            received.append(message["body"])

    async def answer():
        reads = Reads(threads=1, most_waiting=1, seconds=seconds_to_read)
        try:
            read = reads.begin(receive)
            response = kind(
                b"first",
                chunks(read.cancellation),
                read=read,
                close=lambda: received.append("closed"),
                headers={},
            )
            await response({"method": "POST"}, receive, send)
        finally:
            reads.close()

    try:
        asyncio.run(answer())
    except HttpError as error:
        received.append(error.status)
    except ClientDisconnect:
        received.append("the client has left")
    return received


@pytest.mark.slow
def test_a_stream_may_last_longer_than_the_deadline_of_its_portions():
    def portions(cancellation):
        for number in range(4):
            time.sleep(0.2)
            yield b"%d" % number

    assert stream(portions, seconds_to_read=0.6) == [b"first", b"0", b"1", b"2", b"3", "closed"]


@pytest.mark.slow
def test_a_slow_client_does_not_use_up_the_time_of_a_stream():
    received = stream(lambda _: iter([b"0", b"1"]), seconds_to_read=0.3, seconds_to_receive=0.5)
    assert received == [b"first", b"0", b"1", "closed"]


class ImpatientResponse(StreamedResponse):
    seconds_to_receive = 0.1


def test_a_client_that_receives_nothing_ends_its_stream():
    received = stream(
        lambda _: iter([b"0", b"1"]),
        seconds_to_read=TIMEOUT,
        seconds_to_receive=TIMEOUT,
        kind=ImpatientResponse,
    )
    assert received == ["closed", "the client has left"]


def test_g126_a_stream_whose_portion_takes_too_long_is_left_incomplete():
    def portions(cancellation):
        yield b"0"
        interrupted = threading.Event()
        with cancellation.calling(interrupted.set):
            assert interrupted.wait(TIMEOUT)
        raise RuntimeError("the query was interrupted")

    assert stream(portions, seconds_to_read=0.3) == [b"first", b"0", "closed", 503]


@pytest.mark.slow
def test_events_do_not_wait_for_reads(shops):
    with serving(shops, threads=1, reads=1) as (call, lent):
        reads = [send(call, USERS, LONG_SQL) for _ in range(5)]
        wait_until(lambda: lent() > 0, seconds=TIMEOUT)
        assert [call("POST", EVENTS, event(number)).status for number in range(5)] == [200] * 5
        # No read has been answered yet.
        for client in reads:
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)
            client.close()


@pytest.mark.slow
def test_writes_have_no_deadline(shops):
    with serving(shops, seconds_to_read=0.001) as (call, _):
        assert call("POST", EVENTS, event("late")).status == 200
