"""Keys over HTTP (G-172): nobody gets more than they have, and no secret is in an answer or a log."""

import http.client
import json
import logging
from contextlib import closing
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from support.http_caller import Caller, ask_token, token_of
from support.older_keys import grow_older
from support.service_records import hex_id, send, table, visit

from attrib_ds import instants
from attrib_ds.keys import FULL_ACCESS, SCOPES, KeyFile, make_key_pair
from attrib_ds.service import Service
from attrib_ds.service.accounts import Accounts
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

KEYS = "/api/v1/projects/shop/keys"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    for project_id in ("shop", "other-shop"):
        Service.open(project_id, folder / f"{project_id}.duckdb").close()
    return folder


@pytest.fixture(scope="module")
def server(home):
    with running(home, options=ServerOptions(rate_limits=None)) as url:
        yield url


@pytest.fixture(scope="module")
def accounts(home):
    with closing(Accounts.open(home)) as opened:
        yield opened


@pytest.fixture(scope="module")
def caller_with(accounts, server):
    """Return a caller with some scopes of a new account."""

    def caller_with(*scopes, projects=("shop",)):
        key = accounts.create(projects=projects, scopes=scopes)
        return Caller(server, token_of(server, key, scope=" ".join(scopes)))

    return caller_with


@pytest.fixture(scope="module")
def call(caller_with):
    return caller_with(FULL_ACCESS)


@pytest.fixture(scope="module")
def pair():
    return make_key_pair()


def created(call, *, path=KEYS, **body):
    """Create a key; return it as a client that holds its private key, and the answer."""
    pair = make_key_pair()
    reply = call("POST", path, {"publicKey": pair.public, **body})
    assert reply.status == 201, reply.content
    key = reply.json()
    return KeyFile(key["clientId"], key["serviceAccountEmail"], pair.key_id, pair.private), key


def listed(call):
    return {key["_id"]: key for key in call("GET", KEYS).json()}


@pytest.mark.large
@pytest.mark.slow
def test_a_created_key_opens_its_project_alone(call, server):
    key, answer = created(call, scopes=["interactions:read", "admin"])
    assert set(answer) == {
        "_id",
        "clientId",
        "serviceAccountEmail",
        "scopes",
        "createdAt",
        "expiresAt",
        "revokedAt",
    }
    assert (answer["_id"], answer["scopes"]) == (key.privateKeyId, ["interactions:read", "admin"])
    assert (answer["expiresAt"], answer["revokedAt"]) == (None, None)
    assert answer == listed(call)[key.privateKeyId]
    with_key = Caller(server, token_of(server, key, scope="interactions:read admin"))
    assert with_key("GET", "/api/v1/projects/shop/nodes").status == 200
    assert with_key("GET", "/api/v1/projects/shop/event-types").status == 403
    for foreign in ("other-shop", "no-shop"):
        assert with_key("GET", f"/api/v1/projects/{foreign}/nodes").status == 403
    assert ask_token(with_key, key, scope="full_access").json()["error"] == "invalid_scope"
    assert ask_token(with_key, key, scope="users:read").json()["error"] == "invalid_scope"


@pytest.mark.slow
@pytest.mark.parametrize(
    "projects",
    [["shop", "other-shop"], None],
    ids=["an account of two projects", "an account of all projects"],
)
def test_a_key_made_by_an_account_of_more_projects_opens_one(caller_with, server, projects):
    key, _ = created(caller_with(FULL_ACCESS, projects=projects))
    with_key = Caller(server, token_of(server, key))
    assert with_key("GET", "/api/v1/projects/shop/nodes").status == 200
    assert with_key("GET", "/api/v1/projects/other-shop/nodes").status == 403
    assert with_key("POST", "/api/v1/projects/other-shop/keys", {}).status == 403


@pytest.mark.slow
def test_the_body_cannot_name_another_project_or_account(call, server):
    others = {
        "projectId": "other-shop",
        "projects": None,
        "clientId": "0" * 24,
        "keyId": "0" * 40,
        "_id": "0" * 40,
    }
    key, answer = created(call, **others)
    assert answer["_id"] == key.privateKeyId
    assert answer["clientId"] != "0" * 24
    with_key = Caller(server, token_of(server, key))
    assert with_key("GET", "/api/v1/projects/other-shop/nodes").status == 403


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (["admin"], [FULL_ACCESS]),
        (["admin"], None),
        (["admin"], ["admin", "users:read"]),
        (["admin", "users:read"], ["users:sql"]),
        # All scopes of today are not full access, which includes those of tomorrow.
        ([scope for scope in SCOPES if scope != FULL_ACCESS], [FULL_ACCESS]),
    ],
    ids=["full access", "the default", "one more", "another", "all"],
)
def test_a_key_has_no_more_scopes_than_the_token_that_creates_it(caller_with, pair, own, wanted):
    caller = caller_with(*own)
    before = listed(caller)
    reply = caller("POST", KEYS, {"publicKey": pair.public} | ({"scopes": wanted} if wanted else {}))
    assert reply.status == 403
    assert 'error="insufficient_scope"' in reply.headers["WWW-Authenticate"]
    assert listed(caller) == before


