"""Connections over raw sockets: limits of size, time and number (G-229)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from service.http.conftest import MANY
from support.http_caller import TIMEOUT, Caller, answering, token_of

from attrib_ds.service.accounts.administration import create_key
from attrib_ds.service.http.server import running
from attrib_ds.service.http.server_options import ServerOptions

LIVE = b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"
EVENTS = b"POST /api/v1/events HTTP/1.1\r\nHost: a\r\n"
QUICK = ServerOptions(rate_limits=None, seconds_for_headers=1, seconds_for_body=1, seconds_idle=1)


@contextmanager
def connected(url, data=b""):
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=TIMEOUT) as connection:
        connection.sendall(data)
        yield connection


def rest_of(connection) -> bytes:
    """Return what comes until the server closes the connection."""
    received = b""
    while piece := connection.recv(1 << 16):
        received += piece
    return received


def one_response(connection) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(1)
        assert piece, received
        received += piece
    length = next(int(line.split(b":")[1]) for line in received.split(b"\r\n") if b"content-length" in line)
    while length:
        piece = connection.recv(length)
        received += piece
        length -= len(piece)
    return received


def statuses(received) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


# -- requests that are not valid HTTP


@pytest.mark.parametrize(
    "request_",
    [
        EVENTS + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + LIVE,
        EVENTS + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + LIVE,
        EVENTS + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        EVENTS.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        EVENTS + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        EVENTS + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        EVENTS + b"Content-Length: 2, 2\r\n\r\n{}",
        EVENTS + b"Content-Length: +2\r\n\r\n{}",
        EVENTS + b"Content-Length: 0x2\r\n\r\n{}",
        EVENTS + b"Content-Length: 2 2\r\n\r\n{}",
        EVENTS + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        EVENTS + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        EVENTS + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n",
        LIVE.replace(b"Host: a\r\n", b""),
        LIVE.replace(b"Host: a\r\n", b"Host: a\r\nHost: b\r\n"),
        LIVE.replace(b"\r\n\r\n", b"\r\nA: b\r\n c\r\n\r\n"),
        LIVE.replace(b"\r\n\r\n", b"\r\nA: b\0c\r\n\r\n"),
        LIVE.replace(b"\r\n\r\n", b"\r\nA: b\rc\r\n\r\n"),
        LIVE.replace(b"\r\n\r\n", b"\r\nA b: c\r\n\r\n"),
        LIVE.replace(b"\r\n\r\n", b"\r\n: c\r\n\r\n"),
        LIVE.replace(b"\r\n", b"\n"),
        LIVE.replace(b"/health", b"/he\0alth"),
        LIVE.replace(b"1.1", b"2.0"),
        LIVE.replace(b"1.1", b"3.1"),
        LIVE.replace(b"HTTP", b"ICE"),
        LIVE.replace(b"GET", b"G T"),
        LIVE.replace(b"GET", b"get"),
        b"GET /health/live\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=repr,
)
def test_g229_an_ambiguous_request_is_refused_and_its_connection_closed(server, request_):
    with connected(server, request_) as connection:
        received = rest_of(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    assert statuses(received) == [400]
    assert b"connection: close" in head
    assert json.loads(body)["error"] == "Bad Request"


def test_the_name_of_a_transfer_coding_has_no_case(server):
    request_ = EVENTS + b"Transfer-Encoding: Chunked \r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    with connected(server, request_) as connection:
        assert statuses(one_response(connection)) == [400]  # the event, not the request
        connection.sendall(LIVE)
        assert statuses(one_response(connection)) == [200]


def test_a_valid_request_before_an_invalid_one_is_answered(server):
    with connected(server, LIVE + b"nonsense\r\n\r\n") as connection:
        received = rest_of(connection)
    assert statuses(received) == [200]
    assert received.endswith(b'{"status":"live"}')


def test_requests_sent_at_once_are_answered_in_order(server):
    requests = [LIVE, LIVE.replace(b"/health", b"/nowhere"), LIVE] * 3
    with connected(server, b"".join(requests)) as connection:
        assert [statuses(one_response(connection)) for _ in requests] == [[200], [404], [200]] * 3


def test_what_is_sent_at_once_is_bounded(server):
    with connected(server, LIVE * 1_000) as connection:
        received = rest_of(connection)
    assert statuses(received) == [200] * 17


def test_another_protocol_is_not_offered(server):
    fields = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    with connected(server, LIVE[:-2] + fields + LIVE) as connection:
        assert statuses(rest_of(connection)) == [200]


def test_a_client_may_wait_before_it_sends_a_body(call):
    head = f"POST /api/v1/projects/shop/interactions/search HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {call.token}\r\n"
    with connected(
        call.url, f"{head}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n".encode()
    ) as connection:
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert statuses(rest_of(connection)) == [200]


# -- sizes


@pytest.mark.parametrize(
    "request_",
    [
        LIVE[:-2] + b"A: " + b"x" * 40_000,
        LIVE[:-2] + b"A: " + b"x" * 40_000 + b"\r\n\r\n",
        LIVE[:-2] + b"A: b\r\n" * 101 + b"\r\n",
        LIVE[:-2] + b"x" * 40_000,
        b"GET /" + b"x" * 40_000,
        b"GET /" + b"x" * 40_000 + LIVE[len(b"GET /") :],
        EVENTS + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: " + b"x" * 400_000,
        EVENTS + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    ],
    ids=lambda value: repr(value[:12] + value[-4:]),
)
def test_headers_are_bounded(server, request_):
    with connected(server, request_) as connection:
        assert statuses(rest_of(connection)) == [431]


def test_headers_within_the_bounds_are_allowed(server):
    fields = b"A: b\r\n" * 98 + b"B: " + b"x" * 30_000 + b"\r\n\r\n"
    with connected(server, LIVE[:-2] + fields) as connection:
        assert statuses(one_response(connection)) == [200]


def test_a_header_after_the_body_is_no_header(call):
    head = b"POST /api/v1/projects/shop/interactions/search HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    trailer = f"Authorization: Bearer {call.token}".encode()
    with connected(call.url, head + b"\r\n2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n") as connection:
        assert statuses(one_response(connection)) == [401]


# -- times


@pytest.fixture(scope="module")
def quick(home):
    with running(home, options=QUICK) as url:
        yield url


def seconds_until_closed(connection, *, drip=b"", timeout=10):
    """Send a byte now and then until the server closes the connection; return the time and what it sent."""
    started_at = time.monotonic()
    connection.settimeout(0.2)
    received = b""
    while time.monotonic() - started_at < timeout:
        try:
            if drip:
                connection.sendall(drip)
            piece = connection.recv(1 << 16)
        except TimeoutError:
            continue
        except ConnectionError:
            break
        received += piece
        if not piece:
            break
    return time.monotonic() - started_at, received


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "drip", "expected"),
    [
        (b"", b"", []),
        (LIVE[:20], b"", [408]),
        (LIVE[:-2] + b"A: ", b"x", [408]),
        (EVENTS + b"Content-Length: 100\r\n\r\n", b"", [408]),
        (EVENTS + b"Content-Length: 100\r\n\r\n", b"x", [408]),
        (EVENTS + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", [408]),
        # After a response.
        (LIVE, b"", [200]),
        (LIVE + LIVE[:20], b"", [200, 408]),
        (LIVE, b"\r\n", [200]),
        # The body of a request that has been answered.
        (b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n", b"", [404]),
        (b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n", b"x", [404]),
    ],
    ids=repr,
)
def test_g229_slow_and_idle_connections_are_closed(quick, sent, drip, expected):
    with connected(quick, sent) as connection:
        seconds, received = seconds_until_closed(connection, drip=drip)
    assert statuses(received) == expected
    assert 0.9 < seconds < 5


@pytest.mark.slow
def test_a_large_body_has_more_time(quick, home):
    key = create_key(home, home / "quick.json", projects=["shop"])
    token = token_of(quick, key)
    size = 8 * 64 * 1024
    head = b"POST /api/v1/projects/shop/interactions/search HTTP/1.1\r\nHost: a\r\n"
    fields = f"Authorization: Bearer {token}\r\nContent-Length: {size}\r\n\r\n".encode()
    with connected(quick, head + fields + b"{}") as connection:
        for _ in range(8):
            connection.sendall(b" " * (size // 8 - 1))
            time.sleep(0.4)
        connection.sendall(b" " * 6)
        assert statuses(one_response(connection)) == [200]


@pytest.mark.slow
def test_a_client_that_reads_slowly_gets_its_whole_response(quick, home):
    call = Caller(quick, token_of(quick, create_key(home, home / "slow.json", projects=["big-shop"])))
    with answering(call, {"projection": ["_id"]}) as response:
        received = response.read(1_000)
        time.sleep(4)
        received += response.read()
    assert json.loads(received)["count"] == MANY


# -- numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ServerOptions(most_connections_per_address=3),
        ServerOptions(most_connections=3),
    ],
    ids=["address", "all"],
)
def test_g229_connections_are_counted(tmp_path, options):
    with running(tmp_path, options=options) as url, ExitStack() as stack:
        held = [stack.enter_context(connected(url, LIVE)) for _ in range(3)]
        assert [statuses(one_response(each)) for each in held] == [[200]] * 3
        with connected(url, LIVE) as connection:
            refused = rest_of(connection)
        assert statuses(refused) == [503]
        assert b"Retry-After: 1\r\n" in refused
        held[0].sendall(LIVE)
        assert statuses(one_response(held[0])) == [200]
        held[1].close()
        deadline = time.monotonic() + TIMEOUT
        while not is_served(url):
            assert time.monotonic() < deadline


@pytest.mark.slow
def test_g229_another_address_has_connections_of_its_own(tmp_path):
    with (
        running(tmp_path, options=ServerOptions(most_connections_per_address=1)) as url,
        connected(url, LIVE) as first,
        socket.create_connection(
            ("127.0.0.1", urlsplit(url).port), timeout=TIMEOUT, source_address=("127.0.0.2", 0)
        ) as second,
    ):
        assert statuses(one_response(first)) == [200]
        second.sendall(LIVE)
        assert statuses(one_response(second)) == [200]
        assert not is_served(url)


def is_served(url) -> bool:
    with connected(url, LIVE) as connection:
        return statuses(one_response(connection)) == [200]


FEW = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
from attrib_ds.service.http.serving import serve
from attrib_ds.service.http.server_options import ServerOptions
serve(sys.argv[1], port=0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_g229_with_few_descriptors_left_the_server_rests_and_still_answers(tmp_path):
    command = [sys.executable, "-c", FEW, str(tmp_path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process,
        ExitStack() as stack,
    ):
        try:
            url = process.stdout.readline().split()[-1]
            first = stack.enter_context(connected(url, LIVE))
            assert statuses(one_response(first)) == [200]
            for _ in range(200):
                stack.enter_context(connected(url))
            before = processor_seconds(process.pid)
            for _ in range(4):
                time.sleep(0.5)
                first.sendall(LIVE)
                assert statuses(one_response(first)) == [200]
            # The readiness check opens files.
            first.sendall(LIVE.replace(b"live", b"ready"))
            assert statuses(one_response(first)) == [200]
            assert processor_seconds(process.pid) - before < 0.5
            stack.close()
            deadline = time.monotonic() + TIMEOUT
            while not is_served(url):
                assert time.monotonic() < deadline
        finally:
            process.kill()


def processor_seconds(pid) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- clients that go away


@pytest.mark.slow
def test_a_client_that_goes_away_is_no_error_of_the_server(call, caplog):
    token = f"Authorization: Bearer {call.token}\r\n".encode()
    search = b"POST /api/v1/projects/big-shop/interactions/search HTTP/1.1\r\nHost: a\r\n" + token
    interrupted = [
        LIVE[:20],
        EVENTS + b"Content-Length: 100\r\n\r\nx",
        search + b"Content-Length: 2\r\n\r\n{",
        search + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"POST /auth/oidc/token HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 100\r\n\r\nx",
    ]
    for data in interrupted:
        with connected(call.url, data):
            time.sleep(0.05)
    for seconds in (0, 0.05, 0.5):
        with connected(call.url, search + b"Content-Length: 2\r\n\r\n{}") as connection:
            time.sleep(seconds)
            if seconds:
                connection.recv(10)
            # Reset the connection instead of closing it.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert call("POST", "/api/v1/projects/big-shop/interactions/search", {"limit": 1}).status == 200
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
