"""Limits of a client: rates (G-185 to G-187), and size, values and memory of bodies (G-136, G-228)."""

import gc
import threading
import time
from contextlib import contextmanager

import pytest
from support.http_caller import Caller, token_of
from support.raw_http import connected, one_response, statuses
from support.signing import Clock
from support.waiting import eventually

from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.errors import HttpError
from attrib_ds.service.http.limits import BodyBudget, Buckets, Claim, network_of
from attrib_ds.service.http.server import Rate, ServerOptions, running

NODES = "/api/v1/projects/shop/nodes"
SEARCH = "/api/v1/projects/shop/interactions/search"
INSIGHTS = "/api/v1/projects/shop/interactions/insights"
#: So slow that no token comes back while a test runs.
HOURS = 36_000


def wait(buckets, name, caller, amount=1, **more):
    """Return the seconds until there is room for so much; 0 if it was taken."""
    try:
        buckets.take([Claim(name, caller, amount, **more)])
    except HttpError as error:
        return int(error.headers["Retry-After"])
    return 0


def test_a_bucket_lets_its_size_through_at_once_and_then_what_comes_back():
    clock = Clock(100.0)
    buckets = Buckets({"three": Rate(3, 30)}, clock)
    assert [wait(buckets, "three", "a") for _ in range(4)] == [0, 0, 0, 10]
    clock.now += 4
    assert wait(buckets, "three", "a") == 6
    clock.now += 6
    assert wait(buckets, "three", "a") == 0
    assert wait(buckets, "three", "a") == 10
    # A long rest fills the bucket, and no more than that.
    clock.now += 1_000
    assert [wait(buckets, "three", "a") for _ in range(4)] == [0, 0, 0, 10]


def test_each_caller_and_rate_has_its_own_bucket():
    buckets = Buckets({"one": Rate(1, 10), "other": Rate(1, 10)}, Clock(0.0))
    callers = [("one", "a"), ("one", "b"), ("other", "a"), ("one", "a"), ("unlimited", "a")]
    assert [wait(buckets, *each) for each in callers] == [0, 0, 0, 10, 0]


def test_g186_headers_tell_what_is_left():
    clock = Clock(0.0)
    buckets = Buckets({"ten": Rate(10, 60)}, clock)
    claims = [Claim("ten", "a")]
    assert buckets.take(claims) == {"RateLimit-Policy": '"ten";q=10;w=60', "RateLimit": '"ten";r=9;t=6'}
    for _ in range(9):
        buckets.take(claims)
    clock.now += 1
    with pytest.raises(HttpError) as refused:
        buckets.take(claims)
    assert refused.value.headers == {
        "RateLimit-Policy": '"ten";q=10;w=60',
        "RateLimit": '"ten";r=0;t=59',
        "Retry-After": "5",
    }
    assert buckets.take([]) == {}


def test_full_buckets_are_forgotten():
    clock = Clock(0.0)
    buckets = Buckets({"one": Rate(1, 10)}, clock)
    for number in range(30_000):
        clock.now += 0.01
        buckets.take([Claim("one", str(number))])
    assert len(buckets._levels) <= 10_001


def test_claims_are_taken_all_or_none():
    buckets = Buckets({"few": Rate(3, 30), "many": Rate(10, 10)}, Clock(0.0))
    with pytest.raises(HttpError) as refused:
        buckets.take([Claim("many", "shop", 5), Claim("few", "a", 4)])
    assert (refused.value.headers["RateLimit"], refused.value.headers["Retry-After"]) == (
        '"few";r=3;t=0',
        "10",
    )
    taken = buckets.take([Claim("many", "shop", 5), Claim("few", "a", 3)])
    assert taken["RateLimit"] == '"many";r=5;t=5, "few";r=0;t=30'
    # 6 of 10 are asked for where 5 are left, and one comes back a second.
    assert wait(buckets, "many", "shop", 6) == 1
    assert wait(buckets, "many", "shop", 0) == 0


def test_who_borrows_waits_until_it_has_come_back():
    clock = Clock(0.0)
    buckets = Buckets({"ten": Rate(10, 10)}, clock)
    assert wait(buckets, "ten", "a", 25, may_borrow=True) == 0
    # 15 are owed, and one must be there.
    assert wait(buckets, "ten", "a", 25, may_borrow=True) == 16
    clock.now = 16.0
    assert wait(buckets, "ten", "a", 25, may_borrow=True) == 0
    assert wait(buckets, "ten", "a", 1) == 25


