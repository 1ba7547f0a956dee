"""Operations over HTTP: what they answer, and the order of the checks before (G-179)."""

import pyarrow as pa
import pytest
from support.http_caller import Caller, path_of, token_of
from support.service_records import hex_id, uuid

from attrib_ds.contract import OPERATIONS
from attrib_ds.keys import SCOPES
from attrib_ds.schema import HIT, INTERACTION, NODE
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.dispatch import REQUIRED_SCOPES

SEARCH = "/api/v1/projects/shop/interactions/search"
ARROW = "application/vnd.apache.arrow.stream"
OVER_HTTP = [name for name, each in OPERATIONS.items() if each.path and each.base != "auth"]
WITH_PROJECT = [name for name in OVER_HTTP if "{projectId}" in OPERATIONS[name].path]
WITH_BODY = [name for name in WITH_PROJECT if OPERATIONS[name].method != "GET"]


@pytest.mark.slow
def test_a_search_answers_a_page(call):
    reply = call("POST", SEARCH, {"sort": {"startDate": 1}})
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/json"
    page = reply.json()
    assert list(page) == ["offset", "limit", "count", "total", "data"]
    assert {**page, "data": [each["_id"] for each in page["data"]]} == {
        "offset": 0,
        "limit": None,
        "count": 2,
        "total": 2,
        "data": [hex_id(1), hex_id(2)],
    }
    first = page["data"][0]
    assert first["startDate"] == "2025-01-01T10:00:00.123Z"
    assert first["hitCount"] == 2
    # The address is known for this one alone; nothing is known of its network.
    assert first["geo"]["city"] == "Oslo"
    assert "asn" not in first
    assert first["userAgent"]["browser"] == {"name": None, "version": None, "major": None}
    assert "userData" not in first


@pytest.mark.slow
def test_g060_an_offline_interaction_has_no_session_properties(call):
    offline = call("POST", SEARCH, {"sort": {"startDate": -1}, "limit": 1}).json()["data"][0]
    assert offline["type"] == "offline"
    assert not {"firstHitId", "hitCount", "firstPage", "firstPageUrl", "userAgent", "asn", "geo"} & set(
        offline
    )
    assert offline["externalId"] is None


@pytest.mark.slow
def test_g060_also_when_the_type_is_not_asked_for(call):
    page = call("POST", SEARCH, {"projection": ["hitCount", "externalId"], "sort": {"startDate": 1}}).json()
    assert page["data"] == [
        {"_id": hex_id(1), "hitCount": 2, "externalId": None},
        {"_id": hex_id(2), "externalId": None},
    ]


def test_an_interaction_has_every_property(call):
    reply = call("GET", f"/api/v1/projects/shop/interactions/{hex_id(1)}")
    assert reply.status == 200
    assert reply.json()["userData"] == {"vendorUserId": "u-1"}


def test_r128_an_offset_beyond_the_end_answers_an_empty_page(call):
    assert call("POST", SEARCH, {"offset": 99, "limit": 5}).json() == {
        "offset": 99,
        "limit": 5,
        "count": 0,
        "total": 2,
        "data": [],
    }


def test_r126_a_limit_of_nothing_answers_the_total(call):
    assert call("POST", SEARCH, {"limit": 0}).json() == {
        "offset": 0,
        "limit": 0,
        "count": 0,
        "total": 2,
        "data": [],
    }


def test_r127_r129_pages_are_disjoint_and_make_the_whole(call):
    body = {"sort": {"nodeId": 1}, "isBot": None}
    pages = [call("POST", SEARCH, {**body, "offset": offset, "limit": 2}).json() for offset in (0, 2)]
    assert [page["total"] for page in pages] == [3, 3]
    assert [page["count"] for page in pages] == [len(page["data"]) for page in pages] == [2, 1]
    ids = [each["_id"] for page in pages for each in page["data"]]
    assert sorted(ids) == [hex_id(1), hex_id(2), hex_id(3)]


@pytest.mark.parametrize("body", [None, b"", b"  \n", {}])
def test_r132_an_empty_body_means_everything(call, body):
    assert call("POST", SEARCH, body).json()["total"] == 2


