"""Key files, the tokens that are asked for with them, and that no key, assertion or token shows anywhere."""

import base64
import copy
import dataclasses
import io
import json
import logging
import pickle
import pprint
import sys
import threading
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.core.formatters import DisplayFormatter
from support.json_values import json_values
from support.limited_files import full_disk
from support.scripted_service import RESET, TOKEN, TOKEN_PATH, Reply, page

from attrib_ds import connect, errors, search_interactions
from attrib_ds.api.admin import create_key
from attrib_ds.contract import OPERATIONS, build
from attrib_ds.contract.json_values import Refused, encode
from attrib_ds.keys import Secret
from attrib_ds.service.accounts.accounts import checked_public_key
from attrib_ds.transports.http.credentials import Credentials, make_assertion, protect_key, read_credentials
from attrib_ds.transports.http.session import RetryPolicy


def pem(private):
    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.fixture
def key_file(tmp_path, key):
    path = tmp_path / "key.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(key | {"type": "service_account"}))
    return path


def check(credentials, key):
    assert credentials.client_id == key["clientId"]
    assert credentials.email == key["serviceAccountEmail"]
    assert credentials.key_id == key["privateKeyId"]
    assert credentials.private_key.reveal() == key["privateKey"]


def test_a_key_is_a_path_a_text_or_a_mapping(key_file, key):
    for each in (key_file, str(key_file), dict(key), json.dumps(key), f"\n {json.dumps(key)}"):
        check(read_credentials(protect_key(each)), key)


def test_a_key_file_may_begin_with_a_byte_order_mark(key_file, key):
    key_file.write_text(key_file.read_text(encoding="utf-8"), encoding="utf-8-sig")
    check(read_credentials(key_file), key)


def test_a_path_may_begin_at_home(key_file, key, monkeypatch):
    monkeypatch.setenv("HOME", str(key_file.parent))
    check(read_credentials("~/key.json"), key)


def test_a_key_file_that_others_may_read_is_warned_of(key_file, key):
    key_file.chmod(0o640)
    with pytest.warns(
        UserWarning, match=r"can be read by other users of this machine; .*chmod 600 .*key\.json"
    ):
        check(read_credentials(key_file), key)
    key_file.chmod(0o400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_credentials(key_file)


def test_the_warning_points_at_who_connects(key_file):
    key_file.chmod(0o644)
    with pytest.warns(UserWarning, match="chmod") as warned:
        connect("shop", url="http://127.0.0.1:1", key=key_file).close()
    assert warned[0].filename == __file__


@pytest.mark.parametrize("member", ["clientId", "serviceAccountEmail", "privateKeyId", "privateKey"])
@pytest.mark.parametrize("value", [None, "", 7])
def test_each_member_is_needed(key, member, value):
    with pytest.raises(errors.InvalidRequest, match=rf"key: the content given has no {member}; a key file"):
        read_credentials(protect_key({**key, member: value}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ("", "is not JSON"),
        ("[" * 9_000, "is not a JSON object"),
    ],
)
def test_files_that_are_none(tmp_path, content, words):
    path = tmp_path / "key.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(errors.InvalidRequest, match=rf"^key: '.*key\.json' {words}") as caught:
        read_credentials(path)
    assert caught.value.__context__ is None


def test_files_that_are_not_there_or_no_files(tmp_path):
    with pytest.raises(
        errors.InvalidRequest,
        match="gone.json' does not exist; pass the path of the service account.s JSON file",
    ):
        read_credentials(tmp_path / "gone.json")
    with pytest.raises(errors.InvalidRequest, match="is not a key file"):
        read_credentials(tmp_path)
    (tmp_path / "large").write_bytes(b" " * 70_000)
    with pytest.raises(errors.InvalidRequest, match="is not a key file"):
        read_credentials(tmp_path / "large")


def test_private_keys_that_cannot_sign(key):
    small = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)
    for private_key, words in (
        ("nonsense", "not an unencrypted private key in PEM"),
        (key["privateKey"][:400], "not an unencrypted private key in PEM"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "not an RSA key"),
        (pem(small), "of 1024 bits; allowed: 2048 or more"),
    ):
        with pytest.raises(errors.InvalidRequest, match=words) as caught:
            read_credentials(protect_key({**key, "privateKey": private_key}))
        assert private_key[:40] not in str(caught.value)
        assert caught.value.__context__ is None


