"""Service accounts, assertions and tokens (R299 to R316); all of it is about HTTP."""

import base64
import hashlib
import hmac
import json
import time

import pytest
from conformance.shop import PLACE, hex_id
from conformance.transports import OverHttp
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from support.http_caller import Caller, ask_token, exchange
from support.signing import base64url, header_of, payload_of, signed

from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.accounts import exchange as exchange_of
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.dispatch import EVENT_OPERATIONS

pytestmark = pytest.mark.http_only
#: The operations that the specification documents with a token.
DOCUMENTED = [
    "search_interactions",
    "get_interaction",
    "list_hits",
    "interaction_insights",
    "get_raw_event",
    "list_trashed_events",
    "event_insights",
    "update_event_state",
    "update_event_statistic",
    "get_event",
    "search_users",
    "get_user",
    "export_users",
    "list_user_events",
    "list_user_metrics",
    "list_event_types",
    "get_event_type",
]
OPEN = {"create_event", "create_event_sync", "exchange_token"}
NO_TOKEN = {"statusCode": 401, "message": "Unauthorized"}


@pytest.fixture(scope="module")
def anyone(http):
    """Call without a token."""
    return Caller(http.url)


@pytest.fixture(scope="module")
def other_key(http):
    """The key of another account, which may use no project of these tests."""
    return create_key(http.home, http.home / "other.json", projects=["nobodys-shop"])


@pytest.fixture
def assertion(anyone, key):
    """Return the header and payload of a good assertion, with changes; ``...`` leaves a member out."""

    def make(header=(), **claims):
        head = header_of(key, **dict(header))
        kept = {name: value for name, value in head.items() if value is not ...}
        return kept, payload_of(key, time.time(), **{"aud": f"{anyone.url}/auth/oidc/token", **claims})

    return make


def ask(anyone, key, text, **parameters):
    return exchange(anyone, **{"client_id": key.clientId, "assertion": text, **parameters})


def private(key):
    return serialization.load_pem_private_key(key.privateKey.encode(), password=None)


def sealed(header, payload, sign):
    """Return a JWT whose signature another way makes."""
    text = ".".join(base64url(json.dumps(part).encode()) for part in (header, payload))
    return f"{text}.{base64url(sign(text.encode()))}"


def test_r299_the_header_is_kid_jwt_and_rs256(anyone, key, assertion):
    header, payload = assertion()
    assert header == {"kid": key.privateKeyId, "alg": "RS256", "typ": "JWT"}
    assert ask(anyone, key, signed(header, payload, key.privateKey)).status == 200
    for wrong in ({"typ": "JWS"}, {"typ": ...}, {"alg": ...}, {"kid": ...}, {"alg": "rs256"}, {"kid": 5}):
        header, payload = assertion(wrong)
        assert ask(anyone, key, signed(header, payload, key.privateKey)).status == 400, wrong


def test_r300_every_other_algorithm_is_refused(anyone, key, assertion):
    secret = private(key)
    public = secret.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
    curve = ec.generate_private_key(ec.SECP256R1())
    ways = {
        "none": lambda text: b"",
        "HS256": lambda text: hmac.new(public, text, hashlib.sha256).digest(),
        "RS512": lambda text: secret.sign(text, padding.PKCS1v15(), hashes.SHA512()),
        "PS256": lambda text: secret.sign(text, pss, hashes.SHA256()),
        "ES256": lambda text: curve.sign(text, ec.ECDSA(hashes.SHA256())),
    }
    for algorithm, sign in ways.items():
        reply = ask(anyone, key, sealed(*assertion({"alg": algorithm}), sign))
        assert (reply.status, reply.json()["error"]) == (400, "invalid_grant"), algorithm
        assert reply.json()["error_description"].startswith("the assertion")
        # Nor do they count where the header tells the right algorithm.
        assert ask(anyone, key, sealed(*assertion(), sign)).status == 400, algorithm


def test_r301_an_unknown_kid_or_that_of_another_account_is_refused(anyone, key, other_key, assertion):
    for kid in ("0" * 40, other_key.privateKeyId, ""):
        header, payload = assertion({"kid": kid})
        for signer in (key, other_key):
            reply = ask(anyone, key, signed(header, payload, signer.privateKey))
            assert (reply.status, reply.json()["error"]) == (400, "invalid_grant")