def test_a_narrow_token_of_a_broad_account_creates_narrow_keys(accounts, server, pair):
    key = accounts.create(projects=["shop"])
    narrow = Caller(server, token_of(server, key, scope="admin events:read"))
    assert narrow("POST", KEYS, {"publicKey": pair.public}).status == 403
    assert narrow("POST", KEYS, {"publicKey": pair.public, "scopes": ["users:read"]}).status == 403
    _, answer = created(narrow, scopes=["events:read", "admin", "admin"])
    assert answer["scopes"] == ["events:read", "admin"]


@pytest.mark.slow
@pytest.mark.parametrize("scope", [scope for scope in SCOPES if scope not in (FULL_ACCESS, "admin")])
def test_only_administrators_see_or_change_keys(caller_with, pair, scope):
    caller = caller_with(scope)
    assert caller("GET", KEYS).status == 403
    assert caller("POST", KEYS, {"publicKey": pair.public, "scopes": [scope]}).status == 403
    assert caller("DELETE", f"{KEYS}/{'0' * 40}").status == 403


def test_nobody_without_a_token_sees_or_changes_keys(server, pair):
    anyone = Caller(server)
    assert anyone("GET", KEYS).status == 401
    assert anyone("POST", KEYS, {"publicKey": pair.public}).status == 401
    assert anyone("DELETE", f"{KEYS}/{'0' * 40}").status == 401


@pytest.mark.slow
def test_keys_of_other_accounts_are_neither_listed_nor_revoked(accounts, caller_with, server):
    others = [
        accounts.create(projects=projects) for projects in (["other-shop"], ["shop", "other-shop"], None)
    ]
    # Also for an account that could do so on the machine of the server.
    for caller in (caller_with("admin"), caller_with(FULL_ACCESS, projects=None)):
        unknown = caller("DELETE", f"{KEYS}/{'0' * 40}")
        assert unknown.status == 404
        for other in others:
            assert other.privateKeyId not in listed(caller)
            reply = caller("DELETE", f"{KEYS}/{other.privateKeyId}")
            assert reply.status == 404
            message = reply.json()["message"].replace(other.privateKeyId, "0" * 40)
            assert message == unknown.json()["message"]
    for other in others:
        assert token_of(server, other)


def test_a_revoked_key_and_its_tokens_end_at_once(call, server):
    key, _ = created(call)
    with_key = Caller(server, token_of(server, key))
    assert with_key("GET", KEYS).status == 200
    for changed in (1, 0):
        reply = call("DELETE", f"{KEYS}/{key.privateKeyId}")
        assert (reply.status, reply.json()) == (200, {"modifiedCount": changed})
    assert with_key("GET", KEYS).status == 401
    assert ask_token(with_key, key).json()["error"] == "invalid_grant"
    assert listed(call)[key.privateKeyId]["revokedAt"] is not None


def test_a_key_may_revoke_itself(call, server):
    key, _ = created(call)
    with_key = Caller(server, token_of(server, key))
    assert with_key("DELETE", f"{KEYS}/{key.privateKeyId}").status == 200
    assert with_key("GET", KEYS).status == 401


def test_a_key_that_is_revoked_while_the_body_arrives_creates_none(call, server, pair):
    key, _ = created(call)
    token = token_of(server, key)
    body = json.dumps({"publicKey": pair.public}).encode()
    with closing(http.client.HTTPConnection(urlsplit(server).netloc, timeout=30)) as connection:
        connection.putrequest("POST", KEYS)
        connection.putheader("Authorization", f"Bearer {token}")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:100])
        # The token has been checked when a request that came later is answered.
        assert Caller(server, token)("GET", KEYS).status == 200
        assert call("DELETE", f"{KEYS}/{key.privateKeyId}").status == 200
        connection.send(body[100:])
        assert connection.getresponse().status == 401
    assert pair.key_id not in listed(call)


def test_the_same_request_again_creates_no_second_key(call):
    pair = make_key_pair()
    body = {"publicKey": pair.public, "scopes": ["admin"], "expiresAt": "2099-01-01T00:00:00+02:00"}
    first, again = (call("POST", KEYS, body) for _ in range(2))
    assert (first.status, again.status) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["expiresAt"] == "2098-12-31T22:00:00.000Z"
    reply = call("POST", KEYS, {**body, "scopes": ["users:read"]})
    assert (reply.status, reply.json()["error"]) == (409, "Conflict")
    assert call("DELETE", f"{KEYS}/{pair.key_id}").status == 200
    assert call("POST", KEYS, body).status == 409
    assert [key["_id"] for key in call("GET", KEYS).json()].count(pair.key_id) == 1