def test_addresses_of_one_ipv6_network_count_as_one():
    for address, network in [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::1", "::"),
        ("", ""),
    ]:
        assert network_of(address) == network, (address, network)


@contextmanager
def limited(home, **amounts):
    rates = dict.fromkeys(("requests", "heavy", "events", "events-by-address"), Rate(1_000, HOURS))
    rates |= {name.replace("_", "-"): Rate(amount, HOURS) for name, amount in amounts.items()}
    with running(home, options=ServerOptions(rate_limits=rates)) as url:
        yield url


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from service.http.conftest import load
    from support.service_records import table, visit

    home = tmp_path_factory.mktemp("limited")
    load("shop", home, interactions=table(visit(1)))
    load("other-shop", home, interactions=table(visit(1)))
    return home


@pytest.fixture(scope="module")
def keys(folder):
    return [create_key(folder, folder / f"{name}.json") for name in ("first", "second")]


@pytest.mark.large
@pytest.mark.slow
def test_g185_g186_an_account_may_ask_so_often_in_a_project(folder, keys):
    with limited(folder, requests=3) as url:
        call, other = (Caller(url, token_of(url, key)) for key in keys)
        replies = [call("GET", NODES) for _ in range(4)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429]
        assert replies[0].headers["RateLimit-Policy"] == '"requests";q=3;w=36000'
        assert replies[0].headers["RateLimit"] == '"requests";r=2;t=12000'
        assert replies[3].headers["RateLimit"].startswith('"requests";r=0;t=')
        assert 11_000 < int(replies[3].headers["Retry-After"]) <= 12_000
        body = replies[3].json()
        del body["requestId"]
        assert body == {"statusCode": 429, "message": "Too Many Requests", "error": "Too Many Requests"}
        # Another project and another account have buckets of their own; another token has not.
        assert call("GET", NODES.replace("shop", "other-shop")).status == 200
        assert other("GET", NODES).status == 200
        assert Caller(url, token_of(url, keys[0]))("GET", NODES).status == 429
        # G-179: permission goes before the limit, and the limit before the body.
        assert Caller(url)("GET", NODES).status == 401
        assert call("POST", SEARCH, b"no json").status == 429


@pytest.mark.large
@pytest.mark.slow
def test_g185_insights_and_searches_without_a_limit_are_heavy(folder, keys):
    with limited(folder, heavy=2) as url:
        call = Caller(url, token_of(url, keys[0]))
        asked = [
            (SEARCH, {"limit": 1}),
            (SEARCH, {}),
            (INSIGHTS, {}),
            (SEARCH, {}),
            (INSIGHTS, {}),
            (SEARCH, {"limit": 1}),
        ]
        replies = [call("POST", path, body) for path, body in asked]
        assert [reply.status for reply in replies] == [200, 200, 200, 429, 429, 200]
        assert replies[1].headers["RateLimit-Policy"] == '"requests";q=1000;w=36000, "heavy";q=2;w=36000'


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("rate", ["events", "events_by_address"])
def test_g187_events_are_limited_by_project_and_by_address(folder, rate):
    with limited(folder, **{rate: 2}) as url:
        events = [
            {"projectId": project, "eventType": "order", "nonce": str(number), "data": {}}
            for number, project in enumerate(["shop", "shop", "shop", "other-shop"])
        ]
        replies = [Caller(url)("POST", "/api/v1/events", event) for event in events]
        is_limited = [reply.status == 429 for reply in replies]
        assert is_limited == [False, False, True, rate == "events_by_address"]


def batch(project, count, start=0):
    return [
        {"projectId": project, "eventType": "order", "nonce": str(number), "data": {}}
        for number in range(start, start + count)
    ]


BATCH = "/api/v1/events/batch"


@pytest.mark.slow
def test_g228_each_event_of_a_batch_counts(folder, keys):
    with limited(folder, events=30, events_by_address=10) as url:
        here, there = Caller(url), Caller(url, source="127.0.0.2")
        assert here("POST", BATCH, batch("shop", 8)).status == 200
        refused = here("POST", BATCH, batch("shop", 3, 8))
        assert refused.status == 429
        assert refused.headers["RateLimit-Policy"] == '"events-by-address";q=10;w=36000'
        # The attempt itself has counted, but nothing in the project.
        assert here("POST", BATCH, batch("shop", 1, 8)).status == 200
        assert here("POST", BATCH, batch("shop", 1, 9)).status == 429
        assert (
            there("POST", BATCH, batch("shop", 10, 20))
            .headers["RateLimit"]
            .partition(", ")[2]
            .startswith('"events";r=11;')
        )


