"""Parts of the service over HTTP that are hard to reach from outside."""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import closing

import pytest

from attrib_ds.contract import OPERATIONS, Answer, File, build
from attrib_ds.errors import Forbidden, NotFound, ProjectInUse, ServiceFailure, Unavailable
from attrib_ds.service import Service
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.http import responses
from attrib_ds.service.http.errors import HttpError, prefers, to_http_error
from attrib_ds.service.http.projects import Health, Projects
from attrib_ds.service.http.reads import Arrivals, ThreadPool
from attrib_ds.service.store.store import Store

ARROW = "application/vnd.apache.arrow.stream"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", False),
        ("*/*", False),
        ("application/*", False),
        ("application/json", False),
        (ARROW, True),
        (ARROW.upper(), True),
        (f"application/json, {ARROW}", True),
        (f"application/json;q=0.5,{ARROW};q=0.5", True),
        (f"application/json;q=0.9, {ARROW};q=0.8", False),
        (f"{ARROW};q=0", False),
        (f"{ARROW};q=nonsense", False),
        (f"{ARROW};q=nan", False),
        (f"{ARROW}; version=1; q=1", True),
        (f"x{ARROW}", False),
    ],
)
def test_who_names_a_form_gets_it_unless_json_is_liked_better(accept, expected):
    assert prefers(accept, ARROW) is expected


@pytest.mark.parametrize("kind", [Unavailable, ProjectInUse, ServiceFailure, RuntimeError, Forbidden])
def test_r323_what_went_wrong_inside_is_not_told(kind):
    secret = "path: '/home/anna/shop.duckdb'; SELECT 1"
    failure = to_http_error(kind(secret))
    assert failure.message
    assert secret not in failure.message
    assert secret not in str(failure.headers)


def test_g140_too_much_waiting_work_is_refused():
    async def crowd():
        pool, release = ThreadPool(threads=1, most_waiting=1), threading.Event()
        try:
            accepted = [asyncio.ensure_future(pool.run_or_reject(release.wait, 30)) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(HttpError) as caught:
                await pool.run_or_reject(int)
            assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "1"})
            # What was accepted on goes on.
            going_on = asyncio.ensure_future(pool.run(int))
            release.set()
            assert await asyncio.gather(*accepted, going_on) == [True, True, 0]
            assert await pool.run_or_reject(int) == 0
        finally:
            release.set()
            pool.close()

    asyncio.run(crowd())


def test_g140_an_event_without_a_thread_takes_a_place_too():
    pool = ThreadPool(threads=1, most_waiting=0)
    try:
        with pool.admission():
            with pytest.raises(HttpError) as caught, pool.admission():
                raise AssertionError("admitted")
            assert caught.value.status == 503
        with pool.admission():
            pass
    finally:
        pool.close()


def test_results_of_other_threads_reach_the_loop_together():
    async def receive():
        futures = [Future() for _ in range(1_000)]
        arrivals = Arrivals()
        waiting = [asyncio.ensure_future(arrivals.wait(future)) for future in futures]
        await asyncio.sleep(0)

        def resolve():
            for number, future in enumerate(futures):
                future.set_result(number)

        thread = threading.Thread(target=resolve)
        thread.start()
        assert await asyncio.wait_for(asyncio.gather(*waiting), 30) == list(range(1_000))
        thread.join()
        # A cancelled waiter gets no result.
        left = asyncio.ensure_future(arrivals.wait(future := Future()))
        await asyncio.sleep(0)
        left.cancel()
        future.set_result(1)

    asyncio.run(receive())


def test_g215_readiness_reads_and_writes(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    with closing(Accounts.open(tmp_path)) as accounts, closing(Projects(tmp_path)) as projects:
        shop = projects.get("shop")
        writes = "SELECT writes FROM meta"
        # Within a process DuckDB opens a file once.
        with closing(Store.open(tmp_path / "shop.duckdb", "shop")) as store, store.cursor() as cursor:
            before = cursor.execute(writes).fetchall()
            assert Health(projects, accounts).is_ready()
            assert cursor.execute(writes).fetchall() == [(before[0][0] + 1,)]
        shop.close()
        assert not Health(projects, accounts).is_ready()
    assert not Health(projects, accounts).is_ready()


def test_a_misnamed_file_is_told_in_one_line(tmp_path, caplog):
    Service.open("shop", tmp_path / "other.duckdb").close()
    with closing(Projects(tmp_path)) as projects, pytest.raises(HttpError) as raised:
        projects.get("other")
    # 503 would tell the client to try again.
    assert (raised.value.status, raised.value.message) == (500, "the project 'other' cannot be opened")
    (line,) = caplog.messages
    assert "holds the project 'shop', not 'other'" in line
    assert caplog.records[0].exc_info is None


def test_readiness_is_found_out_once_a_second_at_most(tmp_path):
    with closing(Accounts.open(tmp_path)) as accounts, closing(Projects(tmp_path)) as projects:
        health = Health(projects, accounts)
        assert health.is_ready()
        accounts.close()
        assert health.is_ready()


def test_a_project_is_opened_once_and_not_made(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    projects = Projects(tmp_path)
    barrier, found = threading.Barrier(8), []

    def get():
        barrier.wait()
        found.append(projects.get("shop"))

    threads = [threading.Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    with pytest.raises(NotFound):
        projects.get("no-shop")
    assert not (tmp_path / "no-shop.duckdb").exists()
    projects.close()
    projects.close()
    with pytest.raises(Unavailable):
        projects.get("shop")


@pytest.mark.parametrize(
    ("operation", "value", "status", "content"),
    [
        ("create_campaign", "c1", 200, b'{"id":"c1"}'),
        ("update_campaign", 1, 200, b'{"modifiedCount":1}'),
        ("create_event", "0194-…", 200, '"0194-…"'.encode()),
    ],
)
def test_values_have_their_form(operation, value, status, content):
    response = responses.with_value(OPERATIONS[operation], None, Answer(value=value))
    assert (response.status_code, response.body) == (status, content)
    assert response.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("ending", "media"),
    [
        ("csv", "text/csv; charset=utf-8; header=present"),
        ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ],
)
def test_g120_a_file_has_its_name_and_kind(ending, media):
    operation = OPERATIONS["export_users"]
    asked = build(
        operation, project_id="shop", path='çay "1"', columns=["eventCount"], format=ending, transformers=[]
    )
    response = responses.with_value(operation, asked, Answer(value=File(iter([b"a,b", b"\r\n"]))))
    assert response.body == b"a,b\r\n"
    assert response.headers["Content-Type"] == media
    assert response.headers["Content-Disposition"] == (
        f"attachment; filename=\"_ay _1_.{ending}\"; filename*=UTF-8''%C3%A7ay%20%221%22.{ending}"
    )