@pytest.mark.slow
def test_a_public_key_of_another_project_is_refused_without_a_word_about_it(call, caller_with):
    other = caller_with(FULL_ACCESS, projects=["other-shop"])
    key, answer = created(other, path="/api/v1/projects/other-shop/keys")
    pem = serialization.load_pem_private_key(key.privateKey.encode(), None).public_key()
    public = pem.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()
    reply = call("POST", KEYS, {"publicKey": public})
    assert reply.status == 409
    assert "other-shop" not in reply.content.decode()
    assert answer["clientId"] not in reply.content.decode()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"publicKey": None}, "/publicKey"),
        ({"publicKey": "no key"}, "/publicKey"),
        ({"publicKey": "x" * 2_049}, "/publicKey"),
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["root"]}, "/scopes/0"),
        ({"scopes": "admin"}, "/scopes"),
        ({"scopes": ["admin"] * 101}, "/scopes"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "/expiresAt"),
        ({"expiresAt": "2099-01-01T00:00:00"}, "/expiresAt"),
        ({"expiresAt": "2099-01-01"}, "/expiresAt"),
        ({"expiresAt": 4_070_908_800}, "/expiresAt"),
    ],
)
def test_what_is_not_allowed_is_named(call, pair, changes, field):
    before = listed(call)
    reply = call("POST", KEYS, {"publicKey": pair.public, **changes})
    assert reply.status == 400
    assert reply.json()["message"].startswith(field), reply.json()
    assert listed(call) == before


def test_a_malformed_id_is_invalid(call):
    for key_id in ("x", "0" * 39, "0" * 41, "A" * 40, "%27%20OR%201=1--"):
        assert call("DELETE", f"{KEYS}/{key_id}").status == 400


@pytest.mark.slow
def test_an_expired_key_is_refused_with_its_tokens(call, server, home):
    moment = instants.format(instants.now() + timedelta(minutes=50))
    key, answer = created(call, expiresAt=moment)
    assert answer["expiresAt"] == moment
    reply = ask_token(Caller(server), key)
    assert reply.json()["expires_in"] <= 50 * 60
    with_key = Caller(server, reply.json()["access_token"])
    assert with_key("GET", KEYS).status == 200
    grow_older(home, key.privateKeyId, by=timedelta(minutes=50))
    assert with_key("GET", KEYS).status == 401
    assert ask_token(Caller(server), key).status == 400


def test_the_audit_log_has_the_id_of_the_key_and_no_more(accounts, server):
    key = accounts.create(projects=["shop"])
    call = Caller(server, token_of(server, key))
    made, _ = created(call, scopes=["users:read"])
    assert call("POST", KEYS, {"publicKey": "no key"}).status == 400
    assert call("DELETE", f"{KEYS}/{made.privateKeyId}").status == 200
    assert call("DELETE", f"{KEYS}/{'0' * 40}").status == 404
    lines = call("GET", f"/api/v1/projects/shop/audit?account={key.clientId}").json()["data"]
    assert [(line["operation"], line["subject"], line["details"]) for line in lines] == [
        ("revoke_key", made.privateKeyId, {}),
        ("create_key", made.privateKeyId, {}),
    ]


