"""What every answer over HTTP has in common: errors, methods, headers, pages; and the token route."""

import asyncio
import base64
import http.client
import json
import logging
import re
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import duckdb
import pytest
from openapi_spec_validator import validate
from support.http_caller import FORM, GRANT, TIMEOUT, Caller, ask_token, exchange, token_of
from support.service_records import hex_id, uuid
from support.signing import header_of, payload_of, signed

from attrib_ds.contract import OPERATIONS, Answer, File, build
from attrib_ds.contract.interactions import read_hit
from attrib_ds.errors import Forbidden, NotFound, ProjectInUse, ServiceFailure, Unavailable
from attrib_ds.service import Service
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.collection.hits import pending_hit
from attrib_ds.service.http import responses
from attrib_ds.service.http.app import Routes
from attrib_ds.service.http.errors import HttpError, prefers, to_http_error
from attrib_ds.service.http.projects import Health, Projects
from attrib_ds.service.http.reads import Arrivals, ThreadPool
from attrib_ds.service.store.queue import count_waiting
from attrib_ds.service.store.store import Store

SEARCH = "/api/v1/projects/shop/interactions/search"
NODES = "/api/v1/projects/shop/nodes"


# -- error bodies (R317 to R319, R323)


@pytest.mark.slow
def test_g181_violations_are_joined_with_their_pointers(call):
    body = call("POST", SEARCH, {"limit": -1, "sort": {"nonsense": 1}}).json()
    assert [each["field"] for each in body["details"]] == ["/limit", "/sort"]
    assert body["message"] == "; ".join(f"{each['field']}: {each['problem']}" for each in body["details"])


def test_g182_problem_details_where_they_are_asked_for(call, anyone):
    reply = call("POST", SEARCH, {"limit": -1}, Accept="application/problem+json, application/json")
    assert reply.headers["Content-Type"] == "application/problem+json"
    body = reply.json()
    assert (body["type"], body["title"], body["status"]) == ("about:blank", "Bad Request", 400)
    assert body["detail"].startswith("/limit: -1 is not allowed")
    assert body["requestId"] == reply.headers["X-Request-Id"]
    assert anyone("GET", NODES, Accept="application/problem+json").json()["status"] == 401


def test_r321_a_body_that_is_no_json_object_is_refused(call):
    for body in [
        b"no json",
        b"{",
        b'{"limit": 1,}',
        b'{"limit": NaN}',
        b'{"limit": Infinity}',
        b'{"limit": -Infinity}',
        b'{"limit": 01}',
        b"{'limit': 1}",
        b"\xff",
        b'{"nodeFilter": "\xff"}',
        '{"limit": 1}'.encode("utf-16"),
        b"\xef\xbb\xbf{}",
        b"[]",
        b"[{}]",
        b"null",
        b"1",
        b"1.5",
        b'"text"',
        b"true",
        b"{}{}",
        b'{"limit": 1e999999999999999999999}',
        b'{"limit": 1e999999999}',
        b'{"sort": {"startDate": 1e999999999}}',
        b'{"interactionFilter": {"type": "predicate", "field": "hitCount", "operator": "equals", "value": 1e999999999}}',
        b'{"limit": ' + b"9" * 5_000 + b"}",
        b'{"a":' * 70 + b"1" + b"}" * 70,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"interactionFilter": {"type": "predicate", "field": "nodeId", "operator": "equals", "value": "\\ud800"}}',
    ]:
        reply = call("POST", SEARCH, body)
        assert reply.status == 400, body
        assert len(reply.content) < 10_000, body


def test_g221_whole_numbers_may_have_a_decimal_point(call):
    for body in [b'{"limit": 2.0, "offset": 1e0}', b'{"sort": {"startDate": -1.0}}', b'{"limit": 20E-1}']:
        assert call("POST", SEARCH, body).status == 200, body


def test_g221_messages_show_numbers_as_json(call):
    for body, shown in [
        (b'{"limit": 2.5}', "/limit: 2.5 is not allowed"),
        (b'{"sort": {"startDate": -1.5}}', "/sort: -1.5 is not a direction"),
        (b'{"limit": [1.0]}', "/limit: [1.0] is not allowed"),
        (b'{"limit": 1e999999999}', "/limit: 1e999999999 is not allowed"),
    ]:
        assert shown in call("POST", SEARCH, body).json()["message"], (body, shown)