def test_hits_are_an_array(call):
    reply = call("GET", f"/api/v1/projects/shop/interactions/{uuid(1)}/hits")
    assert [each["id"] for each in reply.json()] == [uuid(1), uuid(2)]
    assert reply.json()[0]["serverDate"] == "2025-01-01T10:00:00.000Z"


def test_r320_the_hits_of_an_unknown_session_are_none(call):
    for first_hit in (uuid(77), "nonsense", hex_id(1)):
        reply = call("GET", f"/api/v1/projects/shop/interactions/{first_hit}/hits")
        assert (reply.status, reply.json()) == (200, [])


def test_insights_are_an_array(call):
    reply = call("POST", "/api/v1/projects/shop/interactions/insights", {})
    assert reply.json() == [
        {"group": None, "interval": None, "sessionCount": 2, "hitCount": 2, "durationSum": 0.0}
    ]


def test_an_id_may_hold_a_slash_and_other_letters(call):
    node = call("GET", "/api/v1/projects/shop/nodes/shop%2C%20%22best%22%20of%20%C3%86r%C3%B8%2F%F0%9F%92%A1")
    assert (node.status, node.json()["name"]) == (200, "Shop")


def test_numbers_in_filters_keep_their_digits(call):
    exact = {"type": "predicate", "field": "duration", "operator": "equals", "value": 0.0}
    assert call("POST", SEARCH, {"interactionFilter": exact}).status == 200


@pytest.mark.parametrize(
    ("path", "body", "columns"),
    [
        (
            SEARCH,
            {"isBot": None, "sort": {"startDate": 1}, "projection": list(INTERACTION.names)},
            INTERACTION,
        ),
        (f"/api/v1/projects/shop/interactions/{uuid(1)}/hits", None, HIT),
        ("/api/v1/projects/shop/nodes", None, NODE),
        (f"/api/v1/projects/shop/interactions/{hex_id(1)}", None, INTERACTION),
    ],
    ids=["page", "array", "list", "record"],
)
def test_the_arrow_answer_holds_the_same_as_the_json_answer(call, path, body, columns):
    from attrib_ds.records.json_records import decode, read_page

    method = "GET" if body is None else "POST"
    reply = call(method, path, body, Accept=f"{ARROW}, application/json;q=0.5")
    assert reply.headers["Content-Type"] == ARROW
    assert reply.headers["Vary"] == "Accept"
    with pa.ipc.open_stream(reply.content) as stream:
        table = stream.read_all()
    content = call(method, path, body).content
    is_record = body is None and path.endswith(hex_id(1))
    read = read_page(content, columns, is_record=is_record).table
    assert read.num_rows == table.num_rows > 0
    assert table.schema.names == columns.names
    for name in columns.names:
        # Offline interactions lack what sessions count.
        assert table[name].to_pylist() == read[name].to_pylist(), name
    told = decode(content)
    if isinstance(told, dict) and "total" in told:
        expected = {name.encode(): str(told[name]).encode() for name in ("total", "offset")}
        assert {name: table.schema.metadata[name] for name in (b"total", b"offset")} == expected
        assert b"limit" not in table.schema.metadata


def test_the_metadata_of_an_arrow_page_tell_the_limit(call):
    reply = call("POST", SEARCH, {"limit": 1, "offset": 1}, Accept=ARROW)
    with pa.ipc.open_stream(reply.content) as stream:
        assert stream.schema.metadata == {b"total": b"2", b"offset": b"1", b"limit": b"1"}
        assert stream.read_all().num_rows == 1


def test_an_empty_arrow_page_has_its_columns(call):
    reply = call("POST", SEARCH, {"limit": 0, "projection": ["geo.city"]}, Accept=ARROW)
    with pa.ipc.open_stream(reply.content) as stream:
        assert stream.read_all().schema.names == ["_id", "geo.city"]


# -- the order of the checks


