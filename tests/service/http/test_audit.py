"""The audit log of a served project names the account that asked (G-211)."""

from contextlib import closing

import pytest
from support.http_caller import Caller, token_of
from support.service_records import hex_id, send, table, visit

from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

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


@pytest.mark.slow
def test_the_log_is_read_by_administrators_alone(key_and_call, tmp_path):
    _, call = key_and_call
    scopes = ["users:read", "users:write", "privacy:write", "users:sql", "interactions:read"]
    key = create_key(tmp_path, tmp_path / "other.json", projects=["shop"], scopes=scopes)
    token = token_of(call.url, key, scope=" ".join(scopes))
    assert Caller(call.url, token)("GET", f"{PROJECT}/audit").status == 403
    assert Caller(call.url)("GET", f"{PROJECT}/audit").status == 401
