"""Tokens: asked for as the specification says, once for all threads, and renewed in time."""

import threading
from concurrent.futures import ThreadPoolExecutor

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from support.scripted_service import RESET, TOKEN, TOKEN_PATH, Reply, page

from attrib_ds import errors
from attrib_ds.contract import OPERATIONS, build
from attrib_ds.transports.http.session import RetryPolicy

UNAUTHORIZED = Reply(401, {"statusCode": 401, "message": "Unauthorized"})


def search(shop):
    return shop.send("search_interactions", limit=1).total


def sent(service):
    return [each.headers.get("Authorization") for each in service.asked]


def test_the_assertion_is_the_one_of_the_specification(shop, service, key, time):
    service.script = [page()]
    search(shop)
    (asked,) = service.asked_tokens
    assert asked.method == "POST"
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert "Authorization" not in asked.headers
    form = asked.form
    assert sorted(form) == ["assertion", "client_id", "grant_type"]
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert form["client_id"] == "client-1"
    assert jwt.get_unverified_header(form["assertion"]) == {"alg": "RS256", "kid": "key-1", "typ": "JWT"}
    public = load_pem_private_key(key["privateKey"].encode(), None).public_key()
    now = int(time.seconds + time.ahead)
    ignored = {"verify_aud": False, "verify_exp": False, "verify_iat": False}
    assert jwt.decode(form["assertion"], public, algorithms=["RS256"], options=ignored) == {
        "iss": "client-1",
        "sub": "robot@shop.example",
        "aud": service.url + TOKEN_PATH,
        "scope": "full_access",
        "iat": now - 10,
        "exp": now + 300,
    }


@pytest.mark.slow
def test_sixteen_threads_ask_for_one_token(shop, service):
    together = threading.Barrier(16)
    is_slow = threading.Event()
    service.before_token = lambda: is_slow.wait(0.3)
    service.script = [page()]

    def work(_):
        together.wait(30)
        return search(shop)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(16))) == [0] * 16
    assert len(service.asked_tokens) == 1
    assert sent(service) == [f"Bearer {TOKEN}-1"] * 16


@pytest.mark.slow
def test_sixteen_threads_share_a_failure_each_with_an_error_of_its_own(shop, service):
    together = threading.Barrier(16)
    is_slow = threading.Event()
    service.before_token = lambda: is_slow.wait(0.3)
    service.tokens = [Reply(400, {"error": "invalid_grant", "error_description": "revoked"})] * 16

    def work(_):
        together.wait(30)
        with pytest.raises(errors.Unauthorized, match="invalid_grant: revoked") as caught:
            search(shop)
        return caught.value

    with ThreadPoolExecutor(16) as pool:
        caught = list(pool.map(work, range(16)))
    assert len(service.asked_tokens) == 1
    assert len({id(each) for each in caught}) == 16
    assert not service.asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("life", "margin"),
    [(3_600, 60), (300, 30), (10, 1), ("soon", 30), (None, 30), (-5, 30), (True, 30), (3_600.0, 60)],
)
def test_a_token_is_renewed_with_a_margin(shop, service, time, life, margin):
    service.token_seconds = life
    service.script = [page()]
    search(shop)
    lives = life if isinstance(life, int | float) and life > 1 else 300
    time.seconds += lives - margin - 0.5
    search(shop)
    assert len(service.asked_tokens) == 1
    time.seconds += 1
    search(shop)
    assert len(service.asked_tokens) == 2
    assert sent(service)[-1] == f"Bearer {TOKEN}-2"


def test_a_refused_token_is_renewed_once(shop, service):
    service.script = [page(), UNAUTHORIZED, page()]
    search(shop)
    assert search(shop) == 0
    assert sent(service) == [f"Bearer {TOKEN}-1", f"Bearer {TOKEN}-1", f"Bearer {TOKEN}-2"]


def test_a_token_that_is_refused_again_is_an_error(shop, service):
    service.script = [page(), UNAUTHORIZED]
    search(shop)
    with pytest.raises(errors.Unauthorized, match="the access token was rejected; check that the key is not"):
        search(shop)
    assert len(service.asked_tokens) == 2
    assert len(service.asked) == 3


@pytest.mark.slow
def test_many_threads_that_are_refused_together_renew_once(shop, service):
    together = threading.Barrier(8)

    def answer(asked):
        if asked.headers["Authorization"] == f"Bearer {TOKEN}-1":
            together.wait(30)
            return UNAUTHORIZED
        return page()

    service.script = [answer]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: search(shop), range(8))) == [0] * 8
    assert len(service.asked_tokens) == 2


