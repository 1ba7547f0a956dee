"""Operations over HTTP: what they answer, the order of the checks before (G-179), and the words of their errors."""

from contextlib import closing
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from support.http_caller import Caller, path_of, token_of
from support.service_records import hex_id, uuid

from attrib_ds import connect
from attrib_ds.api.admin import list_rates
from attrib_ds.contract import OPERATIONS, build
from attrib_ds.keys import SCOPES
from attrib_ds.schema import HIT, INTERACTION, NODE
from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.dispatch import REQUIRED_SCOPES
from attrib_ds.service.http.server import Rate, ServerOptions, running

SEARCH = "/api/v1/projects/shop/interactions/search"
ARROW = "application/vnd.apache.arrow.stream"
OVER_HTTP = [name for name, each in OPERATIONS.items() if each.path and each.base != "auth"]
WITH_PROJECT = [name for name in OVER_HTTP if "{projectId}" in OPERATIONS[name].path]
WITH_BODY = [name for name in WITH_PROJECT if OPERATIONS[name].method != "GET"]


@pytest.mark.large
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


def test_an_interaction_has_every_property(call):
    reply = call("GET", f"/api/v1/projects/shop/interactions/{hex_id(1)}")
    assert reply.status == 200
    assert reply.json()["userData"] == {"vendorUserId": "u-1"}


def test_r132_an_empty_body_means_everything(call):
    for body in [None, b"", b"  \n", {}]:
        assert call("POST", SEARCH, body).json()["total"] == 2, body


def test_an_id_may_hold_a_slash_and_other_letters(call):
    node = call("GET", "/api/v1/projects/shop/nodes/shop%2C%20%22best%22%20of%20%C3%86r%C3%B8%2F%F0%9F%92%A1")
    assert (node.status, node.json()["name"]) == (200, "Shop")


def test_numbers_in_filters_keep_their_digits(call):
    exact = {"type": "predicate", "field": "duration", "operator": "equals", "value": 0.0}
    assert call("POST", SEARCH, {"interactionFilter": exact}).status == 200


def test_the_arrow_answer_holds_the_same_as_the_json_answer(call):
    for path, body, columns in [
        (
            SEARCH,
            {"isBot": None, "sort": {"startDate": 1}, "projection": list(INTERACTION.names)},
            INTERACTION,
        ),
        (f"/api/v1/projects/shop/interactions/{uuid(1)}/hits", None, HIT),
        ("/api/v1/projects/shop/nodes", None, NODE),
        (f"/api/v1/projects/shop/interactions/{hex_id(1)}", None, INTERACTION),
    ]:
        from attrib_ds.records.json_records import decode, read_page

        method = "GET" if body is None else "POST"
        reply = call(method, path, body, Accept=f"{ARROW}, application/json;q=0.5")
        assert reply.headers["Content-Type"] == ARROW, (path, body)
        assert reply.headers["Vary"] == "Accept", (path, body)
        with pa.ipc.open_stream(reply.content) as stream:
            table = stream.read_all()
        content = call(method, path, body).content
        is_record = body is None and path.endswith(hex_id(1))
        read = read_page(content, columns, is_record=is_record).table
        assert read.num_rows == table.num_rows > 0, (path, body)
        assert table.schema.names == columns.names, (path, body)
        for name in columns.names:
            # Offline interactions lack what sessions count.
            assert table[name].to_pylist() == read[name].to_pylist(), name
        told = decode(content)
        if isinstance(told, dict) and "total" in told:
            expected = {name.encode(): str(told[name]).encode() for name in ("total", "offset")}
            assert {name: table.schema.metadata[name] for name in (b"total", b"offset")} == expected, (
                path,
                body,
            )
            assert b"limit" not in table.schema.metadata, (path, body)


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


def test_r315_a_foreign_project_is_forbidden_before_its_body_is_read(call):
    for name in WITH_PROJECT:
        body = b"no json" if name in WITH_BODY else None
        replies = [
            # There is one, there is none, and there cannot be one.
            call.operation(name, body, project=project, X_Request_Id="same")
            for project in ("other-shop", "no-shop", "NO SHOP".replace(" ", "%20"))
        ]
        assert {reply.status for reply in replies} == {403}, name
        # To the letter alike, so that nobody finds out which projects there are.
        assert len({reply.content for reply in replies}) == 1, name
        assert replies[0].json() == {
            "statusCode": 403,
            "message": "Forbidden resource",
            "error": "Forbidden",
            "requestId": "same",
        }, name


