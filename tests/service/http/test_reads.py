"""Reads over HTTP: deadlines, clients that leave (G-230), and answers, exports and backups sent while they are read."""

import asyncio
import csv
import gc
import http.client
import io
import json
import socket
import threading
import time
import tracemalloc
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import duckdb
import openpyxl
import pyarrow as pa
import pytest
from service.http.conftest import MANY, load
from starlette.requests import ClientDisconnect
from support.http_caller import TIMEOUT, Caller, answering, token_of
from support.order_events import declare_order, order
from support.service_records import hex_id, send, table, visit
from support.waiting import eventually

from attrib_ds.contract import OPERATIONS, build, from_wire
from attrib_ds.errors import Unavailable
from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http import responses
from attrib_ds.service.http.errors import HttpError
from attrib_ds.service.http.reads import READS, Reads, StreamedResponse, ThreadPool
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.service.interactions import search_interactions
from attrib_ds.service.store.connections import Cancellation, Connections
from attrib_ds.service.store.store import Store
from attrib_ds.service.users import exports, sandbox

SEARCH = "/api/v1/projects/shop/interactions/search"
USERS = "/api/v2/projects/shop/users/search"
EVENTS = "/api/v1/events"


def comparisons(condition, operator):
    """Return a search that takes seconds: 50 comparisons for each of the interactions."""
    rules = [
        {"type": "predicate", "field": "geo.city", "operator": operator, "value": f"no {number}"}
        for number in range(50)
    ]
    return {
        "limit": 1,
        "interactionFilter": {"type": "condition", "condition": condition, "rules": rules},
    }


#: All interactions match, or none.
LONG, WITHOUT_HITS = comparisons("AND", "notContains"), comparisons("OR", "contains")


#: Runs until the time limit of such queries.
LONG_SQL = {
    "limit": 1,
    "fields": ["_id"],
    "sqlQuery": "SELECT a._id FROM interactions a, interactions b, interactions c "
    "WHERE a._id || b._id || c._id = 'x'",
}


