"""No private key, assertion or token shows anywhere: canaries are looked for wherever text comes out."""

import copy
import dataclasses
import io
import json
import logging
import pickle
import pprint
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
from IPython.core.formatters import DisplayFormatter
from support.scripted_service import RESET, TOKEN, Reply, page

from attrib_ds import connect, errors, search_interactions
from attrib_ds.keys import Secret
from attrib_ds.transports.http.credentials import Credentials, make_assertion, protect_key, read_credentials
from attrib_ds.transports.http.session import RetryPolicy


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
    "wrong value": page({"_id": 7}),
    "web page": Reply(body=b"<html>", media="text/html"),
    "too many": Reply(429, {"message": "slow"}, {"Retry-After": "1000"}),
    "silence": Reply(body=page().body, cut=5, after="silence"),
    "echo": lambda asked: Reply(
        500, {"message": str(asked.headers), "requestId": asked.headers["Authorization"]}
    ),
    "echo in a page": lambda asked: Reply(
        502, f"<title>{asked.headers['Authorization']}</title>".encode(), media="text/html"
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
    "mac": Reply(body={"access_token": TOKEN, "token_type": "mac"}),
    "control characters": Reply(body={"access_token": f"{TOKEN}\n"}),
    "silence": Reply(body={"access_token": TOKEN}, cut=30, after="silence"),
}


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