def test_g178_who_may_use_all_projects_is_told_which_do_not_exist(admin):
    for name in WITH_PROJECT:
        reply = admin.operation(name, BODIES.get(name, {}), project="no-shop", query=QUERIES.get(name, ""))
        assert reply.status == 404, reply.content
        assert "no-shop" in reply.json()["message"], name


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
    "create_integration": {"vendorId": "post", "name": "Post"},
    "funnel": {"steps": ["/boots", "/cart"]},
    "page_conversions": {"page": "/thanks"},
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


def test_every_operation_has_a_scope():
    for name in OVER_HTTP:
        assert REQUIRED_SCOPES[name] in SCOPES, name


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


def test_a_funnel_of_events_needs_the_scope_of_events_too(server, home):
    """G-266."""
    key = create_key(home, home / "funnel.json", projects=["shop"])
    caller = Caller(server, token_of(server, key, scope="interactions:read"))
    steps = (["/", "/basket"], ["/", "order"])
    assert [caller.operation("funnel", {"steps": list(each)}).status for each in steps] == [200, 403]
    both = Caller(server, token_of(server, key, scope="interactions:read events:read"))
    assert both.operation("funnel", {"steps": ["/", "order"]}).status != 403


def test_g179_the_path_is_checked_after_permission(call):
    for name in ["get_interaction", "get_user"]:
        path = path_of(OPERATIONS[name]).replace("0" * 24, "NOT-AN-ID")
        reply = call("GET", path)
        assert (reply.status, reply.json()["details"][0]["field"]) == (400, "id"), name


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


# -- events, which need no token


@pytest.mark.slow
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


def test_g127_an_event_for_an_unknown_project_is_invalid(anyone):
    for name in ["create_event", "create_event_sync"]:
        event = {"projectId": "no-shop", "eventType": "order", "nonce": "1", "data": {}}
        reply = anyone.operation(name, event)
        assert reply.status == 400, name
        assert "/projectId" in reply.json()["message"], name


def test_g136_an_event_has_a_mebibyte_at_most(anyone):
    for name in ["create_event", "create_event_sync"]:
        event = {"projectId": "shop", "eventType": "order", "nonce": "1", "data": {"text": "x" * (1 << 20)}}
        reply = anyone.operation(name, event)
        assert reply.status == 413, name
        assert reply.json()["error"] == "Content Too Large", name


PROJECT = "/api/v1/projects/shop"
CAMPAIGNS = f"{PROJECT}/custom-ads/ads/campaigns"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("writing")
    create = OPERATIONS["create_integration"]
    with closing(Service.open("shop", home / "shop.duckdb")) as service:
        service.send(create, build(create, project_id="shop", vendor_id="ads", name="Ads"))
    return home


@pytest.fixture(scope="module")
def write(folder):
    """Call a server whose project may be changed."""
    key = create_key(folder, folder / "key.json", projects=["shop"])
    with running(folder, options=ServerOptions(rate_limits=None)) as url:
        yield Caller(url, token_of(url, key))


@pytest.fixture(scope="module")
def event_type(write):
    fields = [
        {
            "type": "email",
            "entity": "user",
            "storageKey": "email",
            "ingestionKey": "email",
            "discriminant": True,
        },
        {"type": "currency", "entity": "event", "storageKey": "turnover", "ingestionKey": "turnover"},
    ]
    usual = {"discriminant": False, "isPii": False, "isMostProbableLocation": False, "optional": False}
    body = {
        "reference": "order",
        "name": "Order",
        "fields": [usual | field for field in fields],
        "metadata": {},
    }
    reply = write("POST", f"{PROJECT}/event-types", body)
    assert reply.status == 201, reply.content
    assert reply.json()["reference"] == "order"
    return "order"


def event(nonce, **changes):
    data = {"email": "anna@example.com", "turnover": {"amount": 10.10, "currency": "EUR"}}
    return {"projectId": "shop", "eventType": "order", "nonce": nonce, "data": data, **changes}


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/events/sync"])
def test_an_event_is_answered_by_its_id(write, event_type, path):
    reply = Caller(write.url)("POST", path, event(path))
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    assert UUID(reply.json())
    assert write("POST", path, event(path)).json() == reply.json()