MEMBERS = ("clientId", "serviceAccountEmail", "privateKeyId", "privateKey")


NO_PEM = st.builds(
    "-----BEGIN {0}-----\n{1}\n-----END {0}-----\n".format,
    st.sampled_from(
        ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "CERTIFICATE"]
    ),
    st.binary(max_size=60).map(lambda content: base64.b64encode(content).decode()),
)


@pytest.mark.slow
@pytest.mark.timeout(120)
@settings(max_examples=200, deadline=5_000)
@given(
    st.binary(max_size=50)
    | json_values(MEMBERS).map(
        lambda value: encode(value).encode("utf-8", "surrogatepass") if is_plain(value) else b""
    )
    | st.fixed_dictionaries({name: NO_PEM | st.text(min_size=1, max_size=20) for name in MEMBERS}).map(
        lambda members: json.dumps(members).encode()
    )
)
def test_any_file_is_a_key_file_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("keys") / "key.json"
    path.touch(mode=0o600)
    path.write_bytes(content)
    with suppress(errors.InvalidRequest):
        read_credentials(protect_key(path))


def is_plain(value):
    try:
        encode(value)
    except Refused:
        return False
    return True


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


class MeetingPoint:
    """A lock that tells when a number of threads have come to it, of which one has it."""

    def __init__(self, threads):
        self._lock, self._counting, self._left = threading.Lock(), threading.Lock(), threads
        self.all_came = threading.Event()

    def __enter__(self):
        with self._counting:
            self._left -= 1
        if self._left <= 0:
            self.all_came.set()
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


def answer_when_all_wait(shop, service, threads):
    """Let the token route answer when all threads wait for the token."""
    shop.transport._tokens._lock = lock = MeetingPoint(threads)
    service.before_token = lambda: lock.all_came.wait(60)


@pytest.mark.slow
def test_sixteen_threads_ask_for_one_token(shop, service):
    together = threading.Barrier(16)
    answer_when_all_wait(shop, service, 16)
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
    answer_when_all_wait(shop, service, 16)
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
        (Reply(404, b"<h1>nothing</h1>", media="text/html"), errors.InvalidRequest, "404: nothing; check"),
        (Reply(501), errors.InvalidRequest, "501; check auth_url="),
        (
            Reply(302, b"", {"Location": "https://evil.example"}),
            errors.InvalidRequest,
            "302; it has moved to https://evil.example; pass auth_url=",
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
        errors.InvalidRequest,
        match=r"it redirects to https://evil.example/steal, which is not followed; check url= and the key",
    ):
        shop.transport.send(operation, build(operation, project_id="shop"))
    assert len(service.asked) == 1


#: What every private RSA key in PEM has near its beginning, and no public key has.
CANARIES = ["PRIVATE KEY", "IBADANBgkqhkiG9w0BAQEFAASC"]
REVOKED = Reply(body={"modifiedCount": 1})


def registered(asked, **changes):
    """Answer as a service does that registers the key."""
    body = json.loads(asked.body)
    key = {
        "_id": checked_public_key(body["publicKey"])[0],
        "clientId": "client-2",
        "serviceAccountEmail": "new@shop.example",
        "scopes": body["scopes"],
        "createdAt": "2025-01-01T00:00:00.000Z",
        "expiresAt": None,
        "revokedAt": None,
    }
    return Reply(201, {name: value for name, value in {**key, **changes}.items() if value is not ...})


def test_the_private_key_is_in_the_file_and_nowhere_else(open_shop, service, tmp_path, caplog):
    service.script = [registered]
    with caplog.at_level("DEBUG"):
        key = create_key(open_shop(), tmp_path / "new.json", scopes=["admin"])
    (asked,) = service.asked
    assert sorted(json.loads(asked.body)) == ["publicKey", "scopes"]
    content = (tmp_path / "new.json").read_text()
    assert all(canary in content for canary in CANARIES)
    assert json.loads(content)["clientId"] == "client-2"
    assert_clean(repr(key.to_dict()) + caplog.text + str(asked), CANARIES)