@pytest.mark.parametrize("name", WITH_PROJECT)
def test_r315_a_foreign_project_is_forbidden_before_its_body_is_read(call, name):
    body = b"no json" if name in WITH_BODY else None
    replies = [
        # There is one, there is none, and there cannot be one.
        call.operation(name, body, project=project, X_Request_Id="same")
        for project in ("other-shop", "no-shop", "NO SHOP".replace(" ", "%20"))
    ]
    assert {reply.status for reply in replies} == {403}
    # To the letter alike, so that nobody finds out which projects there are.
    assert len({reply.content for reply in replies}) == 1
    assert replies[0].json() == {
        "statusCode": 403,
        "message": "Forbidden resource",
        "error": "Forbidden",
        "requestId": "same",
    }


@pytest.mark.parametrize("name", WITH_PROJECT)
def test_g178_who_may_use_all_projects_is_told_which_do_not_exist(admin, name):
    reply = admin.operation(name, BODIES.get(name, {}), project="no-shop", query=QUERIES.get(name, ""))
    assert reply.status == 404, reply.content
    assert "no-shop" in reply.json()["message"]


BODIES = {
    "create_holdout": {"nodeId": "spring", "share": 0.1},
    "merge_users": {"userId": "0" * 24},
    "split_user": {"userId": "0" * 24},
    "create_offline_interaction": {
        "date": "2025-01-01T00:00:00Z",
        "userData": {"email": "a@example.com"},
        "nodeData": {"vendorId": "ads"},
    },
    "event_insights": {
        "since": "2025-01-01T00:00:00Z",
        "until": "2025-02-01T00:00:00Z",
        "metrics": [],
        "groupBy": "project",
        "interval": "day",
    },
    "update_event_state": {"value": 1},
    "update_event_statistic": {"value": 1},
    "search_users": {"fields": []},
    "export_users": {
        "filename": "users",
        "exporterDataConfig": {"columns": ["eventCount"]},
        "outputFormatConfig": {"type": "csv"},
        "transformerConfig": [],
    },
    "create_audience": {"name": "All", "condition": {"type": "condition", "condition": "AND", "rules": []}},
    "create_event_type": {"reference": "order", "name": "Order", "fields": []},
    "create_campaign": {"campaignSlug": "brand", "name": "Brand"},
    "update_campaign": {"name": "Brand"},
    "create_outlay": {
        "amount": 1,
        "startDate": "2025-01-01T00:00:00Z",
        "endDate": "2025-02-01T00:00:00Z",
    },
    "update_outlay": {"amount": 1},
    "set_rates": [],
    "create_key": {"publicKey": "of a client"},
}
QUERIES = {}


def test_a_granted_project_that_does_not_exist_is_not_found(call):
    assert call("GET", "/api/v1/projects/gone-shop/nodes").status == 404


def test_r003_one_project_never_answers_for_another(call, admin):
    path = f"/api/v1/projects/{{}}/interactions/{hex_id(1)}"
    assert call("GET", path.format("shop")).json()["nodeId"] == "ads"
    assert admin("GET", path.format("other-shop")).json()["nodeId"] == "secret-node"
    for body in ({}, {"isBot": None, "filtered": None}):
        found = call("POST", SEARCH, body).json()
        assert "secret-node" not in str(found)
    assert call("GET", "/api/v1/projects/shop/nodes").json()["total"] == 2


@pytest.mark.parametrize("name", OVER_HTTP)
def test_every_operation_has_a_scope(name):
    assert REQUIRED_SCOPES[name] in SCOPES


def test_g174_what_could_do_harm_has_the_scope_that_is_named_for_it():
    expected = {
        "delete_user": "privacy:write",
        "export_user_data": "privacy:write",
        "export_users": "users:export",
        "merge_users": "users:write",
        "split_user": "users:write",
        "create_event_sync": "events:write",
        "update_event_statistic": "events:write",
        "create_offline_interaction": "interactions:write",
        "archive_event_type": "event-types:write",
        "delete_outlay": "campaigns:write",
        "list_audit": "admin",
        "list_keys": "admin",
        "create_key": "admin",
        "revoke_key": "admin",
        "set_rates": "admin",
        "update_settings": "admin",
        "create_holdout": "admin",
        "delete_holdout": "admin",
        "back_up_project": "admin",
        "restore_project": "admin",
    }
    assert {name: REQUIRED_SCOPES[name] for name in expected} == expected