def test_r117_a_synchronous_event_is_there_at_once(write, event_type):
    event_id = write("POST", "/api/v1/events/sync", event("sync")).json()
    computed = write("GET", f"{PROJECT}/events/{event_id}").json()
    assert computed["user"]["email"]["current"] == "anna@example.com"
    assert computed["expirationPolicy"] is None
    assert {each["key"] for each in computed["metrics"]} >= {"turnover", "event-count"}
    raw = write("GET", f"{PROJECT}/events/{event_id}/raw").content
    assert b'"amount":10.1,' in raw.replace(b" ", b"")


def test_g132_an_invalid_synchronous_event_is_told_with_its_errors(write, event_type):
    # A decimal that is no binary fraction comes back as it was.
    reply = write("POST", "/api/v1/events/sync", event("wrong", data={"email": 0.10, "turnover": 1}))
    assert reply.status == 400
    body = reply.json()
    assert body["message"].startswith("/data/email: ")
    assert UUID(body["eventId"])
    (error,) = body["errors"]
    assert error["type"] == "invalid-field"
    assert error["field"]["storageKey"] == "email"
    assert "eventId" not in error
    assert b"0.1}" in reply.content or b"0.1," in reply.content
    trashed = write("GET", f"{PROJECT}/trashed-events").json()
    assert body["eventId"] in {each["_id"] for each in trashed["data"]}
    assert set(trashed) == {"count", "total", "data"}


def test_the_header_on_fields_of_trashed_events_changes_no_other_answer(call):
    assert call("POST", SEARCH, {}, X_Trashed_Field="string").json() == call("POST", SEARCH, {}).json()


def test_r320_an_invalid_asynchronous_event_is_accepted(write):
    assert write("POST", "/api/v1/events", event("unknown type", eventType="nonsense")).status == 200


def test_g131_a_nonce_with_other_content_is_a_conflict(write, event_type):
    write("POST", "/api/v1/events/sync", event("twice"))
    reply = write("POST", "/api/v1/events/sync", event("twice", trackerId="other"))
    assert (reply.status, reply.json()["error"]) == (409, "Conflict")
    assert reply.json()["message"].startswith("/nonce: ")


def test_g143_a_repeated_offline_interaction_was_not_created(write):
    body = {
        "date": "2025-01-31T12:00:00Z",
        "userData": {"email": "anna@example.com"},
        "nodeData": {"vendorId": "ads"},
        "externalId": "call-1",
    }
    replies = [write("POST", f"{PROJECT}/interactions/offline", body) for _ in range(2)]
    assert [reply.status for reply in replies] == [201, 200]
    assert replies[0].json() == replies[1].json()
    assert replies[0].json()["rawNodeData"] == {"vendorId": "ads"}
    assert "geo" not in replies[0].json()


def test_errors_of_the_service_name_members_of_the_body(write):
    body = {
        "date": "2025-01-31T12:00:00Z",
        "userData": {"email": "anna@example.com"},
        "nodeData": {"vendorId": "nobody"},
    }
    reply = write("POST", f"{PROJECT}/interactions/offline", body)
    assert reply.status == 400
    assert reply.json()["message"].startswith("/nodeData/vendorId: ")


@pytest.fixture(scope="module")
def campaign_id(write):
    reply = write("POST", CAMPAIGNS, {"campaignSlug": "brand", "name": "Brand"})
    assert reply.status == 200
    assert list(reply.json()) == ["id"]
    return reply.json()["id"]


def test_g246_creation_answers_the_slug_that_a_text_became(write):
    reply = write("POST", CAMPAIGNS, {"campaignSlug": "Winter Sale 50%", "name": "Winter"})
    assert (reply.status, reply.json()["campaignSlug"]) == (200, "winter-sale-50-41db560436")
    assert (
        write("GET", f"{CAMPAIGNS}/{reply.json()['id']}").json()["campaignSlug"]
        == "winter-sale-50-41db560436"
    )


