"""Starting and stopping a server, and what stock uvicorn makes of its connections."""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest
from service.http.conftest import MANY
from support.http_caller import TIMEOUT, Caller, answering, ask_token, token_of
from support.raw_http import EVENTS, LIVE, connected, one_response, rest_of, statuses
from support.waiting import eventually
from uvicorn.middleware.proxy_headers import _TrustedHosts

from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import (
    Rate,
    ServerOptions,
    _in_both_families,
    _listen,
    _raise_descriptors,
    running,
    serve,
)

SERVE = "import sys; from attrib_ds.service.http.server import serve; serve(sys.argv[1], port=0)"


@contextmanager
def serving(folder):
    """Serve a folder in a process of its own and give back that and its address."""
    command = [sys.executable, "-c", SERVE, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            announced = [process.stdout.readline() for _ in range(5)]
            url = announced[0].split()[-1]
            assert announced[1].endswith(f"{url}/api/v1\n")
            assert announced[3].endswith(f"{url}/auth\n")
            yield process, url
        finally:
            process.kill()


needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")


@pytest.mark.large
@pytest.mark.slow
@needs_signals
def test_a_stopping_server_finishes_what_it_has_accepted(tmp_path, home, big_shop):
    (tmp_path / "big-shop.duckdb").write_bytes((home / "big-shop.duckdb").read_bytes())
    key = create_key(tmp_path, tmp_path / "key.json")
    with serving(tmp_path) as (process, url):
        call = Caller(url, token_of(url, key))
        with answering(call, {}) as response:
            received = response.read(10)
            os.kill(process.pid, signal.SIGTERM)
            # It takes on nobody else, once it has noticed.
            eventually(lambda: not _is_listening(url))
            received += response.read()
        assert json.loads(received)["count"] == received.count(b'"_id"') == MANY
        assert process.wait(TIMEOUT) == 0
        assert process.stderr.read() == ""


@pytest.mark.large
@pytest.mark.slow
@needs_signals
def test_an_idle_server_stops_at_once(tmp_path):
    with serving(tmp_path) as (process, _):
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(TIMEOUT) == 0
        assert process.stderr.read() == ""


def _is_listening(url):
    address = urlsplit(url)
    try:
        with socket.create_connection((address.hostname, address.port), timeout=TIMEOUT):
            return True
    except ConnectionError:
        return False


def test_a_port_that_is_taken_is_told(tmp_path, server):
    with pytest.raises(Unavailable, match="port"), running(tmp_path, port=int(server.rpartition(":")[2])):
        pass


def test_all_addresses_are_of_both_families():
    """By default, Windows would answer one of them."""
    try:
        listening = _listen("::", 0)
    except Unavailable:
        pytest.skip("this machine has no IPv6")
    with listening, socket.create_connection(("127.0.0.1", listening.getsockname()[1]), timeout=TIMEOUT):
        assert listening.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 0


def test_a_port_is_not_shared_where_that_has_to_be_asked_for(monkeypatch):
    """On Windows, SO_REUSEADDR would let another program take the port over."""
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_KEEPALIVE, raising=False)
    with _listen("127.0.0.1", 0) as listening:
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not listening.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)