@pytest.fixture(scope="module")
def narrow(server, home):
    """Call with each scope alone."""
    key = create_key(home, home / "narrow.json", projects=["shop"])
    return {
        scope: Caller(server, token_of(server, key, scope=scope))
        for scope in SCOPES
        if scope != "full_access"
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_PROJECT)
def test_an_operation_is_allowed_by_its_scope_alone(narrow, name):
    body = b"no json" if name in WITH_BODY else None
    allowed = {scope for scope, caller in narrow.items() if caller.operation(name, body).status != 403}
    assert allowed == {REQUIRED_SCOPES[name]}


def test_a_search_by_sql_needs_a_scope_of_its_own(server, home):
    key = create_key(home, home / "sql.json", projects=["shop"])
    body = {"fields": [], "sqlQuery": "SELECT 1"}
    statuses = {
        scope: Caller(server, token_of(server, key, scope=scope)).operation("search_users", body).status
        for scope in ("users:read", "users:read users:sql")
    }
    assert statuses["users:read"] == 403
    assert statuses["users:read users:sql"] != 403


@pytest.mark.parametrize("name", ["get_interaction", "get_user"])
def test_g179_the_path_is_checked_after_permission(call, name):
    path = path_of(OPERATIONS[name]).replace("0" * 24, "NOT-AN-ID")
    reply = call("GET", path)
    assert (reply.status, reply.json()["details"][0]["field"]) == (400, "id")


def test_g179_the_path_is_checked_before_the_body(admin):
    reply = admin("POST", "/api/v1/projects/NOT_ONE/interactions/search", b"no json")
    assert reply.status == 400
    assert [each["field"] for each in reply.json()["details"]] == ["projectId"]
    # Too large a body is not even looked at. One byte too many: all are sent before the connection is closed.
    reply = admin("POST", "/api/v1/projects/NOT_ONE/interactions/search", b" " * ((32 << 20) + 1))
    assert reply.status == 400


def test_g179_the_body_is_checked_before_existence(admin):
    reply = admin("POST", "/api/v1/projects/no-shop/interactions/search", {"limit": -1})
    assert (reply.status, reply.json()["details"][0]["field"]) == (400, "/limit")


@pytest.mark.parametrize(
    "value", ["shop%0A", "Shop", "-shop", "sh--op", "s", "x" * 65, "..%2Fshop", "shop%00", "%FF"]
)
def test_r015_to_r018_a_project_id_has_its_form(admin, value):
    reply = admin("GET", f"/api/v1/projects/{value}/nodes")
    assert reply.status == 400
    assert reply.json()["details"][0]["field"] == "projectId"


# -- events, which need no token


@pytest.mark.parametrize("name", ["create_event", "create_event_sync"])
def test_g175_an_event_needs_no_token_but_one_is_honoured(anyone, call, server, home, name):
    event = {"projectId": "shop", "eventType": "order", "nonce": "1", "data": {}}
    assert anyone.operation(name, event).status not in (401, 403)
    assert anyone.operation(name, event, Authorization="Bearer nonsense").status == 401
    assert call.operation(name, event).status not in (401, 403)
    assert call.operation(name, {**event, "projectId": "other-shop"}).status == 403
    reader = create_key(home, home / f"{name}.json", projects=["shop"], scopes=["events:read"])
    no_writer = Caller(server, token_of(server, reader, scope="events:read"))
    assert no_writer.operation(name, b"no json").status == 403


@pytest.mark.parametrize("name", ["create_event", "create_event_sync"])
def test_g127_an_event_for_an_unknown_project_is_invalid(anyone, name):
    event = {"projectId": "no-shop", "eventType": "order", "nonce": "1", "data": {}}
    reply = anyone.operation(name, event)
    assert reply.status == 400
    assert "/projectId" in reply.json()["message"]


@pytest.mark.parametrize("name", ["create_event", "create_event_sync"])
def test_g136_an_event_has_a_mebibyte_at_most(anyone, name):
    event = {"projectId": "shop", "eventType": "order", "nonce": "1", "data": {"text": "x" * (1 << 20)}}
    reply = anyone.operation(name, event)
    assert reply.status == 413
    assert reply.json()["error"] == "Content Too Large"
