"""A service whose methods and paths differ."""

import json

import pytest
from support.scripted_service import Reply, page

from attrib_ds import errors, list_nodes, search_interactions
from attrib_ds.contract import OPERATIONS
from attrib_ds.transports.http.configuration import read_routes


@pytest.fixture
def routes(tmp_path):
    def written(text):
        path = tmp_path / "routes.toml"
        path.write_text(text)
        return path

    return written


def test_methods_and_paths_are_replaced_and_the_rest_travels_where_it_must(open_shop, service, routes):
    file = routes(
        '[list_nodes]\nmethod = "POST"\npath = "/sources/{projectId}/list"\n'
        '[search_interactions]\npath = "/touches"\n'
        '[create_event]\npath = "/projects/{projectId}/events"\n'
    )
    shop = open_shop(routes=file)
    service.script = [page(), page(), Reply(body="00000000-0000-7000-8000-000000000001")]
    list_nodes(shop, type="campaign", limit=2)
    search_interactions(shop, limit=1)
    shop.send("create_event", event_type="order", nonce="1", data={})
    nodes, search, event = service.asked
    assert (nodes.method, nodes.path) == ("POST", "/api/v1/sources/shop/list")
    assert json.loads(nodes.body) == {"type": "campaign", "limit": 2, "offset": 0}
    assert search.path == "/api/v1/touches"
    assert json.loads(search.body)["projectId"] == "shop"
    assert event.path == "/api/v1/projects/shop/events"
    assert "projectId" not in json.loads(event.body)


def test_the_token_route_too(open_shop, service, routes):
    service.script = [page(), page()]
    shop = open_shop(routes=routes('[exchange_token]\npath = "/token"\n'))
    service.script = [Reply(body={"access_token": "x"}), page()]
    list_nodes(shop, limit=5)
    assert [each.path for each in service.asked] == [
        "/auth/token",
        "/api/v1/projects/shop/nodes?offset=0&limit=5",
    ]


def test_what_is_not_named_stays(routes):
    found = read_routes(routes('[list_nodes]\npath = "/nodes"\n'))
    assert found.keys() == OPERATIONS.keys()
    assert [name for name in found if found[name] != OPERATIONS[name]] == ["list_nodes"]
    assert read_routes(routes("")) == OPERATIONS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[list_node]", "did you mean 'list_nodes'"),
        ("[load_records]", "'load_records' is not allowed"),
        ("[list_nodes]\nurl = 'x'", "routes/list_nodes: 'url' is not allowed"),
        ("list_nodes = 3", "list_nodes is not a table"),
        ("[list_nodes]\nmethod = 'FETCH'", "'FETCH' is not allowed"),
        ("[search_interactions]\nmethod = 'GET'", "'GET' is not allowed"),
        ("[exchange_token]\nmethod = 'PUT'", "'PUT' is not allowed"),
        ("[list_nodes]\npath = 'nodes'", "'nodes' is not allowed"),
        ("[list_nodes]\npath = '/nodes/'", "without a trailing slash"),
        ("[list_nodes]\npath = '/../{projectId}?x=1'", "is not allowed"),
        ("[list_nodes]\npath = '/{project}/nodes'", "did you mean 'projectId'"),
        ("[list_nodes]\npath = '/{limit}'", "'limit' is not allowed"),
        ("[list_nodes", "is not TOML"),
    ],
)
def test_files_that_are_not_in_order(routes, text, words):
    with pytest.raises(errors.InvalidRequest, match=words):
        read_routes(routes(text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(errors.InvalidRequest, match="does not exist"):
        read_routes(tmp_path / "gone.toml")