def test_r302_iss_and_sub_are_those_of_the_key(anyone, key, other_key, assertion):
    for wrong in (
        {"iss": other_key.clientId},
        {"sub": other_key.serviceAccountEmail},
        {"iss": key.serviceAccountEmail},
        {"sub": key.clientId},
        {"iss": [key.clientId]},
        {"sub": None},
    ):
        assert ask(anyone, key, signed(*assertion(**wrong), key.privateKey)).status == 400, wrong


def test_r303_aud_is_the_url_of_the_token_route(anyone, key, assertion):
    good = f"{anyone.url}/auth/oidc/token"
    assert ask(anyone, key, signed(*assertion(aud=good), key.privateKey)).status == 200
    for wrong in (
        anyone.url,
        f"{good}/",
        good.upper(),
        "https://example.com/auth/oidc/token",
        "",
        good + "?a=1",
    ):
        assert ask(anyone, key, signed(*assertion(aud=wrong), key.privateKey)).status == 400, wrong


def test_r304_an_expired_assertion_is_refused(anyone, key, assertion):
    now = int(time.time())
    assert ask(anyone, key, signed(*assertion(exp=now + 300), key.privateKey)).status == 200
    # In milliseconds it would end in the year 50,000; a minute is allowed for clocks.
    for wrong in (now - 3_600, now - 120, 0, (now + 300) * 1_000, str(now + 300), True):
        assert ask(anyone, key, signed(*assertion(exp=wrong), key.privateKey)).status == 400, wrong


@pytest.mark.parametrize("missing", ["exp", "iss", "sub", "aud"])
def test_r305_four_claims_are_needed(anyone, key, assertion, missing):
    header, payload = assertion(**{missing: ...})
    assert missing not in payload
    assert ask(anyone, key, signed(header, payload, key.privateKey)).status == 400
    assert ask(anyone, key, signed(*assertion(**{missing: None}), key.privateKey)).status == 400


def test_r306_parts_are_base64url_without_padding(anyone, key, assertion):
    good = signed(*assertion(), key.privateKey)
    assert "=" not in good
    assert ask(anyone, key, good).status == 200
    for wrong in (
        good + "=",
        good + "==",
        good.replace(".", "=."),
        good.replace(".", ". "),
        good + ".",
        good[:-1],
    ):
        assert ask(anyone, key, wrong).status == 400
    parts = good.split(".")
    standard = base64.b64encode(base64.urlsafe_b64decode(parts[2] + "==")).decode().rstrip("=")
    if standard != parts[2]:
        assert ask(anyone, key, f"{parts[0]}.{parts[1]}.{standard}").status == 400


def test_r306_another_key_does_not_sign(anyone, key, assertion):
    stranger = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    text = sealed(*assertion(), lambda text: stranger.sign(text, padding.PKCS1v15(), hashes.SHA256()))
    assert ask(anyone, key, text).status == 400