def test_r118_a_campaign_is_changed_by_patch_and_its_synonym(write, campaign_id):
    path = f"{CAMPAIGNS}/{campaign_id}"
    for method, active, count in (("PATCH", False, 1), ("PUT", True, 1), ("PUT", True, 0)):
        reply = write(method, path, {"active": active})
        assert (reply.status, reply.json()) == (200, {"modifiedCount": count})
        assert write("GET", path).json()["active"] is active


def test_g183_a_slug_that_is_taken_is_a_conflict(write, campaign_id):
    reply = write("POST", CAMPAIGNS, {"campaignSlug": "brand", "name": "Other"})
    body = reply.json()
    assert (reply.status, body["statusCode"], body["error"]) == (409, 409, "Conflict")
    assert "brand" in body["message"]


def test_g042_an_outlay_keeps_its_digits(write, campaign_id):
    outlays = f"{CAMPAIGNS}/{campaign_id}/outlays"
    body = (
        b'{"amount": 123456789012345678.123456, "startDate": "2025-01-01T00:00:00Z", '
        b'"endDate": "2025-02-01T00:00:00+02:00"}'
    )
    outlay_id = write("POST", outlays, body).json()["id"]
    reply = write("GET", f"{outlays}/{outlay_id}")
    assert b'"amount":{"amount":123456789012345678.123456,"currency":"EUR"}' in reply.content
    assert reply.json()["endDate"] == "2025-01-31T22:00:00.000Z"
    page = write("GET", f"{outlays}?since=2025-01-15T00:00:00+01:00&limit=5").json()
    assert {name: page[name] for name in ("count", "total", "offset", "limit")} == {
        "count": 1,
        "total": 1,
        "offset": 0,
        "limit": 5,
    }


def test_g033_a_state_is_set_by_any_of_its_methods(write, event_type):
    event_id = write("POST", "/api/v1/events/sync", event("states")).json()
    path = f"{PROJECT}/events/{event_id}/statistics/turnover"
    for method, value in (("PUT", 1), ("PATCH", 2), ("POST", 3.5)):
        reply = write(method, path, {"value": value})
        assert reply.status == 200, reply.content
        assert reply.json()["data"]["current"] == {"amount": value, "currency": "EUR"}
    assert write("PUT", path.replace("turnover", "nonsense"), {"value": 1}).status == 404


# -- many events, validation, replay, settings -----------------------------------------------------------


def sent(nonce, **others):
    data = {"email": "anna@example.com", "turnover": 5}
    return {"projectId": "shop", "eventType": "order", "nonce": nonce, "data": data, **others}


def test_g137_each_event_of_a_batch_has_an_answer_of_its_own(write, anonymous, event_type):
    body = [
        sent("batch-1"),
        sent("batch-2", data=[]),
        sent("batch-3", projectId="no-shop"),
        sent("batch-1"),
        sent("batch-4", data={"email": "nobody", "turnover": 5}),
    ]
    reply = anonymous("POST", "/api/v1/events/batch?wait=true", body)
    assert reply.status == 200, reply.content
    first, envelope, project, repeat, trash = reply.json()
    assert UUID(first["id"]).version == 7
    assert repeat == first
    assert (
        envelope["error"]["statusCode"]
        == project["error"]["statusCode"]
        == trash["error"]["statusCode"]
        == 400
    )
    assert envelope["error"]["message"].startswith("/data: ")
    assert envelope["error"]["details"][0]["field"] == "/data"
    assert project["error"]["message"] == "/projectId: there is no project 'no-shop'"
    assert trash["error"]["errors"][0]["type"] == "invalid-field"
    assert write("GET", f"{PROJECT}/events/{first['id']}").status == 200
    assert write("GET", f"{PROJECT}/events/{trash['error']['eventId']}").status == 404
    (again,) = write(
        "POST", "/api/v1/events/batch?projectId=shop", [{**sent("batch-1"), "projectId": None}]
    ).json()
    assert again == first
    (other,) = write("POST", "/api/v1/events/batch?wait=true", [sent("batch-1", trackerId="t")]).json()
    assert other["error"]["statusCode"] == 409
    assert other["error"]["message"].startswith("/nonce: ")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "body: an object is not allowed; expected an array"),
        ("null", "body: null is not allowed; expected an array"),
        ("", "body: is required"),
        ([{}] * 1_001, "body: "),
    ],
)
def test_g137_what_is_no_batch(write, body, message):
    reply = write("POST", "/api/v1/events/batch", body)
    assert reply.status == 400
    assert reply.json()["message"].startswith(message)


