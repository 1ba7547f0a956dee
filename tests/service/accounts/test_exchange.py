"""The attacks on the token exchange, by rule of the specification."""

import itertools
import json

import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from support.signing import NOON, TOKEN_URL, base64url, header_of, payload_of, signed

from attrib_ds.service.accounts import OAuthError, exchange


@pytest.fixture
def clock(shared_clock):
    yield shared_clock
    shared_clock.now = NOON


@pytest.fixture
def accounts(shared_accounts):
    return shared_accounts


@pytest.fixture
def key(shared_key):
    return shared_key


@pytest.fixture
def refusal(accounts, key):
    """Give back why an assertion is refused."""

    def attempt(assertion, client_id=None):
        with pytest.raises(OAuthError) as caught:
            exchange(
                accounts, client_id=client_id or key.clientId, assertion=assertion, audiences=[TOKEN_URL]
            )
        return f"{caught.value.code}: {caught.value.description}"

    return attempt


@pytest.fixture
def take(accounts, key):
    def attempt(assertion):
        return exchange(accounts, client_id=key.clientId, assertion=assertion, audiences=[TOKEN_URL])

    return attempt


@pytest.fixture
def sign(key, clock):
    def build(header=None, **claims):
        return signed(header or header_of(key), payload_of(key, clock.now, **claims), key.privateKey)

    return build


def test_r299_r306_an_assertion_as_the_specification_writes_it_is_taken(take, sign, accounts):
    token = take(sign())
    assert token.seconds == 3600
    assert token.scopes == ("full_access",)
    assert accounts.find_access(token.text) is not None


def test_an_assertion_of_a_common_library_is_taken(take, key, clock):
    claims = payload_of(key, clock.now)
    assert take(jwt.encode(claims, key.privateKey, "RS256", headers={"kid": key.privateKeyId}))


def test_r299_another_typ_is_refused(refusal, sign, key):
    for typ in ("at+jwt", "jwt", None, ["JWT"]):
        assert "typ" in refusal(sign(header_of(key, typ=typ))), typ


def test_r300_alg_none_is_refused(refusal, key, clock):
    for algorithm in ("none", "None", "NONE", "", None):
        header = header_of(key, alg=algorithm)
        parts = [base64url(json.dumps(part).encode()) for part in (header, payload_of(key, clock.now))]
        for signature in ("", "AAAA"):
            assert refusal(".".join([*parts, signature])).startswith("invalid_grant")


def public_pem(key):
    private = serialization.load_pem_private_key(key.privateKey.encode(), password=None)
    return private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def test_r301_an_unknown_kid_is_refused(refusal, sign, key):
    for kid in ("0" * 40, "", 7, None, {"a": 1}, "../key", "' OR 1=1 --"):
        assert "kid" in refusal(sign(header_of(key, kid=kid))), kid


def test_r301_a_key_within_the_header_is_not_used(refusal, key, clock, other_key):
    jwk = json.loads(
        jwt.algorithms.RSAAlgorithm.to_jwk(serialization.load_pem_public_key(public_pem(other_key)))
    )
    header = header_of(key, jwk=jwk, jku="http://127.0.0.1:9/keys", x5u="http://127.0.0.1:9/keys")
    assert "signature" in refusal(signed(header, payload_of(key, clock.now), other_key.privateKey))


def test_r303_aud_must_be_the_token_url(refusal, sign):
    for audience in (
        "http://127.0.0.1:8000/auth",
        "https://127.0.0.1:8000/auth/oidc/token",
        [],
        [TOKEN_URL, "http://other.example/token"],
        [TOKEN_URL, TOKEN_URL],
        {TOKEN_URL: 1},
        7,
    ):
        assert "aud" in refusal(sign(aud=audience)), audience


def test_r303_aud_may_be_a_list_of_one(take, sign):
    assert take(sign(aud=[TOKEN_URL]))


def test_r304_the_times_have_a_tolerance_of_a_minute(take, refusal, sign, clock):
    now = int(clock.now)
    assert take(sign(exp=now - 59))
    assert "expired" in refusal(sign(exp=now - 60))
    assert take(sign(exp=now + 3_660))
    assert "ahead" in refusal(sign(exp=now + 3_661))
    assert "ahead" in refusal(sign(exp=(now + 300) * 1_000))  # milliseconds
    assert take(sign(exp=now + 0.5))


def test_r304_exp_is_a_number_of_seconds(refusal, sign):
    for exp in ("1750000300", True, None, [], {}, float("inf"), float("nan"), 10**400, -1):
        assert "exp" in refusal(sign(exp=exp)), exp


