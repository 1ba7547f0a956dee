"""The token route over HTTP, by rule of the specification."""

import base64
import logging
import time
from contextlib import closing

import pytest
from support.http_caller import FORM, GRANT, Caller, ask_token, exchange, token_of
from support.signing import header_of, payload_of, signed

from attrib_ds.service.accounts import Accounts
from attrib_ds.service.accounts.accounts import create_key

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


@pytest.mark.parametrize(
    ("body", "content_type", "error"),
    [
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
    ],
)
def test_a_request_of_another_form_is_refused(anyone, body, content_type, error):
    reply = anyone("POST", "/auth/oidc/token", body, Content_Type=content_type)
    assert (reply.status, reply.json()["error"]) == (400, error)
    assert reply.headers["Cache-Control"] == "no-store"


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