def test_a_lost_answer_does_not_make_a_second_key(open_shop, service, tmp_path):
    service.script = [RESET, Reply(503, {"message": "later"}), registered]
    key = create_key(open_shop(), tmp_path / "new.json")
    bodies = {asked.body for asked in service.asked}
    assert (len(service.asked), len(bodies)) == (3, 1)
    assert key["_id"] == checked_public_key(json.loads(bodies.pop())["publicKey"])[0]


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500])
def test_a_refusal_leaves_no_file(open_shop, service, tmp_path, status):
    service.script = [Reply(status, {"message": "no"})]
    with pytest.raises(errors.AttribError) as caught:
        create_key(open_shop(), tmp_path / "new.json")
    assert list(tmp_path.iterdir()) == []
    # An addition that is refused is told from a bad token by a read.
    assert {asked.method for asked in service.asked} - {"GET"} == {"POST"}
    assert_clean(everything_about(caught.value), CANARIES)


@pytest.mark.parametrize("is_revoked", [True, False])
def test_a_key_whose_file_cannot_be_written_is_revoked(open_shop, service, tmp_path, is_revoked):
    shop = open_shop()
    with ExitStack() as limit:

        def fill_disk(asked):
            limit.enter_context(full_disk(room=100))
            return registered(asked)

        def revoke(asked):
            return REVOKED if is_revoked else Reply(403, {"message": "no", "requestId": "r-1"})

        service.script = [fill_disk, revoke]
        with pytest.raises(errors.Unavailable, match=r"path: .*new\.json' cannot be written") as caught:
            create_key(shop, tmp_path / "new.json")
    posted, deleted = service.asked
    key_id = checked_public_key(json.loads(posted.body)["publicKey"])[0]
    assert (deleted.method, deleted.path) == ("DELETE", f"/api/v1/projects/shop/keys/{key_id}")
    assert list(tmp_path.iterdir()) == []
    notes = getattr(caught.value, "__notes__", [])
    assert notes == [] if is_revoked else key_id in notes[0]
    assert_clean(everything_about(caught.value), CANARIES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"_id": "0" * 40}, {"clientId": ...}, {"clientId": ""}, {"serviceAccountEmail": None}],
    ids=["another id", "no account", "an empty account", "no email"],
)
def test_an_answer_about_another_key_is_refused(open_shop, service, tmp_path, changes):
    service.script = [lambda asked: registered(asked, **changes), REVOKED]
    with pytest.raises(errors.ServiceFailure, match="key") as caught:
        create_key(open_shop(), tmp_path / "new.json")
    assert [asked.method for asked in service.asked] == ["POST", "DELETE"]
    assert list(tmp_path.iterdir()) == []
    assert_clean(everything_about(caught.value), CANARIES)


@pytest.fixture
def canaries(service, key):
    """Return what must not be found: called when everything has been sent."""

    def found():
        pem = [line for line in key["privateKey"].splitlines() if len(line) > 30]
        assertions = [each.form["assertion"] for each in service.asked_tokens]
        # Of the assertion the parts, too: header, claims and signature.
        return [*pem, "PRIVATE KEY", TOKEN, *(part for each in assertions for part in each.split("."))]

    return found