def test_g188_64_levels_are_allowed(call):
    deep = {"unknown": 1}
    for _ in range(63):
        deep = {"unknown": deep}
    assert call("POST", SEARCH, deep).status == 200
    assert call("POST", SEARCH, {"unknown": deep}).status == 400


def test_g044_of_two_equal_keys_the_last_counts(call):
    assert call("POST", SEARCH, b'{"limit": -1, "limit": 1}').json()["limit"] == 1


def test_g136_a_body_of_32_mebibytes_is_allowed_and_one_more_byte_is_not(call):
    limit = 32 << 20
    assert call("POST", SEARCH, b"{}" + b" " * (limit - 2)).status == 200
    reply = call("POST", SEARCH, b"{}" + b" " * (limit - 1))
    assert reply.status == 413
    assert reply.json()["statusCode"] == 413


def test_g136_also_when_the_length_is_not_announced(call):
    def endless():
        for _ in range(40):
            yield b" " * (1 << 20)

    assert call("POST", SEARCH, endless()).status == 413


def raw(call, *fields):
    """Send a search of which only the head comes, and return how its answer begins."""
    address = urlsplit(call.url)
    head = "".join(f"{field}\r\n" for field in (f"POST {SEARCH} HTTP/1.1", "Host: a", *fields))
    with socket.create_connection((address.hostname, address.port), timeout=TIMEOUT) as connection:
        connection.sendall(f"{head}\r\n".encode())
        return connection.recv(12).decode()


def test_g136_a_length_that_is_announced_is_refused_at_once(call):
    token = f"Authorization: Bearer {call.token}"
    assert raw(call, token, f"Content-Length: {(32 << 20) + 1}") == "HTTP/1.1 413"
    assert raw(call, token, "Content-Length: 99999999999999999999999") == "HTTP/1.1 400"
    assert raw(call, token, "Content-Length: -1") == "HTTP/1.1 400"


def test_two_tokens_are_no_token(call):
    token = f"Authorization: Bearer {call.token}"
    assert raw(call, token, "Content-Length: 0") == "HTTP/1.1 200"
    assert raw(call, token, token, "Content-Length: 0") == "HTTP/1.1 401"


def test_a_failure_inside_is_told_to_the_log_alone(call, home, caplog):
    """A file that is no project: its path, and what DuckDB says, are nobody's business."""
    (home / "gone-shop.duckdb").write_bytes(b"no database" * 1_000)
    try:
        reply = call("GET", "/api/v1/projects/gone-shop/nodes", X_Request_Id="find-me")
    finally:
        (home / "gone-shop.duckdb").unlink()
    assert reply.status >= 400
    assert str(home) not in reply.content.decode()
    assert "duckdb" not in reply.content.decode().lower()
    assert any("find-me" in record.getMessage() for record in caplog.records)


def test_what_nobody_thought_of_is_told_to_the_log_alone(admin, home, caplog):
    """A project without one of its tables, which no code expects."""
    path = home / "broken-shop.duckdb"
    Service.open("broken-shop", path).close()
    with duckdb.connect(path) as connection:
        connection.execute("DROP TABLE nodes")
    reply = admin("GET", "/api/v1/projects/broken-shop/nodes", X_Request_Id="find-me")
    assert reply.status == 500
    assert reply.json() == {
        "statusCode": 500,
        "message": "Internal server error",
        "error": "Internal Server Error",
        "requestId": "find-me",
    }
    (record,) = (each for each in caplog.records if each.levelname == "ERROR")
    assert "find-me" in record.getMessage()
    assert "nodes" in str(record.exc_info[1])
    assert (
        admin("GET", "/api/v1/projects/broken-shop/nodes", Accept="application/problem+json").json()["status"]
        == 500
    )


@pytest.mark.large
@pytest.mark.slow
def test_many_may_ask_at_once(call):
    def ask(number):
        return call("POST", SEARCH, {"limit": 1, "offset": number % 2, "sort": {"startDate": 1}}).json()[
            "data"
        ][0]["_id"]

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(ask, range(24)))
    assert answers == [hex_id(1), hex_id(2)] * 12