def test_iat_and_nbf_are_checked_when_present(take, refusal, sign, clock):
    now = int(clock.now)
    for name in ("iat", "nbf"):
        assert take(sign(**{name: now + 60}))
        assert name in refusal(sign(**{name: now + 61}))
        assert name in refusal(sign(**{name: "soon"}))


def test_r307_characters_put_in_or_left_out_are_refused(refusal, sign):
    assertion = sign()
    for position in range(0, len(assertion), 37):
        for other in ("!", " ", "\n", ".", "A", ""):
            changed = f"{assertion[:position]}{other}{assertion[position + (not other) :]}"
            assert refusal(changed).startswith("invalid_"), (position, other)


def test_what_is_no_jwt_is_refused(refusal):
    for assertion in (
        "",
        ".",
        "..",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "é.é.é",
        "\ud800.a.b",
        "A" * 20_000,
        "[" * 12_000,
    ):
        assert refusal(assertion).startswith("invalid_grant"), assertion[:9]


def test_parts_that_are_no_objects_are_refused(refusal, key, clock):
    private = serialization.load_pem_private_key(key.privateKey.encode(), password=None)
    for part, content in itertools.product((0, 1), ("[" * 5_000, "7", '"text"', "[]", "{", "", "\ud800")):
        parts = [json.dumps(header_of(key)), json.dumps(payload_of(key, clock.now))]
        parts[part] = content
        signing_input = ".".join(base64url(each.encode("utf-8", "surrogatepass")) for each in parts)
        signature = private.sign(signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())
        told = refusal(f"{signing_input}.{base64url(signature)}")
        assert told.startswith("invalid_grant"), (part, content[:9])


def test_a_header_that_changes_the_meaning_is_refused(refusal, sign, key):
    for header in ({"crit": ["exp"]}, {"b64": False, "crit": ["b64"]}):
        assert refusal(sign(header_of(key, **header))).startswith("invalid_grant"), header


def test_a_revoked_key_is_refused(refusal, accounts, clock):
    key = accounts.create(projects=["shop"])
    assertion = signed(header_of(key), payload_of(key, clock.now), key.privateKey)
    accounts.revoke_key(key.privateKeyId)
    assert refusal(assertion, key.clientId).startswith("invalid_grant")


def test_a_jti_counts_once(take, refusal, sign, clock):
    once = sign(jti="a")
    assert take(once)
    assert "before" in refusal(once)
    # For as long as the assertion is good, its tolerance included.
    clock.now += 359
    assert "before" in refusal(once)
    again = sign()
    assert take(again)
    assert take(again)


def test_a_jti_is_a_text(refusal, sign):
    for identifier in ("", 7, [], "x" * 257):
        assert "jti" in refusal(sign(jti=identifier)), identifier


def test_scopes_are_those_asked_for_and_granted(accounts, clock):
    keys = {}
    for held, asked, granted in (
        (["full_access"], ..., ("full_access",)),
        (["full_access"], "full_access", ("full_access",)),
        (["full_access"], "events:read users:read", ("events:read", "users:read")),
        (["events:read", "users:read"], ..., ("events:read", "users:read")),
        (["events:read", "users:read"], "users:read  users:read", ("users:read",)),
        (["events:read"], "full_access", None),
        (["events:read"], "events:write", None),
        (["full_access"], "nonsense", None),
        (["full_access"], "", None),
        (["full_access"], ["full_access"], None),
        (["full_access"], 7, None),
    ):
        if tuple(held) not in keys:
            keys[tuple(held)] = accounts.create(projects=["shop"], scopes=held)
        key = keys[tuple(held)]
        assertion = signed(header_of(key), payload_of(key, clock.now, scope=asked), key.privateKey)
        arguments = {"client_id": key.clientId, "assertion": assertion, "audiences": [TOKEN_URL]}
        if granted is None:
            with pytest.raises(OAuthError) as caught:
                exchange(accounts, **arguments)
            assert caught.value.code == "invalid_scope", (held, asked)
        else:
            assert exchange(accounts, **arguments).scopes == granted, (held, asked)


def test_no_refusal_repeats_what_came(refusal, sign, key):
    canary = "c4n4ry" * 5
    for assertion in (
        sign(iss=canary),
        sign(aud=canary),
        sign(exp=canary),
        sign(header_of(key, kid=canary)),
        sign(header_of(key, alg=canary)),
        f"{canary}.{canary}.{canary}",
    ):
        assert canary not in refusal(assertion)