@pytest.fixture
def logged():
    """Whatever any library logs."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(name)s %(message)s %(args)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(before)


def everything_about(error):
    """Return all that a report of a failure may show, the locals of every frame included."""
    # From the first frame of the package on: what the caller holds is the caller's own.
    while error.__traceback__.tb_frame.f_code.co_filename == __file__:
        error.__traceback__ = error.__traceback__.tb_next
    reported = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames, each = [], error.__traceback__
    while each is not None:
        frames.append(pprint.pformat(shallow(each.tb_frame.f_locals)))
        each = each.tb_next
    parts = [
        "".join(reported.format()),
        *frames,
        str(error),
        repr(error),
        repr(vars(error)),
        repr(error.args),
    ]
    parts += [repr(error.__context__), repr(error.__cause__), repr(pickle.dumps(error))]
    return "\n".join(parts)


def shallow(values):
    """Return values with the attributes of each, as a debugger unfolds them."""
    return {
        name: (repr(value), vars(value) if hasattr(value, "__dict__") else None)
        for name, value in values.items()
    }


def attributes_of(thing, depth=7, seen=None):
    """Return the text of all attributes of an object, of theirs, and so on."""
    seen = set() if seen is None else seen
    if depth == 0 or id(thing) in seen:
        return ""
    seen.add(id(thing))
    parts = [repr(thing)]
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    within = [*vars(thing).values()] if hasattr(thing, "__dict__") else []
    within += [getattr(thing, name, None) for name in slots if not name.startswith("__")]
    if isinstance(thing, dict):
        within += [*thing.values()]
    elif isinstance(thing, list | tuple | set):
        within += [*thing]
    if not isinstance(thing, str | bytes | int | float | type):
        parts += [attributes_of(each, depth - 1, seen) for each in within]
    return "\n".join(parts)


def assert_clean(text, canaries):
    for canary in canaries:
        position = text.find(canary)
        assert position < 0, text[max(position - 200, 0) : position + 20]


def test_a_project_that_works_shows_nothing(shop, service, canaries, logged, capsys):
    service.script = [page()]
    frame = search_interactions(shop)
    text = "\n".join(
        [
            repr(shop),
            str(shop),
            f"{shop}",
            f"{shop.transport!r:>40}",
            attributes_of(shop),
            pprint.pformat(vars(shop)),
        ]
    )
    shown, _ = DisplayFormatter().format(shop)
    text += (
        repr(shown)
        + repr(vars(shop.transport))
        + repr(frame.attrs)
        + logged.getvalue()
        + "".join(capsys.readouterr())
    )
    assert "[secret]" in text
    assert "POST /auth/oidc/token" in logged.getvalue()
    assert_clean(text, canaries())


def test_what_cannot_be_written_down_is_refused(shop, service, canaries):
    service.script = [page()]
    search_interactions(shop)
    credentials = shop.transport._tokens._credentials
    for each in (shop, shop.transport, credentials, credentials.private_key, Secret("x")):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(each)
    with pytest.raises(TypeError):
        json.dumps(dataclasses.asdict(credentials))
    text = (
        repr(dataclasses.asdict(credentials))
        + repr(copy.deepcopy(credentials))
        + repr(copy.copy(credentials))
    )
    assert text.count("[secret]") == 3
    assert copy.deepcopy(credentials) == credentials
    assert_clean(text, canaries())
    try:
        text = repr(dataclasses.asdict(shop))
    except TypeError as error:
        text = everything_about(error)
    assert_clean(text, canaries())


FAILURES = {
    "unauthorized": Reply(401, {"message": "Unauthorized"}),
    "not found": Reply(404, {"message": "no"}),
    "reset": RESET,
    "cut": Reply(body=page().body, cut=5),
    "no answer": Reply(body=b"{"),
    "wrong value": page({"_id": "7", "startDate": "never"}),
    "web page": Reply(body=b"<html>", media="text/html"),
    "too many": Reply(429, {"message": "slow"}, {"Retry-After": "1000"}),
    "silence": Reply(body=page().body, cut=5, after="silence"),
    "echo": lambda asked: Reply(
        500, {"message": str(asked.headers), "requestId": asked.headers["Authorization"]}
    ),
    "echo in a page": lambda asked: Reply(
        502, f"<title>{asked.headers['Authorization']}</title>".encode(), media="text/html"
    ),
    "echo in an answer": lambda asked: Reply(body={"message": asked.headers["Authorization"]}),
    "echo in a page of success": lambda asked: Reply(
        body=f"<html><title>{asked.headers['Authorization']}</title>".encode(), media="text/html"
    ),
    "echo in a header": lambda asked: Reply(302, b"", {"Location": f"/{asked.headers['Authorization']}"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAILURES)
def test_failures_of_requests_show_nothing(open_shop, service, canaries, logged, name):
    shop = open_shop(read_timeout=0.3, retry_policy=RetryPolicy(attempts=2))
    service.script = [FAILURES[name]]
    with pytest.raises(errors.AttribError) as caught:
        search_interactions(shop)
    assert_clean(everything_about(caught.value) + logged.getvalue(), canaries())


TOKEN_FAILURES = {
    "refused": Reply(400, {"error": "invalid_grant", "error_description": "no"}),
    "reset": RESET,
    "cut": Reply(body={"access_token": TOKEN, "expires_in": 60}, cut=40),
    "no JSON": Reply(body=b'{"access_token": "%s"' % TOKEN.encode()),
    "text": Reply(body=TOKEN.encode(), media="text/plain"),
    "JSON text": Reply(body=TOKEN),
    "list": Reply(body={"tokens": [TOKEN], "access_token": None}),
    "XML": Reply(body=f"<?xml version='1.0'?><token>{TOKEN}</token>".encode(), media="text/xml"),
    "mac": Reply(body={"access_token": TOKEN, "token_type": "mac"}),
    "control characters": Reply(body={"access_token": f"{TOKEN}\n"}),
    "silence": Reply(body={"access_token": TOKEN}, cut=30, after="silence"),
}


@pytest.mark.few(5)
@pytest.mark.slow
@pytest.mark.parametrize("name", TOKEN_FAILURES)
@pytest.mark.parametrize("threads", [1, 4])
def test_failures_of_the_token_route_show_nothing(open_shop, service, canaries, logged, name, threads):
    shop = open_shop(read_timeout=0.3, retry_policy=RetryPolicy(attempts=2))
    service.tokens = [TOKEN_FAILURES[name]] * 20

    def work(_):
        with pytest.raises(errors.AttribError) as caught:
            search_interactions(shop)
        return everything_about(caught.value)

    with ThreadPoolExecutor(threads) as pool:
        told = "\n".join(pool.map(work, range(threads)))
    assert_clean(told + logged.getvalue(), canaries())


def test_a_token_route_that_repeats_the_assertion_is_not_repeated(shop, service, canaries):
    def echo(asked):
        return Reply(
            400, {"error": "invalid_grant", "error_description": f"bad assertion {asked.form['assertion']}"}
        )

    service.next = lambda asked, usual=service.next: (usual(asked), echo(asked))[1]
    with pytest.raises(errors.Unauthorized, match=r"bad assertion \[secret\]") as caught:
        search_interactions(shop)
    assert_clean(everything_about(caught.value), canaries())


def test_keys_that_are_not_in_order_show_nothing(key, canaries, tmp_path):
    broken = tmp_path / "key.json"
    broken.write_text(json.dumps(key)[:-2])
    broken.chmod(0o600)
    damaged = key["privateKey"].replace("\n", "\nQUFB", 3)
    sources = [
        lambda: broken,
        lambda: json.dumps(key)[:-2],
        lambda: json.dumps([key]),
        lambda: {**key, "clientId": None},
        lambda: {**key, "privateKey": damaged},
        lambda: json.dumps({**key, "privateKey": damaged}),
    ]
    for source in sources[:2] + sources[3:]:
        with pytest.raises(errors.InvalidRequest) as caught:
            connect("shop", url="https://a.example", key=source())
        assert_clean(everything_about(caught.value), canaries())


def test_a_key_that_cannot_sign_shows_nothing(key, canaries):
    def sign():
        credentials = Credentials("c", "e", "k", Secret(key["privateKey"][:-100]))
        make_assertion(credentials, audience="https://a.example", now=0)

    with pytest.raises(errors.InvalidRequest, match="the private key 'k' cannot sign") as caught:
        sign()
    assert_clean(everything_about(caught.value), canaries())


def test_an_address_that_is_wrong_does_not_show_the_key_given_by_content(key, canaries):
    with pytest.raises(errors.InvalidRequest) as caught:
        connect("shop", url="nonsense", key=dict(key))
    assert_clean(everything_about(caught.value), canaries())


def test_a_secret_is_text_nowhere():
    secret = Secret("canary")
    texts = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>20}",
        "%s %r" % (secret, secret),  # noqa: UP031
        repr([secret]),
    ]
    texts += [repr({"a": secret}), f"{secret}", pprint.pformat(secret), repr(dir(secret))]
    assert "canary" not in "".join(texts)
    assert secret.reveal() == "canary"
    assert secret.redact("a canary and a canary") == "a [secret] and a [secret]"
    assert Secret({"a": 1}).redact("text") == "text"
    assert Secret("").redact("text") == "text"
    with pytest.raises(TypeError):
        vars(secret)
    assert sys.getsizeof(secret) < 200


def test_credentials_are_equal_by_the_same_secret(key):
    credentials = read_credentials(protect_key(key))
    assert "[secret]" in repr(credentials)
    assert credentials == copy.deepcopy(credentials)
