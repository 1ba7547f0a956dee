"""Users and audiences over HTTP."""

import pyarrow as pa
import pytest
from support.service_records import hex_id

V1, V2 = "/api/v1/projects/shop", "/api/v2/projects/shop"
SEARCH = f"{V2}/users/search"
EVERYBODY = {"type": "condition", "condition": "AND", "rules": []}


def test_r254_a_page_of_users(call):
    keys = ["fields.vendorUserId", "eventTypesCount", "metrics.event-count.count", "interactionCount"]
    reply = call("POST", SEARCH, {"fields": keys, "limit": 1})
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    body = reply.json()
    (user,) = body.pop("data")
    assert body == {"offset": 0, "limit": 1, "count": 1, "total": 1}
    (value,) = user.pop("fields")["vendorUserId"]
    assert (value["current"], value["from"]) == ("u-1", {"type": "interaction", "id": hex_id(1)})
    counts = {"eventTypesCount": {}, "metrics": {"event-count": {"count": 0}}, "interactionCount": 2}
    assert user == {"_id": hex_id(900), **counts}


def test_r236_an_empty_list_of_fields_returns_ids_alone(call):
    assert call("POST", SEARCH, {"fields": []}).json()["data"] == [{"_id": hex_id(900)}]


def test_search_is_served_under_v2_alone(call):
    # Under v1 this is the path of a user.
    assert call("POST", f"{V1}/users/search", {"fields": []}).status == 405


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({}, 400, "/fields: is required"),
        ({"fields": ["fields.emial"]}, 400, "/fields/0: 'fields.emial' is not allowed (did you mean 'fields.email'?)"),
        ({"fields": [], "sort": "eventTypesCount.order"}, 400, "/sort: "),
        ({"fields": [], "order": "asc"}, 400, "/order: "),
        ({"fields": [], "idTo": "x"}, 400, "/idTo: "),
        ({"fields": [], "multiFieldMode": "first"}, 400, "/multiFieldMode: "),
        (
            {"fields": [], "filters": {"type": "fields", "field": "nick", "operator": "isNull"}},
            400,
            "/filters: 'fields.nick' is not allowed",
        ),
        (
            {"fields": [], "audienceCondition": {"type": "audience", "operator": "in", "value": ["a1"]}},
            404,
            "/audienceCondition: there is no audience 'a1'",
        ),
    ],
)  # fmt: skip
def test_r254_what_is_refused(call, body, status, told):
    reply = call("POST", SEARCH, body)
    assert (reply.status, reply.json()["statusCode"]) == (status, status)
    assert reply.json()["message"].startswith(told)


def test_a_page_of_users_as_arrow(call):
    reply = call("POST", SEARCH, {"fields": ["hitCount"]}, Accept="application/vnd.apache.arrow.stream")
    with pa.ipc.open_stream(reply.content) as stream:
        assert stream.read_all().to_pylist() == [{"_id": hex_id(900), "hitCount": 2}]


def test_r255_one_user(call):
    user = call("GET", f"{V1}/users/{hex_id(900)}").json()
    assert (user["_id"], user["vendorUserIds"], user["eventTypeMeta"]) == (hex_id(900), ["u-1"], {})
    assert "mostProbableLocation" not in user
    assert call("GET", f"{V1}/users/{hex_id(901)}").status == 404
    assert call("GET", f"{V1}/users/anna").status == 400


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