def test_as_many_descriptors_as_the_system_allows(monkeypatch):
    """macOS names no limit, and refuses more than it has."""
    resource = pytest.importorskip("resource", reason="Windows has no limit of descriptors")
    limits = [256, resource.RLIM_INFINITY]

    def set_limit(_, wanted):
        if wanted[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")
        limits[:] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    _raise_descriptors()
    assert limits == [8_192, resource.RLIM_INFINITY]
    _raise_descriptors()
    assert limits[0] == 8_192


def test_a_server_on_every_address_needs_to_know_its_own(tmp_path):
    with pytest.raises(InvalidRequest, match="url"):
        serve(tmp_path, host="0.0.0.0", port=0)


@pytest.mark.large
@pytest.mark.slow
def test_the_address_for_clients_is_the_audience(tmp_path):
    key = create_key(tmp_path, tmp_path / "key.json")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(tmp_path, port=port, url="https://attribution.example/") as address:
        assert address == "https://attribution.example"
        local = Caller(f"http://127.0.0.1:{port}")
        assert ask_token(local, key, aud="https://attribution.example/auth/oidc/token").status == 200
        assert ask_token(local, key).status == 400


@pytest.mark.large
@pytest.mark.slow
def test_two_servers_may_use_one_folder_of_accounts(tmp_path):
    key = create_key(tmp_path, tmp_path / "key.json")
    with running(tmp_path) as first, running(tmp_path) as second:
        token = token_of(first, key)
        assert Caller(second, token)("GET", "/api/v1/projects/shop/nodes").status == 404


@pytest.mark.slow
def test_threads_take_shorter_turns_while_a_server_runs(tmp_path):
    before = sys.getswitchinterval()
    with running(tmp_path):
        assert sys.getswitchinterval() == pytest.approx(0.001)
    assert sys.getswitchinterval() == pytest.approx(before)


@pytest.mark.large
@pytest.mark.slow
def test_garbage_is_collected_less_often_while_a_server_runs(tmp_path):
    before = gc.get_threshold()
    with running(tmp_path):
        assert gc.get_threshold()[0] == 50_000
        # What was imported before is left out.
        assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


# -- connections


@pytest.mark.parametrize(
    "request_",
    [
        EVENTS + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        EVENTS + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
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
        LIVE.replace(b"\r\n\r\n", b"\r\nA: b\r\n c\r\n\r\n"),
        LIVE.replace(b"\r\n\r\n", b"\r\nA: b\0c\r\n\r\n"),
        LIVE.replace(b"\r\n\r\n", b"\r\nA: b\rc\r\n\r\n"),
        LIVE.replace(b"\r\n\r\n", b"\r\nA b: c\r\n\r\n"),
        LIVE.replace(b"\r\n\r\n", b"\r\n: c\r\n\r\n"),
        LIVE.replace(b"\r\n", b"\n"),
        LIVE.replace(b"/health", b"/he\0alth"),
        LIVE.replace(b"1.1", b"3.1"),
        LIVE.replace(b"HTTP", b"ICE"),
        LIVE.replace(b"GET", b"G T"),
        LIVE.replace(b"GET", b"get"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=repr,
)
def test_g234_an_ambiguous_request_is_refused_and_its_connection_closed(server, request_):
    with connected(server, request_) as connection:
        assert statuses(rest_of(connection)) == [400]


def test_requests_sent_at_once_are_answered_in_order(server):
    requests = [LIVE, LIVE.replace(b"/health", b"/nowhere"), LIVE] * 3
    with connected(server, b"".join(requests)) as connection:
        assert [statuses(one_response(connection)) for _ in requests] == [[200], [404], [200]] * 3


def test_a_client_may_wait_before_it_sends_a_body(call):
    head = f"POST /api/v1/projects/shop/interactions/search HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {call.token}\r\n"
    with connected(
        call.url, f"{head}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n".encode()
    ) as connection:
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert statuses(one_response(connection)) == [200]


@pytest.mark.slow
def test_a_client_that_reads_slowly_gets_its_whole_response(server, home, big_shop):
    call = Caller(server, token_of(server, create_key(home, home / "slow.json", projects=["big-shop"])))
    with answering(call, {"projection": ["_id"]}) as response:
        # The server waits for the client again and again.
        received = b"".join(iter(lambda: response.read(1_000), b""))
    assert json.loads(received)["count"] == MANY


@pytest.mark.slow
def test_a_client_that_goes_away_is_no_error_of_the_server(call, big_shop, caplog):
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
            time.sleep(0.05)  # noqa: TID251  (the server has mostly begun by then; it passes in any case)
    for seconds in (0, 0.05, 0.5):
        with connected(call.url, search + b"Content-Length: 2\r\n\r\n{}") as connection:
            time.sleep(seconds)  # noqa: TID251
            if seconds:
                connection.recv(10)
            # Reset the connection instead of closing it.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert call("POST", "/api/v1/projects/big-shop/interactions/search", {"limit": 1}).status == 200
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_a_crowded_server_refuses_with_the_time_to_wait_before_it_ends_a_connection(monkeypatch, tmp_path):
    monkeypatch.setattr("attrib_ds.service.http.server._MOST_CONNECTIONS", 4)
    with running(tmp_path) as url, ExitStack() as stack:
        with connected(url, LIVE) as alone:
            assert b"connection: close" not in one_response(alone)
        stack.enter_context(connected(url, LIVE[:20]))
        with connected(url, LIVE) as second:
            # From half of the connections on, none is kept.
            assert b"connection: close" in rest_of(second)
        for _ in range(2):
            stack.enter_context(connected(url, LIVE[:20]))
        with connected(url, EVENTS + b"Content-Length: 100\r\n\r\n") as late:
            for _ in range(2):
                time.sleep(0.1)  # noqa: TID251
                # The connection would be reset by what comes after its end.
                late.sendall(b"x" * 50)
            answer = rest_of(late)
        assert statuses(answer) == [503]
        assert b"\r\nretry-after: 1\r\n" in answer
        with connected(url, LIVE) as alive:
            assert statuses(one_response(alive)) == [200]


@pytest.mark.large
@pytest.mark.slow
def test_more_connections_than_the_server_takes_are_refused_one_by_one(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    hit = json.dumps({"projectId": "shop", "pageUrl": "https://shop.example/"}).encode()
    head = b"POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(hit)
    with serving(tmp_path) as (process, url), ExitStack() as stack:
        # A pipe that nobody reads would hold up the server, which logs each refusal.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        clients = [stack.enter_context(connected(url, head)) for _ in range(1_200)]
        for client in clients:
            client.sendall(hit)
        answers = [one_response(client) for client in clients]
    refused = [answer for answer in answers if statuses(answer) != [202]]
    assert {*map(tuple, map(statuses, refused))} <= {(429,), (503,)}
    assert len(refused) >= 300
    assert all(b"\r\nretry-after: " in answer for answer in refused)


def test_a_server_that_is_told_to_stop_wakes_up(monkeypatch, tmp_path):
    monkeypatch.setattr("attrib_ds.service.http.server._SECONDS_OF_TICK", 3 * TIMEOUT)
    with running(tmp_path) as url:
        assert Caller(url)("GET", "/health/live").status == 200


# -- proxies (G-234)

ONE = {"events-by-address": Rate(1, 36_000)}


def send(url, nonce, **headers):
    event = {"projectId": "shop", "eventType": "order", "nonce": nonce, "data": {}}
    return Caller(url)("POST", "/api/v1/events", event, **headers).status


@pytest.mark.slow
def test_clients_behind_a_trusted_proxy_have_rates_of_their_own(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    with running(tmp_path, options=ServerOptions(rate_limits=ONE, behind_proxy=("127.0.0.1",))) as url:
        assert send(url, "1", X_Forwarded_For="198.51.100.1") == 200
        assert send(url, "2", X_Forwarded_For="198.51.100.2") == 200
        # A forged entry before that of the proxy changes nothing.
        assert send(url, "3", X_Forwarded_For="203.0.113.9, 198.51.100.1") == 429


@pytest.mark.slow
def test_without_a_trusted_proxy_the_header_is_ignored(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    with running(tmp_path, options=ServerOptions(rate_limits=ONE)) as url:
        assert send(url, "1", X_Forwarded_For="198.51.100.1") == 200
        assert send(url, "2", X_Forwarded_For="198.51.100.2") == 429
        assert send(url, "3", Forwarded="for=198.51.100.3", X_Real_IP="198.51.100.3") == 429


def test_a_proxy_of_ipv4_is_known_on_a_socket_of_ipv6():
    trusted = _TrustedHosts(list(_in_both_families(["10.0.0.5", "172.18.0.0/16", "fd00::/8"])))
    known = ["10.0.0.5", "::ffff:10.0.0.5", "172.18.4.2", "::ffff:172.18.4.2", "fd00::1"]
    assert [address for address in known if address not in trusted] == []
    others = ["10.0.0.6", "::ffff:10.0.0.6", "172.19.4.2", "::ffff:172.19.4.2", "fe80::1", ""]
    assert [address for address in others if address in trusted] == []