def test_a_private_key_sent_by_mistake_is_nowhere(call, home, caplog):
    private = rsa.generate_private_key(65_537, 2_048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    parts = private.decode().splitlines()[1:-1]
    with caplog.at_level(logging.DEBUG):
        replies = [
            call("POST", KEYS, {"publicKey": private.decode()}),
            call("POST", KEYS, {"publicKey": private.decode() * 2}),
            call("POST", KEYS, {"publicKey": [private.decode()]}),
            call("POST", KEYS, {"publicKey": private.decode(), "scopes": ["root"]}),
        ]
    assert {reply.status for reply in replies} == {400}
    stored = b"".join(file.read_bytes() for file in home.iterdir() if file.is_file())
    shown = b"".join(reply.content for reply in replies) + stored + caplog.text.encode()
    assert not any(part.encode() in shown for part in parts)


def test_a_project_that_does_not_exist_gets_no_key(accounts, caller_with, pair):
    everywhere = caller_with(FULL_ACCESS, projects=None)
    before = accounts.list_keys()
    assert everywhere("POST", "/api/v1/projects/no-shop/keys", {"publicKey": pair.public}).status == 404
    assert accounts.list_keys() == before


def test_the_command_line_lists_and_revokes_the_same_keys(call, home, tmp_path, server):
    made, _ = created(call)
    written = create_key(home, tmp_path / "key.json", projects=["shop"])
    assert {made.privateKeyId, written.privateKeyId} <= set(listed(call))
    with closing(Accounts.open(home)) as accounts:
        accounts.revoke_key(made.privateKeyId)
    assert ask_token(Caller(server), made).status == 400
    assert call("DELETE", f"{KEYS}/{written.privateKeyId}").json() == {"modifiedCount": 1}
    assert ask_token(Caller(server), written).status == 400


def test_a_server_can_refuse_to_create_keys(home, accounts, pair):
    key = accounts.create(projects=["shop"])
    with running(home, options=ServerOptions(new_keys=False)) as url:
        call = Caller(url, token_of(url, key))
        reply = call("POST", KEYS, {"publicKey": pair.public})
        assert call("GET", KEYS).status == 200
    assert (reply.status, accounts.find_key(key.clientId, pair.key_id)) == (403, None)
    assert "attrib-ds keys create" in reply.json()["message"]


PROJECT = "/api/v1/projects/shop"


@pytest.fixture
def key_and_call(tmp_path):
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        send(service, "load_records", resource="interactions", source=table(visit(1)))
    key = create_key(tmp_path, tmp_path / "key.json", projects=["shop"])
    with running(tmp_path, options=ServerOptions(rate_limits=None)) as url:
        yield key, Caller(url, token_of(url, key))


def log(call, query=""):
    reply = call("GET", f"{PROJECT}/audit{query}")
    assert reply.status == 200, reply.content
    return reply.json()


@pytest.mark.large
@pytest.mark.slow
def test_g211_the_account_of_a_token_is_written_down(key_and_call, tmp_path):
    key, call = key_and_call
    event = {"projectId": "shop", "eventType": "view", "nonce": "n-1", "data": {}}
    # Who sends events without a token is not known, and no line is written.
    assert Caller(call.url)("POST", "/api/v1/events", event).status == 200
    sent = call("POST", "/api/v1/events", {**event, "nonce": "n-2"}).json()
    assert (
        call("POST", "/api/v1/events/batch", [{**event, "nonce": f"n-{number}"} for number in (3, 4)]).status
        == 200
    )
    assert call("POST", f"{PROJECT}/event-types", {"reference": "view", "name": "View"}).status == 201
    assert call("PATCH", f"{PROJECT}/settings", {"piiFields": ["email"]}).status == 200
    assert call("GET", f"{PROJECT}/settings").status == 200
    search = {"fields": [], "sqlQuery": "SELECT _id FROM users WHERE _id = '00'"}
    assert call("POST", "/api/v2/projects/shop/users/search", search).status == 200
    assert call("DELETE", f"{PROJECT}/users/{hex_id(900)}?mode=delete").status == 200
    assert call("DELETE", f"{PROJECT}/users/{hex_id(900)}").status == 404
    backup = call("GET", f"{PROJECT}/backup").content
    assert call("PUT", f"{PROJECT}/backup", backup).status == 200
    body = log(call)
    assert (body["total"], body["count"], body["offset"], body["limit"]) == (8, 8, 0, None)
    lines = body["data"][::-1]
    assert {each["account"] for each in lines} == {key.clientId}
    assert [(each["operation"], each["subject"], each["details"]) for each in lines] == [
        ("create_event", sent, {}),
        ("create_events", "shop", {"events": 2}),
        ("create_event_type", "view", {}),
        ("update_settings", "shop", {"piiFields": ["email"]}),
        ("search_users", "shop", {"sqlQuery": "SELECT _id FROM users WHERE _id = $value"}),
        ("delete_user", hex_id(900), {"mode": "delete"}),
        ("back_up_project", "shop", {}),
        ("restore_project", "shop", {}),
    ]
    assert all(each["date"].endswith("Z") and len(each["_id"]) == 36 for each in lines)
    newest = log(call, "?limit=1")
    assert [each["operation"] for each in newest["data"]] == ["restore_project"]
    assert log(call, "?operationName=create_event&account=nobody")["total"] == 0
    assert call("GET", f"{PROJECT}/audit?limit=-1").status == 400


@pytest.mark.large
@pytest.mark.slow
def test_the_log_is_read_by_administrators_alone(key_and_call, tmp_path):
    _, call = key_and_call
    scopes = ["users:read", "users:write", "privacy:write", "users:sql", "interactions:read"]
    key = create_key(tmp_path, tmp_path / "other.json", projects=["shop"], scopes=scopes)
    token = token_of(call.url, key, scope=" ".join(scopes))
    assert Caller(call.url, token)("GET", f"{PROJECT}/audit").status == 403
    assert Caller(call.url)("GET", f"{PROJECT}/audit").status == 401