def test_without_a_key_events_are_sent_and_nothing_else(open_shop, service):
    shop = open_shop(with_key=False)
    service.script = [Reply(body="00000000-0000-7000-8000-000000000001")]
    event = {"event_type": "order", "nonce": "1", "data": {}}
    assert shop.send("create_event", **event).value == "00000000-0000-7000-8000-000000000001"
    assert sent(service) == [None]
    with pytest.raises(
        errors.Unauthorized, match=r"search_interactions: requires a service-account key; .* ATTRIB_DS_KEY"
    ):
        search(shop)
    assert len(service.asked) == 1
    assert not service.asked_tokens


def test_a_clock_that_is_wrong_is_set_right_by_the_service(shop, service, time):
    service.date = time.seconds + time.ahead + 7_200
    service.tokens = [
        Reply(400, {"error": "invalid_grant", "error_description": "the assertion has expired"})
    ]
    service.script = [page()]
    assert search(shop) == 0
    first, second = (
        jwt.decode(each.form["assertion"], options={"verify_signature": False})
        for each in service.asked_tokens
    )
    assert second["exp"] - first["exp"] == pytest.approx(7_200, abs=2)


def test_a_clock_that_is_right_is_no_reason_to_ask_again(shop, service, time):
    service.date = time.seconds + time.ahead + 2
    service.tokens = [Reply(400, {"error": "invalid_grant", "error_description": "has a wrong signature"})]
    with pytest.raises(errors.Unauthorized, match=r"wrong signature; .* not revoked, that auth_url="):
        search(shop)
    assert len(service.asked_tokens) == 1


@pytest.mark.parametrize(
    "trouble", [RESET, Reply(503, {}, {"Retry-After": "3"}), Reply(429, {}), Reply(500, b"")]
)
def test_a_token_route_in_trouble_is_asked_again(shop, service, trouble):
    service.tokens = [trouble, trouble]
    service.script = [page()]
    assert search(shop) == 0
    assert len(service.asked_tokens) == 3


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (Reply(body={"token": "x"}), errors.ServiceFailure, "without an access_token; check auth_url"),
        (Reply(body={"access_token": "a b"}), errors.ServiceFailure, "without an access_token"),
        (Reply(body={"access_token": "a\r\nX-Evil: 1"}), errors.ServiceFailure, "without an access_token"),
        (Reply(body=b"<html>", media="text/html"), errors.ServiceFailure, "without an access_token"),
        (Reply(body=b""), errors.ServiceFailure, "without an access_token"),
        (
            Reply(body={"access_token": "x", "token_type": "mac"}),
            errors.ServiceFailure,
            "a token_type other than Bearer",
        ),
        (Reply(401, {"error": "invalid_client"}), errors.Unauthorized, "401: invalid_client"),
        (Reply(404, b"<h1>nothing</h1>", media="text/html"), errors.InvalidRequest, "404; check auth_url="),
        (
            Reply(302, b"", {"Location": "https://evil.example"}),
            errors.InvalidRequest,
            "302; check auth_url=",
        ),
    ],
)
def test_what_a_token_route_may_answer(shop, service, reply, kind, words):
    service.tokens = [reply] * 9
    with pytest.raises(kind, match=words):
        search(shop)
    assert len(service.asked_tokens) == 1
    assert not service.asked


def test_a_key_with_fewer_scopes_is_used_with_those_that_it_has(shop, service):
    service.tokens = [Reply(400, {"error": "invalid_scope"}), Reply(body={"access_token": "x"})]
    service.script = [Reply(401, {"message": "expired"}), page()]
    search(shop)
    asked = [
        jwt.decode(each.form["assertion"], options={"verify_signature": False}).get("scope")
        for each in service.asked_tokens
    ]
    # It is not tried again for the next token.
    assert asked == ["full_access", None, None]


def test_a_key_without_any_scope_is_refused(shop, service):
    service.tokens = [Reply(400, {"error": "invalid_scope"})] * 9
    with pytest.raises(errors.Unauthorized, match="grants no scope to this key"):
        search(shop)
    assert len(service.asked_tokens) == 2


def test_token_type_may_be_written_in_any_case(shop, service):
    service.tokens = [Reply(body={"access_token": "x", "token_type": "bearer", "expires_in": 60})]
    service.script = [page()]
    search(shop)
    assert sent(service) == ["Bearer x"]


def test_a_token_route_that_is_gone_is_tried_with_patience_and_not_squared(open_shop, service, time):
    shop = open_shop(retry_policy=RetryPolicy(attempts=3))
    service.tokens = [RESET] * 20
    with pytest.raises(errors.Unavailable):
        search(shop)
    assert len(service.asked_tokens) == 3


def test_the_token_goes_to_no_redirect(shop, service):
    service.script = [Reply(307, b"", {"Location": "https://evil.example/steal?x=1"})]
    operation = OPERATIONS["search_interactions"]
    with pytest.raises(
        errors.InvalidRequest, match=r"it has moved to https://evil.example/steal; pass that address"
    ):
        shop.transport.send(operation, build(operation, project_id="shop"))
    assert len(service.asked) == 1