FOR_EVER = 100_000


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reads")
    numbers = range(MANY)
    visits = {
        "_id": [hex_id(number) for number in numbers],
        "userId": [hex_id(number % 1_000) for number in numbers],
        "nodeId": ["ads"] * MANY,
        "startDate": ["2025-01-01T00:00:00Z"] * MANY,
        # Each another one: what many rows share is compared once.
        "geo.city": [f"a city with a long name, number {number}, " * 10 for number in numbers],
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


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still until somebody steps it."""

    _now = 0.0

    def time(self):
        return self._now

    def step(self, seconds):
        self._now += seconds
        self.call_soon_threadsafe(lambda: None)


def begin(call, path, body):
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
    verbs = (
        "check_",
        "event_insights",
        "export_",
        "funnel",
        "get_",
        "interaction_insights",
        "list_",
        "page_",
        "search_",
    )
    served = {name for name, operation in OPERATIONS.items() if operation.path}
    assert {name for name in served if name.startswith(verbs)} == READS


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(("path", "body"), [(SEARCH, LONG), (SEARCH, WITHOUT_HITS), (USERS, LONG_SQL)])
def test_a_read_ends_at_its_deadline(shops, path, body):
    with serving(shops, seconds_to_read=0.3) as (call, lent):
        started_at = time.process_time()
        reply = call("POST", path, body)
        assert time.process_time() - started_at < 5
        assert reply.status == 503
        assert "0.3 seconds" in reply.json()["message"]
        # The same request would take as long again: nothing asks to repeat it.
        assert reply.json()["details"] == [{"type": "deadline-exceeded", "seconds": 0.3}]
        assert "Retry-After" not in reply.headers
        assert lent() == 0


def test_waiting_for_a_thread_counts():
    begun, is_over = [], threading.Event()

    async def receive():
        await asyncio.Event().wait()

    async def crowd():
        loop, reads = asyncio.get_running_loop(), Reads(threads=1, most_waiting=8, seconds=1)

        def work(read):
            begun.append(read)
            loop.step(1)
            # The thread is busy until the others have been answered.
            assert is_over.wait(TIMEOUT)
            return "too late"

        first, *others = [reads.begin(receive) for _ in range(8)]
        answers = [asyncio.ensure_future(reads.run(read, work, read)) for read in (first, *others)]
        try:
            refused = await asyncio.gather(*answers[1:], return_exceptions=True)
            assert [error.status for error in refused] == [503] * 7
            assert begun == [first]
        finally:
            is_over.set()
            await asyncio.gather(*answers, return_exceptions=True)
            reads.close()

    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        runner.run(crowd())


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(("path", "body"), [(SEARCH, LONG), (SEARCH, WITHOUT_HITS), (USERS, LONG_SQL)])
def test_a_read_ends_when_its_client_leaves(shops, path, body, monkeypatch):
    # Nothing else ends it.
    monkeypatch.setattr(sandbox, "SECONDS", FOR_EVER)
    with serving(shops, reads=1, seconds_to_read=FOR_EVER) as (call, lent):
        with closing(begin(call, path, body)):
            eventually(lambda: lent() > 0)
        eventually(lambda: lent() == 0)
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


@pytest.mark.large
@pytest.mark.slow
def test_a_stream_ends_when_its_client_leaves(shops):
    with serving(shops) as (call, lent):
        with closing(begin(call, SEARCH, {"sort": {"geo.city": 1}})) as client:
            assert client.recv(10)
            assert lent() == 1
        eventually(lambda: lent() == 0)


def stream(chunks, *, seconds_to_read, seconds_to_receive=0.0, kind=StreamedResponse):
    """Send a stream to a client that needs some time for each portion; return the portions it received.

    ``chunks`` is called with the cancellation and with the function that lets time pass.
    """
    received = []

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.step, seconds_to_receive)
        await asyncio.sleep(seconds_to_receive)
        if message.get("body"):
            received.append(message["body"])

    async def answer():
        reads = Reads(threads=1, most_waiting=1, seconds=seconds_to_read)
        try:
            read = reads.begin(receive)
            response = kind(
                b"first",
                chunks(read.cancellation, asyncio.get_running_loop().step),
                read=read,
                close=lambda: received.append("closed"),
                headers={},
            )
            await response({"method": "POST"}, receive, send)
        finally:
            reads.close()

    try:
        with asyncio.Runner(loop_factory=SteppedLoop) as runner:
            runner.run(answer())
    except HttpError as error:
        received.append(error.status)
    except ClientDisconnect:
        received.append("the client has left")
    return received


def test_a_stream_may_last_longer_than_the_deadline_of_its_portions():
    def portions(cancellation, step):
        for number in range(4):
            step(0.2)
            yield b"%d" % number

    assert stream(portions, seconds_to_read=0.6) == [b"first", b"0", b"1", b"2", b"3", "closed"]


def test_a_slow_client_does_not_use_up_the_time_of_a_stream():
    received = stream(lambda *_: iter([b"0", b"1"]), seconds_to_read=0.3, seconds_to_receive=0.5)
    assert received == [b"first", b"0", b"1", "closed"]


class ImpatientResponse(StreamedResponse):
    seconds_to_receive = 0.1


def test_a_client_that_receives_nothing_ends_its_stream():
    received = stream(
        lambda *_: iter([b"0", b"1"]),
        seconds_to_read=TIMEOUT,
        seconds_to_receive=TIMEOUT,
        kind=ImpatientResponse,
    )
    assert received == ["closed", "the client has left"]


def test_g126_a_stream_whose_portion_takes_too_long_is_left_incomplete():
    def portions(cancellation, step):
        yield b"0"
        interrupted = threading.Event()
        with cancellation.calling(interrupted.set):
            step(0.3)
            assert interrupted.wait(TIMEOUT)
        raise RuntimeError("the query was interrupted")

    assert stream(portions, seconds_to_read=0.3) == [b"first", b"0", "closed", 503]


@pytest.mark.large
@pytest.mark.slow
def test_events_do_not_wait_for_reads(shops):
    with serving(shops, threads=1, reads=1) as (call, lent):
        reads = [begin(call, USERS, LONG_SQL) for _ in range(5)]
        eventually(lambda: lent() > 0)
        assert [call("POST", EVENTS, event(number)).status for number in range(5)] == [200] * 5
        # No read has been answered yet.
        for client in reads:
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)
            client.close()


@pytest.mark.large
@pytest.mark.slow
def test_writes_have_no_deadline(shops):
    with serving(shops, seconds_to_read=0.001) as (call, _):
        assert call("POST", EVENTS, event("late")).status == 200


STREAMED_SEARCH = "/api/v1/projects/big-shop/interactions/search"
ARROW = "application/vnd.apache.arrow.stream"


def test_a_search_without_limit_answers_everything(call, big_shop):
    page = call("POST", STREAMED_SEARCH, {"projection": ["_id"], "sort": {"_id": 1}}).json()
    assert (page["count"], page["total"], page["limit"]) == (MANY, MANY, None)
    assert [each["_id"] for each in page["data"]] == [hex_id(number) for number in range(MANY)]


@pytest.mark.large
@pytest.mark.slow
def test_it_is_sent_in_pieces_in_bounded_memory(call, big_shop):
    received = 0
    with answering(call, {"limit": 40_000}) as response:
        assert response.status == 200
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert "Content-Length" not in response.headers
        # Server and client share this process; what DuckDB holds for sorting is not counted here.
        tracemalloc.start()
        try:
            while piece := response.read(1 << 16):
                received += len(piece)
            _, highest = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert received > 30_000_000
    assert highest < received / 2


def test_the_arrow_answer_is_sent_in_pieces_too(call, big_shop):
    with answering(call, {"projection": ["_id"], "sort": {"_id": 1}}, Accept=ARROW) as response:
        assert response.headers["Transfer-Encoding"] == "chunked"
        with pa.ipc.open_stream(response) as stream:
            assert stream.schema.metadata[b"total"] == str(MANY).encode()
            batches = list(stream)
    assert len(batches) > 10
    assert pa.Table.from_batches(batches)["_id"].to_pylist() == [hex_id(number) for number in range(MANY)]


def test_pages_at_an_offset_are_streamed_too(call, big_shop):
    page = call(
        "POST", STREAMED_SEARCH, {"projection": ["_id"], "sort": {"_id": 1}, "offset": 10, "limit": 5_000}
    ).json()
    assert (page["offset"], page["limit"], page["count"], page["total"]) == (10, 5_000, 5_000, MANY)
    assert [each["_id"] for each in page["data"]] == [hex_id(number) for number in range(10, 5_010)]


@pytest.mark.slow
def test_a_client_that_leaves_lets_go_of_the_reader(call, big_shop, server):
    for _ in range(3):
        with answering(call, {}) as response:
            assert response.read(10)
    # Others are served, and stopping the server at the end of the session waits for nobody.
    assert call("POST", STREAMED_SEARCH, {"limit": 1}).json()["total"] == MANY


@pytest.fixture
def big_store(tmp_path):
    operation = OPERATIONS["load_records"]
    numbers = range(10_000)
    table = pa.table(
        {
            "_id": [hex_id(number) for number in numbers],
            "userId": [hex_id(1)] * len(numbers),
            "nodeId": ["ads"] * len(numbers),
            "startDate": ["2025-01-01T00:00:00Z"] * len(numbers),
        }
    )
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        service.send(operation, build(operation, project_id="shop", resource="interactions", source=table))
    with closing(Store.open(tmp_path / "shop.duckdb", "shop")) as store:
        yield store


def search_of(store, body):
    operation = OPERATIONS["search_interactions"]
    return search_interactions(store, from_wire(operation, path={"projectId": "shop"}, body=body))


@pytest.mark.slow
def test_g104_rows_and_total_are_from_one_snapshot(big_store):
    found = search_of(big_store, {"projection": ["_id"]})
    pieces = responses.json_chunks(found, OPERATIONS["search_interactions"].answer)
    text = next(pieces)
    big_store.write(lambda connection: connection.execute("DELETE FROM interactions"))
    page = json.loads(text + b"".join(pieces))
    found.close()
    assert page["total"] == page["count"] == len(page["data"]) == 10_000
    later = search_of(big_store, {})
    assert (later.total, later.count, list(later)) == (0, 0, [])
    later.close()


def test_what_is_held_at_one_time_is_a_batch(big_store):
    found = search_of(big_store, {})
    assert [table.num_rows for table in found] == [2_048, 2_048, 2_048, 2_048, 1_808]
    found.close()


@pytest.mark.slow
def test_a_closed_store_is_told_before_anything_is_sent(big_store):
    big_store.close()
    with pytest.raises(Unavailable):
        search_of(big_store, {})


@pytest.mark.slow
def test_g126_an_answer_that_breaks_off_has_no_end(call, big_shop, home, server, caplog):
    """Take away what the rows are made of while they are sent."""
    with answering(call, {}) as response:
        response.read(10)
        # The reader of the running search is the only one that is lent.
        broken = _break_readers()
        assert broken
        with pytest.raises(http.client.IncompleteRead):
            response.read()
    eventually(lambda: "failed" in caplog.text)


def _break_readers() -> int:
    import gc

    from attrib_ds.service.store.connections import Connections

    lent = [
        each
        for found in gc.get_objects()
        if isinstance(found, Connections)
        for each in found._open
        if each.is_lent
    ]
    for each in lent:
        each.connection.interrupt()
    return len(lent)


EXPORTED = 20_000
PATH = "/api/v1/projects/shop/users/export"
EXPORT_SEARCH = "/api/v2/projects/shop/users/search"


def body(*columns, kind="csv", transformers=(), **data):
    return {
        "filename": "users of çay",
        "exporterDataConfig": {"columns": list(columns), **data},
        "outputFormatConfig": {"type": kind},
        "transformerConfig": list(transformers),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exporting")
    load(
        "shop",
        folder,
        interactions=table(*(visit(number, userId=hex_id(number)) for number in range(EXPORTED))),
    )
    return folder


@pytest.fixture(scope="module")
def caller(folder):
    with running(folder, options=ServerOptions(rate_limits=None)) as url:
        key = create_key(folder, folder / "key.json", projects=["shop"])
        yield Caller(url, token_of(url, key))


@contextmanager
def exporting(caller, asked):
    connection = http.client.HTTPConnection(urlsplit(caller.url).netloc, timeout=TIMEOUT)
    connection.request("POST", PATH, json.dumps(asked), {"Authorization": f"Bearer {caller.token}"})
    try:
        yield connection.getresponse()
    finally:
        connection.close()


@pytest.mark.slow
def test_csv_is_sent_in_chunks(caller):
    with exporting(caller, body("_id", "interactionCount")) as response:
        assert response.status == 200
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert response.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"  # G-120
        assert response.headers["Content-Disposition"].endswith("filename*=UTF-8''users%20of%20%C3%A7ay.csv")
        rows = list(csv.reader(io.TextIOWrapper(response, "utf-8", newline="")))
    assert rows == [["_id", "interactionCount"], *([hex_id(number), "1"] for number in range(EXPORTED))]


@pytest.mark.large
@pytest.mark.slow
def test_xlsx_is_sent_whole(caller):
    reply = caller("POST", PATH, body("_id", kind="XLSX"))
    assert reply.status == 200
    workbook = openpyxl.load_workbook(io.BytesIO(reply.content), read_only=True)
    with closing(workbook):
        rows = [row[0] for row in workbook.active.values]
    assert rows == ["_id", *(hex_id(number) for number in range(EXPORTED))]


@pytest.mark.slow
def test_errors_are_told_before_anything_is_sent(caller):
    reply = caller("POST", PATH, body("_id", "fields.nonsense"))
    assert reply.status == 400
    assert reply.json()["message"].startswith(
        "/exporterDataConfig/columns/1: 'fields.nonsense' is not allowed"
    )
    refused = caller(
        "POST", PATH, body("_id", transformers=[{"type": "case", "key": "createdAt", "level": "upper"}])
    )
    assert refused.status == 400
    assert refused.json()["message"].startswith("/transformerConfig/0/key")


@pytest.mark.slow
def test_a_file_that_fails_half_way_is_broken_off(caller, monkeypatch):
    """A truncated file cannot pass for a whole one (G-126)."""
    read_rows = exports._rows

    def failing(users, request):
        for position, rows in enumerate(read_rows(users, request)):
            if position == 3:
                raise RuntimeError("the disk is gone")
            yield rows

    monkeypatch.setattr(exports, "_rows", failing)
    with exporting(caller, body("_id")) as response:
        assert response.status == 200
        with pytest.raises(http.client.IncompleteRead):
            response.read()
    monkeypatch.undo()
    # Of XLSX nothing was sent yet.
    assert caller("POST", PATH, body("_id")).status == 200


@pytest.mark.slow
def test_a_client_that_leaves_lets_go_of_the_reader_of_an_export(caller):
    for _ in range(3):
        with exporting(caller, body("_id")) as response:
            assert response.read(10)
    assert caller("POST", PATH, body("_id")).content.count(b"\r\n") == EXPORTED + 1


def search(caller, sql):
    return caller("POST", EXPORT_SEARCH, {"fields": ["_id"], "sqlQuery": sql})


@pytest.mark.slow
def test_sql_over_http(caller, folder):
    found = search(caller, f"SELECT userId FROM interactions WHERE _id IN ('{hex_id(1)}', '{hex_id(7)}')")
    assert [each["_id"] for each in found.json()["data"]] == [hex_id(1), hex_id(7)]
    assert search(caller, f"SELECT '{hex_id(EXPORTED)}'").json()["total"] == 0
    for sql in (
        "SELECT * FROM 'x.csv'",
        "SELECT nonsense FROM users",
        "ATTACH 'x'",
        f"SELECT * FROM '{folder}/shop.duckdb'",
    ):
        refused = search(caller, sql)
        assert refused.status == 400
        assert refused.json()["message"].startswith("/sqlQuery: ")
    # The name that came back is the caller's own; nothing tells where the projects lie.
    assert str(folder) not in search(caller, "SELECT x FROM users").content.decode()


@pytest.mark.large
@pytest.mark.slow
def test_sql_needs_its_scope_and_may_be_switched_off(folder, tmp_path):
    load("my-shop", tmp_path, interactions=table(visit(1)))
    asked = {"fields": ["_id"], "sqlQuery": "SELECT _id FROM users"}
    path = EXPORT_SEARCH.replace("/shop/", "/my-shop/")
    with running(tmp_path, options=ServerOptions(rate_limits=None, sql=False)) as url:
        everything = Caller(
            url, token_of(url, create_key(tmp_path, tmp_path / "a.json", projects=["my-shop"]))
        )
        refused = everything("POST", path, asked)
        assert refused.status == 403
        assert everything("POST", path, {"fields": ["_id"]}).json()["total"] == 1
    with running(tmp_path, options=ServerOptions(rate_limits=None)) as url:
        reading = create_key(tmp_path, tmp_path / "b.json", projects=["my-shop"], scopes=["users:read"])
        assert Caller(url, token_of(url, reading, scope="users:read"))("POST", path, asked).status == 403
        both = create_key(
            tmp_path, tmp_path / "c.json", projects=["my-shop"], scopes=["users:read", "users:sql"]
        )
        assert (
            Caller(url, token_of(url, both, scope="users:read users:sql"))("POST", path, asked).json()[
                "total"
            ]
            == 1
        )


PROJECT = "/api/v1/projects/shop"
BACKUP = f"{PROJECT}/backup"
OCTETS = "application/octet-stream"


@pytest.fixture
def backup_folder(tmp_path):
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        declare_order(service)
        send(service, "create_integration", vendor_id="ads", name="Ads")
    return tmp_path


@pytest.fixture
def admin(backup_folder):
    key = create_key(backup_folder, backup_folder / "key.json", projects=["shop", "gone"])
    with running(backup_folder, options=ServerOptions(rate_limits=None)) as url:
        yield Caller(url, token_of(url, key))


def backup_body(nonce, **others):
    sent = order(nonce, **others)
    return {
        "projectId": "shop",
        "nonce": nonce,
        "eventType": sent["event_type"],
        "eventDate": sent["event_date"],
        "data": sent["data"],
    }


def leftovers(backup_folder):
    return [each.name for each in backup_folder.iterdir() if each.name.startswith(".")]


@pytest.mark.large
@pytest.mark.slow
def test_a_backup_is_fetched_and_put_back_while_the_server_runs(admin, backup_folder, tmp_path_factory):
    assert admin("POST", "/api/v1/events/sync", backup_body("first")).status == 200
    reply = admin("GET", BACKUP)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == OCTETS
    assert 'filename="shop.duckdb"' in reply.headers["Content-Disposition"]
    copy = tmp_path_factory.mktemp("copy") / "copy.duckdb"
    copy.write_bytes(reply.content)
    with duckdb.connect(copy, read_only=True) as connection:
        assert connection.execute("SELECT nonce FROM raw_events").fetchall() == [("first",)]
    second = admin("POST", "/api/v1/events/sync", backup_body("second")).json()
    restored = admin("PUT", BACKUP, reply.content, Content_Type=OCTETS)
    assert (restored.status, restored.json()["raw_events"]) == (200, 1)
    assert admin("GET", f"{PROJECT}/events/{second}").status == 404
    assert admin("POST", "/api/v1/events/sync", backup_body("third")).status == 200
    assert admin("GET", f"{PROJECT}/check").json() == []
    assert leftovers(backup_folder) == []


@pytest.mark.large
@pytest.mark.slow
def test_what_is_no_backup_leaves_the_project_serving(admin, backup_folder):
    id = admin("POST", "/api/v1/events/sync", backup_body("first")).json()
    for content in (b"no database" * 1000, b""):
        reply = admin("PUT", BACKUP, content, Content_Type=OCTETS)
        assert reply.status == 400
        assert reply.json()["message"].endswith("source: is not the file of a project")
        assert str(backup_folder) not in reply.content.decode()
    assert admin("GET", f"{PROJECT}/events/{id}").status == 200
    assert admin("PUT", "/api/v1/projects/gone/backup", b"x", Content_Type=OCTETS).status == 404
    assert leftovers(backup_folder) == []


@pytest.mark.large
@pytest.mark.slow
def test_a_body_larger_than_the_disk_is_refused_before_it_is_read(admin):
    connection = http.client.HTTPConnection(urlsplit(admin.url).netloc, timeout=TIMEOUT)
    connection.putrequest("PUT", BACKUP)
    connection.putheader("Authorization", f"Bearer {admin.token}")
    connection.putheader("Content-Length", str(10**17))
    connection.endheaders()
    with closing(connection):
        assert connection.getresponse().status == 413


@pytest.mark.large
@pytest.mark.slow
def test_a_body_that_breaks_off_leaves_nothing(admin, backup_folder):
    connection = http.client.HTTPConnection(urlsplit(admin.url).netloc, timeout=TIMEOUT)
    connection.putrequest("PUT", BACKUP)
    connection.putheader("Authorization", f"Bearer {admin.token}")
    connection.putheader("Content-Length", "100000")
    connection.endheaders()
    connection.send(b"x" * 1000)
    connection.close()
    assert admin("GET", f"{PROJECT}/check").json() == []
    for _ in range(100):
        if not leftovers(backup_folder):
            break
        threading.Event().wait(0.05)
    assert leftovers(backup_folder) == []


@pytest.mark.large
@pytest.mark.slow
def test_only_an_administrator_may(admin, backup_folder):
    key = create_key(
        backup_folder, backup_folder / "narrow.json", projects=["shop"], scopes=["events:read", "users:read"]
    )
    narrow = Caller(admin.url, token_of(admin.url, key, scope="events:read"))
    for method, path in (("GET", BACKUP), ("PUT", BACKUP), ("GET", f"{PROJECT}/check")):
        assert narrow(method, path, b"" if method == "PUT" else None).status == 403


@pytest.mark.large
@pytest.mark.slow
def test_an_account_receives_few_long_answers_at_once(home, big_shop, tmp_path):
    """One reader's searches without limit take the memory of two, and leave the others alone."""
    keys = [create_key(home, tmp_path / f"{name}.json", projects=["big-shop"]) for name in ("one", "other")]
    options = ServerOptions(rate_limits=None, streams=2, seconds_to_read=6)
    with running(home, options=options) as url:
        one, other = (Caller(url, token_of(url, key)) for key in keys)
        with answering(one, {}) as first, answering(one, {"limit": 90_000}) as second:
            assert first.read(1)
            assert second.read(1)
            refused = one("POST", "/api/v1/projects/big-shop/interactions/search", {})
            assert (refused.status, refused.headers["Retry-After"]) == (429, "5")
            assert one("POST", "/api/v1/projects/big-shop/interactions/search", {"limit": 10}).status == 200
            with answering(other, {}) as theirs:
                assert theirs.status == 200
        # Whoever leaves early makes room.
        with answering(one, {}) as third, answering(one, {}) as fourth:
            assert (third.status, fourth.status) == (200, 200)