# -- request ids (G-184)


def test_g184_a_request_id_is_echoed_or_made(call):
    assert call("GET", NODES, X_Request_Id="abc-1.2_3").headers["X-Request-Id"] == "abc-1.2_3"
    made = {call("GET", NODES).headers["X-Request-Id"] for _ in range(3)}
    assert len(made) == 3
    for odd in ("a b", "x" * 129, "é", "<script>", "a;b", ""):
        echoed = call("GET", NODES, X_Request_Id=odd.encode()).headers["X-Request-Id"]
        assert re.fullmatch("[0-9a-f-]{36}", echoed), odd


# -- methods and paths (G-033 to G-035, R120 to R125, R325)


def test_g034_head_is_get_without_its_body(call):
    for path in (
        NODES,
        "/api/openapi.json",
        "/health/live",
        f"/api/v1/projects/shop/interactions/{hex_id(1)}",
    ):
        got, head = call("GET", path), call("HEAD", path)
        assert (head.status, head.content) == (200, b"")
        assert head.headers["Content-Length"] == got.headers["Content-Length"] == str(len(got.content))
    assert call("HEAD", "/api/v1/projects/shop/interactions/nonsense").status == 400


def test_g034_a_preflight_needs_no_token(anyone):
    reply = anyone(
        "OPTIONS", "/api/v1/events", Origin="https://shop.example", Access_Control_Request_Method="POST"
    )
    assert (reply.status, reply.content) == (204, b"")
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert reply.headers["Access-Control-Allow-Methods"] == "OPTIONS, POST"
    assert "Authorization" in reply.headers["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in reply.headers


def test_a_browser_may_read_answers_and_errors(call, anyone):
    for reply in (call("GET", NODES), anyone("GET", NODES), anyone("GET", "/nowhere")):
        assert reply.headers["Access-Control-Allow-Origin"] == "*"
        assert "X-Request-Id" in reply.headers["Access-Control-Expose-Headers"]


def test_g033_g034_other_methods_are_told_what_is_allowed(call):
    for method, path, allowed in [
        ("GET", SEARCH, "OPTIONS, POST"),
        ("HEAD", SEARCH, "OPTIONS, POST"),
        ("DELETE", NODES, "GET, HEAD, OPTIONS"),
        ("POST", f"/api/v1/projects/shop/events/{'0' * 32}/states/won", None),
        ("DELETE", f"/api/v1/projects/shop/events/{'0' * 32}/states/won", "OPTIONS, PATCH, POST, PUT"),
        ("DELETE", "/api/v1/projects/shop/custom-ads/ads/campaigns/1", "GET, HEAD, OPTIONS, PATCH, PUT"),
        ("PUT", "/api/v1/projects/shop/custom-ads/ads/campaigns/1", None),
        ("PATCH", "/api/v1/events", "OPTIONS, POST"),
        ("POST", "/health/live", "GET, HEAD, OPTIONS"),
        ("TRACE", "/api/openapi.json", "GET, HEAD, OPTIONS"),
    ]:
        reply = call(method, path)
        if allowed is None:
            assert reply.status not in (404, 405), (method, path)
        else:
            assert (reply.status, reply.headers["Allow"]) == (405, allowed), (method, path)


def test_g035_g213_other_paths_are_not_found_and_lead_nowhere(call):
    for path in [
        f"{NODES}/",
        f"{SEARCH}/",
        "/api/v1/projects//nodes",
        "//api/v1/projects/shop/nodes",
        NODES.replace("nodes", "Nodes"),
        NODES.replace("api", "API"),
        "/api/v2/projects/shop/nodes",
        "/api/v2/projects/shop/interactions/search",
        "/api/v3/projects/shop/nodes",
        "/projects/shop/nodes",
        "/api/v1",
        "/",
        "/api/openapi.json/",
        "/health",
        "/oidc/token",
        "/api/v1/oidc/token",
        "/api/v1/projects/shop/%2E%2E/shop/nodes",
    ]:
        for method in ("GET", "POST"):
            reply = call(method, path, b"{}" if method == "POST" else None)
            assert reply.status == 404, path
            assert "Location" not in reply.headers, path


def test_r121_users_are_searched_under_v2_alone(call):
    assert call("POST", "/api/v2/projects/shop/users/search", {"fields": []}).status not in (404, 405)
    assert call("POST", "/api/v1/projects/shop/users/search", {"fields": []}).status == 405


def test_r120_r122_to_r124_every_operation_is_found_at_its_path():
    for name in [name for name, each in OPERATIONS.items() if each.path]:
        from support.http_caller import path_of

        operation = OPERATIONS[name]
        operations, values = Routes(each for each in OPERATIONS.values() if each.path).find(
            path_of(operation).encode()
        )
        for method in (operation.method, *operation.synonyms):
            assert operations[method] is operation, name
        assert len(values) == operation.path.count("{"), name


def test_a_plus_in_a_date_of_a_query_may_come_as_it_is(call):
    path = "/api/v1/projects/shop/trashed-events?since=2025-01-01T02:00:00+02:00&until=2025-02-01T00:00:00%2B00:00"
    assert call("GET", path).status != 400
    assert call("GET", f"{path}&limit=x").status == 400


def test_a_query_has_a_hundred_parameters_at_most(call):
    assert call("GET", f"{NODES}?" + "&".join(f"a{number}=1" for number in range(200))).status == 400


# -- pages and health (G-214, G-215)


def test_g214_the_description_is_valid_openapi(anyone):
    reply = anyone("GET", "/api/openapi.json")
    assert reply.headers["Content-Type"] == "application/json"
    document = reply.json()
    validate(document)
    paths = {path for path in document["paths"] if not path.startswith("/auth")}
    assert SEARCH.replace("shop", "{projectId}") in paths


def test_g215_health(anyone):
    assert anyone("GET", "/health/live").json() == {"status": "live"}
    reply = anyone("GET", "/health/ready")
    assert (reply.status, reply.json()) == (200, {"status": "ready"})


def test_every_answer_forbids_guessing_its_kind(call, anyone):
    for reply in (call("GET", NODES), anyone("GET", "/api/openapi.json"), anyone("GET", "/nowhere")):
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "Server" not in reply.headers


def test_a_connection_is_kept_for_the_next_request(call):
    connection = http.client.HTTPConnection(urlsplit(call.url).netloc, timeout=TIMEOUT)
    fields = {"Authorization": f"Bearer {call.token}"}
    # An error before the body is read leaves the connection in order.
    for path, body, status in ((SEARCH, b"{}", 200), ("/nowhere", b"x" * 100_000, 404), (SEARCH, b"{}", 200)):
        connection.request("POST", path, body, fields)
        response = connection.getresponse()
        response.read()
        assert response.status == status
    connection.close()


def test_one_line_per_request_is_logged(call, caplog):
    caplog.set_level(logging.INFO, logger="attrib_ds.service.http")
    call("GET", f"{NODES}?limit=1&search=c4n4ry", X_Request_Id="find-me")
    assert json.loads(call("GET", NODES).content)["total"] == 2
    lines = [record.getMessage() for record in caplog.records if "find-me" in record.getMessage()]
    assert len(lines) == 1
    assert re.fullmatch(rf"find-me GET {NODES} 200 \d+ ms", lines[0])


PROBE = "/api/v1/projects/shop/nodes"


@pytest.mark.slow
def test_a_token_answer_is_not_stored_anywhere(anyone, key):
    for reply in (ask_token(anyone, key), exchange(anyone)):
        assert reply.headers["Cache-Control"] == "no-store"


def test_r303_every_name_of_this_machine_is_an_audience(anyone, key):
    port = anyone.url.rpartition(":")[2]
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert ask_token(anyone, key, aud=f"http://{host}:{port}/auth/oidc/token").status == 200
    assert ask_token(anyone, key, aud=f"http://attribution.example:{port}/auth/oidc/token").status == 400


def test_r303_the_header_host_does_not_make_an_audience(anyone, key):
    assertion = signed(
        header_of(key),
        payload_of(key, time.time(), aud="http://evil.example/auth/oidc/token"),
        key.privateKey,
    )
    form = f"grant_type={GRANT}&client_id={key.clientId}&assertion={assertion}"
    reply = anyone("POST", "/auth/oidc/token", form, Content_Type=FORM, Host="evil.example")
    assert reply.status == 400


def test_an_unknown_client_is_told_by_401(anyone, key):
    reply = exchange(anyone, client_id="somebody", assertion="a.b.c")
    assert reply.status == 401
    assert reply.json()["error"] == "invalid_client"
    assert "WWW-Authenticate" in reply.headers


def test_a_request_of_another_form_is_refused(anyone):
    for body, content_type, error in [
        ("", FORM, "invalid_request"),
        (f"grant_type={GRANT}", FORM, "invalid_request"),
        (f"grant_type={GRANT}&client_id=a", FORM, "invalid_request"),
        (f"grant_type={GRANT}&client_id=a&assertion=", FORM, "invalid_request"),
        ("client_id=a&assertion=b", FORM, "invalid_request"),
        ("grant_type=client_credentials&client_id=a&assertion=b", FORM, "unsupported_grant_type"),
        (f"grant_type={GRANT}&client_id=a&assertion=b&client_id=c", FORM, "invalid_request"),
        (f"grant_type={GRANT}&client_id=%ff&assertion=b", FORM, "invalid_request"),
        (b"\xff\xfe", FORM, "invalid_request"),
        ("&".join(f"a{number}=1" for number in range(50)), FORM, "invalid_request"),
        (f"grant_type={GRANT}&client_id=a&assertion=b", "application/json", "invalid_request"),
        (f"grant_type={GRANT}&client_id=a&assertion=b", "text/plain", "invalid_request"),
        ({"grant_type": GRANT, "client_id": "a", "assertion": "b"}, "application/json", "invalid_request"),
    ]:
        reply = anyone("POST", "/auth/oidc/token", body, Content_Type=content_type)
        assert (reply.status, reply.json()["error"]) == (400, error), (body, content_type)
        assert reply.headers["Cache-Control"] == "no-store", (body, content_type)


def test_the_content_type_may_name_a_charset(anyone, key):
    form = f"grant_type={GRANT}&client_id=somebody&assertion=b"
    reply = anyone("POST", "/auth/oidc/token", form, Content_Type=f"{FORM.title()}; charset=UTF-8")
    assert reply.json()["error"] == "invalid_client"


def test_other_methods_are_told_what_is_allowed(anyone):
    reply = anyone("GET", "/auth/oidc/token")
    assert (reply.status, reply.headers["Allow"]) == (405, "OPTIONS, POST")


def test_revoking_a_key_ends_its_tokens_while_the_server_runs(server, home):
    key = create_key(home, home / "short.json", projects=["shop"])
    call = Caller(server, token_of(server, key))
    assert call("GET", PROBE).status == 200
    with closing(Accounts.open(home)) as accounts:
        accounts.revoke_key(key.privateKeyId)
    assert call("GET", PROBE).status == 401
    assert ask_token(Caller(server), key).json()["error"] == "invalid_grant"


def test_r313_what_is_no_token_is_refused(call, anyone, key):
    basic = base64.b64encode(f"{key.clientId}:{call.token}".encode()).decode()
    for field in ("", "Bearer", "Bearer ", f"Basic {basic}", call.token, f"Bearer {call.token}x",
                  f"Bearer {call.token} {call.token}", f"Token {call.token}", "Bearer " + "x" * 5_000):  # fmt: skip
        reply = anyone("GET", PROBE, Authorization=field)
        assert reply.status == 401, field
        assert reply.json() == {"statusCode": 401, "message": "Unauthorized"}
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_token_in_the_query_is_not_taken(call, anyone):
    assert anyone("GET", f"{PROBE}?access_token={call.token}").status == 401


def test_secrets_are_in_no_log_and_no_answer(server, key, home, caplog):
    caplog.set_level(logging.DEBUG)
    anyone = Caller(server)
    canary = "c4n4ry-c4n4ry-c4n4ry"
    assertion = signed(
        header_of(key), payload_of(key, time.time(), aud=f"{server}/auth/oidc/token"), key.privateKey
    )
    token = exchange(anyone, client_id=key.clientId, assertion=assertion).json()["access_token"]
    call = Caller(server, token)
    replies = [
        exchange(anyone, client_id=key.clientId, assertion=f"{canary}.{canary}.{canary}"),
        exchange(anyone, client_id=key.clientId, assertion=assertion[:-3] + "AAA"),
        anyone("POST", "/auth/oidc/token", f"assertion={canary}", Content_Type=FORM),
        anyone("POST", "/auth/oidc/token", canary, Content_Type="text/plain"),
        anyone("GET", PROBE, Authorization=f"Bearer {canary}"),
        call("GET", "/api/v1/projects/nowhere/nodes"),
        call("GET", f"{PROBE}?limit=-1"),
        call("POST", "/api/v1/projects/shop/interactions/search", b"[1"),
        call("GET", "/api/v1/projects/shop/trashed-events"),
    ]
    secrets = [canary, token, assertion, assertion.split(".")[2], key.privateKey.splitlines()[2]]
    # One line per request is logged, so this does look at something.
    logged = caplog.text + "".join(str(vars(record)) for record in caplog.records)
    assert logged.count("/auth/oidc/token") >= 5
    for secret in secrets:
        assert secret not in logged
        for reply in replies:
            assert secret not in reply.content.decode()
            assert secret not in str(reply.headers)


ARROW = "application/vnd.apache.arrow.stream"


def test_who_names_a_form_gets_it_unless_json_is_liked_better():
    for accept, expected in [
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
    ]:
        assert prefers(accept, ARROW) is expected, (accept, expected)


def test_r323_what_went_wrong_inside_is_not_told():
    for kind in [Unavailable, ProjectInUse, ServiceFailure, RuntimeError, Forbidden]:
        secret = "path: '/home/anna/shop.duckdb'; SELECT 1"
        failure = to_http_error(kind(secret))
        assert failure.message, kind
        assert secret not in failure.message, kind
        assert secret not in str(failure.headers), kind


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


@pytest.mark.parametrize(("timeout", "left"), [(0, 1), (TIMEOUT, 0)])
def test_projects_that_cannot_be_moved_in_time_keep_their_queues(tmp_path, timeout, left):
    """All projects have one limit of time; what is left is moved when a project is opened again."""
    names, projects = ("boots", "shoes"), Projects(tmp_path)
    for name in names:
        Service.open(name, tmp_path / f"{name}.duckdb").close()
        hit = read_hit({"projectId": name, "pageUrl": "https://shop.example/"})
        record = pending_hit(hit, id=uuid(1), tracker_id="c-1", user_agent="")
        projects.get(name).start_hit(record).result(TIMEOUT)
    projects.close(timeout=timeout)
    for name in names:
        assert count_waiting(tmp_path / f"{name}.duckdb") == left
        with closing(Service.open(name, tmp_path / f"{name}.duckdb")) as service:
            service._hits.settle()
            with service._store.cursor() as cursor:
                assert cursor.execute("SELECT count(*) FROM hits").fetchall() == [(1,)]


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


def test_values_have_their_form():
    for operation, value, status, content in [
        ("create_outlay", "c1", 200, b'{"id":"c1"}'),
        ("update_campaign", 1, 200, b'{"modifiedCount":1}'),
        ("create_event", "0194-…", 200, '"0194-…"'.encode()),
    ]:
        response = responses.with_value(OPERATIONS[operation], None, Answer(value=value))
        assert (response.status_code, response.body) == (status, content), (operation, value)
        assert response.headers["Content-Type"] == "application/json", (operation, value)


def test_g120_a_file_has_its_name_and_kind():
    for ending, media in [
        ("csv", "text/csv; charset=utf-8; header=present"),
        ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ]:
        operation = OPERATIONS["export_users"]
        asked = build(
            operation,
            project_id="shop",
            path='çay "1"',
            columns=["eventCount"],
            format=ending,
            transformers=[],
        )
        response = responses.with_value(operation, asked, Answer(value=File(iter([b"a,b", b"\r\n"]))))
        assert response.body == b"a,b\r\n", (ending, media)
        assert response.headers["Content-Type"] == media, (ending, media)
        assert response.headers["Content-Disposition"] == (
            f"attachment; filename=\"_ay _1_.{ending}\"; filename*=UTF-8''%C3%A7ay%20%221%22.{ending}"
        ), (ending, media)