def test_g137_a_batch_may_be_larger_than_an_event_and_deep_ones_spoil_no_other(write, event_type):
    deep = '{"a":' * 100 + "1" + "}" * 100
    rest = '"projectId": "shop", "eventType": "order"'
    texts = [
        f'{{{rest}, "nonce": "large-{each}", "data": {{"email": "{"a" * 700_000}"}}}}' for each in range(2)
    ]
    body = f'[{texts[0]}, {{{rest}, "nonce": "deep", "data": {deep}}}, {texts[1]}]'
    told = write("POST", "/api/v1/events/batch", body).json()
    assert [list(each) for each in told] == [["id"], ["error"], ["id"]]
    assert "nested too deeply" in told[1]["error"]["message"]


def test_g138_validation_over_http(write, anonymous, event_type):
    reply = anonymous("POST", "/api/v1/events/validate", sent("v-1", data={"email": "nobody", "turnover": 5}))
    assert (reply.status, [each["type"] for each in reply.json()["errors"]]) == (200, ["invalid-field"])
    assert anonymous("POST", "/api/v1/events/validate", sent("v-1")).json() == {"errors": []}
    assert anonymous("POST", "/api/v1/events/validate", sent("v-1", data=None)).status == 400


def test_g057_replay_over_http(write):
    trash = write("POST", "/api/v1/events/sync", sent("replay-1", eventType="replayed")).json()
    path = f"{PROJECT}/trashed-events/{trash['eventId']}/replay"
    again = write("POST", path)
    assert (again.status, again.json()["eventId"]) == (400, trash["eventId"])
    assert again.json()["errors"][0]["type"] == "unknown-event-type"
    assert (
        write("POST", f"{PROJECT}/event-types", {"reference": "replayed", "name": "R", "fields": []}).status
        == 201
    )
    reply = write("POST", path)
    assert (reply.status, reply.json()) == (200, trash["eventId"])
    assert write("POST", path).status == 404


def test_g077_g158_event_types_over_http(write):
    path = f"{PROJECT}/event-types"
    field = {"type": "state", "entity": "event", "storageKey": "won"}
    assert write("POST", path, {"reference": "deal", "name": "Deal", "fields": [field]}).status == 201
    assert write("PATCH", f"{path}/deal", {"name": "Big deal"}).json()["name"] == "Big deal"
    reply = write("PATCH", f"{path}/deal", {"fields": [{**field, "type": "number"}]})
    assert (reply.status, reply.json()["message"].partition(":")[0]) == (409, "/fields/0/type")
    assert write("POST", f"{path}/deal/archive").json()["archivedAt"] is not None
    assert write("POST", f"{path}/deal/restore").json()["archivedAt"] is None
    assert write("POST", f"{path}/no-deal/archive").status == 404


def test_g078_an_outlay_is_deleted_over_http(write):
    campaign = write("POST", CAMPAIGNS, {"campaignSlug": "deleted", "name": "Deleted"}).json()["id"]
    outlays = f"{CAMPAIGNS}/{campaign}/outlays"
    week = {"startDate": "2025-03-03T00:00:00Z", "endDate": "2025-03-10T00:00:00Z"}
    id = write("POST", outlays, {"amount": 70, **week}).json()["id"]
    reply = write("DELETE", f"{outlays}/{id}")
    assert (reply.status, reply.json()) == (200, {"modifiedCount": 1})
    assert write("DELETE", f"{outlays}/{id}").status == 404
    assert write("GET", outlays).json()["total"] == 0
    assert write("GET", f"{outlays}?deleted=true").json()["data"][0]["_id"] == id


def test_g065_rates_over_http(write):
    path = f"{PROJECT}/rates"
    rate = {"currency": "NOK", "date": "2025-01-01T00:00:00Z", "rate": 0.085}
    assert write("PUT", path, [rate]).json() == {"modifiedCount": 1}
    assert write("GET", path).json()["data"] == [{**rate, "date": "2025-01-01T00:00:00.000Z"}]
    reply = write("PUT", path, [rate, {**rate, "rate": 0}])
    assert (reply.status, reply.json()["details"][0]["field"]) == (400, "/1/rate")
    reply = write("PUT", path, [{**rate, "currency": "EUR"}])
    assert (reply.status, reply.json()["message"].partition(":")[0]) == (400, "/0/currency")