def test_r307_any_changed_character_is_refused(http, anyone, key, assertion):
    """Every character is tried without HTTP, some with it."""
    good = signed(*assertion(), key.privateKey)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    # The next letter differs in the lowest bits, those that a last character may not use.
    changed = [
        good[:at] + alphabet[(alphabet.index(letter) + 1) % 64] + good[at + 1 :]
        for at, letter in enumerate(good)
        if letter != "."
    ]
    for text in changed[:: len(changed) // 12]:
        assert ask(anyone, key, text).status == 400
    accounts = Accounts.open(http.home)
    try:
        for text in changed:
            with pytest.raises(Exception, match="."):
                exchange_of(
                    accounts,
                    client_id=key.clientId,
                    assertion=text,
                    audiences={f"{anyone.url}/auth/oidc/token"},
                )
    finally:
        accounts.close()


@pytest.mark.parametrize("missing", ["grant_type", "client_id", "assertion"])
def test_r308_the_exchange_is_a_form_with_three_fields(anyone, key, assertion, missing):
    from urllib.parse import urlencode

    grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    form = {"grant_type": grant, "client_id": key.clientId, "assertion": signed(*assertion(), key.privateKey)}
    path, kind = "/auth/oidc/token", "application/x-www-form-urlencoded"
    assert anyone("POST", path, urlencode(form), Content_Type=kind).status == 200
    assert anyone("POST", path, json.dumps(form), Content_Type="application/json").status == 400
    wrong = {**form, "grant_type": "client_credentials"}
    assert (
        anyone("POST", path, urlencode(wrong), Content_Type=kind).json()["error"] == "unsupported_grant_type"
    )
    del form[missing]
    assert anyone("POST", path, urlencode(form), Content_Type=kind).json()["error"] == "invalid_request"


def test_r309_r324_the_answer_is_a_bearer_token_for_an_hour(anyone, key):
    reply = ask_token(anyone, key)
    assert reply.headers["Content-Type"] == "application/json"
    body = reply.json()
    assert (body["token_type"], body["expires_in"], body["scope"]) == ("Bearer", 3_600, "full_access")
    assert type(body["expires_in"]) is int
    assert type(body["access_token"]) is str


def test_r310_the_client_must_be_the_issuer(anyone, key, other_key, assertion):
    text = signed(*assertion(), key.privateKey)
    reply = ask(anyone, other_key, text)
    assert (reply.status, reply.json()["error"]) == (400, "invalid_grant")
    assert ask(anyone, key, text, client_id="nobody").status == 401


def test_r311_a_token_expires(http, key, project):
    """A token that was given an hour and a second ago, by an account of its own clock."""
    tokens = {}
    for seconds in (3_590, 3_601):
        then = time.time() - seconds
        accounts = Accounts.open(http.home, clock=lambda then=then: then)
        try:
            claims = {"aud": "here", "exp": int(then) + 300}
            text = signed(header_of(key), payload_of(key, then, **claims), key.privateKey)
            given = exchange_of(accounts, client_id=key.clientId, assertion=text, audiences={"here"})
        finally:
            accounts.close()
        tokens[seconds] = http.request("GET", f"/api/v1/projects/{project.id}/event-types", token=given.text)
    assert {seconds: reply.status for seconds, reply in tokens.items()} == {3_590: 200, 3_601: 401}
    assert "invalid_token" in tokens[3_601].headers["WWW-Authenticate"]


def test_r312_the_scheme_is_bearer_in_any_case(http, project):
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"]:
        headers = {"Authorization": f"{scheme} {http.token}"}
        path = f"/api/v1/projects/{project.id}/event-types"
        assert http.request("GET", path, headers=headers, token=None).status == 200, scheme
        for wrong in (http.token, f"Token {http.token}", f"Bearer{http.token}", "Bearer"):
            assert http.request("GET", path, headers={"Authorization": wrong}, token=None).status == 401, (
                scheme
            )


def target(name, project_id):
    operation = OPERATIONS[name]
    return operation.method, BASES[operation.base] + operation.path.format_map(
        {**PLACE, "projectId": project_id}
    )


def test_r313_these_operations_need_a_token(http, project):
    assert set(DOCUMENTED) <= {name for name, item in OPERATIONS.items() if item.token}
    for name, operation in OPERATIONS.items():
        if operation.path and operation.token:
            # Before anything else is looked at.
            for project_id, body in ((project.id, b"{}"), ("NOT-ONE", b"no json")):
                reply = http.request(*target(name, project_id), body=body, token=None)
                assert (reply.status, reply.body) == (401, NO_TOKEN), name


def test_r314_an_assertion_is_not_accepted_as_a_token(http, project, assertion, key):
    text = signed(*assertion(), key.privateKey)
    assert http.request("GET", f"/api/v1/projects/{project.id}/event-types", token=text).status == 401


def test_r315_without_rights_everything_is_403(http, anyone, other_key, project):
    """The body is not even JSON; the project of another one exists, the other does not."""
    token = ask_token(anyone, other_key).json()["access_token"]
    stranger = OverHttp(http.home, http.url, token)
    for name, operation in OPERATIONS.items():
        if "{projectId}" in operation.path:
            for project_id in (project.id, "never-made"):
                method, path = target(name, project_id)
                assert stranger.request(method, path, body=b"no json").status == 403, (name, project_id)
    for name in EVENT_OPERATIONS & {"create_event", "create_event_sync"}:
        body = {"projectId": project.id, "eventType": "order", "nonce": "n", "data": {}}
        assert stranger.request(*target(name, project.id), body=body).status == 403


def test_r316_the_key_file_is_json_with_four_members(http, key):
    shown = json.loads((http.home / "key.json").read_text())
    assert set(shown) == {"clientId", "serviceAccountEmail", "privateKeyId", "privateKey"}
    assert shown["privateKey"].startswith("-----BEGIN PRIVATE KEY-----")
    assert private(key).key_size >= 2_048
    assert hex_id(0) not in shown["privateKeyId"]