@pytest.mark.large
@pytest.mark.slow
def test_g228_one_address_leaves_the_project_to_the_others(folder, keys):
    with limited(folder, events=30, events_by_address=10) as url:
        greedy = Caller(url)
        sent = [greedy("POST", BATCH, batch("shop", 10, 10 * turn)).status for turn in range(5)]
        assert sent == [200, 429, 429, 429, 429]
        assert Caller(url, source="127.0.0.2")("POST", BATCH, batch("shop", 1, 99)).status == 200


@pytest.mark.large
@pytest.mark.slow
def test_g228_items_that_are_no_events_count_too(folder):
    with limited(folder, events_by_address=10) as url:
        assert Caller(url)("POST", BATCH, [[]] * 8).status == 200
        assert Caller(url)("POST", BATCH, [[]] * 8).status == 429


@pytest.mark.large
@pytest.mark.slow
def test_g228_a_batch_without_a_token_that_can_never_be_allowed_is_too_large(folder, keys):
    with limited(folder, events_by_address=10) as url:
        reply = Caller(url)("POST", BATCH, batch("shop", 11))
        assert reply.status == 413
        assert reply.json()["message"] == ("body: has 11 events; allowed without a token: 10 in one request")


@pytest.mark.large
@pytest.mark.slow
def test_g228_an_account_sends_batches_of_any_size_and_no_other_client_waits(folder, keys):
    with limited(folder, events=30, events_by_address=10) as url:
        first, second = (Caller(url, token_of(url, key)) for key in keys)
        assert first("POST", BATCH, batch("shop", 100)).status == 200
        # 70 are owed and one must be there: 71 of 30 in 36,000 seconds.
        refused = first("POST", BATCH, batch("shop", 1, 100))
        assert refused.status == 429
        assert 85_000 < int(refused.headers["Retry-After"]) <= 85_200
        assert first("POST", BATCH, batch("other-shop", 100)).status == 200
        assert second("POST", BATCH, batch("shop", 100, 200)).status == 200
        assert Caller(url)("POST", BATCH, batch("shop", 10, 300)).status == 200


@pytest.mark.slow
def test_without_rates_nothing_is_limited_or_told(call):
    reply = call("GET", NODES)
    assert reply.status == 200
    assert "RateLimit" not in reply.headers


MEBIBYTE = 1 << 20
EVENTS = "/api/v1/events"


def test_g228_a_body_without_a_token_is_at_most_256_kib(anyone, call):
    for path in [EVENTS, BATCH]:
        start, end = (b"[", b"]") if path == BATCH else (b"{", b"}")
        at_most, larger = (start + b" " * size + end for size in (256 * 1024 - 2, 256 * 1024 - 1))
        assert anyone("POST", path, at_most).status != 413, path
        assert anyone("POST", path, larger).status == 413, path
        assert anyone("POST", path, iter([larger])).status == 413, path
        assert call("POST", path, larger).status != 413, path


@contextmanager
def measured_health(url):
    """Ask for /health/live again and again; gives back a list whose last item is the longest time.

    Server and client share this process. Its processor time is measured, which other programs do not change.
    """
    longest, is_done = [0.0], threading.Event()

    def ask():
        call = Caller(url)
        while not (is_done.is_set() and longest[1:]):
            started_at = time.process_time()
            assert call("GET", "/health/live").status == 200
            longest.append(max(longest[-1], time.process_time() - started_at))
            is_done.wait(0.01)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield longest
    finally:
        is_done.set()
        thread.join()