@pytest.fixture(scope="module")
def anonymous(write):
    return Caller(write.url)


@pytest.mark.slow
def test_g175_a_project_may_take_events_from_holders_of_a_token_alone(tmp_path):
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        update = OPERATIONS["update_settings"]
        service.send(update, build(update, project_id="shop", require_token_for_events=True))
    Service.open("open-shop", tmp_path / "open-shop.duckdb").close()
    key = create_key(tmp_path, tmp_path / "key.json", projects=["shop"])
    with running(tmp_path, options=ServerOptions(rate_limits=None)) as url:
        anyone, holder = Caller(url), Caller(url, token_of(url, key))
        for path in ("/events", "/events/sync", "/events/validate"):
            assert anyone("POST", f"/api/v1{path}", sent("t-1")).status == 401
        assert anyone("POST", "/api/v1/events/batch", [sent("t-1")]).status == 401
        both = [sent("t-1"), sent("t-1", projectId="open-shop")]
        refused, taken = anyone("POST", "/api/v1/events/batch", both).json()
        assert (refused["error"]["statusCode"], list(taken)) == (401, ["id"])
        assert holder("POST", "/api/v1/events", sent("t-1")).status == 200
        assert holder("POST", "/api/v1/events/batch", [sent("t-2")]).status == 200
        # Every project of a batch must be granted to the token that is sent.
        assert holder("POST", "/api/v1/events/batch", both).status == 403
        changed = holder("PATCH", f"{PROJECT}/settings", {"requireTokenForEvents": False})
        assert changed.json()["requireTokenForEvents"] is False
        assert holder("GET", f"{PROJECT}/settings").json() == changed.json()


KEY = "ingest-key-of-the-shop"
ORIGIN = "https://shop.example"


@pytest.mark.parametrize(
    ("settings", "headers", "status"),
    [
        ({"ingestKeys": [KEY]}, {}, 401),
        ({"ingestKeys": [KEY]}, {"X-Ingest-Key": "another-key-entirely"}, 401),
        ({"ingestKeys": ["another-key-entirely", KEY]}, {"X-Ingest-Key": KEY}, 200),
        ({"allowedOrigins": [ORIGIN]}, {}, 403),
        ({"allowedOrigins": [ORIGIN]}, {"Origin": "https://shop.example.evil"}, 403),
        ({"allowedOrigins": [ORIGIN]}, {"Origin": ORIGIN}, 200),
        ({"ingestKeys": [KEY], "allowedOrigins": [ORIGIN]}, {"Origin": ORIGIN}, 401),
        ({"ingestKeys": [KEY], "allowedOrigins": [ORIGIN]}, {"X-Ingest-Key": KEY, "Origin": ORIGIN}, 200),
        ({"ingestKeys": [KEY], "requireTokenForEvents": True}, {"X-Ingest-Key": KEY}, 401),
    ],
)
def test_g175_events_without_a_token_need_a_key_and_an_origin(write, anonymous, settings, headers, status):
    usual = {"ingestKeys": [], "allowedOrigins": [], "requireTokenForEvents": False}
    write("PATCH", f"{PROJECT}/settings", usual | settings)
    try:
        # The second one finds the settings in memory, and takes no thread.
        for _ in range(2):
            assert anonymous("POST", "/api/v1/events", sent(f"k-{uuid4()}"), **headers).status == status
        batch = [sent(f"k-{uuid4()}")]
        assert anonymous("POST", "/api/v1/events/batch", batch, **headers).status == status
        # A token is enough.
        assert write("POST", "/api/v1/events", sent(f"k-{uuid4()}")).status == 200
    finally:
        write("PATCH", f"{PROJECT}/settings", usual)


