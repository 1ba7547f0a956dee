"""Limits of request bodies: size, values, memory, and the time they hold up others (G-136, G-228)."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
from support.http_caller import TIMEOUT, Caller, token_of
from support.raw_http import connected, one_response, statuses

from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.errors import HttpError
from attrib_ds.service.http.limits import BodyBudget
from attrib_ds.service.http.server import ServerOptions, running

MEBIBYTE = 1 << 20
EVENTS, BATCH = "/api/v1/events", "/api/v1/events/batch"
SEARCH = "/api/v1/projects/shop/interactions/search"


@pytest.mark.parametrize("path", [EVENTS, BATCH])
def test_g228_a_body_without_a_token_is_at_most_256_kib(anyone, call, path):
    start, end = (b"[", b"]") if path == BATCH else (b"{", b"}")
    at_most, larger = (start + b" " * size + end for size in (256 * 1024 - 2, 256 * 1024 - 1))
    assert anyone("POST", path, at_most).status != 413
    assert anyone("POST", path, larger).status == 413
    assert anyone("POST", path, iter([larger])).status == 413
    assert call("POST", path, larger).status != 413


@contextmanager
def measured_health(url):
    """Ask for /health/live again and again; gives back a list whose last item is the longest time.

    Server and client share this process. Its processor time is measured, which other programs do not change.
    """
    longest, is_done = [0.0], threading.Event()

    def ask():
        call = Caller(url)
        while not is_done.wait(0.01):
            started_at = time.process_time()
            assert call("GET", "/health/live").status == 200
            longest.append(max(longest[-1], time.process_time() - started_at))

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
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
    ],
    ids=lambda value: repr(value[:30]) if isinstance(value, bytes) else None,
)
def test_g228_no_body_holds_up_others(call, path, body, status):
    with measured_health(call.url) as longest:
        reply = call("POST", path, body)
        time.sleep(0.1)
    assert reply.status == status, reply.content[:300]
    assert len(reply.content) < 10_000
    assert longest[-1] < 1


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


@pytest.mark.slow
def test_g228_bodies_in_flight_share_their_memory(tmp_path, caplog):
    key = create_key(tmp_path, tmp_path / "key.json")
    with running(tmp_path, options=ServerOptions(body_mebibytes=1)) as url:
        call = Caller(url, token_of(url, key))
        head = f"POST {SEARCH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {call.token}\r\n"
        fields = f"Content-Length: {MEBIBYTE - 100}\r\n\r\n"
        body = b"{}" + b" " * (MEBIBYTE - 102)
        deadline = time.monotonic() + TIMEOUT
        with ExitStack() as stack:
            reply = None
            while reply is None or reply.status != 503:
                assert time.monotonic() < deadline
                # The other request would take the rest of the memory if this one had not arrived yet.
                stack.close()
                slow = stack.enter_context(connected(url, (head + fields).encode() + body[:-1]))
                time.sleep(0.3)
                reply = call("POST", SEARCH, b"{}" + b" " * 200)
            assert reply.headers["Retry-After"] == "1"
            assert Caller(url)("POST", EVENTS, b"{}" + b" " * 200).status == 503
            assert Caller(url)("GET", "/health/live").status == 200
            slow.sendall(body[-1:])
            # There is no such project.
            assert statuses(one_response(slow)) == [404]
        # Also after a client that goes away.
        with connected(url, (head + fields).encode() + body[:-1]):
            pass
        while (reply := call("POST", SEARCH, body[:-100])).status == 503:
            assert time.monotonic() < deadline
        assert reply.status == 404
    # An overloaded server does not fill its log with tracebacks.
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_refused_token_or_rate_costs_no_body(anyone, call):
    """The answer comes before the body."""
    for path, token in ((SEARCH, "wrong"), ("/api/v1/projects/other-shop/interactions/search", call.token)):
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
        with connected(call.url, f"{head}Content-Length: 1000\r\n\r\n".encode()) as connection:
            assert statuses(one_response(connection))[0] in (401, 403)