def filled(start, item, end, *, size=32 * MEBIBYTE):
    """Return JSON with as many equal items as fit into ``size`` bytes."""
    return start + item * ((size - len(start + end)) // len(item)) + end


WHERE = b'{"interactionFilter":{"type":"predicate","field":"nodeId","operator":"in","value":['


@pytest.mark.large
@pytest.mark.slow
def test_g228_no_body_holds_up_others(call):
    for path, body, status in [
        (BATCH, filled(b"[", b"[],", b"[]]"), 413),
        (BATCH, filled(b"[", b"[],", b"[]]", size=370_000), 400),
        (BATCH, filled(b"[", b'{"a":{}},', b"[]]", size=700_000), 400),
        (BATCH, filled(b"[" + b"[]," * 120_000, b" ", b"1]"), 400),
        (BATCH, filled(b'[{"projectId":"', b"x", b'"}]'), 200),
        (BATCH, b"[" + b'{"a":[],"b":"' * 200 + b"]", 400),
        (EVENTS, filled(b"{" + b'"data":[', b"[],", b"[]]}", size=370_000), 400),
        (SEARCH, filled(b"{", b'"a":1,', b'"a":1}'), 413),
        (SEARCH, b"{" + b",".join(b'"%d":1' % number for number in range(249_000)) + b"}", 200),
        (SEARCH, filled(b'{"projection":[', b"1,", b"1]}", size=490_000), 400),
        (SEARCH, filled(b'{"projection":"', b"x", b'"}'), 400),
        (SEARCH, filled(b'{"limit":1.', b"9", b"}"), 400),
        (SEARCH, filled(WHERE, b'"a",', b'"a"]}}', size=950_000), 400),
        (SEARCH, filled(WHERE, b"1.5,", b"1]}}", size=950_000), 400),
        (SEARCH, filled(WHERE, b"[],", b"[]]}}", size=370_000), 400),
    ]:
        with measured_health(call.url) as longest:
            reply = call("POST", path, body)
        assert reply.status == status, reply.content[:300]
        assert len(reply.content) < 10_000, (path, body)
        assert longest[-1] < 1, (path, body)


@pytest.mark.large
@pytest.mark.slow
def test_g228_many_large_bodies_at_once_hold_nobody_up(call):
    body = b"{" + b",".join(b'"%d":1' % number for number in range(249_000)) + b"}"
    threads = [threading.Thread(target=call, args=("POST", SEARCH, body)) for _ in range(6)]
    with measured_health(call.url) as longest:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert longest[-1] < 1


def test_g228_requests_without_a_token_share_half_of_the_memory():
    budget = BodyBudget(100)
    with budget.request(has_token=False) as first, budget.request(has_token=False) as second:
        first.take(30)
        with pytest.raises(HttpError) as refused:
            second.take(21)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        second.take(20)
        with budget.request(has_token=True) as third, pytest.raises(HttpError):
            third.take(50)
            third.take(1)
    with budget.request(has_token=True) as fourth:
        fourth.take(100)


@pytest.mark.large
@pytest.mark.slow
def test_g228_bodies_in_flight_share_their_memory(tmp_path, caplog):
    key = create_key(tmp_path, tmp_path / "key.json")
    with running(tmp_path, options=ServerOptions(body_mebibytes=1)) as url:
        call = Caller(url, token_of(url, key))
        head = f"POST {SEARCH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {call.token}\r\n"
        fields = f"Content-Length: {MEBIBYTE - 100}\r\n\r\n"
        body = b"{}" + b" " * (MEBIBYTE - 102)
        (budget,) = [
            found for found in gc.get_objects() if isinstance(found, BodyBudget) and found.left == MEBIBYTE
        ]
        with connected(url, (head + fields).encode() + body[:-1]) as slow:
            # The other request would take the rest of the memory if this one had not arrived yet.
            eventually(lambda: budget.left < 200)
            reply = call("POST", SEARCH, b"{}" + b" " * 200)
            assert reply.status == 503
            assert reply.headers["Retry-After"] == "1"
            assert Caller(url)("POST", EVENTS, b"{}" + b" " * 200).status == 503
            assert Caller(url)("GET", "/health/live").status == 200
            slow.sendall(body[-1:])
            # There is no such project.
            assert statuses(one_response(slow)) == [404]
        # Also after a client that goes away.
        with connected(url, (head + fields).encode() + body[:-1]):
            eventually(lambda: budget.left < 200)
        eventually(lambda: budget.left == MEBIBYTE)
        assert call("POST", SEARCH, body[:-100]).status == 404
    # An overloaded server does not fill its log with tracebacks.
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_refused_token_or_rate_costs_no_body(anyone, call):
    """The answer comes before the body."""
    for path, token in ((SEARCH, "wrong"), ("/api/v1/projects/other-shop/interactions/search", call.token)):
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
        with connected(call.url, f"{head}Content-Length: 1000\r\n\r\n".encode()) as connection:
            assert statuses(one_response(connection))[0] in (401, 403)