@pytest.mark.large
@pytest.mark.slow
def test_g101_the_page_size_of_a_server_is_capped(tmp_path):
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        rates = [{"currency": code, "date": "2025-01-01", "rate": 2} for code in ("NOK", "SEK", "USD")]
        operation = OPERATIONS["set_rates"]
        service.send(operation, build(operation, project_id="shop", rates=rates))
    key = create_key(tmp_path, tmp_path / "key.json", projects=["shop"])
    with running(tmp_path, options=ServerOptions(rate_limits=None, max_page_size=2)) as url:
        holder = Caller(url, token_of(url, key))
        for query, count in [("", 2), ("?limit=3", 2), ("?limit=1", 1), ("?offset=2", 1), ("?limit=0", 0)]:
            page = holder("GET", f"{PROJECT}/rates{query}").json()
            assert (page["count"], page["total"]) == (count, 3), query
        with connect("shop", url=f"{url}/api/v1", key=tmp_path / "key.json") as shop:
            assert list_rates(shop)["currency"].tolist() == ["NOK", "SEK", "USD"]


@pytest.mark.large
@pytest.mark.slow
def test_g227_a_changed_setting_holds_from_its_answer_on(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    key = create_key(tmp_path, tmp_path / "key.json", projects=["shop"])
    with running(tmp_path, options=ServerOptions(rate_limits=None)) as url:
        anyone, holder = Caller(url), Caller(url, token_of(url, key))
        statuses = []
        for number in range(6):
            required = number % 2 == 0
            assert holder("PATCH", f"{PROJECT}/settings", {"requireTokenForEvents": required}).status == 200
            statuses.append(anyone("POST", "/api/v1/events", sent(f"t-{number}")).status)
        assert statuses == [401, 200] * 3


def test_g227_null_clears_the_retention_period(write):
    path = f"{PROJECT}/settings"
    kept = write("PATCH", path, {"retentionDurationInDays": 30, "piiFields": ["email"]}).json()
    assert (kept["retentionDurationInDays"], kept["piiFields"]) == (30, ["email"])
    cleared = write("PATCH", path, {"retentionDurationInDays": None}).json()
    assert (cleared["retentionDurationInDays"], cleared["piiFields"]) == (0, ["email"])
    assert write("PATCH", path, {"lenientOptionalFields": None, "piiFields": []}).json()["piiFields"] == []


def test_g227_null_clears_the_retention_period_of_an_event_type(write):
    created = {"reference": "lead", "name": "Lead", "expirationPolicy": {"retentionDurationInDays": 30}}
    assert write("POST", f"{PROJECT}/event-types", created).status == 201
    path = f"{PROJECT}/event-types/lead"
    changed = write("PATCH", path, {"expirationPolicy": {"retentionDurationInDays": None}}).json()
    assert changed.get("expirationPolicy") is None


@pytest.mark.large
@pytest.mark.slow
def test_g185_each_event_of_a_batch_counts(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    rates = {"events": Rate(5, 10_000)}
    with running(tmp_path, options=ServerOptions(rate_limits=rates)) as url:
        anyone = Caller(url)
        statuses = [
            anyone("POST", "/api/v1/events/batch", [sent(f"r-{each}") for each in range(4)]).status
            for _ in range(3)
        ]
        assert statuses == [200, 429, 429]


V1, V2 = "/api/v1/projects/shop", "/api/v2/projects/shop"
USERS_SEARCH = f"{V2}/users/search"
EVERYBODY = {"type": "condition", "condition": "AND", "rules": []}


def test_a_page_of_users_as_arrow(call):
    reply = call("POST", USERS_SEARCH, {"fields": ["hitCount"]}, Accept="application/vnd.apache.arrow.stream")
    with pa.ipc.open_stream(reply.content) as stream:
        assert stream.read_all().to_pylist() == [{"_id": hex_id(900), "hitCount": 2}]


def test_audiences_come_and_go(call):
    reply = call("POST", f"{V1}/audiences", {"name": "All", "condition": EVERYBODY})
    created = reply.json()
    assert (reply.status, created["size"], created["condition"]) == (201, 1, EVERYBODY)
    one = f"{V1}/audiences/{created['_id']}"
    assert call("GET", one).json()["name"] == "All"
    assert [each["_id"] for each in call("GET", f"{V1}/audiences").json()["data"]] == [created["_id"]]
    reply = call("DELETE", one)
    assert (reply.status, reply.json()) == (200, {"modifiedCount": 1})
    assert call("DELETE", one).status == call("GET", one).status == 404
